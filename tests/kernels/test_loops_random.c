/* Allocator, verifier and emitter of generated loops: random programs, run and interpreted. */
#include "kernels/jit/loop.h"
#include "tests/room.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

static float data[3][700];

static bool alike(float x, float y)
{
    return !memcmp(&x, &y, sizeof x) || (x != x && y != y);
}

static void begin(void)
{
    static const float special[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 1e-40f, 3e38f, 0.5f};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 700; i++)
            data[k][i] = draw(6) ? (float)((int)draw(1 << 20) - (1 << 19)) / (1 << 16)
                                 : special[draw(sizeof special / sizeof *special)];
}

union lane {
    float f;
    uint32_t u;
    int32_t i;
};

static bool compare(int how, float a, float b)
{
    switch (how) {
    case TD_LOOP_eq:
        return a == b;
    case TD_LOOP_ne:
        return a != b;
    case TD_LOOP_lt:
        return a < b;
    case TD_LOOP_le:
        return a <= b;
    case TD_LOOP_gt:
        return a > b;
    case TD_LOOP_ge:
        return a >= b;
    default:
        return a != a || b != b;
    }
}

static float rounded(int how, float a)
{
    return how == TD_LOOP_nearest ? rintf(a)
           : how == TD_LOOP_down  ? floorf(a)
           : how == TD_LOOP_up    ? ceilf(a)
                                  : truncf(a);
}

/* One lane of a step; masks are 0 and 1. */
static union lane one(const struct td_loop_step *x, union lane a, union lane b, union lane c)
{
    union lane y = {0};
    switch ((enum td_loop_op)x->op) {
    case TD_LOOP_set:
        return a;
    case TD_LOOP_add:
        y.f = a.f + b.f;
        break;
    case TD_LOOP_sub:
        y.f = a.f - b.f;
        break;
    case TD_LOOP_mul:
        y.f = a.f * b.f;
        break;
    case TD_LOOP_div:
        y.f = a.f / b.f;
        break;
    case TD_LOOP_min:
        return a.f < b.f ? a : b;
    case TD_LOOP_max:
        return a.f > b.f ? a : b;
    case TD_LOOP_and:
        y.u = a.u & b.u;
        break;
    case TD_LOOP_or:
        y.u = a.u | b.u;
        break;
    case TD_LOOP_xor:
        y.u = a.u ^ b.u;
        break;
    case TD_LOOP_iadd:
        y.u = a.u + b.u;
        break;
    case TD_LOOP_isub:
        y.u = a.u - b.u;
        break;
    case TD_LOOP_scale:
        y.f = ldexpf(a.f, (int)floorf(b.f));
        break;
    case TD_LOOP_shl:
        y.u = a.u << x->imm;
        break;
    case TD_LOOP_sar:
        y.i = a.i >> x->imm;
        break;
    case TD_LOOP_sqrt:
        y.f = sqrtf(a.f);
        break;
    case TD_LOOP_round:
        y.f = rounded(x->imm, a.f);
        break;
    case TD_LOOP_whole:
        y.i = fabsf(a.f) < 0x1p31f ? (int32_t)a.f : INT32_MIN;
        break;
    case TD_LOOP_real:
        y.f = (float)a.i;
        break;
    case TD_LOOP_fma:
        y.f = fmaf(a.f, b.f, c.f);
        break;
    case TD_LOOP_fnma:
        y.f = fmaf(-a.f, b.f, c.f);
        break;
    case TD_LOOP_compare:
        y.u = compare(x->imm, a.f, b.f);
        break;
    case TD_LOOP_select:
        return a.u ? b : c;
    case TD_LOOP_both:
        y.u = a.u & b.u;
        break;
    case TD_LOOP_either:
        y.u = a.u | b.u;
        break;
    case TD_LOOP_not:
        y.u = !a.u;
        break;
    default:
        ck_abort_msg("what is operation %d?", x->op);
    }
    return y;
}

