/* Rows NUM-6 to NUM-12 of the page: the machine, choices, pools, dispatch and requests. */
#include "server/bench/bench.h"
#include "server/report/page.h"

#include <math.h>
#include <string.h>

#define MOST 64

/* ---- NUM-6, 7, 12 ---- */

void td_page_levels(struct td_page *page)
{
    struct td_cell cells[16];
    struct td_chart chart = {
        .title = "Levels: built, and runnable here",
        .means = "Two squares a level: whether this program has it, and whether CPU "
                 "and system can run it.",
        .mark = NAN,
        .series = {"built", "runs here"}};
    const cJSON *one;
    int n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "levels"))
    {
        if (n == 16)
            break;
        cells[n++] = (struct td_cell){td_report_word(one, "level"),
                                      {td_report_is(one, "built"), td_report_is(one, "runs")}};
    }
    td_chart_cells(page, &chart, cells, n);
}

void td_page_features(struct td_page *page)
{
    struct td_cell cells[MOST];
    struct td_chart chart = {.title = "Features of the CPU",
                             .means = "A square a feature: filled where the CPU has it.",
                             .mark = NAN,
                             .series = {"the CPU has it"}};
    const cJSON *one;
    int n = 0;
    fputs("<p>", page->to);
    td_page_say(page, "XCR0, which tells what the system saves: %s.",
                td_report_word(td_json_member(page->row, "data"), "xcr0"));
    fputs("</p>", page->to);
    cJSON_ArrayForEach(one, td_page_data(page, "features"))
    {
        if (n == MOST)
            break;
        cells[n++] = (struct td_cell){one->string, {cJSON_IsTrue(one), false}};
    }
    td_chart_cells(page, &chart, cells, n);
}

static void put_bytes(struct td_bar *bar, const char *label, double bytes)
{
    char digits[24];
    double mib = bytes / 1048576;
    *bar = (struct td_bar){.n = 1, .value = {mib}, .least = {NAN}, .most = {NAN}};
    snprintf(bar->label, sizeof bar->label, "%s", label);
    snprintf(bar->text, sizeof bar->text, "%s %s",
             td_page_digits(mib >= 1024 ? mib / 1024
                            : mib >= 1  ? mib
                                        : bytes / 1024,
                            digits),
             mib >= 1024 ? "GiB"
             : mib >= 1  ? "MiB"
                         : "KiB");
}

void td_page_machine(struct td_page *page)
{
    struct td_bar bars[16];
    struct td_chart chart = {
        .title = "Caches and memory",
        .means = "A bar for each cache of a core or of several, and for memory, on a "
                 "logarithmic scale.",
        .unit = " MiB",
        .log = true,
        .from = 0.01,
        .mark = NAN};
    static const char *const heads[] = {"what", "is", NULL};
    const cJSON *one, *data = td_json_member(page->row, "data");
    char label[80], text[24];
    int n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "caches"))
    {
        if (n == 15)
            break;
        snprintf(label, sizeof label, "level %.0f, %s", td_report_number(one, "level"),
                 td_report_word(one, "type"));
        put_bytes(&bars[n++], label, td_report_number(one, "bytes"));
    }
    put_bytes(&bars[n++], "memory", td_report_number(data, "memory_bytes"));
    td_chart_bars(page, &chart, bars, n);
    td_page_open_table(page, "All that is known of it", heads);
    cJSON_ArrayForEach(one, data)
    {
        if (cJSON_IsArray(one))
            continue;
        td_page_line(page, one->string);
        td_page_cell(page, cJSON_IsString(one)   ? one->valuestring
                           : cJSON_IsNumber(one) ? td_page_digits(one->valuedouble, text)
                                                 : "-");
    }
    td_page_close_table(page);
}

/* ---- NUM-8 ---- */

static int fill_tallies(const cJSON *list, const char *key, const char *unit, struct td_bar *bars)
{
    const cJSON *one;
    int n = 0;
    cJSON_ArrayForEach(one, list)
    {
        if (n == MOST)
            break;
        struct td_bar *bar = &bars[n++];
        double before = 100 * td_report_number(one, "share"),
               after = 100 * td_report_number(one, "share_tuned");
        *bar = (struct td_bar){
            .n = 2, .value = {before, after}, .least = {NAN, NAN}, .most = {NAN, NAN}};
        snprintf(bar->label, sizeof bar->label, "%s%s", td_report_word(one, key), unit);
        snprintf(bar->text, sizeof bar->text, "%.1f %%, %.1f %% of %.0f", before, after,
                 td_report_number(one, "cells"));
    }
    return n;
}

