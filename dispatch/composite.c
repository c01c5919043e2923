/* Composite operators: a formula over other operators, "mul(self, sigmoid(self))", expanded into
 * calls of these with the keys that the whole was called with. It serves every backend that has no
 * kernel of the operator's own. */
#include "dispatch/call.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts ---- */

/* A part of the run: bound, dispatched with keys, put behind the parts that are there. NULL when
 * that fails, with the reason in run->problem and in *err. */
static struct td_run *add_part(struct td_run *run, const char *op, const struct td_value *values,
                               td_keyset keys, int *err)
{
    struct td_run *part =
        run->options.alloc ? run->options.alloc(run->options.alloc_arg, sizeof *part) : NULL;
    if (!part) {
        *err = td_problem_set(&run->problem, ENOMEM, "no memory for the parts of %s",
                              run->handle->full);
        return NULL;
    }
    *part = (struct td_run){
        .options = run->options, .depth = run->depth, .timed = run->timed, .node = -1};
    *err = td_run_bind_values(part, td_registry_find(op), values, keys);
    if (*err) {
        run->problem = part->problem;
        return NULL;
    }
    struct td_run **end = &run->parts;
    while (*end)
        end = &(*end)->next;
    *end = part;
    return part;
}

/* ---- formulas ---- */

struct formula {
    struct td_run *run;
    td_keyset keys;
    const char *at; /* what is left of the text */
    int err;
    struct td_run *converted[TD_MAX_ARGS]; /* the part that converts an argument, once for all */
};

static const char *word(struct formula *f, char name[TD_NAME_SIZE])
{
    size_t n = 0;
    f->at += strspn(f->at, " ");
    while (n < TD_NAME_SIZE - 1 && (isalnum((unsigned char)*f->at) || strchr("_.", *f->at)) &&
           *f->at)
        name[n++] = *f->at++;
    name[n] = 0;
    f->at += strspn(f->at, " ");
    return n ? name : NULL;
}

static bool take(struct formula *f, char c)
{
    f->at += strspn(f->at, " ");
    return *f->at == c && f->at++;
}

static struct td_run *wrong(struct formula *f, const char *what)
{
    if (!f->err)
        f->err = td_problem_set(&f->run->problem, EINVAL, "%s: its formula '%s' %s at '%s'",
                                f->run->handle->full, f->run->call.op->composite, what, f->at);
    return NULL;
}

/* The value of one of the operator's own arguments. One that is to be converted first becomes a
 * part that does it. */
static bool argument(struct formula *f, const char *name, struct td_value *value,
                     struct td_run **from)
{
    struct td_run *run = f->run;
    for (int i = 0; i < run->handle->schema.n_params; i++) {
        if (strcmp(run->handle->schema.param[i].name, name))
            continue;
        *value = run->call.arg[i];
        *from = f->converted[i];
        for (int c = 0; c < run->n_casts && !*from; c++)
            if (run->cast[c].arg == i) {
                struct td_value values[2] = {
                    {.kind = TD_KIND_tensor, .tensor = run->cast[c].from},
                    {.kind = TD_KIND_dtype, .dtype = value->tensor.dtype},
                };
                *from = f->converted[i] = add_part(run, "cast", values, f->keys, &f->err);
            }
        return true;
    }
    return false;
}

static struct td_run *call(struct formula *f, const char *op);

/* A number: 2 is an integer, 2.0, -0.5 and 1e-3 are floats; or True or False. */
static bool number(struct formula *f, struct td_value *value)
{
    char *end;
    f->at += strspn(f->at, " ");
    size_t letters = strspn(f->at, "TrueFals");
    bool yes = letters == 4 && !strncmp(f->at, "True", 4);
    if (yes || (letters == 5 && !strncmp(f->at, "False", 5))) {
        *value = (struct td_value){.kind = TD_KIND_bool, .i = yes};
        f->at += letters;
        return true;
    }
    if (!isdigit((unsigned char)*f->at) && *f->at != '-')
        return false;
    double real = strtod(f->at, &end);
    bool whole = strcspn(f->at, ".eE") >= (size_t)(end - f->at);
    if (end == f->at)
        return false;
    *value = whole ? (struct td_value){.kind = TD_KIND_int, .i = strtoll(f->at, NULL, 10)}
                   : (struct td_value){.kind = TD_KIND_float, .f = real};
    f->at = end;
    return true;
}

/* One operand: an argument, a number, or a call whose first result it is. */
static bool operand(struct formula *f, struct td_value *value, struct td_run **from)
{
    char name[TD_NAME_SIZE];
    if (number(f, value))
        return true;
    if (!word(f, name))
        return wrong(f, "has no operand");
    if (*f->at != '(')
        return argument(f, name, value, from) || wrong(f, "names what is no argument");
    *from = call(f, name);
    if (!*from)
        return false;
    *value = (struct td_value){.kind = TD_KIND_tensor, .tensor = (*from)->call.out[0]};
    return true;
}

static struct td_run *call(struct formula *f, const char *op)
{
    char name[TD_NAME_SIZE];
    strcpy(name, op);
    struct td_value values[TD_MAX_ARGS];
    struct td_run *from[TD_MAX_ARGS] = {0};
    const struct td_handle *handle = td_registry_find(name);
    if (!handle || !take(f, '('))
        return wrong(f, "has no such operator");
    int n = 0;
    for (const char *more = "("; *more && n < TD_MAX_ARGS; n++) {
        if (!operand(f, &values[n], &from[n]))
            return NULL;
        more = take(f, ',') ? "," : "";
    }
    if (!take(f, ')') || n > handle->schema.n_params)
        return wrong(f, "goes wrong");
    for (; n < handle->schema.n_params; n++)
        values[n] = handle->schema.param[n].def;
    struct td_run *part = add_part(f->run, handle->full, values, f->keys, &f->err);
    for (int i = 0; part && i < n; i++)
        if (from[i]) {
            if (from[i]->call.counted)
                return wrong(f, "goes on from a result whose size is not known yet");
            if (part->n_feeds == TD_MAX_CASTS)
                return wrong(f, "has too many operands");
            part->feed[part->n_feeds].arg = i;
            part->feed[part->n_feeds++].of = from[i];
        }
    return part;
}

