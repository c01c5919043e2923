/* Loops that are generated at run time: what one is, and its way from formulas to instructions.
 *
 * A loop computes rows of elements: streams are read and written side by side along a row, or have
 * one element a row (they are still). It is built as nodes in FP32 lanes (td_loop_node; trace.h
 * lets formulas build them), laid out as a flat program (td_loop_flatten), given registers
 * (td_loop_allocate) and emitted for AVX-512 or AVX2 (td_loop_emit). Sizes, addresses, steps and
 * numbers come in struct td_loop_args, so that code is per pattern and not per shape.
 *
 * A program has three parts: what is computed once a row; the main body, several vectors at a time,
 * without masks; the careful body, one vector of which some lanes may not count, for a row's end
 * and for rounds in which a guard has fired. Formulas are told twice for that: in the main body
 * their rare ways are left out and guarded, in the careful body they are taken. Stores come last,
 * so that a round can be done again.
 *
 * A loop may sum up one value along each row, by as many totals as a round has vectors, four, and
 * in the order in which the rows of reduce_rows.h do: of whole vectors behind the last round the
 * first total takes all, and the second one what is less than a vector. Such a loop has no guards,
 * as a round that is done again would be summed up in another order. */
#ifndef TD_KERNELS_JIT_LOOP_H
#define TD_KERNELS_JIT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TD_LOOP_STREAMS = 7,
    TD_LOOP_PARAMS = 16,
    TD_LOOP_CONSTANTS = 96,
    TD_LOOP_NODES = 768,
    TD_LOOP_STEPS = 3072,
    TD_LOOP_COPIES = 4,
    TD_LOOP_REGISTERS = 32,
    TD_LOOP_MASK = 64, /* of a register's number: k0 is 64 */
    TD_LOOP_NAME = 128,
};

enum td_loop_op {
#define TD_LOOP_OP(id, ...) TD_LOOP_##id,
#include "kernels/jit/ops.def"
#undef TD_LOOP_OP
    TD_LOOP_OPS
};

/* As the instructions have them. */
enum td_loop_compare {
    TD_LOOP_eq = 0,
    TD_LOOP_uno = 3,
    TD_LOOP_ne = 4,
    TD_LOOP_lt = 17,
    TD_LOOP_le = 18,
    TD_LOOP_ge = 29,
    TD_LOOP_gt = 30,
};
enum td_loop_round { TD_LOOP_nearest = 8, TD_LOOP_down, TD_LOOP_up, TD_LOOP_cut };

enum td_loop_part { TD_LOOP_ROW, TD_LOOP_MAIN, TD_LOOP_CAREFUL, TD_LOOP_PARTS };

/* Why there is no loop: texts that stay. */
enum td_loop_reason {
#define TD_REASON(id, text) TD_REASON_##id,
#include "kernels/jit/reasons.def"
#undef TD_REASON
    TD_REASONS
};
extern const char *const td_loop_reasons[TD_REASONS];
#define TD_WHY(id) td_loop_reasons[TD_REASON_##id]

/* An operand: a node (before td_loop_flatten), a virtual register, or a real one, each from 0 on;
 * -1: none; below that, constant -2 - operand. */
struct td_loop_step {
    uint8_t op, imm, part, copy; /* copy: so many vectors on from where the round begins */
    int16_t d, a, b, c;
};

struct td_loop_constant {
    uint32_t bits;
    int param; /* its number comes in the args; -1: these bits */
};

struct td_loop {
    bool wide; /* AVX-512, else AVX2 */
    int copies;
    int n_streams, n_params, n_constants, n_nodes, n_steps, n_virtual;
    bool still[TD_LOOP_STREAMS];
    int sum; /* the stream that rows' sums go to, an element a row; -1: there are none */
    struct td_loop_constant constant[TD_LOOP_CONSTANTS];
    enum td_loop_part part;  /* that is told now: the main body, or the careful one */
    char name[TD_LOOP_NAME]; /* for people: its formulas in order, a space between */
    struct td_loop_step node[TD_LOOP_NODES], step[TD_LOOP_STEPS];
    const char *why; /* there is no code: a text that stays; NULL: nothing is wrong yet */
};

struct td_loop_args {
    int64_t n, rows;                   /* elements of a row, below 2^31, and rows; both above 0 */
    char *base[TD_LOOP_STREAMS];       /* of the first row */
    int64_t row_step[TD_LOOP_STREAMS]; /* bytes from a row to the next */
    float param[TD_LOOP_PARAMS][8];    /* each number eight times */
};
typedef void td_loop_code(const struct td_loop_args *args);

/* What a step defines and uses, for all who walk programs: which operands it reads (a bit each: a,
 * b, c), which of these may be constants, which are masks; whether d is a value or a mask. */
struct td_loop_form {
    uint8_t reads, memory, masks;
    bool makes, makes_mask;
};
struct td_loop_form td_loop_form(enum td_loop_op op);

/* ---- build.c ---- */

void td_loop_begin(struct td_loop *l, bool wide);
int td_loop_stream(struct td_loop *l, bool still);
int td_loop_constant(struct td_loop *l, uint32_t bits); /* as an operand */
int td_loop_param(struct td_loop *l);                   /* the next one, as an operand */
/* The node, which may be one that is there already. */
int td_loop_node(struct td_loop *l, enum td_loop_op op, int imm, int a, int b, int c);
/* Whether it is the same all along a row. */
bool td_loop_is_still(const struct td_loop *l, int operand);
/* All is told: steps over virtual registers, of so many vectors a round in the main body. What
 * nobody reads is left out. False: l->why. */
bool td_loop_flatten(struct td_loop *l, int copies);

/* ---- registers.c ---- */

/* How many registers of values and of masks it may use; tests give fewer. */
struct td_loop_room {
    int values, masks;
};
struct td_loop_room td_loop_room(bool wide);
/* Virtual registers become real ones by linear scan; those left out of td_loop_room are the
 * emitter's. False: they do not suffice, and the steps are as they were. */
bool td_loop_allocate(struct td_loop *l, struct td_loop_room room);
/* Whether each register that the allocated steps read holds what the virtual ones before say, in
 * all ways through the loop. */
bool td_loop_verify(const struct td_loop_step *before, const struct td_loop *after,
                    struct td_loop_room room);

/* ---- emit.cc; emit_none.c where the build has no Xbyak ---- */

/* Writes the allocated program to code, 64-byte aligned: how many bytes, 0: room is too small, or
 * there is no emitter. at: where each step's instructions begin, and behind the last one where its
 * numbers do, which stand behind all instructions; or NULL. */
size_t td_loop_emit(const struct td_loop *l, void *code, size_t room, uint32_t *at);

#ifdef __cplusplus
}
#endif

#endif
