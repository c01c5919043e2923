/* Checks types and shapes when a model is loaded, and infers those of its outputs. The program is
 * walked as it is for a plan, with tensors that have types and sizes but no elements. Each call is
 * bound, so the operator's own rules check it. A call is computed only if all its arguments are
 * constants and small: shapes, axes.
 *
 * A model is refused if every call of it would fail. A node is accepted, and so are all nodes that
 * depend on it, if its check needs an element of an input, a long loop, or more memory than one may
 * be given. So that the answer to a file is the same on a busy machine, the limits on a check are
 * counts of calls and bytes; the time limit is far beyond what these take.
 * For sizes that the file leaves free some numbers are tried. A node that depends on these sizes
 * may fail with all the numbers and still be right, so it is refused only if all lead to the same
 * message, and this is about kinds, types, or sizes that are not free. */
#include "dispatch/plan/plan.h"
#include "kernels/linear.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NS INT64_C(20000000000) /* of one check */
#define TURNS 4     /* calls and inner graphs of a walk: this many for each node of the model, */
#define LEAST 4096  /* and this many more */
#define LITTLE 4096 /* elements and operations of a call that is computed, at most */
#define MOST_BYTES ((size_t)1 << 50) /* of a tensor without elements, at most */
#define MOST_BLOCK ((size_t)1 << 20) /* of one that is computed: indices, a window */
#define BLOCKS ((size_t)1 << 28)     /* of all that are computed, plus NODE_BLOCKS for each node */
#define NODE_BLOCKS 8192
#define DOUBTS 4 /* doubtful nodes that are noted */

/* Numbers to try for free sizes: one that fits most windows, heads and strides, one that can be
 * squeezed and broadcast, another one, and one above the limits that models clamp sizes to. */
static const int64_t guesses[] = {64, 1, 192, 2000};

/* Operators, beside linear ones, whose messages name all sizes that do not fit: if the message is
 * the same for all guesses, it is about sizes that are not guessed. */
static const char *const naming[] = {"matmul", "mm",     "bmm",        "addmm",       "conv1d",
                                     "conv2d", "conv3d", "layer_norm", "convolution", "add",
                                     "sub",    "mul",    "div"};

enum known { KNOWN, GUESSED, UNKNOWN }; /* a value's type and sizes */

struct doubt { /* a node that is refused with the guessed sizes */
    const struct td_node *node;
    struct td_problem why;
};

struct judging {
    struct td_recorder recorder; /* the first member: walk->recorder is cast to this struct */
    unsigned char *known;        /* by value: an enum known */
    bool guessed;                /* the present node depends on a guessed size */
    int64_t guess, left;         /* for free sizes; calls and inner graphs that may still be run */
    struct doubt doubt[DOUBTS];
    int n_doubts;
};

static struct judging *of(const struct td_walk *walk)
{
    return (struct judging *)walk->recorder;
}

/* ---- calls ---- */

static bool is_dry(const struct td_item *item)
{
    bool dry = item->recorded;
    for (int i = 0; i < item->n && !dry; i++)
        dry = is_dry(&item->list[i]);
    return dry;
}

static bool is_little(const struct td_call *call)
{
    double work = call->op->flops ? call->op->flops(call) : 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_tensor *t = td_arg(call, i);
        work += t ? (double)td_numel(t) : 0;
    }
    for (int i = 0; i < call->n_out; i++)
        work += (double)td_numel(&call->out[i]);
    return work <= LITTLE;
}

static int judge_call(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                      struct td_item *result, bool *dry)
{
    const struct td_call *call = &walk->run.call;
    *dry = chance;
    for (int i = 0; i < n_args && !*dry; i++)
        *dry = is_dry(&args[i].item);
    if (of(walk)->left-- <= 0)
        return -ECANCELED;
    if (!*dry && is_little(call))
        return 0;
    *dry = true;
    int err = call->counted ? -ECANCELED : 0;
    for (int i = 0; i < call->n_out && !err; i++)
        err = td_nbytes(&call->out[i]) > MOST_BYTES
                  ? -ECANCELED
                  : td_record_value(walk, &call->out[i], 0, i, 0, &result[i]);
    return err;
}

static int judge_read(struct td_walk *walk, const struct td_item *item, struct td_tensor *t)
{
    (void)walk, (void)item, (void)t;
    return -ECANCELED;
}

static void make_fp32(struct td_tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i].dtype)
            t[i].dtype = TD_f32;
}

/* Whether the call would be accepted with all tensors in FP32: then its types are wrong, not its
 * sizes. */
