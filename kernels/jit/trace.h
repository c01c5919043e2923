/* kernels/lanes.h over the builder of generated loops: a vector of lanes is a node's number, and
 * formulas, whose text follows unchanged, write programs in place of computing. What is built here
 * has FMA. Include in one file alone, which sets td_tracing to the loop that is built. */
#ifndef TD_KERNELS_JIT_TRACE_H
#define TD_KERNELS_JIT_TRACE_H

#include "kernels/jit/loop.h"

#include <math.h>
#include <string.h>

/* What stands in place of these: */
#define TD_KERNELS_LANES_H
#define TD_KERNELS_FUNCTIONS_H
#define TD_KERNELS_SPECIAL_H
#define TD_REAL_BITS 32
#ifndef __FMA__
#define __FMA__ 1
#endif
#define TD_INLINE static inline __attribute__((unused))
typedef float td_real;
typedef int V, VM; /* operands: enum td_loop_op's */

static struct td_loop *td_tracing;

#define NODE(op, imm, a, b, c) td_loop_node(td_tracing, TD_LOOP_##op, imm, a, b, c)

TD_INLINE V L_bits(uint32_t u)
{
    return td_loop_constant(td_tracing, u);
}

TD_INLINE V L_c(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return L_bits(u);
}

#define TD_TRACE_1(name, op, imm)                                                                  \
    TD_INLINE V L_##name(V a)                                                                      \
    {                                                                                              \
        return NODE(op, imm, a, -1, -1);                                                           \
    }
#define TD_TRACE_2(name, op, imm)                                                                  \
    TD_INLINE V L_##name(V a, V b)                                                                 \
    {                                                                                              \
        return NODE(op, imm, a, b, -1);                                                            \
    }
#define TD_TRACE_3(name, op)                                                                       \
    TD_INLINE V L_##name(V a, V b, V c)                                                            \
    {                                                                                              \
        return NODE(op, 0, a, b, c);                                                               \
    }
TD_TRACE_2(add, add, 0)
TD_TRACE_2(sub, sub, 0)
TD_TRACE_2(mul, mul, 0)
TD_TRACE_2(div, div, 0)
TD_TRACE_2(min, min, 0)
TD_TRACE_2(max, max, 0)
TD_TRACE_3(fma, fma)
TD_TRACE_3(fnma, fnma)
TD_TRACE_1(sqrt, sqrt, 0)
TD_TRACE_1(round, round, TD_LOOP_nearest)
TD_TRACE_1(floor, round, TD_LOOP_down)
TD_TRACE_1(ceil, round, TD_LOOP_up)
TD_TRACE_1(trunc, round, TD_LOOP_cut)
TD_TRACE_2(lt, compare, TD_LOOP_lt)
TD_TRACE_2(le, compare, TD_LOOP_le)
TD_TRACE_2(gt, compare, TD_LOOP_gt)
TD_TRACE_2(ge, compare, TD_LOOP_ge)
TD_TRACE_2(eq, compare, TD_LOOP_eq)
TD_TRACE_2(ne, compare, TD_LOOP_ne)
TD_TRACE_2(uno, compare, TD_LOOP_uno)
TD_TRACE_2(both, both, 0)
TD_TRACE_2(either, either, 0)
TD_TRACE_1(not, not, 0)
TD_TRACE_3(sel, select)

TD_INLINE V L_neg(V a)
{
    return NODE(xor, 0, a, L_bits(0x80000000), -1);
}

TD_INLINE V L_abs(V a)
{
    return NODE(and, 0, a, L_bits(0x7fffffff), -1);
}

TD_INLINE V L_copysign(V magnitude, V sign)
{
    return NODE(or, 0, L_abs(magnitude), NODE(and, 0, sign, L_bits(0x80000000), -1), -1);
}

TD_INLINE V L_flip(V a, V m, int k)
{
    V bit = NODE(and, 0, NODE(shl, 31 - k, m, -1, -1), L_bits(0x80000000), -1);
    return NODE(xor, 0, a, bit, -1);
}

/* Compares 1 with 0 after the bit may have made it -1. */
TD_INLINE VM L_bit(V m, int k)
{
    return L_lt(L_flip(L_c(1), m, k), L_c(0));
}

/* In the main body no lane is, or the round is done again. */
TD_INLINE bool L_any(VM m)
{
    if (td_tracing->part == TD_LOOP_CAREFUL || td_loop_is_still(td_tracing, m))
        return true;
    NODE(guard, 0, m, -1, -1);
    return false;
}

