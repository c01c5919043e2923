/* An ONNX file becomes a program: graphs, their names, their constants and nodes, and what the
 * model takes and gives. Names are looked up in sorted lists, one a graph, and outwards; that each
 * value is made before it is read is seen when the program is closed. */
#include "dispatch/onnx/function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 16  /* of graphs in graphs */
#define NEWEST 28 /* operator set that the table was written by */

enum { NAME_initializer, NAME_input, NAME_made };

/* ---- names ---- */

static int compare(const void *a, const void *b)
{
    const struct td_onnx_name *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : x->kind - y->kind;
}

static int add(struct td_onnx_reader *r, struct td_onnx_scope *scope, const char *name, int kind)
{
    if (!name || !*name) /* nobody wants it */
        return kind == NAME_made ? 0 : td_onnx_wrong(r, "an input or a tensor has no name");
    scope->name[scope->n++] = (struct td_onnx_name){name, -1, kind};
    return 0;
}

/* Of an initializer and the input that it is a default of, the first alone stays. */
static int number(struct td_onnx_reader *r, struct td_onnx_scope *scope)
{
    int n = 0;
    for (int i = 0; i < scope->n; i++) {
        const struct td_onnx_name *name = &scope->name[i], *last = &scope->name[n - 1];
        bool again = n && !strcmp(name->text, last->text);
        if (again && (last->kind != NAME_initializer || name->kind != NAME_input))
            return td_onnx_wrong(r, "'%.100s' is made twice", name->text);
        if (again)
            continue;
        scope->name[n] = *name;
        scope->name[n++].value = td_program_value(r->model);
    }
    scope->n = n;
    return 0;
}

/* All names of a graph; the caller frees scope->name. */
static int read_names(struct td_onnx_reader *r, const TdOnnx__Graph *from,
                      struct td_onnx_scope *scope)
{
    size_t n = from->n_initializer + from->n_input;
    for (size_t i = 0; i < from->n_node; i++)
        n += from->node[i]->n_output;
    scope->name = n < INT32_MAX ? calloc(n + 1, sizeof *scope->name) : NULL;
    if (!scope->name)
        return td_onnx_no_memory(r);
    int err = 0;
    for (size_t i = 0; i < from->n_initializer && !err; i++)
        err = add(r, scope, from->initializer[i]->name, NAME_initializer);
    for (size_t i = 0; i < from->n_input && !err; i++)
        err = add(r, scope, from->input[i]->name, NAME_input);
    for (size_t i = 0; i < from->n_node && !err; i++)
        for (size_t k = 0; k < from->node[i]->n_output && !err; k++)
            err = add(r, scope, from->node[i]->output[k], NAME_made);
    if (err)
        return err;
    qsort(scope->name, (size_t)scope->n, sizeof *scope->name, compare);
    return number(r, scope);
}

/* ---- graphs ---- */

static bool is_input(const struct td_onnx_scope *scope, const TdOnnx__Port *port)
{
    struct td_onnx_name key = {port->name, 0, NAME_input};
    return bsearch(&key, scope->name, (size_t)scope->n, sizeof key, compare) != NULL;
}

static int read_ends(struct td_onnx_reader *r, const TdOnnx__Graph *from,
                     const struct td_onnx_scope *scope, struct td_node_graph *graph)
{
    int *input = td_program_alloc(r->model, sizeof *input * from->n_input);
    int *output = td_program_alloc(r->model, sizeof *output * from->n_output);
    if (!input || !output)
        return td_onnx_no_memory(r);
    graph->input = input;
    graph->output = output;
    graph->n_outputs = (int)from->n_output;
    for (size_t i = 0; i < from->n_input; i++)
        if (is_input(scope, from->input[i]))
            input[graph->n_inputs++] = td_onnx_look_up(scope, from->input[i]->name);
    for (size_t i = 0; i < from->n_output; i++) {
        const char *name = td_onnx_or_empty(from->output[i]->name);
        output[i] = td_onnx_look_up(scope, name);
        if (output[i] < 0)
            return td_onnx_wrong(r, "output '%.100s' is made by nothing", name);
    }
    return 0;
}

/* ---- what the model takes and gives ---- */

/* ZipMap makes maps of classes to scores; here it is the scores, in the order of the classes. */
static bool is_zipped(const TdOnnx__Graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        const TdOnnx__Node *node = graph->node[i];
        if (node->op_type && !strcmp(node->op_type, "ZipMap") && node->n_output == 1 &&
            !strcmp(node->output[0], name))
            return true;
    }
    return false;
}

