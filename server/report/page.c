/* The page of a report: what it says of all, then row by row. */
#include "server/report/page.h"
#include "server/bench/bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *row;
    td_page_row_show *show;
} shows[] = {
    {"NUM-1", td_page_passing},   {"NUM-2", td_page_speed},     {"NUM-3", td_page_speed},
    {"NUM-4", td_page_kernels},   {"NUM-5", td_page_reasons},   {"NUM-6", td_page_levels},
    {"NUM-7", td_page_features},  {"NUM-8", td_page_choices},   {"NUM-9", td_page_pools},
    {"NUM-10", td_page_dispatch}, {"NUM-11", td_page_requests}, {"NUM-12", td_page_machine},
};

static const char style[] =
    ":root{--paper:#fff;--ink:#1c2530;--soft:#5a6675;--line:#dfe4ea;--a:#2b6ca3;--b:#d08a2e;--no:#"
    "e6eaef;--mark:#a33}"
    "@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e9ef;--soft:#9aa6b4;--line:#"
    "2c343d;--a:#5aa2dc;"
    "--b:#e0a24c;--no:#262d35;--mark:#e07a7a}}"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:46rem;padding:1.5rem 1rem "
    "4rem;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}"
    "h1{font-size:1.6rem;line-height:1.25;margin:0 0 "
    ".3rem}h2{font-size:1.2rem;line-height:1.3;margin:0 0 .4rem}"
    "section{border-top:1px solid var(--line);margin-top:2rem;padding-top:1.5rem}"
    ".row{color:var(--soft);font-size:.8rem;margin:0}.how{color:var(--soft);font-size:.9rem}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:.7rem;"
    "margin:1.2rem 0;padding:0;list-style:none}"
    ".tiles li{border:1px solid var(--line);border-radius:.4rem;padding:.7rem "
    ".8rem;font-size:.85rem;line-height:1.35;color:var(--soft)}"
    ".tiles b{display:block;color:var(--ink);font-size:1.5rem;line-height:1.3;font-weight:600}"
    ".note{border-left:3px solid var(--b);padding-left:.8rem}"
    "figure{margin:1.2rem "
    "0}figcaption{color:var(--soft);font-size:.85rem;margin-top:.4rem}figcaption "
    "b{font-weight:600;color:var(--ink)}"
    "svg{display:block;overflow:visible}svg svg{overflow:visible}text{fill:var(--ink);font:13px "
    "system-ui,sans-serif}"
    ".value{fill:var(--soft)}.tick{fill:var(--soft);font-size:11px}.grid{stroke:var(--line)}.mark{"
    "stroke:var(--mark);stroke-dasharray:4 3}"
    ".range{stroke:var(--ink);stroke-width:2}.mean{stroke:var(--b);stroke-width:3}circle{fill:var(-"
    "-a);fill-opacity:.55}"
    ".s0{fill:var(--a);background:var(--a)}.s1{fill:var(--b);background:var(--b)}.no{fill:var(--no)"
    "}"
    ".legend{margin:0 0 .5rem;font-size:.85rem;color:var(--soft)}.legend span{margin-right:1.2rem}"
    ".legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}"
    "details{margin:.6rem 0;font-size:.85rem}summary{cursor:pointer;color:var(--soft)}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0}"
    "th,td{text-align:right;padding:.15rem .6rem;border-bottom:1px solid "
    "var(--line);white-space:nowrap}"
    "th{font-weight:500;color:var(--soft)}th:first-child,td:first-child{text-align:left;padding-"
    "left:0}"
    "ul.missing{font-size:.9rem;padding-left:1.2rem}a{color:var(--a)}";

static void show_figures(struct td_page *page)
{
    static const char *const heads[] = {"figure", "value", "least", "most", "", NULL};
    static const char *const keys[] = {"value", "least", "most"};
    const cJSON *figure, *figures = td_json_member(page->row, "figures");
    char text[24];
    if (!cJSON_GetArraySize(figures))
        return;
    td_page_open_table(page, "Figures", heads);
    cJSON_ArrayForEach(figure, figures)
    {
        td_page_line(page, td_report_word(figure, "name"));
        for (int i = 0; i < 3; i++) {
            double value = td_report_number(figure, keys[i]);
            td_page_cell(page, isnan(value) ? "" : td_page_digits(value, text));
        }
        td_page_cell(page, td_report_word(figure, "unit"));
    }
    td_page_close_table(page);
}

static void show_missing(struct td_page *page)
{
    const cJSON *one, *missing = td_json_member(page->row, "not_measured");
    if (!cJSON_GetArraySize(missing))
        return;
    fputs("<p>Not measured:</p><ul class='missing'>", page->to);
    cJSON_ArrayForEach(one, missing)
    {
        fputs("<li>", page->to);
        td_page_say(page, "%s: %s", td_report_word(one, "what"), td_report_word(one, "why"));
        fputs("</li>", page->to);
    }
    fputs("</ul>\n", page->to);
}

