/* Rows NUM-1 to NUM-5 of the page: the suites of networks. */
#include "server/report/page.h"

#include <math.h>
#include <string.h>

#define MOST 800 /* dots of a picture */

static void put_share(struct td_bar *bar, double part, double all)
{
    snprintf(bar->text, sizeof bar->text, "%.0f of %.0f, %.0f %%", part, all, 100 * part / all);
    bar->n = 1;
    bar->value[0] = 100 * part / all;
    bar->least[0] = bar->most[0] = NAN;
}

static const struct td_chart shares = {
    .unit = " %", .from = 0, .to = 100, .mark = NAN, .series = {NULL}};

/* ---- NUM-1 ---- */

void td_page_passing(struct td_page *page)
{
    struct td_bar bars[8];
    struct td_chart chart = shares;
    static const char *const heads[] = {"network", "suite", "right",
                                        "worst difference by what may be", NULL};
    const cJSON *one;
    double passed = 0, all = 0;
    char text[24];
    int n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "suites"))
    {
        if (n == 8)
            break;
        snprintf(bars[n].label, sizeof bars[n].label, "%s", td_report_word(one, "suite"));
        put_share(&bars[n++], td_report_number(one, "passed"), td_report_number(one, "networks"));
        passed += td_report_number(one, "passed");
        all += td_report_number(one, "networks");
    }
    fprintf(page->to, "<p>%.0f of %.0f networks give the right answers by their plans.</p>", passed,
            all);
    chart.title = "Networks whose plans give the right answers, by suite";
    chart.means = "A bar a suite: the share of its networks that pass.";
    td_chart_bars(page, &chart, bars, n);
    td_page_open_table(page, "Networks", heads);
    cJSON_ArrayForEach(one, td_page_data(page, "networks"))
    {
        td_page_line(page, td_report_word(one, "name"));
        td_page_cell(page, td_report_word(one, "suite"));
        td_page_cell(page, td_report_is(one, "passed") ? "yes" : "no");
        td_page_cell(page, td_page_digits(td_report_number(one, "worst"), text));
    }
    td_page_close_table(page);
}

/* ---- NUM-2 and NUM-3 ---- */

struct dots {
    double value[MOST];
    const char *name[MOST];
    char text[MOST][120];
};

/* The networks of a suite on one line; NULL: of all. */
static void fill_line(const struct td_page *page, const cJSON *suite, struct dots *dots, int *used,
                      struct td_dots *line)
{
    const char *name = td_report_word(suite, "suite");
    const cJSON *one;
    char mean[24], least[24], most[24];
    snprintf(line->label, sizeof line->label, "%s, %.0f networks",
             strcmp(name, "all") ? name : "all suites", td_report_number(suite, "networks"));
    snprintf(line->text, sizeof line->text, "%s x (%s to %s)",
             td_page_digits(td_report_number(suite, "geomean"), mean),
             td_page_digits(td_report_number(suite, "least"), least),
             td_page_digits(td_report_number(suite, "most"), most));
    line->mean = td_report_number(suite, "geomean");
    line->value = dots->value + *used;
    line->name = dots->name + *used;
    line->n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "networks"))
    {
        if (strcmp(td_report_word(one, "suite"), name) || *used == MOST)
            continue;
        char up[24], *text = dots->text[*used];
        dots->value[*used] = td_report_number(one, "speed_up");
        snprintf(text, sizeof dots->text[0], "%.80s: %s x", td_report_word(one, "name"),
                 td_page_digits(dots->value[*used], up));
        dots->name[(*used)++] = text;
        line->n++;
    }
}

static void say_extremes(struct td_page *page)
{
    const cJSON *one, *best = NULL, *worst = NULL;
    double threads = td_report_number(td_json_member(page->row, "data"), "threads");
    char up[24], down[24];
    int slower = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "networks"))
    {
        double value = td_report_number(one, "speed_up");
        best = !best || value > td_report_number(best, "speed_up") ? one : best;
        worst = !worst || value < td_report_number(worst, "speed_up") ? one : worst;
        slower += value < 1;
    }
    if (!best)
        return;
    fputs("<p>", page->to);
    td_page_say(
        page,
        "On %.0f thread%s a plan gains most on %s (%s times as fast) and least on %s (%s times); "
        "%d of the networks are slower by their plan.",
        threads, threads > 1 ? "s" : "", td_report_word(best, "name"),
        td_page_digits(td_report_number(best, "speed_up"), up), td_report_word(worst, "name"),
        td_page_digits(td_report_number(worst, "speed_up"), down), slower);
    fputs("</p>", page->to);
}

/* Each peer's time divided by the plan's: a line a peer. */
static void show_peers(struct td_page *page)
{
    static struct dots dots;
    struct td_dots lines[8];
    struct td_chart chart = {
        .title = "Other runtimes' time divided by our plan's",
        .means = "A dot a network, on a logarithmic scale: right of 1 our plan is the "
                 "faster one. The stroke is the geometric mean.",
        .unit = " x",
        .log = true,
        .from = 0.5,
        .to = 4,
        .mark = 1};
    const cJSON *peer, *one;
    int n = 0, used = 0;
    cJSON_ArrayForEach(peer, td_page_data(page, "peers"))
    {
        struct td_dots *line = &lines[n];
        char mean[24], by[24];
        if (n == 8)
            break;
        n++;
        *line = (struct td_dots){.mean = td_report_number(peer, "geomean"),
                                 .value = dots.value + used,
                                 .name = dots.name + used};
        snprintf(line->label, sizeof line->label, "%.40s %.20s, %.0f networks",
                 td_report_word(peer, "peer"), td_report_word(peer, "version"),
                 td_report_number(peer, "networks"));
        snprintf(line->text, sizeof line->text, "%s x", td_page_digits(line->mean, mean));
        cJSON_ArrayForEach(one, td_page_data(page, "networks"))
        {
            double us =
                td_report_number(td_json_member(one, "peers_us"), td_report_word(peer, "peer"));
            double ratio = us / td_report_number(one, "plan_us");
            if (isnan(ratio) || used == MOST)
                continue;
            snprintf(dots.text[used], sizeof dots.text[0], "%.80s: %s x",
                     td_report_word(one, "name"), td_page_digits(ratio, by));
            dots.value[used] = ratio;
            dots.name[used] = dots.text[used];
            used++;
            line->n++;
        }
    }
    for (int i = 0; i < used; i++) {
        chart.from = fmin(chart.from, dots.value[i]);
        chart.to = fmax(chart.to, dots.value[i]);
    }
    td_chart_dots(page, &chart, lines, n);
}

