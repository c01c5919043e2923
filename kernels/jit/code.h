/* Generated code, kept by what it was generated from: one for all calls, models and expressions
 * that want the same. Memory is bounded; what does not fit is not generated. Code is written
 * through one view of it and runs through another, so that no page can be written and executed. */
#ifndef TD_KERNELS_JIT_CODE_H
#define TD_KERNELS_JIT_CODE_H

#include "kernels/jit/loop.h"

#define TD_LOOP_KEY 256                /* bytes of a key at most */
#define TD_LOOP_KEPT 512               /* loops, and reasons for there being none */
#define TD_LOOP_ROOM ((size_t)2 << 20) /* bytes of code */

/* Tells the loop: l is begun, and its part is the one to tell. Called once for each part. */
typedef void td_loop_tell(struct td_loop *l, const void *arg);

/* The code for the key, made by tell where there is none yet. NULL: there cannot be any, and *why,
 * a text that stays, says why not. Any thread may ask; the answer for a key stays the same. */
td_loop_code *td_loop_for(const void *key, size_t bytes, bool wide, td_loop_tell *tell,
                          const void *arg, const char **why);

struct td_loops {
    int kept;       /* keys whose loop, or the reason for there being none, is kept */
    size_t bytes;   /* of code */
    long long made; /* loops */
    long long none; /* keys that have no loop, for what they are, or for want of room */
    long long full; /* times that a key found no place: its rows run each time */
};
/* Since the start. Any thread may ask. */
struct td_loops td_loops(void);

/* Whether loops are generated, from here on; at first they are. Any thread may say so. */
void td_loops_allow(bool allowed);

#endif
