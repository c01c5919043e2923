/* `tensord bench MODEL`: measuring (model.c) and showing (model_show.c). Internal to server/. */
#ifndef TD_SERVER_BENCH_MODEL_H
#define TD_SERVER_BENCH_MODEL_H

#include "server/commands/run.h"

#include <stdatomic.h>

#define TD_BENCH_SETTINGS 24
#define TD_BENCH_SHARES 200

struct td_setting { /* so many workers at once, of so many threads each */
    int workers, threads;
    char pool[24];
    atomic_int ready;
    struct td_writer call; /* for its pool */
    struct td_times times; /* sorted */
    double rate;           /* answers a second */
};

/* Has each of its workers make its call for so many seconds, and adds what these took to times,
 * which are sorted; rate is theirs. 0, or 1 once an error has been said. */
int td_bench_lanes(struct td_once *once, struct td_setting *s, double seconds);

struct td_share { /* of an operator, or of several computed together, by one kernel: in a run */
    char op[100], kernel[24], isa[20];
    long calls;
    double us;
};

struct td_model_bench {
    struct td_once once; /* the first member */
    double seconds;      /* for each setting */
    struct td_setting setting[TD_BENCH_SETTINGS];
    int n_settings;
    struct td_arena *arena;
    struct td_answer said; /* of the model */
    struct td_json json;
    double load_ms, first_ms, model_bytes, process_bytes;
    struct td_share share[TD_BENCH_SHARES]; /* the largest first */
    int n_shares;
    char why[200]; /* there are no plans: the model is walked; "" */
};

/* threads: of each worker; 0: several. once.model, .word, .fill, inputs, shapes, json and seconds
 * are set. The exit status. */
int td_bench_model(struct td_model_bench *b, int threads);
double td_model_bench_us(const struct td_model_bench *b); /* of all operators */
void td_model_bench_show(const struct td_model_bench *b);

#endif