static bool is_for_types(struct td_walk *walk, const char *op, const struct td_named *args,
                         int n_args)
{
    struct td_options options = {
        .alloc = td_alloc_in_arena, .alloc_arg = walk->once, .numbers = true};
    struct td_named other[TD_MAX_ARGS];
    struct td_run *run = calloc(1, sizeof *run);
    bool able = run, tensors = false;
    for (int i = 0; i < n_args && able; i++) {
        struct td_value *v = &other[i].value;
        other[i] = args[i];
        if (v->kind == TD_KIND_tensors) {
            size_t bytes = sizeof *v->tensors.v * (size_t)v->tensors.n;
            struct td_tensor *list = td_arena_alloc(walk->once, bytes + 1);
            able = list;
            if (able && bytes)
                memcpy(list, args[i].value.tensors.v, bytes);
            if (able)
                make_fp32(list, v->tensors.n);
            v->tensors.v = list;
        } else if (v->kind == TD_KIND_tensor) {
            make_fp32(&v->tensor, 1);
        }
        tensors |= v->kind == TD_KIND_tensor || v->kind == TD_KIND_tensors;
    }
    bool right = able && tensors && !td_run_bind(run, op, other, n_args, &options);
    free(run);
    return right;
}

static void judge_refused(struct td_walk *walk, const char *op, const struct td_named *args,
                          int n_args)
{
    const struct td_handle *handle = walk->run.handle;
    if (!of(walk)->guessed)
        return;
    walk->misfit = walk->misfit || (handle && td_is_linear(handle->op));
    for (size_t i = 0; i < sizeof naming / sizeof *naming && handle && !walk->misfit; i++)
        walk->misfit = !strcmp(naming[i], handle->schema.name);
    walk->misfit = walk->misfit ||
                   of(walk)->guess != *guesses || /* a later guess is only compared */
                   is_for_types(walk, op, args, n_args);
}

/* ---- nodes ---- */

static enum known worst(const struct judging *j, const struct td_node_operand *operand, int n,
                        bool *has_graph)
{
    enum known known = KNOWN;
    for (int i = 0; i < n; i++) {
        const struct td_node_operand *o = &operand[i];
        enum known other = KNOWN;
        if (o->kind == TD_OPERAND_value)
            other = j->known[o->value];
        else if (o->kind == TD_OPERAND_list)
            other = worst(j, o->list, o->n, has_graph);
        *has_graph |= o->kind == TD_OPERAND_graph;
        known = other > known ? other : known;
    }
    return known;
}

static void note(struct judging *j, const struct td_node *node, const struct td_problem *why)
{
    if (j->n_doubts < DOUBTS)
        j->doubt[j->n_doubts++] = (struct doubt){node, *why};
}

static bool is_wrong(int err)
{
    return err == -EINVAL || err == -ENOENT;
}

static int judge_node(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                      struct td_item *out)
{
    struct judging *j = of(walk);
    bool has_graph = false;
    enum known known = worst(j, node->operand, node->n_operands, &has_graph);
    int err = 0;
    if (walk->depth > 1 && known)
        return -ECANCELED; /* so the node that runs this graph is unknown */
    if (has_graph && known)
        known = UNKNOWN;
    memset(out, 0, sizeof *out * (size_t)node->n_outs);
    j->guessed = known == GUESSED;
    if (known < UNKNOWN)
        err = td_walk_node(walk, node, in, out);
    if (is_wrong(err) && known && walk->misfit)
        note(j, node, walk->problem);
    if (err == -ECANCELED || err == -ENOMEM || (is_wrong(err) && known)) {
        if (walk->depth > 1)
            return -ECANCELED;
        memset(out, 0, sizeof *out * (size_t)node->n_outs);
        known = UNKNOWN;
        err = 0;
    }
    for (int i = 0; i < node->n_outs; i++)
        if (node->out[i] >= 0)
            j->known[node->out[i]] = (unsigned char)known;
    return err;
}

static int judge_graph(struct td_walk *walk, const struct td_node_graph *graph)
{
    struct judging *j = of(walk);
    bool known = true;
    for (int i = 0; i < graph->n_outputs && known; i++)
        known = !j->known[graph->output[i]];
    return walk->depth > 1 && (!known || j->left-- <= 0) ? -ECANCELED : 0;
}

/* ---- a walk ---- */

static int begin_input(struct td_walk *walk, int i, struct td_item *item)
{
    struct judging *j = of(walk);
    const struct td_model_port *port = &walk->model->input[i];
    struct td_tensor like = {.dtype = port->dtype, .rank = port->rank};
    unsigned char *known = &j->known[walk->model->graph.input[i]];
    *known = port->dtype && port->rank >= 0 ? KNOWN : UNKNOWN;
    for (int d = 0; d < port->rank && *known < UNKNOWN; d++) {
        like.shape[d] = port->shape[d] < 0 ? j->guess : port->shape[d];
        *known |= port->shape[d] < 0 ? GUESSED : KNOWN;
    }
    if (*known < UNKNOWN && (!td_fits(&like) || td_nbytes(&like) > MOST_BYTES))
        *known = UNKNOWN;
    return *known < UNKNOWN ? td_record_value(walk, &like, -1, i, 0, item) : 0;
}

