/* Whether what a network's plan answers is right: by the same calls one by one, on a server of its
 * own that is capped at the level DEFAULT. So neither the plan nor a vector kernel of ours has a
 * part in what it is judged by. */
#include "server/report/suites.h"

#include "kernels/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 1e-4 /* what an element may be off by: this by 1 or the output's deviation, and */
#define PART 1e-3 /* this part of itself */

static int fail(struct td_suites *s, const char *why)
{
    return td_once_fail(&s->r->once, why);
}

/* ---- the reference's server ---- */

static int ask(struct td_suites *s, const struct td_question *question, struct td_reply *reply)
{
    char why[300];
    int err = td_child_ask(&s->reference, s->once, question, reply);
    if (!err && reply->status < 300)
        return 0;
    if (err)
        snprintf(why, sizeof why, "the reference's server: %s", strerror(-err));
    else
        snprintf(why, sizeof why, "the reference's server: %.*s",
                 (int)(reply->size < 250 ? reply->size : 250), reply->body);
    return fail(s, why);
}

static const char *want_npy(struct td_request *req, const char *name)
{
    (void)req;
    return strcmp(name, "Accept") ? NULL : "application/x-npy";
}

/* Gives it the inputs that are stored here. */
static int give_inputs(struct td_suites *s)
{
    struct td_once *once = &s->r->once;
    int failed = 0;
    for (int i = 0; i < once->n_numbers && !failed; i++) {
        struct td_answer answer = {td_arena_create(), NULL};
        struct td_reply reply;
        char path[64];
        snprintf(path, sizeof path, "/v1/tensors/numbers%d", i);
        const struct td_ask get = {.method = TD_GET, .path = path, .header = want_npy};
        failed = !answer.arena || td_once_ask(once, once->worker, &answer, &get);
        if (!failed) {
            const struct td_response *res = &answer.req->response;
            td_peers_input(&s->peers, s->input_name[i], res->body, res->size);
            failed = ask(
                s, &(struct td_question){"PUT", path, "application/x-npy", res->body, res->size, 0},
                &reply);
        }
        td_once_forget(&answer);
    }
    return failed;
}

static int ask_reference(struct td_suites *s, const struct td_writer *call, struct td_reply *reply)
{
    return ask(s,
               &(struct td_question){"PUT", "/v1/models/model", "application/octet-stream",
                                     s->bytes, s->size, 0},
               reply) ||
           give_inputs(s) ||
           ask(s,
               &(struct td_question){"POST", "/v2/models/model/infer", "application/json",
                                     call->text, call->length, 0},
               reply);
}

/* ---- comparing ---- */

struct answer { /* JSON, and behind it the outputs' elements */
    const char *text;
    size_t head, size;
    struct td_json json;
    const char *elements; /* of the output that is next */
};

static int read_answer(struct answer *a, struct td_problem *problem)
{
    a->elements = a->text + a->head;
    return td_json_parse(&a->json, a->text, a->head, 32, problem);
}

/* The next output, with its elements in the arena. */
static int next_output(struct answer *a, const cJSON *item, struct td_arena *arena,
                       struct td_tensor *t)
{
    struct td_problem problem;
    const char *name = td_json_member(item, "name")->valuestring;
    if (td_json_shape(item, t, name, &problem) || td_json_dtype(item, t, name, &problem) ||
        td_nbytes(t) > (size_t)(a->text + a->size - a->elements))
        return 1;
    t->data = td_arena_alloc(arena, td_nbytes(t) + 64);
    if (!t->data)
        return 1;
    memcpy(t->data, a->elements, td_nbytes(t));
    a->elements += td_nbytes(t);
    return 0;
}

static double deviation(const struct td_tensor *t)
{
    double mean = 0, square = 0;
    int64_t n = td_numel(t);
    for (int64_t i = 0; i < n; i++)
        mean += td_get_real(t, i) / (double)n;
    for (int64_t i = 0; i < n; i++)
        square += pow(td_get_real(t, i) - mean, 2) / (double)n;
    return sqrt(square);
}

