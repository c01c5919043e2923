/* Elements as numbers, whatever their type. */
#ifndef TD_KERNELS_ELEMENTWISE_H
#define TD_KERNELS_ELEMENTWISE_H

#include "kernels/kernels.h"

/* Element i of a dense tensor, converted; put rounds once, to nearest even, and wraps
 * (integers). A whole number of UINT64 is its bits. For references, not for speed. */
double td_get_real(const struct td_tensor *t, int64_t i);
int64_t td_get_whole(const struct td_tensor *t, int64_t i);
void td_put_real(const struct td_tensor *t, int64_t i, double x);
void td_put_whole(const struct td_tensor *t, int64_t i, int64_t x);
/* A Scalar likewise. */
void td_put_scalar(const struct td_tensor *t, int64_t i, const struct td_value *v);

/* The sum of n products: elements of a from at_a on, a step apart, by those of b. In double, in
 * order; of whole numbers, wrapping. The loops are typed, because the tests run references as often
 * as the kernels that they judge. */
double td_dot_real(const struct td_tensor *a, int64_t at_a, int64_t step_a,
                   const struct td_tensor *b, int64_t at_b, int64_t step_b, int64_t n);
uint64_t td_dot_whole(const struct td_tensor *a, int64_t at_a, int64_t step_a,
                      const struct td_tensor *b, int64_t at_b, int64_t step_b, int64_t n);

/* Whether a whole type has the number itself; and a Scalar that is one. */
bool td_holds_whole(enum td_dtype dtype, int64_t x);
bool td_holds_int(enum td_dtype dtype, const struct td_value *v);

/* The bit to turn round in whole numbers of the type, so that they are in order: the highest of
 * UINT64, else none. */
int64_t td_order_bit(enum td_dtype dtype);

/* The largest finite number of a floating type. */
double td_most(enum td_dtype dtype);

/* Part of a rule: arguments from first on that are texts say where a result lies and in which
 * order; here that is one place, and tensors are dense. */
int td_rule_placement(struct td_call *call, int first);

/* A rule: out is like the first argument. */
int td_rule_unary(struct td_call *call);

#endif
