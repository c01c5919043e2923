/* The products by gemm_group.h. Where td_int_mm_has_tables, sums become results while they are in a
 * cache: tables have what zero points and the bias add in each column. A signed a becomes unsigned
 * as its rows are copied, by its sign bits, which moves its zero point by 128 as well. */
#ifndef TD_KERNELS_INT_MM_GROUP_H
#define TD_KERNELS_INT_MM_GROUP_H

#define TD_INT_MM
#include "kernels/gemm/gemm_group.h"
#include "kernels/int_mm/int_mm.h"
#include "kernels/int_mm/int_mm_round.h"

#ifdef TD_TILES
#define TD_INT_MM_PAD TD_TILES_DEPTH
#else
#define TD_INT_MM_PAD 1
#endif

typedef uint8_t td_bytes __attribute__((vector_size(TD_VBYTES)));

struct td_int_mm_job {
    const struct td_int_mm *m;
    uint8_t *out; /* of 8 bits; NULL: FP32, where the sums are */
    struct td_q_range range;
    uint8_t flip;
};

static void td_int_mm_rows(const struct td_gemm *g, int64_t i, int64_t rows, int64_t p, int64_t n,
                           uint8_t *to, int64_t ld)
{
    const uint8_t flip = ((const struct td_int_mm_job *)g->context)->flip;
    const uint8_t *from = (const uint8_t *)g->a->data + i * g->k + p;
    for (; rows > 0; rows--, from += g->k, to += ld) {
        int64_t x = 0;
        for (; x + TD_VBYTES <= n; x += TD_VBYTES) {
            td_bytes v;
            memcpy(&v, from + x, sizeof v);
            v ^= flip;
            memcpy(to + x, &v, sizeof v);
        }
        for (; x < n; x++)
            to[x] = from[x] ^ flip;
    }
}

TD_INLINE td_vu td_int_mm_load(const uint32_t *from, int64_t left)
{
    return (td_vu)td_load_next((const float *)(const void *)from, left, 0);
}

static void td_int_mm_rect(struct td_rect *r)
{
    const struct td_int_mm_job job = *(const struct td_int_mm_job *)r->g->context;
    const struct td_int_mm m = *job.m; /* a copy, which the compiler knows that no store changes */
    td_group_rect(r);
    for (int64_t i = 0; i < r->rows; i++) {
        uint32_t *sum = (uint32_t *)(void *)r->c + i * r->ldc;
        uint32_t of_a = m.of_a ? m.of_a[r->i + i] - (uint32_t)m.g.k * m.a_zero : 0;
        uint8_t *out = job.out ? job.out + (r->i + i) * m.g.n + r->j : NULL;
        for (int64_t j = 0; j < r->cols; j += TD_LANES) {
            int64_t at = r->j + j, left = r->cols - j;
            td_vu v = td_int_mm_load(sum + j, left) + td_int_mm_load(m.add + at, TD_LANES);
            if (m.of_a)
                v -= of_a * td_int_mm_load(m.b_zero + at, TD_LANES);
            td_vf y = __builtin_convertvector((td_vi)v, td_vf) * td_load(m.scale + at);
            if (out)
                td_q_store(out + j, left, td_q_narrow(y, &job.range));
            else
                td_store_next((float *)(void *)sum + j, left,
                              m.bias ? y + td_load(m.bias + at) : y);
        }
    }
}

static inline void td_int_mm_simd(const struct td_call *call)
{
    const struct td_int_mm_args *args = call->op->family;
    enum td_dtype type = call->out[0].dtype;
    struct td_int_mm m;
    td_int_mm_begin(call, &m, TD_QUADS, TD_INT_MM_PAD);
    if (!td_int_mm_has_tables(call, &m)) {
        td_group_simd(&m.g, call->scratch);
        td_int_mm_end(call, &m, td_int_mm_take_zero);
        return;
    }
    struct td_tensor rows = *m.g.a;
    struct td_int_mm_job job = {.m = &m};
#ifndef TD_TILES
    if (rows.dtype == TD_i8 && (TD_QUADS == 2 || m.g.b->dtype == TD_i8)) {
        rows.dtype = TD_u8;
        job.flip = 128;
    }
#endif
    if (args->y_zero >= 0) {
        job.out = call->out[0].data;
        job.range = td_q_range_of(type, (int32_t)td_int_mm_number(call, args->y_zero, 0));
    }
    td_int_mm_fill(call, &m, job.flip);
    m.g.a = &rows;
    m.g.gather_a = td_int_mm_rows;
    m.g.context = &job;
    td_group_by(&m.g, call->scratch, td_int_mm_rect);
}

#endif