/* The largest difference of an element, by what it may be. */
static double difference(const struct td_tensor *x, const struct td_tensor *right)
{
    bool real = td_dtype_kind(right->dtype) == 'f';
    double worst = 0, spread = real ? deviation(right) : 0;
    double floor = NEAR * (spread > 1 ? spread : 1);
    for (int64_t i = 0; i < td_numel(right); i++) {
        if (!real) {
            worst = td_get_whole(x, i) == td_get_whole(right, i) ? worst : INFINITY;
            continue;
        }
        double a = td_get_real(x, i), b = td_get_real(right, i);
        bool same = a == b || (isnan(a) && isnan(b));
        double by = same ? 0 : fabs(a - b) / (floor + PART * fabs(b));
        worst = by > worst || isnan(by) ? (isnan(by) ? INFINITY : by) : worst;
    }
    return worst;
}

static bool is_alike(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

static int compare(struct td_suites *s, struct answer *plan, struct answer *right)
{
    const cJSON *outputs[2] = {td_json_member(plan->json.root, "outputs"),
                               td_json_member(right->json.root, "outputs")};
    const cJSON *a = outputs[0] ? outputs[0]->child : NULL;
    const cJSON *b = outputs[1] ? outputs[1]->child : NULL;
    for (; a && b; a = a->next, b = b->next) {
        struct td_tensor x = {.rank = 0}, y = {.rank = 0};
        if (next_output(plan, a, s->once, &x) || next_output(right, b, s->once, &y) ||
            !is_alike(&x, &y))
            return fail(s, "an output's shape or type differs from the reference's");
        td_peers_output(&s->peers, &x);
        double worst = difference(&x, &y);
        s->at->worst = worst > s->at->worst ? worst : s->at->worst;
    }
    return a || b ? fail(s, "there are more outputs than the reference's, or fewer") : 0;
}

/* What a call of it holds at most, as it says itself. */
static double most_bytes(const struct answer *a)
{
    const cJSON *parameters = td_json_member(a->json.root, "parameters");
    const cJSON *most = td_json_member(td_json_member(parameters, "explain"), "most_bytes");
    return cJSON_IsNumber(most) ? most->valuedouble : 0;
}

/* Asks here; the answer lives as long as `kept`. */
static int ask_here(struct td_suites *s, bool eager, struct td_answer *kept, struct answer *a,
                    struct td_writer *call)
{
    struct td_once *once = &s->r->once;
    struct td_problem problem;
    once->eager = eager;
    once->explains = true;
    td_write_init(call, s->once, 4096);
    kept->arena = td_arena_create();
    if (!kept->arena || td_once_write_call(once, call, &s->inputs, NULL) ||
        td_once_infer(once, once->worker, kept, call->text, call->length))
        return 1;
    const struct td_response *res = &kept->req->response;
    *a = (struct answer){.text = res->body, .size = res->size, .head = res->size};
    if (res->header[0].name)
        a->head = strtoull(res->header[0].value, NULL, 10);
    return read_answer(a, &problem) ? fail(s, problem.text) : 0;
}

int td_suites_judge(struct td_suites *s)
{
    struct td_answer kept[2] = {{NULL}, {NULL}};
    struct answer plan = {NULL}, eager = {NULL}, right = {NULL};
    struct td_writer call;
    struct td_reply reply = {0};
    struct td_problem problem;
    int failed =
        ask_here(s, false, &kept[0], &plan, &call) || ask_here(s, true, &kept[1], &eager, &call);
    if (!failed)
        s->at->eager_bytes = most_bytes(&eager);
    if (!failed && s->reference.pid > 0) {
        failed = ask_reference(s, &call, &reply);
        right = (struct answer){.text = reply.body, .head = reply.head, .size = reply.size};
        failed = failed || (read_answer(&right, &problem) && fail(s, problem.text)) ||
                 compare(s, &plan, &right);
        s->at->judged = !failed;
        s->at->passed = !failed && s->at->worst <= 1;
        if (!failed && !s->at->passed)
            snprintf(s->at->why, sizeof s->at->why, "an element is %.3g times as far off as it may",
                     s->at->worst);
    }
    td_json_free(&plan.json);
    td_json_free(&eager.json);
    td_json_free(&right.json);
    td_once_forget(&kept[0]);
    td_once_forget(&kept[1]);
    return failed;
}
