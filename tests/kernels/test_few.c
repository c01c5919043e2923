/* Products of few rows with a stored weight: blocks of every height, pairs of panels, panels that
 * are read through, and what is prefetched. Numbers are small and whole, so sums have one value. */
#include "kernels/gemm/gemm.h"
#include "kernels/weight.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 40 /* more than three blocks have */

static const struct {
    int64_t k, n;
} sizes[] = {
    {1, 5}, {70, 64}, {300, 131}, {515, 200}, {700, 1033}, {5000, 131}, /* two are far */
};

struct matrix {
    float *x;
    int64_t rows, cols;
};

static struct matrix whole_numbers(int64_t rows, int64_t cols, uint64_t seed)
{
    struct matrix m = {malloc((size_t)(rows * cols) * sizeof(float)), rows, cols};
    ck_assert_ptr_nonnull(m.x);
    for (int64_t i = 0; i < rows * cols; i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        m.x[i] = (float)((int64_t)(seed >> 33) % 7 - 3);
    }
    return m;
}

static struct td_tensor tensor_of(const struct matrix *m)
{
    return (struct td_tensor){
        .data = m->x, .dtype = TD_f32, .rank = 2, .shape = {m->rows, m->cols}};
}

/* a times b, b being transposed where its columns are runs, and the bias. */
static struct matrix right(const struct matrix *a, const struct matrix *b,
                           const struct matrix *bias, bool turned)
{
    int64_t n = bias->cols;
    struct matrix out = {calloc((size_t)(a->rows * n), sizeof(float)), a->rows, n};
    ck_assert_ptr_nonnull(out.x);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const float *row = a->x + i * a->cols;
            const float *from = b->x + (turned ? j * b->cols : j);
            int64_t step = turned ? 1 : b->cols;
            float sum = bias->x[j];
            for (int64_t p = 0; p < a->cols; p++)
                sum += row[p] * from[p * step];
            out.x[i * n + j] = sum;
        }
    return out;
}

/* A product and its right result. */
struct product {
    const char *op;
    struct matrix a, b, bias, want;
    struct td_weight *weight; /* b, stored */
};

/* turned: of a weight of [n, k]. room: the weight's, or NULL. */
static struct product product_of(int64_t m, int64_t k, int64_t n, bool turned,
                                 struct td_weight_room *room)
{
    struct product p = {.op = turned ? "linear" : "dense",
                        .a = whole_numbers(m, k, 1),
                        .b = whole_numbers(turned ? n : k, turned ? k : n, 2),
                        .bias = whole_numbers(1, n, 3)};
    struct td_tensor plain = tensor_of(&p.b);
    p.want = right(&p.a, &p.b, &p.bias, turned);
    ck_assert_int_eq(td_weight_create(&p.weight, &plain, room), 0);
    return p;
}

static void free_product(struct product *p)
{
    td_weight_unref(&p->weight);
    free(p->a.x);
    free(p->b.x);
    free(p->bias.x);
    free(p->want.x);
}

/* Every implementation that runs here, for a's first m rows; stored: with the stored weight. */
static void try_rows(const struct product *p, int64_t m, bool stored)
{
    struct td_run run;
    char why[100];
    struct td_tensor input = tensor_of(&p->a), bias = tensor_of(&p->bias),
                     weight = stored ? *td_weight_tensor(p->weight) : tensor_of(&p->b);
    input.shape[0] = m;
    bias.rank = 1;
    bias.shape[0] = p->bias.cols;
    struct td_named args[] = {{"input", {.kind = TD_KIND_tensor, .tensor = input}},
                              {"weight", {.kind = TD_KIND_tensor, .tensor = weight}},
                              {"bias", {.kind = TD_KIND_tensor, .tensor = bias}}};
    ck_assert_int_eq(td_run_bind(&run, p->op, args, 3, NULL), 0);
    size_t bytes = td_nbytes(&run.call.out[0]);
    float *out = run.call.out[0].data = malloc(bytes);
    ck_assert_ptr_nonnull(out);
    for (const struct td_impl *row = run.call.op->impls; row[1].run; row++) {
        if (!(row->dtypes & TD_f32) || !sample_runnable(row, why) || !sample_takes(row, &run.call))
            continue;
        memset(out, 0xff, bytes);
        sample_run(row, &run.call);
        ck_assert_msg(!memcmp(out, p->want.x, bytes), "%s %s@%s: %lld x %lld x %lld is wrong",
                      p->op, row->name, td_isa_name(row->isa), (long long)m, (long long)p->a.cols,
                      (long long)p->want.cols);
    }
    free(out);
}

/* Each number of rows with the weight stored, and some with it as an argument (IND-12). */
START_TEST(test_few_rows)
{
    struct product p = product_of(ROWS, sizes[_i / 2].k, sizes[_i / 2].n, _i % 2, NULL);
    for (int64_t m = 1; m <= ROWS; m++) {
        try_rows(&p, m, true);
        if (m <= 13)
            try_rows(&p, m, false);
    }
    free_product(&p);
}
END_TEST

struct small_room { /* for the weight itself and nothing else */
    struct td_weight_room room;
    bool is_full;
};

static int take_first(struct td_weight_room *room, size_t bytes, bool kept)
{
    struct small_room *small = (struct small_room *)(void *)room;
    int err = small->is_full ? -ENOSPC : 0;
    (void)bytes, (void)kept;
    small->is_full = true;
    return err;
}

static void give_nothing(struct td_weight_room *room, size_t bytes, bool kept)
{
    (void)room, (void)bytes, (void)kept;
}

/* A stored weight that cannot be packed is multiplied as an argument is, within its scratch
 * (IND-12). */
START_TEST(test_no_room)
{
    struct small_room small = {.room = {take_first, give_nothing}};
    struct product p = product_of(8, 600, 100, _i, &small.room);
    for (int64_t m = 1; m <= 8; m++)
        try_rows(&p, m, true);
    free_product(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("few");
    TCase *tcase = tcase_create("few");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, sample_start, NULL);
    tcase_add_loop_test(tcase, test_few_rows, 0, 2 * (int)(sizeof sizes / sizeof *sizes));
    tcase_add_loop_test(tcase, test_no_room, 0, 2);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
