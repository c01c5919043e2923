/* PyTorch's own archive, as torch.export.save writes it, becomes a program. Its graph's inputs are
 * parameters, buffers and constants, which the archive holds, and the user's, which become ports;
 * a whole number among these is a port of one INT64, and what was given as a plain constant at
 * export is no input at all. Of its outputs, those for the user become ports. Behind these stand
 * ports for what is state (state.c): what a stored tensor holds is an input, what becomes of it an
 * output; so is what becomes of an input of the user's that is written. */
#include "dispatch/pt2/ports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LEAST_VERSION 7
#define MOST_VERSION 8

/* ---- ports ---- */

static int fill_port(struct td_pt2 *pt2, struct td_model_port *port, const cJSON *meta)
{
    const cJSON *sizes = td_pt2_get(meta, "sizes"), *s = sizes ? sizes->child : NULL;
    port->rank = cJSON_GetArraySize(sizes);
    port->dtype = td_pt2_dtype(td_pt2_get(meta, "dtype"));
    if (!port->dtype || port->rank > TD_MAX_RANK)
        return td_problem_set(pt2->problem, EINVAL,
                              "'%.80s' has a type, or a number of dimensions, that there is none "
                              "of here",
                              port->name);
    for (int d = 0; d < port->rank; d++, s = s->next)
        if (!td_pt2_whole(td_pt2_get(s, "as_int"), &port->shape[d]) || port->shape[d] < 0)
            port->shape[d] = -1;
    return 0;
}

static enum td_dtype number_type(const char *as)
{
    return strstr(as, "float") ? TD_f64 : strstr(as, "bool") ? TD_bool : TD_i64;
}

/* A number that the user gives: read from its tensor by a node. */
static int number_input(struct td_pt2_ports *p, struct td_pt2_value *value, int from,
                        const char *as)
{
    struct td_pt2_graph *graph = p->graph;
    struct td_node_operand *o = td_program_alloc(graph->pt2->model, sizeof *o);
    if (!o)
        return td_pt2_no_memory(graph->pt2);
    *o = (struct td_node_operand){.kind = TD_OPERAND_value, .value = from};
    value->number = td_program_value(graph->pt2->model);
    struct td_node node = {.name = p->in[p->n_in].name,
                           .op = "number",
                           .lower = td_pt2_item,
                           .n_operands = 1,
                           .operand = o,
                           .n_outs = 1,
                           .out = &value->number};
    p->in[p->n_in].dtype = number_type(as);
    return td_pt2_append(graph, &node);
}

static int user_input(struct td_pt2_ports *p, const cJSON *spec)
{
    struct td_pt2 *pt2 = p->graph->pt2;
    const cJSON *member = td_pt2_argument(td_pt2_get(spec, "arg"));
    struct td_pt2_leaf leaf = {0};
    if (member && !cJSON_IsArray(member))
        leaf = td_pt2_leaf(member->string, member);
    if (!leaf.name)
        return 0; /* a constant since export */
    struct td_pt2_value *value = td_pt2_value(p->graph, leaf.name);
    struct td_model_port *port = &p->in[p->n_in];
    port->name = td_program_text(pt2->model, leaf.name, strlen(leaf.name));
    if (!value || !port->name)
        return value ? td_pt2_no_memory(pt2) : -EINVAL;
    int number = p->input[p->n_in] = td_program_value(pt2->model), err;
    if (strcmp(leaf.as, "as_tensor")) {
        err =
            strncmp(leaf.as, "as_sym_", 7)
                ? td_problem_set(pt2->problem, EINVAL, "the input '%.80s' is no tensor", leaf.name)
                : number_input(p, value, number, leaf.as);
    } else {
        value->number = number;
        err = fill_port(pt2, port, value->meta);
    }
    p->name[p->n_in] = (struct td_pt2_name){port->name, value};
    p->given[p->n_in++] = value->number;
    return err;
}

