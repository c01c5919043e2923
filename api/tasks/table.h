/* The table of tasks from the inside: list.c is its structure, table.c the
 * life of a task, wait.c who waits for one and when results run out. Internal to this room. */
#ifndef TD_API_TASKS_TABLE_H
#define TD_API_TASKS_TABLE_H

#include "api/tasks/tasks.h"

#include <pthread.h>

#define TD_TASK_BUCKETS 1024

struct td_task_queue {
    struct td_task *first, *last;
};

struct td_task_waiter; /* a request that waits for a task */

struct td_task_table {
    struct td_service *service; /* borrowed */
    pthread_mutex_t lock;
    struct td_task_queue active, done; /* done: in the order in which they run out */
    struct td_task *bucket[TD_TASK_BUCKETS];
    struct td_task_waiter *waiters;
    struct td_task_stats stats;
    struct td_budget budget; /* of results: what is taken for a task goes with its last reference */
    pthread_cond_t earlier;  /* something runs out before next_ns */
    int64_t next_ns;         /* until when the clock sleeps */
    pthread_t clock;
    bool ticks, stopping;
};

/* ---- list.c; the lock is held ---- */

void td_task_append(struct td_task_queue *list, struct td_task *task);
void td_task_cut(struct td_task_queue *list, struct td_task *task);
/* Where the table points to the task of that id; a pointer to NULL when there is none. */
struct td_task **td_task_place(struct td_task_table *table, const char *id);

/* Nobody finds the task any more. The table's reference becomes the caller's. */
void td_task_unlink(struct td_task *task);

/* ---- wait.c ---- */

/* Takes off those that wait for the task, or, without one, those whose time has come. The lock is
 * held. */
struct td_task_waiter *td_task_take_waiters(struct td_task_table *table, const struct td_task *task,
                                            int64_t now);
/* Answers them; without the lock. */
void td_task_answer_waiters(struct td_task_waiter *list);
/* Starts the clock, once. -EAGAIN. The lock is held in these two. */
int td_task_start_clock(struct td_task_table *table);
void td_task_wake_clock(struct td_task_table *table, int64_t at_ns); /* something is due then */
void td_task_stop_clock(struct td_task_table *table);                /* without the lock */
int64_t td_task_ttl_ns(const struct td_task_table *table);

#endif
