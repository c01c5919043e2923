/* Generated loops and compiled functions as text for people. The instructions are read back from
 * the bytes that run, by Zydis, so that the listing cannot say anything else than the processor
 * does; the steps that a loop was made of, with the registers that were given, stand over them. The
 * only file that knows Zydis: a build without it shows bytes in place of instructions.
 *
 * Refused: to print what the emitter was asked for. It would take a name and a form for each of its
 * instructions, and be right only as long as somebody looks after both. */
#include "kernels/jit/code.h"
#include "kernels/jit/functions.h"

#include <math.h>
#include <string.h>

#ifdef TD_ZYDIS
#include <Zydis/Zydis.h>
#endif

bool td_loop_disassembles(void)
{
#ifdef TD_ZYDIS
    return true;
#else
    return false;
#endif
}

/* ---- steps ---- */

static const char *name_of(const struct td_loop_step *x)
{
    static const char *const names[TD_LOOP_OPS] = {
#define TD_LOOP_OP(id, ...) [TD_LOOP_##id] = #id,
#include "kernels/jit/ops.def"
#undef TD_LOOP_OP
    };
    return names[x->op];
}

/* What imm is of some, with a space in front; "" of others. */
static const char *how(const struct td_loop_step *x)
{
    if (x->op == TD_LOOP_round)
        return x->imm == TD_LOOP_nearest ? " to the nearest"
               : x->imm == TD_LOOP_down  ? " down"
               : x->imm == TD_LOOP_up    ? " up"
                                         : " towards 0";
    if (x->op != TD_LOOP_compare)
        return "";
    switch (x->imm) {
    case TD_LOOP_eq:
        return " ==";
    case TD_LOOP_uno:
        return " unordered";
    case TD_LOOP_ne:
        return " !=";
    case TD_LOOP_lt:
        return " <";
    case TD_LOOP_le:
        return " <=";
    case TD_LOOP_ge:
        return " >=";
    default:
        return " >";
    }
}

/* As the number that it is in floats, or, where that says nothing, as bits. */
static void print_constant(const struct td_loop_constant *c, FILE *to)
{
    float x;
    memcpy(&x, &c->bits, sizeof x);
    if (c->param >= 0)
        fprintf(to, "p%d", c->param);
    else if (!c->bits || (fabsf(x) > 1e-12f && fabsf(x) < 1e12f))
        fprintf(to, "%.9g", (double)x);
    else
        fprintf(to, "0x%08x", c->bits);
}

static void print_operand(const struct td_loop_view *v, int operand, FILE *to)
{
    if (operand <= -2)
        print_constant(&v->constant[-2 - operand], to);
    else if (operand >= TD_LOOP_MASK)
        fprintf(to, "k%d", operand - TD_LOOP_MASK);
    else
        fprintf(to, "%cmm%d", v->wide ? 'z' : 'y', operand);
}

static void print_step(const struct td_loop_view *v, const struct td_loop_step *x, FILE *to)
{
    const int16_t operand[3] = {x->a, x->b, x->c};
    fputs("; ", to);
    if (x->op == TD_LOOP_store)
        fprintf(to, "s%d", x->imm);
    else if (x->d >= 0)
        print_operand(v, x->d, to);
    fprintf(to, "%s%s%s", x->op == TD_LOOP_guard || x->op == TD_LOOP_total ? "" : " = ", name_of(x),
            how(x));
    if (x->op == TD_LOOP_load)
        fprintf(to, " s%d", x->imm);
    const char *before = " ";
    for (int i = 0; i < 3; i++) {
        if (!(td_loop_form((enum td_loop_op)x->op).reads >> i & 1))
            continue;
        fputs(before, to);
        print_operand(v, operand[i], to);
        before = ", ";
    }
    if (x->op == TD_LOOP_shl || x->op == TD_LOOP_sar)
        fprintf(to, " by %d", x->imm);
    if (x->copy && (x->op == TD_LOOP_load || x->op == TD_LOOP_store))
        fprintf(to, " from lane %d on", x->copy * (v->wide ? 16 : 8));
    fputc('\n', to);
}

