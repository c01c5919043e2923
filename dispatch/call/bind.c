/* From arguments by name to a checked call: choose the overload, convert each value to what the
 * schema says, fill in defaults, and send it through the dispatcher. This is the border where a
 * client's arguments are judged; below it they are right.
 *
 * An overload fits when every argument given is one of its parameters, of a fitting kind, and none
 * without default is missing. The first that fits is taken (ops.def has them in order); when none
 * does, the sentence says of each why. */
#include "dispatch/call/own.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
    for (int i = 0; i < n_args; i++) {
        int k = args[i].name ? td_schema_find(schema, args[i].name) : -1;
        if (k >= 0 && k < n)
            return td_problem_set(problem, EINVAL, "%s: is given by name and by position",
                                  args[i].name);
    }
    return 0;
}

static bool is_param(const struct td_handle *handle, bool one, const char *name)
{
    for (; handle; handle = one ? NULL : handle->next)
        if (td_schema_find(&handle->schema, name) >= 0)
            return true;
    return false;
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

static int no_param(struct td_run *run, const struct td_handle *handle, bool one, const char *name)
{
    const char *names[64], *const *also = run->options.also;
    char list[300];
    int n = all_params(handle, one, names, 32, list, sizeof list);
    for (; also && *also && n < 64; also++)
        names[n++] = *also;
    const char *near = td_nearest(name, names, n);
    return td_problem_set(
        &run->problem, EINVAL, "%.60s: %s has no such argument%s%s%s; right are: %s%s", name,
        one ? handle->full : handle->schema.name, near ? "; did you mean '" : "", near ? near : "",
        near ? "'?" : "", list, run->options.also ? ", and what all calls take" : "");
}

/* A name that is no parameter of any overload is a mistake whatever else fits. */
static int check_names(struct td_run *run, const struct td_handle *handle, bool one,
                       const struct td_named *args, int n_args)
{
    for (int i = 0; i < n_args; i++)
        if (args[i].name && !is_param(handle, one, args[i].name))
            return no_param(run, handle, one, args[i].name);
    return 0;
}

/* Whether the argument may be a number in place of the tensor that the parameter is. */
static bool is_for_tensor(const struct td_param *param, const struct td_named *arg)
{
    return param->type.base == TD_BASE_Tensor && !param->type.list && td_is_plain(&arg->value);
}

/* Binds to one overload. numbers: they may stand for tensors. */
static int bind(struct td_run *run, const struct td_handle *handle, bool numbers,
                const struct td_named *args, int n_args)
{
    const struct td_schema *schema = &handle->schema;
    struct td_call *call = &run->call;
    run->handle = handle;
    call->op = handle->op;
    call->n_args = schema->n_params;
    call->threads = 1;
    call->problem = &run->problem;
    run->keys = 0;
    run->numbers = 0;
    td_keyset of_numbers = 0;
    int used = 0, err = 0;
    for (int i = 0; i < schema->n_params; i++) {
        const struct td_param *param = &schema->param[i];
        const struct td_named *arg = find_arg(args, n_args, param->name, i);
        used += arg != NULL;
        if (arg && !err && numbers && is_for_tensor(param, arg)) {
            call->arg[i] = arg->value;
            run->numbers |= 1u << i;
            of_numbers |= arg->keys ? arg->keys : td_keyset_of(TD_KEY_CPU);
        } else if (arg && !err) {
            err = td_value_convert(param, &arg->value, &call->arg[i], &run->problem);
            if (arg->value.kind == TD_KIND_tensor || arg->value.kind == TD_KIND_tensors)
                run->keys |= arg->keys ? arg->keys : td_keyset_of(TD_KEY_CPU);
        } else if (!err && !param->has_default && !td_type_takes_none(&param->type)) {
            err = td_problem_set(&run->problem, EINVAL, "%s: missing; %s needs it", param->name,
                                 handle->full);
        } else if (!arg) {
            td_param_default(param, &call->arg[i]);
        }
    }
    if (!err && n_args && !args[0].name)
        err = check_positions(handle, args, n_args, &run->problem);
    for (int i = 0; used < n_args && i < n_args; i++)
        if (args[i].name && td_schema_find(schema, args[i].name) < 0)
            return td_problem_set(&run->problem, EINVAL, "%s: it has no such argument",
                                  args[i].name);
    run->keys = run->keys ? run->keys : of_numbers;
    return err || !run->numbers ? err : td_run_make_numbers(run);
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
    const char *near = handle ? NULL : td_op_nearest(name);
    if (!handle)
        return td_problem_set(&run->problem, ENOENT,
                              "no operator '%.60s'%s%s%s; GET /v1/ops lists what there is", name,
                              near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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

const struct td_handle *td_op_meant(const char *name)
{
    char plain[2 * TD_NAME_SIZE];
    const struct td_handle *h = td_registry_find(name);
    return h ? h : find_in_place(name, plain);
}

/* Whether it is the parameter's name, or of its elements': "indices.1". */
static bool names_it(const struct td_param *param, const char *name)
{
    size_t n = strlen(param->name);
    return !strncmp(param->name, name, n) && (!name[n] || (param->type.list && name[n] == '.'));
}

bool td_op_follows(const char *name, const char *arg, int position)
{
    for (const struct td_handle *h = td_op_meant(name); h; h = h->next)
        for (int i = 0; i < h->schema.n_params; i++)
            if (h->op->follows >> i & 1 &&
                (arg ? names_it(&h->schema.param[i], arg) : i == position))
                return true;
    return false;
}

bool td_op_draws_chance(const char *name)
{
    for (const struct td_handle *h = td_registry_find(name); h; h = h->next)
        for (int i = 0; i < h->schema.n_params; i++)
            if (h->schema.param[i].type.base == TD_BASE_Generator)
                return true;
    return false;
}

/* The parameter that result i is called as, or -1. */
static int namesake(const struct td_schema *schema, int i)
{
    return td_schema_find(schema, schema->ret[i].name);
}

int td_run_place(const struct td_run *run, int i)
{
    int k = run->call.n_out == 1 ? 0 : namesake(&run->handle->schema, i);
    bool given = k >= 0 && run->call.arg[k].kind == TD_KIND_tensor;
    return given || run->call.n_out == 1 || td_numel(&run->call.out[i]) ? k : -1;
}

/* An operator with several results has that form where each is called as an argument is. */
static bool has_places(const struct td_run *run)
{
    const struct td_schema *schema = &run->handle->schema;
    int n = run->call.n_out;
    bool all = run->call.arg[0].kind == TD_KIND_tensor && !run->call.counted &&
               (n == 1 || n == schema->n_returns);
    for (int i = 0; all && n > 1 && i < n; i++)
        all = namesake(schema, i) >= 0;
    return all;
}

static int settle_place(struct td_run *run, int i, int place)
{
    const char *name = run->handle->schema.param[place].name;
    if (run->call.arg[place].kind != TD_KIND_tensor)
        return td_problem_set(&run->problem, EINVAL,
                              "%s: must be there in place, for it becomes "
                              "a result; zeros are right at first",
                              name);
    struct td_tensor was = run->call.arg[place].tensor, *out = &run->call.out[i];
    for (int k = 0; k < run->n_casts; k++)
        if (run->cast[k].arg == place)
            was = run->cast[k].from;
    if (out->rank != was.rank ||
        memcmp(out->shape, was.shape, (size_t)was.rank * sizeof *was.shape))
        return td_problem_set(&run->problem, EINVAL,
                              "%s: in place its shape stays, but the result has another one", name);
    return out->dtype == was.dtype ? 0 : td_run_convert(run, was.dtype);
}

static int settle_in_place(struct td_run *run)
{
    if (!has_places(run))
        return td_problem_set(&run->problem, EINVAL, "%s: has no form in place", run->handle->full);
    int err = 0;
    for (int i = 0; i < run->call.n_out && !err; i++) {
        int place = td_run_place(run, i);
        err = place < 0 ? 0 : settle_place(run, i, place);
    }
    return err;
}

/* Binds to the first overload that fits; else says of each why it does not. */
static int choose(struct td_run *run, const struct td_handle *handle, bool one, bool numbers,
                  const struct td_named *args, int n_args)
{
    char why[sizeof run->problem.text];
    size_t len = 0; /* of what fits of why */
    *why = 0;
    for (const struct td_handle *h = handle; h; h = h->next) {
        *run->problem.text = 0; /* what an attempt before has left */
        int err = bind(run, h, numbers, args, n_args);
        if (!err || one || !handle->next)
            return err;
        len +=
            (size_t)snprintf(why + len, sizeof why - len, "; %s: %s", h->full, run->problem.text);
        if (len >= sizeof why)
            len = sizeof why - 1;
    }
    return td_problem_set(&run->problem, EINVAL, "no overload of %s fits%.500s",
                          handle->schema.name, why);
}

int td_run_choose(struct td_run *run, const struct td_handle *handle, bool one,
                  const struct td_named *args, int n_args)
{
    bool plain = false;
    for (int i = 0; i < n_args && run->options.numbers && run->options.alloc; i++)
        plain = plain || td_is_plain(&args[i].value);
    int err = check_names(run, handle, one, args, n_args);
    if (err)
        return err;
    err = choose(run, handle, one, false, args, n_args);
    return err == -EINVAL && plain ? choose(run, handle, one, true, args, n_args) : err;
}

int td_run_bind(struct td_run *run, const char *name, const struct td_named *args, int n_args,
                const struct td_options *options)
{
    td_run_clear(run, options);
    const struct td_handle *handle = td_registry_find(name);
    char plain[2 * TD_NAME_SIZE];
    if (!handle && (handle = find_in_place(name, plain))) {
        name = plain;
        run->in_place = true;
    }
    if (!handle)
        return unknown_op(run, name);
    bool one = strcmp(name, handle->schema.name) != 0;
    int err = td_run_choose(run, handle, one, args, n_args);
    if (!err)
        err = td_dispatch(run);
    return err || !run->in_place ? err : settle_in_place(run);
}
