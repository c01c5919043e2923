/* Which way a product or a convolution is computed, as its sizes and its weight decide: by which
 * path, as a row of pixels, and whether our rows lead, so that a library's is not tried. */
#include "kernels/convolution/convolution.h"
#include "kernels/weight.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <string.h>

/* ---- products ---- */

static enum td_gemm_path path_of(struct td_gemm g, int64_t rows)
{
    struct td_gemm_plan plan;
    g.m = rows;
    td_gemm_plan(&g, td_gemm_is_stored(&g), &plan);
    return plan.path;
}

/* b is read where it lies for so many rows of a, and packed for one more. */
static void is_read_for(struct td_gemm g, int64_t rows, enum td_gemm_path where)
{
    ck_assert_int_eq(path_of(g, rows), where);
    ck_assert_int_eq(path_of(g, rows + 1), TD_GEMM_packed);
}

/* Packed b is walked along its whole depth for up to so many rows of a. */
static void is_read_through_to(struct td_gemm g, int64_t rows)
{
    struct td_gemm_plan plan;
    for (g.m = 5; g.m < 20; g.m++) {
        td_gemm_plan(&g, td_gemm_is_stored(&g), &plan);
        ck_assert_int_eq(plan.depth == g.k, g.m <= rows);
    }
}

/* b of k rows of n, which lie side by side, or columns. */
static struct td_gemm product(const struct td_tensor *a, const struct td_tensor *b, int64_t k,
                              int64_t n, bool columns)
{
    return (struct td_gemm){.n = n,
                            .k = k,
                            .step_k = columns ? 1 : n,
                            .step_n = columns ? k : 1,
                            .a = a,
                            .b = b,
                            .out = a,
                            .threads = 1};
}

/* For how few rows a matrix is not packed: for fewest one that is packed once for all calls, which
 * is a stored one of a single product (IND-12). */
START_TEST(test_few_rows)
{
    static float numbers[256 * 128];
    struct td_tensor plain = {.data = numbers, .dtype = TD_f32, .rank = 2, .shape = {256, 128}},
                     half = {.dtype = TD_bf16, .rank = 2, .shape = {256, 128}};
    struct td_weight *w = NULL;
    ck_assert_int_eq(td_weight_create(&w, &plain, NULL), 0);
    struct td_gemm g = product(&plain, td_weight_tensor(w), 256, 128, false);
    is_read_for(g, 1, TD_GEMM_direct);
    is_read_for(product(&plain, td_weight_tensor(w), 128, 256, true), 1, TD_GEMM_dot);
    is_read_through_to(product(&plain, td_weight_tensor(w), 4096, 8, true), 12);
    is_read_through_to(product(&plain, &plain, 4096, 8, true), 0);
    g.rank = 1; /* of a batch */
    g.batch[0] = 2;
    is_read_for(g, 64, TD_GEMM_direct);
    g.rank = 0;
    td_weights_pack(false);
    is_read_for(g, 64, TD_GEMM_direct);
    td_weights_pack(true);
    is_read_for(g, 1, TD_GEMM_direct);
    td_weight_unref(&w);
    is_read_for(product(&plain, &plain, 256, 128, false), 64, TD_GEMM_direct);
    is_read_for(product(&plain, &half, 256, 128, false), 12, TD_GEMM_direct);  /* it is widened */
    is_read_for(product(&plain, &plain, 64, 1024, false), 24, TD_GEMM_direct); /* rows meet */
    is_read_for(product(&plain, &plain, 128, 1024, false), 24, TD_GEMM_direct);
    is_read_for(product(&plain, &plain, 129, 1024, false), 8, TD_GEMM_direct); /* beyond a cache */
    is_read_for(product(&plain, &plain, 512, 511, false), 64, TD_GEMM_direct); /* but in runs */
    is_read_for(product(&plain, &plain, 256, 128, true), 4, TD_GEMM_dot);
    ck_assert_int_eq(path_of(product(&plain, &plain, 128, 128, false), 1000), TD_GEMM_direct);
    ck_assert_int_eq(path_of(product(&plain, &plain, 129, 128, false), 1000), TD_GEMM_packed);
    ck_assert_int_eq(path_of(product(&plain, &plain, 9999, 4, false), 1000), TD_GEMM_dot);
    ck_assert_int_eq(path_of(product(&plain, &plain, 9999, 5, false), 1000), TD_GEMM_packed);
    ck_assert_int_eq(path_of(product(&plain, &plain, 0, 128, true), 1000), TD_GEMM_direct);
    g = product(&plain, &plain, 256, 128, false);
    for (g.m = 11; g.m < 15; g.m++)
        ck_assert_int_eq(td_gemm_packs(&g), g.m > 12);
    g = product(&plain, &plain, 256, 128, true);
    for (g.m = 3; g.m < 7; g.m++)
        ck_assert_int_eq(td_gemm_packs(&g), g.m > 4);
}
END_TEST

