/* Finds states by the names of ports, for files that do not declare states: a state is an input
 * paired with the output that has its contents after the run, as past_key_values.0.key and
 * present.0.key, or state and stateN. Names are split into words; past and the like are removed
 * from inputs' names, present and the like from outputs', and ports whose remaining names are equal
 * are a pair. A pair must have one type, and sizes that fit. */
#include "dispatch/program/program.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_UNPAIRED 16

static const char *const before[] = {"past", "prev", "previous", "old", "in",
                                     "cur",  "init", "initial",  NULL};
static const char *const after[] = {"present", "new", "next", "out", "updated", "final", NULL};

struct named {        /* a port, to be sorted by text */
    const char *text; /* the words that remain of its name, each followed by a space */
    int port;
    bool marked; /* words were removed */
};

struct pairing {
    struct td_model *model;
    struct td_arena *arena; /* of the names */
    struct named *rest;     /* the outputs, sorted by what remains of their names */
    struct named *whole;    /* the outputs, sorted by their whole names */
    int *of_input;          /* by input: the output that it is paired with; below 0: none */
    bool *taken;            /* by output: it is in a pair */
};

/* ---- names ---- */

static bool is_one_of(const char *const *words, const char *word, size_t n)
{
    while (*words && (strlen(*words) != n || strncmp(*words, word, n) != 0))
        words++;
    return *words;
}

/* The words of a name in lower case: split at _ . / : - and before a capital letter. */
static char *words_of(struct td_arena *arena, const char *name)
{
    char *text = td_arena_alloc(arena, 2 * strlen(name) + 2), *to = text;
    for (const char *at = name; text && *at; at++) {
        bool apart = strchr("_./:-", *at);
        bool up = at > name && isupper((unsigned char)*at) && islower((unsigned char)at[-1]);
        if ((apart || up) && to > text && to[-1] != ' ')
            *to++ = ' ';
        if (!apart)
            *to++ = (char)tolower((unsigned char)*at);
    }
    if (text && to > text && to[-1] != ' ')
        *to++ = ' ';
    if (text)
        *to = 0;
    return text;
}

/* Removes these words from a text, in place; whether there was one. past key values is one word. */
static bool leave_out(char *text, const char *const *words)
{
    static const char long_past[] = "past key values ";
    char *to = text;
    bool any = false;
    for (char *at = text; *at;) {
        size_t n = strcspn(at, " ");
        bool gone = is_one_of(words, at, n);
        size_t step =
            gone && !strncmp(at, long_past, sizeof long_past - 1) ? sizeof long_past - 1 : n + 1;
        any = any || gone;
        if (!gone) {
            memmove(to, at, n + 1);
            to += n + 1;
        }
        at += step;
    }
    *to = 0;
    return any;
}

static int by_text(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : x->port - y->port;
}

static bool read_outputs(struct pairing *p)
{
    int n = p->model->n_outputs;
    for (int i = 0; i < n; i++) {
        char *rest = words_of(p->arena, p->model->output[i].name);
        char *whole = words_of(p->arena, p->model->output[i].name);
        if (!rest || !whole)
            return false;
        p->whole[i] = (struct named){whole, i, false};
        p->rest[i] = (struct named){rest, i, leave_out(rest, after)};
    }
    qsort(p->rest, (size_t)n, sizeof *p->rest, by_text);
    qsort(p->whole, (size_t)n, sizeof *p->whole, by_text);
    return true;
}

/* The output with this text, if there is only one; else NULL. */
static const struct named *find(const struct named *list, int n, const char *text)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(list[middle].text, text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool right = low < n && !strcmp(list[low].text, text);
    return right && (low + 1 == n || strcmp(list[low + 1].text, text) != 0) ? &list[low] : NULL;
}

/* The output of an input X by the names Xn or X_n, or Xn for an input X0; else NULL. */
static const struct named *find_next(const struct pairing *p, const char *words)
{
    size_t n = strlen(words);
    char *text = td_arena_alloc(p->arena, n + 4);
    if (!text || !n)
        return NULL;
    memcpy(text, words, n);
    strcpy(text + n, "n ");
    const struct named *found = find(p->whole, p->model->n_outputs, text);
    if (!found) {
        strcpy(text + n - 1, "n ");
        found = find(p->whole, p->model->n_outputs, text);
    }
    if (!found && n > 2 && text[n - 2] == '0' && !isdigit((unsigned char)text[n - 3])) {
        strcpy(text + n - 2, "n ");
        found = find(p->whole, p->model->n_outputs, text);
    }
    return found;
}

/* ---- types and sizes ---- */

const char *td_model_judge_pair(const struct td_model_port *in, const struct td_model_port *out,
                                int *grows)
{
    int differ = 0;
    *grows = -1;
    if (out->dtype && in->dtype != out->dtype)
        return "has another type than the output";
    if (in->rank < 0 || out->rank < 0)
        return NULL;
    if (in->rank != out->rank)
        return "has another number of dimensions than the output";
    for (int d = 0; d < in->rank; d++) {
        bool same = in->symbol[d] && out->symbol[d] && !strcmp(in->symbol[d], out->symbol[d]);
        if (in->shape[d] >= 0 && out->shape[d] >= 0 && in->shape[d] != out->shape[d])
            return "has other sizes than the output";
        if (in->symbol[d] && out->symbol[d] && !same) {
            *grows = d;
            differ++;
        }
    }
    *grows = differ == 1 ? *grows : -1;
    return NULL;
}