/* The careful body, an element at a time: in it nothing is left out. */
static void interpret(const struct td_loop *l, const struct td_loop_args *args)
{
    static union lane at[TD_LOOP_STEPS];
    for (int64_t row = 0; row < args->rows; row++)
        for (int64_t i = 0; i < args->n; i++)
            for (int p = 0; p < l->n_steps; p++) {
                const struct td_loop_step *x = &l->step[p];
                const int16_t operand[3] = {x->a, x->b, x->c};
                union lane in[3] = {{0}};
                if (x->part == TD_LOOP_MAIN || x->op == TD_LOOP_guard)
                    continue;
                char *base = args->base[x->imm % TD_LOOP_STREAMS] +
                             row * args->row_step[x->imm % TD_LOOP_STREAMS];
                for (int k = 0; k < 3; k++)
                    if (operand[k] >= 0)
                        in[k] = at[operand[k]];
                    else if (operand[k] < -1 && l->constant[-2 - operand[k]].param < 0)
                        in[k].u = l->constant[-2 - operand[k]].bits;
                    else if (operand[k] < -1)
                        in[k].f = args->param[l->constant[-2 - operand[k]].param][0];
                if (x->op == TD_LOOP_load)
                    memcpy(&at[x->d], base + (l->still[x->imm] ? 0 : 4 * i), 4);
                else if (x->op == TD_LOOP_store)
                    memcpy(base + 4 * i, &in[0], 4);
                else
                    at[x->d] = one(x, in[0], in[1], in[2]);
            }
}

/* Streams 0 and 1 are read, 2 is still, 3 and 4 are written. Bits that make NaN of numbers are kept
 * apart: which NaN comes out is not said. */
static void tell_random(struct td_loop *l, uint32_t seed, int n)
{
    int value[400], mask[400], n_values = 0, n_masks = 0;
    static const uint8_t real[] = {TD_LOOP_add,  TD_LOOP_sub,   TD_LOOP_mul,   TD_LOOP_div,
                                   TD_LOOP_min,  TD_LOOP_max,   TD_LOOP_fma,   TD_LOOP_fnma,
                                   TD_LOOP_sqrt, TD_LOOP_round, TD_LOOP_select};
    static const uint8_t how[] = {TD_LOOP_eq, TD_LOOP_ne, TD_LOOP_lt, TD_LOOP_le,
                                  TD_LOOP_gt, TD_LOOP_ge, TD_LOOP_uno};
    draw_seed = seed;
    l->n_streams = l->n_params = 0;
    for (int s = 0; s < 5; s++)
        td_loop_stream(l, s == 2);
    for (int s = 0; s < 3; s++)
        value[n_values++] = td_loop_node(l, TD_LOOP_load, s, -1, -1, -1);
    value[n_values++] = td_loop_param(l);
    value[n_values++] = td_loop_constant(l, 0x3fc00000);
    mask[n_masks++] = td_loop_node(l, TD_LOOP_compare, TD_LOOP_lt, value[0], value[1], -1);
    for (int k = 0; k < n; k++) {
#define ANY                                                                                        \
    value[draw(3) ? (uint32_t)n_values - 1 - draw(n_values < 12 ? (uint32_t)n_values : 12)         \
                  : draw((uint32_t)n_values)]
        int a = ANY, b = ANY, c = ANY, m = mask[draw((uint32_t)n_masks)];
        enum td_loop_op op = (enum td_loop_op)real[draw(sizeof real)];
        uint8_t reads = td_loop_form(op).reads;
        switch (draw(8)) {
        case 0:
            mask[n_masks++] = td_loop_node(l, TD_LOOP_compare, how[draw(sizeof how)], a, b, -1);
            break;
        case 1:
            mask[n_masks] = td_loop_node(l, draw(2) ? TD_LOOP_both : TD_LOOP_either, 0, m,
                                         mask[draw((uint32_t)n_masks)], -1);
            n_masks++;
            break;
        case 2:
            a = td_loop_node(l, TD_LOOP_not, 0, m, -1, -1);
            mask[n_masks++] = a;
            break;
        default:
            value[n_values] =
                op == TD_LOOP_select
                    ? td_loop_node(l, op, 0, m, b, c)
                    : td_loop_node(l, op, op == TD_LOOP_round ? TD_LOOP_nearest + (int)draw(4) : 0,
                                   a, reads & 2 ? b : -1, reads & 4 ? c : -1);
            n_values++;
        }
    }
    int rare =
        td_loop_node(l, TD_LOOP_compare, TD_LOOP_gt, value[0], td_loop_constant(l, 0x40f00000), -1);
    int last = value[n_values - 1];
    if (l->part == TD_LOOP_MAIN)
        td_loop_node(l, TD_LOOP_guard, 0, rare, -1, -1);
    else
        last = td_loop_node(l, TD_LOOP_select, 0, rare, td_loop_constant(l, 0x42280000), last);
    td_loop_node(l, TD_LOOP_store, 3, last, -1, -1);
    td_loop_node(l, TD_LOOP_store, 4, value[draw((uint32_t)n_values)], -1, -1);
}

