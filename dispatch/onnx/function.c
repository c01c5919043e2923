/* Functions of the model's own: a node that calls one becomes the function's nodes, whose values
 * are named in a scope of their own, in which the function's inputs and outputs are the node's. */
#include "dispatch/onnx/function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 32       /* of calls in calls */
#define MOST (1 << 20) /* nodes that calls become in all */

static bool same(const char *a, const char *b)
{
    return !strcmp(td_onnx_or_empty(a), td_onnx_or_empty(b));
}

const TdOnnx__Function *td_onnx_function(const struct td_onnx_reader *r, const TdOnnx__Node *node)
{
    const TdOnnx__Model *file = r->file;
    for (size_t i = 0; file && i < file->n_functions; i++) {
        const TdOnnx__Function *f = file->functions[i];
        if (same(f->name, node->op_type) && same(f->domain, node->domain) &&
            same(f->overload, node->overload))
            return f;
    }
    return NULL;
}

/* ---- attributes ---- */

static const TdOnnx__Attribute *find(TdOnnx__Attribute *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (same(list[i]->name, name))
            return list[i];
    return NULL;
}

const TdOnnx__Attribute *td_onnx_given(const struct td_onnx_reader *r, const TdOnnx__Attribute *a)
{
    const struct td_onnx_inlined *call = r->inlined;
    while (a && a->ref_attr_name && *a->ref_attr_name && call) {
        const char *name = a->ref_attr_name;
        const TdOnnx__Function *f = call->function;
        a = find(call->node->attribute, call->node->n_attribute, name);
        if (!a)
            return find(f->attribute_proto, f->n_attribute_proto, name);
        call = call->outer;
    }
    return a;
}

/* ---- names ---- */

int td_onnx_look_up(const struct td_onnx_scope *scope, const char *name)
{
    for (; scope; scope = scope->outer) {
        int low = 0, high = scope->n;
        while (low < high) {
            int middle = low + (high - low) / 2;
            int order = strcmp(scope->name[middle].text, name);
            if (!order)
                return scope->name[middle].value;
            if (order < 0)
                low = middle + 1;
            else
                high = middle;
        }
    }
    return -1;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct td_onnx_name *)a)->text, ((const struct td_onnx_name *)b)->text);
}

static int add(struct td_onnx_reader *r, struct td_onnx_scope *scope, const char *name, int value)
{
    if (!name || !*name)
        return 0;
    scope->name[scope->n++] = (struct td_onnx_name){name, value, 0};
    return r->inlined_nodes > MOST
               ? td_onnx_wrong(r, "its calls of functions become more than %d nodes", MOST)
               : 0;
}

static bool is_output(const TdOnnx__Function *f, const char *name)
{
    for (size_t i = 0; i < f->n_output; i++)
        if (same(f->output[i], name))
            return true;
    return false;
}

/* A value of the call's, in the scope that it stands in; what it leaves out is no value. */
static int value_of(const struct td_onnx_scope *outer, char *const *names, size_t n, size_t i)
{
    return i < n && names[i] && *names[i] ? td_onnx_look_up(outer, names[i]) : TD_ONNX_LEFT_OUT;
}

static int name_values(struct td_onnx_reader *r, const TdOnnx__Node *node,
                       const TdOnnx__Function *f, const struct td_onnx_scope *outer,
                       struct td_onnx_scope *scope)
{
    int err = 0;
    for (size_t i = 0; i < f->n_input && !err; i++) {
        int value = value_of(outer, node->input, node->n_input, i);
        err = value == -1 ? td_onnx_wrong(r, "reads '%.100s', which nothing makes", node->input[i])
                          : add(r, scope, f->input[i], value);
    }
    for (size_t i = 0; i < f->n_output && !err; i++) {
        int value = value_of(outer, node->output, node->n_output, i);
        err = add(r, scope, f->output[i], value >= 0 ? value : td_program_value(r->model));
    }
    for (size_t i = 0; i < f->n_node && !err; i++)
        for (size_t k = 0; k < f->node[i]->n_output && !err; k++)
            if (!is_output(f, f->node[i]->output[k]))
                err = add(r, scope, f->node[i]->output[k], td_program_value(r->model));
    qsort(scope->name, (size_t)scope->n, sizeof *scope->name, compare);
    for (int i = 1; i < scope->n && !err; i++)
        if (same(scope->name[i - 1].text, scope->name[i].text))
            err = td_onnx_wrong(r, "'%.100s' is made twice in it", scope->name[i].text);
    return err;
}

/* ---- calls ---- */

static int read_body(struct td_onnx_reader *r, const TdOnnx__Function *f,
                     const struct td_onnx_scope *scope, td_onnx_node_reader *read, void *graph)
{
    int version = r->version, err = 0;
    bool imported = r->imported;
    for (size_t i = 0; i < f->n_opset_import; i++)
        if (td_onnx_is_own(f->opset_import[i]->domain)) {
            r->version = (int)f->opset_import[i]->version;
            r->imported = true;
        }
    for (size_t i = 0; i < f->n_node && !err; i++)
        err = read(r, f->node[i], scope, graph);
    r->version = version;
    r->imported = imported;
    return err;
}

int td_onnx_inline(struct td_onnx_reader *r, const TdOnnx__Node *node, const TdOnnx__Function *f,
                   const struct td_onnx_scope *outer, td_onnx_node_reader *read, void *graph)
{
    struct td_onnx_inlined call = {node, f, r->inlined, r->inlined ? r->inlined->depth + 1 : 1};
    struct td_onnx_scope scope = {0};
    size_t n = f->n_input + f->n_output;
    if (call.depth > DEPTH)
        return td_onnx_wrong(r, "functions call each other more than %d deep", DEPTH);
    if (node->n_input > f->n_input || node->n_output > f->n_output)
        return td_onnx_wrong(r, "function '%.60s' has %zu inputs and %zu outputs, not %zu and %zu",
                             td_onnx_or_empty(f->name), f->n_input, f->n_output, node->n_input,
                             node->n_output);
    for (size_t i = 0; i < f->n_node; i++)
        n += f->node[i]->n_output;
    r->inlined_nodes += f->n_node;
    scope.name = calloc(n + 1, sizeof *scope.name);
    if (!scope.name)
        return td_onnx_no_memory(r);
    int err = name_values(r, node, f, outer, &scope);
    r->inlined = &call;
    err = err ? err : read_body(r, f, &scope, read, graph);
    r->inlined = call.outer;
    free(scope.name);
    return err;
}
