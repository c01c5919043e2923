/* Times the rows that take a call, on a dense copy of the call in memory of its own. So the call
 * needs no data yet, none are changed, and this can be done when plans are made. Trying the rows in
 * turn on clients' calls was rejected: equal calls would differ in the last bits of results. */
#include "dispatch/choice/kinds.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES ((size_t)32 << 20) /* of a copy, at most; of scratch twice that */
#define MOST_FLOPS 4e9                /* of a call, at most: half a second with all rows */
#define ROUNDS 7
#define ROUND_NS 20000 /* a row is repeated for this long in a round */
#define ALL_NS                                                                                     \
    3000000 /* after this long no further round begins; half of it on one thread, whose */
#define LONG_NS 200000  /* CPU time is precise. There a run of this length tells well enough: */
#define FAR 1.5         /* a row slower than this times the best is not timed again */
#define HOPELESS 3      /* a first run is stopped after this times the best, plus */
#define SLACK_NS 500000 /* this for what a first run makes */
#define TRIES 3         /* of a run that was kept off the CPU by others */
#define EQUAL 1.03      /* rows within this of the best are equal: the first in the table is used */

/* ---- the copy ---- */

/* The bytes that a tensor needs in the copy: none for a weight, which is not copied, or one left
 * out. */
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

bool td_measure_fits(const struct td_call *call)
{
    double flops = call->op->flops ? call->op->flops(call) : 0;
    return size_of(call) <= MOST_BYTES && flops <= MOST_FLOPS;
}

struct rival {
    const struct td_impl *row;
    struct td_prepared prepared;
    double ns;
};

struct trial {
    struct td_call call;
    struct td_value arg[TD_MAX_ARGS];
    struct td_tensor out[TD_MAX_OUTS], list[TD_MAX_ARGS]; /* list: of list arguments */
    char *room, *scratch;
    size_t taken; /* of td_memory, for both */
    bool asked;   /* a client asked: times all rows to their end */
    int n;
    struct rival rival[TD_MEASURED];
};

static void place(struct td_tensor *t, char **room)
{
    size_t bytes = room_of(t);
    t->stride = NULL; /* not part of a kind: rows that read with strides hardly take longer */
    t->data = bytes ? *room : t->data;
    *room += bytes;
}

/* Places the tensors of a list; false: there are too many. */
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

/* Memory that is charged to td_memory; NULL: there is none. */
static char *take(struct trial *t, size_t bytes)
{
    if (td_budget_take(&td_memory, bytes))
        return NULL;
    t->taken += bytes;
    return aligned_alloc(64, bytes);
}

#define NOWHERE ((char *)64) /* of a copy before it has memory: rows are asked, and none is run */

/* Lays the call's tensors out from room on, and takes the rest as it is. False: there are too many
 * in lists. */
