/* Convolutions of 3x3 with a stride of 1 by Winograd's F(2x2,3x3): four results of 16 products
 * instead of 36. Formulas: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016,
 * section 4.1.
 *
 * A block is some rows of tiles of one image, each tile 4x4 elements of the input for 2x2 results.
 * Its tiles are transformed, channel by channel, to 16 matrices [channels][tiles]; each is
 * multiplied by the weights' matrix of its place [out channels][channels], which each call makes;
 * and the 16 products are transformed back to results. Results that are infinite or NaN then are
 * computed again, as direct sums (convolution_winograd_sums.h). */
#define TD_REAL_BITS 32
#include "kernels/convolution/convolution_winograd_sums.h"
#include "kernels/gemm/gemm_block.h"

#include <string.h>

/* What a channel is laid out in. Rows of tiles follow on each other, as many floats as there are
 * tiles in each; vectors reach into the next one, which is written later. */
struct lines {
    float *even[4],
        *odd[4];   /* the first and second row of tiles: their four columns, transformed */
    float *padded; /* a row of the input; zeros around it */
};

/* Row y of a channel, zeros where there is none, its tiles from number at on. */
static void transform_row(const struct td_conv *c, const struct td_winograd *w,
                          const float *channel, int64_t y, float *padded, float *const to[4],
                          int64_t at)
{
    bool inside = y >= 0 && y < c->in[0];
    if (inside)
        memcpy(padded + c->padding[1], channel + y * c->in[1], (size_t)c->in[1] * sizeof(float));
    for (int64_t t = 0; t < w->across; t += TD_LANES) {
        const float *p = padded + 2 * t;
        td_vf a = td_load(p), b = td_load(p + TD_LANES), next_a = td_load(p + 2),
              next_b = td_load(p + TD_LANES + 2);
        td_vf d0 = td_every_other(a, b, 0), d1 = td_every_other(a, b, 1),
              d2 = td_every_other(next_a, next_b, 0), d3 = td_every_other(next_a, next_b, 1);
        td_vf none = td_set(0);
        td_store(to[0] + at + t, inside ? d0 - d2 : none);
        td_store(to[1] + at + t, inside ? d1 + d2 : none);
        td_store(to[2] + at + t, inside ? d2 - d1 : none);
        td_store(to[3] + at + t, inside ? d1 - d3 : none);
    }
}

/* Rows of tiles [first, first + n) of a channel to their places of the 16 matrices. */
static void transform_channel(const struct td_conv *c, const struct td_winograd *w,
                              const float *channel, int64_t first, int64_t n, const struct lines *l,
                              float *to)
{
    int64_t matrix = c->in_channels * w->ld, y = 2 * first - c->padding[0];
    for (int64_t r = 0; r <= n; r++, y += 2) {
        transform_row(c, w, channel, y, l->padded, l->even, r * w->across);
        transform_row(c, w, channel, y + 1, l->padded, l->odd, r * w->across);
    }
    for (int j = 0; j < 4; j++) {
        const float *even = l->even[j], *odd = l->odd[j];
        for (int64_t t = 0; t < n * w->across; t += TD_LANES) {
            float *at = to + j * matrix + t / TD_NR * TD_NR * c->in_channels + t % TD_NR;
            td_vf d0 = td_load(even + t), d1 = td_load(odd + t), d2 = td_load(even + w->across + t),
                  d3 = td_load(odd + w->across + t);
            td_store(at, d0 - d2);
            td_store(at + 4 * matrix, d1 + d2);
            td_store(at + 8 * matrix, d2 - d1);
            td_store(at + 12 * matrix, d1 - d3);
        }
    }
}

/* From the 16 products at from, matrix floats apart, to the four results of each tile. *nans, which
 * is 0 at first, becomes NaN in lanes with a result that is not finite. */
TD_INLINE void transform_products(const float *from, int64_t matrix, td_vf bias, td_vf up[2],
                                  td_vf down[2], td_vf *nans)
{
    td_vf s[4][2];
    for (int i = 0; i < 4; i++, from += 4 * matrix) {
        td_vf m0 = td_load(from), m1 = td_load(from + matrix), m2 = td_load(from + 2 * matrix),
              m3 = td_load(from + 3 * matrix);
        s[i][0] = m0 + m1 + m2;
        s[i][1] = m1 - m2 - m3;
    }
    for (int j = 0; j < 2; j++) {
        up[j] = s[0][j] + s[1][j] + s[2][j] + bias;
        down[j] = s[1][j] - s[2][j] - s[3][j] + bias;
        *nans += (up[j] - up[j]) + (down[j] - down[j]);
    }
}

