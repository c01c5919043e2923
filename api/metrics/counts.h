/* What is counted, between who counts it (metrics.c) and who tells it (text.c). Internal to this
 * room. */
#ifndef TD_API_METRICS_COUNTS_H
#define TD_API_METRICS_COUNTS_H

#include "api/metrics/metrics.h"

#define TD_COUNTED                                                                                 \
    TD_MAX_POOLS /* pools, and models, with counts of their own; the last: others                  \
                  */
#define TD_COUNTED_NAME 201
#define TD_BUCKETS 12 /* of a histogram, beside the one without an end */
extern const int64_t td_bounds_ns[TD_BUCKETS];

enum {
    TD_ROUTES = 0
#define TD_ROUTE(...) +1
#include "api/routes.def"
#undef TD_ROUTE
    ,
    TD_PROBLEMS = 0
#define TD_PROBLEM(...) +1
#include "api/request/problems.def"
#undef TD_PROBLEM
    ,
    TD_OP_ROWS = 16, /* of an operator's table, at most */
};
extern const char *const td_problem_types[TD_PROBLEMS];

struct td_histogram {
    atomic_llong bucket[TD_BUCKETS + 1], sum_ns;
};

struct td_counts { /* nothing but counters, so that these can be added up */
    struct td_route_counts {
        atomic_llong requests[6], in, out; /* by status class; bytes of bodies */
        struct td_histogram took;
    } route[TD_ROUTES + 1]; /* the last: what none fits */
    atomic_llong problems[TD_PROBLEMS];
    struct td_histogram queue[TD_COUNTED], compute[TD_COUNTED], model[TD_COUNTED];
    struct td_op_counts {
        atomic_llong row[TD_OP_ROWS];  /* calls of a row that runs at its own level */
        atomic_llong library[TD_ISAS]; /* of a library's rows, by the level */
        atomic_llong composite[TD_ISAS], fused[TD_ISAS],
            jit[TD_ISAS]; /* computed by parts, so too */
        struct td_histogram took;
    } op[]; /* the last: expressions */
};

/* All that has been counted, in the arena; NULL: no memory. */
struct td_counts *td_counts_add_up(const struct td_metrics *metrics, struct td_arena *arena);
/* The same without operators, for free(); NULL: no memory. */
struct td_counts *td_counts_of_service(const struct td_metrics *metrics);
/* The name of the pool whose counts lie at i, "" where there is none yet; of the last place, which
 * counts all for which there was no other, a name that no pool and no model can have. */
const char *td_counts_pool(const struct td_metrics *metrics, int i);
const char *td_counts_model(const struct td_metrics *metrics, int i);
struct td_history *td_counts_history(const struct td_metrics *metrics);

/* ---- history.c ---- */

struct td_history *td_history_create(int64_t now_ns); /* NULL: no memory */
void td_history_destroy(struct td_history *history);
/* Closes the steps that have ended; to be called before a request is counted. */
void td_history_look(struct td_history *history, const struct td_metrics *metrics, int64_t now_ns);
/* The reply of GET /v1/history. */
void td_history_write(struct td_history *history, const struct td_metrics *metrics, int64_t now_ns,
                      struct td_writer *w);

#endif
