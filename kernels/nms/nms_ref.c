/* nms: takes the best box that is left, and what it overlaps out, until none is left. Equal scores
 * count in their order, and NaN is above all, as sorting has it. Sums are of the boxes' own type,
 * so that what lies on the threshold is judged as elsewhere. */
#include "kernels/kernels.h"

#include <string.h>

td_kernel td_nms_ref;

#define NMS(T)                                                                                     \
    static int64_t best_##T(const T *score, const char *out, int64_t n)                            \
    {                                                                                              \
        int64_t best = -1;                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            if (!out[i] && (best < 0 || score[i] > score[best] ||                                  \
                            (score[i] != score[i] && score[best] == score[best])))                 \
                best = i;                                                                          \
        return best;                                                                               \
    }                                                                                              \
    static T shared_##T(const T *a, const T *b)                                                    \
    {                                                                                              \
        T left = a[0] > b[0] ? a[0] : b[0], right = a[2] < b[2] ? a[2] : b[2];                     \
        T top = a[1] > b[1] ? a[1] : b[1], bottom = a[3] < b[3] ? a[3] : b[3];                     \
        return (right > left ? right - left : 0) * (bottom > top ? bottom - top : 0);              \
    }                                                                                              \
    static T area_##T(const T *a)                                                                  \
    {                                                                                              \
        return (a[2] - a[0]) * (a[3] - a[1]);                                                      \
    }                                                                                              \
    static void nms_##T(const struct td_call *call)                                                \
    {                                                                                              \
        const T *boxes = call->arg[0].tensor.data, *score = call->arg[1].tensor.data;              \
        int64_t n = call->arg[0].tensor.shape[0], best;                                            \
        char *out = call->scratch;                                                                 \
        for (int64_t i = 0; i < n; i++)                                                            \
            out[i] = 0;                                                                            \
        while (!td_stopped() && (best = best_##T(score, out, n)) >= 0) {                           \
            const T *a = boxes + 4 * best;                                                         \
            out[best] = 1;                                                                         \
            ((int64_t *)call->out[0].data)[(*call->rows)++] = best;                                \
            for (int64_t i = 0; i < n; i++) {                                                      \
                T both = shared_##T(a, boxes + 4 * i);                                             \
                if ((double)(both / (area_##T(a) + area_##T(boxes + 4 * i) - both)) >              \
                    call->arg[2].f)                                                                \
                    out[i] = 1;                                                                    \
            }                                                                                      \
        }                                                                                          \
    }
NMS(float)
NMS(double)

void td_nms_ref(const struct td_call *call)
{
    if (!call->arg[0].tensor.shape[0])
        return;
    if (call->arg[0].tensor.dtype == TD_f64)
        nms_double(call);
    else
        nms_float(call);
}
