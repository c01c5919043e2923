/* dispatch/registry/schema.c: the grammar, its printer, and where errors point. */
#include "tests/dispatch/dispatch_test.h"

/* Each of these is its own canonical form. */
static const char *const same[] = {
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "relu_(Tensor(a!) self) -> Tensor(a!)",
    "f() -> ()",
    "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1) -> Tensor",
    "split(Tensor(a -> *) self, int[] sizes, int dim=0) -> Tensor(a)[]",
    "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
    "float eps) -> (Tensor, Tensor, Tensor)",
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    "cat(Tensor[] tensors, int dim=0) -> Tensor",
    "index(Tensor self, Tensor?[] indices) -> Tensor",
    "upsample(Tensor self, int[]? size=None, float[]? scales=None) -> Tensor",
    "gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    "empty(int[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "MemoryFormat? memory_format=None) -> Tensor",
    "rand(int[] size, *, Generator? generator=None) -> Tensor",
    "names(Tensor self, Dimname[] names) -> Tensor",
    "print(str text, ...) -> ...",
    "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
    "loss(Tensor self, int reduction=Mean, float p=2.5, float q=-1e-05) -> Tensor",
    "fft(Tensor self, int[1] dim=[-1], bool b=True) -> Tensor",
};

/* DSP-14: what is parsed prints as it was. */
START_TEST(test_round_trip)
{
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct td_schema schema, again;
        struct td_problem problem = {0};
        char text[1024], second[1024];
        ck_assert_msg(!td_schema_parse(&schema, same[i], &problem), "%s: %s", same[i],
                      problem.text);
        size_t n = td_schema_format(&schema, text, sizeof text);
        ck_assert_uint_eq(n, strlen(text));
        ck_assert_str_eq(text, same[i]);
        ck_assert_msg(!td_schema_parse(&again, text, &problem), "%s: %s", text, problem.text);
        td_schema_format(&again, second, sizeof second);
        ck_assert_str_eq(text, second);
        ck_assert_int_eq(schema.n_params, again.n_params);
        char cut[10];
        ck_assert_uint_eq(td_schema_format(&schema, cut, sizeof cut), n);
        ck_assert_uint_lt(strlen(cut), sizeof cut);
    }
}
END_TEST

/* DSP-14: what the parts of a schema become. DSP-25: keyword-only after the bare star. */
START_TEST(test_parts)
{
    struct td_schema s;
    struct td_problem problem;
    ck_assert_int_eq(td_schema_parse(&s, "zeros(SymInt[] size) -> Tensor", &problem), 0);
    ck_assert_int_eq(s.param[0].type.base, TD_BASE_int);
    ck_assert(s.param[0].type.list);
    ck_assert_int_eq(td_schema_parse(&s,
                                     "ns::op.over(Tensor(a!) x, int[2] stride=1, *, Scalar? "
                                     "alpha=2, float[]? f=None) -> (Tensor(a!) out, int n)",
                                     &problem),
                     0);
    ck_assert_str_eq(s.ns, "ns");
    ck_assert_str_eq(s.name, "op");
    ck_assert_str_eq(s.overload, "over");
    ck_assert_int_eq(s.n_params, 4);
    ck_assert(s.param[0].type.mutated && !s.param[0].keyword_only);
    ck_assert(s.param[1].type.list && s.param[1].type.list_size == 2);
    ck_assert_int_eq(s.param[1].def.kind, TD_KIND_ints); /* a number for a sized list, repeated */
    ck_assert_int_eq(s.param[1].def.ints.n, 2);
    ck_assert_int_eq(s.param[1].def.ints.v[1], 1);
    ck_assert(s.param[2].keyword_only && s.param[2].type.optional && s.param[2].has_default);
    ck_assert(s.param[3].keyword_only && s.param[3].type.list_optional);
    ck_assert_int_eq(s.n_returns, 2);
    ck_assert_str_eq(s.ret[1].name, "n");
}
END_TEST

/* DSP-15: wrong texts, and the column that each is noticed at. */
START_TEST(test_errors)
{
    static const struct {
        const char *text;
        int column;
    } cases[] = {
        {"f(ScalarType t=float33) -> Tensor", 16},
        {"add.Tensor", 11}, /* a name where a schema is needed */
        {"", 1},
        {"f(Tensor self", 14},
        {"f(Tensor self) Tensor", 16},
        {"f(Tensr self) -> Tensor", 3},
        {"f(Tensor) -> Tensor", 9},
        {"f(..., Tensor a) -> Tensor", 6}, /* ... is not the last */
        {"f(int a=x y) -> Tensor", 11},
        {"f(int a=[1]) -> Tensor", 9}, /* a list for what is none */
        {"f(int a=) -> Tensor", 9},
        {"f(int a=1.5) -> Tensor", 9},
        {"f(bool a=maybe) -> Tensor", 10},
        {"f(Tensor a, Tensor a) -> Tensor", 20},
        {"f(Tensor a, *, *, Tensor b) -> Tensor", 16},
        {"f(Tensor(a! x) -> Tensor", 12},
        {"f(int[x] a) -> Tensor", 7},
        {"f(Tensor a) -> Tensor junk junk", 28},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct td_schema schema;
        struct td_problem problem = {0};
        char want[32];
        ck_assert_msg(td_schema_parse(&schema, cases[i].text, &problem) == -EINVAL, "%s",
                      cases[i].text);
        snprintf(want, sizeof want, "column %d:", cases[i].column);
        ck_assert_msg(strstr(problem.text, want), "%s: %s, not %s", cases[i].text, want,
                      problem.text);
    }
}
END_TEST

/* Everything cut and mangled: no crash, and never a success that does not print and parse again. */
START_TEST(test_mangled)
{
    uint64_t seed = 99;
    for (int round = 0; round < 20000; round++) {
        char text[512], again[1024];
        strcpy(text, same[(size_t)round % (sizeof same / sizeof *same)]);
        size_t n = strlen(text);
        for (int k = 0; k < 1 + round % 3; k++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            text[(seed >> 33) % n] = "(),.*=[]?!:a1 -\"\x80"[(seed >> 20) % 17];
        }
        if (round % 4 == 0)
            text[(seed >> 40) % n] = 0;
        struct td_schema schema;
        struct td_problem problem;
        if (td_schema_parse(&schema, text, &problem))
            continue;
        td_schema_format(&schema, again, sizeof again);
        ck_assert_msg(!td_schema_parse(&schema, again, &problem), "%s -> %s: %s", text, again,
                      problem.text);
    }
}
END_TEST

/* DSP-22: the table of operators is written in this grammar, and canonically. */
START_TEST(test_all_operators)
{
    start();
    for (int i = 0; i < td_registry_count(); i++) {
        char text[1024];
        td_schema_format(&td_registry_at(i)->schema, text, sizeof text);
        ck_assert_str_eq(text, td_registry_at(i)->op->schema);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_round_trip, test_parts, test_errors, test_mangled,
                                  test_all_operators};
    return td_run_tests("schema", tests, sizeof tests / sizeof *tests);
}
