/* Shapes and types of results where sizes of arguments are unknown. Rules judge numbers, so numbers
 * are tried in their places (trials.c): what all calls that are right have in common is known. */
#include "dispatch/call/own.h"
#include "dispatch/graph/trials.h"
#include "kernels/sizes.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls bound at most, and trials behind the last that taught something: thrice where none is
 * accepted. Those of many calls or tensors are fewer, but not below the least. */
#define WORK 4000
#define LEAST 64
#define PATIENCE 600
#define SCALED 8   /* accepted trials that are changed so, */
#define TOGETHER 5 /* and sizes that are alike in one */
#define MOST_BOUND 2
#define VALUES 3 /* of an unknown size, in calls that are right: enough to say that it is free */

struct search {
    struct td_run *run;
    const char *op, *expr;
    struct td_unknown unknown;
    struct td_trials trials;
    size_t work;
    struct td_problem first;                /* the first refusal */
    bool alike;                             /* all others say the same */
    int64_t tried[TD_MAX_UNKNOWNS][VALUES]; /* the first values that were accepted, */
    int n_values[TD_MAX_UNKNOWNS];          /* and how many these are */
    bool fits[TD_MAX_UNKNOWNS];             /* one was a known size, to which it may be bound; */
    bool beyond[TD_MAX_UNKNOWNS];           /* one was neither that nor 1 */
    int n_found;
    struct td_tensor found[TD_MAX_OUTS];     /* sizes that are not known: -1 */
    uint64_t same[TD_MAX_OUTS][TD_MAX_RANK]; /* of the first 64 unknown ones, those it always is */
    struct td_arena *once;                   /* a trial's memory */
};

/* ---- what a trial teaches ---- */

static int learn_refusal(struct search *s, int progress)
{
    const char *sentence = s->run->problem.text;
    bool first = !s->trials.n_refused;
    if (first)
        s->first = s->run->problem;
    s->alike = first || (s->alike && !strcmp(s->first.text, sentence));
    td_trials_refused(&s->trials, sentence, progress);
    return 0;
}

/* Those of the first unknown sizes that have a name and are of that size in this trial. */
static uint64_t named(const struct search *s, int64_t size)
{
    uint64_t set = 0;
    for (int i = 0; i < s->unknown.n && i < 64; i++)
        set |= (uint64_t)(s->unknown.name[i] != TD_UNKNOWN && s->trials.now.size[i] == size) << i;
    return set;
}

static void learn_values(struct search *s)
{
    for (int i = 0; i < s->unknown.n; i++) {
        int64_t size = s->trials.now.size[i];
        int k = 0;
        while (k < s->n_values[i] && s->tried[i][k] != size)
            k++;
        if (k == s->n_values[i] && k < VALUES)
            s->tried[i][s->n_values[i]++] = size;
        bool known = td_unknown_knows(&s->unknown, size);
        s->fits[i] |= known;
        s->beyond[i] |= !known && size != 1;
    }
}

/* Whether each unknown size is free, but for two at most that are bound to known ones. Else the
 * trials say too little: what is the same in all of them may be so by chance. */
static bool is_explored(const struct search *s)
{
    int n_bound = 0;
    bool all = true;
    for (int i = 0; i < s->unknown.n && all; i++) {
        bool bound = s->n_values[i] < VALUES;
        n_bound += bound;
        all = !bound || (s->fits[i] && !s->beyond[i]);
    }
    return all && n_bound <= MOST_BOUND;
}

static void learn_first(struct search *s)
{
    s->n_found = s->run->call.n_out;
    for (int i = 0; i < s->n_found; i++) {
        s->found[i] = s->run->call.out[i];
        for (int k = 0; k < s->found[i].rank; k++)
            s->same[i][k] = named(s, s->found[i].shape[k]);
    }
}

/* Whether something was taken for known that is not. */
static bool learn_sizes(struct search *s)
{
    bool news = false;
    for (int i = 0; i < s->n_found; i++)
        for (int k = 0; k < s->found[i].rank; k++) {
            int64_t size = s->run->call.out[i].shape[k], *known = &s->found[i].shape[k];
            uint64_t same = s->same[i][k] & named(s, size);
            bool varies = *known != TD_UNKNOWN && *known != size;
            news |= varies || same != s->same[i][k];
            s->same[i][k] = same;
            *known = varies ? TD_UNKNOWN : *known;
        }
    return news;
}

