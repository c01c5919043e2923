/* Units of steps: a call with what it wants copied, and the copies that are made before it. */
#include "dispatch/step/build.h"
#include "kernels/memo.h"

#include <errno.h>
#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

void *td_build_take(struct build *b, size_t bytes)
{
    bool fits = aligned(bytes) <= b->left;
    void *p = b->error ? NULL : fits ? b->block : b->alloc(b->alloc_arg, bytes + 1);
    if (!p) {
        b->error = -ENOMEM;
        return NULL;
    }
    if (fits) {
        b->block += aligned(bytes);
        b->left -= aligned(bytes);
    }
    return p;
}

int td_count_tensors_of(const struct td_value *v)
{
    return v->kind == TD_KIND_tensors ? v->tensors.n : v->kind == TD_KIND_tensor;
}

int td_place_of(const struct td_call *call, int arg)
{
    int n = 0;
    for (int i = 0; i < arg; i++)
        n += td_count_tensors_of(&call->arg[i]);
    return n;
}

struct source td_build_temporary(struct build *b, const struct td_tensor *t)
{
    struct source s = {.from = b->step->results + b->step->n_out + 1, .at = b->temporary};
    size_t bytes = td_nbytes(t);
    if (bytes > TD_SCRATCH_MOST - b->temporary) /* so that sums can be counted */
        b->error = -ENOMEM;
    else
        b->temporary += td_room_of(bytes);
    return s;
}

static void link_to(struct build *b, void **slot, const struct source *s)
{
    *slot = s->data ? (char *)s->data + s->at : NULL;
    if (s->from != FIXED)
        b->link[b->step->n_links++] = (struct link){slot, s->from, s->at};
}

/* Strides are copied, or left out: the data are dense then. */
static void copy_strides(struct build *b, struct td_tensor *t, bool strided)
{
    size_t bytes = (size_t)t->rank * sizeof *t->stride;
    int64_t *stride = t->stride && strided ? td_build_take(b, bytes) : NULL;
    t->stride = stride && bytes ? memcpy(stride, t->stride, bytes) : stride;
}

static void copy_value(struct build *b, struct td_value *v, const struct source *source,
                       bool strided)
{
    if (v->kind == TD_KIND_str && v->str) {
        size_t bytes = strlen(v->str) + 1;
        char *text = td_build_take(b, bytes);
        v->str = text ? memcpy(text, v->str, bytes) : "";
    } else if (v->kind == TD_KIND_tensors) {
        size_t bytes = (size_t)v->tensors.n * sizeof *v->tensors.v;
        struct td_tensor *list = td_build_take(b, bytes);
        if (list && bytes)
            memcpy(list, v->tensors.v, bytes);
        v->tensors.v = list;
        for (int k = 0; list && k < v->tensors.n; k++) {
            link_to(b, &list[k].data, &source[k]);
            copy_strides(b, &list[k], strided);
        }
    } else if (v->kind == TD_KIND_tensor) {
        link_to(b, &v->tensor.data, source);
        copy_strides(b, &v->tensor, strided);
    }
}

/* A unit for the call, with its tensors' data from in, which have their strides or are dense, and
 * to out. */
static struct unit *add_unit(struct build *b, const struct td_call *call, const struct source *in,
                             const struct source *out, bool strided)
{
    struct unit *u = &b->step->unit[b->step->n_units++];
    size_t args = (size_t)call->n_args * sizeof *call->arg;
    size_t outs = (size_t)call->n_out * sizeof *call->out;
    u->call = *call;
    u->call.prepared = &u->prepared;
    u->call.arg = td_build_take(b, args);
    u->call.out = td_build_take(b, outs);
    if (b->error)
        return NULL;
    memcpy(u->call.arg, call->arg, args);
    memcpy(u->call.out, call->out, outs);
    for (int i = 0; i < call->n_args; in += td_count_tensors_of(&call->arg[i++]))
        copy_value(b, &u->call.arg[i], in, strided);
    for (int i = 0; i < call->n_out; i++) {
        link_to(b, &u->call.out[i].data, &out[i]);
        int result = out[i].from - b->step->results;
        if (out[i].from >= b->step->results && result < b->step->n_out)
            b->step->made[result] = &u->call.out[i];
        if (call->counted >> i & 1)
            u->bound = call->out[i].shape[call->counted_dim];
    }
    return u;
}

