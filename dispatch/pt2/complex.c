/* Complex values. There are no complex tensors here: one is a list of two, of its real and its
 * imaginary parts, or a tensor where these are all 0. Operators of the table that move elements, or
 * add them up, are called for both parts; products and quotients are spelled out. */
#include "dispatch/pt2/pt2.h"

#include <string.h>

int td_pt2_read_complex(struct td_walk *walk, const struct td_item *item, struct td_pt2_complex *c)
{
    bool list = td_pt2_is_complex(item);
    *c = (struct td_pt2_complex){.re = list ? item->list[0] : *item};
    if (list)
        c->im = item->list[1];
    return c->re.v.kind == TD_KIND_tensor ? 0 : td_walk_refuse(walk, "takes a tensor");
}

bool td_pt2_is_complex(const struct td_item *item)
{
    return item->v.kind == TD_KIND_tensors && item->n == 2 &&
           item->list[0].v.kind == TD_KIND_tensor && item->list[1].v.kind == TD_KIND_tensor;
}

static int give(struct td_walk *walk, const struct td_item *re, const struct td_item *im,
                struct td_item *out)
{
    const struct td_item both[2] = {*re, *im};
    return td_walk_list(walk, both, 2, out);
}

/* Results of a formula of two: the parts. */
static int spell(struct td_walk *walk, const char *formula, const struct td_given *args, int n,
                 struct td_item *out)
{
    struct td_item part[TD_MAX_OUTS];
    int made, err = td_walk_formula(walk, formula, args, n, part, &made);
    return err ? err : give(walk, &part[0], &part[1], out);
}

int td_pt2_part(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct td_pt2_complex c;
    int err = td_pt2_read_complex(walk, &in[0], &c);
    if (err)
        return err;
    if (target->how == '*' && !c.im.v.kind) {
        *out = c.re;
        return 0;
    }
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
    if (!err && target->how == 'a') /* its angle */
        return TD_CALL(walk, "atan2", out, TD_GIVE(c.im), TD_GIVE(c.re));
    if (!err && target->how == '*') { /* its conjugate */
        err = TD_CALL(walk, "neg", &c.im, TD_GIVE(c.im));
        return err ? err : give(walk, &c.re, &c.im, out);
    }
    *out = target->how == 'i' ? c.im : c.re;
    if (err || target->how != 'v')
        return err;
    struct td_item both[2] = {c.re, c.im}, list;
    err = td_walk_list(walk, both, 2, &list);
    return err ? err : TD_CALL(walk, "stack", out, TD_GIVE(list), TD_GIVE(td_item_int(-1)));
}

/* complex(real, imag), polar(abs, angle) */
int td_pt2_make_complex(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    if (node->n_operands < 2)
        return td_walk_refuse(walk, "takes two tensors");
    struct td_given args[2];
    for (int i = 0; i < 2; i++)
        args[i] = (struct td_given){node->operand[i].name, in[i]};
    return spell(walk, target->formula, args, 2, out);
}

/* ---- operators of the table ---- */

/* By its name, how an operator goes over complex tensors: 'p' part by part, or as a formula of a
 * and b, with c and d the imaginary parts. */
static const struct {
    const char *name, *formula;
} over[] = {
    {"add", "re = add(a, b, alpha=alpha); im = add(c, d, alpha=alpha)"},
    {"sub", "re = sub(a, b, alpha=alpha); im = sub(c, d, alpha=alpha)"},
    {"mul", "re = a * b - c * d; im = a * d + c * b"},
    {"div", "_n = b * b + d * d; re = (a * b + c * d) / _n; im = (c * b - a * d) / _n"},
    {"exp", "re = exp(a) * cos(c); im = exp(a) * sin(c)"},
    {"square", "re = a * a - c * c; im = a * c * 2"},
    {"reciprocal", "_n = a * a + c * c; re = a / _n; im = neg(c) / _n"},
};
static const char *const by_part[] = {
    "permute",  "transpose", "t",         "view",    "reshape",  "_unsafe_view",    "slice",
    "select",   "squeeze",   "unsqueeze", "expand",  "flatten",  "unflatten",       "sum",
    "mean",     "neg",       "flip",      "roll",    "narrow",   "constant_pad_nd", "index_select",
    "diagonal", "cumsum",    "expand_as", "movedim", "swapaxes", "view_as",         "reshape_as",
    "clone",    "repeat",    "unfold",    "gather",  "pad",      "swapdims",        "moveaxis",
    "tile",     "contiguous"};

