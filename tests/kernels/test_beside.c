/* Two operands of which one stays along each row, or is one number (pointwise_still.c), at each
 * level and of each type: the result is, bit for bit, that of the operand with its elements
 * repeated. checkimpl compares that one with the reference. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>
#include <string.h>

struct shape {
    int images, channels, pixels;
};

static int judged;

/* Writes each element of from, which is one a channel, so many times to to. */
static void repeat(const struct td_tensor *from, const struct td_tensor *to, const struct shape *s)
{
    size_t size = td_dtype_size(from->dtype);
    for (int i = 0; i < s->images * s->channels * s->pixels; i++)
        memcpy((char *)to->data + (size_t)i * size,
               (const char *)from->data + (size_t)(i / s->pixels % s->channels) * size, size);
}

static void begin(struct sample *sample, const char *op, const char *pattern, enum td_dtype type)
{
    int err = sample_init(sample, op, pattern, (struct td_sizes){0}, type, SAMPLE_PLAIN, 11);
    ck_assert_msg(!err, "%s %s: %s", op, pattern, sample->run.problem.text);
}

/* side: of the operand that stays. */
static void judge(const char *op, const struct shape *s, int side, enum td_dtype type,
                  const char *level)
{
    char one[40], all[40], pattern[100], whole[100];
    struct sample beside, repeated;
    snprintf(one, sizeof one, "[%d,1]", s->channels);
    snprintf(all, sizeof all, "[%d,%d,%d]", s->images, s->channels, s->pixels);
    snprintf(pattern, sizeof pattern, "self=%s other=%s", side ? all : one, side ? one : all);
    snprintf(whole, sizeof whole, "self=%s other=%s", all, all);
    begin(&beside, op, pattern, type);
    begin(&repeated, op, whole, type);
    struct td_call *call = &beside.run.call, *of_all = &repeated.run.call;
    const struct td_tensor *moving = &call->arg[1 - side].tensor, *out = &call->out[0];
    repeat(&call->arg[side].tensor, &of_all->arg[side].tensor, s);
    memcpy(of_all->arg[1 - side].tensor.data, moving->data, td_nbytes(moving));
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!(impl->dtypes & type) || !sample_is_simd(impl, call, level))
            continue;
        memset(out->data, 0x77, td_nbytes(out));
        ck_assert_int_eq(sample_run(impl, call), 0);
        ck_assert_int_eq(sample_run(impl, of_all), 0);
        ck_assert_msg(!memcmp(out->data, of_all->out[0].data, td_nbytes(out)),
                      "%s %s %s at %s is not what it is with all elements", op, pattern,
                      td_dtype_name(type), level);
        judged++;
    }
    sample_fini(&beside);
    sample_fini(&repeated);
}

START_TEST(test_still_rows)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    static const char *const ops[] = {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum",
                                      "gt.Tensor",  "div.Tensor", "minimum",    "ne.Tensor"};
    static const enum td_dtype types[] = {TD_bf16, TD_f16, TD_f32, TD_f64, TD_i32, TD_u8};
    static const int pixels[] = {16, 17, 31, 32, 33, 63, 65, 100, 1056};
    sample_start();
    for (int i = 0; i < 8 * 6 * 9 * 2; i++) {
        const struct shape s = {1 + i % 3, i % 5 == 4 ? 1 : 11 + i % 5 * 10, pixels[i / 2 % 9]};
        enum td_dtype type = types[i / 18 % 6];
        bool converted = i / 108 == 5 && td_dtype_kind(type) != 'f'; /* a quotient's operands */
        for (int level = 0; level < 3 && !converted; level++)
            judge(ops[i / 108], &s, i % 2, type, levels[level]);
    }
    ck_assert_int_ge(judged, 800);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_still_rows};
    return td_run_tests("beside", tests, 1);
}
