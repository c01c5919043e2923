/* Which calls are computed together, of an expression and of a model's plan: those that are
 * pointwise over one shape, a tile at a time, and a reduction of what one of them makes. Calls come
 * in an order in which they can be computed, and a group is computed where its last one stands. So
 * a call may join those before it unless what stands between them, and is none of them, reads a
 * result of theirs. */
#include "dispatch/call/own.h"
#include "dispatch/step/own.h"

#include <string.h>

bool td_fuser_has_shape(const struct td_tensor *a, const struct td_tensor *b)
{
    for (int d = 1; d <= a->rank || d <= b->rank; d++)
        if ((d <= a->rank ? a->shape[a->rank - d] : 1) !=
            (d <= b->rank ? b->shape[b->rank - d] : 1))
            return false;
    return true;
}

/* A call alone is computed as it is. */
static void close_at(struct td_fuser *f, int k)
{
    struct td_fuser_group *group = &f->open[k];
    if (group->n == 1)
        *group->with[0] = -1;
    f->n_open--;
    memmove(group, group + 1, sizeof *group * (size_t)(f->n_open - k));
}

void td_fuser_close(struct td_fuser *f, int with)
{
    for (int k = f->n_open - 1; k >= 0 && with >= 0; k--)
        if (*f->open[k].with[0] == with)
            close_at(f, k);
}

void td_fuser_end(struct td_fuser *f)
{
    while (f->n_open)
        close_at(f, f->n_open - 1);
}

void td_fuser_place(struct td_fuser *f, int at, int *with, const struct td_call *call,
                    const struct td_impl *impl)
{
    const struct td_tensor *out = &call->out[0];
    int values = impl && td_numel(out) > 0 ? td_fused_values(call, impl) : 0;
    int k = values ? f->n_open - 1 : -1;
    while (k >= 0 && (f->open[k].values + values > TD_FUSED_VALUES ||
                      !td_fuser_has_shape(out, f->open[k].like)))
        k--;
    *with = -1;
    if (k < 0 && f->next_only)
        td_fuser_end(f);
    if (!values)
        return;
    if (k < 0) {
        if (f->n_open == TD_FUSER_OPEN)
            close_at(f, 0);
        k = f->n_open++;
        f->open[k].n = f->open[k].values = 0;
        f->open[k].flops = 0;
        f->open[k].turns = false;
        f->open[k].like = out;
    }
    struct td_fuser_group *group = &f->open[k];
    group->with[group->n++] = with;
    group->values += values;
    group->turns = group->turns || td_fused_turns(call);
    group->flops += call->op->flops(call);
    for (int i = 0; i < group->n; i++)
        *group->with[i] = at;
}

bool td_fuser_reduce(struct td_fuser *f, int at, int *with, const struct td_call *call,
                     const struct td_impl *impl, int of)
{
    int k = f->n_open - 1;
    while (k >= 0 && *f->open[k].with[0] != of)
        k--;
    struct td_fuser_group *group = of >= 0 && k >= 0 && impl ? &f->open[k] : NULL;
    if (!group || group->turns || group->n == TD_FUSED_MOST ||
        !td_fused_reduces(call, impl, group->flops))
        return false;
    group->with[group->n++] = with;
    for (int i = 0; i < group->n; i++)
        *group->with[i] = at;
    close_at(f, k);
    return true;
}

/* Of the part before that makes its one tensor, whole, the group. */
static int maker_of(const struct td_run *part)
{
    bool one = part->n_feeds == 1 && part->feed[0].of && !part->feed[0].arg;
    return one ? part->feed[0].of->with : -1;
}

void td_fuse_parts(struct td_run *run)
{
    struct td_fuser f;
    f.next_only = false;
    f.n_open = 0;
    int n = 0;
    for (struct td_run *part = run->parts; part; part = part->next) {
        bool plain = !part->parts && !part->n_casts && !part->call.counted;
        part->number = n++;
        const struct td_impl *impl = plain ? part->impl : NULL;
        part->kept = /* a reduction's result is in memory, whoever reads it */
            td_fuser_reduce(&f, part->number, &part->with, &part->call, impl, maker_of(part));
        if (!part->kept)
            td_fuser_place(&f, part->number, &part->with, &part->call, impl);
        for (int i = 0; i < part->n_feeds; i++)
            if (part->feed[i].of && part->feed[i].of->with != part->with)
                td_fuser_close(&f, part->feed[i].of->with);
    }
    td_fuser_end(&f);
    for (struct td_run *part = run->parts; part; part = part->next)
        for (int i = 0; i < part->n_feeds; i++)
            if (part->feed[i].of && (part->with < 0 || part->feed[i].of->with != part->with))
                part->feed[i].of->kept = true;
}
