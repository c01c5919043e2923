/* Forms hang in a list that only grows, its head atomic: a reader walks it without a lock (a weight
 * has a few forms at most), a maker holds the mutex and looks again before it makes one. */
#include "kernels/weight.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
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
    const struct td_weight *of; /* that this one is converted from, or NULL */
    atomic_bool written;        /* its elements are there */
    int home;                   /* NUMA node, or -1 */
    pthread_mutex_t lock;       /* held while a form is made or the elements are converted */
    _Atomic(const struct td_weight_form *) forms;
};

/* On a cache line, with 64 readable bytes behind, which are zero. NULL when there is no memory. */
static void *buffer(size_t bytes)
{
    if (bytes > SIZE_MAX - 127)
        return NULL;
    size_t size = (bytes + 127) & ~(size_t)63;
    char *p = aligned_alloc(64, size);
    if (p)
        memset(p + bytes, 0, size - bytes);
    return p;
}

static struct td_weight *create(const struct td_tensor *like, const struct td_weight *of)
{
    struct td_weight *w = calloc(1, sizeof *w);
    void *data = buffer(td_nbytes(like));
    if (!w || !data) {
        free(w);
        free(data);
        return NULL;
    }
    atomic_init(&w->refs, 1);
    atomic_init(&w->written, !of);
    pthread_mutex_init(&w->lock, NULL);
    w->of = of;
    w->home = -1;
    w->tensor = *like;
    w->tensor.data = data;
    w->tensor.weight = w;
    return w;
}

int td_weight_create(struct td_weight **weight, const struct td_tensor *like)
{
    struct td_weight *w = create(like, NULL);
    if (!w)
        return -ENOMEM;
    if (like->data)
        memcpy(w->tensor.data, like->data, td_nbytes(like));
    else
        memset(w->tensor.data, 0, td_nbytes(like));
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
        struct form *f = (struct form *)form;
        next = form->next;
        if (f->see.weight) /* data is this one's */
            td_weight_unref(&f->see.weight);
        else
            free((void *)form->data);
        free(f);
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

static struct form *form_create(const void *key, size_t key_len, const char *name, size_t bytes)
{
    struct form *form = calloc(1, sizeof *form + key_len);
    if (!form)
        return NULL;
    form->see.bytes = bytes;
    strncpy(form->see.name, name, sizeof form->see.name - 1);
    form->key_len = key_len;
    memcpy(form->key, key, key_len);
    return form;
}

/* With the lock held. */
static const struct td_weight_form *publish(struct td_weight *w, struct form *form)
{
    form->see.next = atomic_load_explicit(&w->forms, memory_order_relaxed);
    atomic_store_explicit(&w->forms, &form->see, memory_order_release);
    return &form->see;
}

/* With the lock held. */
static const struct td_weight_form *make(struct td_weight *w, const void *key, size_t key_len,
                                         const char *name, size_t bytes, td_weight_fill *fill,
                                         void *arg)
{
    struct form *form = form_create(key, key_len, name, bytes);
    void *data = form ? buffer(bytes) : NULL;
    if (data)
        memset(data, 0, bytes);                        /* what fill leaves out */
    const struct td_stop *before = td_stop_obey(NULL); /* others will use what this call makes */
    int err = data ? fill(data, &w->tensor, arg) : -ENOMEM;
    td_stop_obey(before);
    if (err) {
        free(data);
        free(form);
        return NULL;
    }
    form->see.data = data;
    return publish(w, form);
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

/* Publishes a weight that belongs to this one. With the lock held. */
static const struct td_weight_form *adopt(struct td_weight *w, const void *key, size_t key_len,
                                          const char *name, struct td_weight *twin)
{
    struct form *form = twin ? form_create(key, key_len, name, td_nbytes(&twin->tensor)) : NULL;
    if (!form) {
        td_weight_unref(&twin);
        return NULL;
    }
    form->see.weight = twin;
    form->see.data = twin->tensor.data;
    return publish(w, form);
}

struct td_weight *td_weight_as(struct td_weight *weight, enum td_dtype type)
{
    const struct td_weight_form *form = find(weight, &type, sizeof type);
    if (!form) {
        pthread_mutex_lock(&weight->lock);
        form = find(weight, &type, sizeof type);
        if (!form) {
            struct td_tensor like = weight->tensor;
            like.dtype = type;
            form = adopt(weight, &type, sizeof type, td_dtype_name(type), create(&like, weight));
        }
        pthread_mutex_unlock(&weight->lock);
    }
    return form ? form->weight : NULL;
}

void td_weight_set_home(struct td_weight *weight, int node)
{
    weight->home = node;
}

static struct td_weight *replica(const struct td_weight *w, int node)
{
    struct td_weight *twin = create(&w->tensor, NULL);
    if (twin) {
        memcpy(twin->tensor.data, w->tensor.data, td_nbytes(&w->tensor));
        twin->home = node;
    }
    return twin;
}

struct td_weight *td_weight_on(struct td_weight *weight, int node)
{
    if (weight->home == node)
        return weight;
    struct {
        char what[8];
        int64_t node;
    } key = {"node", node}; /* no padding: it is compared byte by byte */
    char name[24];
    const struct td_weight_form *form = find(weight, &key, sizeof key);
    if (!form) {
        snprintf(name, sizeof name, "node %d", node);
        pthread_mutex_lock(&weight->lock);
        form = find(weight, &key, sizeof key);
        if (!form)
            form = adopt(weight, &key, sizeof key, name, replica(weight, node));
        pthread_mutex_unlock(&weight->lock);
    }
    return form ? form->weight : NULL;
}

int td_weight_convert(struct td_weight *as, td_weight_fill *fill, void *arg)
{
    int err = 0;
    if (atomic_load_explicit(&as->written, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&as->lock);
    if (!atomic_load_explicit(&as->written, memory_order_relaxed)) {
        const struct td_stop *before = td_stop_obey(NULL);
        err = fill(as->tensor.data, &as->of->tensor, arg);
        td_stop_obey(before);
        atomic_store_explicit(&as->written, !err, memory_order_release);
    }
    pthread_mutex_unlock(&as->lock);
    return err;
}

const struct td_weight_form *td_weight_forms(const struct td_weight *weight)
{
    return atomic_load_explicit(&weight->forms, memory_order_acquire);
}
