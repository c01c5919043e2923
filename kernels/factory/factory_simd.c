/* zeros, ones, full, arange and rand, vector form: plain loops of one type each, over the team. */
#include "kernels/factory/factory.h"

#include <string.h>

#define GRAIN 16384 /* elements worth a thread */

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
    td_factory_put(&one, 0, value);
    td_parallel(call->threads, td_numel(out), GRAIN, fill_range, &f);
}

TD_KERNEL(zeros)
{
    fill(call, &td_zero);
}

TD_KERNEL(ones)
{
    fill(call, &td_one);
}

TD_KERNEL(full)
{
    fill(call, &call->arg[1]);
}

/* ---- arange ---- */

static void arange_range(void *arg, int64_t begin, int64_t end)
{
    const struct td_call *call = arg;
    struct td_progression p = td_progression(call);
    double start = td_scalar(p.start), step = td_scalar(p.step);
    uint64_t first = (uint64_t)td_scalar_int(p.start), by = (uint64_t)td_scalar_int(p.step);
    void *out = call->out[0].data;
    switch (call->out[0].dtype) {
    case TD_f32:
        for (int64_t i = begin; i < end; i++)
            ((float *)out)[i] = (float)(start + (double)i * step);
        break;
    case TD_f64:
        for (int64_t i = begin; i < end; i++)
            ((double *)out)[i] = start + (double)i * step;
        break;
    case TD_i32:
        for (int64_t i = begin; i < end; i++)
            ((uint32_t *)out)[i] = (uint32_t)(first + (uint64_t)i * by);
        break;
    default:
        for (int64_t i = begin; i < end; i++)
            ((uint64_t *)out)[i] = first + (uint64_t)i * by;
    }
}

TD_KERNEL(arange)
{
    td_parallel(call->threads, td_numel(&call->out[0]), GRAIN, arange_range, (void *)call);
}

/* ---- rand ---- */

struct draw {
    void *out;
    bool wide; /* FP64 */
    uint64_t seed;
};

static void draw_range(void *arg, int64_t begin, int64_t end)
{
    const struct draw *d = arg;
    uint32_t word[4];
    for (int64_t i = begin; i < end; i++) {
        if (i == begin || i % 2 == 0)
            td_philox(d->seed, (uint64_t)i / 2, word);
        if (d->wide)
            ((double *)d->out)[i] = td_uniform(word, (int)(i % 2), 53);
        else
            ((float *)d->out)[i] = (float)td_uniform(word, (int)(i % 2), 24);
    }
}

TD_KERNEL(rand)
{
    const struct td_tensor *out = &call->out[0];
    struct draw d = {out->data, out->dtype == TD_f64, td_factory_seed(call)};
    td_parallel(call->threads, td_numel(out), GRAIN / 8, draw_range, &d);
}
