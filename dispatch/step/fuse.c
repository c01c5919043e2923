/* Which parts of a run are computed together: those that are pointwise over one shape, by rows that
 * walk, a tile at a time. Parts stand in an order in which they can be
 * computed; a group is computed where its last one stands. So a part may join those before it
 * unless what stands between them, and is none of them, wants a result of theirs. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"
#include "kernels/loops/fused.h"

#include <string.h>

/* Whether both have one shape, but for leading dimensions of 1. */
static bool has_shape(const struct td_tensor *a, const struct td_tensor *b)
{
    for (int d = 1; d <= a->rank || d <= b->rank; d++)
        if ((d <= a->rank ? a->shape[a->rank - d] : 1) !=
            (d <= b->rank ? b->shape[b->rank - d] : 1))
            return false;
    return true;
}

static int values_of(const struct td_run *part)
{
    bool plain =
        !part->parts && !part->n_casts && !part->call.counted && td_numel(&part->call.out[0]) > 0;
    return plain ? td_fused_values(&part->call, part->impl) : 0;
}

/* Whether part reads a result of those that are computed with last. */
static bool reads(const struct td_run *part, const struct td_run *last)
{
    for (int i = 0; i < part->n_feeds; i++)
        if (part->feed[i].of && part->feed[i].of->with == last)
            return true;
    return false;
}

/* Whether part may join those of last, of which the first stands at first. */
static bool may_join(const struct td_run *part, const struct td_run *first,
                     const struct td_run *last)
{
    int values = values_of(part);
    if (!has_shape(&part->call.out[0], &last->call.out[0]))
        return false;
    for (const struct td_run *p = first; p != part; p = p->next)
        if (p->with == last)
            values += values_of(p);
        else if (reads(p, last))
            return false;
    return values <= TD_FUSED_VALUES;
}

static void join(struct td_run *first, const struct td_run *last, struct td_run *part)
{
    for (struct td_run *p = first; p != part; p = p->next)
        if (p->with == last)
            p->with = part;
    part->with = part;
}

/* Gives part to the last group before it that it may join, or begins one. */
static void place(struct td_run *run, struct td_run *part)
{
    struct td_run *of = NULL;
    for (struct td_run *first = run->parts; first != part; first = first->next) {
        const struct td_run *last = first->with;
        bool begins = last != NULL;
        for (const struct td_run *p = run->parts; begins && p != first; p = p->next)
            begins = p->with != last;
        if (begins && may_join(part, first, last))
            of = first;
    }
    if (of)
        join(of, of->with, part);
    else
        part->with = part;
}

/* What others want of those that are computed together is kept; one alone is computed as it is. */
static void settle(struct td_run *run)
{
    for (struct td_run *part = run->parts; part; part = part->next) {
        bool alone = part->with == part;
        for (const struct td_run *p = run->parts; alone && p != part; p = p->next)
            alone = p->with != part;
        part->with = alone ? NULL : part->with;
        part->kept = false;
    }
    for (struct td_run *part = run->parts; part; part = part->next)
        for (int i = 0; i < part->n_feeds; i++) {
            const struct td_run *of = part->feed[i].of;
            for (struct td_run *p = run->parts; p != part; p = p->next)
                p->kept = p->kept || (p == of && (!part->with || part->with != p->with));
        }
}

void td_fuse_plan(struct td_run *run)
{
    for (struct td_run *part = run->parts; part; part = part->next)
        part->with = NULL;
    for (struct td_run *part = run->parts; part; part = part->next)
        if (values_of(part))
            place(run, part);
    settle(run);
}
