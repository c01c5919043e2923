/* Fourier transforms. There are no complex tensors here: one is a list of two, of its real and its
 * imaginary parts, or a tensor where these are all 0. A transform along a dimension is a product
 * with the cosines and sines, which is as good for the sizes that models have, of some hundred. */
#include "dispatch/pt2/pt2.h"

#include <math.h>
#include <string.h>

struct complex {
    struct td_item re, im; /* im of kind none: 0 */
};

static int read_complex(struct td_walk *walk, const struct td_item *item, struct complex *c)
{
    bool list = item->v.kind == TD_KIND_tensors && item->n == 2;
    *c = (struct complex){.re = list ? item->list[0] : *item};
    if (list)
        c->im = item->list[1];
    return c->re.v.kind == TD_KIND_tensor ? 0 : td_walk_refuse(walk, "takes a tensor");
}

/* Along one dimension; sign: -1 forward, 1 back, where it is divided by the size. */
static int transform(struct td_walk *walk, int64_t dim, int sign, struct complex *c)
{
    static const char waves[] = "_k = arange(n, dtype='FP64'); "
                                "_a = remainder(outer(_k, _k), n) * w; "
                                "c = type_as(cos(_a) * scale, x); s = type_as(sin(_a) * scale, x)";
    static const char turn[] = "transpose(matmul(transpose(x, dim, -1), m), dim, -1)";
    const struct td_tensor *t = &c->re.v.tensor;
    struct td_item wave[TD_MAX_OUTS], part[4];
    int made;
    if (dim < -t->rank || dim >= t->rank)
        return td_walk_refuse(walk, "has no such dimension");
    int64_t size = t->shape[dim < 0 ? dim + t->rank : dim];
    if (size < 1 || size > 16384)
        return td_walk_refuse(walk, "transforms of %lld elements are not done", (long long)size);
    const struct td_given of[] = {{"x", c->re},
                                  {"n", td_item_int(size)},
                                  {"w", td_item_float(sign * 2 * M_PI / (double)size)},
                                  {"scale", td_item_float(sign > 0 ? 1 / (double)size : 1)}};
    int err = td_walk_formula(walk, waves, of, 4, wave, &made);
    int n = c->im.v.kind ? 4 : 2; /* re with cosines, with sines; im with both */
    for (int i = 0; i < n && !err; i++) {
        const struct td_given args[] = {
            {"x", i < 2 ? c->re : c->im}, {"m", wave[i % 2]}, {"dim", td_item_int(dim)}};
        err = td_walk_formula(walk, turn, args, 3, &part[i], NULL);
    }
    c->re = part[0];
    c->im = part[1];
    if (err || n == 2)
        return err;
    err = TD_CALL(walk, "sub.Tensor", &c->re, TD_GIVE(part[0]), TD_GIVE(part[3]));
    return err ? err : TD_CALL(walk, "add.Tensor", &c->im, TD_GIVE(part[1]), TD_GIVE(part[2]));
}

/* Whether an argument is left out, or None. */
static bool is_none(const struct td_node *node, const struct td_item *in, const char *name)
{
    int i = td_node_find(node, name);
    return i < 0 || in[i].v.kind == TD_KIND_none;
}

/* Which dimensions: those that are named, or as many at the end as the operator's name says. */
static int read_dims(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     int rank, int64_t dims[TD_MAX_LIST])
{
    int at = td_node_find(node, "dim");
    char last = node->op[strlen(node->op) - 1];
    int n = last == 'n' ? rank : last == '2' ? 2 : 1;
    if (at >= 0 && in[at].v.kind)
        return td_pt2_list(walk, &in[at], dims);
    for (int i = 0; i < n; i++)
        dims[i] = i - n;
    return n;
}

/* Of a transform of reals, the first half and one say it all. */
static int halve(struct td_walk *walk, int64_t dim, struct td_item both[2])
{
    const struct td_tensor *t = &both[0].v.tensor;
    int64_t size = t->shape[dim < 0 ? dim + t->rank : dim];
    int err = 0;
    for (int i = 0; i < 2 && !err; i++)
        err = TD_CALL(walk, "slice.Tensor", &both[i], TD_GIVE(both[i]), TD_GIVE(td_item_int(dim)),
                      TD_GIVE(td_item_int(0)), TD_GIVE(td_item_int(size / 2 + 1)));
    return err;
}

