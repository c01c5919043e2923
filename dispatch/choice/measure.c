/* The choice that an order cannot make: between a library's rows and our own, of which now these
 * and now those are faster, by shape, type and CPU. Where a table has a library's rows, the first
 * call of a kind has all rows that take it timed, and the fastest is kept for calls of that kind:
 * equal calls have equal results until the kind is evicted, and a plan that is made keeps what was
 * chosen then. What cuDNN's benchmark mode and Paddle's autotune do; but what is timed is a
 * dense copy of the call on memory of its own, so that it needs no data yet, disturbs none, and can
 * be done where models are planned. Refused: to try rows in turn on clients' calls, whose results
 * would differ in their last bits from one to the next.
 *
 * Which calls are of one kind, key.c says.
 *
 * Kinds lie in a table of some thousand (kinds.h). The order of the rows decides where a call is
 * too large to copy, and for a while where the table is full of kinds that came later. */
#include "dispatch/choice/kinds.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES ((size_t)32 << 20) /* of a copy; of scratch twice that */
#define MOST_FLOPS 4e9                /* half a second, with all rows */
#define ROUNDS 7
#define ROUND_NS 20000  /* of repeating a row in one round */
#define ALL_NS 3000000  /* of rounds, after which there are no more */
#define FAR 1.5         /* of the best: a row behind that is not timed again */
#define WAIT_NS 1000000 /* for another measurement, before looking whether to stop */
#define EQUAL 1.03      /* within that the first one listed is taken: it is the same each time */

static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_on;

void td_tune(bool on)
{
    atomic_store(&is_on, on);
}

bool td_tune_is_on(void)
{
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

/* ---- which calls ---- */

static bool is_contested(const struct td_impl *rows, const struct td_call *call)
{
    if (!rows->prepare || !call->op->flops || call->op->follows || call->counted)
        return false;
    while (rows->run && !rows->library)
        rows++;
    return rows->run;
}

/* Stored ones stay where they are, and one that is left out has no type. */
static size_t room_of(const struct td_tensor *t)
{
    return t->weight || !t->dtype ? 0 : td_room_of(td_nbytes(t));
}

/* Bytes of a copy's tensors. */
static size_t size_of(const struct td_call *call)
{
    size_t bytes = 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        bytes += v->kind == TD_KIND_tensor ? room_of(&v->tensor) : 0;
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            bytes += room_of(&v->tensors.v[k]);
    }
    for (int i = 0; i < call->n_out; i++)
        bytes += room_of(&call->out[i]);
    return bytes;
}

/* ---- measuring ---- */

struct rival {
    const struct td_impl *row;
    struct td_prepared prepared;
    double ns;
};

struct trial {
    struct td_call call;
    struct td_value arg[TD_MAX_ARGS];
    struct td_tensor out[TD_MAX_OUTS], list[TD_MAX_ARGS]; /* of arguments that are lists */
    char *room, *scratch;
    size_t taken; /* of td_memory, for both */
    int n;
    struct rival rival[TD_MEASURED];
};

static void place(struct td_tensor *t, char **room)
{
    size_t bytes = room_of(t);
    t->stride = NULL; /* kinds tell none apart: rows that read by strides hardly take longer */
    t->data = bytes ? *room : t->data;
    *room += bytes;
}

/* False: there are too many. */
static bool place_list(struct trial *t, struct td_value *v, int *n, char **room)
{
    struct td_tensor *list = &t->list[*n];
    if (*n + v->tensors.n > TD_MAX_ARGS)
        return false;
    *n += v->tensors.n;
    for (int i = 0; i < v->tensors.n; i++) {
        list[i] = v->tensors.v[i];
        place(&list[i], room);
    }
    v->tensors.v = list;
    return true;
}

/* Counted memory; NULL: there is none. */
static char *take(struct trial *t, size_t bytes)
{
    if (td_budget_take(&td_memory, bytes))
        return NULL;
    t->taken += bytes;
    return aligned_alloc(64, bytes);
}

/* The call on other memory: numbers of every type that are neither denormal nor large. False: there
 * is no room for it. */
