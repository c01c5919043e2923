/* Picking, vector form. A piece of work is a row of the result: its middle lies as it does in self
 * and is copied at once, its ends element by element; between elements that are not next to each
 * other (nearest) the last dimension's places are looked up. Dimensions behind the last one that
 * picks go with their elements as one. */
#include "kernels/copy.h"
#include "kernels/pick/pick.h"
#include "kernels/vec.h"

#include <string.h>

#define GRAIN (1 << 16) /* bytes */
#define ENDS 32         /* elements at either end of a row whose places are looked up once */
#define SHORT 1024      /* bytes of a row, which a call of memcpy is long beside */

struct job {
    struct td_pick_axis axis[TD_MAX_RANK];
    int last;           /* the dimension that rows lie along; those outside of it are walked */
    int64_t size, unit; /* bytes of an element, and of those that go together */
    int64_t step[TD_MAX_RANK]; /* bytes from one element of self to the next, in each dimension */
    int64_t low, high;         /* of a row: where it lies as in self */
    const int64_t *places;     /* of a row's elements, instead; NULL: not looked up */
    const uint32_t *within; /* the same, within the one vector of self that each vector of results
                               needs; NULL: some need more */
    int64_t ends[2][ENDS];  /* places of those before low, and from high on */
    bool known;             /* they are there */
    const char *in, *in_end;
    char *out;
    uint64_t filling;
};

typedef uint64_t td_v64 __attribute__((vector_size(TD_VBYTES)));

/* The element that fills, as often as 64 bits hold. */
static uint64_t filling_of(const struct td_call *call, int64_t size)
{
    uint64_t one = td_pick_filling(call);
    for (int64_t bits = 8 * size; bits < 64; bits *= 2)
        one = (one & (UINT64_MAX >> (64 - bits))) | one << bits;
    return one;
}

/* Whole vectors, as many as n bytes need: what they reach beyond is written later. */
TD_INLINE void fill_over(char *out, int64_t n, td_v64 v)
{
    for (int64_t i = 0; i < n; i += TD_VBYTES)
        memcpy(out + i, &v, sizeof v);
}

TD_INLINE void copy_over(char *out, const char *in, int64_t n)
{
    for (int64_t i = 0; i < n; i += TD_VBYTES) {
        td_v64 v;
        memcpy(&v, in + i, sizeof v);
        memcpy(out + i, &v, sizeof v);
    }
}

static void fill(const struct job *j, char *out, int64_t n)
{
    int64_t size = j->unit * n;
    switch (j->size) {
    case 1:
        memset(out, (int)(j->filling & 0xff), (size_t)size);
        break;
    case 2:
        for (int64_t i = 0; i < size / 2; i++)
            ((uint16_t *)out)[i] = (uint16_t)j->filling;
        break;
    case 4:
        for (int64_t i = 0; i < size / 4; i++)
            ((uint32_t *)out)[i] = (uint32_t)j->filling;
        break;
    default:
        for (int64_t i = 0; i < size / 8; i++)
            ((uint64_t *)out)[i] = j->filling;
    }
}

#define TD_LOOK_UP(T)                                                                              \
    static void look_up_##T(T *restrict out, const T *restrict in, const int64_t *restrict places, \
                            int64_t n)                                                             \
    {                                                                                              \
        for (int64_t o = 0; o < n; o++)                                                            \
            out[o] = in[places[o]];                                                                \
    }
TD_LOOK_UP(uint8_t)
TD_LOOK_UP(uint16_t)
TD_LOOK_UP(uint32_t)
TD_LOOK_UP(uint64_t)

/* Where a vector begins that holds element i of a row of size elements and does not reach beyond
 * the row; 0 if the row is shorter than a vector. */
TD_INLINE int64_t vector_at(int64_t size, int64_t i)
{
    int64_t last = size - TD_LANES;
    return i < last ? i : last > 0 ? last : 0;
}

/* Fills within, which has room for whole vectors; false: a vector of results needs more of self. */
static bool find_near(const struct job *j, uint32_t *within)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    for (int64_t o = 0; o < a->out; o += TD_LANES) {
        int64_t begin = vector_at(a->out, o), from = vector_at(a->in, j->places[begin]);
        for (int64_t i = 0; i < TD_LANES; i++) {
            int64_t place = begin + i < a->out ? j->places[begin + i] - from : 0;
            if (place < 0 || place >= TD_LANES)
                return false;
            within[o + i] = (uint32_t)place;
        }
    }
    return true;
}

