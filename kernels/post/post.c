/* Post-ops as arguments: the text that names formulas, and the tensors that these take. */
#include "kernels/post.h"
#include "kernels/none.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Formulas that may follow, of one or two operands, and how many numbers they have. A formula that
 * is a variant of others has none. */
static const struct form {
    const char *name;
    enum td_point point;
    int operands;
    bool same;  /* in result's type */
    bool meant; /* of floats */
} forms[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    {#id, TD_POINT_##id, operands, TD_POINT_IS_##result != TD_POINT_IS_truth, TD_MEANT(lanes)},
#include "kernels/pointwise/pointwise.def"
};

static const struct {
    enum td_point point;
    const char *params;
} overloads[] = {
#define TD_OVERLOAD(symbol, id, text, formula, shapes, promotion, types, bound, scale, in,         \
                    params_, ...)                                                                  \
    {TD_POINT_##id, params_},
#include "kernels/pointwise/pointwise.def"
};

/* PyTorch's names of some, and the numbers of those that may go without; with others they are the
 * formulas of that name. */
static const struct {
    const char *name, *formula;
    double param[2];
    int n;
} words[] = {
    {"hardtanh", "clamp", {-1, 1}, 2}, {"leaky_relu", "leaky_relu", {0.01}, 1},
    {"swish", "silu", {0}, 0},         {"add", "plus", {0}, 0},
    {"add_", "plus", {0}, 0},          {"iadd", "plus", {0}, 0},
    {"sub", "minus", {0}, 0},          {"sub_", "minus", {0}, 0},
};

static const struct form *find(const char *name, size_t n)
{
    for (int i = 0; i < TD_POINTS; i++)
        if (strlen(forms[i].name) == n && !memcmp(forms[i].name, name, n))
            return forms[i].same && forms[i].operands < 3 ? &forms[i] : NULL;
    return NULL;
}

int td_post_params(enum td_point point)
{
    for (size_t i = 0; i < sizeof overloads / sizeof *overloads; i++)
        if (overloads[i].point == point)
            return (int)strlen(overloads[i].params);
    return 0;
}

/* The numbers in brackets behind a name; gives back how many there are, -1: they are none. */
static int read_numbers(const char **at, double *param)
{
    int n = 0;
    if (**at != '(')
        return 0;
    do {
        char *end;
        double x = strtod(++*at, &end);
        if (end == *at || n == TD_POINT_PARAMS)
            return -1;
        param[n++] = x;
        *at = end + strspn(end, " ");
    } while (**at == ',');
    return *(*at)++ == ')' ? n : -1;
}

#define RIGHT                                                                                      \
    "none, relu, relu6, leaky_relu, hardtanh, hardsigmoid, hardswish, sigmoid, tanh, silu, gelu, " \
    "gelu_tanh or another pointwise formula of floating-point numbers is right"

/* One formula, from *at on: NULL, or what is wrong with it. */
static const char *read_one(const char **at, struct td_post_op *op, bool *takes)
{
    const char *name = *at;
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const struct form *form = find(name, n);
    *op = (struct td_post_op){0};
    *at += n;
    int given = read_numbers(at, op->param);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == n && !memcmp(words[i].name, name, n) &&
            (given <= words[i].n || !form)) {
            form = find(words[i].formula, strlen(words[i].formula));
            for (; given >= 0 && given < words[i].n; given++)
                op->param[given] = words[i].param[given];
        }
    if (!form)
        return "is not known; " RIGHT;
    if (!form->meant)
        return "has no meaning in floating-point numbers; " RIGHT;
    if (given != td_post_params(form->point))
        return "has other numbers than its formula, which stand behind it: clamp(0, 6)";
    op->point = form->point;
    *takes = form->operands == 2;
    return NULL;
}

/* NULL, or what is wrong with the text from *wrong on. */
static const char *parse(const char *text, const struct td_value *others, struct td_post *post,
                         const char **wrong)
{
    int used = 0, there = others && others->kind == TD_KIND_tensors ? others->tensors.n : 0;
    post->n = 0;
    const char *at = text && strcmp(text, "none") ? text : "";
    for (at += strspn(at, " "); *at; at += strspn(at, " ,")) {
        bool takes = false;
        *wrong = at;
        if (post->n == TD_POSTS)
            return "is one too many: four may follow";
        struct td_post_op *op = &post->op[post->n++];
        const char *no = read_one(&at, op, &takes);
        if (no)
            return no;
        if (takes && used == there)
            return "takes a tensor, and others has no more";
        op->other = takes ? &others->tensors.v[used++] : NULL;
    }
    *wrong = "others";
    return used < there ? "has more tensors than the formulas take" : NULL;
}

static const struct td_value *others_of(const struct td_call *call, int others)
{
    return others < 0 ? NULL : &call->arg[others];
}

static const char *text_of(const struct td_call *call, int text)
{
    return call->arg[text].kind == TD_KIND_str ? call->arg[text].str : NULL;
}

/* One element, one a column, or all. */
static bool fits(const struct td_tensor *t, const struct td_tensor *out)
{
    bool all = t->rank == out->rank, last = t->rank > 0 && out->rank > 0;
    for (int d = 0; d < t->rank; d++) {
        all = all && t->shape[d] == out->shape[d];
        last =
            last && t->shape[d] == (d == t->rank - 1 && out->rank ? out->shape[out->rank - 1] : 1);
    }
    return t->rank <= out->rank && (all || last || td_numel(t) == 1);
}

/* Letters of the formula that begins there, with its numbers. */
static int length_of(const char *formula)
{
    size_t n = strcspn(formula, " ,(");
    if (formula[n] == '(')
        n += strcspn(formula + n, ")");
    n += formula[n] == ')';
    return n < 60 ? (int)n : 60;
}

int td_post_rule(struct td_call *call, const char *name, int text, int others)
{
    const struct td_tensor *out = &call->out[0];
    const char *wrong = "", *no;
    struct td_post post;
    no = parse(text_of(call, text), others_of(call, others), &post, &wrong);
    if (no && !strcmp(wrong, "others"))
        return td_refuse(call, "others: %s", no);
    if (no)
        return td_refuse(call, "%s: \"%.*s\" %s", name, length_of(wrong), wrong, no);
    if (post.n && td_dtype_kind(out->dtype) != 'f')
        return td_refuse(call, "%s: needs floating-point tensors, the result is %s", name,
                         td_dtype_name(out->dtype));
    for (int i = 0; i < post.n; i++) {
        const struct td_tensor *t = post.op[i].other;
        if (t && (t->dtype != out->dtype || !fits(t, out)))
            return td_refuse(call,
                             "others: one is %s of %lld elements; %s of one element, of one for "
                             "each of the result's last dimension, or of the result's shape is "
                             "right",
                             td_dtype_name(t->dtype), (long long)td_numel(t),
                             td_dtype_name(out->dtype));
    }
    return 0;
}

void td_post_of(const struct td_call *call, int text, int others, struct td_post *post)
{
    const char *wrong;
    parse(text_of(call, text), others_of(call, others), post, &wrong);
}

bool td_post_is_short(enum td_point point)
{
    static const bool is[TD_POINTS] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    TD_POST_IS_SHORT(operands, result, cost, lanes),
#include "kernels/pointwise/pointwise.def"
    };
    return is[point];
}

bool td_post_is_all_short(const struct td_post *post)
{
    bool is = true;
    for (int i = 0; i < post->n; i++)
        is = is && td_post_is_short(post->op[i].point);
    return is;
}
