/* Estimates how long a call will take, to decide whether a thread that others wait for may run it
 * itself.
 *
 * The number of operations does not suffice: a kernel may be a thousand times slower for unusual
 * sizes, and a library compiles for milliseconds before its first call. So the estimate relies on
 * times that were measured of the same row on a call with the same signature (shapes and all
 * attributes). For a call that was not seen before it is the worst time that any row takes for a
 * unit of work; and for one whose library primitive is not made yet it is infinite.
 *
 * Times are in one hash table, in which a new entry replaces the old one. A race loses a sample or
 * mixes two, which is harmless: the 64-bit keys are compared. */
#include "dispatch/call/own.h"
#include "dispatch/choice/hash.h"
#include "kernels/weight.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ENTRIES 8192
#define GUESS_NS 0.5 /* for a unit of work, while no time of the row is known */
#define WORST_NS 100 /* for a unit at most: a reference in double, element by element */

static struct entry {
    _Atomic uint64_t key;
    _Atomic float ns;
} table[ENTRIES];

/* The key of the row for any call of that type; exact: for calls with this signature. Never 0. */
static uint64_t key_of(const struct td_run *run, const struct td_impl *impl, bool exact)
{
    uint64_t h = td_hash((uintptr_t)impl, (uint64_t)run->call.out[0].dtype + 1);
    for (int i = 0; i < run->n_casts; i++)
        h = td_hash(h, run->cast[i].from.dtype);
    for (int i = 0; exact && i < run->call.n_args; i++)
        h = td_hash_value(h, &run->call.arg[i]);
    return h | 1;
}

/* The time in ns with this key; -1: none is known. */
static double known(uint64_t key)
{
    struct entry *e = &table[key / 2 % ENTRIES];
    return atomic_load_explicit(&e->key, memory_order_relaxed) == key
               ? (double)atomic_load_explicit(&e->ns, memory_order_relaxed)
               : -1;
}

/* Adds a sample to a moving average. A thread that is preempted in a kernel measures milliseconds
 * for a microsecond, so a sample counts at most twice the average: otherwise one such sample would
 * send the next dozens of small calls to the queue. Shorter times count more, because the first
 * call also touches memory and makes what later calls reuse. */
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

/* Units of work: bytes moved or an eighth of the operations, whichever is more. */
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

/* Fills run->cost_, which is needed twice for each call, and kept if a bound call runs again. */
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
    if (run->parts || !run->rows || run->view)
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
