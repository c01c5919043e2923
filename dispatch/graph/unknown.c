/* The unknown sizes of a call's tensors: where they stand, and what they may be. That is most often
 * a size of another tensor, or what comes of the call's own numbers: windows, views and pieces that
 * are joined add, subtract, multiply and divide. */
#include "dispatch/graph/unknown.h"
#include "kernels/sizes.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what they may be ---- */

static void suggest(struct td_unknown *u, int64_t size)
{
    int i = 0;
    while (i < u->n_likely && u->likely[i] != size)
        i++;
    if (i == u->n_likely && i < TD_LIKELY && size >= 0 && size <= TD_SIZE_MOST)
        u->likely[u->n_likely++] = size;
}

bool td_unknown_knows(const struct td_unknown *u, int64_t size)
{
    int i = 0;
    while (i < u->n_known && u->known[i] != size)
        i++;
    return i < u->n_known;
}

/* Each of the numbers, and the product of those that are sizes. */
static void suggest_all(struct td_unknown *u, const int64_t *v, int n)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++) {
        suggest(u, v[i]);
        if (v[i] > 0 && product > 0 && !td_size_times(product, v[i], &product))
            product = -1;
    }
    if (n > 1)
        suggest(u, product);
}

static void suggest_tensor(struct td_unknown *u, const struct td_tensor *t)
{
    suggest_all(u, t->shape, t->rank);
    for (int i = 0; i < t->rank && u->n_known < TD_LIKELY; i++)
        if (t->shape[i] >= 0 && !td_unknown_knows(u, t->shape[i]))
            u->known[u->n_known++] = t->shape[i];
}

static void suggest_value(struct td_unknown *u, const struct td_value *v)
{
    if (v->kind == TD_KIND_int)
        suggest(u, v->i);
    else if (v->kind == TD_KIND_ints)
        suggest_all(u, v->ints.v, v->ints.n);
    else if (v->kind == TD_KIND_tensor)
        suggest_tensor(u, &v->tensor);
    for (int i = 0; v->kind == TD_KIND_tensors && i < v->tensors.n && i < TD_MAX_ARGS; i++)
        suggest_tensor(u, &v->tensors.v[i]);
}

static void suggest_numbers(struct td_unknown *u, const char *text)
{
    for (char *end; *text; text = end) {
        end = (char *)text + 1;
        if (isdigit((unsigned char)*text))
            suggest(u, strtoll(text, &end, 10));
    }
}

static void suggest_pairs(struct td_unknown *u)
{
    int n = u->n_likely < 12 ? u->n_likely : 12;
    for (int i = 0; i < n; i++) {
        int64_t a = u->likely[i], b, product;
        suggest(u, 2 * a);
        suggest(u, a + 1);
        suggest(u, a - 1);
        for (int k = 0; k < n; k++) {
            b = u->likely[k];
            suggest(u, b && a % b == 0 ? a / b : a - b);
            suggest(u, !td_size_times(a, b, &product) ? -1 : product);
            suggest(u, a + b);
        }
    }
}

static void suggest_sizes(struct td_unknown *u, const char *expr)
{
    static const int64_t plain[] = {3, 12, 0,    4,       60,         5,
                                    8, 7,  4096, 1000003, 1073741827, 1099511627791};
    suggest(u, 2);
    suggest(u, 1);
    for (int i = 0; i < u->n_args; i++)
        suggest_value(u, &u->args[i].value);
    if (expr)
        suggest_numbers(u, expr);
    if (u->n_likely > TD_LIKELY / 3)
        u->n_likely = TD_LIKELY / 3;
    u->n_given = u->n_likely;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        suggest(u, plain[i]);
    suggest_pairs(u);
}

/* ---- where they stand ---- */

/* Which unknown size the number stands for; -1: there are too many. */
static int find(struct td_unknown *u, int64_t name)
{
    int i = 0;
    while (i < u->n && (name == TD_UNKNOWN || u->name[i] != name))
        i++;
    if (i == TD_MAX_UNKNOWNS)
        return -1;
    u->name[i] = name;
    u->n += i == u->n;
    return i;
}

