/* Forms hang in a list that only grows, its head atomic: a reader walks it without a lock (a weight
 * has one form or two), a maker holds the mutex and looks again before it makes one. */
#include "kernels/weight.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct form {
    struct td_weight_form see; /* first, so that the list that readers see is the list itself */
    size_t key_len;
    unsigned char key[];
};

struct td_weight {
    atomic_int refs;
    struct td_tensor tensor;
    pthread_mutex_t lock; /* held while a form is made */
    _Atomic(const struct td_weight_form *) forms;
};

/* Zeroed, on a cache line, 64 readable bytes longer than asked for. NULL when there is no memory.
 */
static void *buffer(size_t bytes)
{
    if (bytes > SIZE_MAX - 127)
        return NULL;
    size_t size = (bytes + 127) & ~(size_t)63;
    void *p = aligned_alloc(64, size);
    return p ? memset(p, 0, size) : NULL;
}

int td_weight_create(struct td_weight **weight, const struct td_tensor *like)
{
    struct td_weight *w = calloc(1, sizeof *w);
    size_t bytes = td_nbytes(like);
    void *data = buffer(bytes);
    if (!w || !data) {
        free(w);
        free(data);
        return -ENOMEM;
    }
    if (like->data && bytes)
        memcpy(data, like->data, bytes);
    atomic_init(&w->refs, 1);
    pthread_mutex_init(&w->lock, NULL);
    w->tensor = *like;
    w->tensor.data = data;
    w->tensor.weight = w;
    *weight = w;
    return 0;
}

struct td_weight *td_weight_ref(struct td_weight *weight)
{
    atomic_fetch_add(&weight->refs, 1);
    return weight;
}

void td_weight_unref(struct td_weight **weight)
{
    struct td_weight *w = *weight;
    *weight = NULL;
    if (!w || atomic_fetch_sub(&w->refs, 1) != 1)
        return;
    for (const struct td_weight_form *form = w->forms, *next; form; form = next) {
        next = form->next;
        free((void *)form->data);
        free((void *)form);
    }
    pthread_mutex_destroy(&w->lock);
    free(w->tensor.data);
    free(w);
}

const struct td_tensor *td_weight_tensor(const struct td_weight *weight)
{
    return &weight->tensor;
}

struct td_weight *td_weight_of(const struct td_tensor *view)
{
    struct td_weight *w = view->weight;
    return w && view->data == w->tensor.data && view->dtype == w->tensor.dtype &&
                   td_numel(view) == td_numel(&w->tensor)
               ? w
               : NULL;
}

static const struct td_weight_form *find(const struct td_weight *w, const void *key, size_t key_len)
{
    const struct td_weight_form *form = atomic_load_explicit(&w->forms, memory_order_acquire);
    for (; form; form = form->next) {
        const struct form *f = (const struct form *)form;
        if (f->key_len == key_len && !memcmp(f->key, key, key_len))
            return form;
    }
    return NULL;
}

/* With the lock held. */
static const struct td_weight_form *make(struct td_weight *w, const void *key, size_t key_len,
                                         const char *name, size_t bytes, td_weight_fill *fill,
                                         void *arg)
{
    struct form *form = calloc(1, sizeof *form + key_len);
    void *data = form ? buffer(bytes) : NULL;
    if (!data || fill(data, &w->tensor, arg)) {
        free(data);
        free(form);
        return NULL;
    }
    form->see.data = data;
    form->see.bytes = bytes;
    form->see.next = atomic_load_explicit(&w->forms, memory_order_relaxed);
    strncpy(form->see.name, name, sizeof form->see.name - 1);
    form->key_len = key_len;
    memcpy(form->key, key, key_len);
    atomic_store_explicit(&w->forms, &form->see, memory_order_release);
    return &form->see;
}

const void *td_weight_pack(struct td_weight *weight, const void *key, size_t key_len,
                           const char *name, size_t bytes, td_weight_fill *fill, void *arg)
{
    const struct td_weight_form *form = find(weight, key, key_len);
    if (!form) {
        pthread_mutex_lock(&weight->lock);
        form = find(weight, key, key_len);
        if (!form)
            form = make(weight, key, key_len, name, bytes, fill, arg);
        pthread_mutex_unlock(&weight->lock);
    }
    return form ? form->data : NULL;
}

const struct td_weight_form *td_weight_forms(const struct td_weight *weight)
{
    return atomic_load_explicit(&weight->forms, memory_order_acquire);
}
