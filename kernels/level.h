/* Levels. The smallest kernels there are: each level's own word on itself; what dispatch makes of
 * them is proof that the level's objects are there and run. And a library's word on its code. */
#ifndef TD_KERNELS_LEVEL_H
#define TD_KERNELS_LEVEL_H

#include "kernels/kernels.h"

struct td_level {
    enum td_isa isa;
    const char *(*name)(void);          /* "AVX512_BF16", as its objects were told by the build */
    const char *(*macros)(void);        /* "CPU_CAPABILITY_AVX512 ...": those that they saw */
    int (*lanes)(size_t element_bytes); /* of elements in one of its vectors */
    /* Rounds of nothing but multiply-adds of the type, FP32, FP64, BF16 or INT8: how many
     * operations they were, two each; 0: the level has no such instruction. */
    double (*operate)(enum td_dtype type, int64_t rounds);
    /* Loads all data, 64-byte aligned, so many times: how many bytes these were. */
    double (*load)(const void *data, size_t bytes, int64_t rounds);
};

/* The levels that the compiler could build, lowest first, ended by a row without name. */
extern const struct td_level td_levels[];

/* The level whose instructions a library's row runs on tensors of the type: that of its primitives'
 * code, as far as the library names it; else, or with nothing prepared, the highest of those that
 * the library may use which has instructions for products of that type. TD_DTYPE_none: for any. */
enum td_isa td_onednn_level(const struct td_prepared *prepared, enum td_dtype dtype);

#endif
