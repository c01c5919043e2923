/* A program under way: its nodes, one after the other, make calls of operators on items, whose
 * memory is counted. This folder uses program/; who keeps a run as a plan is told of each call
 * (struct td_recorder). */
#ifndef TD_DISPATCH_WALK_H
#define TD_DISPATCH_WALK_H

#include "dispatch/program/program.h"
#include "pools/pools.h"

/* Memory of a tensor, or of a list's items: counted by its holders, and used again within the run.
 */
struct td_block {
    int refs;
    int number;  /* of what is recorded, which it stands for, and 1 more; 0: it is memory */
    int n_items; /* of a list, which holds the blocks of its items; 0: a tensor's data */
    size_t bytes;
    struct td_block *next; /* of those that are free */
    _Alignas(64) unsigned char data[];
};

struct td_path { /* the plans that have run, one after the other, for one set of inputs */
    struct td_plan **plan;
    int n, room;
};

struct td_recorded {       /* a tensor that depends on the inputs, in a walk that records */
    struct td_tensor like; /* its data are an address of its own, which is compared only */
    struct td_block
        *block;    /* without memory: who holds it may read the tensor; NULL: nobody does */
    uint64_t from; /* the model's inputs of which it is computed, one bit each */
    int input;     /* the model's input that it is, or -1 */
    const struct td_plan *in; /* whose value it is: the last plan that has named it, */
    int value;                /* by this number */
    const struct td_plan *of; /* that has run, and has it as this output; or NULL */
    int output;
};

struct td_recorder { /* what a walk that records is told to do, by those above it */
    /* The walk's call of these arguments, which is bound. If they depend on an input it becomes a
     * step (*recorded) with these results; else it is to be computed. chance: it draws some. */
    int (*call)(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                struct td_item *result, bool *recorded);
    /* The elements of a recorded item are wanted: t, which is like it, gets its data. */
    int (*read)(struct td_walk *walk, const struct td_item *item, struct td_tensor *t);
    /* In place of td_walk_node, and when a graph's nodes are done; NULL: nothing more. */
    int (*node)(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                struct td_item *out);
    int (*graph)(struct td_walk *walk, const struct td_node_graph *graph);
    /* A call of these arguments is refused, as walk->run says; NULL, too. */
    void (*refused)(struct td_walk *walk, const char *op, const struct td_named *args, int n_args);
};

#define TD_BLOCK_SIZES 160 /* that there are: four to a power of two */

struct td_walk {
    struct td_model *model;
    const struct td_model_call *call;
    struct td_problem *problem;
    struct td_item *item;                  /* by value's number */
    struct td_block *free[TD_BLOCK_SIZES]; /* to be used again, by size */
    struct td_block *scratch;              /* of kernels; grows */
    struct td_block **made; /* by the nodes under way, which hold them until they are done */
    size_t n_made, made_room;
    struct td_arena *once;  /* for one call */
    size_t bytes;           /* of all blocks */
    int depth;              /* of graphs and formulas */
    double work, most_work; /* operations so far, and beyond which a call is refused; 0: none */
    bool chance;            /* a call has drawn chance, which is to be drawn anew each time */
    const struct td_node *node;
    bool varies; /* one of its operands does, and so do the tensors that it makes */
    /* In a walk that records: then nothing is computed of what depends on the inputs, and where
     * an element has to be known, the plan so far is closed and run, and another one begins. Of
     * plans that have run before, which the path has, it only repeats what their values' numbers
     * are. NULL: all is computed. */
    const struct td_recorder *recorder;
    struct td_plan *root, *plan; /* the first one; the one that is being recorded, or NULL */
    char *why;                   /* there can be no plan: 200 bytes, "" until then */
    struct td_path *path;
    bool misfit; /* what was refused last was so for its kinds and types, whatever sizes are */
    /* Bytes of a block at most, 0: any; and then of all that are still made, also in freed room. */
    size_t most_block, most_blocks;
    int at; /* of the path's plans: those before it have been repeated */
    const struct td_tensor *inputs;
    struct td_recorded *recorded;
    int n_recorded, recorded_room, first_recorded; /* of the plan that is being recorded */
    uintptr_t addresses;                           /* that have been given */
    struct td_model_figures figures;
    struct td_run run;
};

/* ---- walk.c ---- */

/* Of a walk whose model, call and problem are set: constants become items. -ENOMEM. */
int td_walk_begin(struct td_walk *walk);
/* What is needed no more once there are results. */
void td_walk_end(struct td_walk *walk);
/* A node's results, in room for its items, which the caller's mark holds: -EINVAL, -ENOMEM. */
int td_walk_node(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                 struct td_item *out);

/* Puts the node's name before what the walk's problem says; gives back err. */
int td_walk_in_node(struct td_walk *walk, const struct td_node *node, int err);

/* ---- numbers.c ---- */

/* The arguments of the bound call that stand for tensors as numbers become items with these
 * tensors, which whoever keeps the call holds as any other. -ENOMEM. */
int td_walk_keep_numbers(struct td_walk *walk, struct td_given *args, int n_args);

/* ---- blocks.c ---- */

/* A block that the node under way holds; NULL when there is no memory. */
struct td_block *td_block_make(struct td_walk *walk, size_t bytes);
/* The node under way holds the block, too. False when there is no memory. */
bool td_block_keep(struct td_walk *walk, struct td_block *block);
/* One holder less. NULL is fine. */
void td_block_release(struct td_walk *walk, struct td_block *block);
/* Gives back those that are free. */
void td_blocks_free(struct td_walk *walk);
/* Whoever keeps an item beyond the node that made it holds its block. */
struct td_item td_item_hold(const struct td_item *item);
void td_item_drop(struct td_walk *walk, struct td_item *item); /* makes it none */
/* Gives a block that nobody holds back to the system. */
void td_block_free(struct td_block *block);

#endif
