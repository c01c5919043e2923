/* The judges of im2col and col2im: one element after the other. */
#include "kernels/elementwise.h"
#include "kernels/unfold/unfold.h"

/* Where element k of window i lies; -1: in the padding. */
static int64_t place(const struct td_unfold_axis *a, int64_t i, int64_t k)
{
    int64_t x = i * a->stride + k * a->dilation - a->padding;
    return x < a->size ? x : -1;
}

td_kernel td_im2col_ref, td_col2im_ref;
void td_im2col_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct td_unfold u = td_unfold_of(call);
    int64_t n = td_numel(out);
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        int64_t block = i / (u.h.windows * u.w.windows), c = block / (u.h.kernel * u.w.kernel);
        int64_t y = place(&u.h, i / u.w.windows % u.h.windows, block / u.w.kernel % u.h.kernel);
        int64_t x = place(&u.w, i % u.w.windows, block % u.w.kernel);
        bool inside = y >= 0 && x >= 0;
        td_put_real(out, i, inside ? td_get_real(in, (c * u.h.size + y) * u.w.size + x) : 0);
    }
}

/* The window whose element k lies at x; -1: none. */
static int64_t window(const struct td_unfold_axis *a, int64_t x, int64_t k)
{
    int64_t from = x + a->padding - k * a->dilation;
    return from >= 0 && from % a->stride == 0 && from / a->stride < a->windows ? from / a->stride
                                                                               : -1;
}

void td_col2im_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct td_unfold u = td_unfold_of(call);
    int64_t n = td_numel(out), places = u.h.kernel * u.w.kernel;
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        double sum = 0;
        int64_t c = i / (u.h.size * u.w.size);
        for (int64_t k = 0; k < places; k++) {
            int64_t y = window(&u.h, i / u.w.size % u.h.size, k / u.w.kernel);
            int64_t x = window(&u.w, i % u.w.size, k % u.w.kernel);
            if (y >= 0 && x >= 0)
                sum += td_get_real(in, ((c * places + k) * u.h.windows + y) * u.w.windows + x);
        }
        td_put_real(out, i, sum);
    }
}
