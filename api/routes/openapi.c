/* The API's own description: as it was built in, with the names of the operators that there are. */
#include "api/handlers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char td_openapi_yaml[]; /* a zero byte behind it */
extern const unsigned int td_openapi_yaml_size;

static const char mark[] = "{type: string} # operators"; /* of the path's {op} */

static size_t names_size(void)
{
    size_t size = 0;
    for (int i = 0; i < td_registry_count(); i++)
        size += 2 * (strlen(td_registry_at(i)->full) + sizeof ", ");
    return size;
}

/* Of each operator its name, then its overloads'. */
static char *write_names(char *at)
{
    const char *gap = "";
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        if (handle->first && strcmp(handle->schema.name, handle->full)) {
            at += sprintf(at, "%s%s", gap, handle->schema.name);
            gap = ", ";
        }
        at += sprintf(at, "%s%s", gap, handle->full);
        gap = ", ";
    }
    return at;
}

int td_api_openapi_yaml(struct td_request *req, struct td_response *res)
{
    const char *text = (const char *)td_openapi_yaml, *here = strstr(text, mark);
    char *out = td_arena_alloc(req->arena, td_openapi_yaml_size + names_size() + sizeof mark);
    if (!out)
        return td_api_problem(req, -ENOMEM, "no memory for the description");
    char *at = out + sprintf(out, "%.*s{type: string, enum: [", (int)(here - text), text);
    at = write_names(at);
    at += sprintf(at, "]}%s", here + sizeof mark - 1);
    res->status = 200;
    res->type = "application/yaml";
    res->body = out;
    res->size = (size_t)(at - out);
    return 0;
}
