/* Prints a plan as a program for people: a line for each call, with its operands by name, and
 * around each fused group its loop over tiles. */
#include "dispatch/passes/passes.h"
#include "kernels/jit/code.h"
#include "kernels/loops/fused.h"

#include <inttypes.h>
#include <string.h>

static void print_shape(FILE *to, const struct td_tensor *t)
{
    for (int i = 0; i < t->rank; i++)
        fprintf(to, "%s%" PRId64, i ? "," : "[", t->shape[i]);
    if (t->rank)
        fputc(']', to);
}

static void print_like(FILE *to, const struct td_tensor *t)
{
    fputs(td_dtype_name(t->dtype), to);
    print_shape(to, t);
}

/* Prints text of a file, which may be anything: unprintable characters become _, and in a name all
 * that C does not allow in one. */
static void print_text(FILE *to, const char *text, bool name)
{
    for (; *text; text++) {
        bool word = (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'z') ||
                    (*text >= 'A' && *text <= 'Z');
        fputc(word || (!name && *text >= ' ' && *text <= '~') ? *text : '_', to);
    }
}

struct source {
    FILE *to;
    bool code; /* also prints instructions */
    const struct td_plan *plan;
    const struct td_model_port *input;
};

static void print_value(const struct source *s, int value, size_t offset)
{
    const struct td_plan_value *v = &s->plan->value[value];
    if (v->step < 0 && v->result >= s->plan->n_inputs)
        fprintf(s->to, "outer%d", v->result - s->plan->n_inputs);
    else if (v->step < 0)
        print_text(s->to, s->input[v->result].name, true);
    else if (s->plan->step[v->step].n_outs > 1)
        fprintf(s->to, "v%d[%d]", v->step, v->result);
    else
        fprintf(s->to, "v%d", v->step);
    if (offset)
        fprintf(s->to, "+%zu", offset);
}

/* Prints a use that is a view with strides. */
static void print_strided(const struct source *s, const struct td_plan_use *use,
                          const struct td_tensor *t)
{
    fputs("as_strided(", s->to);
    print_value(s, use->value, use->offset);
    fputs(", ", s->to);
    print_shape(s->to, t);
    for (int i = 0; i < t->rank; i++)
        fprintf(s->to, "%s%" PRId64, i ? "," : ", [", t->stride[i]);
    fputs("])", s->to);
}

static void print_tensor(const struct source *s, const struct td_plan_step *step, int arg,
                         int element, const struct td_tensor *t)
{
    const struct td_plan_use *use = td_step_use(step, arg, element);
    if (use && t->stride)
        print_strided(s, use, t);
    else if (use)
        print_value(s, use->value, use->offset);
    else if (!t->dtype)
        fputs("None", s->to);
    else if (!t->rank && t->data && t->dtype == TD_f32)
        fprintf(s->to, "%.9g", (double)*(const float *)t->data);
    else if (!t->rank && t->data && t->dtype == TD_i64)
        fprintf(s->to, "%" PRId64, *(const int64_t *)t->data);
    else
        print_like(s->to, t);
}

static void print_argument(const struct source *s, const struct td_plan_step *step, int arg)
{
    const struct td_value *v = &step->arg[arg].value;
    switch (v->kind) {
    case TD_KIND_none:
        fputs("None", s->to);
        break;
    case TD_KIND_tensor:
        print_tensor(s, step, arg, -1, &v->tensor);
        break;
    case TD_KIND_tensors:
        for (int i = 0; i < v->tensors.n; i++) {
            fputs(i ? ", " : "[", s->to);
            print_tensor(s, step, arg, i, &v->tensors.v[i]);
        }
        fputs(v->tensors.n ? "]" : "[]", s->to);
        break;
    case TD_KIND_int:
        fprintf(s->to, "%" PRId64, v->i);
        break;
    case TD_KIND_float:
        fprintf(s->to, "%.9g", v->f);
        break;
    case TD_KIND_bool:
        fputs(v->i ? "True" : "False", s->to);
        break;
    case TD_KIND_ints:
    case TD_KIND_bools:
        for (int i = 0; i < v->ints.n; i++)
            fprintf(s->to, "%s%" PRId64, i ? ", " : "[", v->ints.v[i]);
        fputs(v->ints.n ? "]" : "[]", s->to);
        break;
    case TD_KIND_floats:
        for (int i = 0; i < v->floats.n; i++)
            fprintf(s->to, "%s%.9g", i ? ", " : "[", v->floats.v[i]);
        fputs(v->floats.n ? "]" : "[]", s->to);
        break;
    case TD_KIND_dtype:
        fputs(td_dtype_name(v->dtype), s->to);
        break;
    case TD_KIND_str:
        fputc('\'', s->to);
        print_text(s->to, v->str, false);
        fputc('\'', s->to);
        break;
    }
}

