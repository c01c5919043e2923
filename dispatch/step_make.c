/* Making steps: a run is walked with all its parts, and each call of it becomes a unit. */
#include "dispatch/call.h"
#include "dispatch/steps.h"
#include "kernels/memo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIXED (-1)

struct source { /* where a tensor's data come from */
    int from;
    void *data; /* at first */
    size_t at;
};

struct made { /* a part, once it is there */
    const struct td_run *run;
    struct source *out;
    struct unit *unit;
};

struct build {
    struct td_step *step;
    void *(*alloc)(void *arg, size_t bytes);
    void *alloc_arg;
    int n_units, n_links, n_sources, n_made; /* at most; then so far */
    struct source *source;                   /* workspace */
    struct made *made;
    struct link *link;
    char *block; /* for what is measured, bytes of it left */
    size_t left;
    size_t room, temporary; /* bytes of scratch: for kernels, and behind it for what is between */
    int error;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* From one block as far as that was measured, which lists and texts are not. */
static void *take(struct build *b, size_t bytes)
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

static int n_tensors(const struct td_value *v)
{
    return v->kind == TD_KIND_tensors ? v->tensors.n : v->kind == TD_KIND_tensor;
}

/* The number of an argument's first tensor among all of the call. */
static int place_of(const struct td_call *call, int arg)
{
    int n = 0;
    for (int i = 0; i < arg; i++)
        n += n_tensors(&call->arg[i]);
    return n;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 127) & ~(size_t)63; /* 64-byte steps, and 64 bytes that may be over-read */
}

static struct source temporary(struct build *b, const struct td_tensor *t)
{
    struct source s = {.from = b->step->results + b->step->n_out + 1, .at = b->temporary};
    size_t bytes = td_nbytes(t);
    if (bytes > TD_SCRATCH_MOST - b->temporary) /* so that sums can be counted */
        b->error = -ENOMEM;
    else
        b->temporary += round_up(bytes);
    return s;
}

static void link_to(struct build *b, void **slot, const struct source *s)
{
    *slot = s->data;
    if (s->from != FIXED)
        b->link[b->step->n_links++] = (struct link){slot, s->from, s->at};
}

static void copy_value(struct build *b, struct td_value *v, const struct source *source)
{
    if (v->kind == TD_KIND_str && v->str) {
        size_t bytes = strlen(v->str) + 1;
        char *text = take(b, bytes);
        v->str = text ? memcpy(text, v->str, bytes) : "";
    } else if (v->kind == TD_KIND_tensors) {
        size_t bytes = (size_t)v->tensors.n * sizeof *v->tensors.v;
        struct td_tensor *list = take(b, bytes);
        if (list && bytes)
            memcpy(list, v->tensors.v, bytes);
        v->tensors.v = list;
        for (int k = 0; list && k < v->tensors.n; k++)
            link_to(b, &list[k].data, &source[k]);
    } else if (v->kind == TD_KIND_tensor) {
        link_to(b, &v->tensor.data, source);
    }
}

/* A unit for the call, with its tensors' data from in and to out. */
static struct unit *add_unit(struct build *b, const struct td_call *call, const struct source *in,
                             const struct source *out)
{
    struct unit *u = &b->step->unit[b->step->n_units++];
    size_t args = (size_t)call->n_args * sizeof *call->arg;
    size_t outs = (size_t)call->n_out * sizeof *call->out;
    u->call = *call;
    u->call.prepared = &u->prepared;
    u->call.arg = take(b, args);
    u->call.out = take(b, outs);
    if (b->error)
        return NULL;
    memcpy(u->call.arg, call->arg, args);
    memcpy(u->call.out, call->out, outs);
    for (int i = 0; i < call->n_args; in += n_tensors(&call->arg[i++]))
        copy_value(b, &u->call.arg[i], in);
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
    size_t bytes = u->prepared.scratch ? round_up(u->prepared.scratch) : 0;
    u->impl = impl;
    link_to(b, &u->call.scratch, &room);
    b->room = bytes > b->room ? bytes : b->room;
}

