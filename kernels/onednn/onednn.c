/* Primitives of oneDNN, found and run.
 *
 * A primitive costs milliseconds to make and well under a microsecond to find: they sit in a memo
 * keyed by everything that shaped them. Who has found one keeps a reference for as long as he calls
 * it. Making one is prim.c.
 *
 * The number of threads is a property of a primitive, and oneDNN reads it from OpenMP's per-thread
 * setting both when it makes and when it runs one. Setting that is a store to thread-local memory,
 * done only where it differs. */
#include "kernels/memo.h"
#include "kernels/onednn/prim.h"
#include "kernels/weight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int threads_set(int threads) /* gives back what was set before */
{
#ifdef _OPENMP
    int before = omp_get_max_threads();
    if (before != threads)
        omp_set_num_threads(threads);
    return before;
#else
    return threads;
#endif
}

/* ---- the memo ---- */

_Static_assert(sizeof(struct td_onednn_desc) ==
                   (5 * TD_MAX_RANK + 15) * 8 + 8 * 4 + TD_POSTS * sizeof(struct td_onednn_post),
               "a description has holes, so it cannot be compared as bytes");

/* What a description, its layouts and frames hold, and each primitive with its code: about what
 * the process grew by with 1,024 of them. */
#define BYTES_DESCRIBED ((size_t)24 << 10)
#define BYTES_PRIMITIVE ((size_t)20 << 10)

static struct td_weight_room *room; /* that answers for them; NULL: nobody counts */
static atomic_size_t used;

void td_onednn_count(struct td_weight_room *counts)
{
    room = counts;
}

size_t td_onednn_bytes(void)
{
    return atomic_load(&used);
}

static void destroy(void *value)
{
    struct td_onednn_prim *p = value;
    size_t bytes = p->bytes;
    td_onednn_prim_destroy(p);
    atomic_fetch_sub(&used, bytes);
    if (bytes)
        room->give(room, bytes, false);
}

/* The primitive, or NULL where there is no room for it. */
static struct td_onednn_prim *count(struct td_onednn_prim *p, int *error)
{
    size_t bytes = BYTES_DESCRIBED + BYTES_PRIMITIVE;
    for (int i = 0; p && i < SLOTS; i++)
        bytes += p->reorder[i] ? BYTES_PRIMITIVE : 0;
    if (!p || !room)
        return p;
    *error = room->take(room, bytes, false);
    if (*error) {
        td_onednn_prim_destroy(p);
        return NULL;
    }
    p->bytes = bytes;
    atomic_fetch_add(&used, bytes);
    return p;
}

static void *create(const void *key, int *error)
{
    const struct td_onednn_desc *desc = key;
    if (!td_onednn_start())
        return NULL;
    int before = threads_set(desc->threads);
    struct td_onednn_prim *p = count(td_onednn_prim_create(desc, error), error);
    threads_set(before);
    return p;
}

static struct td_memo primitives = TD_MEMO(sizeof(struct td_onednn_desc), create, destroy);

const char *td_onednn_prepare(const struct td_onednn_desc *desc, struct td_prepared *prepared)
{
    struct td_memo_item **item = prepared->state;
    while (*item)
        item++;
    *item = prepared->only_look ? td_memo_find(&primitives, desc) : td_memo_get(&primitives, desc);
    if (!*item) {
        prepared->unmade = prepared->only_look;
        return prepared->only_look ? NULL : "there is no memory for its primitive";
    }
    const struct td_onednn_prim *p = td_memo_value(*item);
    if (!p)
        return "the library has nothing but its own reference for this";
    prepared->scratch = p->scratch > prepared->scratch ? p->scratch : prepared->scratch;
    return NULL;
}

void td_onednn_forget(void)
{
    td_memo_clear(&primitives);
}

/* ---- running ---- */

struct packing {
    const struct td_onednn_prim *prim;
    struct td_onednn_frame *frame;
};

/* td_weight_fill: the stored weight in the primitive's layout. */
static int pack(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct packing *how = arg;
    const struct td_onednn_prim *p = how->prim;
    struct td_onednn_frame *f = how->frame;
    dnnl_primitive_t r = NULL;
    dnnl_status_t status;
    TRY(td_onednn_reorder(&r, p->user[WEIGHT], p->own[WEIGHT], NULL));
    TRY(dnnl_memory_set_data_handle(f->user[WEIGHT], plain->data));
    TRY(dnnl_memory_set_data_handle(f->own[WEIGHT], packed));
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, f->user[WEIGHT]}, {DNNL_ARG_TO, f->own[WEIGHT]}};
    TRY(dnnl_primitive_execute(r, f->stream, 2, args));
    TRY(dnnl_stream_wait(f->stream));
