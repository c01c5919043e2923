/* Fourier transforms, of complex values as complex.c has them. A transform along a dimension is a
 * product with the cosines and sines, which is as good for the sizes that models have, of some
 * hundred. */
#include "dispatch/pt2/pt2.h"

#include <math.h>
#include <string.h>

#define LONGEST 16384

struct fourier {                                 /* what a node asks for */
    int64_t dim[TD_MAX_LIST], size[TD_MAX_LIST]; /* size: 0, as its argument has it */
    int n;
    int sign;     /* -1 forward, 1 back */
    double scale; /* of the whole */
    bool halves;  /* gives, of reals, the first half and one of the last dimension */
    bool reals;   /* takes such, and gives reals */
};

static int64_t size_along(const struct td_item *item, int64_t dim)
{
    const struct td_tensor *t = &item->v.tensor;
    return t->shape[dim < 0 ? dim + t->rank : dim];
}

static int judge_size(struct td_walk *walk, int64_t size)
{
    return size >= 1 && size <= LONGEST
               ? 0
               : td_walk_refuse(walk, "transforms of %lld elements are not done", (long long)size);
}

/* A product along a dimension with a matrix [elements there, results]. */
static int multiply(struct td_walk *walk, const struct td_item *x, const struct td_item *matrix,
                    int64_t dim, struct td_item *out)
{
    const struct td_given args[] = {{"x", *x}, {"m", *matrix}, {"dim", td_item_int(dim)}};
    return td_walk_formula(walk, "transpose(matmul(transpose(x, dim, -1), m), dim, -1)", args, 3,
                           out, NULL);
}

/* Along one dimension. */
static int transform(struct td_walk *walk, int64_t dim, int sign, struct td_pt2_complex *c)
{
    static const char waves[] = "_k = arange(n, dtype='FP64'); "
                                "_a = remainder(outer(_k, _k), n) * w; "
                                "c = type_as(cos(_a), x); s = type_as(sin(_a), x)";
    struct td_item wave[TD_MAX_OUTS], part[4];
    int made;
    int64_t size = size_along(&c->re, dim);
    const struct td_given of[] = {{"x", c->re},
                                  {"n", td_item_int(size)},
                                  {"w", td_item_float(sign * 2 * M_PI / (double)size)}};
    int err = judge_size(walk, size);
    err = err ? err : td_walk_formula(walk, waves, of, 3, wave, &made);
    int n = c->im.v.kind ? 4 : 2; /* re with cosines, with sines; im with both */
    for (int i = 0; i < n && !err; i++)
        err = multiply(walk, i < 2 ? &c->re : &c->im, &wave[i % 2], dim, &part[i]);
    c->re = part[0];
    c->im = part[1];
    if (err || n == 2)
        return err;
    err = TD_CALL(walk, "sub.Tensor", &c->re, TD_GIVE(part[0]), TD_GIVE(part[3]));
    return err ? err : TD_CALL(walk, "add.Tensor", &c->im, TD_GIVE(part[1]), TD_GIVE(part[2]));
}

/* Back from the first half and one along a dimension, whose rest mirrors them, to so many reals:
 * the first element counts once, and of an even size the last, too. */
static int to_reals(struct td_walk *walk, int64_t dim, int64_t size, int sign,
                    struct td_pt2_complex *c)
{
    static const char waves[] =
        "_k = arange(m, dtype='FP64'); _a = remainder(outer(_k, arange(n, dtype='FP64')), n) * w; "
        "_f = unsqueeze(where(logical_or(eq(_k, 0), eq(_k * 2, n)), ones_like(_k), full_like(_k, "
        "2)), 1); c = type_as(cos(_a) * _f, x); s = type_as(sin(_a) * _f, x)";
    struct td_item wave[TD_MAX_OUTS], re, im;
    int made;
    const struct td_given of[] = {{"x", c->re},
                                  {"m", td_item_int(size / 2 + 1)},
                                  {"n", td_item_int(size)},
                                  {"w", td_item_float(sign * 2 * M_PI / (double)size)}};
    int err = judge_size(walk, size);
    err = err ? err : td_walk_formula(walk, waves, of, 4, wave, &made);
    err = err ? err : multiply(walk, &c->re, &wave[0], dim, &re);
    if (!err && c->im.v.kind) {
        err = multiply(walk, &c->im, &wave[1], dim, &im);
        err = err ? err : TD_CALL(walk, "sub.Tensor", &re, TD_GIVE(re), TD_GIVE(im));
    }
    c->re = re;
    c->im = (struct td_item){.v = {0}};
    return err;
}