static bool copy(struct trial *t, const struct td_call *call)
{
    size_t bytes = size_of(call);
    int n_list = 0;
    bool fits = true;
    char *room = t->room = take(t, bytes);
    if (!room)
        return false;
    memset(room, 0x3c, bytes);
    t->call = *call;
    t->call.arg = t->arg;
    t->call.out = t->out;
    t->call.threads = call->threads > 1 ? call->threads : 1;
    for (int i = 0; i < call->n_args; i++) {
        t->arg[i] = call->arg[i];
        if (t->arg[i].kind == TD_KIND_tensor)
            place(&t->arg[i].tensor, &room);
        if (t->arg[i].kind == TD_KIND_tensors)
            fits = fits && place_list(t, &t->arg[i], &n_list, &room);
    }
    for (int i = 0; i < call->n_out; i++) {
        t->out[i] = call->out[i];
        place(&t->out[i], &room);
    }
    return fits;
}

/* Whether an own row of the level has no chance beside one of the higher level: it is the same code
 * with vectors half as long, or with none. */
static bool is_beaten(enum td_isa isa, enum td_isa higher)
{
    return isa == TD_ISA_default ? higher != isa : isa < TD_ISA_avx512 && higher >= TD_ISA_avx512;
}

/* Rows that take the call, with scratch that they share; the reference never, and rows without a
 * chance where all are asked for. */
static void find_rivals(struct trial *t, const struct td_impl *rows, bool all)
{
    enum td_isa own = TD_ISA_default;
    size_t most = 64;
    t->n = 0;
    for (const struct td_impl *row = rows; row[1].run && t->n < TD_MEASURED; row++) {
        struct rival *r = &t->rival[t->n];
        *r = (struct rival){.row = row};
        if ((!all && !row->library && is_beaten(row->isa, own)) ||
            td_row_objection(&t->call, row, &r->prepared))
            continue;
        if (!row->library && row->isa > own)
            own = row->isa;
        size_t bytes = td_room_of(r->prepared.scratch);
        if (bytes > 2 * MOST_BYTES) {
            td_prepared_release(&r->prepared);
            continue;
        }
        most = bytes > most ? bytes : most;
        t->n++;
    }
    t->scratch = take(t, most);
}

