/* One value as a client gives it, made what a parameter of a schema wants: the border at which
 * kinds are judged. */
#include "dispatch/call/own.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *kind_name(const struct td_value *v)
{
    static const char *const names[] = {
        [TD_KIND_none] = "null",
        [TD_KIND_tensor] = "a tensor",
        [TD_KIND_tensors] = "tensors",
        [TD_KIND_int] = "an integer",
        [TD_KIND_float] = "a float",
        [TD_KIND_bool] = "a bool",
        [TD_KIND_ints] = "a list",
        [TD_KIND_bools] = "bools",
        [TD_KIND_dtype] = "a type",
        [TD_KIND_str] = "a text",
        [TD_KIND_floats] = "a list of floats",
    };
    return names[v->kind];
}

static int wrong_kind(const struct td_param *param, const struct td_value *v,
                      struct td_problem *problem)
{
    char type[64];
    td_type_format(&param->type, type, sizeof type);
    return td_problem_set(problem, EINVAL, "%s: must be %s, but is %s", param->name, type,
                          kind_name(v));
}

static int to_list(const struct td_param *param, const struct td_value *in, struct td_value *out,
                   struct td_problem *problem)
{
    bool of_bools = param->type.base == TD_BASE_bool;
    enum td_kind one = of_bools ? TD_KIND_bool : TD_KIND_int;
    enum td_kind many = of_bools ? TD_KIND_bools : TD_KIND_ints;
    if (in->kind == one && !in->wide && param->type.list_size) {
        out->kind = many;
        out->ints.n = param->type.list_size;
        for (int i = 0; i < param->type.list_size; i++)
            out->ints.v[i] = in->i;
        return 0;
    }
    if (in->kind != many)
        return wrong_kind(param, in, problem);
    if (!of_bools && in->ints.n == 1 && param->type.list_size > 1) { /* [2] is 2 */
        *out = (struct td_value){.kind = many, .ints = {.n = param->type.list_size}};
        for (int i = 0; i < param->type.list_size; i++)
            out->ints.v[i] = in->ints.v[0];
        return 0;
    }
    /* As ATen has it: int[1] takes any length, a longer one only its own or one, or none where that
     * is what it is when left out. */
    bool none = !in->ints.n && param->has_default && !param->def.ints.n;
    if (param->type.list_size > 1 && in->ints.n != param->type.list_size && !none)
        return td_problem_set(problem, EINVAL, "%s: must have %d %s, but has %d", param->name,
                              param->type.list_size, of_bools ? "bools" : "numbers", in->ints.n);
    *out = *in;
    return 0;
}

static int to_floats(const struct td_param *param, const struct td_value *in, struct td_value *out,
                     struct td_problem *problem)
{
    *out = (struct td_value){.kind = TD_KIND_floats};
    if (in->kind == TD_KIND_floats)
        *out = *in;
    else if (in->kind != TD_KIND_ints)
        return wrong_kind(param, in, problem);
    for (int i = 0; in->kind == TD_KIND_ints && i < in->ints.n; i++)
        out->floats.v[out->floats.n++] = (double)in->ints.v[i];
    return 0;
}

static int to_tensors(const struct td_param *param, const struct td_value *in, struct td_value *out,
                      struct td_problem *problem)
{
    if (in->kind != TD_KIND_tensors)
        return wrong_kind(param, in, problem);
    for (int i = 0; i < in->tensors.n; i++)
        if (!in->tensors.v[i].dtype && !param->type.optional)
            return td_problem_set(problem, EINVAL, "%s.%d: missing; the list has %d tensors",
                                  param->name, i, in->tensors.n);
    *out = *in;
    return 0;
}

static int to_dtype(const struct td_param *param, const struct td_value *in, struct td_value *out,
                    struct td_problem *problem)
{
    if (in->kind != TD_KIND_str && in->kind != TD_KIND_dtype)
        return wrong_kind(param, in, problem);
    if (in->kind == TD_KIND_dtype) {
        *out = *in;
        return 0;
    }
    out->kind = TD_KIND_dtype;
    out->dtype = td_dtype_called(in->str);
    if (!out->dtype)
        return td_problem_set(problem, EINVAL, "%s: '%.32s' is no type; right are%s", param->name,
                              in->str, td_dtype_names);
    return 0;
}

/* The strings that stand for what JSON has no number for. */
static bool to_special(const struct td_value *in, struct td_value *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = {{"NaN", (double)NAN}, {"Infinity", HUGE_VAL}, {"-Infinity", -HUGE_VAL}};
    for (int i = 0; in->kind == TD_KIND_str && i < 3; i++)
        if (!strcmp(in->str, words[i].text)) {
            *out = (struct td_value){.kind = TD_KIND_float, .f = words[i].value};
            return true;
        }
    return false;
}

int td_value_convert(const struct td_param *param, const struct td_value *in, struct td_value *out,
                     struct td_problem *problem)
{
    const struct td_type *type = &param->type;
    if (in->kind == TD_KIND_none && td_type_takes_none(&param->type)) {
        out->kind = TD_KIND_none;
        return 0;
    }
    if (type->list && (type->base == TD_BASE_int || type->base == TD_BASE_bool))
        return to_list(param, in, out, problem);
    if (type->list && type->base == TD_BASE_float)
        return to_floats(param, in, out, problem);
    if (type->list && type->base == TD_BASE_Tensor)
        return to_tensors(param, in, out, problem);
    bool fits = false;
    switch (type->base) {
    case TD_BASE_Tensor:
        fits = in->kind == TD_KIND_tensor;
        break;
    case TD_BASE_int:
        if (in->kind == TD_KIND_int && in->wide)
            return td_problem_set(problem, EINVAL, "%s: is %llu; an INT64 is right", param->name,
                                  (unsigned long long)in->i);
        fits = in->kind == TD_KIND_int;
        break;
    case TD_BASE_float:
        if (in->kind == TD_KIND_int) {
            *out = (struct td_value){.kind = TD_KIND_float, .f = td_scalar(in)};
            return 0;
        }
        if (to_special(in, out))
            return 0;
        fits = in->kind == TD_KIND_float;
        break;
    case TD_BASE_bool:
        fits = in->kind == TD_KIND_bool;
        break;
    case TD_BASE_Scalar:
        if (to_special(in, out))
            return 0;
        fits = td_is_number(in);
        break;
    case TD_BASE_ScalarType:
        return to_dtype(param, in, out, problem);
    case TD_BASE_Generator:
        if (in->kind != TD_KIND_int)
            return td_problem_set(problem, EINVAL,
                                  "%s: must be a whole number, the seed, but is %s", param->name,
                                  kind_name(in));
        fits = true;
        break;
    default:
        fits = in->kind == TD_KIND_str;
    }
    if (!fits)
        return wrong_kind(param, in, problem);
    *out = *in;
    return 0;
}