/* To so many elements along a dimension: cut off, or with zeros behind. */
static int resize(struct td_walk *walk, int64_t dim, int64_t size, struct td_pt2_complex *c)
{
    struct td_item *part[] = {&c->re, &c->im};
    int64_t is = size_along(&c->re, dim), pad[2 * TD_MAX_RANK] = {0};
    int rank = c->re.v.tensor.rank, d = (int)(dim < 0 ? -dim - 1 : rank - dim - 1), err = 0;
    pad[2 * d + 1] = size - is;
    for (int i = 0; i < 2 && !err && is != size; i++)
        if (part[i]->v.kind)
            err = TD_CALL(walk, "constant_pad_nd", part[i], TD_GIVE(*part[i]),
                          TD_GIVE(td_item_ints(pad, 2 * (d + 1))));
    return err;
}

/* ---- what a node says ---- */

/* Which dimensions: those that are named, or as many at the end as the operator's name, or s,
 * says; and the sizes. */
static int read_dims(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     int rank, struct fourier *f)
{
    const struct td_item *dim = td_pt2_given(node, in, "dim"), *s = td_pt2_given(node, in, "s"),
                         *n = td_pt2_given(node, in, "n");
    char last = node->op[strlen(node->op) - 1];
    int sizes = s ? td_pt2_list(walk, s, f->size) : 0;
    f->n = dim ? td_pt2_list(walk, dim, f->dim)
           : s ? sizes
               : (last == 'n'   ? rank
                  : last == '2' ? 2
                                : 1);
    if (sizes < 0 || f->n < 0)
        return sizes < 0 ? sizes : f->n;
    if (n)
        f->size[0] = n->v.i;
    for (int i = 0; i < f->n && !dim; i++)
        f->dim[i] = i - f->n;
    if ((s && sizes != f->n) || f->n < 1 || f->n > rank)
        return td_walk_refuse(walk, "s, dim: one size a dimension is right");
    int err = 0;
    for (int i = 0; i < f->n && !err; i++)
        err = f->dim[i] < -rank || f->dim[i] >= rank ? td_walk_refuse(walk, "has no such dimension")
              : f->size[i] > 0                       ? judge_size(walk, f->size[i])
                                                     : 0;
    return err;
}

/* So many elements all in all, by which a norm divides. */
static double count(const struct fourier *f, const struct td_pt2_complex *c)
{
    double n = 1;
    for (int i = 0; i < f->n; i++)
        n *= (double)(f->size[i] > 0 ? f->size[i] : size_along(&c->re, f->dim[i]));
    return n;
}

/* norm is a word of torch.fft's, normalization a number of the operators that it is made of. */
static int read_norm(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     double n, struct fourier *f)
{
    const struct td_item *norm = td_pt2_given(node, in, "norm");
    int at = td_node_find(node, "normalization");
    int64_t how = at < 0 ? 2 * (f->sign > 0) : in[at].v.i;
    if (norm && norm->v.kind == TD_KIND_str)
        how = !strcmp(norm->v.str, "ortho")      ? 1
              : !strcmp(norm->v.str, "forward")  ? 2 * (f->sign < 0)
              : !strcmp(norm->v.str, "backward") ? 2 * (f->sign > 0)
                                                 : 3;
    if (how < 0 || how > 2)
        return td_walk_refuse(walk, "norm: backward, ortho or forward is right");
    f->scale = how == 0 ? 1 : how == 1 ? 1 / sqrt(n) : 1 / n;
    return 0;
}

/* ---- the whole ---- */

/* Of a transform of reals, the first half and one say it all. */
static int halve(struct td_walk *walk, int64_t dim, struct td_pt2_complex *c)
{
    int64_t most = size_along(&c->re, dim) / 2 + 1;
    struct td_item *part[] = {&c->re, &c->im};
    int err = 0;
    for (int i = 0; i < 2 && !err; i++)
        err = TD_CALL(walk, "slice.Tensor", part[i], TD_GIVE(*part[i]), TD_GIVE(td_item_int(dim)),
                      TD_GIVE(td_item_int(0)), TD_GIVE(td_item_int(most)));
    return err;
}

static int scale(struct td_walk *walk, double by, struct td_pt2_complex *c)
{
    struct td_item *part[] = {&c->re, &c->im};
    int err = 0;
    for (int i = 0; i < 2 && by != 1 && !err; i++)
        if (part[i]->v.kind)
            err =
                TD_CALL(walk, "mul.Scalar", part[i], TD_GIVE(*part[i]), TD_GIVE(td_item_float(by)));
    return err;
}