/* A conversion before the run's kernel: a unit of its own, but of stored tensors, once for all. */
static void add_cast(struct build *b, const struct td_run *run, int i, struct source *in)
{
    const struct td_tensor *to = &run->call.arg[run->cast[i].arg].tensor;
    struct source *mine = &in[place_of(&run->call, run->cast[i].arg)];
    if (to->weight) {
        int err = td_run_convert_stored(run, i);
        b->error = err ? err : b->error;
        *mine = (struct source){.from = FIXED, .data = to->data};
        return;
    }
    const struct td_handle *handle = td_registry_find("cast");
    struct td_value arg[2] = {{.kind = TD_KIND_tensor, .tensor = run->cast[i].from},
                              {.kind = TD_KIND_dtype, .dtype = to->dtype}};
    struct td_tensor result = *to;
    struct td_call call = {.op = handle->op,
                           .n_args = 2,
                           .arg = arg,
                           .n_out = 1,
                           .out = &result,
                           .threads = run->call.threads};
    struct source out = temporary(b, to);
    struct unit *u = add_unit(b, &call, mine, &out);
    *mine = out;
    if (!u || td_call_is_nothing(&call))
        return;
    td_boxed *boxed;
    const struct td_impl *rows = td_rows_at(handle, td_keyset_of(run->key), &boxed);
    set_row(b, u, td_rows_choose(rows, &u->call, &u->prepared));
}

static void add_call(struct build *b, const struct td_run *run, struct source *in,
                     const struct source *out)
{
    for (int i = 0; i < run->n_casts; i++)
        add_cast(b, run, i, in);
    struct unit *u = b->error ? NULL : add_unit(b, &run->call, in, out);
    if (!u)
        return;
    u->of = (struct td_run *)run;
    u->prepared = run->prepared;
    for (int i = 0; i < TD_MAX_STATES && u->prepared.state[i]; i++)
        td_memo_ref(u->prepared.state[i]);
    set_row(b, u, run->impl);
}

static struct made *find_made(struct build *b, const struct td_run *run)
{
    int i = b->n_made - 1;
    while (b->made[i].run != run)
        i--;
    return &b->made[i];
}

/* Those that are computed with the last one become its. */
static void fuse(struct build *b, const struct td_run *run, const struct td_run *last)
{
    struct unit *u = find_made(b, last)->unit;
    const struct td_run *of[TD_FUSED_MOST];
    size_t n = 0;
    for (const struct td_run *part = run->parts; part; part = part->next)
        n += part->with == last;
    u->fused = take(b, n * sizeof *u->fused);
    for (const struct td_run *part = run->parts; part && !b->error; part = part->next) {
        if (part->with != last)
            continue;
        struct unit *own = find_made(b, part)->unit;
        struct td_fused *f = &u->fused[u->n_fused];
        *f = (struct td_fused){.call = &own->call, .impl = own->impl};
        memset(f->of, -1, sizeof f->of);
        for (int i = 0; i < part->n_feeds; i++)
            for (int k = 0; k < u->n_fused; k++)
                if (of[k] == part->feed[i].of)
                    f->of[part->feed[i].arg] = (signed char)k;
        own->impl = NULL;
        of[u->n_fused++] = part;
    }
}

static void sources_of(const struct td_run *run, struct source *in)
{
    for (int i = 0; i < run->call.n_args; i++) {
        const struct td_value *v = &run->call.arg[i];
        if (v->kind == TD_KIND_tensor)
            *in++ = (struct source){.from = FIXED, .data = (void *)td_run_input(run, i)};
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            *in++ = (struct source){.from = FIXED, .data = v->tensors.v[k].data};
    }
}

static void add_run(struct build *b, const struct td_run *run, struct source *in,
                    const struct source *out);

/* A part, whose tensors are the whole's, results of parts before it, or its own. */
static void add_part(struct build *b, const struct td_run *run, const struct td_run *part,
                     const struct source *in, const struct source *out)
{
    struct source *from = b->source, *to = from + place_of(&part->call, part->call.n_args);
    b->source = to + part->call.n_out;
    sources_of(part, from);
    for (int i = 0; i < part->n_feeds; i++) {
        const struct td_run *of = part->feed[i].of;
        int element = part->feed[i].element, result = part->feed[i].result;
        struct source *at = &from[place_of(&part->call, part->feed[i].arg)];
        at += element < 0 ? 0 : element;
        if (of == run) /* a tensor, or all of a list */
            memcpy(at, &in[place_of(&run->call, result)],
                   (size_t)n_tensors(&run->call.arg[result]) * sizeof *at);
        else
            *at = find_made(b, of)->out[result];
    }
    for (int i = 0; i < part->call.n_out; i++) {
        bool between = !part->gives[i] && (!part->with || part->kept);
        to[i] = part->gives[i] ? out[part->gives[i] - 1]
                : between      ? temporary(b, &part->call.out[i])
                               : (struct source){.from = FIXED};
    }
    add_run(b, part, from, to);
    struct unit *last = b->step->n_units ? &b->step->unit[b->step->n_units - 1] : NULL;
    b->made[b->n_made++] = (struct made){part, to, last};
    if (part->with == part && !b->error)
        fuse(b, run, part);
}

