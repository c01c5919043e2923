/* linear_bits, reference: an element at a time, each to its sum; products as all products. */
#include "kernels/bits/bits.h"

static float dot(const struct td_bits *b, int64_t row, const float *x)
{
    const uint8_t *weight = b->weight + row * b->blocks * b->block * b->bits / 8;
    float sum[TD_BITS_SUMS] = {0};
    for (int64_t i = 0; i < b->blocks; i++) {
        float part[TD_BITS_SUMS] = {0}, zero = td_bits_zero(b, row, i);
        int64_t left = b->k - i * b->block, n = left < b->block ? left : b->block;
        for (int64_t e = 0; e < n; e++) {
            int64_t at = i * b->block + e, to = (b->bits == 4 ? e / 2 : e) % TD_BITS_SUMS;
            part[to] += x[at] * ((float)td_bits_get(weight, at, b->bits) - zero);
        }
        for (int s = 0; s < TD_BITS_SUMS; s++)
            sum[s] += part[s] * b->scale[row * b->blocks + i];
    }
    for (int half = TD_BITS_SUMS / 2; half; half /= 2)
        for (int s = 0; s < half; s++)
            sum[s] += sum[s + half];
    return sum[0];
}

td_kernel td_bits_ref;
void td_bits_ref(const struct td_call *call)
{
    struct td_bits b = td_bits_of(call);
    struct td_gemm g = td_bits_gemm(call, &b);
    if (td_bits_is_product(&b)) {
        td_gemm_ref(&g);
        return;
    }
    for (int64_t m = 0; m < b.m && !td_stopped(); m++)
        for (int64_t n = 0; n < b.n; n++)
            b.out[m * b.n + n] = dot(&b, n, b.input + m * b.k) + (b.bias ? b.bias[n] : 0);
}
