/* The packed form of a weight for Winograd's algorithm: nine planes, one for each tap. Each call
 * transforms them into the 16 matrices, which takes a few percent of its time. The matrices would
 * take 16/9 of the memory, and the weight could not be restored from them bit by bit. */
#include "kernels/convolution/convolution.h"
#include "kernels/weight.h"

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
    struct td_weight *stored = td_weight_to_pack(weight);
    const float *taps = stored ? td_weight_pack(stored, &key, sizeof key, "winograd taps", w->taps,
                                                fill, (void *)w, undo)
                               : NULL;
    if (!taps) {
        memset(scratch, 0, w->taps); /* panels may be wider than there are results */
        fill(scratch, weight, (void *)w);
    }
    return taps ? taps : scratch;
}

const float *td_winograd_kept(const struct td_tensor *weight, const struct td_winograd *w)
{
    const struct key key = key_of(w);
    const struct td_weight *stored = td_weight_to_pack(weight);
    return stored ? td_weight_packed(stored, &key, sizeof key) : NULL;
}

/* ---- what rows answer when they are asked ---- */

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

const char *td_winograd_prepare_avx512(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 32);
}

const char *td_winograd_prepare_avx2(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 16);
}
