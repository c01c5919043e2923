/* What the JSON of a node says by itself: names, and flags among its arguments. */
#include "dispatch/pt2/pt2.h"

#include <string.h>

const char *td_pt2_short(struct td_pt2_graph *graph, const cJSON *node)
{
    const char *target = td_pt2_text(node, "target");
    target = target ? target : "";
    target += !strncmp(target, "torch.ops.", 10) ? 10 : 0;
    target += !strncmp(target, "aten.", 5)                    ? 5
              : !strncmp(target, "torchvision.", 12)          ? 12
              : !strncmp(target, "quantized_decomposed.", 21) ? 21
                                                              : 0;
    size_t n = strlen(target);
    n -= n > 8 && !strcmp(target + n - 8, ".default") ? 8 : 0;
    return td_program_text(graph->pt2->model, target, n);
}

const char *td_pt2_name(const cJSON *node)
{
    const char *name = td_pt2_text(node, "name");
    return name ? name : "";
}

bool td_pt2_flag(const cJSON *node, const char *name)
{
    const cJSON *inputs = td_pt2_get(node, "inputs"), *i = inputs ? inputs->child : NULL;
    for (; i; i = i->next) {
        const char *is = td_pt2_text(i, "name");
        if (is && !strcmp(is, name))
            return cJSON_IsTrue(td_pt2_argument(td_pt2_get(i, "arg")));
    }
    return false;
}

bool td_pt2_is_called(const char *op, const char *name)
{
    size_t n = strcspn(op, ".");
    n -= n && op[n - 1] == '_';
    return strlen(name) == n && !memcmp(name, op, n);
}

const char *td_pt2_training_flag(const char *op)
{
    static const struct {
        const char *op, *flag;
    } norms[] = {{"batch_norm", "training"},
                 {"native_batch_norm", "training"},
                 {"_native_batch_norm_legit", "training"},
                 {"instance_norm", "use_input_stats"}};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (td_pt2_is_called(op, norms[i].op))
            return norms[i].flag;
    return NULL;
}

bool td_pt2_trains(const cJSON *node)
{
    const char *target = td_pt2_text(node, "target");
    const char *flag = NULL;
    if (target && !strncmp(target, "torch.ops.aten.", 15))
        flag = td_pt2_training_flag(target + 15);
    return flag && td_pt2_flag(node, flag);
}
