/* Bytes, counted where they are taken; part of pools.h, which everybody includes. */
#ifndef TD_BUDGET_H
#define TD_BUDGET_H

#include <stdatomic.h>
#include <stddef.h>

/* How many bytes may be taken of something, and how many are. Any thread may enter. */
struct td_budget {
    struct td_budget *of;   /* the whole that this is a part of, from which it takes too; or NULL */
    int error;              /* of take when this is full: ENOMEM */
    void (*relieve)(void);  /* gives back what is only kept for speed; or NULL */
    _Atomic size_t limit;   /* bytes, as all of these */
    _Atomic size_t reserve; /* the last ones, only for what is less than 64 KiB */
    _Atomic size_t control; /* and of these the last, only for td_arena_favour */
    _Atomic size_t used;
    _Atomic size_t most;    /* that ever were used */
    _Atomic size_t refused; /* times */
};

/* All that requests make this process hold: each byte that a client can ask for is taken here by
 * whoever allocates it. No limit at first; what the program itself weighs is not in it. */
extern struct td_budget td_memory;

/* Empty; the error: positive. */
void td_budget_init(struct td_budget *budget, struct td_budget *of, size_t limit, int error);
/* 0 or, with nothing taken, the negative error of the one that is full. */
int td_budget_take(struct td_budget *budget, size_t bytes);
/* The same, of what is held back too. */
int td_budget_take_favoured(struct td_budget *budget, size_t bytes);
/* Takes also beyond the limit: for what is small, bounded, and needed to say that all is full. */
void td_budget_force(struct td_budget *budget, size_t bytes);
void td_budget_give(struct td_budget *budget, size_t bytes);

/* So many counted bytes have gone back to malloc. Now and then, some milliseconds for every 16 MiB,
 * whole pages of what it has free go back to the system. */
void td_heap_freed(size_t bytes);

#endif