void td_page_choices(struct td_page *page)
{
    static struct td_bar bars[MOST];
    struct td_chart chart = {
        .title = "Cells whose kernel is " TD_BENCH_NEAR " the fastest, by type",
        .means = "A cell is a call of one operator, type and size. Two bars a type: the share of "
                 "its cells by default, and after tune.",
        .unit = " %",
        .from = 0,
        .to = 100,
        .mark = NAN,
        .series = {"by default", "after tune"}};
    const cJSON *worst = td_page_data(page, "worst");
    char text[24];
    td_chart_bars(page, &chart, bars,
                  fill_tallies(td_page_data(page, "by_type"), "datatype", "", bars));
    chart.title = "The same by size";
    chart.means = "Two bars a size, in elements of the call's largest tensor.";
    td_chart_bars(page, &chart, bars,
                  fill_tallies(td_page_data(page, "by_size"), "elements", " elements", bars));
    if (!*td_report_word(worst, "cell"))
        return;
    fputs("<p>", page->to);
    td_page_say(page, "The worst default takes %s times the fastest kernel's time: %s.",
                td_page_digits(td_report_number(worst, "ratio"), text),
                td_report_word(worst, "cell"));
    fputs("</p>", page->to);
}

/* ---- NUM-9 ---- */

static void fill_rate(struct td_bar *bar, int k, const cJSON *one)
{
    bar->value[k] = td_report_number(one, "rate");
    bar->least[k] = td_report_number(one, "rate_least");
    bar->most[k] = td_report_number(one, "rate_most");
    bar->n = k + 1;
}

/* Pinned and free of a shape follow one another. */
static int fill_settings(const cJSON *settings, struct td_bar *bars)
{
    const cJSON *one;
    char pinned[24], open[24];
    int n = 0;
    cJSON_ArrayForEach(one, settings)
    {
        struct td_bar *bar = &bars[n];
        if (n == MOST || !td_report_is(one, "pinned") || !one->next)
            continue;
        n++;
        snprintf(bar->label, sizeof bar->label, "%s", td_report_word(one, "what"));
        fill_rate(bar, 0, one);
        fill_rate(bar, 1, one->next);
        snprintf(bar->text, sizeof bar->text, "%s, %s /s", td_page_digits(bar->value[0], pinned),
                 td_page_digits(bar->value[1], open));
    }
    return n;
}

/* The three cells of a line that say how long a task or a request took. */
static void time_cells(struct td_page *page, const cJSON *one)
{
    static const char *const keys[] = {"least_us", "p50_us", "p99_us"};
    char text[24];
    for (int i = 0; i < 3; i++)
        td_page_cell(page, td_page_time(td_report_number(one, keys[i]), text));
}

static void show_settings(struct td_page *page, const cJSON *settings)
{
    static const char *const heads[] = {"pool", "threads are", "tasks/s", "least",
                                        "p50",  "p99",         NULL};
    const cJSON *one;
    char text[24];
    td_page_open_table(page, "Rates and times", heads);
    cJSON_ArrayForEach(one, settings)
    {
        td_page_line(page, td_report_word(one, "what"));
        td_page_cell(page, td_report_is(one, "pinned") ? "pinned" : "free");
        td_page_cell(page, td_page_digits(td_report_number(one, "rate"), text));
        time_cells(page, one);
    }
    td_page_close_table(page);
}

void td_page_pools(struct td_page *page)
{
    static struct td_bar bars[MOST];
    struct td_chart chart = {
        .means = "Two bars a pool: tasks a second with each thread bound to its CPU, and "
                 "with threads left free; the dark strokes go from the worst of five "
                 "rounds to the best.",
        .unit = " /s",
        .mark = NAN,
        .series = {"pinned", "free"}};
    const cJSON *work;
    cJSON_ArrayForEach(work, td_page_data(page, "works"))
    {
        char title[160];
        const cJSON *settings = td_json_member(work, "settings");
        snprintf(title, sizeof title, "Tasks a second: %.120s", td_report_word(work, "what"));
        chart.title = title;
        td_chart_bars(page, &chart, bars, fill_settings(settings, bars));
        show_settings(page, settings);
    }
}

/* ---- NUM-10 ---- */

