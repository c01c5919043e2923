/* Matrix products of short numbers, several of which share a lane of 32 bits: two of BF16, two of
 * INT16 (8 bits, widened) or four of 8 bits. The instructions for them take lanes that hold
 * neighbours along k and sum all of a lane's products at once; so b is packed with its rows
 * interleaved, and rows of a are copied, since they lie right but end anywhere.
 *
 * With tiles (TD_TILES, AMX) the lanes are the same and only the block is another.
 *
 * The instruction for four wants one side unsigned and the other signed. Where both are of one
 * kind, b's sign bits are flipped when it is packed, which moves its numbers by 128, and 128 times
 * the sum of a's row makes up for that. */
#ifndef TD_KERNELS_GEMM_GROUP_H
#define TD_KERNELS_GEMM_GROUP_H

#include "kernels/gemm/gemm_rect.h"

#ifdef TD_TILES
#include "kernels/gemm/gemm_tiles.h"
#define TD_PANEL TD_TILES_COLS
#else
#define TD_PANEL TD_NR
#endif

/* Four of 8 bits a lane: what tiles and VNNI multiply; elsewhere two, widened. */
#if defined TD_TILES || defined CPU_CAPABILITY_AVX512_VNNI || defined CPU_CAPABILITY_AVX2_VNNI
#define TD_QUADS 4
#else
#define TD_QUADS 2
#endif

TD_INLINE bool td_group_flips(const struct td_gemm *g)
{
#ifdef TD_TILES
    (void)g;
    return false;
#else
    return g->group == 4 && g->a->dtype == g->b->dtype;
#endif
}

/* ---- elements ---- */

/* Element i of 8 or 16 bits, widened as its type has it. */
TD_INLINE uint32_t td_group_get(const void *p, int64_t i, enum td_dtype dtype)
{
    switch (dtype) {
    case TD_i8:
        return (uint32_t)((const int8_t *)p)[i];
    case TD_u8:
        return ((const uint8_t *)p)[i];
    default:
        return ((const uint16_t *)p)[i];
    }
}

/* The same of TD_LANES elements. */
TD_INLINE td_vu td_group_load(const void *p, int64_t i, enum td_dtype dtype)
{
    typedef int8_t bytes __attribute__((vector_size(TD_LANES)));
    typedef uint8_t ubytes __attribute__((vector_size(TD_LANES)));
    td_vh h;
    bytes b;
    if (dtype == TD_bf16) {
        memcpy(&h, (const uint16_t *)p + i, sizeof h);
        return __builtin_convertvector(h, td_vu);
    }
    memcpy(&b, (const char *)p + i, sizeof b);
    return dtype == TD_i8 ? (td_vu) __builtin_convertvector(b, td_vi)
                          : __builtin_convertvector((ubytes)b, td_vu);
}

/* ---- packing ---- */

/* One lane of b: the elements from row p on of column j, zeros beyond k and n. */
TD_INLINE uint32_t td_group_lane(const struct td_gemm *g, const void *b, int64_t p, int64_t j)
{
    uint32_t lane = 0, bits = 32 / (uint32_t)g->group;
    for (int e = 0; e < g->group && p + e < g->k && j < g->n; e++)
        lane |= (td_group_get(b, (p + e) * g->step_k + j * g->step_n, g->b->dtype) &
                 (uint32_t)((1ull << bits) - 1))
                << ((uint32_t)e * bits);
    return lane;
}

/* A panel: TD_PANEL columns from j on, lanes p0 to p0 + lanes of the depth. */
static void td_group_pack(const struct td_gemm *g, const void *b, int64_t p0, int64_t lanes,
                          int64_t j, uint32_t *to)
{
    const enum td_dtype dtype = g->b->dtype;
    const uint32_t bits = 32 / (uint32_t)g->group, mask = (uint32_t)((1ull << bits) - 1);
    const uint32_t flip = td_group_flips(g) ? 0x80808080 : 0;
    bool whole = g->step_n == 1 && j + TD_PANEL <= g->n;
    for (int64_t l = 0; l < lanes; l++, to += TD_PANEL) {
        int64_t p = (p0 + l) * g->group;
        if (!whole || p + g->group > g->k) {
            for (int i = 0; i < TD_PANEL; i++)
                to[i] = td_group_lane(g, b, p, j + i) ^ flip;
            continue;
        }
        for (int i = 0; i < TD_PANEL; i += TD_LANES) {
            td_vu lane = flip + (td_vu){0};
            for (int e = 0; e < g->group; e++)
                lane ^= (td_group_load(b, (p + e) * g->step_k + j + i, dtype) & mask)
                        << ((uint32_t)e * bits);
            memcpy(to + i, &lane, sizeof lane);
        }
    }
}