static const struct stored_kind { /* how the signature speaks of it */
    const char *is, *name, *mutation;
} stored_kinds[] = {{"parameter", "parameter_name", "parameter_mutation"},
                    {"buffer", "buffer_name", "buffer_mutation"},
                    {"tensor constant", "tensor_constant_name", ""}};

/* A parameter, a buffer or a constant: known by its name in the module. */
static int stored_input(struct td_pt2_ports *p, const cJSON *spec, const struct stored_kind *kind)
{
    struct td_pt2 *pt2 = p->graph->pt2;
    const char *name = td_pt2_text(td_pt2_get(spec, "arg"), "name"),
               *own = td_pt2_text(spec, kind->name);
    struct td_pt2_value *value = name ? td_pt2_value(p->graph, name) : NULL;
    for (int i = 0; i < 2 && value && own; i++) {
        struct td_pt2_key *key = td_pt2_find(pt2->stored[i], pt2->n_stored[i], own);
        if (!key)
            continue;
        key->value = value;
        value->stored = key->item;
        value->folder = i ? "data/constants/" : "data/weights/";
        value->kind = kind->is;
        return 0;
    }
    return td_problem_set(pt2->problem, EINVAL, "the archive has no tensor '%.80s'",
                          own ? own : "");
}

static int read_input(struct td_pt2_ports *p, const cJSON *spec)
{
    const cJSON *kind = td_pt2_argument(spec);
    const char *is = kind ? kind->string : "";
    if (!strcmp(is, "user_input"))
        return user_input(p, kind);
    if (!strcmp(is, "parameter"))
        return stored_input(p, kind, &stored_kinds[0]);
    if (!strcmp(is, "buffer"))
        return stored_input(p, kind, &stored_kinds[1]);
    if (!strcmp(is, "tensor_constant"))
        return stored_input(p, kind, &stored_kinds[2]);
    if (!strcmp(is, "token") || !strcmp(is, "constant_input"))
        return 0;
    return td_problem_set(p->graph->pt2->problem, EINVAL,
                          "the model has an input of a kind that cannot be served: '%.40s'", is);
}

/* An output of the user's. A number becomes a tensor at the graph's end. */
static int user_output(struct td_pt2_ports *p, const cJSON *argument)
{
    struct td_pt2_graph *graph = p->graph;
    const cJSON *member = td_pt2_argument(argument);
    struct td_pt2_leaf leaf = {0};
    if (member && !cJSON_IsArray(member))
        leaf = td_pt2_leaf(member->string, member);
    const char *called = p->called ? p->called[p->n_read] : NULL;
    p->n_read++;
    if (!leaf.name && !leaf.constant)
        return 0; /* None */
    called = called ? called : leaf.name ? leaf.name : "";
    struct td_model_port *port = &p->out[p->n_out];
    port->name = td_pt2_output_name(p, called);
    int err = port->name ? td_pt2_output(graph, argument, &p->output[p->n_out]) : -ENOMEM;
    bool tensor = leaf.name && !strcmp(leaf.as, "as_tensor");
    if (!err && tensor) {
        struct td_pt2_value *value = td_pt2_value(graph, leaf.name);
        p->n_out++;
        return value->meta ? fill_port(graph->pt2, port, value->meta) : (port->rank = -1, 0);
    }
    struct td_node_operand *o = td_program_alloc(graph->pt2->model, sizeof *o);
    if (err || !o)
        return err ? err : td_pt2_no_memory(graph->pt2);
    *o = (struct td_node_operand){.kind = TD_OPERAND_value, .value = p->output[p->n_out]};
    port->dtype = number_type(leaf.as);
    p->output[p->n_out] = td_program_value(graph->pt2->model);
    struct td_node node = {.name = port->name,
                           .op = "number",
                           .lower = td_pt2_tensor,
                           .n_operands = 1,
                           .operand = o,
                           .n_outs = 1,
                           .out = &p->output[p->n_out]};
    p->n_out++;
    return td_pt2_append(graph, &node);
}

