/* The room for kinds of calls, and what is counted of those that found none. kinds.c stands in
 * here, with a clock that the tests move, and a cache of its own. */
#define td_tuned room_tuned
#define td_kind_row room_row
#define td_kind_copy room_copy
#define td_kind_nearest room_nearest
#define td_kind_may_add room_may_add
#define td_kind_postpone room_postpone
#define td_kind_add room_add
#define td_kinds_were_asked room_were_asked
#define td_choices_visit room_visit
#define td_choices_changes room_changes
#define td_choices_of room_of
#include "dispatch/choice/kinds.h"
#include "tests/dispatch/dispatch_test.h"

static int64_t now_ns = 1000000;

static int64_t take_time(void)
{
    return now_ns;
}

#define td_clock_ns take_time
#include "dispatch/choice/kinds.c"

#define KEY UINT64_C(512001) /* and those that lie 512 apart are of its set */

static const struct td_op op = {.schema = "toy_room(Tensor self) -> Tensor"}, other = {0};
static const struct td_impl two_rows[] = {
    {.name = "first", .run = toy_run}, {.name = "second", .run = toy_run}, {0}};

static struct td_measured measured_of(const struct td_op *of, double flops)
{
    return (struct td_measured){
        .op = of, .of = two_rows, .row = two_rows, .family = 7, .flops = flops};
}

/* So many kinds in the set of KEY, from number first on. */
static void add(const struct td_op *of, uint64_t first, int n, int64_t took_ns)
{
    const struct td_measured m = measured_of(of, 1);
    for (uint64_t i = first; i < first + (uint64_t)n; i++)
        td_kind_add(KEY + 512 * i, &m, took_ns);
}

/* A full set evicts one, and then none for twenty times what its measurement took (JIT-7). */
START_TEST(test_share)
{
    add(&op, 0, 8, 1000);
    ck_assert(td_kind_may_add(KEY)); /* nothing had to go yet */
    add(&op, 8, 1, 1000);
    now_ns += 19999;
    ck_assert(!td_kind_may_add(KEY));
    ck_assert(td_kind_may_add(KEY + 2)); /* another set, which is not full */
    now_ns += 1;
    ck_assert(td_kind_may_add(KEY));
    ck_assert_int_eq(td_tuned().kinds, 8);
    ck_assert_int_eq(td_tuned().evicted, 1);
    ck_assert_int_eq(td_tuned().most, 256 * 8);
}
END_TEST

/* A kind that found no room is postponed, and a miss of its operator (JIT-7). */
START_TEST(test_no_room)
{
    td_kind_postpone(&op);
    td_kind_postpone(&op);
    td_kind_postpone(&other);
    td_kind_postpone(NULL);
    ck_assert_int_eq(td_tuned().postponed, 4);
    ck_assert_int_eq(td_choices_of(&op).misses, 2);
    ck_assert_int_eq(td_choices_of(&other).misses, 1);
    ck_assert_int_eq(td_choices_of(&op).kept, 0);
    ck_assert_int_eq(td_choices_of(&op).hits, 0);
    ck_assert_int_eq(td_tuned().measured, 0);
}
END_TEST

static void count_visit(void *arg, const struct td_measured *m, long long hits)
{
    int *n = arg;
    ck_assert(m->row == two_rows && !hits);
    ++*n;
}

/* Hits count on when their kind is measured again, and when it is evicted (JIT-7). */
START_TEST(test_hits)
{
    add(&op, 0, 1, 0);
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(td_kind_row(KEY, true), two_rows);
    td_kind_row(KEY, false); /* who only looks */
    ck_assert_int_eq(td_choices_of(&op).hits, 3);
    long long changes = td_choices_changes();
    add(&op, 0, 1, 0);
    ck_assert_int_ne(td_choices_changes(), changes);
    ck_assert_int_eq(td_choices_of(&op).hits, 3);
    ck_assert_int_eq(td_choices_of(&op).misses, 2);
    ck_assert_int_eq(td_tuned().kinds, 1);
    ck_assert_int_eq(td_tuned().evicted, 0);
    add(&other, 1, 8, 0);
    ck_assert_ptr_null(td_kind_row(KEY, true));
    ck_assert_int_eq(td_choices_of(&op).kept, 0);
    ck_assert_int_eq(td_choices_of(&op).hits, 3);
    ck_assert_int_eq(td_choices_of(&other).kept, 8);
    ck_assert_int_eq(td_choices_of(&other).hits, 0);
    ck_assert_int_eq(td_choices_of(&other).misses, 8);
    int n = 0;
    td_choices_visit(count_visit, &n);
    ck_assert_int_eq(n, 8);
}
END_TEST

/* Whether any kind was asked for: not after it was measured for a call, or is gone (JIT-7). */
START_TEST(test_asked)
{
    struct td_measured m = measured_of(&op, 1);
    m.asked = true;
    td_kind_add(KEY, &m, 0);
    ck_assert(td_kinds_were_asked());
    td_kind_add(KEY, &m, 0);
    m.asked = false;
    td_kind_add(KEY, &m, 0);
    ck_assert(!td_kinds_were_asked());
    m.asked = true;
    td_kind_add(KEY, &m, 0);
    add(&op, 1, 8, 0);
    ck_assert(!td_kinds_were_asked());
}
END_TEST

/* Of a family the kind with the nearest number of operations, of the same operator and table
 * (JIT-7). */
START_TEST(test_nearest)
{
    struct td_measured like = measured_of(&op, 150), found, m = measured_of(&op, 100);
    td_kind_add(KEY, &m, 0);
    m = measured_of(&op, 300);
    td_kind_add(KEY + 512, &m, 0);
    ck_assert(td_kind_nearest(&like, 4, &found) && found.flops == 100);
    like.flops = 200;
    ck_assert(td_kind_nearest(&like, 4, &found) && found.flops == 300);
    like.flops = 1199;
    ck_assert(td_kind_nearest(&like, 4, &found) && found.flops == 300);
    like.flops = 1201;
    ck_assert(!td_kind_nearest(&like, 4, &found));
    like.flops = 26;
    ck_assert(td_kind_nearest(&like, 4, &found) && found.flops == 100);
    like.flops = 24;
    ck_assert(!td_kind_nearest(&like, 4, &found));
    like.flops = 150;
    like.op = &other;
    ck_assert(!td_kind_nearest(&like, 4, &found));
    like.op = &op;
    like.of = toy_rows;
    ck_assert(!td_kind_nearest(&like, 4, &found));
    like.of = two_rows;
    like.family = 8;
    ck_assert(!td_kind_nearest(&like, 4, &found));
}
END_TEST

/* Of more operators than are counted the further ones are not (JIT-7). */
START_TEST(test_many_operators)
{
    static const struct td_op ops[1025];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 1025; i++)
            td_kind_postpone(&ops[i]);
    for (int i = 0; i < 1024; i++)
        ck_assert_int_eq(td_choices_of(&ops[i]).misses, 2);
    ck_assert_int_eq(td_choices_of(&ops[1024]).misses, 0);
    ck_assert_int_eq(td_tuned().postponed, 2050);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_share, test_no_room, test_hits,
                                  test_asked, test_nearest, test_many_operators};
    return td_run_tests("room", tests, sizeof tests / sizeof *tests);
}
