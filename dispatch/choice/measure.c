/* Autotuning, as cuDNN's benchmark mode and Paddle's autotune do it. Whether a library's row or our
 * own is faster depends on shape, type and CPU, so a fixed order of rows cannot choose. If a table
 * has a library's rows, the first call of a kind (key.c) times all rows that take it (trial.c), and
 * the fastest is used for all calls of that kind: equal calls have equal results until the kind is
 * evicted, and a plan keeps the row that was chosen when it was made.
 *
 * Timing is done in a client's call, so a kind whose rows would take milliseconds is not timed if
 * one of its family was, which differs in large sizes alone: it has the same row.
 *
 * Results are in a cache of some thousand kinds (kinds.h). The order of the rows decides if a call
 * is too large to copy, and for a while if the kind's set in the cache is full. */
#include "dispatch/choice/kinds.h"
#include "pools/pools.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define WAIT_NS 1000000 /* between two checks whether another thread still measures */
#define LONG_US 250     /* timing that takes longer is left out if a near kind was measured: */
#define NEAR 4          /* with a quarter to four times as many operations */

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

/* Whether calls like this are measured: the table has a library's row, and neither sizes of results
 * nor memory accesses depend on values. */
static bool is_contested(const struct td_impl *rows, const struct td_call *call)
{
    if (!rows->prepare || !call->op->flops || call->op->follows || call->counted)
        return false;
    while (rows->run && !rows->library)
        rows++;
    return rows->run;
}

/* ---- for select.c ---- */

/* The cached row, if it is in this table: it may be another's, if two kinds have the same hash. */
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

/* Whether the cache may have such calls. *measures: they are measured if it has not. */
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

/* Waits until no other thread measures, and locks; false: the caller was stopped meanwhile. */
static bool begin_measuring(void)
{
    while (pthread_mutex_trylock(&measuring)) {
        if (td_stopped())
            return false;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    return true;
}

/* Takes over what was measured of the nearest kind of the family. False: there is none, or rows are
 * quick enough to be timed. */
static bool take_over(const struct td_impl *rows, const struct td_call *call, struct td_measured *m)
{
    const struct td_measured like = {
        .op = call->op, .of = rows, .family = td_kind_family(call), .flops = call->op->flops(call)};
    double us = 0;
    if (!td_kind_nearest(&like, NEAR, m) ||
        (m->flops <= TD_BRIEF_FLOPS) != (like.flops <= TD_BRIEF_FLOPS)) /* others were timed */
        return false;
    for (int i = 0; i < m->n; i++)
        us += 2 * m->tried[i].us * like.flops / m->flops; /* each would run twice */
    m->signature = td_kind_signature(call);
    m->asked = false;
    return us > LONG_US;
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
    row = row_of(rows, key, true); /* another thread may have measured it meanwhile */
    if (!row && (take_over(rows, call, &m) || td_try_rows(rows, call, false, &m))) {
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
    bool done = td_try_rows(rows, call, true, m);
    if (done)
        td_kind_add(td_kind_key(m->signature, m->of, m->op), m, td_clock_ns() - begin);
    pthread_mutex_unlock(&measuring);
    return done ? 0 : td_stopped() ? -ETIMEDOUT : -ENOMEM;
}
