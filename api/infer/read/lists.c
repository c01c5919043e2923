/* Lists among a call's arguments: of numbers or bools, as JSON has them, and of tensors. These come
 * one by one, as inputs called NAME.0, NAME.1, ... (where one is left out it is None), and here
 * become one argument. */
#include "api/infer/call.h"

#include <stdlib.h>
#include <string.h>

int td_infer_read_list(const cJSON *item, const char *who, struct td_value *v,
                       struct td_problem *problem)
{
    const cJSON *one;
    bool bools = cJSON_IsBool(item->child), floats = false;
    int n = cJSON_GetArraySize(item);
    if (n > TD_MAX_LIST)
        return td_problem_set(problem, EINVAL, "%s: has more than %d numbers", who, TD_MAX_LIST);
    cJSON_ArrayForEach(one, item)
    {
        floats = floats || (cJSON_IsNumber(one) && td_json_is_float(one));
    }
    *v = (struct td_value){.kind = bools ? TD_KIND_bools : floats ? TD_KIND_floats : TD_KIND_ints};
    cJSON_ArrayForEach(one, item)
    {
        __int128 whole = cJSON_IsTrue(one);
        if (bools    ? !cJSON_IsBool(one)
            : floats ? !cJSON_IsNumber(one)
                     : !td_json_whole(one, &whole) || whole != (int64_t)whole)
            return td_infer_refuse(problem, who, "must hold numbers, or bools only");
        if (floats)
            v->floats.v[v->floats.n++] = one->valuedouble;
        else
            v->ints.v[v->ints.n++] = (int64_t)whole;
    }
    return 0;
}

/* The place that "NAME.12" says it has in NAME, whose length is *length; -1: it says none. */
static int place_of(const char *name, size_t *length)
{
    const char *dot = name ? strrchr(name, '.') : NULL;
    size_t digits = dot ? strspn(dot + 1, "0123456789") : 0;
    if (!digits || digits > 2 || dot[1 + digits] || (digits > 1 && dot[1] == '0'))
        return -1;
    *length = (size_t)(dot - name);
    return atoi(dot + 1) < TD_MAX_INPUTS ? atoi(dot + 1) : -1;
}

/* Makes argument first the list of all that are of its name, and closes the gaps. */
static int gather(struct td_infer *in, int first, size_t length, struct td_problem *problem)
{
    const char *of = in->args[first].name;
    struct td_tensor *v =
        td_arena_zalloc(in->req->arena, sizeof *v * TD_MAX_INPUTS); /* without type: None */
    char *name = td_arena_printf(in->req->arena, "%.*s", (int)length, of);
    if (!v || !name)
        return td_problem_set(problem, ENOMEM, "no memory for the request");
    struct td_named list = {.name = name, .value = {.kind = TD_KIND_tensors}};
    int kept = first + 1;
    for (int i = first; i < in->n_args; i++) {
        size_t n = 0;
        int place = place_of(in->args[i].name, &n);
        if (place < 0 || n != length || strncmp(in->args[i].name, of, length)) {
            in->args[kept] = in->args[i];
            in->stored[kept++] = in->stored[i];
            continue;
        }
        v[place] = in->args[i].value.tensor;
        list.keys |= in->args[i].keys;
        list.value.tensors.n = place < list.value.tensors.n ? list.value.tensors.n : place + 1;
    }
    list.value.tensors.v = v;
    in->args[first] = list;
    in->stored[first].name = NULL;
    in->stored[first].weight = NULL;
    for (int i = kept; i < in->n_args; i++)
        in->stored[i].name = NULL;
    in->n_args = kept;
    return 0;
}

int td_infer_gather_lists(struct td_infer *in, struct td_problem *problem)
{
    for (int i = 0; i < in->n_args; i++) {
        size_t length;
        int err =
            in->args[i].value.kind == TD_KIND_tensor && place_of(in->args[i].name, &length) >= 0
                ? gather(in, i, length, problem)
                : 0;
        if (err)
            return err;
    }
    return 0;
}
