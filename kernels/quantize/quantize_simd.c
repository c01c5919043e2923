/* Quantizing, vector form: tiles of elements, scales and zero points in FP32 lanes, between the
 * level's casts; over the team. */
#include "kernels/cast/cast.h"
#include "kernels/lanes.h"
#include "kernels/quantize/quantize.h"

#define TILE 256
#define GRAIN 16384 /* elements worth a thread */

td_convert TD_NAME(convert);

struct walk {
    const struct td_call *call;
    struct td_channels channels;
    float low, high;
    bool divides;          /* by the scale, as ONNX has it; else times its inverse */
    struct td_scale scale; /* of all */
};

/* Scale, or its inverse, and zero point of elements from begin on. */
static void lay_out(const struct walk *w, int64_t begin, int64_t n, float *scale, float *zero)
{
    bool inverse = td_quantize(w->call)->way == TD_QUANTIZE_to;
    for (int64_t k = 0; k < n;) {
        int64_t at = begin + k, rest = w->channels.inner - at % w->channels.inner;
        int64_t end = k + (rest < n - k ? rest : n - k);
        struct td_scale s = w->scale;
        if (td_quantize(w->call)->channels)
            s = td_scale(w->call, at / w->channels.inner % w->channels.n);
        for (s.scale = inverse ? 1 / s.scale : s.scale; k < end; k++) {
            scale[k] = s.scale;
            zero[k] = s.zero;
        }
    }
}

/* n elements, a multiple of a vector's; one: all have the first one's scale and zero point. */
TD_INLINE void compute(const struct walk *w, float *y, const float *x, const float *scale,
                       const float *zero, int64_t n, const bool one)
{
    V low = L_c(w->low), high = L_c(w->high), s = L_load(scale), z = L_load(zero);
    for (int64_t k = 0; k < n; k += L_LANES) {
        V a = L_load(x + k);
        s = one ? s : L_load(scale + k);
        z = one ? z : L_load(zero + k);
        if (td_quantize(w->call)->way == TD_QUANTIZE_back) {
            L_store(y + k, L_mul(L_sub(a, z), s));
            continue;
        }
        V q = L_add(L_round(w->divides ? L_div(a, s) : L_mul(a, s)), z);
        L_store(y + k, L_sel(L_gt(q, low), L_sel(L_lt(q, high), q, high), low));
    }
}

/* Whole numbers within the limits of their type; other types are left to the cast. */
static bool narrow(int64_t n, void *out, enum td_dtype type, const float *x)
{
    if (type == TD_i8)
        for (int64_t k = 0; k < n; k++)
            ((int8_t *)out)[k] = (int8_t)(int32_t)x[k];
    else if (type == TD_u8)
        for (int64_t k = 0; k < n; k++)
            ((uint8_t *)out)[k] = (uint8_t)(int32_t)x[k];
    else
        return false;
    return true;
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    const struct td_tensor *in = &w->call->arg[0].tensor, *out = &w->call->out[0];
    size_t size_in = td_dtype_size(in->dtype), size_out = td_dtype_size(out->dtype);
    float x[TILE + 16] = {0}, scale[TILE + 16] = {0}, zero[TILE + 16] = {0};
    bool one = !td_quantize(w->call)->channels;
    if (one)
        lay_out(w, 0, TILE, scale, zero);
    for (int64_t i = begin; i < end; i += TILE) {
        int64_t n = end - i < TILE ? end - i : TILE, whole = n + (-n & (L_LANES - 1));
        char *to = (char *)out->data + (size_t)i * size_out;
        const char *from = (const char *)in->data + (size_t)i * size_in;
        bool reads = in->dtype == TD_f32 && n == whole, writes = out->dtype == TD_f32 && n == whole;
        const float *a = reads ? (const float *)from : x;
        float *y = writes ? (float *)to : x;
        if (!reads)
            TD_NAME(convert)(n, x, TD_f32, from, in->dtype);
        if (one)
            compute(w, y, a, scale, zero, whole, true);
        else {
            lay_out(w, i, n, scale, zero);
            compute(w, y, a, scale, zero, whole, false);
        }
        if (!writes && !narrow(n, to, out->dtype, x))
            TD_NAME(convert)(n, to, out->dtype, x, TD_f32);
    }
}

/* The smallest and largest number of a tensor, 0 among them; NaN is passed over. */
static void find_range(const struct td_tensor *t, float *low, float *high)
{
    const float *x = t->data;
    int64_t n = td_numel(t), i = 0;
    V least = L_c(0), most = L_c(0);
    for (; i + L_LANES <= n; i += L_LANES) {
        least = L_min(L_load(x + i), least); /* the second operand where either is NaN */
        most = L_max(L_load(x + i), most);
    }
    *low = *high = 0;
    for (int k = 0; k < L_LANES; k++) {
        *low = least[k] < *low ? least[k] : *low;
        *high = most[k] > *high ? most[k] : *high;
    }
    for (; i < n; i++) {
        *low = x[i] < *low ? x[i] : *low;
        *high = x[i] > *high ? x[i] : *high;
    }
}

TD_KERNEL(quantize)
{
    const struct td_quantize *family = td_quantize(call);
    const struct td_value *limits = &call->arg[3 + family->channels];
    struct walk w = {.call = call, .channels = td_channels(call), .high = 255};
    int64_t n = td_numel(&call->out[0]);
    if (family->way == TD_QUANTIZE_self) {
        float low, high;
        find_range(&call->arg[0].tensor, &low, &high);
        w.scale = td_scale_of_range(low, high);
        w.divides = true;
        td_put_real(&call->out[1], 0, (double)w.scale.scale);
        td_put_real(&call->out[2], 0, (double)w.scale.zero);
    } else {
        w.low = (float)limits[0].i;
        w.high = (float)limits[1].i;
        if (!family->channels)
            w.scale = td_scale(call, 0);
    }
    if (n)
        td_parallel(call->threads, n, GRAIN, run_range, &w);
}