int td_pt2_fourier(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct complex c;
    int64_t dims[TD_MAX_LIST];
    int sign = target->how == 'i' ? 1 : -1, forward = td_node_find(node, "forward");
    bool half = target->how == 'h' || td_node_int(node, "onesided", 0);
    int err = read_complex(walk, &in[0], &c);
    if (err)
        return err;
    if (forward >= 0 && !in[forward].v.i)
        sign = 1;
    if (td_node_int(node, "normalization", 0) != (forward >= 0 && sign > 0 ? 2 : 0))
        return td_walk_refuse(walk, "takes no norm but the usual one");
    if (!is_none(node, in, "norm") || !is_none(node, in, "s") || !is_none(node, in, "n"))
        return td_walk_refuse(walk, "takes neither a norm nor other sizes than its argument's");
    int n = read_dims(walk, node, in, c.re.v.tensor.rank, dims);
    for (int i = 0; i < n && !err; i++)
        err = transform(walk, dims[i], sign, &c);
    if (err || n < 1)
        return err ? err : n < 0 ? n : td_walk_refuse(walk, "has no dimension to transform");
    struct td_item both[2] = {c.re, c.im};
    err = half ? halve(walk, dims[n - 1], both) : 0;
    return err ? err : td_walk_list(walk, both, 2, out);
}

int td_pt2_part(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct complex c;
    int err = read_complex(walk, &in[0], &c);
    if (err)
        return err;
    if (target->how == 'c') {
        struct td_item both[2];
        for (int i = 0; i < 2 && !err; i++)
            err = TD_CALL(walk, "select.int", &both[i], TD_GIVE(in[0]), TD_GIVE(td_item_int(-1)),
                          TD_GIVE(td_item_int(i)));
        return err ? err : td_walk_list(walk, both, 2, out);
    }
    if (target->how == 'm') /* its length */
        return c.im.v.kind ? TD_CALL(walk, "hypot", out, TD_GIVE(c.re), TD_GIVE(c.im))
                           : TD_CALL(walk, "abs", out, TD_GIVE(c.re));
    if (!c.im.v.kind && target->how != 'r')
        err = TD_CALL(walk, "zeros_like", &c.im, TD_GIVE(c.re));
    *out = target->how == 'i' ? c.im : c.re;
    if (err || target->how != 'v')
        return err;
    struct td_item both[2] = {c.re, c.im}, list;
    err = td_walk_list(walk, both, 2, &list);
    return err ? err : TD_CALL(walk, "stack", out, TD_GIVE(list), TD_GIVE(td_item_int(-1)));
}

/* Frames of n_fft elements, hop_length apart, through the window, and each frame's transform. */
int td_pt2_stft(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    int window = td_node_find(node, "window"), onesided = td_node_find(node, "onesided");
    int64_t size = td_node_int(node, "n_fft", 0), hop = td_node_int(node, "hop_length", size / 4);
    int length = td_node_find(node, "win_length");
    bool half = onesided < 0 || in[onesided].v.kind == TD_KIND_none || in[onesided].v.i;
    if (td_node_int(node, "normalized", 0) || td_node_int(node, "align_to_window", 0) ||
        !td_node_int(node, "return_complex", 0) || size < 1 || hop < 1 ||
        (length >= 0 && in[length].v.kind != TD_KIND_none && in[length].v.i != size))
        return td_walk_refuse(walk, "normalized, return_complex, win_length: False, True and n_fft "
                                    "are right");
    struct td_given args[] = {{"x", in[0]},
                              {"n", td_item_int(size)},
                              {"hop", td_item_int(hop)},
                              {"w", window < 0 ? (struct td_item){.v = {0}} : in[window]}};
    bool plain = args[3].item.v.kind == TD_KIND_none;
    struct complex c = {{.v = {0}}, {.v = {0}}};
    struct td_item both[2];
    int err = td_walk_formula(walk, plain ? "unfold(x, -1, n, hop)" : "unfold(x, -1, n, hop) * w",
                              args, 4, &c.re, NULL);
    err = err ? err : transform(walk, -1, -1, &c);
    both[0] = c.re;
    both[1] = c.im;
    err = err || !half ? err : halve(walk, -1, both);
    for (int i = 0; i < 2 && !err; i++)
        err = TD_CALL(walk, "transpose.int", &both[i], TD_GIVE(both[i]), TD_GIVE(td_item_int(-2)),
                      TD_GIVE(td_item_int(-1)));
    return err ? err : td_walk_list(walk, both, 2, out);
}
