/* Members of the protocol's objects, judged and read: a tensor's shape, type and data, a size. */
#include "api/json/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_BYTES ((int64_t)1 << 46) /* of one tensor: what any address space could hold */

static void list_names(const char *const *names, char list[200])
{
    *list = 0;
    for (int i = 0; names[i]; i++)
        snprintf(list + strlen(list), 200 - strlen(list), "%s%s", i ? ", " : "", names[i]);
}

int td_json_members(const cJSON *object, const char *who, const char *const *right,
                    struct td_problem *problem)
{
    char list[200];
    int n = 0;
    if (object && !cJSON_IsObject(object) && !cJSON_IsNull(object)) { /* no member has a name */
        list_names(right, list);
        return td_problem_set(problem, EINVAL, "%.60s: must be an object with, of these: %s", who,
                              list);
    }
    for (const cJSON *item = object ? object->child : NULL; item; item = item->next) {
        for (n = 0; right[n] && strcmp(item->string, right[n]);)
            n++;
        if (right[n])
            continue;
        list_names(right, list);
        const char *near = td_nearest(item->string, right, n);
        return td_problem_set(problem, EINVAL, "%.60s: has no member '%.60s'%s%s%s; right are: %s",
                              who, item->string, near ? "; did you mean '" : "", near ? near : "",
                              near ? "'?" : "", list);
    }
    return 0;
}

int td_json_shape(const cJSON *object, struct td_tensor *t, const char *who,
                  struct td_problem *problem)
{
    return td_json_open_shape(object, t, who, NULL, NULL, problem);
}

int td_json_open_shape(const cJSON *object, struct td_tensor *t, const char *who,
                       td_json_unknown *unknown, void *arg, struct td_problem *problem)
{
    const cJSON *shape = td_json_member(object, "shape"), *dim;
    if (!cJSON_IsArray(shape))
        return td_problem_set(problem, EINVAL, "%s: shape must be an array of sizes", who);
    if (cJSON_GetArraySize(shape) > TD_MAX_RANK)
        return td_problem_set(problem, EINVAL, "%s: shape has %d dimensions; at most %d are taken",
                              who, cJSON_GetArraySize(shape), TD_MAX_RANK);
    int64_t n = 1;
    t->rank = 0;
    cJSON_ArrayForEach(dim, shape)
    {
        double size = cJSON_IsNumber(dim) ? dim->valuedouble : -1;
        int64_t open = unknown ? unknown(arg, dim) : 0;
        if (open < 0) {
            t->shape[t->rank++] = open;
            continue;
        }
        if (size < 0 || size != floor(size) || td_json_is_float(dim))
            return td_problem_set(problem, EINVAL,
                                  "%s: shape[%d] must be a whole number, 0 or more%s", who, t->rank,
                                  unknown ? ", or where it is unknown -1, or a name" : "");
        if (size > (double)MAX_BYTES || (size > 0 && n > MAX_BYTES / (int64_t)size))
            return td_problem_set(problem, EINVAL, "%s: shape has more elements than any memory",
                                  who);
        n *= size > 0 ? (int64_t)size : 1;
        t->shape[t->rank++] = (int64_t)size;
    }
    return 0;
}

int td_json_dtype(const cJSON *object, struct td_tensor *t, const char *who,
                  struct td_problem *problem)
{
    const cJSON *dtype = td_json_member(object, "datatype");
    t->dtype = cJSON_IsString(dtype) ? td_dtype_find(dtype->valuestring) : TD_DTYPE_none;
    if (!t->dtype)
        return td_problem_set(problem, EINVAL, "%s: datatype must be one of%s", who,
                              td_dtype_names);
    return 0;
}

int td_json_data(const struct td_json *json, const cJSON *object, struct td_tensor *t,
                 const char *who, struct td_arena *arena, struct td_problem *problem)
{
    const cJSON *data = td_json_member(object, "data");
    const struct td_json_span *span = td_json_span(json, data);
    if (!span)
        return td_problem_set(problem, EINVAL, "%s: data must be an array", who);
    int64_t n = td_numel(t);
    if (n > (int64_t)span->length) /* also keeps a huge shape from asking for memory */
        return td_problem_set(problem, EINVAL, "%s: data is too short; shape needs %lld elements",
                              who, (long long)n);
    t->data = td_arena_alloc(arena, td_nbytes(t) + 1);
    if (!t->data)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    return td_json_decode(span, t->dtype, n, t->data, who, problem);
}

int td_check_bools(const struct td_tensor *t, const char *who, struct td_problem *problem)
{
    const uint8_t *v = t->data;
    for (int64_t i = 0, n = t->dtype == TD_bool ? td_numel(t) : 0; i < n; i++)
        if (v[i] > 1)
            return td_problem_set(problem, EINVAL, "%.60s: byte %lld is %d; BOOL is 0 or 1", who,
                                  (long long)i, v[i]);
    return 0;
}

void td_write_shape(struct td_writer *w, const struct td_tensor *t)
{
    td_write_open(w, "shape", '[');
    for (int i = 0; i < t->rank; i++)
        td_write_int(w, NULL, t->shape[i]);
    td_write_close(w, ']');
}

void td_write_data(struct td_writer *w, const struct td_tensor *t)
{
    td_write_raw(w, "data", "", 0);
    char *room = td_write_room(w, td_json_data_bound(t));
    if (room)
        td_write_took(w, td_json_encode(t, room));
}

int td_json_bytes(const cJSON *object, const char *key, const char *who, size_t *value,
                  struct td_problem *problem)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!item)
        return 0;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 0x1p53) ||
        item->valuedouble != (double)(uint64_t)item->valuedouble)
        return td_problem_set(problem, EINVAL, "%s%s%s: must be a whole number of bytes",
                              who ? who : "", who ? ": " : "", key);
    *value = (size_t)item->valuedouble;
    return 0;
}
