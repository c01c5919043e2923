/* Texts in a call. A model numbers the texts of its file, and is run on tensors of these numbers. A
 * text that does not stand in the file has the number -1. Where the input has a tokenizer, what is
 * numbered are the words that it makes of a text. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

struct filling {
    const struct td_model *model;
    struct td_arena *arena;
    const struct td_tokenizer *tokenizer; /* of the port, or NULL */
    /* An element a text: its number; with a tokenizer how many words it and those before it have,
     * until all texts are read and t becomes the tensor of these words. */
    struct td_tensor *t;
    int64_t n; /* texts so far */
    int64_t *word, n_words, words_room;
    bool exhausted;      /* there was no memory */
    struct td_stop stop; /* at the time that the request allows */
};

static struct filling filling_of(const struct td_infer *in, const struct td_model_port *port,
                                 struct td_tensor *t)
{
    int64_t end = in->timeout_ms ? in->req->begin_ns + in->timeout_ms * 1000000 : 0;
    return (struct filling){.model = in->served->model,
                            .arena = in->req->arena,
                            .tokenizer = port->tokenizer,
                            .t = t,
                            .stop.deadline_ns = end};
}

static bool add_word(void *arg, int64_t word)
{
    struct filling *f = arg;
    if (f->n_words == f->words_room) {
        int64_t room = 2 * f->words_room + 64;
        int64_t *more = td_arena_alloc(f->arena, sizeof *more * (size_t)room);
        f->exhausted = !more;
        if (!more)
            return false;
        if (f->n_words)
            memcpy(more, f->word, sizeof *more * (size_t)f->n_words);
        f->word = more;
        f->words_room = room;
    }
    f->word[f->n_words++] = word;
    return true;
}

static bool fill(void *arg, const char *text)
{
    struct filling *f = arg;
    if (f->n == td_numel(f->t))
        return false;
    int64_t *number = &((int64_t *)f->t->data)[f->n++];
    if (!f->tokenizer) {
        *number = td_model_word(f->model, text);
        return true;
    }
    char *own = td_arena_printf(f->arena, "%s", text);
    f->exhausted = !own;
    bool right = own && td_model_tokens(f->model, f->tokenizer, own, add_word, f);
    *number = f->n_words;
    return right;
}

static int room(struct td_infer *in, struct td_tensor *t, const char *who,
                struct td_problem *problem)
{
    t->dtype = TD_i64;
    if (!td_fits(t))
        return td_infer_refuse(problem, who, "its shape is too large");
    t->data = td_arena_alloc(in->req->arena, td_nbytes(t) + 1);
    return t->data ? 0 : td_problem_set(problem, ENOMEM, "no memory for %s", who);
}

static int wrong_count(const struct filling *f, const char *who, struct td_problem *problem)
{
    return td_problem_set(problem, EINVAL, "%s: data: %lld texts, as its shape says, are right",
                          who, (long long)td_numel(f->t));
}

/* What was in the way; err: what the reader of the texts says, which knows only that they ended. */
static int reason(const struct td_infer *in, const struct filling *f, int err, const char *who,
                  struct td_problem *problem)
{
    if (f->exhausted)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    if (td_stop_is_due(&f->stop))
        return td_problem_set(problem, ETIMEDOUT,
                              "timeout_ms: the request took longer than %lld ms",
                              (long long)in->timeout_ms);
    return err;
}

/* Of the words of all texts, a row for each, as long as the longest. */
static int put_words(struct td_infer *in, struct filling *f, const char *who,
                     struct td_problem *problem)
{
    const int64_t *end = f->t->data;
    int64_t texts = td_numel(f->t), longest = 0, pad, at = 0;
    for (int64_t i = 0; i < texts; i++) {
        int64_t words = end[i] - (i ? end[i - 1] : 0);
        longest = words > longest ? words : longest;
    }
    if (f->t->rank == TD_MAX_RANK)
        return td_infer_refuse(problem, who, "has too many dimensions");
    bool rows = td_model_cut(f->tokenizer, longest, f->t, &pad);
    int err = room(in, f->t, who, problem);
    int64_t *to = err ? NULL : f->t->data;
    if (!err && !rows && texts)
        memcpy(to, f->word, sizeof *to * (size_t)texts);
    for (int64_t i = 0; i < texts && rows && !err; i++) {
        int64_t begin = at;
        for (; at < end[i]; at++)
            *to++ = f->word[at];
        for (int64_t k = at - begin; k < longest; k++)
            *to++ = pad;
        err = td_stopped() ? -ETIMEDOUT : 0;
    }
    return err;
}

static int finish(struct td_infer *in, struct filling *f, const char *who,
                  struct td_problem *problem)
{
    if (f->n != td_numel(f->t))
        return wrong_count(f, who, problem);
    return f->tokenizer ? put_words(in, f, who, problem) : 0;
}