/* ---- who leads ---- */

typedef const char *prepare_fn(const struct td_call *call, struct td_prepared *prepared);

/* Whether the row leads for that call; stored: its second argument is. */
static bool leads(prepare_fn *prepare, const char *op, const char *pattern, bool stored)
{
    struct sample s;
    struct td_weight *w = NULL;
    struct td_prepared prepared = {0};
    int err = sample_init(&s, op, pattern, (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 1);
    ck_assert_msg(!err, "%s: %s", pattern, s.run.problem.text);
    struct td_tensor *arg = &s.run.call.arg[1].tensor;
    if (stored) {
        ck_assert_int_eq(td_weight_create(&w, arg, NULL), 0);
        *arg = *td_weight_tensor(w);
    }
    for (const struct td_impl *row = s.run.call.op->impls; row->run && !prepare; row++)
        if (!strcmp(row->name, "simd") && row->isa == TD_ISA_default && row->dtypes == TD_f32)
            prepare = row->prepare;
    ck_assert_ptr_nonnull(prepare);
    const char *no = prepare(&s.run.call, &prepared);
    ck_assert_msg(!no, "%s: %s", pattern, no);
    bool it_leads = prepared.leads;
    td_prepared_release(&prepared);
    td_weight_unref(&w);
    sample_fini(&s);
    return it_leads;
}

/* Products of one matrix lead up to 6e7 operations, and so do convolutions, but for one that lays
 * out many weights in each call (JIT-6). */
START_TEST(test_brief)
{
    sample_start();
    ck_assert(leads(NULL, "mm", "self=[100,1000] mat2=[1000,300]", false));
    ck_assert(!leads(NULL, "mm", "self=[101,1000] mat2=[1000,300]", false));
    ck_assert(!leads(NULL, "bmm", "self=[2,5,10] mat2=[2,10,30]", false));
    prepare_fn *last = td_conv_last_prepare;
    const char *op = "conv2d_channels_last";
    ck_assert(leads(last, op, "input=[1,50,60,8] weight=[50,8,5,5] padding=[2,2]", false));
    ck_assert(!leads(last, op, "input=[1,50,61,8] weight=[50,8,5,5] padding=[2,2]", false));
    ck_assert(!leads(last, op, "input=[1,50,30,8] weight=[100,8,5,5] padding=[2,2]", false));
    ck_assert(leads(last, op, "input=[1,50,30,8] weight=[100,8,5,5] padding=[2,2]", true));
    ck_assert(!leads(last, op, "input=[1,50,31,8] weight=[100,8,5,5] padding=[2,2]", true));
    const char *depth = "input=[1,5,6,64] weight=[64,1,3,3] padding=[1,1] groups=64";
    ck_assert(!leads(last, op, depth, false)); /* whatever its size */
    ck_assert(leads(td_conv_last_prepare_avx512, op, depth, false));
    prepare_fn *turned = td_conv_turned_prepare;
    ck_assert(leads(turned, "conv2d", "input=[1,8,750,4] weight=[50,8,5,5] padding=[2,2]", false));
    ck_assert(!leads(turned, "conv2d", "input=[1,8,751,4] weight=[50,8,5,5] padding=[2,2]", false));
    ck_assert(!leads(turned, "conv2d", "input=[1,8,50,4] weight=[8,8,5,5] padding=[2,2]", false));
    ck_assert(!leads(turned, "conv2d", "input=[1,16,9,24] weight=[28,16,3,3] padding=[1,1]", true));
}
END_TEST

/* Rows that fill vectors are turned where their channels do, too (JIT-6). */
START_TEST(test_turned)
{
    static const struct {
        const char *pattern;
        bool turned;
    } cases[] = {
        {"input=[1,15,9,24] weight=[32,15,3,3] padding=[1,1]", false}, /* few channels */
        {"input=[1,16,9,24] weight=[32,16,3,3] padding=[1,1]", true},
        {"input=[1,16,9,24] weight=[28,16,3,3] padding=[1,1]", true}, /* seven eighths */
        {"input=[1,16,9,24] weight=[27,16,3,3] padding=[1,1]", false},
        {"input=[1,15,9,23] weight=[27,15,3,3] padding=[1,1]", true}, /* rows do not fill any */
    };
    sample_start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sample s;
        struct td_prepared prepared = {0};
        int err = sample_init(&s, "conv2d", cases[i].pattern, (struct td_sizes){0}, TD_f32,
                              SAMPLE_PLAIN, 1);
        ck_assert_msg(!err, "%s: %s", cases[i].pattern, s.run.problem.text);
        const char *no = td_conv_turned_prepare(&s.run.call, &prepared);
        ck_assert_msg(!no == cases[i].turned, "%s: %s", cases[i].pattern, no ? no : "turned");
        sample_fini(&s);
    }
}
END_TEST

