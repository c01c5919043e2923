/* The rows of a report, and the JSON that they become. What stands in it is what the page shows:
 * there is no figure beside it. */
#include "server/report/report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *title, *how;
} rows[TD_REPORT_ROWS + 1] = {
#define TD_REPORT_ROW(number, title, how) [number] = {title, how},
#include "server/report/rows.def"
#undef TD_REPORT_ROW
};

void td_report_begin(struct td_report *r)
{
    for (int i = 1; i <= TD_REPORT_ROWS; i++) {
        struct td_report_row *row = &r->row[i];
        *row = (struct td_report_row){.n_figures = 0};
        td_write_init(&row->figures, r->arena, 1024);
        td_write_init(&row->data, r->arena, 4096);
        td_write_init(&row->missing, r->arena, 256);
        td_write_open(&row->figures, NULL, '[');
        td_write_open(&row->data, NULL, '{');
        td_write_open(&row->missing, NULL, '[');
    }
}

double td_report_digits(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    return isfinite(value) ? strtod(text, NULL) : value;
}

static struct td_writer *open_figure(struct td_report *r, int row, const char *name,
                                     const char *unit, double value)
{
    struct td_writer *w = &r->row[row].figures;
    r->row[row].n_figures++;
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_str(w, "unit", unit);
    td_write_num(w, "value", td_report_digits(value));
    return w;
}

void td_report_say(struct td_report *r, int row, const char *name, const char *unit, double value)
{
    td_write_close(open_figure(r, row, name, unit, value), '}');
}

void td_report_add(struct td_report *r, int row, const struct td_report_figure *f)
{
    struct td_writer *w = open_figure(r, row, f->name, f->unit, f->value);
    td_write_num(w, "least", td_report_digits(f->least));
    td_write_num(w, "most", td_report_digits(f->most));
    td_write_close(w, '}');
}

void td_report_miss(struct td_report *r, int row, const char *what, const char *why, ...)
{
    char text[1000];
    va_list args;
    va_start(args, why);
    vsnprintf(text, sizeof text, why, args);
    va_end(args);
    struct td_writer *w = &r->row[row].missing;
    r->row[row].n_missing++;
    td_write_open(w, NULL, '{');
    td_write_str(w, "what", what);
    td_write_str(w, "why", text);
    td_write_close(w, '}');
}

static void write_row(struct td_report *r, int i)
{
    struct td_report_row *row = &r->row[i];
    struct td_writer *w = &r->json;
    char name[16];
    if (!row->n_figures && !row->n_missing)
        td_report_miss(r, i, rows[i].title, "%s",
                       td_report_wants(r, i) ? "nothing came of it" : "not asked for (--rows)");
    td_write_close(&row->figures, ']');
    td_write_close(&row->data, '}');
    td_write_close(&row->missing, ']');
    snprintf(name, sizeof name, "NUM-%d", i);
    td_write_open(w, NULL, '{');
    td_write_str(w, "row", name);
    td_write_str(w, "title", rows[i].title);
    td_write_str(w, "how", rows[i].how);
    td_write_raw(w, "figures", row->figures.text, row->figures.length);
    td_write_raw(w, "not_measured", row->missing.text, row->missing.length);
    td_write_raw(w, "data", row->data.text, row->data.length);
    td_write_close(w, '}');
    w->failed |= row->figures.failed || row->data.failed || row->missing.failed;
}

int td_report_end(struct td_report *r)
{
    struct td_writer *w = &r->json;
    char made[40];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", &utc);
    td_write_init(w, r->arena, 1 << 16);
    td_write_open(w, NULL, '{');
    td_write_int(w, "tensord_report", TD_REPORT_FORMAT);
    td_write_str(w, "version", TD_VERSION);
    td_write_str(w, "made", made);
    td_write_bool(w, "quick", r->o.quick);
    td_write_num(w, "seconds", (double)((td_now_ns() - r->begin_ns) / 100000000) / 10);
    td_write_open(w, "rows", '[');
    for (int i = 1; i <= TD_REPORT_ROWS; i++)
        write_row(r, i);
    td_write_close(w, ']');
    td_write_close(w, '}');
    return w->failed ? -ENOMEM : 0;
}

double td_report_number(const cJSON *object, const char *key)
{
    const cJSON *item = td_json_member(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

const char *td_report_word(const cJSON *object, const char *key)
{
    const cJSON *item = td_json_member(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

bool td_report_is(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(td_json_member(object, key));
}
