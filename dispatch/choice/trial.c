/* Timing the rows that take a call, on a dense copy of it in memory of its own, so that it needs no
 * data yet, disturbs none, and can be done where models are planned. Refused: to try rows in turn
 * on clients' calls, whose results would differ in their last bits from one to the next. */
#include "dispatch/choice/kinds.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_BYTES ((size_t)32 << 20) /* of a copy; of scratch twice that */
#define MOST_FLOPS 4e9                /* half a second, with all rows */
#define ROUNDS 7
#define ROUND_NS 20000  /* of repeating a row in one round */
#define ALL_NS 3000000  /* of rounds, after which there are no more */
#define FAR 1.5         /* of the best: a row behind that is not timed again */
#define HOPELESS 3      /* of the best: a first run is stopped there, and */
#define SLACK_NS 500000 /* so much later, for what it makes */
#define TRIES 3         /* of a run that others keep waiting */
#define EQUAL 1.03      /* within that the first one listed is taken: it is the same each time */

/* ---- the copy ---- */

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
    struct td_tensor out[TD_MAX_OUTS], list[TD_MAX_ARGS]; /* of arguments that are lists */
    char *room, *scratch;
    size_t taken; /* of td_memory, for both */
    bool asked;   /* for all rows, however long it takes */
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
    int n_list = 0, threads = t->call.threads;
    bool fits = true;
    char *room = t->room = take(t, bytes);
    if (!room)
        return false;
    memset(room, 0x3c, bytes);
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

/* Whether an own row of the level has no chance beside one of the higher level: it is the same code
 * with vectors half as long, or with none. */
static bool is_beaten(enum td_isa isa, enum td_isa higher)
{
    return isa == TD_ISA_default ? higher != isa : isa < TD_ISA_avx512 && higher >= TD_ISA_avx512;
}

/* A library's row without a rival is taken untimed. */
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

/* Rows that take the call, with scratch that they share; the reference never, and rows without a
 * chance where all are asked for. */
static void find_rivals(struct trial *t, const struct td_impl *rows)
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

/* Nanoseconds that a row without a chance may take beyond HOPELESS times the best: it may pack
 * stored tensors, a byte of which takes less than one. */
static double slack_of(const struct trial *t)
{
    double bytes = 0;
    for (int i = 0; i < t->call.n_args; i++)
        if (t->arg[i].kind == TD_KIND_tensor && t->arg[i].tensor.weight)
            bytes += (double)td_nbytes(&t->arg[i].tensor);
    return SLACK_NS + bytes;
}

/* The same of one run, which is stopped after so long, for what has no chance is to cost no time.
 * Who was kept waiting by others instead is run again, a few times. */
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

/* Of the first n. */
static double best_of(const struct trial *t, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        best = t->rival[i].ns < best ? t->rival[i].ns : best;
    return best;
}

/* Where other processes use the team's CPUs, a region's time is mostly theirs. */
static bool is_crowded(const struct trial *t)
{
    return !t->asked && t->call.threads > 1 && td_team_is_crowded();
}

/* Whether timing has to end. */
static bool is_over(const struct trial *t)
{
    return td_stopped() || is_crowded(t);
}

/* The first run of each makes and touches what later ones find; the second one counts. A library's
 * compiles, and cannot be stopped. */
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

static int count_close(const struct trial *t, double far)
{
    double best = best_of(t, t->n);
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->rival[i].ns <= far * best;
    return n;
}

/* The least of some rounds, in which rows take turns: what others do on the machine adds to a round
 * and takes from none. One that is far behind is out, and where all others are, it is over. */
static void time_rivals(struct trial *t)
{
    double all = 0;
    try_rivals(t);
    for (int i = 0; i < t->n; i++)
        all += t->rival[i].ns;
    double begin = now_ns(t) - all; /* slow rows are not timed again */
    for (int round = 0; round < ROUNDS && now_ns(t) - begin < ALL_NS; round++) {
        double best = best_of(t, t->n), far = round ? FAR : 2 * FAR;
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

/* Of the call, which may have more threads than it was timed with. */
static void settle(const struct trial *t, const struct td_impl *rows, const struct td_call *call,
                   struct td_measured *m)
{
    double best = best_of(t, t->n);
    *m = (struct td_measured){.op = t->call.op,
                              .of = rows,
                              .signature = td_kind_signature(call),
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

/* Times the rows with so many threads. False: nothing was settled. */
static bool try_with(struct trial *t, const struct td_impl *rows, const struct td_call *call,
                     struct td_measured *m)
{
    t->n = 0;
    t->taken = 0;
    t->room = t->scratch = NULL;
    if (!is_over(t) && copy(t, call))
        find_rivals(t, rows);
    if (t->n > 1 && t->scratch)
        time_rivals(t);
    bool done = t->n && t->scratch && !is_over(t) && !isinf(best_of(t, t->n));
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
        t.call.threads = 1; /* whose own time tells the rows apart all the same */
        done = try_with(&t, rows, call, m);
    }
    return done;
}