static int read_port(struct td_onnx_reader *r, const TdOnnx__Graph *graph, const TdOnnx__Port *from,
                     bool is_result, struct td_model_port *port)
{
    const char *name = td_onnx_or_empty(from->name);
    const TdOnnx__TensorType *type = from->type ? from->type->tensor_type : NULL;
    *port = (struct td_model_port){.rank = -1};
    port->name = td_program_text(r->model, name, strlen(name));
    if (!port->name)
        return td_onnx_no_memory(r);
    if (from->type && !type && !(is_result && is_zipped(graph, name)))
        return td_onnx_wrong(
            r, "'%.100s' is a sequence, a map, optional or sparse; tensors are right", name);
    port->texts = type && type->elem_type == TD_ONNX_STRING;
    if (type)
        port->dtype = port->texts ? TD_i64 : td_onnx_dtype(type->elem_type);
    port->declared = is_result && port->dtype;
    if (type && type->elem_type && !port->dtype)
        return td_onnx_wrong(r, "'%.100s': there are no elements of type %s here", name,
                             td_onnx_type_name(type->elem_type));
    if (!port->dtype && !is_result)
        return td_onnx_wrong(r, "input '%.100s' has no type", name);
    if (!type || !type->shape)
        return 0;
    if (type->shape->n_dim > TD_MAX_RANK)
        return td_onnx_wrong(r, "'%.100s': at most %d dimensions are right, not %zu", name,
                             TD_MAX_RANK, type->shape->n_dim);
    port->rank = (int)type->shape->n_dim;
    for (int d = 0; d < port->rank; d++) {
        const TdOnnx__Dim *dim = type->shape->dim[d];
        port->shape[d] = dim->has_dim_value && dim->dim_value >= 0 ? dim->dim_value : -1;
        if (port->shape[d] >= 0 || !dim->dim_param || !*dim->dim_param)
            continue;
        port->symbol[d] = td_program_text(r->model, dim->dim_param, strlen(dim->dim_param));
        if (!port->symbol[d])
            return td_onnx_no_memory(r);
    }
    return 0;
}

static int read_ports(struct td_onnx_reader *r, const TdOnnx__Graph *from,
                      const struct td_onnx_scope *scope)
{
    struct td_model *model = r->model;
    int err = 0;
    model->input = td_program_alloc(model, sizeof *model->input * from->n_input);
    model->output = td_program_alloc(model, sizeof *model->output * from->n_output);
    if (!model->input || !model->output)
        return td_onnx_no_memory(r);
    for (size_t i = 0; i < from->n_input && !err; i++) {
        struct td_model_port *port = &model->input[model->n_inputs];
        if (!is_input(scope, from->input[i]))
            continue;
        model->n_inputs++;
        err = read_port(r, from, from->input[i], false, port);
        if (r->cut[i].how) {
            port->name = r->cut[i].name;
            port->tokenizer = r->cut[i].how;
            port->rank = -1; /* of the words, the shape of a call's strings is another */
        }
    }
    for (size_t i = 0; i < from->n_output && !err; i++) {
        struct td_model_port *port = &model->output[model->n_outputs++];
        err = read_port(r, from, from->output[i], true, port);
        if (!err)
            err = td_onnx_check_text(r, port, model->graph.output[i], port->texts);
    }
    return err;
}

/* ---- nodes ---- */

static bool is_constant(const TdOnnx__Node *node)
{
    return node->op_type && !strcmp(node->op_type, "Constant") && node->n_output == 1 &&
           *node->output[0] && (!node->domain || !*node->domain);
}

static td_onnx_graph_reader read_inner;

struct nodes { /* of a graph, which functions make more of */
    struct td_node_graph *graph;
    int room;
};

static int make_room(struct td_onnx_reader *r, struct nodes *to, size_t room)
{
    struct td_node *node =
        room < INT32_MAX ? td_program_alloc(r->model, sizeof *node * room) : NULL;
    if (!node)
        return td_onnx_no_memory(r);
    if (to->graph->n_nodes)
        memcpy(node, to->graph->node, sizeof *node * (size_t)to->graph->n_nodes);
    to->graph->node = node;
    to->room = (int)room;
    return 0;
}

static int read_node(struct td_onnx_reader *r, const TdOnnx__Node *node,
                     const struct td_onnx_scope *scope, void *arg)
{
    struct nodes *to = arg;
    const TdOnnx__Function *function = td_onnx_function(r, node);
    if (function)
        return td_onnx_inline(r, node, function, scope, read_node, to);
    if (is_constant(node))
        return td_onnx_constant_node(r, node, td_onnx_look_up(scope, node->output[0]));
    int err = to->graph->n_nodes == to->room ? make_room(r, to, 2 * (size_t)to->room + 8) : 0;
    return err ? err
               : td_onnx_node(r, node, scope, &to->graph->node[to->graph->n_nodes++], read_inner);
}

static int read_nodes(struct td_onnx_reader *r, const TdOnnx__Graph *from,
                      const struct td_onnx_scope *scope, struct td_node_graph *graph)
{
    struct nodes to = {graph, 0};
    int err = make_room(r, &to, from->n_node + 1);
    for (size_t i = 0; i < from->n_node && !err; i++)
        err = read_node(r, from->node[i], scope, &to);
    return err;
}

