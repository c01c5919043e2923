/* A model from its file to its end: which importer reads it, what its ports are, and whether a
 * client's tensors fit them. */
#include "dispatch/model/model.h"
#include "dispatch/passes/passes.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A zip begins with its mark, JSON with a brace; everything else that is not ONNX is said to be so
 * by its importer. */
static td_importer *importer_of(const char *file, size_t size, const char **format)
{
    size_t at = 0;
    while (at < size && strchr(" \t\r\n", file[at]) && file[at])
        at++;
    bool zip = size >= 4 && !memcmp(file, "PK\3\4", 4), brace = at < size && file[at] == '{';
    *format = zip ? "pt2" : brace ? "json" : "onnx";
    return zip ? td_import_pt2 : brace ? td_import_expr : td_import_onnx;
}

/* An empty one; NULL: there is no memory, or the room's word is in *err. */
static struct td_model *create(struct td_weight_room *room, int *err)
{
    struct td_model *m = calloc(1, sizeof *m);
    *err = -ENOMEM;
    if (!m)
        return NULL;
    m->refs = 1;
    m->room = room;
    if (!(*err = td_program_take(m, sizeof *m))) {
        m->arena = td_program_arena(m);
        if (m->arena) {
            pthread_mutex_init(&m->lock_, NULL);
            return m;
        }
        *err = m->short_ ? m->short_ : -ENOMEM;
        td_program_give(m, sizeof *m);
    }
    free(m);
    return NULL;
}

int td_model_load(struct td_model **model, const void *file, size_t size, const char *beside,
                  struct td_weight_room *room, struct td_problem *problem)
{
    int err;
    struct td_model *m = create(room, &err);
    *model = NULL;
    if (!m)
        return td_problem_set(problem, -err, "no memory for the model");
    *problem->text = 0;
    m->beside = beside;
    td_importer *import = importer_of(file, size, &m->format);
    err = import(m, file, size, problem);
    m->beside = NULL;
    err = err ? err : td_program_close(m, problem); /* judges it, too */
    err = err ? err : td_program_fold(m, problem);
    if (!err && m->n_folded) /* else nothing has changed */
        err = td_program_close(m, problem);
    if (!err && import == td_import_expr)
        td_expr_find_types(m);
    if (err == -ENOMEM && m->short_) /* whatever was made of it on the way */
        err = m->short_;
    if (err && !*problem->text)
        td_problem_set(problem, -err, "no memory for the model's constants");
    if (err)
        td_model_unref(&m);
    *model = m;
    return err;
}

struct td_model *td_model_ref(struct td_model *model)
{
    atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
    return model;
}

void td_model_unref(struct td_model **model)
{
    struct td_model *m = *model;
    *model = NULL;
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) > 1)
        return;
    td_plans_free(m);
    td_derived_free(m);
    pthread_mutex_destroy(&m->lock_);
    for (int i = 0; i < m->n_constants; i++)
        td_weight_unref(&m->constant[i].weight);
    td_arena_destroy(m->arena);
    td_program_give(m, sizeof *m);
    free(m);
}

const char *td_model_format(const struct td_model *model)
{
    return model->format;
}

int td_model_count_nodes(const struct td_model *model)
{
    return model->n_nodes;
}

int td_model_count_folded(const struct td_model *model)
{
    return model->n_folded;
}

size_t td_model_bytes(const struct td_model *model)
{
    size_t bytes = model->held_;
    for (int i = 0; i < model->n_constants; i++)
        bytes += model->constant[i].weight ? td_weight_bytes(model->constant[i].weight) : 0;
    return bytes;
}

int td_model_inputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->input;
    return model->n_inputs;
}

int td_model_outputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->output;
    return model->n_outputs;
}

/* ---- checking ---- */

/* "[?, 3, 224]" */
static void write_shape(char *text, size_t size, const int64_t *shape, int rank)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)(shape[d] < 0 ? snprintf(text + at, size - at, "%s?", d ? ", " : "")
                                    : snprintf(text + at, size - at, "%s%lld", d ? ", " : "",
                                               (long long)shape[d]));
    if (at < size)
        snprintf(text + at, size - at, "]");
}

static bool has_shape(const struct td_model_port *port, const struct td_tensor *t)
{
    bool right = port->rank < 0 || port->rank == t->rank;
    for (int d = 0; d < port->rank && right; d++)
        right = port->shape[d] < 0 || port->shape[d] == t->shape[d];
    return right;
}

int td_model_check(const struct td_model *model, const struct td_tensor *inputs, int n,
                   struct td_problem *problem)
{
    if (n != model->n_inputs)
        return td_problem_set(problem, EINVAL, "inputs: the model has %d, but %d were given",
                              model->n_inputs, n);
    for (int i = 0; i < n; i++) {
        const struct td_model_port *port = &model->input[i];
        char is[200], right[200];
        if (port->dtype && inputs[i].dtype != port->dtype)
            return td_problem_set(problem, EINVAL, "%.80s: must be %s, but is %s", port->name,
                                  td_dtype_name(port->dtype), td_dtype_name(inputs[i].dtype));
        if (has_shape(port, &inputs[i]))
            continue;
        write_shape(right, sizeof right, port->shape, port->rank);
        write_shape(is, sizeof is, inputs[i].shape, inputs[i].rank);
        return td_problem_set(problem, EINVAL, "%.80s: must have the shape %s, but has %s",
                              port->name, right, is);
    }
    return 0;
}

/* ---- listing ---- */

static void visit(const struct td_node_graph *graph, int depth, td_each_node *each, void *arg)
{
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct td_node *node = &graph->node[i];
        each(arg, node->name, node->op, depth);
        for (int k = 0; k < node->n_operands; k++)
            if (node->operand[k].kind == TD_OPERAND_graph)
                visit(node->operand[k].graph, depth + 1, each, arg);
    }
}

void td_model_each_node(const struct td_model *model, td_each_node *each, void *arg)
{
    visit(&model->graph, 0, each, arg);
}
