/* Texts in arrays. */
#include "api/json/json.h"

#include <errno.h>

static int each_text(const cJSON *item, td_json_text *each, void *arg, const char *who,
                     struct td_problem *problem)
{
    const cJSON *one;
    int err = 0;
    if (cJSON_IsString(item))
        return each(arg, item->valuestring)
                   ? 0
                   : td_problem_set(problem, EINVAL, "%s: has more texts than its shape says", who);
    if (!cJSON_IsArray(item))
        return td_problem_set(problem, EINVAL, "%s: must hold texts, or arrays of them", who);
    cJSON_ArrayForEach(one, item)
    {
        err = err ? err : each_text(one, each, arg, who, problem);
    }
    return err;
}

int td_json_texts(const struct td_json *json, const cJSON *item, td_json_text *each, void *arg,
                  const char *who, struct td_problem *problem)
{
    const struct td_json_span *span = td_json_span(json, item);
    if (!span)
        return each_text(item, each, arg, who, problem);
    cJSON *own = cJSON_ParseWithLength(span->text, span->length);
    int err = own ? each_text(own, each, arg, who, problem)
                  : td_problem_set(problem, EINVAL, "%s: data: is no array of texts", who);
    cJSON_Delete(own);
    return err;
}