/* Refuses where what the results are follows from sizes that are unknown. */
static int refuse_either(struct search *s, const char *what, const char *before, const char *now)
{
    char tried[120], first[120];
    td_unknown_describe(&s->unknown, tried, sizeof tried);
    td_unknown_set(&s->unknown, s->trials.accepted[0].size);
    td_unknown_describe(&s->unknown, first, sizeof first);
    return td_problem_set(&s->run->problem, EINVAL,
                          "inputs: %s depends on sizes that are unknown: %s with %s, %s with %s",
                          what, before, first, now, tried);
}

static int refuse_numbers(struct search *s, const char *what, int before, int now)
{
    char a[16], b[16];
    snprintf(a, sizeof a, "%d", before);
    snprintf(b, sizeof b, "%d", now);
    return refuse_either(s, what, a, b);
}

static int check_alike(struct search *s)
{
    const struct td_call *call = &s->run->call;
    if (call->n_out != s->n_found)
        return refuse_numbers(s, "how many results there are", s->n_found, call->n_out);
    for (int i = 0; i < s->n_found; i++) {
        const struct td_tensor *before = &s->found[i], *now = &call->out[i];
        if (before->rank != now->rank)
            return refuse_numbers(s, "how many dimensions the result has", before->rank, now->rank);
        if (before->dtype != now->dtype)
            return refuse_either(s, "the result's type", td_dtype_name(before->dtype),
                                 td_dtype_name(now->dtype));
    }
    return 0;
}

static int learn_results(struct search *s)
{
    bool first = !s->trials.n_accepted;
    if (!td_run_is_meta(s->run))
        return td_problem_set(&s->run->problem, EINVAL,
                              "inputs: a size is unknown, and the keys lead to %s, not to Meta",
                              td_key_name(s->run->key));
    td_run_hide_counted(s->run);
    int err = first ? 0 : check_alike(s);
    if (first)
        learn_first(s);
    if (err)
        return err;
    learn_values(s);
    td_trials_accepted(&s->trials, first || learn_sizes(s));
    return 0;
}

/* ---- the trials ---- */

static int bind(struct search *s, const struct td_options *options)
{
    const struct td_unknown *u = &s->unknown;
    return s->expr ? td_run_bind_expr(s->run, s->expr, u->args, u->n_args, options)
                   : td_run_bind(s->run, s->op, u->args, u->n_args, options);
}

static int try_now(struct search *s, const struct td_options *options)
{
    struct td_options passing = *options;
    if (!td_unknown_set(&s->unknown, s->trials.now.size))
        return 0;
    s->once = td_arena_reset(s->once);
    passing.trace = NULL;
    passing.alloc = td_alloc_in_arena;
    passing.alloc_arg = s->once;
    int err = bind(s, &passing), bound = 0;
    for (const struct td_run *part = s->run->parts; part; part = part->next)
        bound++;
    s->work +=
        (size_t)bound + 1 + s->unknown.n_tensors / 64 + (s->expr ? strlen(s->expr) / 256 : 0);
    if (!err)
        err = learn_results(s);
    else if (err == -EINVAL && (!s->expr || s->run->names)) /* a wrong text is so for all sizes */
        err = learn_refusal(s, bound);
    return err;
}

static int try_all(struct search *s, const struct td_options *options)
{
    const struct td_trials *t = &s->trials;
    int patience = PATIENCE, err = 0;
    while (!err && (s->work < WORK || t->n_tried < LEAST) && t->n_tried < t->n_last + patience) {
        td_trials_next(&s->trials);
        err = try_now(s, options);
        patience = t->n_accepted ? PATIENCE : 3 * PATIENCE;
    }
    return err;
}

/* The unknown sizes that are alike in a trial, the first of which is the at-th: 0 where it is not.
 */
static int alike(const struct search *s, const struct td_trial *t, int at, int member[TOGETHER])
{
    int n = 0;
    for (int i = 0; i < s->unknown.n && n < TOGETHER; i++)
        if (t->size[i] == t->size[at])
            member[n++] = i;
    return member[0] == at ? n : 0;
}

static bool scale(int64_t *size, int64_t factor)
{
    return td_size_times(*size, factor, size);
}

/* What is rounded off, or cut off at a bound, looks like a constant, or like the size that it comes
 * of, while that changes little: accepted sizes are multiplied, all together, and those that are
 * alike in every choice, since some may be bound to known ones and others to each other. */
