/* What the dispatcher knows of an operator, as JSON: parameters of its schema, what is registered
 * for it, its computed table; and sets of keys. */
#include "api/json/json.h"
#include "dispatch/choice/tune.h"

#include <math.h>
#include <string.h>

void td_write_params(struct td_writer *w, const char *key, const struct td_param *param, int n)
{
    td_write_open(w, key, '[');
    for (int i = 0; i < n; i++) {
        char type[64];
        td_type_format(&param[i].type, type, sizeof type);
        td_write_open(w, NULL, '{');
        if (*param[i].name)
            td_write_str(w, "name", param[i].name);
        td_write_str(w, "type", type);
        if (param[i].has_default)
            td_write_str(w, "default", param[i].default_text);
        if (param[i].keyword_only)
            td_write_bool(w, "keyword_only", true);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

void td_write_keys(struct td_writer *w, const char *name, td_keyset keys)
{
    td_write_open(w, name, '[');
    for (enum td_key k = td_keyset_next(keys, TD_KEY_Undefined); k; k = td_keyset_next(keys, k))
        td_write_str(w, NULL, td_key_name(k));
    td_write_close(w, ']');
}

void td_write_registered(struct td_writer *w, const struct td_registration *r)
{
    /* __FILE__ begins with the way from the build folder. */
    const char *origin = r->def.origin + (strncmp(r->def.origin, "../", 3) ? 0 : 3);
    td_write_str(w, "kernel", r->def.rows ? "unboxed" : r->def.boxed ? "boxed" : "fallthrough");
    td_write_str(w, "origin", origin);
}

void td_write_table(struct td_writer *w, const struct td_handle *handle)
{
    const struct td_table *table = td_handle_table(handle);
    td_write_open(w, "table", '[');
    for (int i = 0; i < TD_TABLE_SIZE; i++) {
        const struct td_entry *e = &table->entry[i];
        if (!e->from && e->provenance == TD_FROM_missing)
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "key", td_key_name(td_key_at(i)));
        if (e->from)
            td_write_registered(w, e->from);
        td_write_str(w, "provenance", td_provenance_name(e->provenance));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

void td_write_measured(struct td_writer *w, const struct td_measured *m)
{
    const struct td_impl *first = m->tried[0].row;
    char name[64];
    snprintf(name, sizeof name, "%s@%s", first->name, td_isa_name(first->isa));
    td_write_str(w, "call", m->call);
    td_write_str(w, "kernel", m->row->name);
    td_write_str(w, "level", td_isa_name(m->row->isa));
    td_write_str(w, "first", name);
    td_write_bool(w, "differs", first != m->row);
    td_write_bool(w, "asked", m->asked);
    td_write_open(w, "measured", '[');
    for (int i = 0; i < m->n; i++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "kernel", m->tried[i].row->name);
        td_write_str(w, "level", td_isa_name(m->tried[i].row->isa));
        if (m->tried[i].us > 0)
            td_write_us(w, "us", llround(m->tried[i].us * 1e3));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

void td_write_rounding(struct td_writer *w, double rounding)
{
    if (rounding > 0)
        td_write_num(w, "rounding", round(rounding * 100) / 100);
}

void td_write_work(struct td_writer *w, const struct td_work *work, enum td_dtype type, int threads,
                   int64_t ns)
{
    struct td_bound bound;
    td_write_num(w, "flops", work->operations);
    td_write_num(w, "bytes", work->bytes);
    if (!td_bound_of(work, type, threads, &bound))
        return;
    td_write_str(w, "bound", bound.by);
    td_write_us(w, "bound_us", llround(bound.us * 1e3));
    if (ns > 0)
        td_write_num(w, "percent_of_bound", round(bound.us * 1e5 / (double)ns * 10) / 10);
}