/* ---- instructions ---- */

struct shown { /* code, and what its addresses are counted from */
    const unsigned char *code;
    uint64_t address;
    const struct td_functions *all; /* whose names stand behind instructions; or NULL */
};

#ifdef TD_ZYDIS
/* The address of the program that an operand refers to; 0: none. */
static uint64_t target(const ZydisDecodedInstruction *one, const ZydisDecodedOperand *x,
                       uint64_t address)
{
    uint64_t at = 0;
    bool refers = x->type == ZYDIS_OPERAND_TYPE_IMMEDIATE
                      ? x->imm.is_relative
                      : x->type == ZYDIS_OPERAND_TYPE_MEMORY && x->mem.base == ZYDIS_REGISTER_RIP;
    return refers && ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(one, x, address, &at)) ? at : 0;
}

static void print_names(const struct shown *s, const ZydisDecodedInstruction *one,
                        const ZydisDecodedOperand *operand, uint64_t address, FILE *to)
{
    struct td_function here, f;
    for (int i = 0; i < one->operand_count_visible; i++) {
        uint64_t at = target(one, &operand[i], address);
        if (at && td_function_at(s->all, at, &f) &&
            !(td_function_at(s->all, address, &here) && here.address == f.address))
            fprintf(to, at == f.address ? " ; %s" : " ; in %s", f.name);
    }
}
#endif

/* As far as they are known; how many bytes. */
static size_t print_instructions(const struct shown *s, size_t from, size_t end, FILE *to)
{
    size_t at = from;
#ifdef TD_ZYDIS
    ZydisDecoder decoder;
    ZydisFormatter formatter;
    ZydisDecodedInstruction one;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    char text[128];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, 4);
    ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, 0);
    while (at < end &&
           ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, s->code + at, end - at, &one, operand)) &&
           ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &one, operand,
                                                        one.operand_count_visible, text,
                                                        sizeof text, s->address + at, NULL))) {
        fprintf(to, "%04llx  %s", (unsigned long long)s->address + at, text);
        if (s->all)
            print_names(s, &one, operand, s->address + at, to);
        fputc('\n', to);
        at += one.length;
    }
#else
    (void)s, (void)end, (void)to;
#endif
    return at - from;
}

/* Those from one place to another; what is not known as one is bytes. */
static void print_code(const struct shown *s, size_t from, size_t end, FILE *to)
{
    from += print_instructions(s, from, end, to);
    for (size_t i = from; i < end; i++) {
        if (i == from || !((i - from) % 16))
            fprintf(to, i == from ? "%04llx " : "\n%04llx ", (unsigned long long)s->address + i);
        fprintf(to, " %02x", s->code[i]);
    }
    fputs(from < end ? "\n" : "", to);
}

/* ---- a compiled function ---- */

void td_function_refers(const struct td_functions *all, const struct td_function *from,
                        td_function_tell *tell, void *arg)
{
#ifdef TD_ZYDIS
    ZydisDecoder decoder;
    ZydisDecodedInstruction one;
    ZydisDecodedOperand operand[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < from->bytes; at += one.length) {
        if (!ZYAN_SUCCESS(
                ZydisDecoderDecodeFull(&decoder, from->code + at, from->bytes - at, &one, operand)))
            return;
        for (int i = 0; i < one.operand_count_visible; i++) {
            struct td_function f;
            uint64_t to = target(&one, &operand[i], from->address + at);
            if (to && td_function_at(all, to, &f) && f.address != from->address)
                tell(arg, &f);
            else if (to)
                td_functions_in_table(all, to, tell, arg);
        }
    }
#else
    (void)all, (void)from, (void)tell, (void)arg;
#endif
}

struct reference { /* so far printed */
    FILE *to;
    int n;
    uint64_t last; /* address */
};

static void print_reference(void *arg, const struct td_function *f)
{
    struct reference *r = arg;
    if (f->address == r->last)
        return;
    fprintf(r->to, r->n % 6 ? ", %s" : r->n ? ",\n;   %s" : "; refers to %s", f->name);
    r->n++;
    r->last = f->address;
}

