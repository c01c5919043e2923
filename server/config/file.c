/* A configuration file: one JSON object, its values handed out as text, as if they stood on the
 * command line. */
#include "server/config/config.h"

#include "api/json/json.h"

#include <errno.h>
#include <stdio.h>

static int hand_out(const cJSON *item, const char *key,
                    int (*each)(void *arg, const char *key, const char *value,
                                struct td_problem *problem),
                    void *arg, struct td_problem *problem)
{
    char number[32];
    if (cJSON_IsString(item))
        return each(arg, key, item->valuestring, problem);
    if (cJSON_IsBool(item))
        return each(arg, key, cJSON_IsTrue(item) ? "true" : "false", problem);
    if (!cJSON_IsNumber(item))
        return td_problem_set(problem, EINVAL, "%.60s: must be a text, number, bool or array", key);
    snprintf(number, sizeof number, "%.17g", item->valuedouble);
    return each(arg, key, number, problem);
}

int td_config_each_member(const char *text, size_t length,
                          int (*each)(void *arg, const char *key, const char *value,
                                      struct td_problem *problem),
                          void *arg, struct td_problem *problem)
{
    struct td_json json;
    const cJSON *item, *one;
    int err = td_json_parse(&json, text, length, 32, problem);
    if (!err && !cJSON_IsObject(json.root))
        err = td_problem_set(problem, EINVAL, "must be one JSON object");
    if (err)
        goto out;
    cJSON_ArrayForEach(item, json.root)
    {
        if (err)
            break;
        if (!cJSON_IsArray(item)) {
            err = hand_out(item, item->string, each, arg, problem);
            continue;
        }
        cJSON_ArrayForEach(one, item)
        {
            if (!err)
                err = hand_out(one, item->string, each, arg, problem);
        }
    }
out:
    td_json_free(&json);
    return err;
}
