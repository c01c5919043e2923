/* Models written by hand: a JSON object with inputs, constants, and an expression over them in the
 * language of dispatch/graph/graph.h, whose results are the outputs.
 *
 *   {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
 *    "constants": [{"name": "w", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}],
 *    "expr": "y = relu(linear(x, w))"} */
#include "dispatch/graph/graph.h"
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST TD_FORMULA_ARGS         /* inputs and constants, at most */
#define MOST_NS INT64_C(1000000000)  /* that finding the outputs' types may take */
#define MOST_BYTES ((size_t)1 << 46) /* of an operand, above which results are not inferred */
#define MOST_SIZE ((int64_t)1 << 53) /* of an input's dimension */
#define MOST_TRIED ((size_t)1 << 20) /* bytes of an input when types are found */

struct reading {
    struct td_model *model;
    struct td_arena *once; /* memory that is freed after reading */
    struct td_problem *problem;
    struct td_node_operand *operand; /* all inputs, then all constants */
    struct td_named named[MOST];     /* the operands as arguments without data */
    bool huge;                       /* an operand is larger than MOST_BYTES */
    int n;
};

static int lower(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    struct td_given given[MOST];
    struct td_item result[TD_MAX_OUTS];
    int n;
    for (int i = 0; i < node->n_operands; i++)
        given[i] = (struct td_given){node->operand[i].name, in[i]};
    int err = td_walk_formula(walk, node->form, given, node->n_operands, result, &n);
    for (int i = 0; i < node->n_outs && !err; i++)
        if (td_is_plain(&result[i].v))
            err = TD_CALL(walk, "clone", &out[i], TD_GIVE(result[i]));
        else
            out[i] = result[i];
    return err;
}

/* Reads the name, type and shape of an input or constant. least: the smallest size allowed. */
static int read_tensor(struct reading *r, const cJSON *json, const char *what, int64_t least,
                       struct td_tensor *t, const char **name)
{
    const cJSON *shape = td_pt2_get(json, "shape"), *size;
    const char *type = td_pt2_text(json, "datatype");
    *name = td_pt2_text(json, "name");
    *t = (struct td_tensor){.dtype = type ? td_dtype_find(type) : TD_DTYPE_none};
    if (!*name || !**name)
        return td_problem_set(r->problem, EINVAL, "%s: each has a name", what);
    if (!t->dtype)
        return td_problem_set(r->problem, EINVAL, "%s: %.60s: datatype must be one of%s", what,
                              *name, td_dtype_names);
    if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > TD_MAX_RANK)
        return td_problem_set(r->problem, EINVAL, "%s: %.60s: shape must be a list of at most %d",
                              what, *name, TD_MAX_RANK);
    cJSON_ArrayForEach(size, shape)
    {
        int64_t *d = &t->shape[t->rank++];
        if (!td_pt2_whole(size, d) || *d < least || *d > MOST_SIZE)
            return td_problem_set(r->problem, EINVAL,
                                  "%s: %.60s: shape must have sizes from %d to 2^53", what, *name,
                                  (int)least);
    }
    *name = td_program_text(r->model, *name, strlen(*name));
    return *name ? 0 : td_problem_set(r->problem, ENOMEM, "no memory for the model");
}

static int add_operand(struct reading *r, const char *name, const struct td_tensor *t, int value)
{
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->operand[i].name, name))
            return td_problem_set(r->problem, EINVAL, "%.60s: is the name of two", name);
    struct td_named *named = &r->named[r->n];
    struct td_tensor least = *t;
    for (int i = 0; i < t->rank; i++)
        least.shape[i] = t->shape[i] < 1 ? 1 : t->shape[i];
    r->huge |= !td_fits(&least) || td_nbytes(&least) > MOST_BYTES;
    *named =
        (struct td_named){name, {.kind = TD_KIND_tensor, .tensor = *t}, td_keyset_of(TD_KEY_Meta)};
    named->value.tensor.data = NULL;
    r->operand[r->n++] =
        (struct td_node_operand){.name = name, .kind = TD_OPERAND_value, .value = value};
    return 0;
}