static void print_step(const struct source *s, int i, bool together)
{
    const struct td_plan_step *step = &s->plan->step[i];
    const struct td_plan_value *value = &s->plan->value[step->value];
    fprintf(s->to, "%sv%d = %s(", together ? "        " : "    ", i, step->handle->full);
    for (int k = 0; k < step->n_args; k++) {
        fputs(k ? ", " : "", s->to);
        if (step->arg[k].name)
            fprintf(s->to, "%s=", step->arg[k].name);
        print_argument(s, step, k);
    }
    fputs("); // ", s->to);
    print_like(s->to, &value->like);
    if (step->kernel)
        fprintf(s->to, "%s, %s@%s",
                value->inside      ? " in the cache"
                : value->over >= 0 ? " in place"
                                   : "",
                step->kernel, td_isa_name(step->isa));
    int64_t ns = step->ns;
    if (ns)
        fprintf(s->to, ", %.1f us", (double)ns * 1e-3);
    fputs(*step->node ? ", " : "", s->to);
    print_text(s->to, step->node, false);
    fputc('\n', s->to);
}

/* Prints the instructions of the group that ends with step, or why there are none. */
static void print_code(const struct source *s, const struct td_plan_step *step)
{
    const struct td_fusion *fusion = step->fusion;
    struct td_loop_view view;
    int loop = fusion ? td_fusion_loop(fusion) : -1;
    if (td_loop_at(loop, &view))
        td_loop_print(loop, &view, s->to);
    else
        fprintf(s->to, "    // not generated: %s\n",
                fusion && td_fusion_why_rows(fusion) ? td_fusion_why_rows(fusion)
                                                     : "it has not run yet");
}

static void print_steps(const struct source *s)
{
    int with = -1;
    for (int i = 0; i < s->plan->n_steps; i++) {
        const struct td_plan_step *step = &s->plan->step[i];
        if (!step->handle)
            continue;
        int group = step->kernel ? step->with : -1; /* not bound: nothing is grouped yet */
        if (group >= 0 && with < 0) {
            fputs("    for (each tile of ", s->to);
            print_shape(s->to, &s->plan->value[step->value].like);
            fputs(") {\n", s->to);
        }
        with = group;
        print_step(s, i, with >= 0);
        if (with == i) {
            fputs("    }\n", s->to);
            if (s->code)
                print_code(s, step);
            with = -1;
        }
    }
}

static void print_results(const struct source *s)
{
    if (s->plan->wanted.number)
        fputs("    // what comes next depends on values:\n", s->to);
    for (int i = 0; i < s->plan->n_outputs; i++) {
        const struct td_plan_output *out = &s->plan->output[i];
        fputs(i ? ", " : "    return ", s->to);
        if (out->value >= 0)
            print_value(s, out->value, out->offset);
        else
            print_like(s->to, &out->tensor);
    }
    fputs(";\n}\n", s->to);
}

void td_model_plan_print(const struct td_model *model, const struct td_model_plan *plan, bool code,
                         FILE *to)
{
    struct source s = {.to = to, .code = code, .plan = plan->of_};
    td_model_inputs(model, &s.input);
    fprintf(to, "// %d thread%s\nrun(", plan->threads, plan->threads == 1 ? "" : "s");
    for (int i = 0; i < plan->n_inputs; i++) {
        fputs(i ? ", " : "", to);
        print_like(to, &plan->input[i]);
        fputc(' ', to);
        print_text(to, s.input[i].name, true);
    }
    fputs(")\n{\n", to);
    if (*plan->refused) {
        fputs("    // node by node: ", to);
        print_text(to, plan->refused, false);
        fputs("\n}\n", to);
        return;
    }
    if (plan->turns > 1)
        fprintf(to, "    // %d turns of a loop in the last call\n", plan->turns);
    print_steps(&s);
    print_results(&s);
}
