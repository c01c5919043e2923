/* What the files of sgd, adam and adamw share: a step's tensors and numbers, and which rows of the
 * parameter it changes. */
#ifndef TD_KERNELS_OPTIM_H
#define TD_KERNELS_OPTIM_H

#include "kernels/kernels.h"

enum td_optim_kind { TD_OPTIM_sgd, TD_OPTIM_adam, TD_OPTIM_adamw };

/* Results in the order of the arguments that they take the place of. */
enum { TD_OPTIM_self, TD_OPTIM_first, TD_OPTIM_second, TD_OPTIM_most, TD_OPTIM_STATES };

struct td_optim {
    enum td_optim_kind kind;
    const struct td_tensor *grad, *rows; /* borrowed; rows NULL: grad is of the whole parameter */
    /* The parameter and its states: before, NULL where one has not been, and after, NULL where none
     * is wanted. sgd's first is momentum_buffer; the others' are exp_avg, exp_avg_sq and
     * max_exp_avg_sq. */
    const struct td_tensor *from[TD_OPTIM_STATES], *to[TD_OPTIM_STATES];
    int64_t n, width;                  /* the parameter as [n, width]; without rows n is 1 */
    int64_t k;                         /* rows of grad */
    double sign;                       /* of the gradient: -1 where it is to be climbed */
    double lr, decay, momentum, taken; /* taken: 1 - dampening */
    bool nesterov;
    double beta1, beta2, eps;
    double step_size, root; /* lr / (1 - beta1^step), sqrt(1 - beta2^step) */
};

struct td_optim td_optim_of(const struct td_call *call);

/* Rows of grad by the row of the parameter that they belong to, in scratch of td_optim_scratch()
 * bytes: its first one, or -1 where it stays untouched, and of each the next one of the same row,
 * or -1. */
struct td_optim_order {
    int64_t *first, *next; /* [n], [k] */
};
int64_t td_optim_row(const struct td_optim *o, int64_t i); /* what grad's row i belongs to */
size_t td_optim_scratch(const struct td_optim *o);
struct td_optim_order td_optim_order(const struct td_optim *o, void *scratch);

#endif