static int read_inputs(struct reading *r, const cJSON *inputs)
{
    struct td_model *m = r->model;
    int n = cJSON_GetArraySize(inputs), err = 0;
    int *value = td_program_alloc(m, sizeof *value * (size_t)n);
    m->input = td_program_alloc(m, sizeof *m->input * (size_t)n);
    m->graph.input = value;
    if (!value || !m->input)
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    for (const cJSON *one = inputs ? inputs->child : NULL; one && !err; one = one->next) {
        struct td_model_port *port = &m->input[m->n_inputs];
        struct td_tensor t;
        err = read_tensor(r, one, "inputs", -1, &t, &port->name);
        if (err)
            break;
        port->dtype = t.dtype;
        port->rank = t.rank;
        memcpy(port->shape, t.shape, sizeof port->shape);
        value[m->n_inputs++] = td_program_value(m);
        err = add_operand(r, port->name, &t, value[m->n_inputs - 1]);
    }
    m->graph.n_inputs = m->n_inputs;
    return err;
}

static int read_constant(struct reading *r, const cJSON *json)
{
    const cJSON *data = td_pt2_get(json, "data");
    struct td_tensor t;
    const char *name;
    int err = read_tensor(r, json, "constants", 0, &t, &name);
    if (err)
        return err;
    if (t.dtype != TD_f32 && t.dtype != TD_f64 && t.dtype != TD_i64)
        return td_problem_set(r->problem, EINVAL,
                              "constants: %.60s: FP32, FP64 or INT64 is right; the expression may "
                              "convert it",
                              name);
    if (!cJSON_IsArray(data) || !td_fits(&t) || cJSON_GetArraySize(data) != td_numel(&t))
        return td_problem_set(r->problem, EINVAL,
                              "constants: %.60s: data must be a flat list of as many numbers as "
                              "its shape says",
                              name);
    char *at = td_arena_alloc(r->once, td_nbytes(&t) + 1);
    t.data = at;
    if (!at)
        return td_problem_set(r->problem, ENOMEM, "no memory for a constant");
    for (const cJSON *one = data->child; one && !err; one = one->next) {
        int64_t whole = 0;
        bool right = t.dtype == TD_i64 ? td_pt2_whole(one, &whole) : cJSON_IsNumber(one);
        if (!right)
            err = td_problem_set(r->problem, EINVAL, "constants: %.60s: data has what is no %s",
                                 name, td_dtype_name(t.dtype));
        else if (t.dtype == TD_f32)
            *(float *)at = (float)one->valuedouble;
        else if (t.dtype == TD_f64)
            *(double *)at = one->valuedouble;
        else
            *(int64_t *)at = whole;
        at += td_dtype_size(t.dtype);
    }
    int value = td_program_value(r->model);
    if (!err && (err = td_program_constant(r->model, value, &t)))
        td_problem_set(r->problem, -err, "no room for the constant %.60s", name);
    return err ? err : add_operand(r, name, &t, value);
}

/* Makes outputs of the named results, or of a single one without a name, which is called out. */
static int read_outputs(struct reading *r, const struct td_graph *graph, struct td_node *node)
{
    struct td_model *m = r->model;
    int n = 0;
    int *out = td_program_alloc(m, sizeof *out * TD_MAX_OUTS);
    m->output = td_program_alloc(m, sizeof *m->output * TD_MAX_OUTS);
    if (!out || !m->output)
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    for (int i = 0; i < graph->n_results && n < TD_MAX_OUTS; i++) {
        const char *name = graph->named ? graph->result[i].name : "out";
        if (graph->named && *name == '_')
            continue;
        m->output[n] =
            (struct td_model_port){.name = td_program_text(m, name, strlen(name)), .rank = -1};
        if (!m->output[n].name)
            return td_problem_set(r->problem, ENOMEM, "no memory for the model");
        out[n++] = td_program_value(m);
    }
    if (!n)
        return td_problem_set(r->problem, EINVAL, "expr: there is no result");
    node->out = m->graph.output = out;
    node->n_outs = m->graph.n_outputs = m->n_outputs = n;
    return 0;
}

/* Sets the outputs' types and shapes, if they can be inferred from those of the inputs and
 * constants; errors are ignored. */
static void infer_outputs(struct reading *r, const char *expr)
{
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = r->once};
    struct td_run *run = td_arena_alloc(r->once, sizeof *run);
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_Meta), 0);
    bool known = run && !r->huge && !td_run_infer(run, NULL, expr, r->named, r->n, &options);
    td_keys_leave(before);
    for (int i = 0; known && i < r->model->n_outputs && run->call.n_out == r->model->n_outputs;
         i++) {
        struct td_model_port *port = &r->model->output[i];
        port->dtype = run->call.out[i].dtype;
        port->rank = run->call.out[i].rank;
        memcpy(port->shape, run->call.out[i].shape, sizeof port->shape);
    }
}

