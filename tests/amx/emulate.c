/* The twelve tile instructions of AMX-TILE, AMX-INT8 and AMX-BF16, carried out in the handler of
 * the SIGILL that they raise on a CPU without them. For tests only: some 10 us an instruction.
 *
 * What the manual forbids (tiles that are not configured, shapes that do not fit, a palette other
 * than 1) ends the process with a line on stderr, as the fault would; so a kernel that passes here
 * has configured its tiles rightly. Addresses are formed as the hardware does: base, index times
 * stride, displacement; not emulated are 32-bit addressing and the FS and GS segments, which no
 * compiler emits here. Tiles are thread-local with the initial-exec model: the handler may not
 * allocate. Rounding of BF16 sums follows the manual's pseudo-code (even and odd products apart,
 * denormals as zero); it was never held against silicon, so tests compare with a tolerance.
 *
 * Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, instructions LDTILECFG,
 * STTILECFG, TILELOADD, TILELOADDT1, TILESTORED, TILEZERO, TILERELEASE, TDPBSSD and its kin,
 * TDPBF16PS. */
#include "tests/amx/emulate.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

struct config { /* as LDTILECFG reads it */
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

static __thread struct config config __attribute__((tls_model("initial-exec")));
static __thread uint8_t tile[8][16][64] __attribute__((tls_model("initial-exec")));
static struct sigaction before;
static atomic_long count;

static void fault(const char *why)
{
    (void)!write(2, "emulated AMX: ", 14);
    (void)!write(2, why, strlen(why));
    (void)!write(2, "\n", 1);
    _exit(134);
}

static void must(int good, const char *why)
{
    if (!good)
        fault(why);
}

/* ---- decoding: C4, two bytes of VEX, opcode, ModRM, and what ModRM asks for ---- */

struct instruction {
    uint8_t opcode, prefix; /* prefix: 0 none, 1 66, 2 F3, 3 F2 */
    uint8_t reg, rm, vvvv;
    int in_memory;
    int length;
    uint64_t base;   /* of the memory operand, displacement included */
    uint64_t stride; /* index times scale: a tile's row stride */
};

static uint64_t gpr(const ucontext_t *context, int number)
{
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
    return (uint64_t)context->uc_mcontext.gregs[order[number]];
}

static int64_t displacement(const uint8_t *p, int bytes)
{
    int32_t wide;
    memcpy(&wide, p, bytes == 4 ? 4 : 1);
    return bytes == 4 ? wide : bytes == 1 ? (int8_t)*p : 0;
}

/* The memory operand; p stands behind ModRM. Gives back the instruction's end. */
static const uint8_t *address(struct instruction *x, const ucontext_t *context, const uint8_t *p,
                              int mod, int rm, int b, int index_bit)
{
    int bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
    if (rm == 4) { /* SIB */
        int sib = *p++, base = (sib & 7) | b, index = (sib >> 3 & 7) | index_bit;
        if ((sib & 7) == 5 && !mod)
            bytes = 4; /* no base */
        else
            x->base = gpr(context, base);
        if (index != 4)
            x->stride = gpr(context, index) << (sib >> 6);
    } else if (rm == 5 && !mod) { /* relative to the next instruction; none has an immediate */
        bytes = 4;
        x->base = (uint64_t)(p + 4);
    } else {
        x->base = gpr(context, rm | b);
    }
    x->base += (uint64_t)displacement(p, bytes);
    return p + bytes;
}

static int decode(struct instruction *x, const ucontext_t *context)
{
    const uint8_t *start = (const uint8_t *)context->uc_mcontext.gregs[REG_RIP], *p = start;
    memset(x, 0, sizeof *x);
    if (p[0] != 0xc4 || (p[1] & 0x1f) != 2 || p[2] & 0x84) /* map 0F38, W0, L0 */
        return 0;
    int modrm = p[4], mod = modrm >> 6;
    x->prefix = p[2] & 3;
    x->vvvv = ~(p[2] >> 3) & 15;
    x->opcode = p[3];
    x->reg = modrm >> 3 & 7;
    x->rm = modrm & 7;
    x->in_memory = mod != 3;
    p += 5;
    if (x->in_memory)
        p = address(x, context, p, mod, x->rm, p[-4] & 0x20 ? 0 : 8, p[-4] & 0x40 ? 0 : 8);
    x->length = (int)(p - start);
    return 1;
}

/* ---- the instructions ---- */

static void configured(int number)
{
    must(config.palette == 1, "no tile configuration is loaded");
    must(number < 8 && config.rows[number] && config.bytes[number], "the tile is not configured");
}

static void load_config(const struct instruction *x)
{
    memcpy(&config, (const void *)x->base, sizeof config);
    memset(tile, 0, sizeof tile);
    must(config.palette <= 1, "the palette is neither 0 nor 1");
    for (int i = 0; i < 14; i++)
        must(!config.reserved[i], "a reserved byte of the configuration is set");
    for (int i = 0; i < 16; i++) {
        must(config.rows[i] <= 16 && config.bytes[i] <= 64, "a tile is larger than 16 x 64");
        must(!config.rows[i] == !config.bytes[i], "a tile has rows or columns but not both");
        must(i < 8 || !config.rows[i], "there are 8 tiles");
    }
    if (!config.palette)
        memset(&config, 0, sizeof config);
}

static void move(const struct instruction *x, int store)
{
    configured(x->reg);
    must(x->rm == 4, "a tile's memory operand needs a stride");
    for (int i = config.start; i < config.rows[x->reg]; i++) {
        uint8_t *row = (uint8_t *)(x->base + (uint64_t)i * x->stride);
        if (store)
            memcpy(row, tile[x->reg][i], config.bytes[x->reg]);
        else {
            memset(tile[x->reg][i], 0, 64);
            memcpy(tile[x->reg][i], row, config.bytes[x->reg]);
        }
    }
}

static float flushed(float x) /* denormals count as zero */
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

static float bf16(const uint8_t *p)
{
    uint16_t h;
    uint32_t bits;
    float x;
    memcpy(&h, p, 2);
    bits = (uint32_t)h << 16;
    memcpy(&x, &bits, 4);
    return flushed(x);
}

static void dot_bf16(uint8_t *sum, const uint8_t *a, int n, const uint8_t (*b)[64], int column)
{
    float even = 0, odd = 0, c;
    for (int k = 0; k < n; k++) {
        even = flushed(fmaf(bf16(a + 4 * k), bf16(b[k] + 4 * column), even));
        odd = flushed(fmaf(bf16(a + 4 * k + 2), bf16(b[k] + 4 * column + 2), odd));
    }
    memcpy(&c, sum, 4);
    c = flushed(flushed(c) + flushed(even + odd));
    memcpy(sum, &c, 4);
}

static void dot_bytes(uint8_t *sum, const uint8_t *a, int n, const uint8_t (*b)[64], int column,
                      int signed_a, int signed_b)
{
    uint32_t c;
    memcpy(&c, sum, 4);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 4; i++) {
            int x = a[4 * k + i], y = b[k][4 * column + i];
            c += (uint32_t)((signed_a ? (int8_t)x : x) * (signed_b ? (int8_t)y : y));
        }
    memcpy(sum, &c, 4);
}