/* Notes why an input that looks like a state is none; returns -1. */
static int note(struct td_model *model, int input, const char *why)
{
    if (model->n_unpaired < MOST_UNPAIRED)
        model->unpaired[model->n_unpaired++] = (struct td_unpaired){model->input[input].name, why};
    return -1;
}

/* The output that an input is paired with; -1: none; -2: none, but it is named like a state. */
static int partner(struct pairing *p, int i)
{
    struct td_model *model = p->model;
    char *words = words_of(p->arena, model->input[i].name);
    char *rest = words ? td_arena_strdup(p->arena, words, strlen(words)) : NULL;
    if (!rest)
        return -1;
    bool marked = leave_out(rest, before);
    const struct named *found = *rest ? find(p->rest, model->n_outputs, rest) : NULL;
    if (found && !marked && !found->marked)
        found = NULL;
    found = found ? found : find_next(p, words);
    int grows;
    if (!found || p->taken[found->port])
        return marked && *rest && !found ? -2 : -1;
    const char *why = td_model_judge_pair(&model->input[i], &model->output[found->port], &grows);
    if (why)
        return note(model, i, why);
    p->taken[found->port] = true;
    return found->port;
}

/* ---- families ---- */

/* The name with each number replaced by #: all layers' caches share it. NULL: it has no numbers. */
static char *family_of(struct td_arena *arena, const char *name)
{
    char *text = td_arena_strdup(arena, name, strlen(name)), *to = text;
    bool any = false;
    for (const char *at = text; text && *at; at++)
        if (isdigit((unsigned char)*at)) {
            any = true;
            if (to == text || to[-1] != '#')
                *to++ = '#';
        } else {
            *to++ = *at;
        }
    if (text)
        *to = 0;
    return any ? text : NULL;
}

/* Unpairs all inputs of a family if one of them has no partner. */
static bool judge_families(struct pairing *p)
{
    struct td_model *model = p->model;
    struct named *of = td_arena_zalloc(p->arena, sizeof *of * (size_t)(model->n_inputs + 1));
    int n = 0;
    if (!of)
        return false;
    for (int i = 0; i < model->n_inputs; i++) {
        char *family = family_of(p->arena, model->input[i].name);
        if (family)
            of[n++] = (struct named){family, i, false};
    }
    qsort(of, (size_t)n, sizeof *of, by_text);
    for (int i = 0, end; i < n; i = end) {
        bool some = false, all = true;
        for (end = i; end < n && !strcmp(of[end].text, of[i].text); end++) {
            some = some || p->of_input[of[end].port] >= 0;
            all = all && p->of_input[of[end].port] >= 0;
        }
        if (some && !all)
            note(model, of[i].port, "and its like are not all paired: some have no such output");
        for (int k = i; k < end && !all; k++)
            p->of_input[of[k].port] = -1;
    }
    return true;
}

/* ---- the whole ---- */

static bool make_states(struct pairing *p)
{
    struct td_model *model = p->model;
    int n = 0;
    for (int i = 0; i < model->n_inputs; i++)
        n += p->of_input[i] >= 0;
    model->state = td_program_alloc(model, sizeof *model->state * (size_t)n);
    model->initial = td_program_alloc(model, sizeof *model->initial * (size_t)n);
    if (!model->state || !model->initial)
        return false;
    for (int i = 0; i < model->n_inputs; i++) {
        if (p->of_input[i] < 0)
            continue;
        struct td_model_state *s = &model->state[model->n_states++];
        *s = (struct td_model_state){
            .name = model->input[i].name, .from = "pair", .input = i, .output = p->of_input[i]};
        td_model_judge_pair(&model->input[i], &model->output[s->output], &s->grows);
    }
    return true;
}

static bool pair(struct pairing *p)
{
    struct td_model *model = p->model;
    size_t in = (size_t)model->n_inputs + 1, out = (size_t)model->n_outputs + 1;
    p->rest = td_arena_zalloc(p->arena, sizeof *p->rest * out);
    p->whole = td_arena_zalloc(p->arena, sizeof *p->whole * out);
    p->taken = td_arena_zalloc(p->arena, out);
    p->of_input = td_arena_zalloc(p->arena, sizeof *p->of_input * in);
    model->unpaired = td_program_alloc(model, sizeof *model->unpaired * MOST_UNPAIRED);
    if (!p->rest || !p->whole || !p->taken || !p->of_input || !model->unpaired || !read_outputs(p))
        return false;
    for (int i = 0; i < model->n_inputs; i++) {
        p->of_input[i] = partner(p, i);
        if (p->of_input[i] == -2)
            note(model, i, "has no output whose name goes with it");
    }
    return judge_families(p) && make_states(p);
}

int td_model_pair_ports(struct td_model *model)
{
    struct pairing p = {.model = model, .arena = td_arena_create()};
    bool done = p.arena && pair(&p);
    td_arena_destroy(p.arena);
    return done ? 0 : -ENOMEM;
}
