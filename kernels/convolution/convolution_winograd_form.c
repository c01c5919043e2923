/* What Winograd's kernels keep with a stored weight: its taps, each in a plane of its own, from
 * which a call makes their 16 matrices with vectors in a few percent of its time. The matrices
 * themselves would take 16/9 of the weight's memory, and the weight could not be had again from
 * them bit by bit. */
#include "kernels/convolution/convolution.h"
#include "kernels/weight.h"

#include <math.h>
#include <string.h>

/* Nothing but these, without padding: it is compared byte by byte. */
struct key {
    char what[8];
    int64_t outs, ins, width, plane;
};

int64_t td_winograd_place(const struct td_winograd *w, int64_t o, int64_t i)
{
    return w->width ? (o / w->width * w->ins + i) * w->width + o % w->width : o * w->ins + i;
}

static int fill(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct td_winograd *w = arg;
    const float *from = plain->data;
    float *to = packed;
    for (int64_t o = 0; o < w->outs; o++)
        for (int64_t i = 0; i < w->ins; i++, from += 9) {
            float *at = to + td_winograd_place(w, o, i);
            for (int k = 0; k < 9; k++)
                at[k * w->plane] = from[k];
        }
    return 0;
}

static void undo(const struct td_tensor *plain, const void *packed, const void *key)
{
    const struct key *of = key;
    const struct td_winograd w = {
        .outs = of->outs, .ins = of->ins, .width = of->width, .plane = of->plane};
    float *to = plain->data;
    for (int64_t o = 0; o < w.outs; o++)
        for (int64_t i = 0; i < w.ins; i++, to += 9) {
            const float *at = (const float *)packed + td_winograd_place(&w, o, i);
            for (int k = 0; k < 9; k++)
                to[k] = at[k * w.plane];
        }
}

static struct key key_of(const struct td_winograd *w)
{
    return (struct key){"taps 3x3", w->outs, w->ins, w->width, w->plane};
}

const float *td_winograd_taps(const struct td_tensor *weight, const struct td_winograd *w,
                              float *scratch)
{
    const struct key key = key_of(w);
    struct td_winograd how = *w;
    struct td_weight *stored = td_weight_to_pack(weight);
    const float *taps = stored ? td_weight_pack(stored, &key, sizeof key, "winograd taps", w->taps,
                                                fill, &how, undo)
                               : NULL;
    if (!taps) {
        memset(scratch, 0, w->taps); /* panels may be wider than there are results */
        fill(scratch, weight, &how);
    }
    return taps ? taps : scratch;
}

/* Adds the magnitudes of the 16 products' weights of one kernel that enter each of the four results
 * of a tile. */
static void add_magnitudes(const float *tap, int64_t plane, double to[4])
{
    double row[4][3], place[4][4];
    for (int x = 0; x < 3; x++) {
        double first = (double)tap[x * plane], middle = (double)tap[(3 + x) * plane],
               last = (double)tap[(6 + x) * plane];
        row[0][x] = first;
        row[1][x] = (first + middle + last) / 2;
        row[2][x] = (first - middle + last) / 2;
        row[3][x] = last;
    }
    for (int y = 0; y < 4; y++) {
        place[y][0] = fabs(row[y][0]);
        place[y][1] = fabs(row[y][0] + row[y][1] + row[y][2]) / 2;
        place[y][2] = fabs(row[y][0] - row[y][1] + row[y][2]) / 2;
        place[y][3] = fabs(row[y][2]);
    }
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 2; x++)
            for (int k = 0; k < 9; k++)
                to[2 * y + x] += place[y + k / 3][x + k % 3];
}

static double rounding(const struct td_conv *c, const struct td_winograd *w)
{
    const struct key key = key_of(w);
    const struct td_weight *stored = td_weight_to_pack(c->weight);
    const float *taps = stored ? td_weight_packed(stored, &key, sizeof key) : NULL;
    double most = 1;
    if (!taps)
        return 16;
    for (int64_t o = 0; o < w->outs; o++) {
        double sums[4] = {0}, terms = 0;
        for (int64_t i = 0; i < w->ins; i++) {
            const float *tap = taps + td_winograd_place(w, o, i);
            add_magnitudes(tap, w->plane, sums);
            for (int k = 0; k < 9; k++)
                terms += fabs((double)tap[k * w->plane]);
        }
        for (int r = 0; r < 4; r++) /* four elements of self make a product's other factor */
            most = fmax(most, 4 * sums[r] / terms); /* fmax ignores NaN, of zeros */
    }
    return most;
}

/* ---- what rows answer ---- */

static const char *prepare(const struct td_call *call, struct td_prepared *prepared, int64_t width)
{
    struct td_conv c;
    struct td_winograd w;
    td_conv_of(call, &c);
    const char *no = td_conv_cut_winograd(&c, width, call->threads, &w);
    if (!no)
        prepared->scratch = w.taps + w.weights + w.slot * (size_t)w.slots;
    return no;
}

static double rounding_of(const struct td_call *call, int64_t width)
{
    struct td_conv c;
    struct td_winograd w;
    td_conv_of(call, &c);
    return td_conv_cut_winograd(&c, width, call->threads, &w) ? 1 : rounding(&c, &w);
}

const char *td_winograd_prepare_avx512(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 32);
}

const char *td_winograd_prepare_avx2(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 16);
}

double td_winograd_rounding_avx512(const struct td_call *call)
{
    return rounding_of(call, 32);
}

double td_winograd_rounding_avx2(const struct td_call *call)
{
    return rounding_of(call, 16);
}
