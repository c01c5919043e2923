/* fractional_max_pool2d: a plane at a time. */
#include "kernels/elementwise.h"
#include "kernels/sizes.h"

#include <math.h>

/* As the type has it. */
static double rounded(enum td_dtype dtype, double x)
{
    double room;
    struct td_tensor one = {.data = &room, .dtype = dtype};
    td_put_real(&one, 0, x);
    return td_get_real(&one, 0);
}

/* Where n windows of that size begin among so many elements: the last at the end, the others at
 * steps that are rounded in the tensor's type, as PyTorch's are, and kept inside whatever the
 * sample is. */
static void place(int64_t *start, int64_t n, int64_t elements, int64_t size, double sample,
                  enum td_dtype dtype)
{
    int64_t last = elements - size;
    double step = rounded(dtype, rounded(dtype, (double)last) / rounded(dtype, (double)(n - 1)));
    int64_t first = td_size_of_real(rounded(dtype, sample * step));
    for (int64_t i = 0; i < n - 1; i++) {
        double at = rounded(dtype, rounded(dtype, rounded(dtype, (double)i) + sample) * step);
        int64_t from;
        td_size_minus(td_size_of_real(at), first, &from);
        start[i] = from < 0 ? 0 : from > last ? last : from;
    }
    if (n > 0)
        start[n - 1] = last;
}

/* The place of the first of the largest, or of the last NaN, of a window. */
static int64_t largest(const struct td_tensor *self, int64_t plane, int64_t width, int64_t first,
                       const int64_t *kernel)
{
    int64_t best = first;
    double most = -INFINITY;
    for (int64_t y = 0; y < kernel[0] && !td_stopped(); y++)
        for (int64_t x = 0; x < kernel[1]; x++) {
            double value = td_get_real(self, plane + first + y * width + x);
            if (value > most || isnan(value)) {
                most = value;
                best = first + y * width + x;
            }
        }
    return best;
}

td_kernel td_fractional_ref;
void td_fractional_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *samples = &call->arg[3].tensor;
    const struct td_tensor *out = &call->out[0], *indices = &call->out[1];
    const int64_t *kernel = call->arg[1].ints.v, *size = call->arg[2].ints.v;
    int64_t height = self->shape[self->rank - 2], width = self->shape[self->rank - 1];
    int64_t *rows = call->scratch, *columns = rows + size[0];
    int64_t planes = td_numel(self) / (height * width), at = 0;
    for (int64_t p = 0; p < planes && !td_stopped(); p++) {
        place(columns, size[1], width, kernel[1], td_get_real(samples, 2 * p), self->dtype);
        place(rows, size[0], height, kernel[0], td_get_real(samples, 2 * p + 1), self->dtype);
        for (int64_t y = 0; y < size[0]; y++)
            for (int64_t x = 0; x < size[1] && !td_stopped(); x++, at++) {
                int64_t best =
                    largest(self, p * height * width, width, rows[y] * width + columns[x], kernel);
                td_put_real(out, at, td_get_real(self, p * height * width + best));
                ((int64_t *)indices->data)[at] = best;
            }
    }
}