/* What a stored tensor is at the graph's end. */
static int mutation(struct td_pt2_ports *p, const cJSON *spec, const struct stored_kind *kind)
{
    struct td_pt2 *pt2 = p->graph->pt2;
    const char *name = td_pt2_text(td_pt2_get(spec, "arg"), "name"),
               *own = td_pt2_text(spec, kind->name);
    struct td_pt2_value *becomes = name ? td_pt2_value(p->graph, name) : NULL;
    for (int i = 0; i < 2 && becomes && own; i++) {
        struct td_pt2_key *key = td_pt2_find(pt2->stored[i], pt2->n_stored[i], own);
        if (!key || !key->value)
            continue;
        key->value->writer = td_program_text(pt2->model, name, strlen(name));
        return key->value->writer ? td_pt2_current(p->graph, becomes, &key->value->becomes)
                                  : td_pt2_no_memory(pt2);
    }
    return becomes || !name ? td_problem_set(pt2->problem, EINVAL,
                                             "the signature changes the %s '%.80s', which is no "
                                             "input of the graph",
                                             kind->is, own ? own : "")
                            : -EINVAL;
}

/* What an input of the user's is at the graph's end. */
static int input_mutation(struct td_pt2_ports *p, const cJSON *spec)
{
    const char *name = td_pt2_text(td_pt2_get(spec, "arg"), "name"),
               *own = td_pt2_text(spec, "user_input_name");
    struct td_pt2_value *becomes = name ? td_pt2_value(p->graph, name) : NULL;
    for (int i = 0; i < p->n_in && becomes && own; i++)
        if (!strcmp(p->in[i].name, own))
            return td_pt2_current(p->graph, becomes, &p->name[i].value->becomes);
    return td_problem_set(p->graph->pt2->problem, EINVAL,
                          "the model changes the input '%.80s', which it has not", own ? own : "");
}

static int read_output(struct td_pt2_ports *p, const cJSON *spec)
{
    const cJSON *kind = td_pt2_argument(spec);
    const char *is = kind ? kind->string : "";
    if (!strcmp(is, "user_output"))
        return user_output(p, td_pt2_get(kind, "arg"));
    for (int i = 0; i < 2; i++)
        if (!strcmp(is, stored_kinds[i].mutation))
            return mutation(p, kind, &stored_kinds[i]);
    if (!strcmp(is, "user_input_mutation"))
        return input_mutation(p, kind);
    if (!strcmp(is, "token"))
        return 0;
    return td_problem_set(p->graph->pt2->problem, EINVAL,
                          "the model has an output of a kind that cannot be served: '%.40s'", is);
}

/* ---- the whole ---- */

static int alloc_ports(struct td_pt2_ports *p, int n_in, int n_out)
{
    struct td_model *model = p->graph->pt2->model;
    size_t in = (size_t)n_in + 1, out = (size_t)n_out + 1;
    p->input = td_program_alloc(model, in * sizeof *p->input);
    p->output = td_program_alloc(model, out * sizeof *p->output);
    p->in = td_program_alloc(model, in * sizeof *p->in);
    p->out = td_program_alloc(model, out * sizeof *p->out);
    p->name = td_arena_zalloc(p->graph->pt2->arena, in * sizeof *p->name);
    p->given = td_arena_zalloc(p->graph->pt2->arena, in * sizeof *p->given);
    bool all = p->input && p->output && p->in && p->out && p->name && p->given;
    return all ? 0 : td_pt2_no_memory(p->graph->pt2);
}

static int count_user_outputs(const cJSON *specs)
{
    int n = 0;
    for (const cJSON *spec = specs->child; spec; spec = spec->next)
        n += td_pt2_get(spec, "user_output") != NULL;
    return n;
}

