/* What nodes do when the program is walked: calls of operators, and formulas. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_pt2_list(struct td_walk *walk, const struct td_item *item, int64_t v[TD_MAX_LIST])
{
    if (item->v.kind != TD_KIND_tensors)
        return td_walk_ints(walk, item, v, TD_MAX_LIST);
    if (item->n > TD_MAX_LIST)
        return td_walk_refuse(walk, "a list has %d numbers, but at most %d are taken", item->n,
                              TD_MAX_LIST);
    for (int i = 0; i < item->n; i++) {
        int n = td_walk_ints(walk, &item->list[i], &v[i], 1);
        if (n != 1)
            return n < 0 ? n : td_walk_refuse(walk, "a list has other things than numbers");
    }
    return item->n;
}

/* ---- calls ---- */

/* A list of sizes as what it is; the item itself otherwise. */
static int as_numbers(struct td_walk *walk, const struct td_item *item, bool ints,
                      struct td_item *result)
{
    int64_t v[TD_MAX_LIST];
    *result = *item;
    if (item->v.kind != TD_KIND_tensors || !ints)
        return 0;
    int n = td_pt2_list(walk, item, v);
    if (n >= 0)
        *result = td_item_ints(v, n);
    return n < 0 ? n : 0;
}

const struct td_param *td_pt2_param(const struct td_handle *handle, const char *name)
{
    int i = name ? td_schema_find(&handle->schema, name) : -1;
    return i < 0 ? NULL : &handle->schema.param[i];
}

/* A number where a tensor is due becomes one, of the first tensor's type where that is of its
 * category. */
static int as_tensor(struct td_walk *walk, const struct td_given *args, int n, struct td_item *item)
{
    const struct td_tensor *self = NULL;
    for (int k = 0; k < n && !self; k++)
        if (args[k].item.v.kind == TD_KIND_tensor)
            self = &args[k].item.v.tensor;
    bool floats = item->v.kind == TD_KIND_float;
    enum td_dtype dtype = floats ? TD_f32 : item->v.kind == TD_KIND_bool ? TD_bool : TD_i64;
    if (floats && self && self->dtype & TD_FLOATS)
        dtype = self->dtype;
    double f = td_scalar(&item->v);
    int64_t i = item->v.i; /* which the result takes the place of */
    return dtype == TD_i64 ? td_walk_tensor_i64(walk, &i, -1, item)
                           : td_walk_tensor(walk, dtype, &f, -1, item);
}

/* The overload that takes a number for this argument: mul.Scalar for mul.Tensor; or NULL. */
static const struct td_handle *with_number(const struct td_handle *handle, const char *name)
{
    const struct td_handle *h = td_registry_find(handle->schema.name);
    for (; h; h = h->next) {
        const struct td_param *param = td_pt2_param(h, name);
        if (param && param->type.base == TD_BASE_Scalar &&
            h->schema.n_params == handle->schema.n_params)
            return h;
    }
    return NULL;
}

/* "add_.Scalar", where the node has add_.Tensor */
static void name_call(const struct td_node *node, const struct td_handle *handle, char *name,
                      size_t size)
{
    const struct td_handle *own = node->form;
    bool in_place = strcspn(node->op, ".") == strlen(own->schema.name) + 1;
    snprintf(name, size, "%s%s%s%s", handle->schema.name, in_place ? "_" : "",
             *handle->schema.overload ? "." : "", handle->schema.overload);
}

/* The arguments as the operator's schema wants them; handle: the overload that takes them. */
static int prepare(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_given *given, const struct td_handle **handle)
{
    int err = 0;
    for (int i = 0; i < node->n_operands && !err; i++) {
        const struct td_param *param = td_pt2_param(*handle, node->operand[i].name);
        given[i].name = node->operand[i].name;
        bool ints = param && param->type.list &&
                    (param->type.base == TD_BASE_int || param->type.base == TD_BASE_bool);
        err = as_numbers(walk, &in[i], ints, &given[i].item);
    }
    for (int i = 0; i < node->n_operands && !err; i++) {
        const struct td_param *param = td_pt2_param(*handle, given[i].name);
        if (!param || param->type.list || param->type.base != TD_BASE_Tensor ||
            !td_is_number(&given[i].item.v))
            continue;
        const struct td_handle *other = with_number(*handle, given[i].name);
        if (other)
            *handle = other;
        else
            err = as_tensor(walk, given, node->n_operands, &given[i].item);
    }
    return err;
}

int td_pt2_call(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_handle *handle = node->form;
    struct td_given given[TD_MAX_ARGS];
    struct td_item result[TD_MAX_OUTS];
    char name[2 * TD_NAME_SIZE + 1];
    int n, err = prepare(walk, node, in, given, &handle);
    name_call(node, handle, name, sizeof name);
    err = err ? err : td_walk_call(walk, name, given, node->n_operands, result, &n);
    if (err)
        return err;
    if (n < node->n_outs)
        return td_walk_refuse(walk, "gives %d results, but %d are wanted", n, node->n_outs);
    if (node->n_outs)
        memcpy(out, result, sizeof *out * (size_t)node->n_outs);
    return 0;
}

