/* The table of tasks from the inside: async.c and async_wait.c share it. Internal to these two. */
#ifndef TD_API_ASYNC_TABLE_H
#define TD_API_ASYNC_TABLE_H

#include "api/tasks/tasks.h"

#include <pthread.h>

#define TD_ASYNC_BUCKETS 1024

struct td_async_queue {
    struct td_async *first, *last;
};

struct td_async_waiter; /* a request that waits for a task */

struct td_async_table {
    struct td_service *service; /* borrowed */
    pthread_mutex_t lock;
    struct td_async_queue active, done; /* done: in the order in which they run out */
    struct td_async *bucket[TD_ASYNC_BUCKETS];
    struct td_async_waiter *waiters;
    struct td_async_stats stats;
    pthread_cond_t earlier; /* something runs out before next_ns */
    int64_t next_ns;        /* until when the clock sleeps */
    pthread_t clock;
    bool ticks, stopping;
};

/* ---- async.c; the lock is held ---- */

/* Nobody finds the task any more. The table's reference becomes the caller's. */
void td_async_unlink(struct td_async *task);
void td_async_count(struct td_async_table *table, size_t bytes, int tasks); /* adds to the stats */

/* ---- async_wait.c ---- */

/* Takes off those that wait for the task, or, without one, those whose time has come. The lock is
 * held. */
struct td_async_waiter *td_async_take_waiters(struct td_async_table *table,
                                              const struct td_async *task, int64_t now);
/* Answers them; without the lock. */
void td_async_answer_waiters(struct td_async_waiter *list);
/* Starts the clock, once. -EAGAIN. The lock is held in these two. */
int td_async_start_clock(struct td_async_table *table);
void td_async_wake_clock(struct td_async_table *table, int64_t at_ns); /* something is due then */
void td_async_stop_clock(struct td_async_table *table);                /* without the lock */
int64_t td_async_ttl_ns(const struct td_async_table *table);

#endif
