/* A model's file is loaded, looked at, and run as a request runs it: on inputs as it declares them,
 * twice, so that the second run has a plan. */
#ifndef TD_TESTS_FUZZ_RUN_FILE_H
#define TD_TESTS_FUZZ_RUN_FILE_H

#include "dispatch/model/model.h"
#include "tests/fuzz/fuzz.h"
#include "tests/sample.h"

#define MOST_INPUTS 16

static inline void visit_node(void *arg, const char *name, const char *op, int depth)
{
    *(size_t *)arg += strlen(name) + strlen(op) + (size_t)depth;
}

static inline void visit_plan(const struct td_model_plan *plan, void *model)
{
    struct td_model_step step;
    FILE *null = fopen("/dev/null", "w");
    for (int i = 0; i < plan->n_steps; i++)
        td_model_plan_step(plan, i, &step);
    if (null)
        td_model_plan_print(model, plan, true, null);
    if (null)
        fclose(null);
}

static inline void visit_pass(struct td_model *model, const char *pass)
{
    struct td_problem problem = {""};
    FILE *null = fopen("/dev/null", "w");
    if (null)
        td_model_print_after(model, pass, null, &problem);
    if (null)
        fclose(null);
}

static inline void run_model(struct td_model *model)
{
    static const int64_t sizes[] = {2, 3, 1};
    struct td_problem problem = {""};
    const struct td_model_port *port;
    struct td_tensor in[MOST_INPUTS];
    int n = td_model_inputs(model, &port), all = td_model_all_inputs(model), made = 0;
    bool good = all <= MOST_INPUTS;
    for (; good && made < n; made++) {
        struct td_tensor *t = &in[made];
        *t = (struct td_tensor){.dtype = port[made].dtype ? port[made].dtype : TD_f32,
                                .rank = port[made].rank < 0 ? 2 : port[made].rank};
        for (int d = 0; d < t->rank; d++)
            t->shape[d] =
                port[made].rank < 0 || port[made].shape[d] < 0 ? sizes[d % 3] : port[made].shape[d];
        good = td_fits(t) && td_nbytes(t) < 1 << 18;
        if (!good)
            break;
        t->data = sample_alloc(td_nbytes(t));
        for (int64_t i = 0; i < (int64_t)td_nbytes(t); i++)
            ((uint8_t *)t->data)[i] =
                i % (int64_t)td_dtype_size(t->dtype) ? 0 : (uint8_t)(i / 4 % 2);
    }
    if (good)
        td_model_begin_states(model, in);
    for (int turn = 0; turn < 3 && good; turn++) {
        struct td_stop stop = {.deadline_ns = td_clock_ns() + WORK_NS};
        struct td_model_call call = {.threads = 1, .node = -1, .eager = turn == 2, .stop = &stop};
        struct td_model_results *results = NULL;
        good = !td_model_check(model, in, all, &problem) &&
               !td_model_run(model, in, &call, &results, &problem);
        td_model_free_results(&results);
    }
    td_model_visit_plans(model, visit_plan, model);
    visit_pass(model, "products");
    visit_pass(model, "post_ops");
    for (int i = 0; i < made; i++)
        sample_free(in[i].data, td_nbytes(&in[i]));
}

static inline void run_file(const uint8_t *data, size_t size)
{
    struct td_problem problem = {""};
    struct td_model *model = NULL;
    void *file = malloc(size ? size : 1); /* exact */
    int err = td_model_load(&model, memcpy(file, data, size), size, NULL, NULL, &problem);
    free(file);
    must(!err == !!model && (!err || *problem.text));
    if (model) {
        size_t seen = 0;
        td_model_each_node(model, visit_node, &seen);
        run_model(model);
    }
    td_model_unref(&model);
}

#endif