/* It runs by the row, with what that has prepared. */
static void set_row(struct build *b, struct unit *u, const struct td_impl *impl)
{
    struct source room = {.from = b->step->results + b->step->n_out};
    size_t bytes = u->prepared.scratch ? td_room_of(u->prepared.scratch) : 0;
    u->impl = impl;
    link_to(b, &u->call.scratch, &room);
    b->room = bytes > b->room ? bytes : b->room;
}

/* A copy of a tensor, dense and of a type, before the run's kernel: a unit of its own. */
static void add_copy(struct build *b, const struct td_run *run, const struct td_tensor *from,
                     enum td_dtype to, struct source *mine)
{
    const struct td_handle *handle = td_registry_find("cast");
    struct td_value arg[2] = {{.kind = TD_KIND_tensor, .tensor = *from},
                              {.kind = TD_KIND_dtype, .dtype = to}};
    struct td_tensor result = *from;
    struct td_call call = {.op = handle->op,
                           .n_args = 2,
                           .arg = arg,
                           .n_out = 1,
                           .out = &result,
                           .threads = run->call.threads};
    result.dtype = to;
    result.stride = NULL;
    struct source out = td_build_temporary(b, &result);
    struct unit *u = add_unit(b, &call, mine, &out, true);
    *mine = out;
    if (!u || td_call_is_nothing(&call))
        return;
    td_boxed *boxed;
    const struct td_impl *rows = td_rows_at(handle, td_keyset_of(run->key), &boxed);
    set_row(b, u, td_rows_choose(rows, &u->call, &u->prepared));
}

/* A conversion: of stored tensors, once for all. */
static void add_cast(struct build *b, const struct td_run *run, int i, struct source *in)
{
    const struct td_tensor *to = &run->call.arg[run->cast[i].arg].tensor;
    struct source *mine = &in[td_place_of(&run->call, run->cast[i].arg)];
    if (!to->weight) {
        add_copy(b, run, &run->cast[i].from, to->dtype, mine);
        return;
    }
    int err = td_run_convert_stored(run, i);
    b->error = err ? err : b->error;
    *mine = (struct source){.from = FIXED, .data = to->data};
}

/* Of all that have strides, which the row does not take. */
static void add_copies(struct build *b, const struct td_run *run, struct source *in)
{
    for (int i = 0; i < run->call.n_args; in += td_count_tensors_of(&run->call.arg[i++])) {
        const struct td_value *v = &run->call.arg[i];
        if (!td_run_reads(run, i))
            continue;
        if (v->kind == TD_KIND_tensor && v->tensor.stride)
            add_copy(b, run, &v->tensor, v->tensor.dtype, in);
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            if (v->tensors.v[k].stride)
                add_copy(b, run, &v->tensors.v[k], v->tensors.v[k].dtype, &in[k]);
    }
}

void td_build_call(struct build *b, const struct td_run *run, struct source *in,
                   const struct source *out)
{
    for (int i = 0; i < run->n_casts; i++)
        if (td_run_reads(run, run->cast[i].arg))
            add_cast(b, run, i, in);
    bool strided = td_run_takes_strides(run);
    if (!strided)
        add_copies(b, run, in);
    struct unit *u = b->error ? NULL : add_unit(b, &run->call, in, out, strided);
    if (!u)
        return;
    u->of = (struct td_run *)run;
    u->prepared = run->prepared;
    for (int i = 0; i < TD_MAX_STATES && u->prepared.state[i]; i++)
        td_memo_ref(u->prepared.state[i]);
    set_row(b, u, run->impl);
}
