/* A node of the archive's as one of the program's: which function says it in calls, and that its
 * arguments are those of the operator. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* "add_.Tensor" is add.Tensor, in place; "slice_copy.Tensor" is slice.Tensor: nothing shares memory
 * here. */
static const struct td_handle *find_handle(const char *name, bool *in_place)
{
    const struct td_handle *handle = td_registry_find(name);
    char plain[2 * TD_NAME_SIZE];
    size_t n = strcspn(name, ".");
    *in_place = false;
    bool copy = n > 5 && !memcmp(name + n - 5, "_copy", 5);
    size_t ending = copy ? 5 : 1;
    if (handle || n < 2 || (name[n - 1] != '_' && !copy) || strlen(name) >= sizeof plain)
        return handle;
    memcpy(plain, name, n - ending);
    strcpy(plain + n - ending, name + n);
    handle = td_registry_find(plain);
    *in_place = handle && !copy;
    return handle;
}

/* What says how PyTorch is to go about it, or what gradients want. */
static bool is_idle(const char *name)
{
    static const char *const idle[] = {"device",    "pin_memory",         "non_blocking",
                                       "copy",      "cudnn_enabled",      "cudnn_enable",
                                       "benchmark", "deterministic",      "allow_tf32",
                                       "sparse",    "scale_grad_by_freq", "implicit",
                                       "unsafe"};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strcmp(idle[i], name))
            return true;
    return false;
}

/* Leaves out what the operator here has no use for. */
static int fit_operands(struct td_pt2_graph *graph, const struct td_handle *handle,
                        struct td_node_operand *o, int *n)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        const char *name = o[i].name;
        const struct td_param *param = td_pt2_param(handle, name);
        bool none = o[i].kind == TD_OPERAND_none;
        if (name && !param && !none && !is_idle(name))
            return td_pt2_refuse(graph, "%.60s has no argument '%.60s' here", handle->full, name);
        if (name && (!param || (none && !td_type_takes_none(&param->type))))
            continue;
        if (o[i].kind == TD_OPERAND_graph)
            return td_pt2_refuse(graph, "a graph stands where %.60s takes none", handle->full);
        o[kept++] = o[i];
    }
    *n = kept;
    return kept <= TD_MAX_ARGS ? 0 : td_pt2_refuse(graph, "has too many arguments");
}

/* Whether a formula has a word. */
static bool has_word(const char *formula, const char *word)
{
    size_t n = strlen(word);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    while (*formula) {
        size_t length = strspn(formula, letters);
        if (n && length >= n && !memcmp(formula, word, n) && (length == n || !strcmp(word, "hx")))
            return true; /* hx: hx_0 and hx_1 */
        formula += length ? length : 1;
    }
    return false;
}

/* A formula must have a place for all that it is given, or it would say something else. */
static int check_formula(struct td_pt2_graph *graph, const struct td_pt2_target *target,
                         const struct td_node *node)
{
    for (int i = 0; i < node->n_operands && target->formula; i++) {
        const struct td_node_operand *o = &node->operand[i];
        const char *name = o->name ? o->name : "";
        if (o->kind != TD_OPERAND_none && !has_word(target->formula, name) && !is_idle(name) &&
            !(target->also && has_word(target->also, name)))
            return td_pt2_refuse(graph, "the argument '%.60s' is not understood here", name);
    }
    return 0;
}

/* What as_strided sees is memory: as it lies here only where it is dense. */
static int check_strided(struct td_pt2_graph *graph, const struct td_node *node, const cJSON *json)
{
    if (strncmp(node->op, "as_strided", 10))
        return 0;
    const cJSON *inputs = td_pt2_get(json, "inputs");
    const cJSON *member = td_pt2_argument(td_pt2_get(inputs ? inputs->child : NULL, "arg"));
    const char *name = td_pt2_text(member, "name");
    const struct td_pt2_value *of = name ? td_pt2_value(graph, name) : NULL;
    int64_t offset;
    bool dense =
        of && td_pt2_is_dense(of->meta) &&
        td_pt2_whole(td_pt2_get(td_pt2_get(of->meta, "storage_offset"), "as_int"), &offset) &&
        !offset;
    return dense ? 0
                 : td_pt2_refuse(graph, "sees a tensor's memory, which lies in another way here");
}