static int read_tensor(struct td_unknown *u, struct td_tensor *t, int arg, int element,
                       struct td_problem *problem)
{
    struct td_open *o = &u->open[u->n_open];
    bool any = false;
    *o = (struct td_open){.tensor = t, .arg = arg, .element = element};
    for (int i = 0; i < t->rank; i++) {
        bool known = t->shape[i] >= 0;
        o->unknown[i] = (int16_t)(known ? -1 : find(u, t->shape[i]));
        if (!known && o->unknown[i] < 0)
            return td_problem_set(problem, EINVAL, "inputs: have more than %d unknown sizes",
                                  TD_MAX_UNKNOWNS);
        any |= !known;
    }
    u->n_open += any;
    return 0;
}

static int read_tensors(struct td_unknown *u, struct td_problem *problem)
{
    int err = 0;
    for (int i = 0; i < u->n_args && !err; i++) {
        struct td_value *v = &u->args[i].value;
        if (v->kind == TD_KIND_tensor)
            err = read_tensor(u, &v->tensor, i, -1, problem);
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n && !err; k++)
            err = read_tensor(u, &v->tensors.v[k], i, k, problem);
    }
    return err;
}

/* The arguments, and the tensors of lists, which are the caller's, too. */
static bool copy(struct td_unknown *u, const struct td_named *args, int n_args,
                 const struct td_options *options)
{
    size_t bytes = sizeof *args * (size_t)n_args;
    u->n_args = n_args;
    u->args = options->alloc(options->alloc_arg, bytes + 1);
    if (!u->args)
        return false;
    for (int i = 0; i < n_args; i++) {
        struct td_value *v = &u->args[i].value;
        u->args[i] = args[i];
        u->n_tensors += v->kind == TD_KIND_tensors ? (size_t)v->tensors.n : 1;
        if (v->kind != TD_KIND_tensors)
            continue;
        bytes = sizeof *v->tensors.v * (size_t)v->tensors.n;
        v->tensors.v = options->alloc(options->alloc_arg, bytes + 1);
        if (!v->tensors.v)
            return false;
        memcpy(v->tensors.v, args[i].value.tensors.v, bytes);
    }
    u->open = options->alloc(options->alloc_arg, sizeof *u->open * u->n_tensors + 1);
    return u->open;
}

int td_unknown_read(struct td_unknown *u, const struct td_named *args, int n_args, const char *expr,
                    const struct td_options *options, struct td_problem *problem)
{
    memset(u, 0, sizeof *u);
    if (!copy(u, args, n_args, options))
        return td_problem_set(problem, ENOMEM, "no memory for the call");
    int err = read_tensors(u, problem);
    if (!err && u->n)
        suggest_sizes(u, expr);
    return err;
}

bool td_unknown_set(struct td_unknown *u, const int64_t *size)
{
    bool right = true;
    for (int i = 0; i < u->n_open; i++) {
        struct td_tensor *t = u->open[i].tensor;
        int64_t n = 1;
        for (int k = 0; k < t->rank; k++) {
            if (u->open[i].unknown[k] >= 0)
                t->shape[k] = size[u->open[i].unknown[k]];
            right &= !t->shape[k] || (td_size_times(n, t->shape[k], &n) && n <= TD_SIZE_MOST);
        }
    }
    return right;
}

void td_unknown_describe(const struct td_unknown *u, char *text, size_t size)
{
    *text = 0;
#define ADD(...) snprintf(text + strlen(text), size - strlen(text), __VA_ARGS__)
    for (int i = 0; i < u->n_open && strlen(text) < size / 2; i++) {
        const struct td_open *o = &u->open[i];
        ADD("%s", i ? ", " : "");
        if (u->args[o->arg].name)
            ADD("%.40s", u->args[o->arg].name);
        else
            ADD("args[%d]", o->arg);
        if (o->element >= 0)
            ADD("[%d]", o->element);
        for (int k = 0; k < o->tensor->rank; k++)
            ADD("%s%lld", k ? "," : " [", (long long)o->tensor->shape[k]);
        ADD("]");
    }
#undef ADD
}
