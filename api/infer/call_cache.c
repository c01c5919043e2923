/* Calls that come again. A client that calls one operator over and over sends the same JSON each
 * time and only the binary tensors behind it differ; so the bound call is kept beside the text's
 * tree (json/text_cache.c), and the next request with these bytes for this operator takes it, puts
 * its own tensors in and goes on where outputs are placed. Reading, binding and dispatching a call
 * of two small tensors cost a third of the instructions between its body and its reply.
 *
 * Only calls are kept that follow from their text and the operator's dispatch table alone: all
 * tensors behind the JSON, nothing stored, shared, cut into streams, composite, traced or
 * explained. The pool is looked up by its name, the kernel chosen anew; another table means binding
 * anew. */
#include "api/infer/call.h"

#include <stdlib.h>
#include <string.h>

struct input {
    int arg; /* of the bound call */
    size_t bytes;
    size_t align;
};

struct td_replay {
    char op[TD_NAME_SIZE], model[TD_NAME_SIZE]; /* as it was called */
    const struct td_table *table;
    const char *pool; /* this and other texts: in the tree, which lives as long */
    const char *id, *forced;
    int64_t timeout_ms;
    int priority;
    const char *output_name;
    enum td_form form;
    int n_inputs;
    struct input input[TD_MAX_ARGS]; /* in the order of their bytes */
    size_t bytes;
    struct td_run run; /* without its problem */
    size_t front_size; /* 0: outputs are in the JSON */
    char front[];
};

static const struct td_table *table_of(const struct td_run *run)
{
    return atomic_load_explicit(&run->handle->table, memory_order_acquire);
}

/* The pool, and the elements of every input; false: something is not as it was. */
static bool fill(struct td_infer *in, const struct td_replay *kept)
{
    size_t at = in->binary_at;
    for (int i = 0; i < kept->n_inputs; i++) {
        const struct input *input = &kept->input[i];
        void *data = td_arena_align(in->req->arena, in->req->body + at, input->bytes, input->align);
        if (!data)
            return false;
        td_run_set_input(&in->run, input->arg, data);
        at += input->bytes;
    }
    in->pool = td_pools_find(in->req->service->pools, kept->pool);
    return in->pool != NULL;
}

bool td_infer_replay(struct td_infer *in)
{
    const struct td_replay *kept = td_json_companion(&in->json);
    if (!kept || in->req->body_size - in->binary_at != kept->bytes ||
        table_of(&kept->run) != kept->table || strcmp(kept->op, in->op) ||
        strcmp(kept->model, in->model))
        return false;
    td_run_copy(&in->run, &kept->run);
    in->run.options.alloc_arg = in->req->arena;
    if (td_infer_begin_outputs(in) || !fill(in, kept))
        return false;
    in->id = kept->id;
    in->forced = kept->forced;
    in->timeout_ms = kept->timeout_ms;
    in->priority = kept->priority;
    in->output[0].name = kept->output_name;
    in->output[0].form = kept->form;
    in->streams.parts = 1;
    if (kept->front_size) {
        in->front = kept->front;
        in->front_size = kept->front_size;
    }
    return true;
}

/* Notes which of the bound call's arguments the request's ith is. */
static bool note_input(const struct td_infer *in, int i, struct td_replay *kept)
{
    const struct td_tensor *t = &in->args[i].value.tensor;
    size_t bytes = td_nbytes(t);
    if (!bytes || t->weight || t->dtype == TD_bool || kept->n_inputs == TD_MAX_ARGS)
        return false; /* bools are checked one by one */
    for (int arg = 0; arg < in->run.call.n_args; arg++) {
        if (td_run_input(&in->run, arg) != t->data)
            continue;
        kept->input[kept->n_inputs++] = (struct input){arg, bytes, td_dtype_size(t->dtype)};
        kept->bytes += bytes;
        return true;
    }
    return false;
}

static bool has_list(const struct td_infer *in)
{
    for (int i = 0; i < in->n_args; i++)
        if (in->args[i].value.kind == TD_KIND_tensors)
            return true;
    return false;
}

static bool follows_from_its_text(const struct td_infer *in)
{
    const struct td_run *run = &in->run;
    return !in->n_held && !in->shm.n_in && !in->streams.asked && !in->streams.hints && !in->brief &&
           !in->explain && !in->options.trace && !in->meta && !run->parts && !run->in_place &&
           !has_list(in) && run->call.n_out == 1 && !run->call.counted &&
           strlen(in->op) < TD_NAME_SIZE && strlen(in->model) < TD_NAME_SIZE &&
           (in->output[0].form == TD_FORM_json || in->output[0].form == TD_FORM_binary);
}

void td_infer_keep(struct td_infer *in)
{
    if (!td_json_is_kept(&in->json) || td_json_companion(&in->json) || !follows_from_its_text(in))
        return;
    td_run_cost(&in->run); /* what that follows from goes along */
    struct td_writer w = {0};
    if (in->output[0].form == TD_FORM_binary) {
        td_write_init(&w, in->req->arena, 512);
        td_infer_write_front(in, &w);
    }
    struct td_replay *kept = w.failed ? NULL : calloc(1, sizeof *kept + w.length);
    bool right = kept != NULL;
    for (int i = 0; right && i < in->n_args; i++)
        if (in->args[i].value.kind == TD_KIND_tensor)
            right = note_input(in, i, kept);
        else
            right = in->args[i].value.kind != TD_KIND_tensors;
    if (!right) {
        free(kept);
        return;
    }
    strcpy(kept->op, in->op);
    strcpy(kept->model, in->model);
    kept->table = table_of(&in->run);
    kept->pool = in->pool_name;
    kept->id = in->id;
    kept->forced = in->forced;
    kept->timeout_ms = in->timeout_ms;
    kept->priority = in->priority;
    kept->output_name = in->output[0].name;
    kept->form = in->output[0].form;
    td_run_copy(&kept->run, &in->run);
    kept->front_size = w.length;
    if (w.length)
        memcpy(kept->front, w.text, w.length);
    td_json_accompany(&in->json, kept);
}
