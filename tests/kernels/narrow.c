/* The narrowing stores of kernels/vec.h and what stands on them, built once per level:
 * test_narrow.c runs those that the CPU has. */
#include "tests/kernels/narrow.h"

#include "kernels/half.h"
#include "kernels/lines.h"
#include "kernels/reals.h"

static void one_by_one(uint16_t *to, const float *from, bool bf16)
{
    for (int i = 0; i < NARROW_N; i += TD_LANES) {
        td_vh h = bf16 ? td_narrow_bf16(td_load(from + i)) : td_narrow_f16(td_load(from + i));
        memcpy(to + i, &h, sizeof h);
    }
}

/* Even places and odd ones apart, as arithmetic on pairs has them. */
static void pairs(uint16_t *to, const float *from, bool bf16)
{
    float even[TD_LANES], odd[TD_LANES];
    for (int i = 0; i < NARROW_N; i += 2 * TD_LANES) {
        for (int k = 0; k < TD_LANES; k++) {
            even[k] = from[i + 2 * k];
            odd[k] = from[i + 2 * k + 1];
        }
        if (bf16)
            td_store_bf16_pairs(to + i, td_load(even), td_load(odd));
    }
    if (!bf16)
        one_by_one(to, from, bf16);
}

static void lines(uint16_t *to, const float *from, bool bf16)
{
    td_line_narrow(to, from, NARROW_N, bf16 ? TD_bf16 : TD_f16);
}

static void lanes(uint16_t *to, const float *from, bool bf16)
{
    for (int i = 0; i < NARROW_N; i += TD_LANES)
        L_put(to, i, bf16 ? TD_bf16 : TD_f16, td_load(from + i));
}

/* The last store of a row, of fewer than a vector. */
static void few(uint16_t *to, const float *from, bool bf16)
{
    for (int i = 0; i < NARROW_N; i += TD_LANES - 1) {
        int n = NARROW_N - i < TD_LANES - 1 ? NARROW_N - i : TD_LANES - 1;
        L_put_n(to, i, n, bf16 ? TD_bf16 : TD_f16, td_load_n(from + i, n, 0));
    }
}

narrow_store *const TD_NAME(narrow)[NARROW_WAYS] = {one_by_one, pairs, lines, lanes, few};
