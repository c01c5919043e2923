/* NUM-1 to NUM-5: each network is loaded, judged and timed: by its plan and call by call, in turns,
 * on a pool of one thread and on one of all. It is asked for as a client would ask
 * (server/commands/ once.c); what counts is the time that the answer took to compute. */
#include "server/report/suites.h"

#include "api/files/files.h"
#include "server/bench/bench.h"
#include "server/commands/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS 10      /* of each in a round, */
#define SLOW_US 20000 /* but for a pair of them that takes longer: as many as that times TURNS */
#define LEAST_TURNS 2 /* holds, and so many */
#define WARM 3

static const char *const team_pools[TD_TEAMS] = {"one", "all"};

static struct td_suites *of(struct td_once *once)
{
    return ((struct td_report *)once)->suites;
}

/* ---- times ---- */

/* us: of one turn. */
static int turn(struct td_suites *s, int team, int eager, double *us)
{
    struct td_once *once = &s->r->once;
    struct td_times times = {0};
    int failed = td_once_time(once, once->worker, &s->call[team][eager], &times);
    *us = td_times_within(&times, 0);
    td_times_free(&times);
    return failed;
}

static int warm_up(struct td_suites *s, int team, int *turns)
{
    double us[2] = {0, 0};
    int failed = 0;
    for (int i = 0; i < WARM && !failed; i++)
        failed = turn(s, team, 0, &us[0]) || turn(s, team, 1, &us[1]);
    *turns = (int)(TURNS * SLOW_US / (us[0] + us[1] + 1));
    *turns = s->r->o.quick || *turns < LEAST_TURNS ? LEAST_TURNS : *turns < TURNS ? *turns : TURNS;
    return failed;
}

static int time_team(struct td_suites *s, int team)
{
    double us[2][TD_REPORT_ROUNDS * TURNS];
    int turns, n = 0, failed = warm_up(s, team, &turns);
    struct td_timing *timing[2] = {&s->at->plan[team], &s->at->eager[team]};
    for (int round = 0; round < TD_REPORT_ROUNDS && !failed; round++)
        for (int i = 0; i < turns && !failed; i++, n++)
            for (int eager = 0; eager < 2 && !failed; eager++) {
                double *least = &timing[eager]->round[round];
                failed = turn(s, team, eager, &us[eager][n]);
                *least = !i || us[eager][n] < *least ? us[eager][n] : *least;
            }
    for (int eager = 0; eager < 2 && !failed; eager++) {
        td_bench_sort(us[eager], n);
        timing[eager]->least = us[eager][0];
        timing[eager]->median = us[eager][n / 2];
    }
    return failed;
}

/* ---- a network ---- */

static double ms_since(int64_t begin_ns)
{
    return (double)(td_now_ns() - begin_ns) * 1e-6;
}

static int write_calls(struct td_suites *s)
{
    struct td_once *once = &s->r->once;
    int failed = 0;
    once->explains = false;
    for (int team = 0; team < s->at->n_teams; team++)
        for (int eager = 0; eager < 2; eager++) {
            once->eager = eager;
            td_write_init(&s->call[team][eager], s->once, 4096);
            failed |= td_once_write_call(once, &s->call[team][eager], &s->inputs, team_pools[team]);
        }
    return failed;
}

/* Where files lie that a model's file names. */
static const char *beside(struct td_suites *s)
{
    char *path = s->at->own ? NULL : td_arena_strdup(s->once, s->at->file, strlen(s->at->file));
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        *slash = 0;
    return slash ? path : NULL;
}

static void name_inputs(struct td_suites *s, const cJSON *inputs)
{
    const cJSON *input;
    int n = 0;
    cJSON_ArrayForEach(input, inputs)
    {
        const char *name = td_json_member(input, "name")->valuestring;
        if (n < TD_ONCE_INPUTS)
            s->input_name[n++] = td_arena_strdup(s->once, name, strlen(name));
    }
}

/* Into a suite, if it is in none. */
static int sort(struct td_suites *s, const cJSON *inputs)
{
    struct td_answer answer = {NULL};
    struct td_json json = {0};
    int failed = td_once_describe(&s->r->once, "/v1/models/model/plan", &answer, &json);
    if (!failed)
        td_suites_sort(s, td_json_member(json.root, "operators"), inputs);
    td_json_free(&json);
    td_once_forget(&answer);
    return failed;
}

static int begin(struct td_once *once)
{
    struct td_suites *s = of(once);
    struct td_answer said = {NULL};
    struct td_json json = {0};
    int64_t begin_ns = td_now_ns();
    int failed =
        td_once_put_bytes(once, "/v1/models/model", s->once, s->bytes, s->size, NULL, beside(s));
    s->at->load_ms = ms_since(begin_ns);
    failed = failed || td_once_describe(once, "/v1/models/model", &said, &json);
    td_write_init(&s->inputs, s->once, 4096);
    once->n_numbers = 0;
    name_inputs(s, td_json_member(json.root, "inputs"));
    td_suites_size(s, td_json_member(json.root, "inputs"));
    failed = failed || sort(s, td_json_member(json.root, "inputs"));
    failed = failed || td_once_store(once, &s->inputs, td_json_member(json.root, "inputs")) ||
             write_calls(s);
    td_json_free(&json);
    td_once_forget(&said);
    return failed;
}