/* As lanes.h has it of AVX2: twice by half of the exponent. */
TD_INLINE V L_ldexp(V x, V n)
{
    if (td_tracing->wide)
        return NODE(scale, 0, x, n, -1);
    V half = L_floor(L_mul(n, L_c(0.5f))), part[2] = {half, L_sub(n, half)};
    for (int i = 0; i < 2; i++) {
        V biased = NODE(iadd, 0, NODE(whole, 0, part[i], -1, -1), L_bits(127), -1);
        x = L_mul(x, NODE(shl, 23, biased, -1, -1));
    }
    return x;
}

TD_INLINE V L_ldexp_from(V x, V n, V a, V b)
{
    return L_ldexp(td_tracing->wide ? x : L_sel(L_lt(a, b), L_c(0), x), n);
}

#define L_FAR_EXPONENT (td_tracing->wide ? -1000 : -150)

TD_INLINE V L_frexp(V x, V *n)
{
    VM small = L_lt(x, L_c(0x1p-126f));
    V bits = L_sel(small, L_mul(x, L_c(0x1p25f)), x);
    V e = NODE(sar, 23, NODE(isub, 0, bits, L_c(0.75f), -1), -1, -1);
    V less = L_sel(small, L_bits(25), L_bits(0));
    *n = NODE(real, 0, NODE(isub, 0, e, less, -1), -1, -1);
    return NODE(isub, 0, bits, NODE(shl, 23, e, -1, -1), -1);
}

TD_INLINE V L_toward(V a, V b)
{
    V one = L_bits(1), none = L_bits(0), zero = L_c(0);
    V up = L_sel(L_lt(a, b), one, none), above = L_sel(L_gt(a, zero), one, none);
    V step = NODE(isub, 0, one, NODE(shl, 1, NODE(xor, 0, up, above, -1), -1, -1), -1);
    V y = L_sel(L_eq(a, zero), L_copysign(one, b), NODE(iadd, 0, a, step, -1));
    return L_sel(L_uno(a, b), L_add(a, b), L_sel(L_eq(a, b), b, y));
}

/* What has no form in these primitives has none here. */
TD_INLINE V td_trace_call(V x)
{
    td_tracing->why = TD_WHY(function);
    return x;
}
#define TD_TRACE_CALL_1(name)                                                                      \
    TD_INLINE V name(V x)                                                                          \
    {                                                                                              \
        return td_trace_call(x);                                                                   \
    }
#define TD_TRACE_CALL_2(name)                                                                      \
    TD_INLINE V name(V x, V y)                                                                     \
    {                                                                                              \
        (void)y;                                                                                   \
        return td_trace_call(x);                                                                   \
    }
TD_TRACE_CALL_1(o_exp2)
TD_TRACE_CALL_1(o_expm1)
TD_TRACE_CALL_1(o_log2)
TD_TRACE_CALL_1(o_log10)
TD_TRACE_CALL_1(o_tan)
TD_TRACE_CALL_1(o_asin)
TD_TRACE_CALL_1(o_acos)
TD_TRACE_CALL_1(o_atan)
TD_TRACE_CALL_1(sinh_sleef_)
TD_TRACE_CALL_1(cosh_sleef_)
TD_TRACE_CALL_1(asinh_sleef_)
TD_TRACE_CALL_1(acosh_sleef_)
TD_TRACE_CALL_1(o_atanh)
TD_TRACE_CALL_1(o_erfc)
TD_TRACE_CALL_1(o_lgamma)
TD_TRACE_CALL_1(o_digamma)
TD_TRACE_CALL_1(o_erfinv)
TD_TRACE_CALL_1(o_i0)
TD_TRACE_CALL_1(o_i0e)
TD_TRACE_CALL_1(o_i1)
TD_TRACE_CALL_1(o_i1e)
TD_TRACE_CALL_1(o_erfcx)
TD_TRACE_CALL_1(o_bessel_j0)
TD_TRACE_CALL_1(o_bessel_j1)
TD_TRACE_CALL_1(o_bessel_y0)
TD_TRACE_CALL_1(o_bessel_y1)
TD_TRACE_CALL_1(o_bessel_k0)
TD_TRACE_CALL_1(o_bessel_k1)
TD_TRACE_CALL_1(o_bessel_k0_scaled)
TD_TRACE_CALL_1(o_bessel_k1_scaled)
TD_TRACE_CALL_1(sin_sleef_)
TD_TRACE_CALL_1(cos_sleef_)
TD_TRACE_CALL_2(o_atan2)
TD_TRACE_CALL_2(o_pow)
TD_TRACE_CALL_2(o_zeta)
TD_TRACE_CALL_2(o_polygamma)
TD_TRACE_CALL_2(o_gamma_lower)
TD_TRACE_CALL_2(o_gamma_upper)
TD_TRACE_CALL_2(fmod_by_lane_)

#undef NODE

#include "kernels/formulas.h"

#endif
