/* tests/amx/emulate.c: every instruction, the ways to address memory, and what must not be done. On
 * a CPU with AMX the same assertions are about the CPU. */
#include "tests/amx/emulate.h"
#include "tests/run_tests.h"

#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

static void load(const struct config *config)
{
    __asm__ volatile("" ::"m"(*config));
    _tile_loadconfig(config);
}

/* Tiles 0 to 2 of rows x bytes each. */
static void configure(int rows, int bytes)
{
    struct config config = {.palette = 1};
    for (int i = 0; i < 3; i++) {
        config.rows[i] = (uint8_t)rows;
        config.bytes[i] = (uint16_t)bytes;
    }
    load(&config);
}

static void start(void)
{
    emulate_amx_start();
    syscall(SYS_arch_prctl, 0x1023, 18); /* the real thing, where there is one, wants permission */
}

static uint8_t memory[64 * 64] __attribute__((aligned(64)));

static void fill(void)
{
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (uint8_t)(i * 37 + i / 64);
}

#define BARRIER() __asm__ volatile("" ::: "memory")

START_TEST(test_config)
{
    struct config set = {.palette = 1, .rows = {3, 16}, .bytes = {8, 64}}, got;
    load(&set);
    BARRIER();
    _tile_storeconfig(&got);
    BARRIER();
    ck_assert(!memcmp(&set, &got, sizeof set));
    _tile_release();
    _tile_storeconfig(&got);
    BARRIER();
    ck_assert(got.palette == 0 && got.rows[1] == 0);
}
END_TEST

START_TEST(test_move)
{
    uint8_t out[5][40];
    fill();
    memset(out, 0xee, sizeof out);
    configure(5, 20);
    _tile_loadd(0, memory, 64);
    _tile_stream_loadd(1, memory + 1, 100);
    BARRIER();
    _tile_stored(0, out, 40);
    _tile_stored(1, &out[0][20], 40);
    BARRIER();
    for (int i = 0; i < 5; i++) {
        ck_assert(!memcmp(out[i], memory + 64 * i, 20));
        ck_assert(!memcmp(out[i] + 20, memory + 1 + 100 * i, 20));
    }
    _tile_zero(0);
    _tile_stored(0, out, 40);
    BARRIER();
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 20; j++)
            ck_assert_int_eq(out[i][j], 0);
    _tile_release();
}
END_TEST

/* A load through one form of address, then the first byte of the third row. */
#define LOADED(operand, ...)                                                                       \
    ({                                                                                             \
        uint8_t out_[3 * 64];                                                                      \
        __asm__ volatile("tileloadd " operand ", %%tmm0" ::__VA_ARGS__ : "memory");                \
        _tile_stored(0, out_, 64);                                                                 \
        BARRIER();                                                                                 \
        out_[2 * 64];                                                                              \
    })

START_TEST(test_addresses)
{
    register uint8_t *low __asm__("rbx") = memory + 128;
    register uint8_t *r12 __asm__("r12") = memory + 128, *r13 __asm__("r13") = memory + 128;
    register int64_t r14 __asm__("r14") = 8, r15 __asm__("r15") = -4;
    fill();
    configure(3, 4);
    ck_assert_int_eq(LOADED("(%0,%1,1)", "r"(low), "r"(r14)), memory[128 + 16]);
    ck_assert_int_eq(LOADED("(%0,%1,2)", "r"(low), "r"(r14)), memory[128 + 32]);
    ck_assert_int_eq(LOADED("(%0,%1,4)", "r"(r12), "r"(r14)), memory[128 + 64]);
    ck_assert_int_eq(LOADED("(%0,%1,8)", "r"(r13), "r"(r14)), memory[128 + 128]);
    ck_assert_int_eq(LOADED("5(%0,%1,1)", "r"(r13), "r"(r14)), memory[128 + 21]);
    ck_assert_int_eq(LOADED("-7(%0,%1,1)", "r"(r12), "r"(r14)), memory[128 + 9]);
    ck_assert_int_eq(LOADED("300(%0,%1,1)", "r"(low), "r"(r14)), memory[128 + 316]);
    ck_assert_int_eq(LOADED("(%0,%1,4)", "r"(r12), "r"(r15)), memory[128 - 32]);
    ck_assert_int_eq(LOADED("(%0)", "r"(low)), memory[128]); /* no index: a stride of 0 */
    ck_assert_int_eq(LOADED("(%0)", "r"(r12)), memory[128]);
    _tile_release();
}
END_TEST

/* ---- products, against plain loops ---- */

static int32_t at(const uint8_t *p, int is_signed)
{
    return is_signed ? (int8_t)*p : *p;
}

/* sums[5][6] += a[5][7 lanes] * b[7 lanes][6] */
enum { M = 5, N = 6, K = 7 };

static void configure_product(void)
{
    struct config config = {.palette = 1, .rows = {M, M, K}, .bytes = {4 * N, 4 * K, 4 * N}};
    load(&config);
}

