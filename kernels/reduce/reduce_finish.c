/* Results of real elements at each level: where many results are made of few elements each, this
 * takes as long as their sums. */
#include "kernels/lines.h"
#include "kernels/reduce/finish.def"

static void put_halves(uint16_t *to, const double *y, int64_t n, enum td_dtype type)
{
    float odd[TD_REDUCE_COLUMNS];
    td_line_to_odd(odd, y, n);
    td_line_narrow(to, odd, n, type);
}

void TD_NAME(reduce_finish)(const struct td_call *call, int k, int64_t at, int64_t count, int64_t n,
                            const union td_total *s, const union td_total *t)
{
    finish_reals(call, k, at, count, n, s, t);
}
