/* Results of reductions in the types of 16 bits, at each level: rounded once, from a double, as the
 * one that is compiled once rounds them one by one. */
#include "kernels/half.h"
#include "kernels/reduce/reduce.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define N 1537 /* three times what is finished at once, and one */

TD_IF_default(extern td_finish_results td_reduce_finish_default;)
    TD_IF_avx2(extern td_finish_results td_reduce_finish_avx2;)
        TD_IF_avx512(extern td_finish_results td_reduce_finish_avx512;)

            static const struct {
    const char *name;
    enum td_isa isa;
    td_finish_results *finish;
} levels[] = {TD_IF_default({"DEFAULT", TD_ISA_default, td_reduce_finish_default}, )
                  TD_IF_avx2({"AVX2", TD_ISA_avx2, td_reduce_finish_avx2}, ) TD_IF_avx512(
                      {"AVX512", TD_ISA_avx512, td_reduce_finish_avx512}, ){NULL, 0, NULL}};

static double value_of(uint16_t half, enum td_dtype type)
{
    return (double)(type == TD_bf16 ? td_bf16_to_f32(half) : td_f16_to_f32(half));
}

/* Between two neighbours, or beside the middle, where rounding twice would go the other way. */
static double number(unsigned i, enum td_dtype type)
{
    static const double rare[] = {0.0,     -0.0,      INFINITY, -INFINITY, NAN,
                                  1e300,   -1e300,    1e-300,   -1e-300,   65519.999,
                                  65520.0, 65520.001, 5e-324,   3.4e38,    -3.5e38};
    static const double off[] = {0, 1e-9, -1e-9, 1e-13, -1e-13, 0.25, -0.25, 0.4999999};
    if (i < sizeof rare / sizeof *rare)
        return rare[i];
    uint32_t bits = i * 2654435761u;
    uint16_t half = bits >> 16;
    double a = value_of(half, type), b = value_of((uint16_t)(half + 1), type);
    return (a + b) / 2 + (b - a) * off[i % (sizeof off / sizeof *off)];
}

static bool is_nan(uint16_t half, enum td_dtype type)
{
    return isnan(value_of(half, type));
}

START_TEST(test_rounded_once)
{
    static const enum td_dtype types[] = {TD_bf16, TD_f16};
    static union td_total s[N], t[N];
    static uint16_t wanted[N];
    int judged = 0, odd = 0;
    sample_start();
    for (int k = 0; k < 2; k++) {
        struct sample sample;
        ck_assert_int_eq(sample_init(&sample, "sum.dim_IntList", "self=[2,n] dim=[0]",
                                     (struct td_sizes){N, 1, 1}, types[k], SAMPLE_PLAIN, 1),
                         0);
        struct td_call *call = &sample.run.call;
        uint16_t *out = call->out[0].data;
        for (unsigned i = 0; i < N; i++) {
            s[i].f = number(i, types[k]);
            float f = (float)s[i].f; /* what rounding twice makes of it */
            odd += td_f32_to_bf16(f) != td_f32_to_bf16(td_f64_to_odd(s[i].f)) ||
                   td_f32_to_f16(f) != td_f32_to_f16(td_f64_to_odd(s[i].f));
        }
        td_finish(call, 0, 0, N, 2, s, t);
        memcpy(wanted, out, sizeof wanted);
        for (int l = 0; levels[l].name; l++) {
            if (!(td_cpu()->levels >> levels[l].isa & 1)) {
                printf("not tried: %s: this CPU has it not\n", levels[l].name);
                continue;
            }
            memset(out, 1, sizeof wanted);
            levels[l].finish(call, 0, 0, N, 2, s, t);
            for (int i = 0; i < N; i++)
                ck_assert_msg(out[i] == wanted[i] ||
                                  (is_nan(out[i], types[k]) && is_nan(wanted[i], types[k])),
                              "%a as %s at %s is %04x, not %04x", s[i].f, td_dtype_name(types[k]),
                              levels[l].name, out[i], wanted[i]);
            judged++;
        }
        sample_fini(&sample);
    }
    ck_assert_msg(odd > 100, "%d numbers that rounding twice makes others of", odd);
    if (!judged)
        printf("not tried: this build has no vectors\n");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rounded_once};
    return td_run_tests("finish", tests, 1);
}
