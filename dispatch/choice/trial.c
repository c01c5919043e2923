/* Times the rows that take a call, on a dense copy of the call, or of a part of it (part.h), in
 * memory of its own. So the call needs no data yet, none are changed, and this can be done when
 * plans are made. Trying the rows in turn on clients' calls was rejected: equal calls would differ
 * in the last bits of results. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/rivals.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of a trial that a client waits for, and of one that was asked for: */
#define ROUNDS 3
#define ASKED_ROUNDS 7
#define ROUND_NS 20000 /* a row is repeated for this long in a round */
/* After so long no further round begins; after half of it on one thread, whose CPU time is precise,
 * so that there a run of LONG_NS tells well enough. */
#define ALL_NS 3000000
#define LONG_NS 20000
#define FAR 1.5          /* a row slower than this times the best is not timed again, */
#define FAR_PRECISE 1.25 /* or, on one thread after a run of LONG_NS, than this, */
#define CLOSE 1.15       /* nor one slower than this, once it ran in a round */
#define HOPELESS 3       /* a first run is stopped after this times the best, plus */
#define SLACK_NS 500000  /* this for what a first run makes */
#define FIRST_TELLS 8 /* a first run of this times the slack, or twice that of a library, tells */
#define TRIES 3       /* of a run that was kept off the CPU by others */
#define EQUAL 1.03    /* rows within this of the best are equal: the first in the table is used */

