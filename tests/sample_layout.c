/* Samples whose tensors lie by strides: the elements are dense in their inputs, and once more, with
 * whatever lies between them, where the call has them. */
#include "tests/sample.h"

#include <stdlib.h>
#include <string.h>

/* The k-th dimension, from the one whose elements are closest on. */
static int dimension_of(const struct td_tensor *t, int layout, int k)
{
    if (layout == SAMPLE_HEADS && t->rank > 2 && (k == 1 || k == 2))
        k = 3 - k;
    return layout == SAMPLE_TRANSPOSED ? k : t->rank - 1 - k;
}

static void set_strides(const struct td_tensor *t, enum sample_values values, int64_t *stride)
{
    int layout = values & SAMPLE_LAYOUTS;
    int64_t step = layout == SAMPLE_STEP_2 ? 2 : 1;
    for (int k = 0; k < t->rank; k++) {
        int d = dimension_of(t, layout, k);
        stride[d] = layout == SAMPLE_BACKWARDS ? -step : step;
        if (layout == (SAMPLE_REPEATED & SAMPLE_LAYOUTS) && !d)
            stride[d] = 0;
        step = step * t->shape[d] + (layout == SAMPLE_SLICED && !k ? 3 : 0);
    }
}

void sample_place(struct sample *s, enum sample_values values, struct td_tensor *t)
{
    int i = s->n_inputs - 1;
    int64_t before = 0, behind = td_numel(t) ? 1 : 0, size = (int64_t)td_dtype_size(t->dtype);
    int64_t *stride = s->laid[i].stride;
    set_strides(t, values, stride);
    for (int d = 0; d < t->rank && td_numel(t); d++)
        *(stride[d] < 0 ? &before : &behind) += (t->shape[d] - 1) * stride[d];
    s->laid[i].bytes = (size_t)((behind - before) * size);
    s->laid[i].begin = sample_alloc(s->laid[i].bytes);
    t->data = s->laid[i].begin - before * size;
    t->stride = stride;
    s->laid[i].tensor = *t;
}

/* n elements, each of size bytes, the k-th from[k] to to[k * step]. */
static void spread_line(char *to, int64_t step, const char *from, int64_t n, int64_t size)
{
#define SPREAD(type)                                                                               \
    for (int64_t k = 0; k < n; k++)                                                                \
        memcpy(to + k * step * (int64_t)sizeof(type), from + k * (int64_t)sizeof(type),            \
               sizeof(type));
    if (step == 1)
        memcpy(to, from, (size_t)(n * size));
    else if (size == 1)
        SPREAD(uint8_t)
    else if (size == 2)
        SPREAD(uint16_t)
    else if (size == 4)
        SPREAD(uint32_t)
    else
        SPREAD(uint64_t)
#undef SPREAD
}

/* Dense elements to where they lie by strides, of which element 0 is at to. */
static void spread(char *to, const struct td_tensor *t, const char *from)
{
    int64_t size = (int64_t)td_dtype_size(t->dtype), index[TD_MAX_RANK] = {0}, at = 0;
    int last = t->rank - 1;
    int64_t n = t->rank ? t->shape[last] : 1, step = t->rank ? t->stride[last] : 1;
    for (int64_t lines = n ? td_numel(t) / n : 0; lines; lines--, from += n * size) {
        spread_line(to + at * size, step, from, n, size);
        for (int d = last - 1; d >= 0; d--) {
            at += t->stride[d];
            if (++index[d] < t->shape[d])
                break;
            at -= t->shape[d] * t->stride[d];
            index[d] = 0;
        }
    }
}

void sample_lay(struct sample *s)
{
    for (int i = 0; i < s->n_inputs; i++)
        if (s->laid[i].begin)
            spread(s->laid[i].tensor.data, &s->laid[i].tensor, s->input[i].data);
}

bool sample_is_laid(const struct sample *s)
{
    bool same = true;
    for (int i = 0; i < s->n_inputs; i++) {
        const struct td_tensor *t = &s->laid[i].tensor;
        size_t bytes = s->laid[i].bytes;
        char *right = s->laid[i].begin ? malloc(bytes + 1) : NULL;
        if (!right)
            continue;
        memset(right, 0xa5, bytes); /* what sample_alloc gives */
        spread(right + ((char *)t->data - s->laid[i].begin), t, s->input[i].data);
        same = same && !memcmp(right, s->laid[i].begin, bytes) &&
               sample_guarded(s->laid[i].begin, bytes);
        free(right);
    }
    return same;
}

void sample_make_alike(const struct td_tensor *t)
{
    size_t part = t->rank && t->shape[0] ? td_nbytes(t) / (size_t)t->shape[0] : 0;
    for (int64_t i = 1; i < (t->rank ? t->shape[0] : 0); i++)
        memcpy((char *)t->data + (size_t)i * part, t->data, part);
}
