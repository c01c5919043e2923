/* How far a result is from the right one. */
#ifndef TD_TESTS_DISTANCE_H
#define TD_TESTS_DISTANCE_H

#include "dispatch/dispatch.h"

/* The greatest distance of an element of got from want's, and where. In units in the last place of
 * want's type; for whole numbers 0 or infinity. Equal infinities and two NaNs are at no distance.
 * scale is NULL, or the same result of absolute values: a unit then is one at its element, or at
 * the mean size of either where that is more. All are of one shape; *where is set when they differ.
 */
double distance(const struct td_tensor *got, const struct td_tensor *want,
                const struct td_tensor *scale, int64_t *where);

/* How far one number of a type is from another, in units at the larger of b and scale. Equal
 * infinities and two NaNs are at no distance. */
double distance_of_one(enum td_dtype dtype, double a, double b, double scale);

/* How many units a result of op of this type may be off: op's, but few for narrow types, which are
 * rounded once, or once a step, from FP32; it is FP32 that needs many, for its sums. */
double bound_of(const struct td_op *op, enum td_dtype dtype);

#endif
