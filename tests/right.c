/* The reference's results for a sample: see right.h. */
#include "tests/right.h"

#include <string.h>

static const struct td_impl *reference(const struct td_op *op)
{
    const struct td_impl *i = op->impls;
    while (i[1].run)
        i++;
    return i;
}

static int make(struct sample *s, const struct right *right, enum sample_values values)
{
    const struct input *in = &right->input;
    return sample_init(s, right->handle->full, in->pattern, in->sizes, in->dtype, values,
                       right->seed);
}

void right_forget(struct right *right)
{
    if (right->handle)
        sample_fini(&right->want);
    if (right->scaled)
        sample_fini(&right->scale);
    *right = (struct right){0};
}

void right_remember(struct right *right, const struct td_handle *handle, struct input in,
                    uint64_t seed)
{
    const struct input *had = &right->input;
    in.values &= ~SAMPLE_LAYOUTS;
    if (right->handle == handle && had->pattern == in.pattern && had->dtype == in.dtype &&
        had->values == in.values && !memcmp(&had->sizes, &in.sizes, sizeof in.sizes))
        return;
    right_forget(right);
    right->handle = handle;
    right->input = in;
    right->seed = seed;
    right->made = !make(&right->want, right, in.values) && !right->want.run.n_casts;
}

void right_ask(struct right *right)
{
    const struct td_op *op = right->handle->op;
    if (right->run)
        return;
    right->run = true;
    right->made = !sample_run(reference(op), &right->want.run.call); /* else its data are refused */
    if (!op->sums || !right->made)
        return;
    right->scaled = true;
    if (!make(&right->scale, right, right->input.values | SAMPLE_ABSOLUTE))
        sample_run(reference(op), &right->scale.run.call);
}
