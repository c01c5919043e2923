/* What the casting rows lend to other families: elements from any type to any other. */
#ifndef TD_KERNELS_CAST_H
#define TD_KERNELS_CAST_H

#include "kernels/kernels.h"

/* n elements of in, of type from, to out, of type to: rounded once, to nearest even; whole numbers
 * wrap; a real number is cut off first, and NaN and what no INT64 holds become the INT64 nearest,
 * NaN the lowest. in and out are apart, or the same and of types of one size. One a level of
 * td_cast. */
typedef void td_convert(int64_t n, void *out, enum td_dtype to, const void *in, enum td_dtype from);

/* Those of UINT64 that differ from INT64's, for all levels; to_short: FP32, rounded to odd. */
typedef void td_convert_run(int64_t n, void *out, const void *in);
td_convert_run td_u64_to_f32_run, td_u64_to_f64_run, td_u64_to_short_run, td_f32_to_u64_run,
    td_f64_to_u64_run;

#endif
