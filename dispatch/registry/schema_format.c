/* Prints schemas in their canonical form, which parses back to the same. */
#include "dispatch/registry/schema.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const base_names[TD_BASES] = {
    "Tensor",     "int",    "float",  "bool",         "str",       "Scalar",
    "ScalarType", "Layout", "Device", "MemoryFormat", "Generator", "Dimname",
};

const char *td_base_name(enum td_base base)
{
    return base_names[base];
}

struct printer {
    char *text;
    size_t size, length;
};

static void __attribute__((format(printf, 2, 3))) print(struct printer *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = p->length < p->size ? p->size - p->length : 0;
    p->length += (size_t)vsnprintf(room ? p->text + p->length : NULL, room, format, args);
    va_end(args);
}

static void print_type(struct printer *p, const struct td_type *type)
{
    print(p, "%s", td_base_name(type->base));
    if (*type->alias)
        print(p, "(%s)", type->alias);
    if (type->optional)
        print(p, "?");
    if (type->list && type->list_size)
        print(p, "[%d]", type->list_size);
    else if (type->list)
        print(p, "[]");
    if (type->list_optional)
        print(p, "?");
}

size_t td_type_format(const struct td_type *type, char *text, size_t size)
{
    struct printer p = {text, size, 0};
    print_type(&p, type);
    return p.length;
}

size_t td_schema_format(const struct td_schema *s, char *text, size_t size)
{
    struct printer p = {text, size, 0};
    print(&p, "%s%s%s%s%s(", s->ns, *s->ns ? "::" : "", s->name, *s->overload ? "." : "",
          s->overload);
    bool keyword_only = false;
    for (int i = 0; i < s->n_params; i++) {
        const struct td_param *param = &s->param[i];
        print(&p, "%s", i ? ", " : "");
        if (param->keyword_only && !keyword_only)
            print(&p, "*, ");
        keyword_only = param->keyword_only;
        print_type(&p, &param->type);
        print(&p, " %s", param->name);
        if (param->has_default)
            print(&p, "=%s", param->default_text);
    }
    if (s->vararg)
        print(&p, "%s...", s->n_params ? ", " : "");
    print(&p, ") -> ");
    int n = s->n_returns + s->varret;
    if (n != 1)
        print(&p, "(");
    for (int i = 0; i < s->n_returns; i++) {
        print(&p, "%s", i ? ", " : "");
        print_type(&p, &s->ret[i].type);
        if (*s->ret[i].name)
            print(&p, " %s", s->ret[i].name);
    }
    if (s->varret)
        print(&p, "%s...", s->n_returns ? ", " : "");
    if (n != 1)
        print(&p, ")");
    return p.length;
}
