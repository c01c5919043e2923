/* The reference's results for a sample, which rows are held against. */
#ifndef TD_TESTS_RIGHT_H
#define TD_TESTS_RIGHT_H

#include "tests/sample.h"

struct input {
    const char *pattern;
    struct td_sizes sizes;
    enum td_dtype dtype;
    enum sample_values values; /* and enum sample_layout; the reference's are dense all the same */
    int threads;
};

struct right { /* the reference's results for an input: the same for all rows, so made once */
    const struct td_handle *handle; /* NULL: none */
    struct input input;
    uint64_t seed;
    bool made, run, scaled; /* want holds a sample; results; scale holds them */
    struct sample want, scale;
};

/* Has the input's sample in want, if there is one: made says so. */
void right_remember(struct right *right, const struct td_handle *handle, struct input in,
                    uint64_t seed);
/* And its results, once a row takes the call; made is false then where the data are refused. */
void right_ask(struct right *right);
void right_forget(struct right *right);

#endif