/* td_weight_fill: all of b. */
static inline int td_group_fill(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct td_gemm *g = arg;
    int64_t lanes = td_gemm_lanes(g);
    uint32_t *to = packed;
    for (int64_t j = 0; j < g->n; j += TD_PANEL, to += lanes * TD_PANEL)
        td_group_pack(g, plain->data, 0, lanes, j, to);
    return 0;
}

/* The same of an a that is gathered. Two of 8 bits a lane are gathered into the second half of
 * their row, and widened from there. */
static void td_group_gather(const struct td_rect *r, int64_t i, int64_t rows, int64_t p,
                            int64_t lanes, int32_t sums[TD_GEMM_ROWS])
{
    const struct td_gemm *g = r->g;
    int64_t n = lanes * g->group, left = g->k - p * g->group, copied = left < n ? left : n;
    uint8_t *to = (uint8_t *)r->slot + (lanes * 4 - n);
    g->gather_a(g, r->i + i, rows, p * g->group, copied, to, lanes * 4);
    for (int64_t row = 0; row < rows; row++, to += lanes * 4) {
        uint32_t sum = 0;
        if (copied < n)
            memset(to + copied, 0, (size_t)(n - copied));
        if (td_group_flips(g))
            for (int64_t x = 0; x < copied; x++)
                sum += to[x];
        sums[row] = (int32_t)(sum * 128);
        if (g->group == 2)
            for (int64_t x = 0; x < n; x++)
                ((uint16_t *)(void *)(to - n))[x] = to[x];
    }
}

/* rows x lanes of a into the slot. sums: 128 times each row's sum over these, or minus that. */
static void td_group_rows(const struct td_rect *r, int64_t i, int64_t rows, int64_t p,
                          int64_t lanes, int32_t sums[TD_GEMM_ROWS])
{
    const struct td_gemm *g = r->g;
    int64_t from = p * g->group, left = g->k - from, n = lanes * g->group;
    int64_t size = (int64_t)td_dtype_size(g->a->dtype), copied = left < n ? left : n;
    if (!lanes) /* k is 0: nothing is packed, and there may be no slot */
        memset(sums, 0, (size_t)rows * sizeof *sums);
    for (int64_t row = 0; row < rows && lanes; row++) {
        uint32_t *to = (uint32_t *)r->slot + row * lanes;
        const char *a = (const char *)r->a + ((r->i + i + row) * td_gemm_row(g) + from) * size;
        int32_t sum = 0;
        memset(to, 0, (size_t)lanes * 4);
        if (size * g->group == 4)
            memcpy(to, a, (size_t)(copied * size));
        else if (g->a->dtype == TD_i8)
            for (int64_t x = 0; x < copied; x++)
                ((int16_t *)to)[x] = ((const int8_t *)a)[x];
        else
            for (int64_t x = 0; x < copied; x++)
                ((int16_t *)to)[x] = ((const uint8_t *)a)[x];
        if (td_group_flips(g))
            for (int64_t x = 0; x < copied; x++)
                sum += g->a->dtype == TD_i8 ? ((const int8_t *)a)[x] : ((const uint8_t *)a)[x];
        sums[row] = (int32_t)((uint32_t)sum * (g->a->dtype == TD_i8 ? -128u : 128u));
    }
}

/* ---- a column of blocks ---- */

#ifdef TD_TILES
static void td_group_column(struct td_tiles *tiles, struct td_block t, int64_t rows, int64_t cols,
                            const struct td_gemm *g)
{
#ifdef TD_INT_MM
    if (g->a->dtype == TD_i8 && g->b->dtype == TD_i8)
        td_tiles_column(tiles, t, rows, cols, TD_TILES_i8i8);
    else if (g->a->dtype == TD_i8)
        td_tiles_column(tiles, t, rows, cols, TD_TILES_i8u8);
    else if (g->b->dtype == TD_i8)
        td_tiles_column(tiles, t, rows, cols, TD_TILES_u8i8);
    else
        td_tiles_column(tiles, t, rows, cols, TD_TILES_u8u8);
#else
    (void)g;
    td_tiles_column(tiles, t, rows, cols, TD_TILES_bf16);
#endif
}
#else
struct td_tiles {
    int none;
};

