/* A member that comes twice: one reader of the text believes the first, another the last, and what
 * was checked in front of us would not be what we run. So such a text is refused, however deep. */
#include "api/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FEW 32

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check(const cJSON *object, struct td_problem *problem)
{
    const char *few[FEW], **names = few;
    size_t n = (size_t)cJSON_GetArraySize(object), i = 0;
    int err = 0;
    if (n > FEW && !(names = malloc(n * sizeof *names)))
        return td_problem_set(problem, ENOMEM, "the JSON: no memory for it");
    for (const cJSON *item = object->child; item; item = item->next)
        names[i++] = item->string;
    qsort(names, n, sizeof *names, compare);
    for (i = 1; i < n && !err; i++)
        if (!strcmp(names[i - 1], names[i]))
            err = td_problem_set(
                problem, EINVAL,
                "the JSON is wrong: '%.60s' comes twice; a member comes once in its object",
                names[i]);
    if (names != few)
        free(names);
    return err;
}

int td_json_unique(const cJSON *item, struct td_problem *problem)
{
    int err = 0;
    for (; item && !err; item = item->next) {
        err = cJSON_IsObject(item) ? check(item, problem) : 0;
        err = err ? err : td_json_unique(item->child, problem);
    }
    return err;
}
