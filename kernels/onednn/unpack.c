/* The way back from a weight in one of oneDNN's layouts: an element's place there is a sum over its
 * dimensions of what each index adds, which stands in a table. */
#include "kernels/onednn/prim.h"

#include <string.h>

#define RUN 64 /* indices of a dimension at a time */

/* What index i of dimension d adds: its digits within the blocks, the innermost of which are the
 * last, and the rest of it times the outer step. */
static int64_t place(const struct td_onednn_form *f, int d, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int b = f->blocks - 1; b >= 0; step *= f->block[b--])
        if (f->block_dim[b] == d) {
            at += i % f->block[b] * step;
            i /= f->block[b];
        }
    return at + i * f->to[d];
}

/* The dimension along which plain's elements lie closest. */
static int closest(const struct td_onednn_form *f)
{
    int fast = 0;
    for (int d = 1; d < f->rank; d++)
        if (f->dims[d] > 1 && (f->from[d] < f->from[fast] || f->dims[fast] == 1))
            fast = d;
    return fast;
}

/* The next of all indices but those of one dimension; false: there is none. */
static bool go_on(const struct td_onednn_form *f, int but, int64_t *index)
{
    for (int d = 0; d < f->rank; d++) {
        if (d == but)
            continue;
        if (++index[d] < f->dims[d])
            return true;
        index[d] = 0;
    }
    return false;
}

/* All of plain whose index of dimension fast is one of n from first on. */
static void unpack(const struct td_onednn_form *f, int fast, int64_t first, int64_t n, char *plain,
                   const char *packed, size_t size)
{
    int64_t index[TD_MAX_RANK] = {0}, at[RUN], step = f->from[fast];
    for (int64_t i = 0; i < n; i++)
        at[i] = place(f, fast, first + i);
    do {
        int64_t from = 0, to = first * step;
        for (int d = 0; d < f->rank; d++)
            if (d != fast) {
                from += place(f, d, index[d]);
                to += index[d] * f->from[d];
            }
        for (int64_t i = 0; i < n && size == 4; i++)
            memcpy(plain + (to + i * step) * 4, packed + (from + at[i]) * 4, 4);
        for (int64_t i = 0; i < n && size == 2; i++)
            memcpy(plain + (to + i * step) * 2, packed + (from + at[i]) * 2, 2);
    } while (go_on(f, fast, index));
}

void td_onednn_unpack(const struct td_tensor *plain, const void *packed, const void *key)
{
    const struct td_onednn_form *f = key;
    int fast = closest(f);
    for (int64_t i = 0; i < f->dims[fast]; i += RUN)
        unpack(f, fast, i, f->dims[fast] - i < RUN ? f->dims[fast] - i : RUN, plain->data, packed,
               td_dtype_size(plain->dtype));
}