static void td_tiles_release(struct td_tiles *tiles)
{
    (void)tiles;
}

static __attribute__((noinline)) void td_group_column(struct td_tiles *tiles, struct td_block t,
                                                      int64_t rows, int64_t cols,
                                                      const struct td_gemm *g)
{
    (void)tiles;
#ifndef TD_INT_MM
    (void)g;
    td_block_column(t, rows, cols, TD_STEP_bf16);
#elif TD_QUADS == 4
    if (g->a->dtype == TD_u8)
        td_block_column(t, rows, cols, TD_STEP_u8i8);
    else
        td_block_column(t, rows, cols, TD_STEP_i8u8);
#else
    (void)g;
    td_block_column(t, rows, cols, TD_STEP_i16);
#endif
}
#endif

static inline void td_group_correct(float *c, int64_t ldc, int64_t rows, int64_t cols,
                                    const int32_t *sums)
{
    for (int64_t i = 0; i < rows; i++) {
        uint32_t *out = (uint32_t *)(void *)(c + i * ldc);
        for (int64_t j = 0; j < cols; j++)
            out[j] += (uint32_t)sums[i];
    }
}

static void td_group_rect(struct td_rect *r)
{
    const struct td_gemm *g = r->g;
    int64_t all = td_gemm_lanes(g), p = 0;
    int32_t sums[TD_GEMM_ROWS];
    struct td_tiles tiles = {0};
    do {
        int64_t lanes = all - p < r->plan->depth ? all - p : r->plan->depth;
        struct td_block t = {
            .k = lanes, .lda = lanes, .ldb = TD_PANEL, .ldc = r->ldc, .add = p > 0};
        uint32_t *slot_b = (uint32_t *)(void *)(r->slot + r->plan->at_b);
        for (int64_t j = 0; !r->panels && j < r->cols; j += TD_PANEL)
            td_group_pack(g, r->b, p, lanes, r->j + j, slot_b + j * lanes);
        for (int64_t i = 0; i < r->rows; i += TD_GEMM_ROWS) {
            int64_t rows = r->rows - i < TD_GEMM_ROWS ? r->rows - i : TD_GEMM_ROWS;
            if (g->gather_a)
                td_group_gather(r, i, rows, p, lanes, sums);
            else
                td_group_rows(r, i, rows, p, lanes, sums);
            t.a = (const float *)(void *)r->slot;
            for (int64_t j = 0; j < r->cols; j += TD_PANEL) {
                t.b = r->panels ? r->panels + (r->j + j) * all + p * TD_PANEL
                                : (const float *)slot_b + j * lanes;
                t.c = r->c + i * r->ldc + j;
                td_group_column(&tiles, t, rows, r->cols - j < TD_PANEL ? r->cols - j : TD_PANEL,
                                g);
            }
            if (td_group_flips(g))
                td_group_correct(r->c + i * r->ldc, r->ldc, rows, r->cols, sums);
        }
        p += lanes;
    } while (p < all);
    td_tiles_release(&tiles);
    td_rect_finish(r, 0, r->rows);
}

/* The product, whose rectangles run computes by td_group_rect. g->group and g->pad are the
 * caller's; scratch: td_gemm_scratch(g) bytes. */
static inline void td_group_by(const struct td_gemm *g, void *scratch, td_rect_run *run)
{
    struct td_gemm_job job = {.g = g, .scratch = scratch, .run = run};
    const char group = (char)('0' + g->group);
    const char name[] = {
        's', 'i',   'm', 'd', ' ', 'A', 'B', '0' + TD_PANEL / 10, '0' + TD_PANEL % 10,
        'b', group, 'a', 0};
    td_gemm_plan(g, false, &job.plan);
    job.panels = td_gemm_stored(g, TD_PANEL, td_gemm_lanes(g), 4, name, td_group_fill);
    td_gemm_share(&job);
}

static inline void td_group_simd(const struct td_gemm *g, void *scratch)
{
    td_group_by(g, scratch, td_group_rect);
}

#endif
