/* `tensord report`: what this machine can measure of the figures that the source systems were shown
 * with, NUM-1 to NUM-12, as JSON, and a page made from that. Internal to server/.
 *
 * A part measures and puts what it finds into rows; whatever it cannot find it says there, and why.
 * It measures with what `tensord bench` measures with (server/bench/). */
#ifndef TD_SERVER_REPORT_H
#define TD_SERVER_REPORT_H

#include "server/commands/run.h"

#define TD_REPORT_FORMAT 1 /* of the JSON: "tensord_report" */
#define TD_REPORT_ROWS 12
#define TD_REPORT_ROUNDS 5 /* that a figure is measured in: their least and most are its spread */

struct td_report_options {
    const char *directory;
    const char *models, *inputs, *python; /* or NULL */
    const char *from;                     /* the JSON to make the page of, or NULL */
    bool quick;
    unsigned rows; /* bit n: NUM-n is asked for */
};

struct td_report_row { /* each a JSON text on its way */
    struct td_writer figures, data, missing;
    int n_figures, n_missing;
};

struct td_report {
    struct td_once once; /* the first member; its service stands while parts measure */
    struct td_report_options o;
    struct td_arena *arena;                       /* of all that becomes the JSON */
    struct td_report_row row[TD_REPORT_ROWS + 1]; /* from 1 on */
    struct td_writer json;                        /* the whole, once it is complete */
    int cpus;                                     /* that threads can be bound to */
    double load_before;                           /* that others put on the machine */
    int64_t begin_ns;
    struct td_suites *suites; /* while they are at work */
    char why[1000];           /* the last call of the service failed */
};

/* ---- rows: rows.c ---- */

/* Of the figure: a number with its unit, and between what the rounds lay; name and unit: borrowed.
 */
struct td_report_figure {
    const char *name, *unit;
    double value, least, most;
};
void td_report_begin(struct td_report *r);
void td_report_add(struct td_report *r, int row, const struct td_report_figure *figure);
/* One that was not measured in rounds. */
void td_report_say(struct td_report *r, int row, const char *name, const char *unit, double value);
void td_report_miss(struct td_report *r, int row, const char *what, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
static inline bool td_report_wants(const struct td_report *r, int row)
{
    return r->o.rows >> row & 1;
}
/* The object of all else that a row has. */
static inline struct td_writer *td_report_data(struct td_report *r, int row)
{
    return &r->row[row].data;
}
double td_report_digits(double value); /* to six of them */
/* Makes r->json of the rows: -ENOMEM. */
int td_report_end(struct td_report *r);

/* ---- JSON: members of an object, and what stands for those that are not there ---- */
double td_report_number(const cJSON *object, const char *key);    /* NAN */
const char *td_report_word(const cJSON *object, const char *key); /* "" */
bool td_report_is(const cJSON *object, const char *key);          /* false */

/* ---- parts, which all begin on the main thread ---- */

void td_report_machine(struct td_report *r);  /* NUM-6, 7, 12 */
void td_report_suites(struct td_report *r);   /* NUM-1 to 5 */
void td_report_choices(struct td_report *r);  /* NUM-8 */
void td_report_pools(struct td_report *r);    /* NUM-9 */
void td_report_dispatch(struct td_report *r); /* NUM-10 */
void td_report_service(struct td_report *r);  /* NUM-11 */

/* ---- files: out.c ---- */

struct td_report_file { /* of DIR, named DATE.ending */
    const char *ending, *text;
    size_t size;
};
/* Makes the directory unless it is there, and sees whether files can be written: 0, or the exit
 * status once an error has been said. From here on a signal that ends the program says so. */
int td_report_prepare(const char *directory);
/* Writes all files, or none: 0, or the exit status. date: "2026-11-26". */
int td_report_write(const char *directory, const char *date, const struct td_report_file *files,
                    int n);

#endif