/* Each text has its length before it, in four bytes, the lowest first. */
static int read_binary(struct td_infer *in, const cJSON *size, const char *who, struct filling *f,
                       struct td_problem *problem)
{
    size_t left = in->req->body_size - in->binary_at;
    const unsigned char *at = (const unsigned char *)in->req->body + in->binary_at;
    if (in->req->json_length < 0 || !cJSON_IsNumber(size) || size->valuedouble < 0 ||
        size->valuedouble > (double)left || td_json_is_float(size))
        return td_infer_refuse(problem, who, "binary_data_size: the body has not as many bytes");
    size_t bytes = (size_t)size->valuedouble;
    const unsigned char *end = at + bytes;
    in->binary_at += bytes;
    while (at < end) {
        if (end - at < 4)
            return td_infer_refuse(problem, who, "a text's length is cut off");
        size_t n = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
        at += 4;
        if (n > (size_t)(end - at))
            return td_infer_refuse(problem, who, "a text is longer than what is left of it");
        const char *text = td_arena_printf(in->req->arena, "%.*s", (int)n, (const char *)at);
        if (!text)
            return td_problem_set(problem, ENOMEM, "no memory for %s", who);
        if (!fill(f, text))
            return wrong_count(f, who, problem);
        at += n;
    }
    return finish(in, f, who, problem);
}

static int read_object(struct td_infer *in, const cJSON *object, const char *who, struct filling *f,
                       struct td_problem *problem)
{
    const cJSON *parameters = td_json_member(object, "parameters"),
                *type = td_json_member(object, "datatype"), *data = td_json_member(object, "data");
    const cJSON *size = td_json_member(parameters, "binary_data_size");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "BYTES") != 0)
        return td_infer_refuse(problem, who, "datatype: BYTES is right: it takes texts");
    if (!data == !size)
        return td_infer_refuse(problem, who,
                               "must have exactly one of data and "
                               "parameters.binary_data_size");
    int err = td_json_shape(object, f->t, who, problem);
    err = err ? err : room(in, f->t, who, problem);
    if (err || size)
        return err ? err : read_binary(in, size, who, f, problem);
    err = td_json_texts(&in->json, data, fill, f, who, problem);
    return err ? err : finish(in, f, who, problem);
}

static int read_array(struct td_infer *in, const cJSON *item, const char *who, struct filling *f,
                      struct td_problem *problem)
{
    struct td_tensor *t = f->t;
    *t = (struct td_tensor){0};
    for (const cJSON *one = item; cJSON_IsArray(one); one = one->child) {
        if (t->rank == TD_MAX_RANK)
            return td_problem_set(problem, EINVAL, "%s: is nested deeper than %d", who,
                                  TD_MAX_RANK);
        t->shape[t->rank++] = cJSON_GetArraySize(one);
    }
    int err = room(in, t, who, problem);
    err = err ? err : td_json_texts(&in->json, item, fill, f, who, problem);
    if (!err && f->n != td_numel(t))
        return td_infer_refuse(problem, who, "its rows are not of one length");
    return err ? err : finish(in, f, who, problem);
}

int td_infer_read_texts(struct td_infer *in, const cJSON *item, const char *who,
                        const struct td_model_port *port, struct td_tensor *t,
                        struct td_problem *problem)
{
    struct filling f = filling_of(in, port, t);
    const struct td_stop *before = td_stop_obey(&f.stop);
    int err = cJSON_IsObject(item) ? read_object(in, item, who, &f, problem)
                                   : read_array(in, item, who, &f, problem);
    td_stop_obey(before);
    return err ? reason(in, &f, err, who, problem) : 0;
}

/* ---- the reply ---- */

bool td_infer_gives_texts(const struct td_infer *in, int i)
{
    return in->served && in->served->output[i].texts;
}

const char *td_infer_type_name(const struct td_infer *in, int i)
{
    return td_infer_gives_texts(in, i) ? "BYTES" : td_dtype_name(in->out[i].dtype);
}

static void write_each(struct td_writer *w, const struct td_tensor *t, const struct td_model *model)
{
    for (int64_t i = 0; i < td_numel(t); i++)
        td_write_str(w, NULL, td_model_text(model, ((const int64_t *)t->data)[i]));
}

static void write_row(struct td_writer *w, const struct td_tensor *t, void *model)
{
    if (t->rank)
        td_write_open(w, NULL, '[');
    write_each(w, t, model);
    if (t->rank)
        td_write_close(w, ']');
}

void td_infer_write_texts(const struct td_infer *in, struct td_writer *w, const struct td_tensor *t,
                          bool nested)
{
    if (nested)
        td_infer_write_nested(w, t, write_row, in->served->model);
    else
        write_each(w, t, in->served->model);
}