out:
    dnnl_primitive_destroy(r);
    return status == dnnl_success ? 0 : status == dnnl_out_of_memory ? -ENOMEM : -EIO;
}

static size_t form_size(const struct td_onednn_prim *p)
{
    return dnnl_memory_desc_get_size(p->own[WEIGHT]);
}

/* The stored weight as the primitive wants it; where the store has no room for that, made for this
 * call and put into the frame. */
static const void *form_of(const struct td_onednn_prim *p, struct td_onednn_frame *f,
                           struct td_weight *weight)
{
    struct packing how = {p, f};
    const void *kept = weight ? td_weight_pack(weight, &p->form, sizeof p->form, p->form_name,
                                               form_size(p), pack, &how, td_onednn_unpack)
                              : NULL;
    if (!kept && weight)
        f->once = td_weight_pack_once(weight, form_size(p), pack, &how);
    return kept ? kept : f->once;
}

/* Points the frame's memory objects at this call's data. */
static dnnl_status_t aim(const struct td_onednn_prim *p, struct td_onednn_frame *f,
                         const struct td_onednn_args *args)
{
    void *data[SLOTS] = {args->src, args->weight->data, args->dst};
    char *scratch = args->scratch;
    dnnl_status_t status;
    for (int i = 0; i < SLOTS; i++) {
        TRY(dnnl_memory_set_data_handle(f->user[i], data[i]));
        if (p->reorder[i])
            TRY(dnnl_memory_set_data_handle(f->own[i], scratch + p->at[i]));
    }
    if (p->own[WEIGHT] && !p->reorder[WEIGHT]) {
        const void *form = form_of(p, f, td_weight_of(args->weight));
        if (!form)
            return dnnl_out_of_memory;
        TRY(dnnl_memory_set_data_handle(f->own[WEIGHT], (void *)form));
    }
    if (p->bias)
        TRY(dnnl_memory_set_data_handle(f->bias, (void *)args->bias));
    for (int i = 0; i < p->posts; i++)
        if (p->post[i])
            TRY(dnnl_memory_set_data_handle(f->post[i], (void *)args->post[i]));
    TRY(dnnl_memory_set_data_handle(f->pad, scratch));
out:
    return status;
}

static dnnl_status_t reorder(const struct td_onednn_prim *p, struct td_onednn_frame *f, int slot)
{
    bool out = slot == (int)p->out;
    dnnl_memory_t from = out ? f->own[slot] : f->user[slot];
    dnnl_memory_t to = out ? f->user[slot] : f->own[slot];
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, f->pad}};
    return p->reorder[slot] ? dnnl_primitive_execute(p->reorder[slot], f->stream, 3, args)
                            : dnnl_success;
}

static dnnl_status_t execute(const struct td_onednn_prim *p, struct td_onednn_frame *f)
{
    dnnl_memory_t use[SLOTS];
    dnnl_status_t status;
    for (int i = 0; i < SLOTS; i++)
        use[i] = f->own[i] ? f->own[i] : f->user[i];
    dnnl_exec_arg_t args[5 + TD_POSTS] = {{p->arg[SRC], use[SRC]},
                                          {p->arg[WEIGHT], use[WEIGHT]},
                                          {p->arg[DST], use[DST]},
                                          {DNNL_ARG_SCRATCHPAD, f->pad}};
    int n = 4;
    if (p->bias)
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, f->bias};
    for (int i = 0; i < p->posts; i++)
        if (p->post[i])
            args[n++] = (dnnl_exec_arg_t){p->post_arg[i], f->post[i]};
    for (int i = 0; i < SLOTS; i++)
        if (i != (int)p->out)
            TRY(reorder(p, f, i));
    TRY(dnnl_primitive_execute(p->main, f->stream, n, args));
    TRY(reorder(p, f, (int)p->out));
    TRY(dnnl_stream_wait(f->stream));
out:
    return status;
}

int td_onednn_run(const struct td_memo_item *item, const struct td_onednn_args *args)
{
    struct td_onednn_prim *p = td_memo_value(item);
    struct td_onednn_frame *f = td_onednn_frame_take(p);
    dnnl_status_t status = dnnl_out_of_memory;
    if (f) {
        int before = threads_set(p->threads);
        status = aim(p, f, args);
        if (status == dnnl_success)
            status = execute(p, f);
        threads_set(before);
        if (f->once)
            td_weight_unpack(td_weight_of(args->weight), f->once, form_size(p));
        f->once = NULL;
        td_onednn_frame_put(p, f);
    }
    if (status != dnnl_success && td_weight_of(args->weight))
        td_weight_pin(td_weight_of(args->weight)); /* the caller computes with it as it lies */
    return status == dnnl_success ? 0 : status == dnnl_out_of_memory ? -ENOMEM : -EIO;
}
