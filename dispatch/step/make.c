/* Making steps: a run is walked with all its parts, and each call of it becomes a unit. */
#include "dispatch/step/build.h"

#include "kernels/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        n += part->with == last->number;
    u->fused = td_build_take(b, n * sizeof *u->fused);
    for (const struct td_run *part = run->parts; part && !b->error; part = part->next) {
        if (part->with != last->number)
            continue;
        struct unit *own = find_made(b, part)->unit;
        struct td_fused *f = &u->fused[u->n_fused];
        *f = (struct td_fused){.call = &own->call, .impl = own->impl};
        memset(f->of, -1, sizeof f->of);
        for (int i = 0; i < part->n_feeds; i++)
            for (int k = 0; k < u->n_fused; k++)
                if (part->feed[i].of == of[k])
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

/* Of a part that is a view: results that lie without gaps have the argument's data. */
static void place_views(const struct td_run *part, const struct source *in, struct source *out)
{
    for (int i = 0; i < part->call.n_out; i++) {
        struct td_view view;
        td_view_of(&part->call, i, &view);
        out[i] = in[0];
        out[i].at += (size_t)view.offset * td_dtype_size(part->call.out[i].dtype);
    }
}

/* Of a part that moves elements, what its first argument comes from, so many bytes on. */
static struct source seen_through(struct build *b, const struct td_run *of, size_t at)
{
    struct source seen = find_made(b, of)->out[-td_place_of(&of->call, of->call.n_args)];
    seen.at += at;
    return seen;
}

/* Adds the units of a part. Its tensors are those of the whole run, results of earlier parts, or
 * its own. needed: false if no unit reads its results; then it gets no units. */
static void add_part(struct build *b, const struct td_run *run, const struct td_run *part,
                     bool needed, const struct source *in, const struct source *out)
{
    struct source *from = b->source, *to = from + td_place_of(&part->call, part->call.n_args);
    b->source = to + part->call.n_out;
    sources_of(part, from);
    for (int i = 0; i < part->n_feeds; i++) {
        const struct td_run *of = part->feed[i].of;
        int element = part->feed[i].element, result = part->feed[i].result;
        struct source *at = &from[td_place_of(&part->call, part->feed[i].arg)];
        const struct source *whole = &in[of ? 0 : td_place_of(&run->call, result)];
        bool list = part->call.arg[part->feed[i].arg].kind == TD_KIND_tensors;
        at += list && element > 0 ? element : 0;
        if (of && part->seen && part->seen[i].through)
            *at = seen_through(b, of, part->seen[i].at);
        else if (of)
            *at = find_made(b, of)->out[result];
        else if (element < 0) /* a tensor, or all of a list */
            memcpy(at, whole, (size_t)td_count_tensors_of(&run->call.arg[result]) * sizeof *at);
        else
            *at = whole[list ? 0 : element];
    }
    for (int i = 0; i < part->call.n_out; i++)
        to[i] = (struct source){.from = FIXED};
    if (part->view)
        place_views(part, from, to);
    if (!needed || part->view) {
        b->made[b->n_made++] = (struct made){part, to, NULL};
        return;
    }
    for (int i = 0; i < part->call.n_out; i++) {
        if (part->gives[i])
            to[i] = out[part->gives[i] - 1];
        else if (part->with < 0 || part->kept)
            to[i] = td_build_temporary(b, &part->call.out[i]);
    }
    add_run(b, part, from, to);
    struct unit *last = b->step->n_units ? &b->step->unit[b->step->n_units - 1] : NULL;
    b->made[b->n_made++] = (struct made){part, to, last};
    if (part->with == part->number && !b->error)
        fuse(b, run, part);
}

/* Whether the run, or a part of it, has a check that can fail. A part that is fused with others has
 * none. */
static bool judges(const struct td_run *run)
{
    bool does = !run->parts && run->call.op->check && run->with < 0;
    for (const struct td_run *part = run->parts; part && !does; part = part->next)
        does = judges(part);
    return does;
}

/* For a run whose results have no elements: which of its parts must still be executed, by their
 * numbers. These are the parts whose check can fail, and the parts that compute what such a check
 * reads. NULL: all parts, because one of those is fused with others, or there is no memory. */
static const bool *needed_parts(struct build *b, const struct td_run *run)
{
    int n = 0;
    for (const struct td_run *part = run->parts; part; part = part->next)
        n++;
    const struct td_run **list = td_build_take(b, (size_t)n * sizeof *list);
    bool *needed = td_build_take(b, (size_t)n);
    if (b->error)
        return NULL;
    for (const struct td_run *part = run->parts; part; part = part->next)
        list[part->number] = part;
    memset(needed, 0, (size_t)n);
    for (int k = n - 1; k >= 0; k--) {
        needed[k] = needed[k] || judges(list[k]);
        if (needed[k] && list[k]->with >= 0)
            return NULL;
        for (int i = 0; i < list[k]->n_feeds && needed[k]; i++)
            if (list[k]->feed[i].of && (!list[k]->call.op->check || list[k]->parts ||
                                        td_run_reads(list[k], list[k]->feed[i].arg)))
                needed[list[k]->feed[i].of->number] = true;
    }
    return needed;
}

static void add_run(struct build *b, const struct td_run *run, struct source *in,
                    const struct source *out)
{
    bool nothing = td_call_is_nothing(&run->call);
    const bool *needed = run->parts && nothing ? needed_parts(b, run) : NULL;
    if (b->error)
        return;
    for (const struct td_run *part = run->parts; part; part = part->next)
        add_part(b, run, part, !needed || needed[part->number], in, out);
    if (!run->parts && (run->call.op->check || !nothing))
        td_build_call(b, run, in, out);
}

static void *take_zeros(struct build *b, size_t bytes)
{
    void *p = td_build_take(b, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

/* How much there may be of everything. */
static void measure(const struct td_run *run, struct build *b)
{
    size_t casts = (size_t)run->n_casts;
    b->left += (size_t)run->call.n_args * sizeof(struct td_value) +
               (size_t)run->call.n_out * sizeof(struct td_tensor) + 32 +
               casts * (2 * sizeof(struct td_value) + sizeof(struct td_tensor) + 32);
    int tensors = td_place_of(&run->call, run->call.n_args) + run->call.n_out;
    int copies = run->n_casts + (run->strided ? td_call_count_strides(&run->call) : 0);
    b->n_units += 1 + copies;
    b->n_links += tensors + 1 + 3 * copies;
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
    step->link = td_build_take(b, (size_t)n * sizeof *step->link);
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
    step->threads = call->threads;
    step->node = run->node;
    step->results = td_place_of(call, call->n_args);
    step->counted = call->counted;
    step->counted_dim = call->counted_dim;
    step->unit = take_zeros(b, (size_t)b->n_units * sizeof *step->unit);
    step->input = td_build_take(b, (size_t)call->n_args * sizeof *step->input);
    step->out = td_build_take(b, (size_t)call->n_out * sizeof *step->out);
    step->made = take_zeros(b, (size_t)call->n_out * sizeof *step->made);
    for (int i = 0; i < call->n_args && !b->error; i++)
        step->input[i] = td_place_of(call, i);
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

/* What is computed together is worked out while everything lies apart: only operands of one source
 * may be taken for one. Memory at these addresses is never accessed. */
static void make_fusions(struct build *b, const struct source *source)
{
    struct td_step *step = b->step;
    int n = step->results + step->n_out;
    bool any = false;
    for (int i = 0; i < step->n_units; i++)
        any = any || step->unit[i].fused;
    if (!any)
        return;
    uintptr_t apart = (uintptr_t)TD_SCRATCH_MOST;
    for (int i = 0; i < n + 2; i++)
        td_step_set_source(step, i, (void *)(apart * (uintptr_t)(i + 1)));
    for (int i = 0; i < step->n_units && !b->error; i++) {
        struct unit *u = &step->unit[i];
        if (u->fused)
            u->fusion = td_fusion_make(u->fused, u->n_fused, u->call.threads, TD_LOOP_LEAST,
                                       b->alloc, b->alloc_arg);
        b->error = u->fused && !u->fusion ? -ENOMEM : b->error;
    }
    for (int i = 0; i < n + 2; i++)
        td_step_set_source(step, i, i < n ? source[i].data : NULL);
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
    if (!b.error)
        make_fusions(&b, space);
    free(space);
    *step = b.step;
    if (b.error)
        td_step_release(step);
    return b.error;
}
