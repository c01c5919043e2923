/* Dense copies of calls: see copy.h. The system clears each page of fresh memory, which takes
 * longer than a kernel that reads it once. So between td_trials_begin and td_trials_end, while a
 * plan is made, the next copy reuses the memory of the last one. It has two blocks: one for
 * arguments, which is filled once because no kernel writes to it, and one for results and scratch.
 */
#include "dispatch/choice/copy.h"

#include "dispatch/choice/kinds.h"
#include "pools/pools.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FLOPS 4e9 /* of a call, at most: half a second with all rows */

struct block { /* charged to td_memory */
    char *data;
    size_t bytes;
};

struct td_copy_memory {
    struct block given, made; /* of arguments; of results, and scratch behind them */
};

static _Atomic(struct td_copy_memory *) spare; /* is kept for the next copy */
static atomic_int keepers; /* calls of td_trials_begin that have not ended: if 0, none is kept */

/* ---- sizes ---- */

/* The bytes that a tensor needs in the copy: none for a weight, which is not copied, or one left
 * out. */
static size_t room_of(const struct td_tensor *t)
{
    return t->weight || !t->dtype ? 0 : td_room_of(td_nbytes(t));
}

static size_t given_bytes(const struct td_call *call)
{
    size_t bytes = 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        bytes += v->kind == TD_KIND_tensor ? room_of(&v->tensor) : 0;
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            bytes += room_of(&v->tensors.v[k]);
    }
    return bytes;
}

static size_t made_bytes(const struct td_call *call)
{
    size_t bytes = 0;
    for (int i = 0; i < call->n_out; i++)
        bytes += room_of(&call->out[i]);
    return bytes;
}

bool td_measure_fits(const struct td_call *call)
{
    double flops = call->op->flops ? call->op->flops(call) : 0;
    return given_bytes(call) + made_bytes(call) <= TD_COPY_BYTES && flops <= MOST_FLOPS;
}

/* ---- memory ---- */

static void release(struct block *block)
{
    free(block->data);
    td_budget_give(&td_memory, block->bytes);
    *block = (struct block){NULL, 0};
}

/* Makes the block at least so large; what was in a smaller one is lost. fill: of each byte of a new
 * one; 0: none. False: there is no memory. */
static bool enlarge(struct block *block, size_t bytes, int fill)
{
    if (block->bytes >= bytes)
        return true;
    release(block);
    if (td_budget_take(&td_memory, bytes))
        return false;
    *block = (struct block){aligned_alloc(64, bytes), bytes};
    if (!block->data) {
        release(block);
        return false;
    }
    if (fill)
        memset(block->data, fill, bytes);
    return true;
}

static void destroy(struct td_copy_memory *memory)
{
    if (!memory)
        return;
    release(&memory->given);
    release(&memory->made);
    free(memory);
}

void td_trials_begin(void)
{
    atomic_fetch_add(&keepers, 1);
}

void td_trials_end(void)
{
    if (atomic_fetch_sub(&keepers, 1) == 1)
        destroy(atomic_exchange(&spare, NULL));
}

/* ---- the copy ---- */

static void place(struct td_tensor *t, char **room)
{
    size_t bytes = room_of(t);
    t->stride = NULL; /* not part of a kind: rows that read with strides hardly take longer */
    t->data = bytes ? *room : t->data;
    *room += bytes;
}

/* Places the tensors of a list; false: there are too many. */
static bool place_list(struct td_copy *copy, struct td_value *v, int *n, char **room)
{
    struct td_tensor *list = &copy->list[*n];
    if (*n + v->tensors.n > TD_MAX_ARGS)
        return false;
    *n += v->tensors.n;
    for (int i = 0; i < v->tensors.n; i++) {
        list[i] = v->tensors.v[i];
        place(&list[i], room);
    }
    v->tensors.v = list;
    return true;
}

/* Makes the copy: its arguments lie from given on, its results from made on, all else is the
 * call's. False: its lists have too many tensors. */
static bool lay_out(struct td_copy *copy, const struct td_call *call, char *given, char *made)
{
    int n_list = 0, threads = copy->call.threads;
    bool fits = true;
    copy->call = *call;
    copy->call.arg = copy->arg;
    copy->call.out = copy->out;
    copy->call.threads = threads;
    for (int i = 0; i < call->n_args; i++) {
        copy->arg[i] = call->arg[i];
        if (copy->arg[i].kind == TD_KIND_tensor)
            place(&copy->arg[i].tensor, &given);
        if (copy->arg[i].kind == TD_KIND_tensors)
            fits = fits && place_list(copy, &copy->arg[i], &n_list, &given);
    }
    for (int i = 0; i < call->n_out; i++) {
        copy->out[i] = call->out[i];
        place(&copy->out[i], &made);
    }
    copy->call.scratch = made;
    return fits;
}

/* Addresses of a copy before it has memory begin here: rows are asked, and none is run. */
#define NOWHERE ((char *)64)

bool td_copy_begin(struct td_copy *copy, const struct td_call *call)
{
    copy->memory = NULL;
    return lay_out(copy, call, NOWHERE, NOWHERE + td_room_of(given_bytes(call)));
}

bool td_copy_give_memory(struct td_copy *copy, const struct td_call *call, size_t scratch)
{
    size_t given = td_room_of(given_bytes(call)), made = made_bytes(call) + td_room_of(scratch);
    struct td_copy_memory *m = copy->memory ? copy->memory : atomic_exchange(&spare, NULL);
    copy->memory = m = m ? m : calloc(1, sizeof *m);
    return m && enlarge(&m->given, given, 0x3c) && enlarge(&m->made, made, 0) &&
           lay_out(copy, call, m->given.data, m->made.data);
}

void td_copy_end(struct td_copy *copy, bool clean)
{
    if (clean && copy->memory && atomic_load(&keepers) > 0)
        copy->memory = atomic_exchange(&spare, copy->memory);
    destroy(copy->memory);
    copy->memory = NULL;
    if (!atomic_load(&keepers)) /* the last of them may have ended meanwhile */
        destroy(atomic_exchange(&spare, NULL));
}