static bool is_right(struct formula *f, const struct td_handle *own, const char *const *more,
                     bool followed);

/* Items up to the end of a list or of a call's arguments; item i is followed where bit i says so.
 */
static bool are_right(struct formula *f, const struct td_handle *own, const char *const *more,
                      unsigned follows, char end, int *n)
{
    for (*n = 0; *n < TD_MAX_ARGS; (*n)++)
        if (!is_right(f, own, more, follows >> *n & 1))
            return false;
        else if (!take(f, ','))
            return (*n)++, take(f, end);
    return false;
}

/* Nothing, or "[1]": which of several results. */
static bool is_pick(struct formula *f, const struct td_handle *handle)
{
    if (handle->schema.n_returns < 2)
        return true;
    char *end;
    long i = take(f, '[') ? strtol(f->at, &end, 10) : -1;
    if (i < 0 || end == f->at || i >= handle->schema.n_returns)
        return false;
    f->at = end;
    return take(f, ']');
}

/* Whether a formula's words are the operator's arguments and operators there are: looked at once,
 * when it is registered. What a part follows, the whole does. */
static bool is_right(struct formula *f, const struct td_handle *own, const char *const *more,
                     bool followed)
{
    const struct td_schema *schema = &own->schema;
    char name[TD_NAME_SIZE];
    struct td_value value;
    int n;
    if (number(f, &value))
        return true;
    if (*more && take(f, '['))
        return are_right(f, own, more, followed ? ~0u : 0, ']', &n);
    if (!word(f, name))
        return false;
    if (take(f, '(')) {
        const struct td_handle *handle = td_registry_find(name);
        return handle && are_right(f, own, more, handle->op->follows, ')', &n) &&
               n <= handle->schema.n_params && (!*more || is_pick(f, handle));
    }
    if (*more && !strcmp(name, "None"))
        return true;
    for (int i = 0; i < schema->n_params; i++)
        if (!strcmp(schema->param[i].name, name))
            return !followed || own->op->follows >> i & 1;
    for (; *more; more++)
        if (!strcmp(*more, name))
            return true;
    return false;
}

int td_formula_check(const struct td_handle *handle, const char *formula, const char *const *more,
                     struct td_problem *problem)
{
    struct formula f = {.at = formula};
    if (is_right(&f, handle, more, false) && !*f.at)
        return 0;
    return td_problem_set(problem, EINVAL, "%s: its formula '%s' goes wrong at '%s'", handle->full,
                          formula, f.at);
}

/* The run becomes the first part of itself. */
int td_run_convert(struct td_run *run, enum td_dtype to)
{
    enum td_dtype from = run->call.out[0].dtype;
    if (run->call.counted)
        return td_problem_set(&run->problem, EINVAL,
                              "the result's size is known only when it is there, so it stays %s",
                              td_dtype_name(from));
    if (td_promote_types(from | to, 0, 0) != to &&
        td_promote_types(to, from, 0) != to) /* of a higher category */
        return td_problem_set(&run->problem, EINVAL,
                              "the result is %s, which cannot become %s: that would lose its kind",
                              td_dtype_name(from), td_dtype_name(to));
    struct td_run *first =
        run->options.alloc ? run->options.alloc(run->options.alloc_arg, sizeof *first) : NULL;
    if (!first)
        return td_problem_set(&run->problem, ENOMEM, "no memory to convert the result");
    *first = *run;
    first->call.problem = &first->problem;
    run->parts = first;
    struct td_value values[2] = {
        {.kind = TD_KIND_tensor, .tensor = run->call.out[0]},
        {.kind = TD_KIND_dtype, .dtype = to},
    };
    int err;
    struct td_run *cast =
        add_part(run, "cast", values, td_keyset_minus(run->keys, run->done), &err);
    if (!cast)
        return err;
    cast->feed[0].arg = 0;
    cast->feed[0].of = first;
    cast->n_feeds = 1;
    run->n_casts = 0;
    run->rows = NULL;
    run->call.out[0] = cast->call.out[0];
    return 0;
}

/* The problem is that of a part: says what it is a part of. */
static int no_part(struct td_run *run)
{
    struct td_problem why = run->problem;
    return td_problem_set(&run->problem, ENOSYS,
                          "could not run '%s', which is computed as %s: %.400s", run->handle->full,
                          run->call.op->composite, why.text);
}

int td_kernel_composite(struct td_run *run, td_keyset keys)
{
    (void)keys; /* what the whole fell through may well concern a part */

    int err = td_run_settle(run); /* as before a kernel: what is to be converted is known now */
    if (err)
        return err;
    struct formula f = {
        .run = run, .keys = td_keyset_minus(run->keys, run->done), .at = run->call.op->composite};
    char name[TD_NAME_SIZE];
    const struct td_run *last = word(&f, name) ? call(&f, name) : wrong(&f, "is none");
    if (f.err == -ENOSYS)
        return no_part(run);
    if (!last || f.err)
        return f.err;
    run->n_casts = 0; /* they are parts now */
    run->rows = NULL;
    run->call.n_out = last->call.n_out;
    run->call.counted = last->call.counted;
    run->call.counted_dim = last->call.counted_dim;
    memcpy(run->call.out, last->call.out, sizeof run->call.out);
    return 0;
}