static int run(struct td_walk *walk, const struct fourier *f, struct td_pt2_complex *c)
{
    int err = 0, last = f->n - 1;
    for (int i = 0; i < f->n && !err; i++) {
        bool half = f->reals && i == last;
        if (f->size[i] > 0 || half)
            err = resize(walk, f->dim[i], half ? f->size[i] / 2 + 1 : f->size[i], c);
    }
    for (int i = 0; i < f->n - f->reals && !err; i++)
        err = transform(walk, f->dim[i], f->sign, c);
    if (!err && f->reals)
        err = to_reals(walk, f->dim[last], f->size[last], f->sign, c);
    if (!err && f->halves)
        err = halve(walk, f->dim[last], c);
    return err ? err : scale(walk, f->scale, c);
}

/* target's how: 'f' forward, 'i' back, 'h' of reals, 'r' back to reals, 'H' to reals forward, and
 * 'I' of reals back. */
int td_pt2_fourier(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct td_pt2_complex c;
    struct fourier f = {.sign = strchr("irI", target->how) ? 1 : -1,
                        .halves = strchr("hI", target->how) || td_node_int(node, "onesided", 0),
                        .reals = strchr("rH", target->how)};
    int forward = td_node_find(node, "forward");
    int err = td_pt2_read_complex(walk, &in[0], &c);
    if (!err && (err = read_dims(walk, node, in, c.re.v.tensor.rank, &f)) == 0 && f.reals) {
        int64_t *size = &f.size[f.n - 1];
        *size = td_node_int(node, "last_dim_size",
                            *size > 0 ? *size : 2 * (size_along(&c.re, f.dim[f.n - 1]) - 1));
        err = judge_size(walk, *size);
    }
    if (err)
        return err;
    if (forward >= 0)
        f.sign = in[forward].v.i ? -1 : 1;
    err = read_norm(walk, node, in, count(&f, &c), &f);
    err = err ? err : run(walk, &f, &c);
    if (err || f.reals) {
        *out = c.re;
        return err;
    }
    const struct td_item both[2] = {c.re, c.im};
    return td_walk_list(walk, both, 2, out);
}

/* fftshift, and with how 'i' back: the halves of each dimension change places. */
int td_pt2_shift(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    const struct td_item *dim = td_pt2_given(node, in, "dim");
    struct td_pt2_complex c;
    int64_t dims[TD_MAX_LIST], by[TD_MAX_LIST];
    int err = td_pt2_read_complex(walk, &in[0], &c);
    if (err)
        return err;
    int rank = c.re.v.tensor.rank, n = dim ? td_pt2_list(walk, dim, dims) : rank;
    for (int i = 0; i < n; i++) {
        dims[i] = dim ? dims[i] : i;
        if (dims[i] < -rank || dims[i] >= rank)
            return td_walk_refuse(walk, "has no such dimension");
        by[i] = (size_along(&c.re, dims[i]) + (target->how == 'i')) / 2;
    }
    struct td_item *part[] = {&c.re, &c.im};
    for (int i = 0; i < 2 && n >= 0 && !err; i++)
        if (part[i]->v.kind)
            err = TD_CALL(walk, "roll", part[i], TD_GIVE(*part[i]), TD_GIVE(td_item_ints(by, n)),
                          TD_GIVE(td_item_ints(dims, n)));
    const struct td_item both[2] = {c.re, c.im};
    if (err || n < 0 || !c.im.v.kind) {
        *out = c.re;
        return err ? err : n < 0 ? n : 0;
    }
    return td_walk_list(walk, both, 2, out);
}

/* ---- frames ---- */

struct frames {
    int64_t size, hop;
    struct td_item window; /* of size elements, or of kind none */
    bool half, normalized;
};

/* The window in the middle of as many elements as a frame has. */
static int read_frames(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct frames *f)
{
    const struct td_item *window = td_pt2_given(node, in, "window"),
                         *sided = td_pt2_given(node, in, "onesided");
    *f = (struct frames){.size = td_node_int(node, "n_fft", 0)};
    f->hop = td_node_int(node, "hop_length", f->size / 4);
    f->half = !sided || sided->v.i;
    f->normalized = td_node_int(node, "normalized", 0);
    int64_t length = td_node_int(node, "win_length", f->size);
    if (f->size < 1 || f->size > LONGEST || f->hop < 1 || length < 1 || length > f->size ||
        (window && (window->v.kind != TD_KIND_tensor || td_numel(&window->v.tensor) != length)))
        return td_walk_refuse(walk, "n_fft, hop_length, win_length, window: 1 and up, a window of "
                                    "win_length elements, and no more than n_fft, are right");
    int64_t left = (f->size - length) / 2, pad[2] = {left, f->size - length - left};
    if (window) {
        f->window = *window;
        return length == f->size ? 0
                                 : TD_CALL(walk, "constant_pad_nd", &f->window, TD_GIVE(*window),
                                           TD_GIVE(td_item_ints(pad, 2)));
    }
    const struct td_given args[] = {{"n", td_item_int(length)}, {"p", td_item_ints(pad, 2)}};
    return td_walk_formula(walk, "constant_pad_nd(ones([n]), p)", args, 2, &f->window, NULL);
}