/* Parses the expression once, so that errors in it are reported at loading. */
static int read_expr(struct reading *r, const char *expr, struct td_node *node)
{
    struct td_graph_use use;
    int err = td_graph_read(&use, expr, r->named, r->n, "expr", r->problem);
    err = err ? err : read_outputs(r, use.graph, node);
    td_graph_release(&use);
    if (!err)
        infer_outputs(r, expr);
    return err;
}

static int read_model(struct reading *r, const cJSON *json)
{
    const cJSON *inputs = td_pt2_get(json, "inputs"), *constants = td_pt2_get(json, "constants");
    const char *expr = td_pt2_text(json, "expr");
    struct td_model *m = r->model;
    if (!expr || (inputs && !cJSON_IsArray(inputs)) || (constants && !cJSON_IsArray(constants)))
        return td_problem_set(r->problem, EINVAL,
                              "a model in JSON has an expression \"expr\", and lists \"inputs\" "
                              "and \"constants\"");
    if (cJSON_GetArraySize(inputs) + cJSON_GetArraySize(constants) > MOST)
        return td_problem_set(r->problem, EINVAL,
                              "inputs, constants: there are more than %d of them", MOST);
    struct td_node *node = td_program_alloc(m, sizeof *node);
    r->operand = td_program_alloc(m, sizeof *r->operand * MOST);
    if (!node || !r->operand)
        return td_problem_set(r->problem, ENOMEM, "no memory for the model");
    int err = read_inputs(r, inputs);
    for (const cJSON *one = constants ? constants->child : NULL; one && !err; one = one->next)
        err = read_constant(r, one);
    *node = (struct td_node){.name = "expr", .op = "eval", .lower = lower};
    err = err ? err : read_expr(r, expr, node);
    node->form = td_program_text(m, expr, strlen(expr));
    if (!err && !node->form)
        err = td_problem_set(r->problem, ENOMEM, "no memory for the model");
    node->operand = r->operand;
    node->n_operands = r->n;
    m->graph.node = node;
    m->graph.n_nodes = 1;
    return err;
}

int td_import_expr(struct td_model *model, const void *file, size_t size,
                   struct td_problem *problem)
{
    struct td_pt2_json json = {0};
    struct td_arena *once = td_arena_create();
    struct reading r = {.model = model, .once = once, .problem = problem};
    char *text = once ? td_arena_strdup(once, file, size) : NULL; /* parsing changes it */
    int err = text ? td_pt2_parse(&json, text, size, "the model", problem)
                   : td_problem_set(problem, ENOMEM, "no memory for the model");
    err = err ? err : read_model(&r, json.root);
    td_pt2_free(&json);
    td_arena_destroy(once);
    return err;
}

/* Finds the types of outputs that could not be inferred, by a run on zeros in which free sizes
 * are 1. If that fails, outputs are FP32. */
void td_expr_find_types(struct td_model *model)
{
    struct td_tensor input[MOST];
    struct td_stop stop = {.deadline_ns = td_clock_ns() + MOST_NS};
    struct td_model_call call = {.threads = 1, .node = -1, .eager = true, .stop = &stop};
    struct td_model_results *results = NULL;
    struct td_problem why;
    bool made = true;
    if (model->n_outputs && model->output[0].dtype)
        return;
    for (int i = 0; i < model->n_inputs; i++) {
        input[i] = (struct td_tensor){.dtype = model->input[i].dtype, .rank = model->input[i].rank};
        for (int d = 0; d < input[i].rank; d++)
            input[i].shape[d] = model->input[i].shape[d] < 0 ? 1 : model->input[i].shape[d];
        input[i].data = td_fits(&input[i]) && td_nbytes(&input[i]) <= MOST_TRIED
                            ? calloc(td_nbytes(&input[i]) + 64, 1)
                            : NULL;
        made = made && input[i].data;
    }
    if (made && !td_model_run(model, input, &call, &results, &why))
        for (int i = 0; i < model->n_outputs; i++) {
            model->output[i].dtype = td_model_result(results, i)->dtype;
            model->output[i].rank = td_model_result(results, i)->rank;
            memset(model->output[i].shape, -1, sizeof model->output[i].shape);
        }
    for (int i = 0; i < model->n_outputs; i++)
        if (!model->output[i].dtype)
            model->output[i].dtype = TD_f32;
    td_model_free_results(&results);
    for (int i = 0; i < model->n_inputs; i++)
        free(input[i].data);
}