static struct td_loop loop;
static struct td_loop_step before[TD_LOOP_STEPS];
static float result[2][2][3 * 200];

static struct td_loop_args random_args(int which)
{
    struct td_loop_args args = {.n = 1 + draw(150), .rows = 1 + draw(3)};
    for (int s = 0; s < 5; s++) {
        args.base[s] = s < 3 ? (char *)data[s] : (char *)result[which][s - 3];
        args.row_step[s] = s == 2 ? 4 : 800;
    }
    for (int k = 0; k < 8; k++)
        args.param[0][k] = -0.625f;
    return args;
}

START_TEST(test_random_programs)
{
    int done = 0, caught = 0;
    begin();
    char *code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint32_t seed = 1; seed < 3000; seed++) {
        bool wide = seed % 2 && __builtin_cpu_supports("avx512dq");
        int n = 1 + (int)(seed % 60), copies = 1 << seed / 2 % 3;
        td_loop_begin(&loop, wide);
        for (int part = TD_LOOP_MAIN; part <= TD_LOOP_CAREFUL; part++) {
            loop.part = (enum td_loop_part)part;
            tell_random(&loop, seed, n);
        }
        ck_assert(td_loop_flatten(&loop, copies));
        memcpy(before, loop.step, sizeof before);
        struct td_loop_room space = td_loop_room(wide);
        space.values -= (int)(seed / 8 % 4) * 3;
        if (!td_loop_allocate(&loop, space))
            continue;
        ck_assert(td_loop_verify(before, &loop, space));
        int at = (int)draw((uint32_t)loop.n_steps);
        if (loop.step[at].d >= 0) { /* a register that is another's for a while */
            int16_t right = loop.step[at].d;
            loop.step[at].d = (int16_t)(right ^ 1);
            caught += !td_loop_verify(before, &loop, space);
            loop.step[at].d = right;
        }
        ck_assert_int_eq(mprotect(code, 1 << 20, PROT_READ | PROT_WRITE), 0);
        ck_assert_uint_gt(td_loop_emit(&loop, code, 1 << 20, NULL), 0);
        ck_assert_int_eq(mprotect(code, 1 << 20, PROT_READ | PROT_EXEC), 0);
        memset(result, 0, sizeof result);
        struct td_loop_args args = random_args(0), judged;
        judged = args;
        judged.base[3] = (char *)result[1][0];
        judged.base[4] = (char *)result[1][1];
        ((td_loop_code *)(uintptr_t)code)(&args);
        memcpy(loop.step, before, sizeof before);
        interpret(&loop, &judged);
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 600; i++)
                if (!alike(result[0][k][i], result[1][k][i]))
                    ck_abort_msg("seed %u, %d copies: output %d, element %d: %a, not %a", seed,
                                 copies, k, i, (double)result[0][k][i], (double)result[1][k][i]);
        done++;
    }
    ck_assert_int_ge(done, 800);
    ck_assert_int_ge(caught, 200);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_random_programs};
    return td_run_tests("loops_random", tests, sizeof tests / sizeof *tests);
}
