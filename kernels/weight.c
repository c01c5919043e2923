/* Forms hang in a list that only grows, its head atomic: a reader walks it without a lock (a weight
 * has a few forms at most), a maker holds the mutex and looks again before it makes one. */
#include "kernels/weight_own.h"

#include "kernels/trap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_bool stay_plain;
static struct {
    atomic_llong first, further, bytes;
} packed;

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    return room ? room->take(room, bytes, kept) : 0;
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    if (room)
        room->give(room, bytes, kept);
}

static size_t taken_by(const struct td_weight *w)
{
    return sizeof *w + td_weight_block_size(td_nbytes(&w->tensor));
}

static int create(struct td_weight **weight, const struct td_tensor *like, struct td_weight *of,
                  struct td_weight_room *room)
{
    struct td_weight *w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    atomic_init(&w->refs, 1);
    atomic_init(&w->written, !of);
    w->of = of;
    w->room = room;
    w->home = -1;
    w->tensor = *like;
    w->tensor.weight = w;
    size_t bytes = taken_by(w);
    int err = take(room, bytes, true);
    w->tensor.data = err ? NULL : td_weight_block(td_nbytes(like));
    if (!w->tensor.data) {
        if (!err)
            give(room, bytes, true);
        free(w);
        return err ? err : -ENOMEM;
    }
    pthread_mutex_init(&w->lock, NULL);
    *weight = w;
    return 0;
}

int td_weight_create(struct td_weight **weight, const struct td_tensor *like,
                     struct td_weight_room *room)
{
    int err = create(weight, like, NULL, room);
    if (err)
        return err;
    if (like->data)
        memcpy((*weight)->tensor.data, like->data, td_nbytes(like));
    return 0;
}

int td_weight_create_scaled(struct td_weight **weight, const struct td_tensor *like, int64_t run,
                            const double *number, int64_t n, struct td_weight_room *room)
{
    int err = create(weight, like, NULL, room);
    if (err)
        return err;
    const float *restrict from = like->data;
    float *restrict to = (*weight)->tensor.data;
    for (int64_t at = 0, all = td_numel(like), r = 0; at < all; at += run, r++)
        for (int64_t i = at; i < at + run; i++)
            to[i] = (float)((double)from[i] * number[r % n]);
    return 0;
}

struct td_weight *td_weight_ref(struct td_weight *weight)
{
    atomic_fetch_add(&weight->refs, 1);
    return weight;
}

/* bytes: of its data; own: they belong to the form, and not to a weight. */
static struct form *form_create(struct td_weight *w, const void *key, size_t key_len,
                                const char *name, size_t bytes, bool own)
{
    size_t taken = sizeof(struct form) + key_len + (own ? td_weight_block_size(bytes) : 0);
    if (bytes > PTRDIFF_MAX || take(w->room, taken, true))
        return NULL;
    struct form *form = calloc(1, sizeof *form + key_len);
    if (!form) {
        give(w->room, taken, true);
        return NULL;
    }
    form->taken = taken;
    form->see.bytes = bytes;
    strncpy(form->see.name, name, sizeof form->see.name - 1);
    form->key_len = key_len;
    memcpy(form->key, key, key_len);
    return form;
}

static void form_free(struct td_weight *w, struct form *form)
{
    if (form)
        give(w->room, form->taken, true);
    free(form);
}

static void drop(struct form *form)
{
    packed.bytes -= (long long)form->taken;
    td_weight_block_free((void *)(uintptr_t)form->see.data, form->see.bytes);
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
            drop(f);
        form_free(w, f);
    }
    give(w->room, taken_by(w), true);
    pthread_mutex_destroy(&w->lock);
    td_weight_block_free(w->tensor.data, td_nbytes(&w->tensor));
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

void td_weights_pack(bool allowed)
{
    atomic_store(&stay_plain, !allowed);
}

struct td_weight *td_weight_to_pack(const struct td_tensor *view)
{
    return atomic_load_explicit(&stay_plain, memory_order_relaxed) ? NULL : td_weight_of(view);
}

