/* convolution_backward on oneDNN, which has a primitive for the input's gradient and one for the
 * weight's. The bias's is a sum that needs none. */
#include "kernels/backward.h"
#include "kernels/convolution_backward/convolution_backward.h"
#include "kernels/onednn/onednn.h"
#include "kernels/weight.h"

TD_ONEDNN_ROW(convolution_backward);

/* From 512 on or so the library's gradient of the input walks all of a stride for each element. */
#define MOST_STRIDE 256
#define FEW_FLOPS 1000 /* which the reference does in less time than the library's calls take */

/* The primitive for result i, 0 or 1. */
static void describe(const struct td_call *call, int i, struct td_onednn_desc *d)
{
    struct td_conv c;
    td_convolution_backward_of(call, &c);
    td_conv_describe(&c, call->threads, d);
    d->kind = i ? TD_ONEDNN_conv_weight : TD_ONEDNN_conv_src;
    d->stored = !i && td_weight_to_pack(c.weight) != NULL;
}

const char *td_convolution_backward_onednn_prepare(const struct td_call *call,
                                                   struct td_prepared *prepared)
{
    struct td_onednn_desc d;
    struct td_conv c;
    td_convolution_backward_of(call, &c);
    const char *no = td_conv_unfit_for_onednn(&c);
    if (no)
        return no;
    if (!td_wants(call, 0) && !td_wants(call, 1))
        return "only the bias's gradient is asked for, which is a sum";
    if (call->op->flops(call) < FEW_FLOPS)
        return "it is too small for a library";
    for (int i = 0; i < 2 && !no; i++) {
        describe(call, i, &d);
        if (d.stride[0] > MOST_STRIDE || d.stride[1] > MOST_STRIDE)
            return "its stride is too wide";
        no = td_wants(call, i) ? td_onednn_prepare(&d, prepared) : NULL;
    }
    return no;
}

struct sums {
    struct td_conv c;
    float *out;
};

/* The bias's gradient for some output channels. */
static void channels(void *arg, int64_t begin, int64_t end)
{
    enum { LANES = 8 }; /* sums side by side, for the compiler to make vectors of */
    const struct sums *s = arg;
    int64_t outs = s->c.groups * s->c.out_channels, pixels = s->c.size[0] * s->c.size[1];
    for (int64_t o = begin; o < end; o++) {
        double sum[LANES] = {0};
        for (int64_t n = 0; n < s->c.images; n++) {
            const float *x = (const float *)s->c.out->data + (n * outs + o) * pixels;
            int64_t i = 0;
            for (; i + LANES <= pixels; i += LANES)
                for (int lane = 0; lane < LANES; lane++)
                    sum[lane] += (double)x[i + lane];
            for (; i < pixels; i++)
                sum[0] += (double)x[i];
        }
        for (int lane = 1; lane < LANES; lane++)
            sum[0] += sum[lane];
        s->out[o] = (float)sum[0];
    }
}

void td_convolution_backward_onednn(const struct td_call *call)
{
    struct sums s = {.out = call->out[2].data};
    struct td_memo_item *const *primitive = call->prepared->state;
    td_convolution_backward_of(call, &s.c);
    for (int i = 0; i < 2; i++) {
        const struct td_onednn_args args = {
            .src = i ? s.c.input->data : call->out[0].data,
            .weight = i ? &call->out[1] : s.c.weight,
            .dst = s.c.out->data,
            .scratch = call->scratch,
        };
        if (td_wants(call, i) && td_onednn_run(*primitive++, &args)) {
            td_kernel td_convolution_backward_ref;
            td_convolution_backward_ref(call); /* no memory left: slow, but an answer */
            return;
        }
    }
    if (td_wants(call, 2))
        td_parallel(call->threads, s.c.groups * s.c.out_channels,
                    1 + 16384 / (s.c.images * s.c.size[0] * s.c.size[1]), channels, &s);
}