static const char *formula_of(const char *name)
{
    for (size_t i = 0; i < sizeof over / sizeof *over; i++)
        if (!strcmp(over[i].name, name))
            return over[i].formula;
    return NULL;
}

static bool goes_by_part(const char *name)
{
    for (size_t i = 0; i < sizeof by_part / sizeof *by_part; i++)
        if (!strcmp(by_part[i], name))
            return true;
    return false;
}

/* A tensor of zeros like another, where a part is missing. */
static int fill_part(struct td_walk *walk, struct td_pt2_complex *c)
{
    return c->im.v.kind ? 0 : TD_CALL(walk, "zeros_like", &c->im, TD_GIVE(c->re));
}

static int compute(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   const char *formula, struct td_item *out)
{
    struct td_pt2_complex x, y = {{.v = {0}}, {.v = {0}}};
    int alpha = td_node_find(node, "alpha");
    int err = td_pt2_read_complex(walk, &in[0], &x);
    if (!err && node->n_operands > 1 && td_is_number(&in[1].v))
        err = td_walk_formula(walk, "zeros_like(a) + b",
                              (const struct td_given[]){{"a", x.re}, {"b", in[1]}}, 2, &y.re, NULL);
    else if (!err && node->n_operands > 1)
        err = td_pt2_read_complex(walk, &in[1], &y);
    err = err ? err : fill_part(walk, &x);
    if (!err && y.re.v.kind)
        err = fill_part(walk, &y);
    const struct td_given args[] = {{"a", x.re},
                                    {"c", x.im},
                                    {"b", y.re},
                                    {"d", y.im},
                                    {"alpha", alpha < 0 ? td_item_int(1) : in[alpha]}};
    return err ? err : spell(walk, formula, args, 5, out);
}

/* Whether an operator of the table is given a complex tensor where it takes one. */
static bool has_complex(const struct td_node *node, const struct td_item *in)
{
    const struct td_handle *handle = node->form;
    for (int i = 0; i < node->n_operands; i++) {
        const char *name = node->operand[i].name;
        int named = name ? td_schema_find(&handle->schema, name) : -1, k = named < 0 ? i : named;
        const struct td_param *param =
            k < handle->schema.n_params ? &handle->schema.param[k] : NULL;
        bool single = param && param->type.base == TD_BASE_Tensor && !param->type.list;
        if (single && td_pt2_is_complex(&in[i]))
            return true;
    }
    return false;
}

int td_pt2_call_any(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    if (!has_complex(node, in))
        return td_pt2_call(walk, node, in, out);
    const struct td_handle *handle = node->form;
    const char *name = handle->schema.name, *formula = formula_of(name);
    struct td_item args[TD_MAX_ARGS], part[2];
    if (formula)
        return compute(walk, node, in, formula, out);
    if (!goes_by_part(name) || node->n_outs > 1 || node->n_operands > TD_MAX_ARGS)
        return td_walk_refuse(walk, "is not done for complex tensors");
    int err = 0;
    for (int p = 0; p < 2 && !err; p++) {
        for (int i = 0; i < node->n_operands; i++)
            args[i] = td_pt2_is_complex(&in[i]) ? in[i].list[p] : in[i];
        err = td_pt2_call(walk, node, args, &part[p]);
    }
    return err ? err : give(walk, &part[0], &part[1], out);
}
