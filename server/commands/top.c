/* `tensord top`: what a running server does, from its own /metrics and /v1/topology; a screen that
 * is drawn again on a terminal, two looks and one text otherwise. */
#include "server/commands/ask.h"
#include "server/commands/commands.h"
#include "server/commands/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROWS 12 /* operators shown */

struct look {
    char *metrics, *topology;
    double at; /* seconds */
};

/* ---- asking ---- */

static int take_look(struct look *look, const char *where)
{
    free(look->metrics);
    free(look->topology);
    look->topology = NULL;
    look->metrics = td_ask(where, "/metrics");
    if (look->metrics)
        look->topology = td_ask(where, "/v1/topology");
    look->at = (double)td_now_ns() * 1e-9;
    return look->topology ? 0 : -errno;
}

/* ---- reading ---- */

/* The next line of the metric name, after the line at, or from the start where it is NULL. */
static const char *next(const struct look *look, const char *name, const char *at)
{
    size_t n = strlen(name);
    at = at ? strchr(at, '\n') : look->metrics - 1;
    for (; at && at[1]; at = strchr(at + 1, '\n'))
        if (!strncmp(at + 1, name, n) && strchr("{ ", at[1 + n]))
            return at + 1;
    return NULL;
}

static double value(const char *line)
{
    const char *end = strchr(line, '\n'), *at = end ? end : line + strlen(line);
    while (at > line && at[-1] != ' ')
        at--;
    return strtod(at, NULL);
}

static double total(const struct look *look, const char *name)
{
    double sum = 0;
    for (const char *line = NULL; (line = next(look, name, line));)
        sum += value(line);
    return sum;
}

/* How much the line's value has grown since the earlier look, a second. */
static double rate(const struct look *was, const struct look *now, const char *line)
{
    size_t n = strcspn(line, "\n");
    while (n && line[n - 1] != ' ')
        n--;
    for (const char *at = was->metrics; at; at = (at = strchr(at, '\n')) ? at + 1 : NULL)
        if (!strncmp(at, line, n))
            return (value(line) - value(at)) / (now->at - was->at);
    return value(line) / (now->at - was->at); /* it is new */
}

/* The text of a label, into one of a few buffers that take turns. */
static const char *label(const char *line, const char *name)
{
    static char buffers[4][80];
    static int turn;
    char *out = buffers[turn++ % 4], mark[40];
    snprintf(mark, sizeof mark, "%s=\"", name);
    const char *at = strstr(line, mark), *end = strchr(line, '\n');
    *out = 0;
    if (at && (!end || at < end))
        snprintf(out, sizeof buffers[0], "%.*s", (int)strcspn(at + strlen(mark), "\""),
                 at + strlen(mark));
    return out;
}

/* ---- showing ---- */

static void show_cores(const struct look *was, const struct look *now)
{
    const char *a = was->topology, *b = now->topology;
    int shown = 0;
    while ((a = strstr(a, "\"busy_s\":")) && (b = strstr(b, "\"busy_s\":"))) {
        double busy = (strtod(b + 9, NULL) - strtod(a + 9, NULL)) / (now->at - was->at);
        printf("%s%3d %3.0f %%",
               shown % 5 ? "  "
               : shown   ? "\n     "
                         : "CPU  ",
               shown, 100 * (busy < 1 ? busy : 1));
        shown++;
        a++;
        b++;
    }
    printf(shown ? "\n\n" : "");
}

static void show_pools(const struct look *was, const struct look *now)
{
    printf("%-16s %7s %6s %7s %9s %8s\n", "POOL", "threads", "load", "waiting", "jobs/s",
           "refused");
    for (const char *line = NULL; (line = next(now, "tensord_pool_threads", line));) {
        const char *pool = label(line, "pool"), *at;
        double threads = value(line), figures[4] = {0};
        static const char *const names[] = {"tensord_pool_busy_seconds_total",
                                            "tensord_pool_queue_depth", "tensord_pool_jobs_total",
                                            "tensord_pool_rejected_total"};
        for (int i = 0; i < 4; i++)
            for (at = NULL; (at = next(now, names[i], at));)
                if (!strcmp(label(at, "pool"), pool))
                    figures[i] = i % 2 ? value(at) : rate(was, now, at);
        printf("%-16.16s %7.0f %4.0f %% %7.0f %9.0f %8.0f\n", pool, threads,
               100 * figures[0] / threads, figures[1], figures[2], figures[3]);
    }
}

struct row {
    const char *line;
    double rate;
};

static int by_rate(const void *a, const void *b)
{
    double x = ((const struct row *)a)->rate, y = ((const struct row *)b)->rate;
    return (x < y) - (x > y);
}

static void show_operators(const struct look *was, const struct look *now)
{
    struct row rows[4096];
    int n = 0;
    for (const char *line = NULL; n < 4096 && (line = next(now, "tensord_op_calls_total", line));)
        rows[n++] = (struct row){line, rate(was, now, line)};
    qsort(rows, (size_t)n, sizeof *rows, by_rate);
    printf("\n%-22s %-7s %-11s %7s %9s\n", "OPERATOR", "kernel", "level", "calls/s", "calls");
    for (int i = 0; i < n && i < ROWS; i++)
        printf("%-22.22s %-7.7s %-11s %7.0f %9.0f\n", label(rows[i].line, "op"),
               label(rows[i].line, "kernel"), label(rows[i].line, "isa"), rows[i].rate,
               value(rows[i].line));
}

