/* The builder of generated loops: nodes, each once, and the flat program that they become. */
#include "kernels/jit/loop.h"

#include <string.h>

struct td_loop_form td_loop_form(enum td_loop_op op)
{
#define MAKES_value true, false
#define MAKES_mask true, true
#define MAKES_nothing false, false
    static const struct td_loop_form forms[TD_LOOP_OPS] = {
#define TD_LOOP_OP(id, operands, memory, makes, takes) {operands, memory, takes, MAKES_##makes},
#include "kernels/jit/ops.def"
#undef TD_LOOP_OP
    };
    return forms[op];
}

const char *const td_loop_reasons[TD_REASONS] = {
#define TD_REASON(id, text) text,
#include "kernels/jit/reasons.def"
#undef TD_REASON
};

void td_loop_begin(struct td_loop *l, bool wide)
{
    memset(l, 0, offsetof(struct td_loop, node));
    l->why = NULL;
    l->wide = wide;
    l->sum = -1;
    l->part = TD_LOOP_MAIN;
}

int td_loop_stream(struct td_loop *l, bool still)
{
    if (l->n_streams == TD_LOOP_STREAMS) {
        l->why = TD_WHY(tensors);
        return 0;
    }
    l->still[l->n_streams] = still;
    return l->n_streams++;
}

static int add_constant(struct td_loop *l, uint32_t bits, int param)
{
    int k = 0;
    while (k < l->n_constants && (l->constant[k].bits != bits || l->constant[k].param != param))
        k++;
    if (k == TD_LOOP_CONSTANTS) {
        l->why = TD_WHY(constants);
        return -2;
    }
    l->constant[k].bits = bits;
    l->constant[k].param = param;
    l->n_constants += k == l->n_constants;
    return -2 - k;
}

int td_loop_constant(struct td_loop *l, uint32_t bits)
{
    return add_constant(l, bits, -1);
}

int td_loop_param(struct td_loop *l)
{
    if (l->n_params == TD_LOOP_PARAMS) {
        l->why = TD_WHY(numbers);
        return -2;
    }
    return add_constant(l, 0, l->n_params++);
}

bool td_loop_is_still(const struct td_loop *l, int operand)
{
    return operand < 0 || l->node[operand].part == TD_LOOP_ROW;
}

int td_loop_node(struct td_loop *l, enum td_loop_op op, int imm, int a, int b, int c)
{
    struct td_loop_step x = {(uint8_t)op, (uint8_t)imm, (uint8_t)l->part, 0,
                             -1,          (int16_t)a,   (int16_t)b,       (int16_t)c};
    bool still = op == TD_LOOP_load
                     ? l->still[imm]
                     : td_loop_is_still(l, a) && td_loop_is_still(l, b) && td_loop_is_still(l, c);
    if (still && td_loop_form(op).makes)
        x.part = TD_LOOP_ROW;
    for (int k = 0; k < l->n_nodes; k++)
        if (!memcmp(&l->node[k], &x, sizeof x))
            return k;
    if (l->n_nodes == TD_LOOP_NODES) {
        l->why = TD_WHY(length);
        return 0;
    }
    l->node[l->n_nodes] = x;
    return l->n_nodes++;
}

/* ---- the flat program ---- */

struct flat {
    struct td_loop *l;
    bool wanted[TD_LOOP_NODES];
    int16_t at[TD_LOOP_NODES][TD_LOOP_COPIES]; /* the register of each copy */
};

static void put(struct td_loop *l, struct td_loop_step step)
{
    if (l->n_steps == TD_LOOP_STEPS)
        l->why = TD_WHY(length);
    else
        l->step[l->n_steps++] = step;
}

/* Operands that do not come from memory where the operation wants them are set first. */
static void put_copy(struct flat *f, int k, enum td_loop_part part, int copy)
{
    struct td_loop_step x = f->l->node[k];
    struct td_loop_form form = td_loop_form((enum td_loop_op)x.op);
    int16_t *operand[3] = {&x.a, &x.b, &x.c};
    bool in_memory = false;
    bool swaps =
        x.op == TD_LOOP_add || x.op == TD_LOOP_mul || x.op == TD_LOOP_fma || x.op == TD_LOOP_fnma;
    if (swaps && x.a < 0 && x.b >= 0) {
        x.a = x.b;
        x.b = f->l->node[k].a;
    }
    x.part = (uint8_t)part;
    x.copy = (uint8_t)copy;
    for (int i = 0; i < 3; i++) {
        int v = *operand[i];
        if (!(form.reads >> i & 1))
            continue;
        if (v >= 0) {
            *operand[i] = f->at[v][f->l->node[v].part == TD_LOOP_ROW ? 0 : copy];
        } else if (form.memory >> i & 1 && !in_memory) {
            in_memory = true;
        } else {
            *operand[i] = (int16_t)f->l->n_virtual++;
            put(f->l, (struct td_loop_step){TD_LOOP_set, 0, (uint8_t)part, (uint8_t)copy,
                                            *operand[i], (int16_t)v, -1, -1});
        }
    }
    if (form.makes)
        x.d = f->at[k][copy] = (int16_t)f->l->n_virtual++;
    put(f->l, x);
}

bool td_loop_flatten(struct td_loop *l, int copies)
{
    struct flat f = {.l = l};
    l->n_steps = l->n_virtual = 0;
    l->copies = copies;
    for (int k = l->n_nodes - 1; k >= 0; k--) {
        const struct td_loop_step *x = &l->node[k];
        const int16_t operand[3] = {x->a, x->b, x->c};
        f.wanted[k] |= !td_loop_form((enum td_loop_op)x->op).makes;
        for (int i = 0; i < 3 && f.wanted[k]; i++)
            if (operand[i] >= 0)
                f.wanted[operand[i]] = true;
    }
    for (int part = 0; part < TD_LOOP_PARTS && !l->why; part++)
        for (int k = 0; k < l->n_nodes; k++)
            for (int i = 0;
                 f.wanted[k] && l->node[k].part == part && i < (part == TD_LOOP_MAIN ? copies : 1);
                 i++)
                put_copy(&f, k, (enum td_loop_part)part, i);
    return !l->why;
}
