/* What a weight is, for the files that make one of it. Internal to kernels/weight*.c. */
#ifndef TD_KERNELS_WEIGHT_OWN_H
#define TD_KERNELS_WEIGHT_OWN_H

#include "kernels/weight.h"

#include <pthread.h>
#include <stdatomic.h>

struct form {
    struct td_weight_form see; /* first, so that the list that readers see is the list itself */
    size_t taken;              /* bytes, without a weight's own */
    td_weight_undo *undo;      /* or NULL */
    size_t key_len;
    unsigned char key[];
};

struct td_weight {
    atomic_int refs;
    struct td_tensor tensor;
    struct td_weight_room *room; /* or NULL */
    struct td_weight *of;        /* that this one is converted from, or NULL */
    atomic_bool written;         /* its elements are there */
    int home;                    /* NUMA node, or -1 */
    pthread_mutex_t lock;        /* held while a form is made or the elements are converted */
    int pins;                    /* who reads the plain elements; under the lock, as is: */
    bool rests;                  /* their memory has been given back */
    _Atomic(const struct td_weight_form *) forms;
};

/* ---- weight_block.c ---- */

/* The whole block of so many bytes: on a cache line, with 64 readable bytes behind. At least bytes
 * only where they can be counted. */
size_t td_weight_block_size(size_t bytes);
/* All zero; NULL: there is no memory. */
void *td_weight_block(size_t bytes);
/* bytes: as it was asked for; NULL is fine. */
void td_weight_block_free(void *block, size_t bytes);

/* ---- weight_rest.c ---- */

/* Has the plain elements written again where they have rested. With the lock held. */
void td_weight_wake(struct td_weight *w);
/* This thread is given a form of it with a way back. */
void td_weight_note(struct td_weight *w);

#endif