START_TEST(test_bytes)
{
    int32_t c[M][N], want[M][N];
    const uint8_t *a = memory + 100, *b = memory + 1000;
    int signed_a = _i >> 1, signed_b = _i & 1;
    fill();
    for (int i = 0; i < M * N; i++)
        (&c[0][0])[i] = i * 1000 - 7;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            want[i][j] = c[i][j];
            for (int k = 0; k < 4 * K; k++)
                want[i][j] +=
                    at(a + 64 * i + k, signed_a) * at(b + 64 * (k / 4) + 4 * j + k % 4, signed_b);
        }
    configure_product();
    BARRIER();
    _tile_loadd(0, c, sizeof c[0]);
    _tile_loadd(1, a, 64);
    _tile_loadd(2, b, 64);
    if (_i == 0)
        _tile_dpbuud(0, 1, 2);
    else if (_i == 1)
        _tile_dpbusd(0, 1, 2);
    else if (_i == 2)
        _tile_dpbsud(0, 1, 2);
    else
        _tile_dpbssd(0, 1, 2);
    _tile_stored(0, c, sizeof c[0]);
    BARRIER();
    for (int i = 0; i < M * N; i++)
        ck_assert_int_eq((&c[0][0])[i], (&want[0][0])[i]);
    _tile_release();
}
END_TEST

static uint16_t bf16(float x) /* exact for the numbers used here */
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return (uint16_t)(u >> 16);
}

START_TEST(test_bf16)
{
    static uint16_t a[M][2 * K], b[K][2 * N];
    float c[M][N], want[M][N];
    for (int i = 0; i < M * 2 * K; i++)
        (&a[0][0])[i] = bf16((float)(i % 13 - 6) / 4);
    for (int i = 0; i < K * 2 * N; i++)
        (&b[0][0])[i] = bf16((float)(i % 11 - 5) / 8);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            want[i][j] = c[i][j] = (float)i;
            for (int k = 0; k < 2 * K; k++)
                want[i][j] += (float)((i * 2 * K + k) % 13 - 6) / 4 *
                              (float)((k / 2 * 2 * N + 2 * j + k % 2) % 11 - 5) / 8;
        }
    configure_product();
    BARRIER();
    _tile_loadd(0, c, sizeof c[0]);
    _tile_loadd(1, a, sizeof a[0]);
    _tile_loadd(2, b, sizeof b[0]);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, c, sizeof c[0]);
    BARRIER();
    for (int i = 0; i < M * N; i++)
        ck_assert((&c[0][0])[i] == (&want[0][0])[i]);
    _tile_release();
}
END_TEST

/* ---- each thread has tiles of its own ---- */

static void *in_thread(void *arg)
{
    uint8_t out[64], mine[64];
    memset(mine, *(char *)arg, sizeof mine);
    configure(1, 64);
    BARRIER();
    _tile_loadd(0, mine, 64);
    for (int i = 0; i < 2000; i++) {
        _tile_stored(0, out, 64);
        BARRIER();
        if (memcmp(out, mine, 64))
            return "another thread's tile";
    }
    _tile_release();
    return NULL;
}

START_TEST(test_threads)
{
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, in_thread, &"abcd"[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
}
END_TEST

/* ---- what ends the process: by the emulator with status 134 ---- */

START_TEST(test_wrong)
{
    struct config config = {.palette = 1, .rows = {M, M, K}, .bytes = {4 * N, 4 * K, 4 * N}};
    start();
    if (_i == 0)
        config.palette = 2;
    if (_i == 1)
        config.rows[0] = 17;
    if (_i == 2)
        config.rows[3] = 4; /* rows and no columns */
    if (_i == 3)
        config.reserved[5] = 1;
    if (_i == 4)
        config.rows[2] = K + 1; /* a is not as wide as b is high */
    if (_i == 5)
        config.bytes[0] = 4 * N - 4;
    if (_i == 6)
        config.rows[0] = M - 1;
    load(&config);
    if (_i == 7)
        _tile_zero(5); /* not configured */
    if (_i == 8)
        _tile_release();
    _tile_dpbssd(0, 1, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("amx");
    TCase *right = tcase_create("right"), *wrong = tcase_create("wrong");
    tcase_add_checked_fixture(right, start, NULL);
    tcase_add_test(right, test_config);
    tcase_add_test(right, test_move);
    tcase_add_test(right, test_addresses);
    tcase_add_loop_test(right, test_bytes, 0, 4);
    tcase_add_test(right, test_bf16);
    tcase_add_test(right, test_threads);
    suite_add_tcase(suite, right);
    if (!__builtin_cpu_supports("avx512f")) /* hardware faults in its own ways */
        tcase_add_loop_exit_test(wrong, test_wrong, 134, 0, 9);
    suite_add_tcase(suite, wrong);
    return td_run_suite(suite);
}
