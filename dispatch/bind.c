/* From arguments by name to a checked call: choose the overload, convert each value to what the
 * schema says, fill in defaults, and send it through the dispatcher. This is the border where a
 * client's arguments are judged; below it they are right.
 *
 * An overload fits when every argument given is one of its parameters, of a fitting kind, and none
 * without default is missing. The first that fits is taken (ops.def has them in order); when none
 * does, the sentence says of each why. */
#include "dispatch/call.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *kind_name(const struct td_value *v)
{
    static const char *const names[] = {
        [TD_KIND_none] = "null",      [TD_KIND_tensor] = "a tensor", [TD_KIND_tensors] = "tensors",
        [TD_KIND_int] = "an integer", [TD_KIND_float] = "a float",   [TD_KIND_bool] = "a bool",
        [TD_KIND_ints] = "a list",    [TD_KIND_bools] = "bools",     [TD_KIND_dtype] = "a type",
        [TD_KIND_str] = "a text",
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
    if (in->kind == one && param->type.list_size) {
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
    /* As ATen has it: int[1] takes any length, a longer one only its own or one. */
    if (param->type.list_size > 1 && in->ints.n != param->type.list_size)
        return td_problem_set(problem, EINVAL, "%s: must have %d %s, but has %d", param->name,
                              param->type.list_size, of_bools ? "bools" : "numbers", in->ints.n);
    *out = *in;
    return 0;
}

static int to_dtype(const struct td_param *param, const struct td_value *in, struct td_value *out,
                    struct td_problem *problem)
{
    if (in->kind != TD_KIND_str)
        return wrong_kind(param, in, problem);
    out->kind = TD_KIND_dtype;
    out->dtype = td_dtype_find(in->str);
    if (!out->dtype)
        return td_problem_set(problem, EINVAL,
                              "%s: '%.32s' is no type; right are BOOL UINT8 INT8 INT16 INT32 INT64 "
                              "FP16 BF16 FP32 FP64",
                              param->name, in->str);
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

/* Left out or null, where there is no default, it is None. */
static bool is_optional(const struct td_param *param)
{
    return param->type.list ? param->type.list_optional : param->type.optional;
}

/* The value as the parameter wants it. */
static int convert(const struct td_param *param, const struct td_value *in, struct td_value *out,
                   struct td_problem *problem)
{
    const struct td_type *type = &param->type;
    if (in->kind == TD_KIND_none && is_optional(param)) {
        out->kind = TD_KIND_none;
        return 0;
    }
    if (type->list && (type->base == TD_BASE_int || type->base == TD_BASE_bool))
        return to_list(param, in, out, problem);
    bool fits = false;
    switch (type->base) {
    case TD_BASE_Tensor:
        fits = in->kind == (type->list ? TD_KIND_tensors : TD_KIND_tensor);
        for (int i = 0; fits && type->list && !type->optional && i < in->tensors.n; i++)
            if (!in->tensors.v[i].dtype)
                return td_problem_set(problem, EINVAL, "%s: must hold tensors, but [%d] is null",
                                      param->name, i);
        break;
    case TD_BASE_int:
        fits = in->kind == TD_KIND_int;
        break;
    case TD_BASE_float:
        if (in->kind == TD_KIND_int) {
            *out = (struct td_value){.kind = TD_KIND_float, .f = (double)in->i};
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
        fits = in->kind == TD_KIND_int || in->kind == TD_KIND_float || in->kind == TD_KIND_bool;
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

/* The argument for parameter i: by name, or the ith of those without one. */
static const struct td_named *find_arg(const struct td_named *args, int n_args, const char *name,
                                       int i)
{
    const struct td_named *found = NULL;
    for (int k = 0; k < n_args; k++)
        if (args[k].name ? !strcmp(args[k].name, name) : !i--)
            found = found ? found : &args[k];
    return found;
}

/* Arguments by position stand before the keyword-only ones, and none is given by name as well. */
static int check_positions(const struct td_handle *handle, const struct td_named *args, int n_args,
                           struct td_problem *problem)
{
    const struct td_schema *schema = &handle->schema;
    int n = 0, most = 0;
    for (int i = 0; i < n_args; i++)
        n += !args[i].name;
    while (most < schema->n_params && !schema->param[most].keyword_only)
        most++;
    if (n > most && most < schema->n_params)
        return td_problem_set(problem, EINVAL,
                              "args: %s takes %d by position, but %d were given; %s is "
                              "keyword-only: give it by name, in parameters",
                              handle->full, most, n, schema->param[most].name);
    if (n > most)
        return td_problem_set(problem, EINVAL, "args: %s takes %d by position, but %d were given",
                              handle->full, most, n);
    for (int i = 0; i < n_args; i++)
        for (int k = 0; args[i].name && k < n; k++)
            if (!strcmp(args[i].name, schema->param[k].name))
                return td_problem_set(problem, EINVAL, "%s: is given by name and by position",
                                      args[i].name);
    return 0;
}

/* "self, dtype": the parameters of the operator's overloads, each once, and their names. */
static int all_params(const struct td_handle *handle, bool one, const char **names, int max,
                      char *list, size_t size)
{
    int n = 0;
    *list = 0;
    for (; handle; handle = one ? NULL : handle->next)
        for (int i = 0; i < handle->schema.n_params && n < max; i++) {
            int k = 0;
            while (k < n && strcmp(names[k], handle->schema.param[i].name))
                k++;
            if (k < n)
                continue;
            names[n++] = handle->schema.param[i].name;
            snprintf(list + strlen(list), size - strlen(list), "%s%s", k ? ", " : "", names[k]);
        }
    return n;
}

/* A name that is no parameter of any overload is a mistake whatever else fits. */
static int check_names(struct td_run *run, const struct td_handle *handle, bool one,
                       const struct td_named *args, int n_args)
{
    const char *names[64], *const *also = run->options.also;
    char list[300];
    int n = all_params(handle, one, names, 32, list, sizeof list);
    for (int i = 0; i < n_args; i++) {
        int k = 0;
        while (args[i].name && k < n && strcmp(args[i].name, names[k]))
            k++;
        if (!args[i].name || k < n)
            continue;
        for (; also && *also && n < 64; also++)
            names[n++] = *also;
        const char *near = td_nearest(args[i].name, names, n);
        return td_problem_set(&run->problem, EINVAL,
                              "%.60s: %s has no such argument%s%s%s; right are: %s%s", args[i].name,
                              one ? handle->full : handle->schema.name,
                              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                              list, run->options.also ? ", and what all calls take" : "");
    }
    return 0;
}

/* Binds to one overload. */
static int bind(struct td_run *run, const struct td_handle *handle, const struct td_named *args,
                int n_args)
{
    const struct td_schema *schema = &handle->schema;
    struct td_call *call = &run->call;
    run->handle = handle;
    call->op = handle->op;
    call->n_args = schema->n_params;
    call->threads = 1;
    call->problem = &run->problem;
    run->keys = 0;
    int used = 0, err = 0;
    for (int i = 0; i < schema->n_params; i++) {
        const struct td_param *param = &schema->param[i];
        const struct td_named *arg = find_arg(args, n_args, param->name, i);
        used += arg != NULL;
        if (arg && !err) {
            err = convert(param, &arg->value, &call->arg[i], &run->problem);
            if (arg->value.kind == TD_KIND_tensor || arg->value.kind == TD_KIND_tensors)
                run->keys |= arg->keys ? arg->keys : td_keyset_of(TD_KEY_CPU);
        } else if (!err && !param->has_default && !is_optional(param)) {
            err = td_problem_set(&run->problem, EINVAL, "%s: missing; %s needs it", param->name,
                                 handle->full);
        } else if (!arg) {
            td_param_default(param, &call->arg[i]);
        }
    }
    if (!err && n_args && !args[0].name)
        err = check_positions(handle, args, n_args, &run->problem);
    for (int i = 0; used < n_args && i < n_args; i++) {
        bool known = !args[i].name;
        for (int k = 0; k < schema->n_params && !known; k++)
            known = !strcmp(args[i].name, schema->param[k].name);
        if (!known)
            return td_problem_set(&run->problem, EINVAL, "%s: it has no such argument",
                                  args[i].name);
    }
    return err;
}

static int unknown_op(struct td_run *run, const char *name)
{
    char base[TD_NAME_SIZE], list[300] = "";
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "."), name);
    const struct td_handle *handle = td_registry_find(base);
    const char *dangling[64];
    int n = handle ? 0 : td_registry_dangling(dangling, 64);
    for (int i = 0; i < n && i < 64; i++)
        if (!strcmp(dangling[i], name))
            return td_problem_set(&run->problem, ENOENT,
                                  "no operator '%.60s': there is a kernel of that name, but no "
                                  "schema; was it forgotten to define it?",
                                  name);
    if (!handle)
        return td_problem_set(&run->problem, ENOENT,
                              "no operator '%.60s'; GET /v1/ops lists what there is", name);
    for (const struct td_handle *h = handle; h; h = h->next)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "",
                 h->full);
    return td_problem_set(&run->problem, ENOENT, "no overload '%.60s'; there are: %s", name, list);
}

/* "add_.Tensor" is add.Tensor in place. */
static const struct td_handle *find_in_place(const char *name, char plain[2 * TD_NAME_SIZE])
{
    size_t n = strcspn(name, ".");
    if (n < 2 || name[n - 1] != '_' || strlen(name) >= 2 * TD_NAME_SIZE)
        return NULL;
    memcpy(plain, name, n - 1);
    strcpy(plain + n - 1, name + n);
    return td_registry_find(plain);
}

bool td_op_follows(const char *name, const char *arg, int position)
{
    char plain[2 * TD_NAME_SIZE];
    const struct td_handle *h = td_registry_find(name);
    for (h = h ? h : find_in_place(name, plain); h; h = h->next)
        for (int i = 0; i < h->schema.n_params; i++)
            if (h->op->follows >> i & 1 &&
                (arg ? !strcmp(h->schema.param[i].name, arg) : i == position))
                return true;
    return false;
}

static int settle_in_place(struct td_run *run)
{
    struct td_tensor self = run->call.arg[0].tensor, *out = &run->call.out[0];
    if (run->call.arg[0].kind != TD_KIND_tensor || run->call.n_out != 1 || run->call.op->counted)
        return td_problem_set(&run->problem, EINVAL, "%s: has no form in place", run->handle->full);
    for (int i = 0; i < run->n_casts; i++)
        if (!run->cast[i].arg)
            self = run->cast[i].from;
    if (out->rank != self.rank ||
        memcmp(out->shape, self.shape, (size_t)self.rank * sizeof *self.shape))
        return td_problem_set(&run->problem, EINVAL,
                              "self: in place its shape stays, but the result has another one");
    return out->dtype == self.dtype ? 0 : td_run_convert(run, self.dtype);
}

/* Binds to the first overload that fits; else says of each why it does not. */
static int choose(struct td_run *run, const struct td_handle *handle, bool one,
                  const struct td_named *args, int n_args)
{
    char why[sizeof run->problem.text] = "";
    for (const struct td_handle *h = handle; h; h = h->next) {
        int err = bind(run, h, args, n_args);
        if (!err || one || !handle->next)
            return err;
        snprintf(why + strlen(why), sizeof why - strlen(why), "; %s: %s", h->full,
                 run->problem.text);
    }
    return td_problem_set(&run->problem, EINVAL, "no overload of %s fits%.500s",
                          handle->schema.name, why);
}

int td_run_bind(struct td_run *run, const char *name, const struct td_named *args, int n_args,
                const struct td_options *options)
{
    *run = (struct td_run){.node = -1};
    if (options)
        run->options = *options;
    const struct td_handle *handle = td_registry_find(name);
    char plain[2 * TD_NAME_SIZE];
    if (!handle && (handle = find_in_place(name, plain))) {
        name = plain;
        run->in_place = true;
    }
    if (!handle)
        return unknown_op(run, name);
    bool one = strcmp(name, handle->schema.name) != 0;
    int err = check_names(run, handle, one, args, n_args);
    err = err ? err : choose(run, handle, one, args, n_args);
    if (!err)
        err = td_dispatch(run);
    return err || !run->in_place ? err : settle_in_place(run);
}
