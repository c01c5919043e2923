/* What the dispatcher has to say in the reply: why this kernel, the way there, or why there is
 * none. */
#include "api/infer/call.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void write_candidates(struct td_writer *w, const struct td_run *run)
{
    struct td_why why[24];
    int n = td_run_explain(run, why, 24);
    td_write_open(w, "candidates", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "kernel", why[i].impl->name);
        td_write_str(w, "isa", td_isa_name(why[i].isa));
        td_write_str(w, "verdict", why[i].reason);
        if (why[i].us > 0)
            td_write_num(w, "measured_us", why[i].us);
        td_write_rounding(w, why[i].rounding);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* The type that autocast gave the floats; "none": they are what came. */
static const char *autocast_name(const struct td_run *run)
{
    enum td_dtype type = td_autocast_of(run);
    return type ? td_dtype_name(type) : "none";
}

static void write_parts(struct td_writer *w, const struct td_run *run)
{
    td_write_open(w, "parts", '[');
    for (const struct td_run *part = run->parts; part; part = part->next) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "operator", part->handle->full);
        td_write_str(w, "key", td_key_name(part->key));
        if (part->with >= 0)
            td_write_int(w, "with", part->with);
        if (part->impl && part->compute_type)
            td_write_str(w, "compute_type", td_dtype_name(part->compute_type));
        if (part->view) {
            td_write_bool(w, "view", true);
            td_write_open(w, "candidates", '[');
            td_write_close(w, ']');
        } else {
            write_candidates(w, part);
        }
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* What was asked for, what the operator's list says, and what became of it. */
static void write_autocast(const struct td_run *run, struct td_writer *w)
{
    const char *policy = td_autocast_policy(run->handle);
    td_write_open(w, "autocast", '{');
    td_write_str(w, "asked", td_dtype_name(run->options.autocast));
    td_write_str(w, "policy", policy ? policy : "none");
    td_write_str(w, "type", autocast_name(run));
    td_write_close(w, '}');
}

static void write_record(struct td_infer *in, struct td_writer *w, const char *key)
{
    if (in->served) {
        td_infer_write_model(in, w, key);
        return;
    }
    const struct td_run *run = &in->run;
    const struct td_table *table = in->eval ? NULL : td_handle_table(run->handle);
    td_write_open(w, key, '{');
    td_write_str(w, "operator", run->handle->full);
    if (table)
        td_write_str(w, "schema", run->handle->op->schema);
    td_write_keys(w, "keyset", run->keys);
    td_write_str(w, "key", td_key_name(run->key));
    if (table)
        td_write_str(w, "provenance",
                     td_provenance_name(table->entry[td_key_index(run->key)].provenance));
    td_write_int(w, "threads", run->call.threads);
    td_write_int(w, "promoted", run->n_casts);
    if (run->options.autocast && table)
        write_autocast(run, w);
    td_write_bool(w, "inline", in->ran_inline);
    td_write_num(w, "estimate_us", round(td_run_cost(&in->run).likely * 1e9) / 1e3);
    if (run->why_rows)
        td_write_str(w, "not_generated", run->why_rows);
    struct td_work work = td_run_work(run);
    td_write_work(w, &work, run->compute_type, run->call.threads, in->end_ns - in->begin_ns);
    write_candidates(w, run);
    if (run->parts)
        write_parts(w, run);
    td_write_close(w, '}');
}

void td_infer_note_trail(struct td_infer *in)
{
    const char *op = in->served ? NULL : in->eval ? in->expr : in->run.handle->full;
    in->req->trail = (struct td_trail){.op = op,
                                       .model = in->served ? in->model : NULL,
                                       .pool = td_pool_name(in->pool),
                                       .impl = in->run.impl,
                                       .isa = in->run.isa,
                                       .compute_type = in->run.compute_type,
                                       .queue_ns = in->begin_ns - in->queued_ns,
                                       .compute_ns = in->end_ns - in->begin_ns};
}

const char *td_infer_explain(struct td_request *req)
{
    struct td_writer w;
    if (!req->trail.impl)
        return NULL;
    td_write_init(&w, req->arena, 2048);
    write_record(req->call_, &w, NULL);
    td_write_took(&w, td_write_room(&w, 1) ? 1 : 0);
    if (w.failed)
        return NULL;
    w.text[w.length - 1] = 0;
    return w.text;
}

static void write_trace(struct td_infer *in, struct td_writer *w)
{
    const struct td_trace *trace = in->options.trace;
    td_write_open(w, "trace", '[');
    for (int i = 0; i < trace->n && i < TD_MAX_TRACE; i++) {
        char line[256];
        td_trace_format(&trace->line[i], line, sizeof line);
        td_write_str(w, NULL, line);
    }
    td_write_close(w, ']');
}

/* What a backward of the call needs: a formula for each argument, and what to keep for them. */
static void write_derivative(const struct td_run *run, struct td_writer *w)
{
    const struct td_derivative *first = run->derivative;
    td_write_open(w, "grad_fn", '{');
    td_write_str(w, "operator", first->op);
    td_write_open(w, "gradients", '{');
    for (const struct td_derivative *d = first; d; d = td_derivative_next(d))
        td_write_str(w, d->arg, d->formula);
    td_write_close(w, '}');
    td_write_open(w, "saved", '[');
    for (int i = 0; i < run->handle->schema.n_params; i++)
        if (td_derivative_needs(first, run->handle->schema.param[i].name))
            td_write_str(w, NULL, run->handle->schema.param[i].name);
    for (const char *const *word = td_derivative_words; *word; word++)
        if (strcmp(*word, "grad") && td_derivative_needs(first, *word))
            td_write_str(w, NULL, *word);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

static void write_answers(struct td_infer *in, struct td_writer *w)
{
    if (in->run.derivative)
        write_derivative(&in->run, w);
    if (in->explain)
        write_record(in, w, "explain");
    if (in->options.trace)
        write_trace(in, w);
}

/* The backends that the operator has kernels for, and what may be the matter. */
static void write_instead(const struct td_run *run, struct td_writer *w)
{
    const struct td_table *table = td_handle_table(run->handle);
    td_write_open(w, "backends", '[');
    for (int i = 0; i < TD_TABLE_SIZE; i++)
        if (td_table_has_backend(table, i))
            td_write_str(w, NULL, td_key_name(td_key_at(i)));
    td_write_close(w, ']');
    td_write_open(w, "reasons", '[');
    if (run->key == TD_KEY_Undefined) {
        td_write_str(w, NULL, "no tensor argument has a backend, or exclude_keys took it away");
    } else {
        td_write_str(w, NULL, "the operator has no kernel for this backend or layout");
        td_write_str(w, NULL, "this server was not made for it: device names one of backends");
    }
    td_write_close(w, ']');
}

/* Which kernel ran and where: mostly what the thread wrote last, which is kept as it was. */
static void write_kernel(const struct td_infer *in, struct td_writer *w)
{
    static _Thread_local struct {
        const struct td_impl *impl;
        enum td_isa isa;
        enum td_dtype compute_type;
        size_t size;
        char pool[TD_POOL_NAME], text[TD_POOL_NAME + 128];
    } last;
    const char *pool = td_pool_name(in->pool);
    if (last.impl == in->run.impl && last.isa == in->run.isa &&
        last.compute_type == in->run.compute_type && !strcmp(last.pool, pool)) {
        td_write_raw(w, NULL, last.text, last.size);
        return;
    }
    size_t begin = w->length;
    td_write_str(w, "kernel", in->run.impl->name);
    td_write_str(w, "isa", td_isa_name(in->run.isa));
    if (in->run.compute_type)
        td_write_str(w, "compute_type", td_dtype_name(in->run.compute_type));
    td_write_str(w, "pool", pool);
    last.impl = NULL;
    last.size = w->length - begin;
    if (w->failed || last.size > sizeof last.text)
        return;
    last.impl = in->run.impl;
    last.isa = in->run.isa;
    last.compute_type = in->run.compute_type;
    strcpy(last.pool, pool);
    memcpy(last.text, w->text + begin, last.size);
}

void td_infer_write_parameters(struct td_infer *in, struct td_writer *w)
{
    if (in->brief && !in->explain && !in->options.trace && !in->options.autocast)
        return;
    td_write_open(w, "parameters", '{');
    if (!in->meta) {
        write_kernel(in, w);
        td_write_int(w, "queue_us", (in->begin_ns - in->queued_ns) / 1000);
        td_write_us(w, "compute_us", in->end_ns - in->begin_ns);
    }
    if (in->session.made) {
        td_write_str(w, "session", in->session.name);
        td_write_int(w, "session_step", in->session.made);
    }
    if (in->options.autocast)
        td_write_str(w, "autocast", autocast_name(&in->run));
    if (!in->meta && in->streams.asked) {
        td_write_int(w, "streams", in->streams.parts);
        if (*in->streams.warning)
            td_write_str(w, "warning", in->streams.warning);
    }
    write_answers(in, w);
    td_write_close(w, '}');
}

int td_infer_no_kernel(struct td_infer *in)
{
    struct td_request *req = in->req;
    struct td_writer w;
    td_api_problem_begin(req, &w, -ENOSYS, in->run.problem.text);
    td_write_str(&w, "operator", in->run.handle->full);
    td_write_str(&w, "key", td_key_name(in->run.key));
    td_write_keys(&w, "keyset", in->run.keys);
    write_instead(&in->run, &w);
    td_write_table(&w, in->run.handle);
    if (in->options.trace)
        write_trace(in, &w);
    return td_api_problem_end(req, &w, -ENOSYS);
}
