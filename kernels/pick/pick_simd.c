/* Picking, vector form. A piece of work is a row of the result: its middle lies as it does in self
 * and is copied at once, its ends element by element; between elements that are not next to each
 * other (nearest) the last dimension's places are looked up. Dimensions behind the last one that
 * picks go with their elements as one. */
#include "kernels/pick/pick.h"
#include "kernels/vec.h"

#include <string.h>

#define GRAIN (1 << 16) /* bytes */

struct job {
    struct td_pick_axis axis[TD_MAX_RANK];
    int last;           /* the dimension that rows lie along; those outside of it are walked */
    int64_t size, unit; /* bytes of an element, and of those that go together */
    int64_t step[TD_MAX_RANK]; /* bytes from one element of self to the next, in each dimension */
    int64_t low, high;         /* of a row: where it lies as in self */
    const int64_t *places;     /* of a row's elements, instead; NULL: not looked up */
    const char *in;
    char *out;
    uint64_t filling;
};

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

/* Results [begin, end) of a row, one after the other. */
static void pick_some(const struct job *j, char *out, const char *in, int64_t begin, int64_t end)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    if (a->how == TD_PICK_constant) {
        fill(j, out + begin * j->unit, end - begin);
        return;
    }
    for (int64_t o = begin; o < end; o++)
        memcpy(out + o * j->unit, in + td_pick_from(a, o) * j->unit, (size_t)j->unit);
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

static void look_up(const struct job *j, char *out, const char *in, int64_t n)
{
    switch (j->unit) {
    case 1:
        look_up_uint8_t((uint8_t *)out, (const uint8_t *)in, j->places, n);
        break;
    case 2:
        look_up_uint16_t((uint16_t *)out, (const uint16_t *)in, j->places, n);
        break;
    case 4:
        look_up_uint32_t((uint32_t *)out, (const uint32_t *)in, j->places, n);
        break;
    case 8:
        look_up_uint64_t((uint64_t *)out, (const uint64_t *)in, j->places, n);
        break;
    default:
        for (int64_t o = 0; o < n; o++)
            memcpy(out + o * j->unit, in + j->places[o] * j->unit, (size_t)j->unit);
    }
}

static void pick_row(const struct job *j, char *out, const char *in)
{
    const struct td_pick_axis *a = &j->axis[j->last];
    if (j->places) {
        look_up(j, out, in, a->out);
        return;
    }
    pick_some(j, out, in, 0, j->low);
    if (j->low < j->high)
        memcpy(out + j->low * j->unit, in + (j->low - a->before) * j->unit,
               (size_t)((j->high - j->low) * j->unit));
    pick_some(j, out, in, j->high, a->out);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t index[TD_MAX_RANK], from[TD_MAX_RANK], rest = begin,
                                                   width = j->axis[j->last].out * j->unit;
    const char *before = NULL; /* what the row before came from */
    for (int d = j->last - 1; d >= 0; d--) {
        index[d] = rest % j->axis[d].out;
        rest /= j->axis[d].out;
        from[d] = td_pick_from(&j->axis[d], index[d]);
    }
    for (int64_t i = begin; i < end; i++) {
        const char *in = j->in;
        char *out = j->out + i * width;
        bool filled = false;
        for (int d = 0; d < j->last; d++) {
            filled = filled || from[d] < 0;
            in += from[d] * j->step[d];
        }
        if (filled)
            fill(j, out, j->axis[j->last].out);
        else if (in == before && i > begin)
            memcpy(out, out - width, (size_t)width);
        else
            pick_row(j, out, in);
        before = filled ? NULL : in;
        for (int d = j->last - 1; d >= 0; d--) {
            bool carry = ++index[d] == j->axis[d].out;
            index[d] = carry ? 0 : index[d];
            from[d] = td_pick_from(&j->axis[d], index[d]);
            if (!carry)
                break;
        }
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
    struct job j = {.in = in->data, .out = out->data, .filling = td_pick_filling(call)};
    if (!td_numel(out))
        return;
    td_pick_axes(call, j.axis);
    if (!out->rank)
        j.axis[0] = (struct td_pick_axis){.in = 1, .out = 1};
    fold(&j, call);
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
    }
    int64_t width = a->out * j.unit;
    td_parallel(call->threads, td_numel(out) * (int64_t)td_dtype_size(out->dtype) / width,
                1 + GRAIN / width, rows, &j);
}