/* The interleaved elements of two vectors. */
TD_INLINE void store_pairs(float *to, td_vf even, td_vf odd)
{
    td_vi low, high;
    for (int i = 0; i < TD_LANES; i++) {
        low[i] = i / 2 + i % 2 * TD_LANES;
        high[i] = low[i] + TD_LANES / 2;
    }
    td_store(to, __builtin_shuffle(even, odd, low));
    td_store(to + TD_LANES, __builtin_shuffle(even, odd, high));
}

/* rooms: of the upper and lower rows of results, each of whole tiles. */
static void transform_back(const struct job *j, int64_t image, int64_t first, int64_t n,
                           const float *from, float *const rooms[2], float *padded)
{
    const struct td_conv *c = j->c;
    const struct td_winograd *w = j->w;
    int64_t tiles = n * w->across, matrix = c->out_channels * w->ld;
    for (int64_t o = 0; o < c->out_channels; o++) {
        td_vf bias = td_set(c->bias ? ((const float *)c->bias->data)[o] : 0);
        td_vf nans = td_set(0);
        for (int64_t t = 0; t < tiles; t += TD_LANES) {
            td_vf up[2], down[2];
            transform_products(from + o * w->ld + t, matrix, bias, up, down, &nans);
            store_pairs(rooms[0] + 2 * t, up[0], up[1]);
            store_pairs(rooms[1] + 2 * t, down[0], down[1]);
        }
        for (int64_t y = 2 * first; y < 2 * (first + n) && y < c->size[0]; y++) {
            float *to = (float *)c->out->data +
                        ((image * c->out_channels + o) * c->size[0] + y) * c->size[1];
            memcpy(to, rooms[y & 1] + (y / 2 - first) * 2 * w->across,
                   (size_t)c->size[1] * sizeof *to);
            if (td_hsum(nans) != 0 && !is_row_finite(to, c->size[1]))
                put_row(j, image, o, y, padded, to);
        }
    }
}

/* ---- channels last: lanes are channels ---- */

/* Transforms a tile's 4x4 pixels in its channels from number k on, of which left remain, TD_LANES
 * at most. */
TD_INLINE void transform_pixels(const float *const pixel[16], int64_t k, int64_t left, float *to,
                                int64_t matrix)
{
    td_vf v[4][4];
    for (int i = 0; i < 4; i++) {
        td_vf d[4];
        for (int j = 0; j < 4; j++)
            d[j] = td_load_next(pixel[4 * i + j] + k, left, 0);
        v[i][0] = d[0] - d[2];
        v[i][1] = d[1] + d[2];
        v[i][2] = d[2] - d[1];
        v[i][3] = d[1] - d[3];
    }
    for (int j = 0; j < 4; j++, to += matrix) {
        td_store_next(to, left, v[0][j] - v[2][j]);
        td_store_next(to + 4 * matrix, left, v[1][j] + v[2][j]);
        td_store_next(to + 8 * matrix, left, v[2][j] - v[1][j]);
        td_store_next(to + 12 * matrix, left, v[1][j] - v[3][j]);
    }
}

/* Rows of tiles [first, first + n), to the 16 matrices [tiles][channels]. none: a pixel of
 * zeros, for the padding. */
static void transform_last(const struct td_conv *c, const struct td_winograd *w, const float *image,
                           int64_t first, int64_t n, const float *none, float *to)
{
    int64_t channels = c->in_channels, matrix = w->ld * channels;
    for (int64_t i = 0; i < n * w->across; i++, to += channels) {
        int64_t y = 2 * (first + i / w->across) - c->padding[0];
        int64_t x = 2 * (i % w->across) - c->padding[1];
        const float *pixel[16];
        for (int p = 0; p < 16; p++) {
            int64_t row = y + p / 4, column = x + p % 4;
            bool inside = row >= 0 && row < c->in[0] && column >= 0 && column < c->in[1];
            pixel[p] = inside ? image + (row * c->in[1] + column) * channels : none;
        }
        int64_t k = 0;
        for (; k + TD_LANES <= channels; k += TD_LANES)
            transform_pixels(pixel, k, TD_LANES, to + k, matrix);
        if (k < channels)
            transform_pixels(pixel, k, channels - k, to + k, matrix);
    }
}

