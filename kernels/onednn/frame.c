/* What executing a primitive of oneDNN needs besides: the engine, once for all, and a frame (memory
 * objects and a stream) for each call under way. A primitive keeps a few spare frames, taken and
 * put back with an atomic exchange, so that a warm call does not allocate. */
#include "kernels/onednn/prim.h"

#include <pthread.h>
#include <stdlib.h>

dnnl_engine_t td_onednn_engine;

/* The memo of primitives is the cache (onednn.c): the library's own kept as many again. */
static void start(void)
{
    dnnl_set_primitive_cache_capacity(0);
    if (dnnl_engine_create(&td_onednn_engine, dnnl_cpu, 0) != dnnl_success)
        td_onednn_engine = NULL;
}

bool td_onednn_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return td_onednn_engine != NULL;
}

void td_onednn_frame_destroy(struct td_onednn_frame *f)
{
    if (!f)
        return;
    for (int i = 0; i < SLOTS; i++) {
        dnnl_memory_destroy(f->user[i]);
        dnnl_memory_destroy(f->own[i]);
    }
    dnnl_memory_destroy(f->bias);
    dnnl_memory_destroy(f->pad);
    for (int i = 0; i < TD_POSTS; i++)
        dnnl_memory_destroy(f->post[i]);
    dnnl_stream_destroy(f->stream);
    free(f);
}

static struct td_onednn_frame *frame_create(const struct td_onednn_prim *p)
{
    dnnl_status_t status = dnnl_out_of_memory;
    struct td_onednn_frame *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    TRY(dnnl_stream_create(&f->stream, td_onednn_engine, dnnl_stream_default_flags));
    for (int i = 0; i < SLOTS; i++) {
        TRY(dnnl_memory_create(&f->user[i], p->user[i], td_onednn_engine, DNNL_MEMORY_NONE));
        if (p->own[i])
            TRY(dnnl_memory_create(&f->own[i], p->own[i], td_onednn_engine, DNNL_MEMORY_NONE));
    }
    if (p->bias)
        TRY(dnnl_memory_create(&f->bias, p->bias, td_onednn_engine, DNNL_MEMORY_NONE));
    for (int i = 0; i < p->posts; i++)
        if (p->post[i])
            TRY(dnnl_memory_create(&f->post[i], p->post[i], td_onednn_engine, DNNL_MEMORY_NONE));
    TRY(dnnl_memory_create(&f->pad, p->pad, td_onednn_engine, DNNL_MEMORY_NONE));
out:
    if (status == dnnl_success)
        return f;
    td_onednn_frame_destroy(f);
    return NULL;
}

struct td_onednn_frame *td_onednn_frame_take(struct td_onednn_prim *p)
{
    for (int i = 0; i < TD_ONEDNN_SPARES; i++) {
        struct td_onednn_frame *f = atomic_exchange(&p->spare[i], NULL);
        if (f)
            return f;
    }
    return frame_create(p);
}

void td_onednn_frame_put(struct td_onednn_prim *p, struct td_onednn_frame *f)
{
    for (int i = 0; f && i < TD_ONEDNN_SPARES; i++)
        f = atomic_exchange(&p->spare[i], f); /* one that was there moves on */
    td_onednn_frame_destroy(f);
}