/* Right after our own turns, so that both see the same minute of the machine. */
static void ask_peers(struct td_suites *s, int team)
{
    int threads = team == TD_ONE_THREAD ? 1 : s->r->cpus;
    if (s->at->passed)
        td_peers_ask(&s->peers, s->once, threads, s->cpu, s->r->o.quick ? 0.02 : 0.15,
                     s->at->peer[team]);
}

/* On the pool of one thread: the first call makes the plan, all else follows. */
static int try_one(struct td_once *once)
{
    struct td_suites *s = of(once);
    double us;
    int failed = begin(once);
    int64_t begin_ns = td_now_ns();
    failed = failed || turn(s, TD_ONE_THREAD, 0, &us);
    s->at->first_ms = ms_since(begin_ns);
    s->at->ran = !failed;
    td_peers_begin(&s->peers, s->once, s->bytes, s->size);
    failed = failed || td_suites_judge(s) || time_team(s, TD_ONE_THREAD) || td_suites_look(s);
    if (!failed)
        ask_peers(s, TD_ONE_THREAD);
    return failed;
}

static int try_all(struct td_once *once)
{
    struct td_suites *s = of(once);
    int failed = time_team(s, TD_ALL_THREADS);
    if (!failed)
        ask_peers(s, TD_ALL_THREADS);
    return failed;
}

/* Its bytes, in s->once. */
static int read_network(struct td_suites *s)
{
    const char *wrong = NULL;
    struct td_problem problem = {"out of memory"};
    s->bytes = s->at->own ? td_network_file(s->at->own, s->once, &s->size, &wrong)
                          : td_read_file(s->once, s->at->file, &s->size, &problem);
    if (s->bytes)
        return 0;
    snprintf(s->r->why, sizeof s->r->why, wrong ? "networks.def: at '%.60s'" : "%.300s",
             wrong ? wrong : problem.text);
    return 1;
}

static void try_network(struct td_suites *s)
{
    struct td_report *r = s->r;
    *r->why = 0;
    s->once = td_arena_create();
    s->at->n_teams = r->cpus > 1 ? TD_TEAMS : 1;
    int failed =
        !s->once || read_network(s) ||
        td_once_on_pool(&r->once, team_pools[TD_ONE_THREAD], try_one) ||
        (s->at->n_teams > 1 && td_once_on_pool(&r->once, team_pools[TD_ALL_THREADS], try_all));
    if (failed) {
        s->at->passed = false;
        snprintf(s->at->why, sizeof s->at->why, "%.299s", *r->why ? r->why : "out of memory");
    }
    td_arena_destroy(s->once);
    s->once = NULL;
}

/* Those that --inputs names, which the command has read once already. */
static void read_shapes(struct td_suites *s)
{
    struct td_problem problem;
    size_t size;
    const char *text =
        s->r->o.inputs ? td_read_file(s->r->arena, s->r->o.inputs, &size, &problem) : NULL;
    if (text)
        td_json_parse(&s->shapes, text, size, 16, &problem);
}

/* In their order, as a pool has them. */
static void list_cpus(struct td_suites *s)
{
    struct td_machine_facts facts;
    td_topology_facts(s->r->once.service.topology, &facts);
    s->cpu = calloc((size_t)facts.n_pus + 1, sizeof *s->cpu);
    for (int i = 0, n = 0; s->cpu && i < facts.n_pus; i++)
        if (facts.pus[i].allowed)
            s->cpu[n++] = facts.pus[i].cpu;
}

void td_report_suites(struct td_report *r)
{
    static const char *const capped[] = {"--cpu-capability", "default", NULL};
    struct td_suites *s = calloc(1, sizeof *s);
    if (!s) {
        td_report_miss(r, 1, "all suites", "out of memory");
        return;
    }
    r->suites = s;
    r->once.fill_named = td_suites_fill;
    s->r = r;
    td_suites_gather(s);
    read_shapes(s);
    list_cpus(s);
    if (td_child_start(&s->reference, capped, &s->no_reference))
        td_child_stop(&s->reference);
    td_peers_start(&s->peers, s->cpu ? r->o.python : NULL, r->arena);
    for (int i = 0; i < s->n; i++) {
        s->at = &s->tried[i];
        td_progress((double)i / s->n, s->at->name);
        try_network(s);
    }
    td_progress_clear();
    td_child_stop(&s->reference);
    td_peers_stop(&s->peers);
    s->at = NULL; /* what follows is of no suite */
    td_suites_look_backward(s);
    td_suites_write(s);
    r->suites = NULL;
    r->once.fill_named = NULL;
    td_json_free(&s->shapes);
    free(s->cpu);
    free(s);
}