/* A row whose results are neighbours of one another, as those of a bigger image are: a vector of
 * them comes out of one of self. */
static void look_near(const struct job *j, float *out, const float *in)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    for (int64_t o = 0; o < a->out; o += TD_LANES) {
        int64_t begin = vector_at(a->out, o), from = vector_at(a->in, j->places[begin]);
        td_vu within;
        memcpy(&within, j->within + o, sizeof within);
        td_vf v = td_load_next(in + from, a->in - from, 0);
        td_store_next(out + begin, a->out - begin, __builtin_shuffle(v, within));
    }
}

static void look_up(const struct job *j, char *out, const char *in, const int64_t *places,
                    int64_t n)
{
    switch (j->unit) {
    case 1:
        look_up_uint8_t((uint8_t *)out, (const uint8_t *)in, places, n);
        break;
    case 2:
        look_up_uint16_t((uint16_t *)out, (const uint16_t *)in, places, n);
        break;
    case 4:
        look_up_uint32_t((uint32_t *)out, (const uint32_t *)in, places, n);
        break;
    case 8:
        look_up_uint64_t((uint64_t *)out, (const uint64_t *)in, places, n);
        break;
    default:
        for (int64_t o = 0; o < n; o++)
            memcpy(out + o * j->unit, in + places[o] * j->unit, (size_t)j->unit);
    }
}

/* Results [begin, end) of a row, one after the other. */
static void pick_some(const struct job *j, char *out, const char *in, int64_t begin, int64_t end)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    if (a->how == TD_PICK_constant) {
        fill(j, out + begin * j->unit, end - begin);
        return;
    }
    if (j->known) {
        look_up(j, out + begin * j->unit, in, begin < j->low ? j->ends[0] : j->ends[1],
                end - begin);
        return;
    }
    for (int64_t o = begin; o < end; o++)
        memcpy(out + o * j->unit, in + td_pick_from(a, o) * j->unit, (size_t)j->unit);
}

static void pick_row(const struct job *j, char *out, const char *in)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    const char *middle = in + (j->low - a->before) * j->unit;
    int64_t n = (j->high - j->low) * j->unit;
    if (j->within) {
        look_near(j, (float *)out, (const float *)in);
        return;
    }
    if (j->places) {
        look_up(j, out, in, j->places, a->out);
        return;
    }
    pick_some(j, out, in, 0, j->low);
    if (n > 0)
        td_copy_run(out + j->low * j->unit, middle, n);
    pick_some(j, out, in, j->high, a->out);
}

/* Up to n short rows with a filling at their ends, in whole vectors; in: of the first one's
 * elements. How many: the last ones are left, where vectors would reach beyond self or beyond end,
 * that of the results that may be written. */
static int64_t fill_rows(const struct job *j, char *out, const char *in, int64_t n, const char *end)
{
    const int64_t width = j->axis[j->last].out * j->unit, step = j->step[j->last - 1];
    const int64_t low = j->low * j->unit, high = j->high * j->unit;
    const char *in_end = j->in_end;
    const td_v64 v = j->filling + (td_v64){0};
    int64_t i = 0;
    for (; i < n && end - out >= width + TD_VBYTES && in_end - in >= high - low + TD_VBYTES; i++) {
        fill_over(out, low, v);
        copy_over(out + low, in, high - low);
        fill_over(out + high, width - high, v);
        out += width;
        in += step;
    }
    return i;
}

/* n rows of two dimensions that are filled, as plane has them. */
static void filled_plane(const struct job *j, char *out, const char *in, int64_t o, int64_t n,
                         const char *end)
{
    const struct td_pick_axis *a = &j->axis[j->last], *outer = a - 1;
    const int64_t width = a->out * j->unit, size = (j->high - j->low) * j->unit;
    for (int64_t i = 0, done; i < n; i += done, out += done * width) {
        int64_t from = o + i - outer->before, left = outer->in - from, short_ones = 0;
        done = 1;
        if (from < 0 || left <= 0) {
            fill(j, out, a->out);
            continue;
        }
        const char *row = in + from * j->step[j->last - 1];
        if (size > 0 && size <= SHORT)
            short_ones = fill_rows(j, out, row + (j->low - a->before) * j->unit,
                                   left < n - i ? left : n - i, end);
        if (short_ones)
            done = short_ones;
        else
            pick_row(j, out, row);
    }
}

