/* Registers of generated loops: linear scan over the flat program, and the verifier of what comes
 * out. What is made once a row is read in every round, so it lives to the program's end. */
#include "kernels/jit/loop.h"

#include <string.h>

struct td_loop_room td_loop_room(bool wide)
{
    /* Kept back: two for steps of more instructions than one, and the lanes that count: of AVX2 a
     * third one, of AVX-512 masks, of which k0 stands for none. */
    return wide ? (struct td_loop_room){30, 5} : (struct td_loop_room){13, 0};
}

/* Where masks are registers of their own; else they are values. */
static bool is_mask(const struct td_loop *l, const struct td_loop_step *x)
{
    return l->wide && td_loop_form((enum td_loop_op)x->op).makes_mask;
}

static void find_ends(const struct td_loop *l, int16_t *end)
{
    uint8_t part[TD_LOOP_STEPS];
    for (int p = 0; p < l->n_steps; p++) {
        const struct td_loop_step *x = &l->step[p];
        const int16_t operand[3] = {x->a, x->b, x->c};
        if (x->d >= 0) {
            end[x->d] = (int16_t)p;
            part[x->d] = x->part;
        }
        for (int i = 0; i < 3; i++)
            if (operand[i] >= 0)
                end[operand[i]] = (int16_t)(part[operand[i]] == x->part ? p : l->n_steps);
    }
}

bool td_loop_allocate(struct td_loop *l, struct td_loop_room room)
{
    int16_t end[TD_LOOP_STEPS], real[TD_LOOP_STEPS];
    int16_t holds[2][TD_LOOP_REGISTERS]; /* virtual; -1: it is free */
    memset(holds, -1, sizeof holds);
    find_ends(l, end);
    for (int p = 0; p < l->n_steps; p++) {
        const struct td_loop_step *x = &l->step[p];
        int mask = is_mask(l, x), most = mask ? room.masks : room.values, r = 0;
        for (int m = 0; m < 2; m++)
            for (int i = 0; i < (m ? room.masks : room.values); i++)
                if (holds[m][i] >= 0 && end[holds[m][i]] <= p) /* read here for the last time */
                    holds[m][i] = -1;
        if (x->d < 0)
            continue;
        const int16_t near[3] = {x->c, x->a, x->b}; /* in whose place it saves a move */
        int found = -1;
        for (int i = 0; i < 3 && found < 0 && !mask; i++)
            if (near[i] >= 0 && real[near[i]] < TD_LOOP_MASK && holds[0][real[near[i]]] < 0)
                found = real[near[i]];
        while (found < 0 && r < most && holds[mask][r] >= 0)
            r++;
        r = found >= 0 ? found : r;
        if (r == most)
            return false;
        holds[mask][r] = x->d;
        real[x->d] = (int16_t)(mask ? TD_LOOP_MASK + 1 + r : r);
    }
    for (int p = 0; p < l->n_steps; p++) {
        int16_t *operand[4] = {&l->step[p].a, &l->step[p].b, &l->step[p].c, &l->step[p].d};
        for (int i = 0; i < 4; i++)
            if (*operand[i] >= 0)
                *operand[i] = real[*operand[i]];
    }
    return true;
}

/* Walks the steps of the part; holds: the virtual register in each real one. */
static bool follow(const struct td_loop_step *before, const struct td_loop *after,
                   struct td_loop_room room, enum td_loop_part part, int16_t *holds)
{
    for (int p = 0; p < after->n_steps; p++) {
        const struct td_loop_step *v = &before[p], *x = &after->step[p];
        const int16_t virtual[3] = {v->a, v->b, v->c}, real[3] = {x->a, x->b, x->c};
        if (x->part != part)
            continue;
        for (int i = 0; i < 3; i++)
            if (virtual[i] < 0 ? real[i] != virtual[i]
                               : real[i] < 0 || holds[real[i]] != virtual[i])
                return false;
        if (v->d < 0)
            continue;
        bool mask = is_mask(after, x);
        if (x->d < 0 || (x->d >= TD_LOOP_MASK) != mask ||
            x->d >= (mask ? TD_LOOP_MASK + 1 + room.masks : room.values))
            return false;
        holds[x->d] = v->d;
    }
    return true;
}

bool td_loop_verify(const struct td_loop_step *before, const struct td_loop *after,
                    struct td_loop_room room)
{
    int16_t holds[2 * TD_LOOP_MASK];
    memset(holds, -1, sizeof holds);
    if (!follow(before, after, room, TD_LOOP_ROW, holds))
        return false;
    /* Either body may come after either, and after itself. */
    for (int round = 0; round < 2; round++)
        if (!follow(before, after, room, TD_LOOP_MAIN, holds) ||
            !follow(before, after, room, TD_LOOP_CAREFUL, holds))
            return false;
    return follow(before, after, room, TD_LOOP_CAREFUL, holds) &&
           follow(before, after, room, TD_LOOP_MAIN, holds) &&
           follow(before, after, room, TD_LOOP_MAIN, holds);
}