/* Frames of n_fft elements, hop_length apart, through the window, and each frame's transform. */
int td_pt2_stft(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    struct frames f;
    struct td_pt2_complex c = {{.v = {0}}, {.v = {0}}};
    int err = read_frames(walk, node, in, &f);
    if (!err &&
        (td_node_int(node, "align_to_window", 0) || !td_node_int(node, "return_complex", 0)))
        err = td_walk_refuse(walk, "align_to_window, return_complex: False and True are right");
    const struct td_given args[] = {
        {"x", in[0]}, {"n", td_item_int(f.size)}, {"hop", td_item_int(f.hop)}, {"w", f.window}};
    err = err ? err : td_walk_formula(walk, "unfold(x, -1, n, hop) * w", args, 4, &c.re, NULL);
    err = err ? err : transform(walk, -1, -1, &c);
    err = err || !f.half ? err : halve(walk, -1, &c);
    err = err || !f.normalized ? err : scale(walk, 1 / sqrt((double)f.size), &c);
    struct td_item both[2] = {c.re, c.im};
    for (int i = 0; i < 2 && !err; i++)
        err = TD_CALL(walk, "transpose.int", &both[i], TD_GIVE(both[i]), TD_GIVE(td_item_int(-2)),
                      TD_GIVE(td_item_int(-1)));
    return err ? err : td_walk_list(walk, both, 2, out);
}

/* The way back: each frame's reals through the window, added up where they lie, and divided by what
 * the windows' squares add up to there. */
int td_pt2_istft(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    static const char lay[] =
        "_i = reshape(unsqueeze(arange(t) * hop, 1) + arange(n), [-1]); _f = x * w; _v = "
        "reshape(expand_as(w * w, select(flatten(unsqueeze(x, 0), 0, -3), 0, 0)), [-1]); y = "
        "index_add(zeros_like(expand(select(select(x, -1, 0), -1, 0)[..., None], to)), -1, _i, "
        "flatten(_f, -2)); v = index_add(zeros([all], dtype=type), 0, _i, _v)";
    struct frames f;
    struct td_pt2_complex c;
    struct td_item made[TD_MAX_OUTS];
    int n;
    const struct td_item *center = td_pt2_given(node, in, "center"),
                         *length = td_pt2_given(node, in, "length");
    int err = td_pt2_read_complex(walk, &in[0], &c);
    err = err ? err : read_frames(walk, node, in, &f);
    if (!err && (td_node_int(node, "return_complex", 0) || !f.half || c.re.v.tensor.rank < 2 ||
                 f.hop > f.size))
        err = td_walk_refuse(walk, "return_complex, onesided, hop_length: False, True and up to "
                                   "n_fft are right");
    struct td_item *part[] = {&c.re, &c.im};
    for (int i = 0; i < 2 && !err; i++)
        if (part[i]->v.kind)
            err = TD_CALL(walk, "transpose.int", part[i], TD_GIVE(*part[i]),
                          TD_GIVE(td_item_int(-2)), TD_GIVE(td_item_int(-1)));
    err = err ? err : to_reals(walk, -1, f.size, 1, &c);
    err = err ? err : scale(walk, 1 / (f.normalized ? sqrt((double)f.size) : (double)f.size), &c);
    if (err)
        return err;
    const struct td_tensor *t = &c.re.v.tensor;
    int64_t frames = t->shape[t->rank - 2], all = (frames - 1) * f.hop + f.size;
    int64_t to[TD_MAX_RANK], left = !center || center->v.i ? f.size / 2 : 0;
    for (int d = 0; d < t->rank - 2; d++)
        to[d] = t->shape[d];
    to[t->rank - 2] = all;
    const struct td_given args[] = {{"x", c.re},
                                    {"w", f.window},
                                    {"t", td_item_int(frames)},
                                    {"hop", td_item_int(f.hop)},
                                    {"n", td_item_int(f.size)},
                                    {"all", td_item_int(all)},
                                    {"to", td_item_ints(to, t->rank - 1)},
                                    {"type", td_item_str(td_dtype_name(t->dtype))}};
    err = td_walk_formula(walk, lay, args, 8, made, &n);
    bool fits = !length || (length->v.i > 0 && length->v.i <= all - left);
    int64_t end = length && fits ? left + length->v.i : all - left;
    if (!err && (end <= left || !fits))
        err = td_walk_refuse(walk, "length: is longer than the frames");
    const struct td_given cut[] = {
        {"y", made[0]}, {"v", made[1]}, {"a", td_item_int(left)}, {"b", td_item_int(end)}};
    return err ? err : td_walk_formula(walk, "slice(y / v, -1, a, b)", cut, 4, out, NULL);
}
