/* The factories, vector form: one value as its bytes; what is different in each element in small
 * tiles of double or INT64, converted by the level's casts; over the team. */
#include "kernels/cast/cast.h"
#include "kernels/copy.h"
#include "kernels/factory/factory.h"

#include <string.h>

td_convert TD_NAME(convert);

#define GRAIN 16384 /* plain elements worth a thread */
#define TILE 256

/* ---- one value ---- */

struct fill {
    void *out;
    size_t size;
    uint64_t bits; /* of an element, in its first bytes */
};

static void fill_range(void *arg, int64_t begin, int64_t end)
{
    const struct fill *f = arg;
    switch (f->size) {
    case 1:
        memset((char *)f->out + begin, (int)(f->bits & 0xff), (size_t)(end - begin));
        break;
    case 2:
        for (int64_t i = begin; i < end; i++)
            ((uint16_t *)f->out)[i] = (uint16_t)f->bits;
        break;
    case 4:
        for (int64_t i = begin; i < end; i++)
            ((uint32_t *)f->out)[i] = (uint32_t)f->bits;
        break;
    default:
        for (int64_t i = begin; i < end; i++)
            ((uint64_t *)f->out)[i] = f->bits;
    }
}

static void fill(const struct td_call *call, const struct td_value *value)
{
    const struct td_tensor *out = &call->out[0];
    struct fill f = {.out = out->data, .size = td_dtype_size(out->dtype)};
    struct td_tensor one = {.data = &f.bits, .dtype = out->dtype};
    td_put_scalar(&one, 0, value);
    td_parallel(call->threads, td_numel(out), GRAIN, fill_range, &f);
}

/* ---- other ones in each place ---- */

struct making {
    const struct td_call *call;
    enum td_make make;
    bool real; /* in double, else in INT64 */
    uint64_t seed;
    double start, step;
    uint64_t first, by;
};

static void draw(const struct making *m, int64_t begin, int64_t n, double *real, int64_t *whole)
{
    const struct td_call *call = m->call;
    int bits = td_uniform_bits(call->out[0].dtype);
    uint64_t low = (uint64_t)td_range_low(call), size = whole ? td_range_size(call) : 0;
    uint32_t word[4];
    for (int64_t k = 0; k < n; k++) {
        int which = (int)((begin + k) % 2);
        if (!k || !which)
            td_philox(m->seed, (uint64_t)(begin + k) / 2, word);
        if (whole)
            whole[k] = (int64_t)(low + td_one_of(td_philox_word(word, which), size));
        else if (m->make == TD_MAKE_uniform)
            real[k] = td_uniform(td_philox_word(word, which), bits);
        else
            real[k] = td_normal(word, which);
    }
}

static void make_reals(const struct making *m, int64_t begin, int64_t n, double *real)
{
    switch (m->make) {
    case TD_MAKE_progression:
        for (int64_t k = 0; k < n; k++)
            real[k] = m->start + (double)(begin + k) * m->step;
        break;
    case TD_MAKE_line:
    case TD_MAKE_powers:
        for (int64_t k = 0; k < n; k++)
            real[k] = td_on_line(m->call, begin + k);
        for (int64_t k = 0; k < n && m->make == TD_MAKE_powers; k++)
            real[k] = pow(td_scalar(&m->call->arg[3]), real[k]);
        break;
    default:
        draw(m, begin, n, real, NULL);
    }
}

static void make_wholes(const struct making *m, int64_t begin, int64_t n, int64_t *whole)
{
    int64_t columns = m->call->out[0].shape[1];
    if (m->make == TD_MAKE_whole) {
        draw(m, begin, n, NULL, whole);
    } else if (m->make == TD_MAKE_diagonal) {
        int64_t next = begin / columns * (columns + 1); /* the one of this row, or the row's end */
        memset(whole, 0, (size_t)n * sizeof *whole);
        for (next += next < begin ? columns + 1 : 0; next < begin + n; next += columns + 1)
            whole[next - begin] = next / columns == next % columns;
    } else {
        for (int64_t k = 0; k < n; k++)
            whole[k] = (int64_t)(m->first + (uint64_t)(begin + k) * m->by);
    }
}

