/* A call made from one of an operator's sample patterns, with its memory. */
#ifndef TD_TESTS_SAMPLE_H
#define TD_TESTS_SAMPLE_H

#include "dispatch/call/sample.h"

enum sample_values {
    SAMPLE_PLAIN = 0,    /* between -4 and 4; whole numbers up to 100 for integers */
    SAMPLE_SPECIAL = 1,  /* plain, with NaN, infinities, both zeros, denormals, big numbers */
    SAMPLE_BITS = 2,     /* any bit pattern at all */
    SAMPLE_NORMAL = 8,   /* with SPECIAL: but no denormals */
    SAMPLE_SMALL = 32,   /* with SPECIAL: but nothing big; with PLAIN: a 64th of each */
    SAMPLE_ABSOLUTE = 4, /* with either of the first two: the same numbers without their signs */
    SAMPLE_NONE = 16,    /* nothing yet: the caller fills the tensors */
    SAMPLE_ALIKE = 64,   /* with any: the parts along a tensor's first dimension are copies */
};

/* How tensors lie where values have one of these added: by strides. */
enum sample_layout {
    SAMPLE_TRANSPOSED = 1 << 7,              /* the dimensions in reverse */
    SAMPLE_SLICED = 2 << 7,                  /* with room behind each row */
    SAMPLE_STEP_2 = 3 << 7,                  /* every second element, all along */
    SAMPLE_BACKWARDS = 4 << 7,               /* from behind */
    SAMPLE_REPEATED = 5 << 7 | SAMPLE_ALIKE, /* one part stands for all along the first dimension */
    SAMPLE_HEADS = 6 << 7,   /* the third and the second dimension from behind change places */
    SAMPLE_LAYOUTS = 7 << 7, /* a mask */
};

struct sample {
    struct td_run run; /* bound; run.call.out has memory */
    struct td_sample made;
    int n_inputs;
    struct td_tensor input[2 * TD_MAX_ARGS]; /* with their memory, dense */
    /* The same by strides, where the call has them so; bytes of their memory, which ends at end. */
    struct {
        struct td_tensor tensor;
        int64_t stride[TD_MAX_RANK];
        char *begin;
        size_t bytes;
    } laid[2 * TD_MAX_ARGS];
    size_t out_bytes[TD_MAX_OUTS]; /* of the results' memory */
};

/* Reads the CPU and the operators; ends the process when that fails. */
void sample_start(void);

/* Binds a call of the operator, by its full name: letters of the pattern become sizes, each tensor
 * is of that type and filled from the seed. Every tensor lies as sample_alloc has it, so that
 * reading on crashes. td_run_bind's result, or -E2BIG when a tensor would have more than 6 * 2^20
 * elements; fini is right in any case. */
int sample_init(struct sample *sample, const char *name, const char *pattern, struct td_sizes sizes,
                enum td_dtype dtype, enum sample_values values, uint64_t seed);
void sample_fini(struct sample *sample);

/* Of two samples of one call: whether their inputs hold the same, and to have it so. */
bool sample_same_inputs(const struct sample *a, const struct sample *b);
void sample_copy_inputs(struct sample *to, const struct sample *from);
/* Brings the elements of inputs, once they are there, to where the call has them; and whether that
 * memory is as it was then. For samples that are not dense. */
void sample_lay(struct sample *sample);
bool sample_is_laid(const struct sample *sample);

/* Whether this CPU can run the row; why says what is missing, or is "". */
bool sample_runnable(const struct td_impl *impl, char why[100]);

/* Whether the row, of the call's type, takes the call, with its strides where it has some. */
bool sample_takes(const struct td_impl *impl, const struct td_call *call);

/* Whether it is the vector row of that level, runs on this CPU and takes the call. */
bool sample_is_simd(const struct td_impl *impl, const struct td_call *call, const char *level);

/* Runs a row that takes the call, with what it asks for. What td_impl_run says. */
int sample_run(const struct td_impl *impl, struct td_call *call);

/* Runs it once more for each argument that it may overwrite, with the first result there, and
 * results apart as they were: how many. wrong: set to one with which any result was another. */
int sample_run_over(const struct td_impl *impl, struct sample *sample, int *wrong);

/* Memory that ends at a page that may not be touched, and begins behind a guard of some bytes; or,
 * from lie_at_front on, begins there and has the guard behind it. It exits where there is none. */
void *sample_alloc(size_t bytes);
void sample_free(void *data, size_t bytes); /* NULL is fine */
void sample_lie_at_front(bool front);

/* Whether its guard is whole. */
bool sample_guarded(const void *data, size_t bytes);

/* ---- between sample.c and sample_layout.c ---- */

/* The last input's place in a call, by strides. */
void sample_place(struct sample *sample, enum sample_values values, struct td_tensor *t);
void sample_make_alike(const struct td_tensor *t);

#endif