/* ldc: of the products' rows. */
static void transform_last_back(const struct job *j, int64_t image, int64_t first, int64_t n,
                                const float *from, int64_t ldc)
{
    const struct td_conv *c = j->c;
    const struct td_winograd *w = j->w;
    const struct conv_posts *posts = &j->posts;
    int64_t channels = c->out_channels, matrix = w->ld * ldc;
    const float *bias = c->bias ? c->bias->data : NULL;
    for (int64_t i = 0; i < n * w->across; i++, from += ldc) {
        int64_t y = 2 * (first + i / w->across), x = 2 * (i % w->across);
        int64_t pixel = (image * c->size[0] + y) * c->size[1] + x;
        float *out = (float *)c->out->data + pixel * channels;
        float *const to[4] = {out, out + channels, out + c->size[1] * channels,
                              out + (c->size[1] + 1) * channels};
        const bool below = y + 1 < c->size[0], beside = x + 1 < c->size[1];
        const bool there[4] = {true, beside, below, below && beside};
        td_vf nans = td_set(0);
        for (int64_t o = 0; o < channels; o += TD_LANES) {
            int64_t left = channels - o;
            td_vf sum[4];
            transform_products(from + o, matrix, bias ? td_load_next(bias + o, left, 0) : td_set(0),
                               sum, sum + 2, &nans);
            conv_posts_early(posts, sum, 4);
            for (int p = 0; p < 4; p++)
                if (there[p])
                    td_store_next(to[p] + o, left, sum[p]);
        }
        for (int p = 0; p < 4 && td_hsum(nans) != 0; p++)
            if (there[p])
                put_pixel(j, image, y + p / 2, x + p % 2);
    }
    int64_t end = 2 * (first + n) < c->size[0] ? 2 * (first + n) : c->size[0], width = c->size[1];
    conv_posts_late(posts, (image * c->size[0] + 2 * first) * width * channels,
                    (end - 2 * first) * width, channels);
}

/* ---- products ---- */

/* The 16 products [rows][k] times panels of [k][cols], sums ldc apart. */
static __attribute__((noinline)) void multiply(const float *a, int64_t rows, int64_t step_a,
                                               const float *panels, int64_t k, int64_t cols,
                                               int64_t step_panels, float *sums, int64_t ldc,
                                               int64_t step_sums)
{
    for (int p = 0; p < 16; p++, a += step_a, panels += step_panels, sums += step_sums)
        for (int64_t j = 0; j < cols; j += TD_NR)
            for (int64_t x = 0; x < k; x += TD_GEMM_DEPTH) {
                struct td_block t = {.k = k - x < TD_GEMM_DEPTH ? k - x : TD_GEMM_DEPTH,
                                     .a = a + x,
                                     .b = panels + j * k + x * TD_NR,
                                     .c = sums + j,
                                     .lda = k,
                                     .ldb = TD_NR,
                                     .ldc = ldc,
                                     .add = x > 0};
                td_block_column(t, rows, cols - j > TD_LANES ? TD_NR : TD_LANES, TD_STEP_f32);
            }
}

static char *take(char **room, size_t bytes)
{
    char *at = *room;
    *room += (bytes + 127) & ~(size_t)63;
    return at;
}

static void work(const struct job *j, int64_t begin, int64_t end, char *room)
{
    const struct td_conv *c = j->c;
    const struct td_winograd *w = j->w;
    int64_t pixels = td_conv_pixels(c, c->in);
    float *inputs = (float *)take(&room, w->inputs), *products = (float *)take(&room, w->products);
    const float *kernel = (const float *)j->scratch;
    float *rooms[2], *none = NULL;
    struct lines l;
    int64_t ins = c->in_channels, outs = c->out_channels, ldc = w->ldc;
    if (c->last) {
        none = (float *)take(&room, ((size_t)ins + TD_LANES) * sizeof(float));
        memset(none, 0, ((size_t)ins + TD_LANES) * sizeof(float));
    } else {
        for (int i = 0; i < 4; i++) {
            l.even[i] = memset(take(&room, w->line), 0, w->line);
            l.odd[i] = memset(take(&room, w->line), 0, w->line);
        }
        l.padded = (float *)take(&room, 2 * w->line);
        memset(l.padded, 0, 2 * w->line);
        for (int i = 0; i < 2; i++)
            rooms[i] = (float *)take(&room, 2 * w->line);
    }
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t image = i / w->blocks, first = i % w->blocks * w->rows;
        int64_t n = w->down - first < w->rows ? w->down - first : w->rows, tiles = n * w->across;
        const float *input = (const float *)c->input->data + image * ins * pixels;
        if (c->last) {
            transform_last(c, w, input, first, n, none, inputs);
            multiply(inputs, tiles, w->ld * ins, kernel, ins, outs, w->plane, products, ldc,
                     w->ld * ldc);
            transform_last_back(j, image, first, n, products, ldc);
            continue;
        }
        for (int64_t k = 0; k < ins; k++)
            transform_channel(c, w, input + k * pixels, first, n, &l, inputs + k * TD_NR);
        multiply(kernel, outs, w->plane, inputs, ins, tiles, ins * w->ld, products, w->ld,
                 outs * w->ld);
        transform_back(j, image, first, n, products, rooms, l.padded);
    }
}

