/* NUM-10: what dispatch itself costs, by `tensord bench --dispatch` in several processes: where
 * their stacks and data lie decides whether some items meet their own stores, which costs more than
 * the items themselves. */
#include "server/bench/bench.h"
#include "server/commands/terminal.h"
#include "server/report/client.h"
#include "server/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 32

struct item {
    char name[40], what[120];
    double least, median[TD_REPORT_ROUNDS]; /* ns: of all processes, and of each */
    int n;
};

struct dispatch {
    struct item item[ITEMS];
    int n;
};

static struct item *find(struct dispatch *d, const char *name, const char *what)
{
    int i = 0;
    while (i < d->n && strcmp(d->item[i].name, name) != 0)
        i++;
    if (i == ITEMS)
        return NULL;
    if (i == d->n) {
        d->item[d->n++] = (struct item){.n = 0};
        snprintf(d->item[i].name, sizeof d->item[i].name, "%s", name);
        snprintf(d->item[i].what, sizeof d->item[i].what, "%s", what);
    }
    return &d->item[i];
}

static void take_line(struct dispatch *d, const char *line, size_t length)
{
    struct td_json json;
    struct td_problem problem;
    if (!td_json_parse(&json, line, length, 4, &problem)) {
        const cJSON *name = td_json_member(json.root, "item");
        const cJSON *what = td_json_member(json.root, "what");
        struct item *item = cJSON_IsString(name) && cJSON_IsString(what)
                                ? find(d, name->valuestring, what->valuestring)
                                : NULL;
        if (item && item->n < TD_REPORT_ROUNDS) {
            double least = td_json_member(json.root, "ns_min")->valuedouble;
            item->least = !item->n || least < item->least ? least : item->least;
            item->median[item->n++] = td_json_member(json.root, "ns_median")->valuedouble;
        }
    }
    td_json_free(&json);
}

static int run_once(struct td_report *r, struct dispatch *d, struct td_problem *problem)
{
    static const char *const words[] = {"bench", "--dispatch", "--json", NULL};
    struct td_child child;
    if (td_child_spawn(&child, NULL, words, problem))
        return 1;
    const char *text = td_child_read(&child, r->arena, problem);
    for (const char *line = text, *end; line && (end = strchr(line, '\n')); line = end + 1)
        take_line(d, line, (size_t)(end - line));
    return !text;
}

static void write_item(struct td_report *r, struct item *item)
{
    struct td_writer *w = td_report_data(r, 10);
    td_bench_sort(item->median, item->n);
    double median = item->median[item->n / 2];
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", item->name);
    td_write_str(w, "what", item->what);
    td_write_num(w, "ns_least", td_report_digits(item->least));
    td_write_num(w, "ns_median", td_report_digits(median));
    td_write_close(w, '}');
    td_report_add(r, 10,
                  &(struct td_report_figure){item->what, "ns", median, item->median[0],
                                             item->median[item->n - 1]});
}

void td_report_dispatch(struct td_report *r)
{
    struct dispatch *d = calloc(1, sizeof *d);
    struct td_problem problem = {"out of memory"};
    int failed = !d;
    for (int i = 0; i < TD_REPORT_ROUNDS && !failed; i++) {
        td_progress((double)i / TD_REPORT_ROUNDS, "dispatch");
        failed = run_once(r, d, &problem);
    }
    td_progress_clear();
    struct td_writer *w = td_report_data(r, 10);
    td_write_open(w, "items", '[');
    for (int i = 0; !failed && i < d->n; i++)
        write_item(r, &d->item[i]);
    td_write_close(w, ']');
    if (failed || !d->n)
        td_report_miss(r, 10, "dispatch", "tensord bench --dispatch: %s", problem.text);
    free(d);
}
