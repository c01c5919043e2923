/* What peers of a Python say of the suites' networks, as parts of rows NUM-1 to NUM-3. */
#include "server/report/suites.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has(const struct td_tried *t, int team, int peer)
{
    return t->passed && team < t->n_teams && t->peer[team][peer].us > 0;
}

void td_suites_write_peer_times(struct td_writer *w, const struct td_suites *s,
                                const struct td_tried *t, int team)
{
    if (!s->peers.n)
        return;
    td_write_open(w, "peers_us", '{');
    for (int i = 0; i < s->peers.n; i++)
        if (has(t, team, i))
            td_write_num(w, s->peers.peer[i].name, td_report_digits(t->peer[team][i].us));
    td_write_close(w, '}');
}

/* Why there is nothing of a peer, or of any. */
static void miss_peers(struct td_suites *s, int row)
{
    const struct td_peers *p = &s->peers;
    if (*p->problem.text)
        td_report_miss(s->r, row, "PyTorch, ONNX Runtime and OpenVINO beside it", "%s",
                       p->problem.text);
    for (int i = 0; i < p->n_missing; i++)
        td_report_miss(s->r, row, p->missing[i].name, "%s", p->missing[i].why);
}

/* The networks that a peer has not run: the first one's reason, and the names of the others. */
static void miss_networks(struct td_suites *s, int peer)
{
    char what[80], why[900] = "";
    size_t n = 0;
    int missed = 0;
    for (int k = 0; k < s->n; k++) {
        const struct td_tried *t = &s->tried[k];
        if (!t->passed || has(t, TD_ONE_THREAD, peer))
            continue;
        bool first = !missed++;
        n += (size_t)snprintf(why + n, n < sizeof why ? sizeof why - n : 0, "%s%.80s%s%.200s",
                              first         ? ""
                              : missed == 2 ? "; nor did it run "
                                            : ", ",
                              t->name, first ? ": " : "",
                              first ? t->peer[TD_ONE_THREAD][peer].why : "");
        n = n < sizeof why ? n : sizeof why - 1;
    }
    if (!missed)
        return;
    snprintf(what, sizeof what, "%s of %d network%s", s->peers.peer[peer].name, missed,
             missed > 1 ? "s" : "");
    td_report_miss(s->r, 1, what, "%s", why);
}

/* What they make of the answers: on one thread, as they are the same on more. */
static void write_agreement(struct td_suites *s)
{
    struct td_writer *w = td_report_data(s->r, 1);
    for (int i = 0; i < s->peers.n; i++) {
        const char *name = s->peers.peer[i].name;
        char what[120];
        int n = 0, agree = 0;
        for (int k = 0; k < s->n; k++) {
            const struct td_tried *t = &s->tried[k];
            n += has(t, TD_ONE_THREAD, i);
            agree += has(t, TD_ONE_THREAD, i) && t->peer[TD_ONE_THREAD][i].worst <= 1;
        }
        td_write_open(w, NULL, '{');
        td_write_str(w, "peer", name);
        td_write_str(w, "version", s->peers.peer[i].version);
        td_write_int(w, "networks", n);
        td_write_int(w, "agree", agree);
        td_write_close(w, '}');
        snprintf(what, sizeof what, "%s %s gives the same answers", name, s->peers.peer[i].version);
        if (n)
            td_report_say(s->r, 1, what, "share", (double)agree / n);
        miss_networks(s, i);
    }
}

static void write_times(struct td_suites *s, int row, int team)
{
    struct td_writer *w = td_report_data(s->r, row);
    for (int i = 0; i < s->peers.n; i++) {
        char what[120];
        double sum = 0;
        int n = 0;
        for (int k = 0; k < s->n; k++) {
            const struct td_tried *t = &s->tried[k];
            if (!has(t, team, i))
                continue;
            n++;
            sum += log(t->peer[team][i].us / t->plan[team].least);
        }
        if (!n)
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "peer", s->peers.peer[i].name);
        td_write_str(w, "version", s->peers.peer[i].version);
        td_write_int(w, "networks", n);
        td_write_num(w, "geomean", td_report_digits(exp(sum / n)));
        td_write_close(w, '}');
        snprintf(what, sizeof what,
                 "%s %s: its time divided by the plan's, geometric mean of %d networks",
                 s->peers.peer[i].name, s->peers.peer[i].version, n);
        td_report_say(s->r, row, what, "times", exp(sum / n));
    }
}

void td_suites_write_peers(struct td_suites *s, int row, int team)
{
    struct td_writer *w = td_report_data(s->r, row);
    td_write_open(w, "peers", '[');
    if (row == 1)
        write_agreement(s);
    else
        write_times(s, row, team);
    td_write_close(w, ']');
    miss_peers(s, row);
}