int td_pt2_call_on(struct td_walk *walk, const char *op, const struct td_node *node,
                   const struct td_item *in, int first, int n, struct td_item *out)
{
    struct td_given given[TD_MAX_ARGS];
    for (int i = 0; i < n; i++)
        given[i] = (struct td_given){NULL, in[first + i]};
    for (int i = 3; i < node->n_operands; i++) {
        if (n == TD_MAX_ARGS)
            return td_walk_refuse(walk, "has too many arguments");
        int err = as_numbers(walk, &in[i], true, &given[n].item);
        if (err)
            return err;
        given[n++].name = node->operand[i].name;
    }
    return td_walk_call(walk, op, given, n, out, NULL);
}

/* "dim=-1", "UPLO='L'", "dtype": an argument that is left out is what stands there, or None. */
static struct td_given left_out(char *text)
{
    struct td_given given = {.name = strsep(&text, "=")};
    char *end;
    if (!text)
        return given;
    if (*text == '\'') {
        given.item = td_item_str(text + 1);
        text[strlen(text) - 1] = '\0';
        return given;
    }
    int64_t i = strtoll(text, &end, 10);
    given.item = !strcmp(text, "False")  ? td_item_bool(false)
                 : !strcmp(text, "True") ? td_item_bool(true)
                 : *end                  ? td_item_float(strtod(text, NULL))
                                         : td_item_int(i);
    return given;
}

int td_pt2_formula(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct td_given given[2 * TD_MAX_ARGS];
    struct td_item result[TD_MAX_OUTS];
    char also[128];
    int n = 0, made, err = 0;
    snprintf(also, sizeof also, "%s", target->also ? target->also : "");
    for (int i = 0; i < node->n_operands && !err; i++, n++) {
        bool numbers = in[i].n && td_is_number(&in[i].list[0].v);
        if (n == TD_MAX_ARGS)
            return td_walk_refuse(walk, "has too many arguments");
        given[n].name = node->operand[i].name;
        err = as_numbers(walk, &in[i], numbers, &given[n].item);
        if (given[n].name && !strcmp(given[n].name, "hx") && in[i].n == 2) { /* of lstm_cell */
            given[n] = (struct td_given){"hx_0", in[i].list[0]};
            given[++n] = (struct td_given){"hx_1", in[i].list[1]};
        }
    }
    char *rest = also;
    for (char *name; !err && n < 2 * TD_MAX_ARGS && (name = strsep(&rest, " "));)
        if (*name) {
            given[n] = left_out(name);
            n += td_node_find(node, given[n].name) < 0;
        }
    err = err ? err : td_walk_formula(walk, target->formula, given, n, result, &made);
    if (!err && made < node->n_outs)
        err = td_walk_refuse(walk, "gives %d results, but %d are wanted", made, node->n_outs);
    for (int i = 0; i < node->n_outs && !err; i++)
        out[i] = result[i];
    return err;
}

const struct td_item *td_pt2_given(const struct td_node *node, const struct td_item *in,
                                   const char *name)
{
    int i = td_node_find(node, name);
    return i < 0 || in[i].v.kind == TD_KIND_none ? NULL : &in[i];
}

int td_pt2_tensor_at(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     int i, struct td_tensor *t)
{
    if (i >= node->n_operands || in[i].v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "a tensor is missing");
    if (t)
        *t = in[i].v.tensor;
    return 0;
}

int td_pt2_compute(struct td_walk *walk, const char *formula, const struct td_given *args, int n,
                   struct td_item *out)
{
    return td_walk_formula(walk, formula, args, n, out, NULL);
}

int td_pt2_diff(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    static const char *const parts[] = {"prepend", "self", "append"};
    struct td_item part[3], list;
    int n = 0, at = td_node_find(node, "dim");
    for (int i = 0; i < 3; i++) {
        const struct td_item *found = td_pt2_given(node, in, parts[i]);
        if (found)
            part[n++] = *found;
    }
    if (td_node_int(node, "n", 1) != 1)
        return td_walk_refuse(walk, "differences are taken once");
    struct td_given args[] = {{"x", {.v = {0}}}, {"dim", at < 0 ? td_item_int(-1) : in[at]}};
    int err = td_walk_list(walk, part, n, &list);
    err = err ? err : TD_CALL(walk, "cat", &args[0].item, TD_GIVE(list), TD_GIVE(args[1].item));
    return err ? err
               : td_walk_formula(walk, "slice(x, dim, 1) - slice(x, dim, 0, -1)", args, 2, out,
                                 NULL);
}

int td_pt2_same(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    (void)walk, (void)node;
    *out = *in;
    return 0;
}