void td_function_print(const struct td_functions *all, const struct td_function *f, FILE *to)
{
    struct shown s = {f->code, f->address, all};
    struct reference r = {to, 0, 0};
    fprintf(to,
            "; %s: %zu bytes at 0x%llx of the program's file\n"
            "; objdump -d -M intel --start-address=0x%llx --stop-address=0x%llx lists the same\n",
            f->name, f->bytes, (unsigned long long)f->address, (unsigned long long)f->address,
            (unsigned long long)f->address + f->bytes);
    if (!td_loop_disassembles())
        fputs("; this build has no disassembler\n", to);
    td_function_refers(all, f, print_reference, &r);
    fputs(r.n ? "\n" : "", to);
    print_code(&s, 0, f->bytes, to);
}

/* ---- a loop ---- */

static void print_head(int number, const struct td_loop_view *v, FILE *to)
{
    static const char *const at[TD_LOOP_STREAMS] = {
#define TD_STREAM(id, name) #name,
#include "kernels/jit/streams.def"
#undef TD_STREAM
    };
    int streams = 0;
    fprintf(to, "; loop %d: %s\n; %s, %d vector%s a round; %zu bytes, the last %zu are numbers\n",
            number, v->name, v->wide ? "AVX-512" : "AVX2", v->copies, v->copies == 1 ? "" : "s",
            v->bytes, v->rest);
    for (int i = 0; i < v->n_steps; i++)
        if ((v->step[i].op == TD_LOOP_load || v->step[i].op == TD_LOOP_store) &&
            v->step[i].imm >= streams)
            streams = v->step[i].imm + 1;
    fputs("; rdi: struct td_loop_args (p0: its first number), rbx: elements of a row, rcx: of "
          "them done, r13: rows left\n;",
          to);
    for (int s = 0; s < streams; s++)
        fprintf(to, "%s %s: s%d", s ? "," : "", at[s], s);
    fputs(", streams along the row", to);
    if (v->sum >= 0)
        fprintf(to, "; %s: where the row's total goes", at[v->sum]);
    fputc('\n', to);
    if (!td_loop_disassembles())
        fputs("; this build has no disassembler; of GET /v1/kernels/{op}/code as bytes, "
              "objdump -D -b binary -m i386:x86-64 -M intel is one\n",
              to);
}

static void print_numbers(const struct td_loop_view *v, FILE *to)
{
    fprintf(to, "; numbers: 0 to 15 as lanes are counted, then its constants%s\n",
            v->wide ? "" : ", each eight times");
    for (size_t at = v->bytes - v->rest, k = 0; at + 4 <= v->bytes; at += 4, k++) {
        uint32_t bits;
        memcpy(&bits, (const char *)v->code + at, sizeof bits);
        size_t of = k < 16 ? 0 : (k - 16) / (v->wide ? 1 : 8);
        bool first = k >= 16 && (v->wide || !(k % 8));
        if (k >= 16 && !first)
            continue;
        fprintf(to, "%04zx  .long 0x%08x", at, bits);
        if (first && v->constant && of < (size_t)v->n_constants) {
            fputs(" ; ", to);
            print_constant(&v->constant[of], to);
        }
        fputc('\n', to);
    }
}

void td_loop_print(int number, const struct td_loop_view *v, FILE *to)
{
    static const char *const parts[] = {"once a row", "main body: a round",
                                        "careful body: one vector, of which some lanes may count"};
    struct shown s = {v->code, 0, NULL};
    size_t at = 0, end = v->bytes - v->rest;
    int part = -1;
    if (!v->run) {
        fprintf(to, "; loop %d: %s\n; there is none: %s\n", number, v->name, v->why);
        return;
    }
    print_head(number, v, to);
    for (int i = 0; v->at && i < v->n_steps; i++) {
        print_code(&s, at, v->at[i], to);
        at = v->at[i];
        if (v->step[i].part != part)
            fprintf(to, "; ---- %s ----\n", parts[v->step[i].part]);
        part = v->step[i].part;
        print_step(v, &v->step[i], to);
    }
    print_code(&s, at, end, to);
    print_numbers(v, to);
}
