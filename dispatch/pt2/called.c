/* What the module that was exported calls its outputs: the keys of the dictionary, or of the object
 * like one, that it gives back. Its out_spec tells the tree of what it gives, JSON in JSON; the
 * graph's outputs are the tree's leaves, in order. A tuple's leaves have no keys, and keep the
 * names that the graph has for them. */
#include "dispatch/pt2/ports.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 200 /* of a name, bytes */

struct naming {
    struct td_pt2 *pt2;
    const char **name;
    int n, most;
};

/* A text of JSON, parsed; without a root where it is none. To be freed. */
static struct td_pt2_json parsed(struct td_pt2 *pt2, const char *text)
{
    struct td_pt2_json json = {0};
    struct td_problem ignored;
    size_t size = text ? strlen(text) : 0;
    char *copy = text ? td_arena_alloc(pt2->arena, size + 1) : NULL;
    if (!copy)
        return json;
    memcpy(copy, text, size + 1);
    if (td_pt2_parse(&json, copy, size, "out_spec", &ignored))
        td_pt2_free(&json);
    return json;
}

/* prefix.key in text; false where it would be too long, or is no name. */
static bool below(char *text, const char *prefix, const cJSON *key, int position)
{
    const char *dot = *prefix ? "." : "";
    int64_t whole;
    int n = -1;
    if (!key)
        n = snprintf(text, LONGEST, "%s%s%d", prefix, dot, position);
    else if (cJSON_IsString(key) && *key->valuestring)
        n = snprintf(text, LONGEST, "%s%s%s", prefix, dot, key->valuestring);
    else if (td_pt2_whole(key, &whole))
        n = snprintf(text, LONGEST, "%s%s%lld", prefix, dot, (long long)whole);
    return n > 0 && n < LONGEST;
}

static void leaf(struct naming *to, const char *name)
{
    if (to->n < to->most && *name)
        to->name[to->n] = td_program_text(to->pt2->model, name, strlen(name));
    to->n++;
}

static void walk(struct naming *to, const cJSON *spec, const char *prefix)
{
    const cJSON *children = td_pt2_get(spec, "children_spec");
    const cJSON *context = td_pt2_get(spec, "context");
    if (!td_pt2_text(spec, "type")) {
        leaf(to, prefix);
        return;
    }
    struct td_pt2_json json = parsed(to->pt2, cJSON_GetStringValue(context));
    const cJSON *keys = json.root ? json.root : td_pt2_get(context, "dict_context");
    bool named = cJSON_IsArray(keys) && cJSON_GetArraySize(keys) == cJSON_GetArraySize(children);
    const cJSON *key = named ? keys->child : NULL;
    int position = 0;
    for (const cJSON *child = children ? children->child : NULL; child; child = child->next) {
        char text[LONGEST];
        bool fits = (named || *prefix) && below(text, prefix, key, position++);
        walk(to, child, fits ? text : "");
        key = key ? key->next : NULL;
    }
    td_pt2_free(&json);
}

void td_pt2_called(struct td_pt2_ports *p, const cJSON *module, int n)
{
    struct td_pt2 *pt2 = p->graph->pt2;
    const cJSON *calls = td_pt2_get(module, "module_call_graph");
    const cJSON *signature = td_pt2_get(calls ? calls->child : NULL, "signature");
    struct td_pt2_json json = parsed(pt2, td_pt2_text(signature, "out_spec"));
    struct naming to = {pt2, td_arena_zalloc(pt2->arena, ((size_t)n + 1) * sizeof *to.name), 0, n};
    if (to.name && cJSON_GetArraySize(json.root) == 2)
        walk(&to, cJSON_GetArrayItem(json.root, 1), "");
    p->called = to.name && to.n == n ? to.name : NULL;
    td_pt2_free(&json);
}