static int scale_all(struct search *s, const struct td_options *options)
{
    static const int64_t factors[] = {2, 3, 1009, (1 << 20) + 7, INT64_C(1) << 31};
    struct td_trial before[SCALED];
    int member[TOGETHER], err = 0;
    int kept = s->trials.n_accepted < SCALED ? s->trials.n_accepted : SCALED;
    memcpy(before, s->trials.accepted, sizeof *before * (size_t)kept);
    s->work = 0;
    for (int k = 0; k < kept; k++)
        for (int at = 0; at < s->unknown.n; at++) {
            int n = alike(s, &before[k], at, member), most = (1 << n) - 1;
            for (int choice = at ? 1 : 0; n && choice <= most; choice++)
                for (size_t f = 0; f < sizeof factors / sizeof *factors && !err; f++) {
                    bool able = true;
                    s->trials.now = before[k];
                    for (int i = 0; i < s->unknown.n && !choice; i++)
                        able &= scale(&s->trials.now.size[i], factors[f]);
                    for (int i = 0; i < n; i++)
                        able &=
                            scale(&s->trials.now.size[member[i]], choice >> i & 1 ? factors[f] : 1);
                    err = able && s->work < WORK ? try_now(s, options) : 0;
                }
        }
    return err;
}

/* A size that seems bound to a known one may go with another unknown one: both are changed, so that
 * a window's size and a result's, say, are right again. */
static int pair_all(struct search *s, const struct td_options *options)
{
    static const int64_t steps[] = {-1, 1, -2, 2};
    const struct td_trial from = s->trials.accepted[0];
    int err = 0;
    s->work = 0;
    for (int i = 0; i < s->unknown.n; i++)
        for (int k = 0; k < s->unknown.n && s->n_values[i] < VALUES; k++)
            for (int n = 0; n < 4 * 10 && k != i && !err; n++) {
                s->trials.now = from;
                s->trials.now.size[i] += steps[n % 4];
                s->trials.now.size[k] = n / 4 < 8 ? n / 4 + 1 : from.size[k] + steps[n / 4 % 2];
                bool able = s->trials.now.size[i] >= 0 && s->trials.now.size[k] >= 0;
                err = able && s->work < WORK ? try_now(s, options) : 0;
            }
    return err;
}

/* With the most frequent refusal, unless there is but one, whatever sizes are. */
static int refuse(struct search *s, const struct td_options *options)
{
    char tried[160];
    const struct td_trial *t = s->trials.refused;
    for (int i = 1; i < s->trials.n_refused; i++)
        t = s->trials.refused[i].often > t->often ? &s->trials.refused[i] : t;
    td_unknown_set(&s->unknown, t->size);
    int err = bind(s, options);
    if (err != -EINVAL || s->alike)
        return err;
    struct td_problem why = s->run->problem;
    td_unknown_describe(&s->unknown, tried, sizeof tried);
    return td_problem_set(&s->run->problem, EINVAL,
                          "inputs: no sizes in place of those that are unknown are right, of %d "
                          "that were tried; with %s: %.360s",
                          s->trials.n_tried, tried, why.text);
}

/* The run has the results of its last binding, with sizes of their own. */
static void tell(const struct search *s)
{
    bool explored = is_explored(s);
    for (int i = 0; i < s->n_found; i++)
        for (int k = 0; k < s->found[i].rank; k++) {
            int64_t known = s->found[i].shape[k], *size = &s->run->call.out[i].shape[k];
            uint64_t same = s->same[i][k];
            *size = !explored                     ? TD_UNKNOWN
                    : known == TD_UNKNOWN && same ? s->unknown.name[__builtin_ctzll(same)]
                                                  : known;
        }
}

void td_run_hide_counted(struct td_run *run)
{
    for (int i = 0; i < run->call.n_out; i++) {
        int64_t *size = &run->call.out[i].shape[run->call.counted_dim];
        if (run->call.counted >> i & 1 && *size)
            *size = TD_UNKNOWN;
    }
}

static int infer(struct search *s, const struct td_options *options)
{
    if (!s->unknown.n) {
        int err = bind(s, options);
        return err ? err : learn_results(s);
    }
    int err = try_all(s, options);
    if (err)
        return err;
    if (!s->trials.n_accepted)
        return refuse(s, options);
    err = scale_all(s, options);
    err = err ? err : pair_all(s, options);
    if (err)
        return err;
    td_unknown_set(&s->unknown, s->trials.accepted[0].size);
    err = bind(s, options);
    if (!err)
        tell(s);
    return err;
}

int td_run_infer(struct td_run *run, const char *op, const char *expr, const struct td_named *args,
                 int n_args, const struct td_options *options)
{
    struct search *s = calloc(1, sizeof *s);
    if (!s || !(s->once = td_arena_create())) {
        free(s);
        return td_problem_set(&run->problem, ENOMEM, "no memory for the call");
    }
    s->run = run;
    s->op = op;
    s->expr = expr;
    s->trials.unknown = &s->unknown;
    int err = td_unknown_read(&s->unknown, args, n_args, expr, options, &run->problem);
    if (!err)
        err = infer(s, options);
    td_arena_destroy(s->once);
    free(s);
    return err;
}