/* Gives an output the type and sizes of a value for which they are the same in each call. Sizes
 * that a file says are often wrong, and the value's are right; ONNX holds a model to the type. */
static int fill_output(struct td_walk *walk, struct td_model_port *port, const struct td_tensor *t)
{
    if (port->declared && port->dtype != t->dtype)
        return td_walk_refuse(walk, "output '%.100s' is declared %s; the model makes %s",
                              port->name, td_dtype_name(port->dtype), td_dtype_name(t->dtype));
    port->dtype = t->dtype;
    port->rank = t->rank;
    for (int d = 0; d < t->rank; d++) {
        port->shape[d] = t->shape[d];
        port->symbol[d] = NULL;
    }
    return 0;
}

static int walk_inputs(struct td_walk *walk)
{
    struct td_model *model = walk->model;
    size_t n = (size_t)model->n_inputs + (size_t)model->n_outputs;
    struct td_item *in = calloc(n + 1, sizeof *in), *out = in + model->n_inputs;
    int err = in ? td_walk_begin(walk) : -ENOMEM;
    for (int i = 0; i < model->n_inputs && !err; i++)
        err = begin_input(walk, i, &in[i]);
    err = err ? err : td_walk_graph(walk, &model->graph, in, out);
    for (int i = 0; i < model->n_outputs && !err; i++) {
        if (of(walk)->known[model->graph.output[i]] != KNOWN)
            continue;
        if (out[i].v.kind == TD_KIND_tensor)
            err = fill_output(walk, &model->output[i], &out[i].v.tensor);
        else
            err = td_walk_refuse(walk, "output '%.100s' is no tensor", model->output[i].name);
    }
    td_walk_end(walk);
    free(in);
    return err;
}

static int walk_once(struct td_model *model, struct judging *j, struct td_problem *problem)
{
    struct td_model_call call = {.threads = 1, .node = -1};
    struct td_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    *walk = (struct td_walk){.model = model,
                             .call = &call,
                             .problem = problem,
                             .recorder = &j->recorder,
                             .most_block = MOST_BLOCK,
                             .most_blocks = BLOCKS + (size_t)model->n_nodes * NODE_BLOCKS};
    memset(j->known, KNOWN, (size_t)model->n_values);
    j->left = (int64_t)model->n_nodes * TURNS + LEAST;
    j->n_doubts = 0;
    int err = walk_inputs(walk);
    td_walk_release(walk, 0, NULL, 0);
    td_blocks_free(walk);
    free(walk->recorded);
    free(walk->made);
    free(walk);
    return err;
}

/* ---- with each guess ---- */

/* Keeps those of n doubts that this walk has, too, with the same message: how many. */
static int keep_doubts(struct doubt *doubt, int n, const struct judging *j)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < j->n_doubts && (j->doubt[k].node != doubt[i].node ||
                                   strcmp(j->doubt[k].why.text, doubt[i].why.text) != 0))
            k++;
        if (k < j->n_doubts)
            doubt[kept++] = doubt[i];
    }
    return kept;
}

static int judge(struct td_model *model, struct judging *j, struct td_problem *problem)
{
    struct doubt doubt[DOUBTS];
    int n = 0, err = 0;
    for (size_t g = 0; g < sizeof guesses / sizeof *guesses && !err && (!g || n); g++) {
        j->guess = guesses[g];
        err = walk_once(model, j, problem);
        if (!g)
            memcpy(doubt, j->doubt, sizeof *doubt * (size_t)(n = j->n_doubts));
        n = keep_doubts(doubt, n, j);
    }
    if (err || !n)
        return err;
    struct td_walk walk = {.problem = problem};
    *problem = doubt[0].why;
    return td_walk_in_node(&walk, doubt[0].node, -EINVAL);
}

int td_model_judge(struct td_model *model, struct td_problem *problem)
{
    struct judging j = {
        .recorder = {judge_call, judge_read, judge_node, judge_graph, judge_refused}};
    struct td_problem why = {0}; /* running out of time or memory says nothing about the model */
    struct td_stop stop = {.deadline_ns = td_clock_ns() + MOST_NS};
    if (!(j.known = malloc((size_t)model->n_values + 1)))
        return 0;
    const struct td_stop *before = td_stop_obey(&stop);
    int err = judge(model, &j, &why);
    td_stop_obey(before);
    free(j.known);
    if (!is_wrong(err))
        return 0;
    *problem = why;
    return -EINVAL;
}