static void add_run(struct build *b, const struct td_run *run, struct source *in,
                    const struct source *out)
{
    if (b->error || td_call_is_nothing(&run->call))
        return;
    for (const struct td_run *part = run->parts; part; part = part->next)
        add_part(b, run, part, in, out);
    if (!run->parts)
        add_call(b, run, in, out);
}

static void *take_zeros(struct build *b, size_t bytes)
{
    void *p = take(b, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

/* How much there may be of everything. */
static void measure(const struct td_run *run, struct build *b)
{
    size_t casts = (size_t)run->n_casts;
    b->left += (size_t)run->call.n_args * sizeof(struct td_value) +
               (size_t)run->call.n_out * sizeof(struct td_tensor) + 32 +
               casts * (2 * sizeof(struct td_value) + sizeof(struct td_tensor) + 32);
    int tensors = place_of(&run->call, run->call.n_args) + run->call.n_out;
    b->n_units += 1 + run->n_casts;
    b->n_links += tensors + 1 + 3 * run->n_casts;
    b->n_sources += tensors;
    b->n_made++;
    for (const struct td_run *part = run->parts; part; part = part->next)
        measure(part, b);
}

/* By what they come from: counted, then each put behind those before it. */
static void sort_links(struct build *b)
{
    struct td_step *step = b->step;
    int n = step->n_links, kinds = step->results + step->n_out + 2;
    int *first = step->first = take_zeros(b, ((size_t)kinds + 2) * sizeof *first);
    step->link = take(b, (size_t)n * sizeof *step->link);
    if (b->error)
        return;
    for (int i = 0; i < n; i++)
        first[b->link[i].from + 2]++;
    for (int i = 2; i < kinds + 2; i++)
        first[i] += first[i - 1];
    for (int i = 0; i < n; i++)
        step->link[first[b->link[i].from + 1]++] = b->link[i];
    for (int i = first[kinds - 1]; i < n; i++) /* behind the kernels' */
        step->link[i].at += b->room;
    step->scratch = b->room + b->temporary;
}

/* The step's own, whose units are still to be added. */
static void begin(struct build *b, const struct td_run *run)
{
    const struct td_call *call = &run->call;
    b->left += (size_t)b->n_units * sizeof(struct unit) + (size_t)b->n_links * sizeof(struct link) +
               sizeof *b->step + 256;
    b->block = b->error ? NULL : b->alloc(b->alloc_arg, b->left);
    b->error = b->block ? 0 : -ENOMEM;
    struct td_step *step = b->step = take_zeros(b, sizeof *step);
    if (!step)
        return;
    step->n_args = call->n_args;
    step->n_out = call->n_out;
    step->results = place_of(call, call->n_args);
    step->counted = call->counted;
    step->counted_dim = call->counted_dim;
    step->unit = take_zeros(b, (size_t)b->n_units * sizeof *step->unit);
    step->input = take(b, (size_t)call->n_args * sizeof *step->input);
    step->out = take(b, (size_t)call->n_out * sizeof *step->out);
    step->made = take_zeros(b, (size_t)call->n_out * sizeof *step->made);
    for (int i = 0; i < call->n_args && !b->error; i++)
        step->input[i] = place_of(call, i);
    for (int i = 0; i < call->n_out && !b->error; i++)
        step->out[i] = call->out[i];
}

/* One piece of workspace, as large as was measured. */
static void *workspace(struct build *b)
{
    size_t sources = (size_t)b->n_sources * sizeof *b->source;
    size_t made = (size_t)b->n_made * sizeof *b->made;
    char *p = malloc(sources + made + (size_t)b->n_links * sizeof *b->link + 1);
    b->error = p ? 0 : -ENOMEM;
    if (p) {
        b->source = (struct source *)p;
        b->made = (struct made *)(p + sources);
        b->link = (struct link *)(p + sources + made);
    }
    b->n_made = 0;
    return p;
}

int td_step_make(struct td_step **step, const struct td_run *run,
                 void *(*alloc)(void *arg, size_t bytes), void *alloc_arg)
{
    struct build b = {.alloc = alloc, .alloc_arg = alloc_arg};
    measure(run, &b);
    void *space = workspace(&b);
    begin(&b, run);
    if (!b.error) {
        struct source *in = b.source, *out = in + b.step->results;
        b.source = out + b.step->n_out;
        sources_of(run, in);
        for (int i = 0; i < b.step->results; i++)
            in[i].from = i;
        for (int i = 0; i < b.step->n_out; i++)
            out[i] = (struct source){b.step->results + i, run->call.out[i].data, 0};
        add_run(&b, run, in, out);
    }
    if (!b.error)
        sort_links(&b);
    free(space);
    *step = b.step;
    if (b.error)
        td_step_release(step);
    return b.error;
}
