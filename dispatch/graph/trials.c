/* Sizes to try, made as a fuzzer makes inputs. A rule judges one thing after the other, so a
 * refusal in new words is a step forward, and the sizes that led there are changed further: best to
 * the numbers that the refusal names, for it says what would be right. What was accepted is changed
 * further, too, to see what of the results stays. Chance is drawn from a constant seed: equal calls
 * have equal trials. */
#include "dispatch/graph/trials.h"
#include "kernels/sizes.h"

#include <ctype.h>
#include <stdlib.h>

#define TURNS 12

static uint32_t draw(struct td_trials *t, int n)
{
    if (!t->chance)
        t->chance = 2463534242u;
    t->chance ^= t->chance << 13; /* Marsaglia's xorshift */
    t->chance ^= t->chance >> 17;
    t->chance ^= t->chance << 5;
    return (uint32_t)((uint64_t)t->chance * (uint64_t)n >> 32);
}

static int64_t draw_size(struct td_trials *t)
{
    const struct td_unknown *u = t->unknown;
    int64_t other = t->now.size[draw(t, u->n)];
    uint32_t how = draw(t, 8);
    if (how < 6)
        return u->likely[draw(t, draw(t, 2) ? u->n_given : u->n_likely)];
    return how == 6 ? other : draw(t, 2) ? other + 1 : other - (other > 0);
}

static void replace(struct td_trials *t, int64_t from, int64_t to)
{
    for (int i = 0; i < t->unknown->n; i++)
        t->now.size[i] = t->now.size[i] == from ? to : t->now.size[i];
}

/* A size that the refusal names becomes another number of it, or a product of two. */
static void obey(struct td_trials *t)
{
    struct td_trial *now = &t->now;
    int n = t->unknown->n, n_hints = now->n_hints, start = (int)draw(t, n), i = 0;
    int64_t from = now->hint[draw(t, n_hints)], to = now->hint[draw(t, n_hints)], product;
    if (!draw(t, 4) && td_size_times(to, now->hint[draw(t, n_hints)], &product))
        to = product <= TD_SIZE_MOST ? product : to;
    while (i < n && now->size[(start + i) % n] != from)
        i++;
    now->size[(start + i) % n] = to;
    if (!draw(t, 3))
        replace(t, from, to);
}

/* Another size at one place, and perhaps at others. */
static void change(struct td_trials *t)
{
    int64_t *size = t->now.size, to = draw_size(t);
    int n = t->unknown->n, at = (int)draw(t, n), other = (int)draw(t, n);
    switch (draw(t, 8)) {
    case 0:
    case 1: /* those that are alike stay so */
        replace(t, size[at], to);
        break;
    case 2:
        size[at] = size[other] = to;
        break;
    case 3:
        size[other] = draw_size(t);
        size[at] = to;
        break;
    default:
        size[at] = to;
    }
}

/* One size after the other becomes each of the likeliest numbers: where all are 1, and of accepted
 * trials. False: that is done. */
static bool change_in_turn(struct td_trials *t)
{
    int n = t->unknown->n, turn = t->n_turns / (n * TURNS);
    if (turn > t->n_accepted)
        return false;
    if (turn)
        t->now = t->accepted[turn - 1];
    for (int i = 0; i < n && !turn; i++)
        t->now.size[i] = 1;
    t->now.size[t->n_turns / TURNS % n] = t->unknown->likely[t->n_turns % TURNS];
    t->n_turns++;
    return true;
}

/* All sizes alike, each of the likely ones. False: that is done. */
static bool begin(struct td_trials *t)
{
    if (t->n_begun == t->unknown->n_likely)
        return false;
    for (int i = 0; i < t->unknown->n; i++)
        t->now.size[i] = t->unknown->likely[t->n_begun];
    t->n_begun++;
    return true;
}

/* A refused trial is mostly gone on with. */
void td_trials_next(struct td_trials *t)
{
    int turn = t->n_tried++ % 4;
    bool on = t->now.n_hints && draw(t, 4);
    if (!on && ((turn < 2 && begin(t)) || (turn < 3 && change_in_turn(t))))
        return;
    if (!on && t->n_accepted && (!t->n_refused || draw(t, 4)))
        t->now = t->accepted[draw(t, t->n_accepted)];
    else if (!on && t->n_refused)
        t->now = t->refused[draw(t, t->n_refused)];
    if (t->now.n_hints && draw(t, 3))
        obey(t);
    else
        change(t);
}

static void keep(struct td_trials *t, struct td_trial *list, int *n)
{
    if (*n < TD_TRIALS_KEPT)
        list[(*n)++] = t->now;
    t->n_last = t->n_tried;
}

/* The sentence's numbers, and its words. */
static void read(struct td_trial *t, const char *sentence)
{
    t->words = 0;
    t->n_hints = t->n_unlike = 0;
    for (char *p = (char *)sentence, *end; *p; p = end) {
        end = p + 1;
        if (!isdigit((unsigned char)*p)) {
            t->words = 31 * t->words + (unsigned char)*p;
            continue;
        }
        int64_t number = strtoll(p, &end, 10);
        int i = 0;
        while (i < t->n_hints && t->hint[i] != number)
            i++;
        t->n_unlike += i == t->n_hints;
        if (t->n_hints < TD_HINTS && number <= TD_SIZE_MOST)
            t->hint[t->n_hints++] = number;
    }
}

/* Of refusals in the same words the one is kept whose numbers are most alike: more is right. */
void td_trials_refused(struct td_trials *t, const char *sentence, int progress)
{
    int i = 0;
    read(&t->now, sentence);
    t->now.words += (uint64_t)progress;
    while (i < t->n_refused && t->refused[i].words != t->now.words)
        i++;
    t->now.often = i < t->n_refused ? t->refused[i].often + 1 : 1;
    if (i == t->n_refused && i < TD_TRIALS_KEPT)
        keep(t, t->refused, &t->n_refused);
    else if (i < t->n_refused && t->now.n_unlike <= t->refused[i].n_unlike)
        t->refused[i] = t->now;
    else if (i < t->n_refused)
        t->refused[i].often++;
}

void td_trials_accepted(struct td_trials *t, bool news)
{
    t->now.n_hints = 0;
    if (news || t->n_accepted < TD_TRIALS_KEPT / 4)
        keep(t, t->accepted, &t->n_accepted);
}