static void show_row(struct td_page *page, const cJSON *row, td_page_row_show *show)
{
    page->row = row;
    fputs("<section id='", page->to);
    td_page_text(page, td_report_word(row, "row"));
    fputs("'><p class='row'>", page->to);
    td_page_text(page, td_report_word(row, "row"));
    fputs("</p><h2>", page->to);
    td_page_text(page, td_report_word(row, "title"));
    fputs("</h2>", page->to);
    if (cJSON_GetArraySize(td_json_member(row, "figures")))
        show(page);
    fputs("<p class='how'>", page->to);
    td_page_text(page, td_report_word(row, "how"));
    fputs("</p>", page->to);
    show_figures(page);
    show_missing(page);
    fputs("</section>\n", page->to);
}

/* ---- the top ---- */

/* A figure of a row, by its name's beginning, as a tile. */
static void show_tile(struct td_page *page, const char *row, const char *name, const char *what)
{
    const cJSON *figure, *figures = td_json_member(td_page_row(page, row), "figures");
    char text[24];
    cJSON_ArrayForEach(figure, figures)
    {
        double value = td_report_number(figure, "value");
        const char *unit = td_report_word(figure, "unit");
        if (strncmp(td_report_word(figure, "name"), name, strlen(name)) != 0)
            continue;
        bool share = !strcmp(unit, "share");
        fprintf(page->to, "<li><b>%s%s</b>", td_page_digits(share ? value * 100 : value, text),
                share                    ? " %"
                : !strcmp(unit, "times") ? " x"
                : !strcmp(unit, "ns")    ? " ns"
                                         : "");
        td_page_text(page, what);
        fputs("</li>", page->to);
        return;
    }
}

static void show_top(struct td_page *page)
{
    const cJSON *machine = td_json_member(td_page_row(page, "NUM-12"), "data");
    const char *cpu = td_report_word(machine, "cpu");
    char before[24], after[24];
    double load = td_report_number(machine, "load_before"),
           cpus = td_report_number(machine, "cpus");
    fputs("<header><h1>What tensord does on this machine</h1><p>", page->to);
    td_page_say(page, "tensord %s, %s (UTC).", td_report_word(page->root, "version"),
                td_report_word(page->root, "made"));
    if (*cpu)
        td_page_say(page, " %s (%s), level %s, %.0f CPUs, of which %.0f are used; Linux %s.", cpu,
                    td_report_word(machine, "uarch"), td_report_word(machine, "level"), cpus,
                    td_report_number(machine, "threads_used"), td_report_word(machine, "kernel"));
    td_page_say(page, " Measured in %.0f seconds.", td_report_number(page->root, "seconds"));
    fputs("</p>", page->to);
    if (td_report_is(page->root, "quick"))
        fputs("<p class='note'>Made with --quick: from so few turns that the figures show the way "
              "and no "
              "more.</p>",
              page->to);
    if (load > cpus / 4)
        fprintf(
            page->to,
            "<p class='note'>The machine had other work: a load of %s before and %s after. Times "
            "are the least of turns where that is said; rates and percentiles suffer.</p>",
            td_page_digits(load, before),
            td_page_digits(td_report_number(machine, "load_after"), after));
    fputs("<ul class='tiles'>", page->to);
    show_tile(page, "NUM-3", "all suites",
              "the speed of a network by its plan, over that call by call, on one thread");
    show_tile(page, "NUM-2", "all suites", "the same on all threads");
    show_tile(page, "NUM-4", "inference", "of the kernels in plans are vectorised");
    show_tile(page, "NUM-8", "cells", "of calls get a kernel " TD_BENCH_NEAR " the fastest");
    show_tile(page, "NUM-10", "a direct call",
              "for a call from inside the program, an addition of four floats");
    show_tile(page, "NUM-11", "an addition of four floats, binary: requests a second over 64",
              "additions a second over HTTP, 64 connections, client on the same CPUs");
    fputs("</ul></header>\n", page->to);
}

static void write_page(struct td_page *page)
{
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
          "<meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, "
          "initial-scale=1\"/>"
          "<title>",
          page->to);
    td_page_say(page, "tensord %s: figures of %.10s", td_report_word(page->root, "version"),
                td_report_word(page->root, "made"));
    fprintf(page->to, "</title><style>%s</style></head><body>\n", style);
    show_top(page);
    fputs("<main>\n", page->to);
    for (size_t i = 0; i < sizeof shows / sizeof *shows; i++) {
        const cJSON *row = td_page_row(page, shows[i].row);
        if (row)
            show_row(page, row, shows[i].show);
    }
    fputs("</main></body></html>\n", page->to);
}

char *td_report_page(struct td_arena *arena, const char *json, size_t size, size_t *length,
                     struct td_problem *problem)
{
    struct td_json parsed;
    struct td_writer w;
    int err = td_json_parse(&parsed, json, size, 32, problem);
    struct td_page page = {.root = parsed.root};
    if (!err && td_report_number(parsed.root, "tensord_report") != TD_REPORT_FORMAT)
        err = td_problem_set(problem, EINVAL, "it is no report of this version's form");
    td_write_init(&w, arena, 1 << 16);
    page.to = err ? NULL : td_write_file(&w);
    if (page.to) {
        write_page(&page);
        fclose(page.to);
    }
    if (!err && w.failed)
        err = td_problem_set(problem, ENOMEM, "out of memory");
    td_json_free(&parsed);
    *length = w.length;
    return err ? NULL : w.text;
}