static void slots(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t items = j->c->images * j->w->blocks, n = j->w->slots;
    for (int64_t i = begin; i < end; i++)
        work(j, items * i / n, items * (i + 1) / n,
             j->scratch + j->w->weights + (size_t)i * j->w->slot);
}

/* Computes the weights of the 16 products from a kernel's taps, for one kernel in each lane. */
TD_INLINE void transform_taps(const float *from, int64_t plane, float *to, int64_t matrix)
{
    td_vf k[9], half[4][3];
    for (int i = 0; i < 9; i++)
        k[i] = td_load(from + i * plane);
    for (int x = 0; x < 3; x++) {
        td_vf ends = k[x] + k[6 + x];
        half[0][x] = k[x];
        half[1][x] = (ends + k[3 + x]) * 0.5F;
        half[2][x] = (ends - k[3 + x]) * 0.5F;
        half[3][x] = k[6 + x];
    }
    for (int y = 0; y < 4; y++, to += 4 * matrix) {
        td_vf ends = half[y][0] + half[y][2];
        td_store(to, half[y][0]);
        td_store(to + matrix, (ends + half[y][1]) * 0.5F);
        td_store(to + 2 * matrix, (ends - half[y][1]) * 0.5F);
        td_store(to + 3 * matrix, half[y][2]);
    }
}

static void weights(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t plane = j->w->plane;
    for (int64_t i = begin * TD_LANES; i < end * TD_LANES; i += TD_LANES)
        transform_taps(j->taps + i, plane, (float *)j->scratch + i, plane);
}

TD_KERNEL(convolution_winograd)
{
    struct td_conv c;
    struct td_winograd w;
    td_conv_of(call, &c);
    td_conv_cut_winograd(&c, TD_NR, call->threads, &w);
    struct job j = {.c = &c, .w = &w, .scratch = (char *)call->scratch + w.taps};
    j.taps = td_winograd_taps(c.weight, &w, call->scratch);
    conv_posts_split(&c, true, &j.posts);
    td_parallel(w.slots, w.plane / TD_LANES, 256, weights, &j);
    td_parallel(w.slots, w.slots, 1, slots, &j);
}

/* ---- rounding ---- */

struct magnitudes { /* of lanes: sums of absolute values */
    td_vf products[4], terms;
};

TD_INLINE td_vf absolute(td_vf v)
{
    return (td_vf)((td_vi)v & 0x7fffffff);
}

/* Adds the absolute values of the transformed weights that enter each of a tile's four results, and
 * of the taps, for up to TD_LANES kernels, of which left remain. */
TD_INLINE void add_magnitudes(const float *from, int64_t plane, int64_t left, struct magnitudes *m)
{
    float tap[9 * TD_LANES], weight[16 * TD_LANES];
    for (int k = 0; k < 9; k++)
        td_store(tap + k * TD_LANES, td_load_next(from + k * plane, left, 0));
    transform_taps(tap, TD_LANES, weight, TD_LANES);
    for (int k = 0; k < 9; k++) {
        m->terms += absolute(td_load(tap + k * TD_LANES));
        for (int r = 0; r < 4; r++)
            m->products[r] +=
                absolute(td_load(weight + (4 * (r / 2 + k / 3) + r % 2 + k % 3) * TD_LANES));
    }
}

/* together: all lanes are of one output channel. */
static float most_of(const struct magnitudes *m, bool together, float most)
{
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < (together ? 1 : TD_LANES); i++) {
            float products = together ? td_hsum(m->products[r]) : m->products[r][i];
            float terms = together ? td_hsum(m->terms) : m->terms[i];
            if (4 * products > most * terms) /* four inputs make a product's other factor */
                most = 4 * products / terms;
        }
    return most;
}

double TD_NAME(winograd_rounding)(const struct td_call *call)
{
    struct td_conv c;
    struct td_winograd w;
    float most = 1;
    td_conv_of(call, &c);
    const float *taps =
        td_conv_cut_winograd(&c, TD_NR, call->threads, &w) ? NULL : td_winograd_kept(c.weight, &w);
    if (!taps)
        return 16;
    for (int64_t o = 0; o < w.outs; o += w.width ? TD_LANES : 1) {
        struct magnitudes m = {{{0}}, {0}};
        for (int64_t i = 0; i < w.ins; i += w.width ? 1 : TD_LANES)
            add_magnitudes(taps + td_winograd_place(&w, o, i), w.plane,
                           w.width ? TD_LANES : w.ins - i, &m);
        most = most_of(&m, !w.width, most);
    }
    return (double)most;
}