static int read_program(struct td_pt2 *pt2, const cJSON *module)
{
    const cJSON *signature = td_pt2_get(module, "signature");
    const cJSON *ins = td_pt2_get(signature, "input_specs");
    const cJSON *outs = td_pt2_get(signature, "output_specs");
    struct td_pt2_graph graph;
    struct td_pt2_ports p = {.graph = &graph};
    struct td_model *model = pt2->model;
    int err = td_pt2_begin(&graph, pt2, td_pt2_get(module, "graph"));
    if (!err && (!cJSON_IsArray(ins) || !cJSON_IsArray(outs)))
        return td_problem_set(pt2->problem, EINVAL, "the model's graph has no signature");
    int n_ins = cJSON_GetArraySize(ins), n_outs = cJSON_GetArraySize(outs);
    err = err ? err : alloc_ports(&p, n_ins, n_ins + n_outs); /* with those of states */
    for (const cJSON *spec = err ? NULL : ins->child; spec && !err; spec = spec->next)
        err = read_input(&p, spec);
    err = err ? err : td_pt2_guard(&graph, p.given, p.name, p.n_in);
    err = err ? err : td_pt2_nodes(&graph);
    graph.reading = NULL;
    if (!err)
        td_pt2_called(&p, module, count_user_outputs(outs));
    for (const cJSON *spec = err ? NULL : outs->child; spec && !err; spec = spec->next)
        err = read_output(&p, spec);
    err = err ? err : td_pt2_add_states(&p);
    model->graph = (struct td_node_graph){
        .n_inputs = p.n_in, .input = p.input, .n_outputs = p.n_out, .output = p.output};
    model->input = p.in;
    model->n_inputs = p.n_in;
    model->output = p.out;
    model->n_outputs = p.n_out;
    return err ? err : td_pt2_end(&graph, &model->graph);
}

static int check_version(struct td_pt2 *pt2, const cJSON *root)
{
    const cJSON *version = td_pt2_get(root, "schema_version");
    int64_t major;
    if (!td_pt2_whole(td_pt2_get(version, "major"), &major))
        return td_problem_set(pt2->problem, EINVAL, "the model's JSON has no schema_version");
    if (major < LEAST_VERSION || major > MOST_VERSION)
        return td_problem_set(pt2->problem, EINVAL,
                              "the model's schema_version is %lld; %d and %d are read",
                              (long long)major, LEAST_VERSION, MOST_VERSION);
    return 0;
}

static int read_archive(struct td_pt2 *pt2, struct td_pt2_json json[3])
{
    struct td_pt2_archive *a = &pt2->archive;
    const char *bytes;
    size_t size;
    int err = td_pt2_stored(pt2, json);
    const struct td_pt2_key *entry = err ? NULL : td_pt2_entry(a, "models/", a->model, ".json");
    err = err ? err : td_pt2_read(a, entry, &bytes, &size, pt2->problem);
    err = err ? err : td_pt2_parse(&json[2], (char *)bytes, size, entry->name, pt2->problem);
    err = err ? err : check_version(pt2, json[2].root);
    pt2->ranges = td_pt2_get(json[2].root, "range_constraints");
    pt2->conditions = td_pt2_get(json[2].root, "guards_code");
    return err ? err : read_program(pt2, td_pt2_get(json[2].root, "graph_module"));
}

static const struct td_pt2_reader reader = {.current = td_pt2_current, .nodes = td_pt2_nodes};

int td_import_pt2(struct td_model *model, const void *file, size_t size, struct td_problem *problem)
{
    struct td_pt2 pt2 = {
        .model = model, .problem = problem, .arena = td_arena_create(), .reader = &reader};
    struct td_pt2_json json[3] = {0};
    if (!pt2.arena)
        return td_pt2_no_memory(&pt2);
    int err = td_pt2_open(&pt2.archive, file, size, pt2.arena, problem);
    err = err ? err : read_archive(&pt2, json);
    for (int i = 0; i < 3; i++)
        td_pt2_free(&json[i]);
    td_pt2_close(&pt2.archive);
    td_arena_destroy(pt2.arena);
    return err;
}
