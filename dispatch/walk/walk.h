/* The interpreter of programs. A walk goes through the nodes in order; each node calls operators on
 * items, whose memory has reference counts. This folder uses program/; plan/ and model/ record a
 * walk as a plan through callbacks (struct td_recorder). */
#ifndef TD_DISPATCH_WALK_H
#define TD_DISPATCH_WALK_H

#include "dispatch/program/program.h"
#include "pools/pools.h"

/* The memory of a tensor or of a list's items, with a reference count. Blocks without references
 * are used again within the run. */
struct td_block {
    int refs;
    int number;  /* 1 + the index in walk->recorded of its tensor; 0: it is not recorded */
    int n_items; /* of a list, which has references to its items; 0: a tensor */
    const struct td_plan *holder; /* the last one that holds it as a constant, or NULL */
    size_t bytes;
    struct td_block *next; /* in the list of free blocks */
    _Alignas(64) unsigned char data[];
};

struct td_path { /* the plans that have run for one set of inputs, in order */
    struct td_plan **plan;
    int n, room;
};

struct td_recorded {       /* a tensor that depends on the inputs, in a walk that records */
    struct td_tensor like; /* data: a unique address that is compared and never read */
    struct td_block
        *block;    /* counts the items that refer to the tensor; no memory; NULL: none are left */
    uint64_t from; /* a bit for each of the model's inputs on which it depends */
    int input;     /* the model's input that it is, or -1 */
    const struct td_plan *in; /* the last plan that uses it */
    int value;                /* and its value there */
    const struct td_plan *of; /* a plan that has run and has it as an output; or NULL */
    int output;
};

struct td_recorder { /* the callbacks of a walk that records; set by plan/ and model/ */
    /* The walk's call of these arguments, which is bound in walk->run. If they depend on an input
     * it is recorded (*recorded) with these results; else the walk computes it. chance: the
     * operator draws random numbers. */
    int (*call)(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                struct td_item *result, bool *recorded);
    /* Sets t->data, of t which is like the recorded item, to the item's elements. */
    int (*read)(struct td_walk *walk, const struct td_item *item, struct td_tensor *t);
    /* node: called instead of td_walk_node. graph: called when a graph's nodes are done. Either may
     * be NULL. */
    int (*node)(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                struct td_item *out);
    int (*graph)(struct td_walk *walk, const struct td_node_graph *graph);
    /* Called when a call of these arguments is refused, as walk->run says; may be NULL. */
    void (*refused)(struct td_walk *walk, const char *op, const struct td_named *args, int n_args);
};

#define TD_BLOCK_SIZES 160 /* size classes of blocks: four to a power of two */

struct td_walk {
    struct td_model *model;
    const struct td_model_call *call;
    struct td_problem *problem;
    struct td_item *item;                  /* by value */
    struct td_block *free[TD_BLOCK_SIZES]; /* by size class */
    struct td_block *scratch;              /* for kernels; grows */
    struct td_block **made; /* references of the running nodes, dropped when these are done */
    size_t n_made, made_room;
    struct td_arena *once;  /* reset before each call */
    size_t bytes;           /* of all blocks */
    int depth;              /* of nested graphs */
    double work, most_work; /* operations so far; calls beyond the limit are refused; 0: none */
    bool chance;            /* a call has drawn random numbers, so it must not be folded */
    const struct td_node *node;
    bool varies; /* one of its operands varies (td_item), so the tensors that it makes do, too */
    /* Set in a walk that records. Then nothing is computed that depends on the inputs; where an
     * element of it must be known, the plan so far is closed and run, and another one begins. The
     * part of the program whose plans have run already (path) is walked again only to number its
     * values as before. NULL: everything is computed. */
    const struct td_recorder *recorder;
    struct td_plan *root, *plan; /* the path's first; the one that is being recorded, or NULL */
    char *why;                   /* why no plan can be made: TD_PLAN_WHY bytes, "" if one can */
    struct td_path *path;
    bool misfit; /* the last refusal was for kinds or types and would be so with any sizes */
    /* Limits on blocks: bytes of each (0: no limits), and bytes of all that may still be made,
     * whether or not they use freed memory again. */
    size_t most_block, most_blocks;
    int at; /* how many of the path's plans the walk has passed */
    const struct td_tensor *inputs;
    struct td_recorded *recorded;
    int n_recorded, recorded_room, first_recorded; /* the last: where walk->plan's begin */
    uintptr_t addresses;                           /* the last unique address given to one */
    struct td_model_figures figures;
    struct td_run run;
};

/* ---- walk.c ---- */

/* Prepares a walk whose model, call and problem are set: makes items of the constants. -ENOMEM. */
int td_walk_begin(struct td_walk *walk);
/* Frees what is no longer needed once there are results. */
void td_walk_end(struct td_walk *walk);
/* Runs a node. in, out: room for its operands and results, which live until the caller's
 * td_walk_release. -EINVAL, -ENOMEM, -ETIMEDOUT. */
int td_walk_node(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                 struct td_item *out);

/* Puts the node's name in front of the text of walk->problem; returns err. */
int td_walk_in_node(struct td_walk *walk, const struct td_node *node, int err);

/* ---- numbers.c ---- */

/* Replaces arguments of the bound call that are numbers for tensor parameters by items with the
 * tensors that binding made of them, so that a plan can keep them. -ENOMEM. */
int td_walk_keep_numbers(struct td_walk *walk, struct td_given *args, int n_args);

/* ---- blocks.c ---- */

/* A block to which the running node has the one reference; NULL when there is no memory. */
struct td_block *td_block_make(struct td_walk *walk, size_t bytes);
/* Gives the running node a reference to the block. False when there is no memory. */
bool td_block_keep(struct td_walk *walk, struct td_block *block);
/* Drops a reference; the last one puts the block among the free ones. NULL is fine. */
void td_block_release(struct td_walk *walk, struct td_block *block);
/* Gives the free blocks back to the system. */
void td_blocks_free(struct td_walk *walk);
/* Takes a reference to the item's block, to keep the item longer than the node that made it; and
 * drops it. */
struct td_item td_item_hold(const struct td_item *item);
void td_item_drop(struct td_walk *walk, struct td_item *item); /* clears the item */
/* Gives a block without references back to the system. */
void td_block_free(struct td_block *block);

#endif
