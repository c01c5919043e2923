/* rotary_embedding, reference: element by element, each with its partner. */
#include "kernels/elementwise.h"
#include "kernels/rotary/rotary.h"

td_kernel td_rotary_ref;
void td_rotary_ref(const struct td_call *call)
{
    struct td_rotary r = td_rotary_of(call);
    for (int64_t i = 0, n = td_numel(r.out); i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t row = i / r.depth, k = i % r.depth, pair = r.paired ? k / 2 : k % r.half;
        double x = td_get_real(r.x, i);
        if (k < 2 * r.half) {
            bool second = r.paired ? k % 2 : k >= r.half;
            int64_t angle = td_rotary_angle(&r, row) * r.half + pair;
            int64_t apart = r.paired ? 1 : r.half;
            double other = td_get_real(r.x, second ? i - apart : i + apart);
            double sine = td_get_real(r.sine, angle), cosine = td_get_real(r.cosine, angle);
            x = second ? other * sine + x * cosine : x * cosine - other * sine;
        }
        td_put_real(r.out, i, x);
    }
}