/* A family of the same labels, of which the line is a member. */
static double rate_of(const struct look *was, const struct look *now, const char *name,
                      const char *model, double *value_now)
{
    double sum = 0;
    *value_now = 0;
    for (const char *at = NULL; (at = next(now, name, at));)
        if (!strcmp(label(at, "model"), model)) {
            sum += rate(was, now, at);
            *value_now += value(at);
        }
    return sum;
}

static void show_models(const struct look *was, const struct look *now)
{
    static const char count[] = "tensord_model_duration_seconds_count",
                      seconds[] = "tensord_model_duration_seconds_sum";
    struct row rows[64];
    double calls, time;
    int n = 0;
    for (const char *line = NULL; n < 64 && (line = next(now, count, line));)
        rows[n++] = (struct row){line, rate(was, now, line)};
    qsort(rows, (size_t)n, sizeof *rows, by_rate);
    if (n)
        printf("\n%-32s %8s %8s %9s\n", "MODEL", "ms", "calls/s", "calls");
    for (int i = 0; i < n && i < ROWS / 2; i++) {
        const char *model = label(rows[i].line, "model");
        double often = rate_of(was, now, count, model, &calls);
        double busy = rate_of(was, now, seconds, model, &time);
        printf("%-32.32s %8.3f %8.0f %9.0f\n", model,
               1e3 * (often > 0 ? busy / often : time / (calls > 0 ? calls : 1)), often, calls);
    }
}

static void show(const struct look *was, const struct look *now, const char *where, bool terminal)
{
    double seconds = now->at - was->at;
    const char *build = next(now, "tensord_build_info", NULL);
    bool bold = terminal && td_terminal_has_color(STDOUT_FILENO);
    printf(terminal ? "\033[H\033[2J%s" : "", bold ? "\033[1m" : "");
    printf("tensord %s at %s, %s", build ? label(build, "version") : "", where,
           build ? label(build, "isa") : "");
    printf(bold ? "\033[0m\n" : "\n");
    printf("%.0f requests/s, %.0f under way, %.0f %% of a CPU\n%.1f of %.0f MiB held\n\n",
           (total(now, "tensord_http_requests_total") - total(was, "tensord_http_requests_total")) /
               seconds,
           total(now, "tensord_requests_in_flight") - 1,
           100 *
               (total(now, "process_cpu_seconds_total") - total(was, "process_cpu_seconds_total")) /
               seconds,
           total(now, "tensord_memory_bytes") / 1048576,
           total(now, "tensord_memory_limit_bytes") / 1048576);
    show_cores(was, now);
    show_pools(was, now);
    show_models(was, now);
    show_operators(was, now);
    if (terminal)
        printf("\nq ends it\n");
    fflush(stdout);
}

/* Waits; false: somebody has typed q, on a terminal that gives each key at once. */
static bool wait_for_key(double seconds)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    double end = (double)td_now_ns() * 1e-9 + seconds, left = seconds;
    for (; left > 0; left = end - (double)td_now_ns() * 1e-9) {
        char key = 0;
        if (poll(&keys, 1, (int)(left * 1e3) + 1) == 1 && read(STDIN_FILENO, &key, 1) == 1) {
            if (key == 'q' || key == 'Q')
                return false;
        } else if (keys.revents) { /* there are no more keys */
            keys.fd = -1;
        }
    }
    return true;
}

int td_command_top(int argc, char **argv)
{
    const char *where = argc ? argv[0] : "127.0.0.1:8080";
    if (argc && (!strcmp(where, "--help") || !strcmp(where, "-h"))) {
        return td_command_help(
            "top",
            "usage: tensord top [[https://]ADDR:PORT]\n\nWhat a server does now: CPUs, pools, "
            "models, operators; every two seconds on a\nterminal, where q ends it, over "
            "one second and once elsewhere. [127.0.0.1:8080]\nTENSORD_TOKEN is the secret of a "
            "token that may read, where the server asks for one; TENSORD_CA\nis a file of "
            "authorities "
            "for https, besides the system's.\n");
    }
    if (argc > 1 || *where == '-') {
        fprintf(stderr, "tensord: top takes one ADDR:PORT, not '%s'; see --help\n", argv[argc - 1]);
        return 2;
    }
    struct look looks[2] = {0};
    bool terminal = isatty(STDOUT_FILENO), keys = terminal && td_terminal_keys(true);
    int err = take_look(&looks[0], where);
    for (int i = 1; !err; i++) {
        struct look *now = &looks[i % 2], *was = &looks[(i + 1) % 2];
        double seconds = terminal && i > 1 ? 2 : 1;
        if (!keys)
            sleep((unsigned)seconds);
        else if (!wait_for_key(seconds))
            break;
        if (!(err = take_look(now, where)))
            show(was, now, where, terminal);
        if (!terminal)
            break;
    }
    if (keys)
        td_terminal_keys(false);
    if (err)
        fprintf(stderr, "tensord: no server at %s: %s\n", where, strerror(-err));
    for (int i = 0; i < 2; i++) {
        free(looks[i].metrics);
        free(looks[i].topology);
    }
    return err ? 1 : 0;
}