/* A thread that computes alone is not charged for what others do to it. */
static double now_ns(const struct trial *t)
{
    struct timespec at;
    clock_gettime(t->call.threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

/* Nanoseconds a run, of several; INFINITY: it has trapped. */
static double time_rival(struct trial *t, struct rival *r, int times)
{
    double begin = now_ns(t);
    t->call.scratch = t->scratch;
    t->call.prepared = &r->prepared;
    for (int i = 0; i < times; i++)
        if (td_impl_run(r->row, &t->call))
            return INFINITY;
    return (now_ns(t) - begin) / times;
}

static double best_of(const struct trial *t)
{
    double best = t->rival[0].ns;
    for (int i = 1; i < t->n; i++)
        best = t->rival[i].ns < best ? t->rival[i].ns : best;
    return best;
}

/* The least of some rounds, in which rows take turns: what others do on the machine adds to a round
 * and takes from none. The first run of each makes and touches what later ones find. */
static void time_rivals(struct trial *t)
{
    double all = 0;
    for (int i = 0; i < t->n; i++) {
        for (int twice = 0; twice < 2 && !td_stopped(); twice++)
            t->rival[i].ns = time_rival(t, &t->rival[i], 1);
        all += t->rival[i].ns;
    }
    double begin = now_ns(t) - all;
    for (int round = 0; round < ROUNDS && now_ns(t) - begin < ALL_NS; round++) {
        double best = best_of(t);
        for (int i = 0; i < t->n && !td_stopped(); i++) {
            struct rival *r = &t->rival[i];
            if (r->ns > (round ? FAR : 2 * FAR) * best)
                continue;
            double ns = time_rival(t, r, r->ns < ROUND_NS ? (int)(ROUND_NS / (r->ns + 10)) : 1);
            r->ns = ns < r->ns || isinf(ns) ? ns : r->ns;
        }
    }
}

static void settle(const struct trial *t, const struct td_impl *rows, bool all,
                   struct td_measured *m)
{
    double best = best_of(t);
    *m = (struct td_measured){.op = t->call.op,
                              .of = rows,
                              .signature = td_kind_signature(&t->call),
                              .asked = all,
                              .n = t->n};
    td_kind_tell(&t->call, m->call);
    for (int i = 0; i < t->n; i++) {
        m->tried[i].row = t->rival[i].row;
        m->tried[i].us = isinf(t->rival[i].ns) ? 0 : t->rival[i].ns * 1e-3;
        if (!m->row && t->rival[i].ns <= EQUAL * best)
            m->row = t->rival[i].row;
    }
}

/* False: it was stopped, or there was no memory or nothing to choose from. */
static bool measure(const struct td_impl *rows, const struct td_call *call, bool all,
                    struct td_measured *m)
{
    struct trial t;
    t.n = 0;
    t.taken = 0;
    t.scratch = NULL;
    if (copy(&t, call))
        find_rivals(&t, rows, all);
    if (t.n > 1 && t.scratch)
        time_rivals(&t);
    bool done = t.n && t.scratch && !td_stopped() && !isinf(best_of(&t));
    if (done)
        settle(&t, rows, all, m);
    for (int i = 0; i < t.n; i++)
        td_prepared_release(&t.rival[i].prepared);
    free(t.scratch);
    free(t.room);
    td_budget_give(&td_memory, t.taken);
    return done;
}

/* ---- for select.c ---- */

bool td_measure_fits(const struct td_call *call)
{
    double flops = call->op->flops ? call->op->flops(call) : 0;
    return size_of(call) <= MOST_BYTES && flops <= MOST_FLOPS;
}

/* What was kept for the key may be another table's, if two kinds have one hash. */
static const struct td_impl *row_of(const struct td_impl *rows, uint64_t key, bool selects)
{
    const struct td_impl *row = td_kind_row(key, selects);
    while (row && rows->run && rows != row)
        rows++;
    return row && rows->run ? row : NULL;
}

static uint64_t key_of(const struct td_impl *rows, const struct td_call *call)
{
    return td_kind_key(td_kind_signature(call), rows, call->op);
}

/* Whether something may be kept of such calls; measures: it is measured where it is not. */
static bool is_tuned(const struct td_impl *rows, const struct td_call *call, bool *measures)
{
    bool on = td_tune_is_on();
    *measures = on && is_contested(rows, call);
    return *measures || (on && td_kinds_were_asked());
}

const struct td_impl *td_measured_row(const struct td_impl *rows, const struct td_call *call,
                                      bool *open)
{
    bool measures;
    *open = false;
    if (!is_tuned(rows, call, &measures))
        return NULL;
    uint64_t key = key_of(rows, call);
    const struct td_impl *row = row_of(rows, key, false);
    *open = measures && !row && td_measure_fits(call) && td_kind_may_add(key);
    return row;
}

bool td_measured_of(const struct td_impl *rows, const struct td_call *call, struct td_measured *m)
{
    bool measures;
    return is_tuned(rows, call, &measures) && td_kind_copy(key_of(rows, call), m);
}

/* Waits until nobody else measures; false: this one is stopped before. */
static bool begin_measuring(void)
{
    while (pthread_mutex_trylock(&measuring)) {
        if (td_stopped())
            return false;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return true;
}

const struct td_impl *td_measure(const struct td_impl *rows, const struct td_call *call)
{
    bool measures;
    if (!is_tuned(rows, call, &measures))
        return NULL;
    uint64_t key = key_of(rows, call);
    const struct td_impl *row = row_of(rows, key, true);
    if (row || !measures || !td_measure_fits(call))
        return row;
    if (!td_kind_may_add(key)) {
        td_kind_postpone(call->op);
        return NULL;
    }
    if (!begin_measuring())
        return NULL;
    struct td_measured m;
    int64_t begin = td_clock_ns();
    row = row_of(rows, key, true); /* which may have been measured meanwhile */
    if (!row && measure(rows, call, false, &m)) {
        td_kind_add(key, &m, td_clock_ns() - begin);
        row = m.row;
    }
    pthread_mutex_unlock(&measuring);
    return row;
}

int td_measure_all(const struct td_impl *rows, const struct td_call *call, struct td_measured *m)
{
    if (!begin_measuring())
        return -ETIMEDOUT;
    int64_t begin = td_clock_ns();
    bool done = measure(rows, call, true, m);
    if (done)
        td_kind_add(td_kind_key(m->signature, m->of, m->op), m, td_clock_ns() - begin);
    pthread_mutex_unlock(&measuring);
    return done ? 0 : td_stopped() ? -ETIMEDOUT : -ENOMEM;
}
