/* Values and their channels-last twins. */
#include "dispatch/passes/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct td_tensor last_of(const struct td_tensor *t)
{
    struct td_tensor last = *t;
    last.shape[1] = t->shape[2];
    last.shape[2] = t->shape[3];
    last.shape[3] = t->shape[1];
    last.weight = NULL;
    return last;
}

int td_layout_follow(struct layout *l)
{
    int n = l->plan->n_values;
    if (n <= l->room)
        return 0;
    int room = 2 * n;
    int *twin = realloc(l->twin, sizeof *twin * (size_t)room);
    if (twin)
        l->twin = twin;
    bool *plain = realloc(l->plain, sizeof *plain * (size_t)room);
    if (plain)
        l->plain = plain;
    int *now = realloc(l->now, sizeof *now * (size_t)room);
    if (now)
        l->now = now;
    if (!twin || !plain || !now)
        return -ENOMEM;
    for (int i = l->room; i < room; i++) {
        l->twin[i] = -1;
        l->plain[i] = true;
        l->now[i] = i;
    }
    l->room = room;
    return 0;
}

/* Adds a value of that type and shape: its number, or -ENOMEM. */
static int new_value(struct layout *l, const struct td_tensor *t)
{
    int value = td_plan_add_value(l->plan, t, -1, 0);
    int err = value < 0 ? value : td_layout_follow(l);
    return err ? err : value;
}

/* Appends a step, and makes it the producer of its results. */
int td_layout_append(struct layout *l, const struct td_plan_step *step)
{
    int s = td_plan_add_step(l->plan, step);
    for (int i = 0; s >= 0 && i < step->n_outs; i++)
        l->plan->value[step->value + i].step = s;
    return s < 0 ? s : 0;
}

static int append_permute(struct layout *l, int from, int to, bool last, const char *node)
{
    static const int64_t orders[2][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}};
    struct td_plan_step step = {
        .handle = l->permute, .node = node, .n_args = 2, .n_uses = 1, .n_outs = 1, .value = to};
    step.arg = td_arena_zalloc(l->plan->arena, 2 * sizeof *step.arg);
    step.use = td_arena_zalloc(l->plan->arena, sizeof *step.use);
    if (!step.arg || !step.use)
        return -ENOMEM;
    step.arg[0].value = (struct td_value){.kind = TD_KIND_tensor, .tensor = *td_like(l, from)};
    step.arg[1].value = (struct td_value){.kind = TD_KIND_ints, .ints = {.n = 4}};
    memcpy(step.arg[1].value.ints.v, orders[last], sizeof orders[last]);
    *step.use = (struct td_plan_use){.arg = 0, .element = -1, .value = from};
    return td_layout_append(l, &step);
}

int td_layout_need_plain(struct layout *l, int *value, const char *node)
{
    int v = *value;
    if (l->plain[v])
        return 0;
    if (td_is_pixel(td_like(l, v))) {
        *value = l->twin[v];
        return 0;
    }
    l->plain[v] = true;
    return append_permute(l, l->twin[v], v, false, node);
}

int td_layout_twin(struct layout *l, int value, const char *node)
{
    if (l->twin[value] >= 0)
        return l->twin[value];
    struct td_tensor last = last_of(td_like(l, value));
    int twin = new_value(l, &last);
    int err = twin < 0 ? twin : append_permute(l, value, twin, true, node);
    if (!err)
        l->twin[value] = twin;
    return err ? err : twin;
}

int td_layout_give_twin(struct layout *l, struct td_plan_step *step)
{
    struct td_tensor last = last_of(td_like(l, step->value));
    int value = step->value, twin = new_value(l, &last), err = 0;
    for (int i = 1; i < step->n_outs && twin >= 0 && !err; i++) {
        struct td_tensor like = *td_like(l, value + i);
        int now = new_value(l, &like);
        err = now < 0 ? now : 0;
        if (!err) {
            l->now[value + i] = now;
            l->plan->value[now].result = i;
            l->plan->value[value + i].result = -1; /* of no step, and of no use */
        }
    }
    if (twin < 0 || err)
        return err ? err : twin;
    l->twin[value] = twin;
    l->plain[value] = false;
    step->value = twin;
    return td_layout_append(l, step);
}

bool td_layout_is_whole(const struct layout *l, const struct td_plan_use *use,
                        const struct td_tensor *as)
{
    return !use->offset && td_tensor_is_like(td_like(l, use->value), as);
}