/* The time in ns; for one thread its CPU time, which does not include waiting for the CPU. */
static double now_ns(const struct td_timing *t)
{
    struct timespec at;
    clock_gettime(t->copy.call.threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

/* The mean time in ns of that many runs; INFINITY: one has trapped. */
static double time_runs(struct td_timing *t, struct td_rival *r, int times)
{
    double begin = now_ns(t);
    t->copy.call.prepared = &r->prepared;
    for (int i = 0; i < times; i++)
        if (td_impl_run(r->row, &t->copy.call))
            return INFINITY;
    return (now_ns(t) - begin) / times;
}

/* Nanoseconds that a row may take beyond HOPELESS times the best. */
static double slack_of(const struct td_timing *t)
{
    return SLACK_NS + td_timing_packing_ns(t);
}

/* The time of one run that is stopped after most ns, so that a slow row costs little. A run that
 * was stopped because others kept it off the CPU is repeated, up to so many times. */
static double time_limited(struct td_timing *t, struct td_rival *r, double most, int tries)
{
    const struct td_stop *caller = td_stop_obeyed;
    bool stopped = true;
    double ns = 0;
    for (int i = 0; i < tries && stopped && ns < most / 2; i++) {
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
static double best_of(const struct td_timing *t, int n)
{
    double best = INFINITY;
    for (int i = 0; i < n; i++)
        best = t->rival[i].ns < best ? t->rival[i].ns : best;
    return best;
}

/* Whether other processes use the team's CPUs, so that times would be mostly theirs. */
static bool is_crowded(const struct td_timing *t)
{
    return !t->asked && t->copy.call.threads > 1 && td_team_is_crowded();
}

/* Whether timing has to end. */
static bool is_over(const struct td_timing *t)
{
    return td_stopped() || is_crowded(t);
}

/* Which rivals are left out behind one that was timed. */
enum which {
    ALL,
    SAME_SUMS, /* rows with as many multiplications as the formula: the peak bounds their time */
    LIBRARIES, /* libraries' rows, and all that are not asked yet */
};

static bool is_left_out(const struct td_rival *r, enum which which)
{
    return which == ALL || (which == SAME_SUMS ? !r->row->rounding : r->row->library || r->later);
}

/* Drops rivals from number n on: they are not timed. */
static void leave_out(struct td_timing *t, int n, enum which which)
{
    int kept = n;
    for (int i = n; i < t->n; i++)
        if (is_left_out(&t->rival[i], which))
            td_prepared_release(&t->rival[i].prepared);
        else
            t->rival[kept++] = t->rival[i];
    t->n = kept;
}

/* Asks a row that was to be asked later, which may want more scratch. False: it is out, or for want
 * of memory all are, since the copy has lost what it had. */
static bool ask_later(struct td_timing *t, int i)
{
    if (!td_rival_ask(t, &t->rival[i]))
        memmove(&t->rival[i], &t->rival[i + 1], (size_t)(--t->n - i) * sizeof *t->rival);
    else if (td_copy_give_memory(&t->copy, t->of, t->scratch))
        return true;
    else
        leave_out(t, 0, ALL);
    return false;
}

/* Whether a run was so long that what the first one makes and touches is nothing beside it. */
static bool is_long(const struct td_timing *t, const struct td_rival *r)
{
    return r->ns >= (r->row->library ? 2 : 1) * FIRST_TELLS * slack_of(t);
}

/* Whether a first run tells enough: what it made and touched is nothing beside it, it reached what
 * the CPU can do all the same, or one of our rows, which pack weights within the slack, took longer
 * than it may. A library's first run may make anything: it compiles, and creates what reorders its
 * weights. */
static bool tells_enough(struct td_timing *t, const struct td_rival *r, double most)
{
    bool fast = r->ns <= td_timing_near_peak_ns(t);
    return !t->asked && (fast || is_long(t, r) || (!r->row->library && r->ns > most));
}

/* Runs a row twice, unless the first run tells enough. That makes and touches what later ones
 * reuse, so the second counts. A library's row cannot be stopped. False: one of ours was stopped
 * before any other row had run, because it is not short, and has to be put off. */
static bool try_rival(struct td_timing *t, struct td_rival *r, double best)
{
    bool guess = isinf(best) && !r->put_off && td_timing_may_be_short(t);
    double most = HOPELESS * (guess ? td_timing_short_ns(t) : best) + slack_of(t);
    bool limited = !t->asked && !r->row->library && !isinf(most);
    r->ns = 0;
    for (int run = 0; run < 2 && !is_over(t) && (!run || !tells_enough(t, r, most)); run++)
        r->ns = limited ? time_limited(t, r, most, guess ? 1 : TRIES) : time_runs(t, r, 1);
    bool whole = r->ns <= most || (t->copy.call.threads == 1 && is_long(t, r));
    return !guess || r->row->library || whole;
}

/* Gives the rival its turn behind the others. */
static void put_off(struct td_timing *t, int i)
{
    struct td_rival r = t->rival[i];
    r.put_off = true;
    r.ns = INFINITY;
    memmove(&t->rival[i], &t->rival[i + 1], (size_t)(t->n - i - 1) * sizeof r);
    t->rival[t->n - 1] = r;
}

static void try_rivals(struct td_timing *t)
{
    double peak = td_timing_near_peak_ns(t);
    for (int i = 0; i < t->n && !is_over(t); i++) {
        struct td_rival *r = &t->rival[i];
        if (r->later && !ask_later(t, i)) {
            i--;
            continue;
        }
        if (!try_rival(t, r, best_of(t, i))) {
            put_off(t, i--);
            continue;
        }
        if (is_over(t))
            return;
        if (r->ns <= peak)
            leave_out(t, i + 1, SAME_SUMS);
        if (t->asked || r->row->library)
            continue;
        if (r->ns <= td_timing_short_ns(t) || !td_timing_may_pay(t, r->ns))
            leave_out(t, i + 1, r->ns <= TD_SHORT_NS ? ALL : LIBRARIES);
    }
}

/* How many rows are within far times the best. */
static int count_close(const struct td_timing *t, double far)
{
    double best = best_of(t, t->n);
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->rival[i].ns <= far * best;
    return n;
}

/* How far behind the best a row may be to be timed in the round: in the first one, which follows a
 * single run of each, farther, unless that was long and precise. */
static double far_in(const struct td_timing *t, int round, double best)
{
    bool precise = t->copy.call.threads == 1 && best >= LONG_NS;
    return round ? (t->asked ? FAR : CLOSE) : precise ? FAR_PRECISE : 2 * FAR;
}

/* Times the rows in rounds, in which they take turns, and keeps the fastest round of each, because
 * other load can only make a round slower. A row that is far behind drops out; the last one left
 * ends it. */
static void time_rivals(struct td_timing *t)
{
    double all = 0, most = t->copy.call.threads > 1 ? ALL_NS : ALL_NS / 2;
    try_rivals(t);
    for (int i = 0; i < t->n; i++)
        all += t->rival[i].ns;
    double begin = now_ns(t) - all; /* slow rows are not timed again */
    int rounds = t->asked ? ASKED_ROUNDS : ROUNDS;
    for (int round = 0; round < rounds && now_ns(t) - begin < most; round++) {
        double best = best_of(t, t->n), far = far_in(t, round, best);
        if (count_close(t, far) < 2)
            return;
        for (int i = 0; i < t->n && !is_over(t); i++) {
            struct td_rival *r = &t->rival[i];
            if (r->ns > far * best)
                continue;
            double ns = time_runs(t, r, r->ns < ROUND_NS ? (int)(ROUND_NS / (r->ns + 10)) : 1);
            r->ns = ns < r->ns || isinf(ns) ? ns : r->ns;
        }
    }
}

/* Fills the measurement of the call, which may have more threads than the rows were timed with. */
static void settle(const struct td_timing *t, const struct td_impl *rows,
                   const struct td_call *call, struct td_measured *m)
{
    double best = best_of(t, t->n);
    *m = (struct td_measured){.op = t->copy.call.op,
                              .of = rows,
                              .signature = td_kind_signature(call),
                              .family = td_kind_family(call),
                              .flops = call->op->flops ? call->op->flops(call) : 0,
                              .asked = t->asked,
                              .n = t->n};
    td_kind_tell(call, m->call);
    for (int i = 0; i < t->n; i++) {
        const struct td_rival *r = &t->rival[i];
        int at = i;
        for (; at && m->tried[at - 1].row > r->row; at--)
            m->tried[at] = m->tried[at - 1];
        m->tried[at].row = r->row;
        m->tried[at].us = isinf(r->ns) ? 0 : r->ns * 1e-3 * t->times;
        if (r->ns <= EQUAL * best && (!m->row || r->row < m->row))
            m->row = r->row;
    }
}

/* Times the rows with t->copy.call.threads threads. False: there is no result. */
static bool try_with(struct td_timing *t, const struct td_impl *rows, const struct td_call *call,
                     struct td_measured *m)
{
    t->n = 0;
    t->peak_ns = -1;
    t->scratch = 64;
    if (!is_over(t) && td_copy_begin(&t->copy, t->of))
        td_rivals_find(t, rows);
    bool ready = t->n == 1 || (t->n && td_copy_give_memory(&t->copy, t->of, t->scratch));
    if (t->n > 1 && ready) /* a single one is not timed */
        time_rivals(t);
    bool done = ready && !is_over(t) && !isinf(best_of(t, t->n));
    if (done)
        settle(t, rows, call, m);
    for (int i = 0; i < t->n; i++)
        td_prepared_release(&t->rival[i].prepared);
    td_copy_end(&t->copy, !t->asked);
    return done;
}

bool td_try_rows(const struct td_impl *rows, const struct td_call *call, bool asked,
                 struct td_measured *m)
{
    struct td_timing t = {.asked = asked,
                          .whole = call,
                          .of = call,
                          .times = 1,
                          .copy.call.threads = call->threads > 1 ? call->threads : 1};
    if (!asked && td_part_of(call, &t.part)) {
        t.of = &t.part.call;
        t.times = t.part.times;
    }
    bool done = try_with(&t, rows, call, m);
    if (!done && is_crowded(&t)) {
        t.copy.call.threads = 1; /* its CPU time still tells which row is faster */
        done = try_with(&t, rows, call, m);
    }
    return done;
}
