/* Where the outputs of a call lie, and the reply around them: an operator computes a binary output
 * right behind the room where the reply's JSON will stand, and one for shared memory there. What a
 * model has computed lies where it left it, and is copied to such places. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

#define HEAD 4096   /* room before a binary output for the reply's JSON */
#define AROUND 1024 /* bytes of that, as a rule, that are not elements */

size_t td_infer_reply_bytes(const struct td_infer *in)
{
    return HEAD + in->binary_size + in->text_size;
}

/* Bytes that an output's elements may take in JSON. */
static size_t text_bound(const struct td_infer *in, int i)
{
    struct td_tensor part;
    size_t bytes = in->streams.apart ? 0 : td_json_data_bound(&in->out[i]);
    for (int k = 0; k < in->streams.parts && in->streams.apart; k++) {
        td_streams_result(in, i, k, &part);
        bytes += td_json_data_bound(&part);
    }
    return bytes;
}

/* Room for the reply's JSON, so that a call without it is refused before it is computed. */
static int place_text(struct td_infer *in)
{
    in->text_size = 0;
    for (int i = 0; i < in->n_outputs; i++)
        if (in->output[i].form == TD_FORM_json)
            in->text_size += text_bound(in, i);
    td_write_init(&in->text, in->req->arena, AROUND + in->text_size);
    return in->text.failed ? td_problem_set(&in->run.problem, ENOMEM, "no memory for the reply")
                           : 0;
}

/* The binary outputs' block, with room before it. */
static int place_block(struct td_infer *in)
{
    size_t limit = in->req->service->limits.body, total = 0;
    for (int i = 0; i < in->n_outputs; i++) {
        bool is_left = in->served && in->output[i].form == TD_FORM_none;
        size_t bytes = is_left ? 0 : td_streams_bytes(in, i);
        if (bytes > limit)
            return td_problem_set(&in->run.problem, EINVAL,
                                  "the result would have %zu bytes; at most %zu are made", bytes,
                                  limit);
        if (in->output[i].form == TD_FORM_binary)
            total += bytes;
    }
    char *block = total ? td_arena_alloc(in->req->arena, HEAD + total) : NULL;
    if (total && !block)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the result");
    in->binary = block ? block + HEAD : NULL;
    in->binary_size = total;
    return 0;
}

/* at: where in the block the next binary output begins. */
static int place_output(struct td_infer *in, int i, size_t *at)
{
    struct td_tensor *out = &in->out[i];
    enum td_form form = in->output[i].form;
    const void *from = in->served ? out->data : NULL;
    bool stays = in->streams.part ? form == TD_FORM_none
                 : in->served     ? form != TD_FORM_binary && form != TD_FORM_shared
                                  : form == TD_FORM_stored && !td_infer_is_counted(in, i);
    if (stays)
        return 0;
    size_t bytes = td_streams_bytes(in, i);
    if (form == TD_FORM_shared) {
        int err = td_shm_place(&in->shm, in->req->arena, i, out, &in->run.problem);
        if (err)
            return err;
    } else {
        bool fits = in->binary && form == TD_FORM_binary &&
                    (in->served || *at % td_dtype_size(out->dtype) == 0);
        out->data = fits ? in->binary + *at : td_arena_alloc(in->req->arena, bytes + 1);
        if (!out->data)
            return td_problem_set(&in->run.problem, ENOMEM, "no memory for the result");
    }
    if (form == TD_FORM_binary) {
        in->output[i].offset = *at;
        *at += bytes;
    }
    if (in->streams.part)
        td_streams_join(in, i);
    else if (from)
        memcpy(out->data, from, bytes);
    return 0;
}

int td_infer_place(struct td_infer *in)
{
    size_t at = 0;
    int err = place_block(in);
    for (int i = 0; i < in->n_outputs && !err; i++)
        err = place_output(in, i, &at);
    return err ? err : place_text(in);
}

/* ---- the reply ---- */

/* The JSON into the room before the outputs where it fits there, else everything into one block. */
static int join(struct td_infer *in, struct td_writer *w, struct td_response *res)
{
    int err = td_write_response(w, res, 200);
    if (err || !in->binary_size)
        return err;
    size_t json = res->size - 1; /* without the line's end */
    char *body = in->binary - json;
    if (json > HEAD) {
        body = td_arena_alloc(in->req->arena, json + in->binary_size);
        if (!body)
            return -ENOMEM;
    }
    memcpy(body, res->body, json);
    for (int i = 0; i < in->n_outputs; i++) {
        char *to = body + json + in->output[i].offset;
        if (in->output[i].form == TD_FORM_binary && to != in->out[i].data)
            memmove(to, in->out[i].data, td_streams_bytes(in, i));
    }
    char *length = td_arena_alloc(in->req->arena, TD_NUMBER_ROOM + 1);
    if (!length)
        return -ENOMEM;
    *td_print_i64((int64_t)json, length) = 0;
    res->type = "application/octet-stream";
    res->body = body;
    res->size = json + in->binary_size;
    res->header[0] = (struct td_header){"Inference-Header-Content-Length", length};
    return 0;
}

/* A .npy: its head goes right before the elements. */
static int reply_npy(struct td_infer *in)
{
    struct td_response *res = &in->req->response;
    int i = 0;
    while (in->output[i].form != TD_FORM_binary)
        i++;
    char head[TD_NPY_HEAD];
    const struct td_tensor *t = &in->out[i];
    size_t bytes = td_nbytes(t);
    if (!td_npy_head(t, head))
        return td_infer_check_npy(in);
    char *body = in->binary ? in->binary - TD_NPY_HEAD : NULL;
    if (!body || t->data != in->binary) { /* it is empty, or has got its size only now */
        body = td_arena_alloc(in->req->arena, TD_NPY_HEAD + bytes);
        if (!body)
            return td_problem_set(&in->run.problem, ENOMEM, "no memory for the reply");
        memcpy(body + TD_NPY_HEAD, t->data, bytes);
    }
    memcpy(body, head, TD_NPY_HEAD);
    *res = (struct td_response){.status = 200, .type = "application/x-npy", .body = body};
    res->size = TD_NPY_HEAD + bytes;
    return 0;
}

void td_infer_reply(struct td_infer *in)
{
    struct td_writer *w = &in->text;
    if (in->npy && !in->meta) {
        int err = reply_npy(in);
        if (err)
            td_api_problem(in->req, err, "%s", in->run.problem.text);
        return;
    }
    if (in->meta)
        td_write_init(w, in->req->arena, AROUND);
    if (in->run.call.counted)
        td_infer_close_gaps(in);
    if (in->front)
        td_write_raw(w, NULL, in->front, in->front_size);
    else
        td_infer_write_front(in, w);
    td_infer_write_parameters(in, w);
    td_write_close(w, '}');
    if (join(in, w, &in->req->response))
        td_api_problem(in->req, -ENOMEM, "no memory for the reply");
}
