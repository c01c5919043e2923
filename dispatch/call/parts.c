/* The parts of a run that consists of others: a composite operator, an expression, a call whose
 * result is converted; and the memory that they lie in. */
#include "dispatch/call/own.h"
#include "pools/pools.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

void *td_alloc_in_arena(void *arena, size_t bytes)
{
    return td_arena_alloc(arena, bytes);
}

struct td_run *td_run_new_part(struct td_run *run, int *err)
{
    struct td_run *part = run->spare;
    if (!part && run->options.alloc)
        part = run->options.alloc(run->options.alloc_arg, sizeof *part);
    run->spare = NULL;
    *err = part ? 0
                : td_problem_set(&run->problem, ENOMEM, "no memory for the parts of %s",
                                 run->handle->full);
    if (part)
        td_run_clear(part, &run->options);
    return part;
}

/* The bound part in as much memory as it needs, a third as a rule; its room is for the next. A
 * trace has noted where the part is, so then it stays. */
static struct td_run *shrink(struct td_run *run, struct td_run *part)
{
    size_t args = (size_t)part->call.n_args * sizeof *part->arg;
    size_t outs = (size_t)part->call.n_out * sizeof *part->out;
    struct td_run *small = run->options.trace
                               ? NULL
                               : run->options.alloc(run->options.alloc_arg,
                                                    offsetof(struct td_run, arg) + args + outs);
    if (!small)
        return part;
    memcpy(small, part, offsetof(struct td_run, arg));
    small->call.arg = small->arg;
    small->call.out = (void *)((char *)small->call.arg + args);
    small->call.problem = &small->problem;
    memcpy(small->call.arg, part->call.arg, args);
    memcpy(small->call.out, part->call.out, outs);
    run->spare = part;
    return small;
}

struct td_run *td_run_append(struct td_run *run, struct td_run *part)
{
    struct td_run **end = &run->parts;
    while (*end)
        end = &(*end)->next;
    *end = part = shrink(run, part);
    part->depth = run->depth;
    part->timed = part->timed || run->timed;
    return part;
}

struct td_run *td_run_add_part(struct td_run *run, const char *op, const struct td_value *values,
                               td_keyset keys, int *err)
{
    struct td_run *part = td_run_new_part(run, err);
    if (!part)
        return NULL;
    part->depth = run->depth;
    *err = td_run_bind_values(part, td_registry_find(op), values, keys);
    if (*err) {
        run->problem = part->problem;
        return NULL;
    }
    return td_run_append(run, part);
}

struct td_run *td_run_add_cast(struct td_run *run, const struct td_tensor *from, enum td_dtype to,
                               td_keyset keys, int *err)
{
    struct td_value values[2] = {{.kind = TD_KIND_tensor, .tensor = *from},
                                 {.kind = TD_KIND_dtype, .dtype = to}};
    return td_run_add_part(run, "cast", values, keys, err);
}

int td_run_feed(struct td_run *run, struct td_run *part, int arg, int element, struct td_run *of,
                int result)
{
    if (part->n_feeds == TD_MAX_FEEDS)
        return td_problem_set(&run->problem, EINVAL,
                              "%s: more than %d tensors among its arguments, or in a list that is "
                              "converted; so many, or a list of one type, are right",
                              (part->handle ? part : run)->handle->full, TD_MAX_FEEDS);
    part->feed[part->n_feeds].arg = arg;
    part->feed[part->n_feeds].element = element;
    part->feed[part->n_feeds].of = of;
    part->feed[part->n_feeds++].result = result;
    return 0;
}

/* The part that gives the whole's first result, and no longer does; NULL, with *err: no memory. Of
 * an expression it is there; any other run becomes the first part of itself. */
static struct td_run *take_first(struct td_run *run, int *result, int *err)
{
    for (struct td_run *part = run->names ? run->parts : NULL; part; part = part->next)
        for (int i = 0; i < part->call.n_out; i++)
            if (part->gives[i] == 1) {
                part->gives[i] = 0;
                *result = i;
                return part;
            }
    struct td_run *first = td_run_new_part(run, err);
    if (first) {
        td_run_copy(first, run);
        first->n_feeds = 0;
        for (int i = 0; i < run->call.n_args; i++)
            if (run->call.arg[i].kind == TD_KIND_tensor || run->call.arg[i].kind == TD_KIND_tensors)
                *err = *err ? *err : td_run_feed(run, first, i, -1, NULL, i);
        run->parts = first;
        *result = 0;
    }
    return *err ? NULL : first;
}

int td_run_convert(struct td_run *run, enum td_dtype to)
{
    enum td_dtype from = run->call.out[0].dtype;
    int err = 0, result;
    if (run->call.counted)
        return td_problem_set(&run->problem, EINVAL,
                              "the result's size is known only when it is there, so it stays %s",
                              td_dtype_name(from));
    if (td_promote_types(from | to, 0, 0) != to &&
        td_promote_types(to, from, 0) != to) /* of a higher category */
        return td_problem_set(&run->problem, EINVAL,
                              "the result is %s, which cannot become %s: that would lose its kind",
                              td_dtype_name(from), td_dtype_name(to));
    struct td_run *first = take_first(run, &result, &err);
    if (!first)
        return err;
    run->lasting = false; /* a step that it has lacks the conversion */
    td_keyset keys = td_keyset_minus(run->keys, run->done);
    struct td_run *cast = td_run_add_cast(run, &run->call.out[0], to, keys, &err);
    err = err ? err : td_run_feed(run, cast, 0, -1, first, result);
    if (err)
        return err;
    cast->gives[0] = 1;
    run->rows = NULL;
    run->call.out[0] = cast->call.out[0];
    return 0;
}