static bool lay_out(struct trial *t, const struct td_call *call, char *room)
{
    int n_list = 0, threads = t->call.threads;
    bool fits = true;
    t->call = *call;
    t->call.arg = t->arg;
    t->call.out = t->out;
    t->call.threads = threads;
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

/* Gives the copy and the rows' scratch memory of their own, with elements that are neither denormal
 * nor large in any type. False: there is none. */
static bool give_memory(struct trial *t, const struct td_call *call, size_t scratch)
{
    size_t bytes = size_of(call);
    t->room = take(t, bytes);
    t->scratch = t->room ? take(t, scratch) : NULL;
    if (!t->scratch)
        return false;
    memset(t->room, 0x3c, bytes);
    return lay_out(t, call, t->room);
}

/* Whether one of our rows cannot beat one of the higher level: it is the same code with vectors of
 * half the width, or without vectors. */
static bool is_beaten(enum td_isa isa, enum td_isa higher)
{
    return isa == TD_ISA_default ? higher != isa : isa < TD_ISA_avx512 && higher >= TD_ISA_avx512;
}

/* Whether a library's row is among the rivals. */
static bool has_library(const struct trial *t)
{
    bool has = false;
    for (int i = 0; i < t->n; i++)
        has |= t->rival[i].row->library;
    return has;
}

/* Whether an earlier row is the same code: tables list it again behind others, for calls that it is
 * to leave to these. */
static bool is_there(const struct trial *t, const struct td_impl *row)
{
    bool is = false;
    for (int i = 0; i < t->n; i++)
        is |= t->rival[i].row->run == row->run && t->rival[i].row->isa == row->isa;
    return is;
}

/* Finds the rows to be timed, which take the call: not the reference, and, unless a client asked,
 * no rows that cannot win. The bytes of scratch that they share. */
static size_t find_rivals(struct trial *t, const struct td_impl *rows)
{
    enum td_isa own = TD_ISA_default;
    size_t most = 64;
    t->n = 0;
    for (const struct td_impl *row = rows; row[1].run && t->n < TD_MEASURED; row++) {
        struct rival *r = &t->rival[t->n];
        *r = (struct rival){.row = row};
        if ((!t->asked && !row->library && is_beaten(row->isa, own)) || is_there(t, row) ||
            td_row_objection(&t->call, row, &r->prepared))
            continue;
        if (!row->library && row->isa > own)
            own = row->isa;
        size_t bytes = td_room_of(r->prepared.scratch);
        bool hopeless = !t->asked && r->prepared.rearranges && has_library(t);
        if (bytes > 2 * MOST_BYTES || hopeless) {
            td_prepared_release(&r->prepared);
            continue;
        }
        most = bytes > most ? bytes : most;
        t->n++;
    }
    return most;
}

/* The time in ns; for one thread its CPU time, which does not include waiting for the CPU. */
static double now_ns(const struct trial *t)
{
    struct timespec at;
    clock_gettime(t->call.threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

/* The mean time in ns of that many runs; INFINITY: one has trapped. */
static double time_runs(struct trial *t, struct rival *r, int times)
{
    double begin = now_ns(t);
    t->call.scratch = t->scratch;
    t->call.prepared = &r->prepared;
    for (int i = 0; i < times; i++)
        if (td_impl_run(r->row, &t->call))
            return INFINITY;
    return (now_ns(t) - begin) / times;
}

/* Nanoseconds that a row may take beyond HOPELESS times the best: it may pack weights, which takes
 * less than 1 ns a byte. */
static double slack_of(const struct trial *t)
{
    double bytes = 0;
    for (int i = 0; i < t->call.n_args; i++)
        if (t->arg[i].kind == TD_KIND_tensor && t->arg[i].tensor.weight)
            bytes += (double)td_nbytes(&t->arg[i].tensor);
    return SLACK_NS + bytes;
}

/* The time of one run that is stopped after most ns, so that a slow row costs little. A run that
 * was stopped because others kept it off the CPU is repeated, up to TRIES times. */
static double time_limited(struct trial *t, struct rival *r, double most)
{
    const struct td_stop *caller = td_stop_obeyed;
    bool stopped = true;
    double ns = 0;
    for (int i = 0; i < TRIES && stopped && ns < most / 2; i++) {
        int64_t last = td_clock_ns() + (int64_t)most;
        if (caller && caller->deadline_ns && caller->deadline_ns < last)
            last = caller->deadline_ns;
        struct td_stop limit = {.deadline_ns = last};
        td_stop_obey(&limit);
        ns = time_runs(t, r, 1);
        stopped = td_stopped();
        td_stop_obey(caller);
    }
    return stopped && ns <= most ? most + 1 : ns;
}

/* The best time of the first n rows. */
static double best_of(const struct trial *t, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        best = t->rival[i].ns < best ? t->rival[i].ns : best;
    return best;
}

/* Whether other processes use the team's CPUs, so that times would be mostly theirs. */
static bool is_crowded(const struct trial *t)
{
    return !t->asked && t->call.threads > 1 && td_team_is_crowded();
}

/* Whether timing has to end. */
static bool is_over(const struct trial *t)
{
    return td_stopped() || is_crowded(t);
}

/* Runs each row twice. The first run makes and touches what later ones reuse, so the second counts.
 * A library's first run compiles and cannot be stopped. */
static void try_rivals(struct trial *t)
{
    for (int i = 0; i < t->n && !is_over(t); i++) {
        struct rival *r = &t->rival[i];
        double best = best_of(t, i), most = HOPELESS * best + slack_of(t);
        bool limited = !t->asked && !r->row->library && !isinf(best);
        r->ns = 0;
        for (int run = 0; run < 2 && !is_over(t) && (!limited || r->ns <= most); run++)
            r->ns = limited ? time_limited(t, r, most) : time_runs(t, r, 1);
    }
}

/* How many rows are within far times the best. */
static int count_close(const struct trial *t, double far)
{
    double best = best_of(t, t->n);
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->rival[i].ns <= far * best;
    return n;
}

/* How far behind the best a row may be to be timed in the round: in the first one, which follows a
 * single run of each, farther, unless that was long and precise. */
static double far_in(const struct trial *t, int round, double best)
{
    bool precise = t->call.threads == 1 && best >= LONG_NS;
    return round || precise ? FAR : 2 * FAR;
}

/* Times the rows in rounds, in which they take turns, and keeps the fastest round of each, because
 * other load can only make a round slower. A row that is far behind drops out; the last one left
 * ends it. */
static void time_rivals(struct trial *t)
{
    double all = 0, most = t->call.threads > 1 ? ALL_NS : ALL_NS / 2;
    try_rivals(t);
    for (int i = 0; i < t->n; i++)
        all += t->rival[i].ns;
    double begin = now_ns(t) - all; /* slow rows are not timed again */
    for (int round = 0; round < ROUNDS && now_ns(t) - begin < most; round++) {
        double best = best_of(t, t->n), far = far_in(t, round, best);
        if (count_close(t, far) < 2)
            return;
        for (int i = 0; i < t->n && !is_over(t); i++) {
            struct rival *r = &t->rival[i];
            if (r->ns > far * best)
                continue;
            double ns = time_runs(t, r, r->ns < ROUND_NS ? (int)(ROUND_NS / (r->ns + 10)) : 1);
            r->ns = ns < r->ns || isinf(ns) ? ns : r->ns;
        }
    }
}

/* Fills the measurement of the call, which may have more threads than the rows were timed with. */
static void settle(const struct trial *t, const struct td_impl *rows, const struct td_call *call,
                   struct td_measured *m)
{
    double best = best_of(t, t->n);
    *m = (struct td_measured){.op = t->call.op,
                              .of = rows,
                              .signature = td_kind_signature(call),
                              .family = td_kind_family(call),
                              .flops = call->op->flops ? call->op->flops(call) : 0,
                              .asked = t->asked,
                              .n = t->n};
    td_kind_tell(call, m->call);
    for (int i = 0; i < t->n; i++) {
        m->tried[i].row = t->rival[i].row;
        m->tried[i].us = isinf(t->rival[i].ns) ? 0 : t->rival[i].ns * 1e-3;
        if (!m->row && t->rival[i].ns <= EQUAL * best)
            m->row = t->rival[i].row;
    }
}

/* Times the rows with t->call.threads threads. False: there is no result. */
static bool try_with(struct trial *t, const struct td_impl *rows, const struct td_call *call,
                     struct td_measured *m)
{
    t->n = 0;
    t->taken = 0;
    t->room = t->scratch = NULL;
    size_t scratch = !is_over(t) && lay_out(t, call, NOWHERE) ? find_rivals(t, rows) : 0;
    bool ready = t->n == 1 || (t->n && give_memory(t, call, scratch));
    if (t->n > 1 && ready) /* a single one is not timed */
        time_rivals(t);
    bool done = ready && !is_over(t) && !isinf(best_of(t, t->n));
    if (done)
        settle(t, rows, call, m);
    for (int i = 0; i < t->n; i++)
        td_prepared_release(&t->rival[i].prepared);
    free(t->scratch);
    free(t->room);
    td_budget_give(&td_memory, t->taken);
    return done;
}

bool td_try_rows(const struct td_impl *rows, const struct td_call *call, bool asked,
                 struct td_measured *m)
{
    struct trial t = {.asked = asked, .call.threads = call->threads > 1 ? call->threads : 1};
    bool done = try_with(&t, rows, call, m);
    if (!done && is_crowded(&t)) {
        t.call.threads = 1; /* its CPU time still tells which row is faster */
        done = try_with(&t, rows, call, m);
    }
    return done;
}
