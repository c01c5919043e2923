/* The page of a report, made of its JSON alone: page.c writes it, with what is said and shown of
 * each row (page_suites.c, page_rest.c) in words and tables (words.c) and pictures (charts.c).
 * Internal to server/report.
 *
 * It is XHTML that is HTML as well: whatever comes from the JSON goes through td_page_text. A
 * picture is as wide as its place and its letters stay as they are, so it is drawn in percents
 * across and in pixels down. */
#ifndef TD_SERVER_REPORT_PAGE_H
#define TD_SERVER_REPORT_PAGE_H

#include "server/report/report.h"

#include <stdio.h>

struct td_page {
    FILE *to;
    const cJSON *root, *row; /* the whole, and the row at work */
    int pictures;            /* so far */
    bool in_line;            /* of a table */
};

/* Written as text: what is markup in it is not. */
void td_page_text(struct td_page *page, const char *text);
void td_page_say(struct td_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* the same of what printf makes */

/* ---- of the report at hand ---- */

/* The member of row at work's data. */
const cJSON *td_page_data(const struct td_page *page, const char *key);
const cJSON *td_page_row(const struct td_page *page, const char *name); /* "NUM-2" */
/* "1.2", "12", "1,234": three digits that count; of what is no number "-". */
const char *td_page_digits(double value, char text[24]);
/* us in us, ms or s. */
const char *td_page_time(double us, char text[24]);

/* ---- pictures: charts.c ---- */

struct td_bar { /* a line of a picture: label and text above, one bar or two below */
    char label[300], text[80];
    int n;
    double value[2], least[2], most[2]; /* least and most: NAN where there are none */
};
struct td_chart {
    const char *title, *means; /* of the picture, for those who do not see it too */
    const char *unit;          /* behind the numbers of its scale */
    bool log;
    double from, to;       /* the scale; to 0: what there is */
    double mark;           /* a line there, NAN: none */
    const char *series[2]; /* what the bars are, or NULL */
};
void td_chart_bars(struct td_page *page, const struct td_chart *chart, const struct td_bar *bars,
                   int n);

struct td_dots { /* a line of a picture: label and text above, many dots below */
    char label[160], text[80];
    double mean; /* a stroke there */
    const double *value;
    const char *const *name;
    int n;
};
void td_chart_dots(struct td_page *page, const struct td_chart *chart, const struct td_dots *lines,
                   int n);

struct td_cell { /* of a table of yes and no */
    const char *label;
    bool yes[2];
};
void td_chart_cells(struct td_page *page, const struct td_chart *chart, const struct td_cell *cells,
                    int n);

/* A table behind a line that opens it; its lines of cells. */
void td_page_open_table(struct td_page *page, const char *what, const char *const *heads);
void td_page_line(struct td_page *page, const char *first); /* begins one, and ends that before */
void td_page_cell(struct td_page *page, const char *text);
void td_page_close_table(struct td_page *page);

/* ---- rows: what is shown of the row at work ---- */

typedef void td_page_row_show(struct td_page *page);
td_page_row_show td_page_passing, td_page_speed, td_page_kernels, td_page_reasons;
td_page_row_show td_page_levels, td_page_features, td_page_choices, td_page_pools, td_page_dispatch,
    td_page_requests, td_page_machine;

/* Makes the page of a report's JSON, in the arena. NULL: it is none, or there is no memory, which
 * problem says. */
char *td_report_page(struct td_arena *arena, const char *json, size_t size, size_t *length,
                     struct td_problem *problem);

#endif