static void show_times(struct td_page *page)
{
    static const char *const heads[] = {"network", "suite",         "speed-up",     "eager",
                                        "plan",    "eager, median", "plan, median", NULL};
    static const char *const keys[] = {"eager_us", "plan_us", "eager_median_us", "plan_median_us"};
    const cJSON *one;
    char text[24];
    td_page_open_table(page, "Networks: the least of all turns, and medians", heads);
    cJSON_ArrayForEach(one, td_page_data(page, "networks"))
    {
        td_page_line(page, td_report_word(one, "name"));
        td_page_cell(page, td_report_word(one, "suite"));
        td_page_cell(page, td_page_digits(td_report_number(one, "speed_up"), text));
        for (int i = 0; i < 4; i++)
            td_page_cell(page, td_page_time(td_report_number(one, keys[i]), text));
    }
    td_page_close_table(page);
}

void td_page_speed(struct td_page *page)
{
    static struct dots dots;
    struct td_dots lines[8];
    struct td_chart chart = {
        .title = "Speed-up of each network by its plan, and the geometric means",
        .means = "A dot a network, on a logarithmic scale; at 1 its plan is as fast "
                 "as call by call. The stroke is the suite's geometric mean; in "
                 "brackets that of the worst and the best of five rounds.",
        .unit = " x",
        .log = true,
        .from = 0.5,
        .to = 8,
        .mark = 1};
    const cJSON *suite;
    int n = 0, used = 0;
    cJSON_ArrayForEach(suite, td_page_data(page, "suites"))
    {
        if (n < 8)
            fill_line(page, suite, &dots, &used, &lines[n++]);
    }
    for (int i = 0; i < used; i++) {
        chart.from = fmin(chart.from, dots.value[i]);
        chart.to = fmax(chart.to, dots.value[i]);
    }
    say_extremes(page);
    td_chart_dots(page, &chart, lines, n);
    show_peers(page);
    show_times(page);
}

/* ---- NUM-4 ---- */

void td_page_kernels(struct td_page *page)
{
    struct td_bar bars[8];
    struct td_chart chart = shares;
    static const char *const heads[] = {"kernel and level", "times", NULL};
    const cJSON *one, *training = td_page_data(page, "training");
    char text[24];
    int n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "inference"))
    {
        if (n == 7)
            break;
        snprintf(bars[n].label, sizeof bars[n].label, "inference: %s",
                 td_report_word(one, "suite"));
        put_share(&bars[n++], td_report_number(one, "vectorised"),
                  td_report_number(one, "kernels"));
    }
    if (td_report_number(training, "kernels") > 0) {
        snprintf(bars[n].label, sizeof bars[n].label, "training: backward operators");
        put_share(&bars[n++], td_report_number(training, "vectorised"),
                  td_report_number(training, "kernels"));
    }
    chart.title = "Share of kernels that are vectorised";
    chart.means =
        "A bar a suite: the share of kernels that compute in vector registers; the line is "
        "at 90 %.";
    chart.mark = 90;
    td_chart_bars(page, &chart, bars, n);
    td_page_open_table(page, "Kernels of all plans, by level", heads);
    cJSON_ArrayForEach(one, td_page_data(page, "kernels"))
    {
        td_page_line(page, td_report_word(one, "kernel"));
        td_page_cell(page, td_page_digits(td_report_number(one, "times"), text));
    }
    td_page_close_table(page);
}

/* ---- NUM-5 ---- */

void td_page_reasons(struct td_page *page)
{
    struct td_bar bars[24];
    struct td_chart chart = {.title = "Reasons, by how often they were given",
                             .means =
                                 "A bar a reason, as the plans say it; above it, how often each "
                                 "suite met it.",
                             .unit = "",
                             .mark = NAN};
    const cJSON *one;
    int n = 0;
    cJSON_ArrayForEach(one, td_page_data(page, "reasons"))
    {
        if (n == 24)
            break;
        struct td_bar *bar = &bars[n++];
        *bar = (struct td_bar){.n = 1, .least = {NAN}, .most = {NAN}};
        snprintf(bar->label, sizeof bar->label,
                 "not %s: %s (vision %.0f, transformer %.0f, sequence %.0f)",
                 td_report_word(one, "of"), td_report_word(one, "reason"),
                 td_report_number(one, "vision"), td_report_number(one, "transformer"),
                 td_report_number(one, "sequence"));
        snprintf(bar->text, sizeof bar->text, "%.0f", td_report_number(one, "times"));
        bar->value[0] = td_report_number(one, "times");
    }
    if (!n)
        fputs("<p>None was given.</p>", page->to);
    td_chart_bars(page, &chart, bars, n);
}