/* ---- columns of pixels ---- */

static struct td_conv conv_of(const char *op, const char *pattern)
{
    struct sample s;
    struct td_conv c;
    int err = sample_init(&s, op, pattern, (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 1);
    ck_assert_msg(!err, "%s: %s", pattern, s.run.problem.text);
    td_conv_of(&s.run.call, &c);
    sample_fini(&s); /* of which c's numbers are read alone from here on */
    return c;
}

static void has(const struct td_conv *c, int d, int64_t in, int64_t kernel, int64_t size,
                int64_t stride, int64_t padding)
{
    ck_assert_int_eq(c->in[d], in);
    ck_assert_int_eq(c->kernel[d], kernel);
    ck_assert_int_eq(c->size[d], size);
    ck_assert_int_eq(c->stride[d], stride);
    ck_assert_int_eq(c->padding[d], padding);
    ck_assert_int_eq(c->after[d], padding);
}

/* A column with channels last is computed as the row that it is in memory; what is wider than one
 * pixel, or would have gaps in a row of its kernel, stays as it is (JIT-6). */
START_TEST(test_columns)
{
    static const char *const others[] = {
        "input=[1,40,2,8] weight=[5,8,7,1] stride=[2,1] padding=[3,0]",
        "input=[1,40,1,8] weight=[5,8,7,3] stride=[2,1] padding=[3,1]",
        "input=[1,40,1,8] weight=[5,8,7,1] stride=[2,1] padding=[3,1]",
        "input=[1,40,1,8] weight=[5,8,4,1] stride=[2,1] padding=[3,0] dilation=[2,1]"};
    sample_start();
    struct td_conv c = conv_of("conv2d_channels_last",
                               "input=[1,40,1,8] weight=[5,8,7,1] stride=[2,3] padding=[3,0]");
    has(&c, 0, 1, 1, 1, 3, 0);
    has(&c, 1, 40, 7, 20, 2, 3);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        c = conv_of("conv2d_channels_last", others[i]);
        ck_assert_int_eq(c.in[0], 40);
        ck_assert_int_eq(c.stride[0], 2);
    }
    c = (struct td_conv){.dims = 2, /* of a column a transposed one makes three */
                         .in = {40, 1},
                         .kernel = {7, 3},
                         .size = {46, 3},
                         .stride = {1, 1},
                         .dilation = {1, 1},
                         .transposed = true};
    td_conv_lie_down(&c);
    ck_assert_int_eq(c.in[0], 40);
    c = conv_of("conv2d", "input=[1,8,40,1] weight=[5,8,7,1] stride=[2,3] padding=[3,0]");
    has(&c, 0, 40, 7, 20, 2, 3); /* channels first */
    struct td_conv last;
    td_conv_turn(&c, &last);
    has(&last, 0, 1, 1, 1, 3, 0);
    has(&last, 1, 40, 7, 20, 2, 3);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_few_rows, test_brief, test_turned, test_columns};
    return td_run_tests("paths", tests, sizeof tests / sizeof *tests);
}
