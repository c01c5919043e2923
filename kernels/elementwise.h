/* Loops over tensors that broadcast against each other, shared by all elementwise operators.
 * The loop nest is compiled once with base flags; the row it calls is the level's own. */
#ifndef TD_KERNELS_ELEMENTWISE_H
#define TD_KERNELS_ELEMENTWISE_H

#include "kernels/kernels.h"

#define TD_EW_INPUTS 3

/* One innermost run: out[i] = f(in[0][i * step[0]], ...) for i in [0, n). A step is 1, or 0 where
 * the input is one element for the whole run. out may be in[k] itself. */
typedef void td_row(const struct td_call *call, int64_t n, void *out, const void *const *in,
                    const int *step);

/* Applies row to out[0] and the first n_in arguments, which are tensors that broadcast to out[0];
 * splits big outputs over the team. */
void td_elementwise(const struct td_call *call, int n_in, td_row *row);

/* The reference's way: one element at a time in double, or in int64 when out[0] is of an integer
 * type or bool (pass whole = NULL for operators that integers never reach). x[i] is argument i. */
typedef double td_ref_real(const struct td_call *call, const double *x);
typedef int64_t td_ref_whole(const struct td_call *call, const int64_t *x);
void td_elementwise_ref(const struct td_call *call, int n_in, td_ref_real *real,
                        td_ref_whole *whole);

/* Element i of a dense tensor, converted; put rounds once, to nearest even, and wraps
 * (integers). For references, not for speed. */
double td_get_real(const struct td_tensor *t, int64_t i);
int64_t td_get_whole(const struct td_tensor *t, int64_t i);
void td_put_real(const struct td_tensor *t, int64_t i, double x);
void td_put_whole(const struct td_tensor *t, int64_t i, int64_t x);

/* Rules. unary: out is like self. broadcast: out has the first n tensors' common shape and their
 * type (which promotion has made one). */
int td_rule_unary(struct td_call *call);
int td_rule_broadcast(struct td_call *call, int n);
int td_rule_binary(struct td_call *call); /* broadcast over two */

/* Argument i, called alpha, is not a fraction where self is of an integer type. */
int td_rule_alpha(struct td_call *call, int i);

#endif
