/* NUM-1 to NUM-5: networks of three suites, judged (judge.c), timed (suites.c), and looked at
 * (kernels.c), and what of that becomes rows (suites_write.c). Internal to server/report. */
#ifndef TD_SERVER_REPORT_SUITES_H
#define TD_SERVER_REPORT_SUITES_H

#include "server/report/net.h"
#include "server/report/peers.h"
#include "server/report/report.h"

#define TD_REPORT_NETWORKS 256
#define TD_REPORT_REASONS 64

#define TD_REPORT_SUITES 3
extern const char *const td_suites[]; /* their names, NULL-ended */

enum { TD_ONE_THREAD, TD_ALL_THREADS, TD_TEAMS };

struct td_timing {                                 /* us of a run */
    double least, median, round[TD_REPORT_ROUNDS]; /* the least of each round */
};

struct td_tried {                 /* a network, and what came of it */
    const struct td_network *own; /* or NULL, and */
    char file[512];               /* this one */
    char suite[24], name[80];
    bool ran, judged, passed;
    char why[300]; /* not */
    double worst;  /* difference of an element, by what may be; 1 and less is right */
    int n_teams;   /* 2, or 1 where all threads are one */
    struct td_timing plan[TD_TEAMS], eager[TD_TEAMS];
    double load_ms, first_ms;       /* to read it; its first call, on one thread */
    double eager_bytes, plan_bytes; /* that a run holds at most */
    int kernels, vectors, library;  /* of its plan: other than the library's, of these in vector
                                       registers; and the library's */
    struct td_peer_told peer[TD_TEAMS][TD_PEERS];
};

struct td_reason { /* and how often it was said */
    char kind[24]; /* "generated", "fused", "backward" */
    char text[200];
    long times, by_suite[TD_REPORT_SUITES];
};

struct td_suites {
    struct td_report *r;
    struct td_child reference; /* capped at DEFAULT; pid -1: there is none, and why: */
    struct td_problem no_reference;
    struct td_tried tried[TD_REPORT_NETWORKS];
    int n;
    struct td_tried *at;                        /* the one that is at work */
    struct td_writer inputs, call[TD_TEAMS][2]; /* of it: plan, eager */
    const char *input_name[TD_ONCE_INPUTS];     /* of those that are stored */
    struct td_arena *once;                      /* of that one */
    char *bytes;                                /* its file */
    size_t size;
    struct td_peers peers;
    struct td_json shapes;                      /* of --inputs */
    int *cpu;                                   /* those that threads can be bound to */
    struct td_reason reason[TD_REPORT_REASONS]; /* of all */
    int n_reasons;
    long backward, backward_vectors; /* samples of backward operators; in vector registers */
};

/* What is to be tried: those that the program composes, or every so many-th of them, and those of
 * the directory of models. */
void td_suites_gather(struct td_suites *s);
/* Of the network at work: shapes of inputs whose sizes it leaves open, as --inputs has them, or
 * else likely ones, become once's; and the suite of one that stands in none, by its operators. */
void td_suites_size(struct td_suites *s, const cJSON *inputs);
/* Its elements by the rule that --inputs has: see td_once's fill_named. */
int td_suites_fill(struct td_once *once, const char *name, struct td_arena *arena,
                   struct td_tensor *input);
void td_suites_sort(struct td_suites *s, const cJSON *operators, const cJSON *inputs);

/* On a worker, with the network loaded and its inputs stored: whether its plan's answers are right.
 * 0, or 1 with the reason in r->why. */
int td_suites_judge(struct td_suites *s);

/* On a worker: which kernels the youngest plan runs, and what it says of those that it does not. */
int td_suites_look(struct td_suites *s);
/* Of the backward operators, on the calling thread. */
void td_suites_look_backward(struct td_suites *s);
void td_suites_reason(struct td_suites *s, const char *kind, const char *text);

void td_suites_write(struct td_suites *s);
/* What peers say: of a network as a member of what is written of it, and of all in a row. */
void td_suites_write_peer_times(struct td_writer *w, const struct td_suites *s,
                                const struct td_tried *t, int team);
void td_suites_write_peers(struct td_suites *s, int row, int team);

#endif
