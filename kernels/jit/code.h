/* Generated code, kept by what it was generated from: one for all calls, models and expressions
 * that want the same. Memory is bounded; what does not fit is not generated. Code is written
 * through one view of it and runs through another, so that no page can be written and executed. */
#ifndef TD_KERNELS_JIT_CODE_H
#define TD_KERNELS_JIT_CODE_H

#include "kernels/jit/loop.h"

#include <stdio.h>

#define TD_LOOP_KEY 256                /* bytes of a key at most */
#define TD_LOOP_KEPT 512               /* loops, and reasons for there being none */
#define TD_LOOP_ROOM ((size_t)2 << 20) /* bytes of code */

/* Tells the loop: l is begun, and its part is the one to tell. Called once for each part. */
typedef void td_loop_tell(struct td_loop *l, const void *arg);

/* The code for the key, made by tell where there is none yet. NULL: there cannot be any, and *why,
 * a text that stays, says why not. Any thread may ask; the answer for a key stays the same. */
td_loop_code *td_loop_for(const void *key, size_t bytes, bool wide, td_loop_tell *tell,
                          const void *arg, const char **why);

/* A loop as it is kept: what is pointed to stays as long as the process. */
struct td_loop_view {
    const char *name;   /* its formulas, in order */
    const char *why;    /* there is no code, the rest is zero; NULL: there is */
    bool wide;          /* AVX-512, else AVX2 */
    int copies;         /* vectors a round of its main body */
    int sum;            /* the stream that rows' sums go to; -1: there are none */
    long long asked;    /* how often it was found here, once it was made */
    td_loop_code *run;  /* what is called */
    const void *code;   /* its bytes, */
    size_t bytes, rest; /* so many, of which the last ones are numbers */
    const uint32_t *at; /* of each step where its instructions begin; NULL: no steps are kept */
    int n_steps, n_constants;
    const struct td_loop_step *step;
    const struct td_loop_constant *constant;
};
/* The one of that number, from 0 on in the order in which they were asked for. False: there is
 * none. Any thread may ask. */
bool td_loop_at(int number, struct td_loop_view *view);
/* The number of the loop whose code is run. */
int td_loop_number(td_loop_code *run);
/* As text: what it is, then the steps of its program, each with its instructions; of a build
 * without a disassembler these are bytes. */
void td_loop_print(int number, const struct td_loop_view *view, FILE *to);
bool td_loop_disassembles(void); /* whether the build has one */

/* From here on each loop is written to a file of that folder as well, NUMBER-FORMULAS-LEVEL.bin,
 * with the same bytes; a file that is there is replaced. say: told the first time that one cannot
 * be; both stay. To be called before loops are made. -errno: it is no folder that can be written
 * to. */
int td_loops_dump(const char *folder, void (*say)(const char *sentence));

struct td_loops {
    int kept;       /* keys whose loop, or the reason for there being none, is kept */
    size_t bytes;   /* of code */
    long long made; /* loops */
    long long none; /* keys that have no loop, for what they are, or for want of room */
    long long full; /* times that a key found no place: its rows run each time */
};
/* Since the start. Any thread may ask. */
struct td_loops td_loops(void);

/* Counts calls that were computed together and are no generated loop. why: one of the reasons
 * (TD_WHY). */
void td_loop_refused(const char *why);
long long td_loop_refusals(enum td_loop_reason reason);

/* Whether loops are generated, from here on; at first they are. Any thread may say so. */
void td_loops_allow(bool allowed);

#endif