/* Those that PyTorch itself has others for may be rewritten in these before they are saved. */
static int refuse_operator(struct td_pt2_graph *graph, const char *op)
{
    static const char *const composites[] = {"gradient", "isin", "quantile", "trapezoid", "trapz"};
    const char *name = strrchr(op, ':');
    name = name ? name + 1 : !strncmp(op, "torch.ops.", 10) ? op + 10 : op;
    name += !strncmp(name, "aten.", 5) ? 5 : 0;
    size_t n = strcspn(name, ".");
    for (size_t i = 0; i < sizeof composites / sizeof *composites; i++)
        if (strlen(composites[i]) == n && !strncmp(name, composites[i], n))
            return td_pt2_refuse(graph,
                                 "there is no such operator here, but others that make it: save "
                                 "exported_program.run_decompositions()");
    return td_pt2_refuse(graph, "there is no such operator here");
}

/* Where a target has its graphs. */
static int check_graphs(struct td_pt2_graph *graph, const struct td_pt2_target *target,
                        const struct td_node *node)
{
    const struct td_node_operand *o = node->operand;
    bool cond = target->lower == td_pt2_cond, loop = target->lower == td_pt2_while;
    bool map = target->lower == td_pt2_map, one = map || target->lower == td_pt2_inline;
    int n = 0, wanted = cond || loop ? 2 : one ? 1 : 0, first = cond ? 1 : 0;
    for (int i = 0; i < node->n_operands; i++)
        n += o[i].kind == TD_OPERAND_graph;
    bool right = n == wanted && node->n_operands > wanted;
    for (int i = first; right && i < first + wanted && (cond || loop || map); i++)
        right = o[i].kind == TD_OPERAND_graph;
    return right || (!wanted && !n && node->n_operands)
               ? 0
               : td_pt2_refuse(graph, "has other arguments than torch.export gives it");
}

/* An effect's node has a token, which stands for its place among the others, and an operator before
 * that one's own arguments: of them there is but one here. */
static int skip_effect(struct td_pt2_graph *graph, const struct td_node *node, const cJSON *json,
                       int *skip)
{
    const cJSON *inputs = td_pt2_get(json, "inputs");
    const cJSON *second = cJSON_GetArraySize(inputs) > 2 ? cJSON_GetArrayItem(inputs, 1) : NULL;
    const char *op = td_pt2_text(td_pt2_get(second, "arg"), "as_operator");
    *skip = 0;
    if (strcmp(node->op, "higher_order.with_effects") != 0)
        return 0;
    *skip = 2;
    return op && !strcmp(op, "torch.ops.aten._linalg_check_errors.default")
               ? 0
               : td_pt2_refuse(graph, "has an effect that is not known here: %.60s", op ? op : "");
}

int td_pt2_emit(struct td_pt2_graph *graph, const cJSON *json, const int *out, int n_outs,
                bool *in_place)
{
    struct td_node_operand *operand;
    struct td_node node = {.out = out, .n_outs = n_outs, .op = td_pt2_short(graph, json)};
    const char *name = td_pt2_text(json, "name");
    int skip = 0, err = node.op ? skip_effect(graph, &node, json, &skip) : -ENOMEM;
    err = err ? err : td_pt2_operands(graph, json, skip, 0, &operand, &node.n_operands);
    bool writes = false;
    if (err)
        return err;
    node.operand = operand;
    node.name = name ? td_program_text(graph->pt2->model, name, strlen(name)) : "";
    const struct td_pt2_target *target = td_pt2_target(node.op);
    if (target && target->lower) {
        node.lower = target->lower;
        node.form = target;
        writes = target->how == 'w' && target->formula;
        err = check_graphs(graph, target, &node);
        err = err ? err : check_formula(graph, target, &node);
    } else {
        const struct td_handle *handle = find_handle(node.op, &writes);
        node.lower = td_pt2_call_any;
        node.form = handle;
        err = handle ? check_strided(graph, &node, json) : 0;
        if (!err)
            err = handle ? fit_operands(graph, handle, operand, &node.n_operands)
                         : refuse_operator(graph, node.op);
    }
    if (in_place)
        *in_place = writes;
    return err ? err : node.name ? td_pt2_append(graph, &node) : -ENOMEM;
}