struct td_packed td_packed(void)
{
    return (struct td_packed){packed.first, packed.further, packed.bytes};
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
static const struct td_weight_form *publish(struct td_weight *w, struct form *form)
{
    form->see.next = atomic_load_explicit(&w->forms, memory_order_relaxed);
    atomic_store_explicit(&w->forms, &form->see, memory_order_release);
    return &form->see;
}

struct filling {
    td_weight_fill *fill;
    void *data, *arg;
    const struct td_tensor *plain;
    int err;
};

static void run_filling(void *arg)
{
    struct filling *f = arg;
    f->err = f->fill(f->data, f->plain, f->arg);
}

/* What fill writes, and zero where it writes nothing. net: lifted; where fill traps it says so. */
static void *filled(struct td_weight *w, size_t bytes, td_weight_fill *fill, void *arg,
                    struct td_net *net)
{
    void *data = td_weight_block(bytes);
    if (!data)
        return NULL;
    struct filling filling = {fill, data, arg, &w->tensor, -EFAULT};
    const struct td_stop *before = td_stop_obey(NULL); /* others will use what this call makes */
    td_net_under(net, run_filling, &filling);
    td_stop_obey(before);
    if (filling.err)
        td_weight_block_free(data, bytes);
    return filling.err ? NULL : data;
}

/* With the lock held. */
static const struct td_weight_form *make(struct td_weight *w, const void *key, size_t key_len,
                                         const char *name, size_t bytes, td_weight_fill *fill,
                                         void *arg, td_weight_undo *undo, struct td_net *net)
{
    td_weight_wake(w);
    struct form *form = form_create(w, key, key_len, name, bytes, true);
    void *data = form ? filled(w, bytes, fill, arg, net) : NULL;
    if (!data) {
        form_free(w, form);
        return NULL;
    }
    form->see.data = data;
    form->undo = undo;
    *(td_weight_forms(w) ? &packed.further : &packed.first) += 1;
    packed.bytes += (long long)form->taken;
    return publish(w, form);
}

const void *td_weight_pack(struct td_weight *weight, const void *key, size_t key_len,
                           const char *name, size_t bytes, td_weight_fill *fill, void *arg,
                           td_weight_undo *undo)
{
    const struct td_weight_form *form = find(weight, key, key_len);
    if (!form) {
        struct td_net net;
        td_net_lift(&net);
        pthread_mutex_lock(&weight->lock);
        form = find(weight, key, key_len);
        if (!form)
            form = make(weight, key, key_len, name, bytes, fill, arg, undo, &net);
        pthread_mutex_unlock(&weight->lock);
        td_net_drop(&net);
    }
    if (form && undo)
        td_weight_note(weight);
    return form ? form->data : NULL;
}

const void *td_weight_packed(const struct td_weight *weight, const void *key, size_t key_len)
{
    const struct td_weight_form *form = find(weight, key, key_len);
    return form ? form->data : NULL;
}

void *td_weight_pack_once(struct td_weight *weight, size_t bytes, td_weight_fill *fill, void *arg)
{
    if (take(weight->room, td_weight_block_size(bytes), false))
        return NULL;
    struct td_net net;
    td_net_lift(&net);
    td_weight_pin(weight);
    void *form = filled(weight, bytes, fill, arg, &net);
    td_weight_unpin(weight);
    if (!form)
        give(weight->room, td_weight_block_size(bytes), false);
    td_net_drop(&net);
    return form;
}

void td_weight_unpack(struct td_weight *weight, void *form, size_t bytes)
{
    if (form)
        give(weight->room, td_weight_block_size(bytes), false);
    td_weight_block_free(form, bytes);
}

/* Publishes a weight that belongs to this one. With the lock held. */
static const struct td_weight_form *adopt(struct td_weight *w, const void *key, size_t key_len,
                                          const char *name, struct td_weight *twin)
{
    struct form *form =
        twin ? form_create(w, key, key_len, name, td_nbytes(&twin->tensor), false) : NULL;
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
            struct td_weight *twin = NULL;
            like.dtype = type;
            create(&twin, &like, weight, weight->room);
            form = adopt(weight, &type, sizeof type, td_dtype_name(type), twin);
        }
        pthread_mutex_unlock(&weight->lock);
    }
    return form ? form->weight : NULL;
}

void td_weight_set_home(struct td_weight *weight, int node)
{
    weight->home = node;
}

static struct td_weight *replica(struct td_weight *w, int node)
{
    td_weight_wake(w);
    struct td_weight *twin = NULL;
    if (!td_weight_create(&twin, &w->tensor, w->room))
        twin->home = node;
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
        td_weight_pin(as->of);
        err = fill(as->tensor.data, &as->of->tensor, arg);
        td_weight_unpin(as->of);
        td_stop_obey(before);
        atomic_store_explicit(&as->written, !err, memory_order_release);
    }
    pthread_mutex_unlock(&as->lock);
    return err;
}

size_t td_weight_bytes(const struct td_weight *weight)
{
    size_t bytes = taken_by(weight);
    for (const struct td_weight_form *form = td_weight_forms(weight); form; form = form->next)
        bytes +=
            ((const struct form *)form)->taken + (form->weight ? td_weight_bytes(form->weight) : 0);
    return bytes;
}

const struct td_weight_form *td_weight_forms(const struct td_weight *weight)
{
    return atomic_load_explicit(&weight->forms, memory_order_acquire);
}