/* prefix of the byte products: none uu, 66 us, F3 su, F2 ss */
static void multiply(const struct instruction *x)
{
    int c = x->reg, a = x->rm, b = x->vvvv;
    configured(c);
    configured(a);
    configured(b);
    must(c != a && c != b && a != b, "the three tiles must differ");
    must(config.rows[c] == config.rows[a], "the sums have not as many rows as a");
    must(config.bytes[c] == config.bytes[b], "the sums have not as many columns as b");
    must(config.bytes[a] == 4 * config.rows[b], "a is not as wide as b is high");
    must(config.bytes[a] % 4 == 0 && config.bytes[b] % 4 == 0, "columns are of 4 bytes");
    for (int i = 0; i < config.rows[c]; i++)
        for (int j = 0; j < config.bytes[c] / 4; j++) {
            uint8_t *sum = tile[c][i] + 4 * j;
            if (x->opcode == 0x5c)
                dot_bf16(sum, tile[a][i], config.rows[b], tile[b], j);
            else
                dot_bytes(sum, tile[a][i], config.rows[b], tile[b], j, x->prefix >= 2,
                          x->prefix & 1);
        }
}

/* Whether it was a tile instruction. */
static int carry_out(const struct instruction *x)
{
    static const struct config none;
    switch (x->opcode << 8 | x->prefix << 4 | x->in_memory) {
    case 0x4901: /* LDTILECFG */
        load_config(x);
        return 1;
    case 0x4911: /* STTILECFG */
        memcpy((void *)x->base, &config, sizeof config);
        return 1;
    case 0x4900: /* TILERELEASE */
        config = none;
        memset(tile, 0, sizeof tile);
        return 1;
    case 0x4930: /* TILEZERO */
        configured(x->reg);
        memset(tile[x->reg], 0, sizeof tile[x->reg]);
        return 1;
    case 0x4b31: /* TILELOADD */
    case 0x4b11: /* TILELOADDT1 */
        move(x, 0);
        return 1;
    case 0x4b21: /* TILESTORED */
        move(x, 1);
        return 1;
    case 0x5c20: /* TDPBF16PS */
    case 0x5e00: /* TDPBUUD */
    case 0x5e10: /* TDPBUSD */
    case 0x5e20: /* TDPBSUD */
    case 0x5e30: /* TDPBSSD */
        multiply(x);
        return 1;
    default:
        return 0;
    }
}

static void on_sigill(int number, siginfo_t *info, void *context)
{
    struct instruction x;
    ucontext_t *at = context;
    if (decode(&x, at) && carry_out(&x)) {
        at->uc_mcontext.gregs[REG_RIP] += x.length;
        atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
        return;
    }
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else
        fault("SIGILL that is no tile instruction");
}

void emulate_amx_start(void)
{
    static atomic_flag started = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&started))
        return;
    struct sigaction action = {.sa_sigaction = on_sigill, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGILL, &action, &before);
}

long emulate_amx_count(void)
{
    return atomic_load(&count);
}