/* n rows, from number o on of the dimension outside of theirs, which begins at in. end: of the
 * results that may be written. */
static void plane(const struct job *j, char *out, const char *in, int64_t o, int64_t n,
                  const char *end)
{
    const struct td_pick_axis *a = &j->axis[j->last], *outer = a - 1;
    int64_t width = a->out * j->unit, before = -1; /* what the last row came from */
    if (j->last && outer->how == TD_PICK_constant && a->how == TD_PICK_constant) {
        filled_plane(j, out, in, o, n, end);
        return;
    }
    for (int64_t i = 0; i < n; i++, out += width) {
        int64_t from = j->last ? td_pick_from(outer, o + i) : 0;
        if (from < 0)
            fill(j, out, a->out);
        else if (from == before)
            memcpy(out, out - width, (size_t)width);
        else
            pick_row(j, out, in + (j->last ? from * j->step[j->last - 1] : 0));
        before = from;
    }
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t width = j->axis[j->last].out * j->unit, high = j->last ? j->axis[j->last - 1].out : 1;
    for (int64_t i = begin, n; i < end; i += n) {
        const char *in = j->in;
        char *out = j->out + i * width;
        int64_t rest = i / high;
        bool filled = false;
        n = high - i % high < end - i ? high - i % high : end - i;
        for (int d = j->last - 2; d >= 0; d--) {
            int64_t from = td_pick_from(&j->axis[d], rest % j->axis[d].out);
            rest /= j->axis[d].out;
            filled = filled || from < 0;
            in += from * j->step[d];
        }
        if (filled)
            fill(j, out, n * j->axis[j->last].out);
        else
            plane(j, out, in, i % high, n, j->out + end * width);
    }
}

/* The last dimension that picks, and what goes with its elements; 0 where none does. */
static void fold(struct job *j, const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    int64_t step;
    j->unit = j->size = (int64_t)td_dtype_size(in->dtype);
    for (j->last = in->rank - 1; j->last > 0; j->last--) {
        const struct td_pick_axis *a = &j->axis[j->last];
        if (a->in != a->out || a->before || (a->scale != 0 && a->scale != 1))
            break;
        j->unit *= a->out;
    }
    step = j->unit;
    for (int d = j->last; d >= 0; d--) {
        j->step[d] = step;
        step *= in->shape[d];
    }
}

TD_KERNEL(pick)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct job j = {.in = in->data, .out = out->data};
    j.in_end = j.in + td_nbytes(in);
    if (!td_numel(out))
        return;
    td_pick_axes(call, j.axis);
    if (!out->rank)
        j.axis[0] = (struct td_pick_axis){.in = 1, .out = 1};
    fold(&j, call);
    j.filling = filling_of(call, j.size);
    j.last = j.last < 0 ? 0 : j.last;
    const struct td_pick_axis *a = &j.axis[j.last];
    j.low = a->before < 0 ? 0 : a->before < a->out ? a->before : a->out;
    j.high = a->before + a->in < a->out ? a->before + a->in : a->out;
    j.high = j.high < j.low ? j.low : j.high;
    if (a->how == TD_PICK_nearest || a->how == TD_PICK_exact) {
        int64_t *places = call->scratch;
        for (int64_t o = 0; o < a->out; o++)
            places[o] = td_pick_from(a, o);
        j.places = places;
        uint32_t *within = (uint32_t *)(places + a->out);
        if (TD_VBYTES > 16 && j.unit == sizeof(float) && find_near(&j, within))
            j.within = within;
    }
    j.known = a->how != TD_PICK_constant && j.low <= ENDS && a->out - j.high <= ENDS;
    for (int64_t o = 0; j.known && o < j.low; o++)
        j.ends[0][o] = td_pick_from(a, o);
    for (int64_t o = j.high; j.known && o < a->out; o++)
        j.ends[1][o - j.high] = td_pick_from(a, o);
    int64_t width = a->out * j.unit;
    td_parallel(call->threads, td_numel(out) * (int64_t)td_dtype_size(out->dtype) / width,
                1 + GRAIN / width, rows, &j);
}
