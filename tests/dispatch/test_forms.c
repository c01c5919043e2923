/* The rows of ONNX's operators, read apart: what they say of operands. */
#include "dispatch/onnx/file.h"

#include "tests/dispatch/dispatch_test.h"

static struct td_model model;
static struct td_problem problem;
static struct td_onnx_reader r;

static void begin(void)
{
    model = (struct td_model){.arena = td_arena_create()};
    td_onnx_reader_init(&r, &model, NULL, 0, &problem);
}

static void end(void)
{
    td_arena_destroy(model.arena);
}

static const struct td_onnx_form *form_of(const char *op)
{
    const struct td_onnx_form *form = NULL;
    ck_assert_int_eq(td_onnx_form_of(&r, "", op, &form), 0);
    return form;
}

/* What a row says of its operands: names, marks, types, and what they are when left out (NUM-1). */
START_TEST(test_forms)
{
    begin();
    const struct td_onnx_form *f = form_of("LayerNormalization");
    ck_assert(f->n_inputs == 3 && f->n == 6 && !f->many);
    ck_assert_int_eq(f->operand[3].otherwise.kind, TD_KIND_int);
    ck_assert_int_eq(f->operand[3].otherwise.i, -1);
    ck_assert_int_eq(f->operand[4].otherwise.kind, TD_KIND_float);
    ck_assert_double_eq(f->operand[4].otherwise.f, 1e-5);
    ck_assert_int_eq(f->operand[0].otherwise.kind, TD_KIND_none);
    f = form_of("LeakyRelu");
    ck_assert_double_eq(f->operand[1].otherwise.f, 0.01);
    f = form_of("MeanVarianceNormalization");
    ck_assert_int_eq(f->operand[1].otherwise.kind, TD_KIND_ints);
    ck_assert_int_eq(f->operand[1].otherwise.ints.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(f->operand[1].otherwise.ints.v[i], i ? i + 1 : 0);
    f = form_of("TopK");
    ck_assert(f->n_inputs == 2 && f->operand[4].mark == '?');
    ck_assert_str_eq(f->operand[4].name, "largest");
    ck_assert_int_eq(f->operand[4].otherwise.kind, TD_KIND_bool);
    ck_assert_int_eq(f->operand[4].otherwise.i, 1);
    f = form_of("Cast");
    ck_assert(f->n_inputs == 1 && f->operand[1].mark == '%');
    ck_assert_str_eq(f->operand[1].name, "to");
    ck_assert_str_eq(f->operand[3].otherwise.str, "up");
    f = form_of("BlackmanWindow");
    ck_assert_int_eq(f->operand[2].otherwise.kind, TD_KIND_dtype);
    ck_assert_int_eq(f->operand[2].otherwise.dtype, TD_f32);
    f = form_of("Where");
    ck_assert(f->n_inputs == 3 && f->n == 3);
    ck_assert(f->operand[0].type == 'B' && f->operand[1].type == 'T');
    ck_assert_str_eq(f->operand[0].name, "condition");
    f = form_of("Concat");
    ck_assert(f->n_inputs == 1 && f->many && f->operand[0].type == 'T');
    ck_assert_str_eq(f->operand[0].name, "inputs");
    end();
}
END_TEST

/* Each form is made once, and stays however many there are (NUM-1). */
START_TEST(test_many_forms)
{
    static const char *const ops[] = {
        "Relu", "Log",    "Mish", "Round",   "Selu",  "Where",     "Xor",     "BitShift", "Clip",
        "Div",  "Max",    "Mean", "Min",     "Cast",  "CastLike",  "Dropout", "Identity", "Softmax",
        "TopK", "Einsum", "Gemm", "EyeLike", "Range", "Concat",    "Expand",  "Flatten",  "Pad",
        "If",   "Loop",   "Scan", "Reshape", "Shape", "LeakyRelu", "BitCast", "IsInf",    "Resize"};
    const struct td_onnx_form *form[sizeof ops / sizeof *ops];
    begin();
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        form[i] = form_of(ops[i]);
        for (size_t k = 0; k <= i; k++)
            ck_assert_ptr_eq(form_of(ops[k]), form[k]);
        for (size_t k = 0; k < i; k++)
            ck_assert_ptr_ne(form[k], form[i]);
    }
    ck_assert_int_eq(r.n_forms, sizeof ops / sizeof *ops);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_forms, test_many_forms};
    return td_run_tests("forms", tests, sizeof tests / sizeof *tests);
}