static void make_range(void *arg, int64_t begin, int64_t end)
{
    const struct making *m = arg;
    const struct td_tensor *out = &m->call->out[0];
    union {
        double real[TILE];
        int64_t whole[TILE];
    } tile;
    for (int64_t i = begin; i < end; i += TILE) {
        int64_t n = end - i < TILE ? end - i : TILE;
        if (m->real)
            make_reals(m, i, n, tile.real);
        else
            make_wholes(m, i, n, tile.whole);
        TD_NAME(convert)
        (n, (char *)out->data + (size_t)i * td_dtype_size(out->dtype), out->dtype, &tile,
         m->real ? TD_f64 : TD_i64);
    }
}

static void make(const struct td_call *call, enum td_make how)
{
    const struct td_tensor *out = &call->out[0];
    struct making m = {.call = call, .make = how, .seed = td_factory_seed(call)};
    m.real = how == TD_MAKE_line || how == TD_MAKE_powers || how == TD_MAKE_uniform ||
             how == TD_MAKE_normal;
    if (how == TD_MAKE_progression) {
        struct td_progression p = td_progression(call);
        m.real = td_dtype_kind(out->dtype) == 'f';
        m.start = td_scalar(p.start);
        m.step = td_scalar(p.step);
        m.first = (uint64_t)td_scalar_int(p.start);
        m.by = (uint64_t)td_scalar_int(p.step);
    }
    td_parallel(call->threads, td_numel(out), how > TD_MAKE_diagonal ? GRAIN / 8 : GRAIN,
                make_range, &m);
}

/* ---- triangles: of each row a part is copied, the rest is 0 ---- */

static int64_t clamped(__int128 x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : (int64_t)x;
}

/* Bytes from first to last of the result: copied, or 0. */
static void some_bytes(const struct td_call *call, int64_t first, int64_t last, bool kept)
{
    char *to = (char *)call->out[0].data + first;
    if (kept)
        td_copy_run(to, (const char *)call->arg[0].tensor.data + first, last - first);
    else if (last - first > TD_COPY_SHORT)
        memset(to, 0, (size_t)(last - first));
    else
        for (int64_t i = 0; i < last - first; i++)
            to[i] = 0;
}

/* Rows that are kept or dropped as a whole lie one behind the other, at either end of a matrix. */
static void triangle_rows(void *arg, int64_t begin, int64_t end)
{
    const struct td_call *call = arg;
    const struct td_tensor *in = &call->arg[0].tensor;
    int64_t columns = in->shape[in->rank - 1], rows = in->shape[in->rank - 2];
    int64_t size = (int64_t)td_dtype_size(in->dtype), all = columns * size;
    bool lower = td_factory(call)->make == TD_MAKE_lower;
    /* In row r, the first column right of what lower keeps, or of what upper drops: r + shift. */
    const __int128 shift = (__int128)call->arg[1].i + lower;
    for (int64_t n, looks = 0; begin < end && (looks++ % 16 || !td_stopped()); begin += n) {
        int64_t first = begin % rows, at = begin - first;
        n = rows - first < end - begin ? rows - first : end - begin;
        int64_t last = first + n, cut_from = clamped(1 - shift, first, last);
        int64_t cut_to = clamped(columns - shift, cut_from, last);
        some_bytes(call, begin * all, (at + cut_from) * all, !lower);
        for (int64_t r = cut_from; r < cut_to; r++) {
            int64_t row = (at + r) * all, cut = row + (int64_t)(r + shift) * size;
            some_bytes(call, row, cut, lower);
            some_bytes(call, cut, row + all, !lower);
        }
        some_bytes(call, (at + cut_to) * all, (at + last) * all, lower);
    }
}

TD_KERNEL(factory)
{
    const struct td_value *constant = td_factory_constant(call);
    enum td_make how = td_factory(call)->make;
    const struct td_tensor *out = &call->out[0];
    int64_t n = td_numel(out);
    if (!n)
        return;
    if (constant)
        fill(call, constant);
    else if (how == TD_MAKE_order)
        td_factory_order(call);
    else if (how >= TD_MAKE_lower)
        td_parallel(call->threads, n / out->shape[out->rank - 1],
                    1 + 4 * GRAIN / out->shape[out->rank - 1], triangle_rows, (void *)call);
    else
        make(call, how);
}
