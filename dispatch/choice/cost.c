/* What a call costs, before it is run: whether a thread that others wait for may run it itself.
 *
 * Arithmetic alone does not tell: a kernel that is offered sizes nobody thought of may take a
 * thousand times what its operations promise, and a library makes code for milliseconds before its
 * first call. So what is relied on is what has been measured, of the same row on a call of the same
 * shape, down to every attribute: its signature. A call that has not been seen is given the worst
 * that any row takes for a unit of work; and one that waits for a library's first primitive is
 * never sure.
 *
 * Times lie in one table, by hash; a new one takes the place of an old one. A race loses a sample,
 * or mixes two, which is fine: entries are told apart by 64 bits. */
#include "dispatch/call/own.h"
#include "dispatch/choice/hash.h"
#include "kernels/weight.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ENTRIES 8192
#define GUESS_NS 0.5 /* a unit of work, before anything is known of a row */
#define WORST_NS 100 /* and what it takes at most: references in double, an element at a time */

static struct entry {
    _Atomic uint64_t key;
    _Atomic float ns;
} table[ENTRIES];

/* Of the row, for any call of that type; and of the row for this very call. Never 0. */
static uint64_t key_of(const struct td_run *run, const struct td_impl *impl, bool exact)
{
    uint64_t h = td_hash((uintptr_t)impl, (uint64_t)run->call.out[0].dtype + 1);
    for (int i = 0; i < run->n_casts; i++)
        h = td_hash(h, run->cast[i].from.dtype);
    for (int i = 0; exact && i < run->call.n_args; i++)
        h = td_hash_value(h, &run->call.arg[i]);
    return h | 1;
}

static double known(uint64_t key)
{
    struct entry *e = &table[key / 2 % ENTRIES];
    return atomic_load_explicit(&e->key, memory_order_relaxed) == key
               ? (double)atomic_load_explicit(&e->ns, memory_order_relaxed)
               : -1;
}

/* A thread that was preempted in a kernel reports milliseconds for a microsecond: a sample counts
 * at most twice what is known, or one of them would send the next dozens of small calls to the
 * queue. The first call touches and makes what later ones find, so less is believed sooner. */
static void note(uint64_t key, double ns)
{
    struct entry *e = &table[key / 2 % ENTRIES];
    double old = known(key);
    if (old < 0)
        atomic_store_explicit(&e->key, key, memory_order_relaxed);
    else
        ns = ns < old ? (ns + old) / 2 : old + ((ns < 2 * old ? ns : 2 * old) - old) / 16;
    atomic_store_explicit(&e->ns, (float)ns, memory_order_relaxed);
}

static double bytes_of(const struct td_value *v)
{
    double bytes = v->kind == TD_KIND_tensor ? (double)td_nbytes(&v->tensor) : 0;
    for (int i = 0; v->kind == TD_KIND_tensors && i < v->tensors.n; i++)
        bytes += (double)td_nbytes(&v->tensors.v[i]);
    return bytes;
}

/* Units of work: an operation or a byte moved, whichever the operator has more of. */
static double work(const struct td_run *run)
{
    double bytes = 64, flops = 0;
    for (int i = 0; i < run->call.n_args; i++)
        bytes += bytes_of(&run->call.arg[i]);
    for (int i = 0; i < run->call.n_out; i++)
        bytes += (double)td_nbytes(&run->call.out[i]);
    for (int i = 0; i < run->n_casts; i++)
        bytes += (double)td_nbytes(&run->cast[i].from);
    if (run->call.op->flops)
        flops = run->call.op->flops(&run->call);
    return bytes > flops / 8 ? bytes : flops / 8;
}

/* Follows from what was bound, and is asked for twice a call; a call that comes again has it. */
static void sign(struct td_run *run, const struct td_impl *impl)
{
    if (run->cost_.impl == impl)
        return;
    run->cost_.impl = impl;
    run->cost_.row = key_of(run, impl, false);
    run->cost_.call = key_of(run, impl, true);
    run->cost_.units = work(run);
}

struct td_cost td_run_cost(struct td_run *run)
{
    struct td_cost cost = {0};
    for (struct td_run *part = run->parts; part; part = part->next) {
        struct td_cost of_part = td_run_cost(part);
        cost.likely += of_part.likely;
        cost.most += of_part.most;
    }
    if (run->parts || !run->rows)
        return cost;
    bool ready;
    const struct td_impl *impl = td_row_likely(run, &ready);
    sign(run, impl);
    double unit = known(run->cost_.row), ns = ready ? known(run->cost_.call) : -1;
    cost.likely = 1e-9 * (ns >= 0 ? ns : run->cost_.units * (unit >= 0 ? unit : GUESS_NS));
    cost.most = ready ? 1e-9 * (ns >= 0 ? ns : run->cost_.units * WORST_NS) : (double)INFINITY;
    return cost;
}

void td_run_learn(struct td_run *run, int64_t ns, int threads)
{
    double all = (double)ns * threads;
    sign(run, run->impl);
    note(run->cost_.call, all);
    note(run->cost_.row, all / run->cost_.units);
}