/* The inputs that are texts. */
static int mark_texts(struct td_onnx_reader *r, const TdOnnx__Graph *from,
                      const struct td_onnx_scope *scope)
{
    int err = 0;
    for (size_t i = 0; i < from->n_input && !err; i++) {
        const TdOnnx__Type *type = from->input[i]->type;
        if (type && type->tensor_type && type->tensor_type->elem_type == TD_ONNX_STRING)
            err = td_onnx_set_text(r, td_onnx_look_up(scope, from->input[i]->name),
                                   TD_ONNX_TEXT_sent);
    }
    return err;
}

static int read_graph(struct td_onnx_reader *r, TdOnnx__Graph *from,
                      const struct td_onnx_scope *outer, struct td_node_graph *graph)
{
    struct td_onnx_scope scope = {.outer = outer};
    int err = from->n_sparse_initializer
                  ? td_onnx_wrong(r, "sparse tensors are not right here; dense ones are")
                  : 0;
    err = err || outer ? err : td_onnx_read_tokenizers(r, from);
    err = err ? err : read_names(r, from, &scope);
    for (size_t i = 0; i < from->n_initializer && !err; i++)
        err = td_onnx_tensor_value(r, td_onnx_look_up(&scope, from->initializer[i]->name),
                                   from->initializer[i]);
    err = err ? err : mark_texts(r, from, &scope);
    err = err ? err : read_nodes(r, from, &scope, graph);
    err = err ? err : read_ends(r, from, &scope, graph);
    err = err || outer ? err : read_ports(r, from, &scope);
    free(scope.name);
    return err;
}

static int note_types(struct td_onnx_reader *r, const TdOnnx__Graph *from)
{
    unsigned char *given = td_program_alloc(r->model, from->n_output);
    if (!given)
        return td_onnx_no_memory(r);
    for (size_t i = 0; i < from->n_output; i++) {
        const TdOnnx__Type *type = from->output[i]->type;
        if (type && type->tensor_type)
            given[i] = (unsigned char)type->tensor_type->elem_type;
    }
    r->given = given;
    r->n_given = (int)from->n_output;
    return 0;
}

/* What an If, a Loop or a Scan has inside: its bytes are a message of their own. */
static int read_inner(struct td_onnx_reader *r, const ProtobufCBinaryData *bytes,
                      const struct td_onnx_scope *outer, struct td_node_graph **graph)
{
    if (r->depth == DEPTH)
        return td_onnx_wrong(r, "graphs stand in each other more than %d deep", DEPTH);
    *graph = td_program_alloc(r->model, sizeof **graph);
    if (!*graph)
        return td_onnx_no_memory(r);
    TdOnnx__Graph *from = td_onnx_unpack(r, &td_onnx__graph__descriptor, bytes->data, bytes->len);
    if (!from)
        return *r->problem->text && r->exhausted ? -ENOMEM : -EINVAL;
    r->depth++;
    int err = read_graph(r, from, outer, *graph);
    r->depth--;
    err = err ? err : note_types(r, from);
    protobuf_c_message_free_unpacked(&from->base, &r->memory);
    return err;
}

/* ---- the file ---- */

static int read_version(struct td_onnx_reader *r, const TdOnnx__Model *from)
{
    for (size_t i = 0; i < from->n_opset_import; i++) {
        const TdOnnx__Opset *set_ = from->opset_import[i];
        if (!td_onnx_is_own(set_->domain))
            continue;
        if (set_->version < 1 || set_->version > NEWEST)
            return td_onnx_wrong(r, "the model is of operator set %lld; 6 to %d are right",
                                 (long long)set_->version, NEWEST);
        r->version = (int)set_->version;
    }
    if (!from->n_opset_import)
        return td_onnx_wrong(r, "the file says of no operator set; it is no ONNX model");
    r->imported = r->version;
    if (!r->version) /* the nodes are of other sets, as a tree's are */
        r->version = NEWEST;
    return 0;
}

int td_import_onnx(struct td_model *model, const void *file, size_t size,
                   struct td_problem *problem)
{
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, model, file, size, problem);
    TdOnnx__Model *from = td_onnx_unpack(&r, &td_onnx__model__descriptor, file, size);
    if (!from)
        return r.exhausted ? -ENOMEM : -EINVAL;
    r.file = from;
    int err = from->graph ? read_version(&r, from)
                          : td_onnx_wrong(&r, "the file has no graph; it is no ONNX model");
    err = err ? err : read_graph(&r, from->graph, NULL, &model->graph);
    protobuf_c_message_free_unpacked(&from->base, &r.memory);
    err = err ? err : td_onnx_join_pairs(&r);
    err = err ? err : td_onnx_settle_loops(model);
    return err ? err : td_onnx_pick_rows(model);
}