void td_page_dispatch(struct td_page *page)
{
    static struct td_bar bars[MOST];
    struct td_chart chart = {
        .title = "Nanoseconds a call",
        .means = "A bar an item: the median of five processes; the dark strokes go from "
                 "the least to the most.",
        .unit = " ns",
        .mark = NAN};
    const cJSON *one;
    char median[24];
    int n = 0;
    cJSON_ArrayForEach(one, td_json_member(page->row, "figures"))
    {
        struct td_bar *bar = &bars[n];
        double value = td_report_number(one, "value");
        if (n == MOST || value <= 0 || value > 2000) /* cold ones would hide the others */
            continue;
        n++;
        *bar = (struct td_bar){.n = 1,
                               .value = {value},
                               .least = {td_report_number(one, "least")},
                               .most = {td_report_number(one, "most")}};
        snprintf(bar->label, sizeof bar->label, "%s", td_report_word(one, "name"));
        snprintf(bar->text, sizeof bar->text, "%s ns", td_page_digits(value, median));
    }
    td_chart_bars(page, &chart, bars, n);
}

/* ---- NUM-11 ---- */

/* Of points that only differ in whether pools are pinned, one line. */
static int fill_points(const cJSON *points, bool rates, struct td_bar *bars)
{
    const cJSON *one;
    char first[24], second[24];
    int n = 0;
    cJSON_ArrayForEach(one, points)
    {
        struct td_bar *bar = &bars[n];
        if (n == MOST || !td_report_is(one, "pinned"))
            continue;
        const char *form = td_report_word(one, "form");
        n++;
        *bar = (struct td_bar){.n = 1, .least = {NAN, NAN}, .most = {NAN, NAN}};
        snprintf(bar->label, sizeof bar->label, "%s%s%s, %.0f connection%s",
                 td_report_word(one, "body"), strcmp(form, "none") ? " " : "",
                 strcmp(form, "none") ? form : "", td_report_number(one, "connections"),
                 td_report_number(one, "connections") > 1 ? "s" : "");
        if (rates) {
            fill_rate(bar, 0, one);
            snprintf(bar->text, sizeof bar->text, "%s /s", td_page_digits(bar->value[0], first));
        } else {
            bar->n = 2;
            bar->value[0] = td_report_number(one, "p50_us");
            bar->value[1] = td_report_number(one, "p99_us");
            snprintf(bar->text, sizeof bar->text, "%s, %s", td_page_time(bar->value[0], first),
                     td_page_time(bar->value[1], second));
        }
    }
    return n;
}

static void show_points(struct td_page *page)
{
    static const char *const heads[] = {"request",    "as",    "bytes", "connections", "pool",
                                        "requests/s", "least", "p50",   "p99",         NULL};
    const cJSON *one;
    char text[24];
    td_page_open_table(page, "All of them, those on pools that are not pinned too", heads);
    cJSON_ArrayForEach(one, td_page_data(page, "points"))
    {
        td_page_line(page, td_report_word(one, "body"));
        td_page_cell(page, td_report_word(one, "form"));
        td_page_cell(page, td_page_digits(td_report_number(one, "request_bytes"), text));
        td_page_cell(page, td_page_digits(td_report_number(one, "connections"), text));
        td_page_cell(page, td_report_is(one, "pinned") ? "pinned" : "free");
        td_page_cell(page, td_page_digits(td_report_number(one, "rate"), text));
        time_cells(page, one);
    }
    td_page_close_table(page);
}

void td_page_requests(struct td_page *page)
{
    static struct td_bar bars[MOST];
    struct td_chart chart = {
        .title = "Requests a second, on pinned pools",
        .means = "A bar for each kind of request and number of connections, on a "
                 "logarithmic scale; the dark strokes go from the worst of five rounds "
                 "to the best.",
        .unit = " /s",
        .log = true,
        .mark = NAN};
    const cJSON *points = td_page_data(page, "points");
    fputs("<p>", page->to);
    td_page_say(
        page,
        "none is GET /v2/health/live; tiny, medium and large add two tensors of 4, 16,384 and "
        "262,144 floats. The client is one thread on CPU %.0f, which the server has as well.",
        td_report_number(td_page_data(page, "client"), "cpu"));
    fputs("</p>", page->to);
    td_chart_bars(page, &chart, bars, fill_points(points, true, bars));
    chart.title = "Time of a request, from its first byte sent to the last one received";
    chart.means =
        "Two bars for each kind of request and number of connections: half of all requests "
        "take no longer than the first, 99 of 100 no longer than the second; on a logarithmic "
        "scale.";
    chart.unit = " us";
    chart.series[0] = "half of them within";
    chart.series[1] = "99 % within";
    td_chart_bars(page, &chart, bars, fill_points(points, false, bars));
    show_points(page);
}
