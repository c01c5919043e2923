/* Requests that wait for a task, and the clock.
 *
 * A request that waits is suspended and holds no thread; it is answered by the worker that ends the
 * task, by whoever cancels it, or by the clock: one thread, started with the first task, which
 * sleeps until a wait or a result runs out. */
#include "api/tasks/table.h"

#include <errno.h>

struct td_task_waiter { /* in its request's arena */
    struct td_task_waiter *next;
    struct td_task *task;
    struct td_request *req;
    td_task_answer *answer;
    int64_t until_ns;
};

struct td_task_waiter *td_task_take_waiters(struct td_task_table *table, const struct td_task *task,
                                            int64_t now)
{
    struct td_task_waiter *taken = NULL, **at = &table->waiters;
    while (*at) {
        struct td_task_waiter *waiter = *at;
        if (task ? waiter->task != task : waiter->until_ns > now) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = taken;
        taken = waiter;
    }
    return taken;
}

/* Without the lock: a request may be gone as soon as it has been replied to. */
void td_task_answer_waiters(struct td_task_waiter *list)
{
    while (list) {
        struct td_task_waiter *waiter = list;
        list = waiter->next;
        waiter->answer(waiter->req, waiter->task);
        waiter->req->reply(waiter->req);
    }
}

void td_task_wake_clock(struct td_task_table *table, int64_t at_ns)
{
    if (at_ns < table->next_ns)
        pthread_cond_signal(&table->earlier);
}

bool td_task_wait(struct td_task *task, struct td_request *req, int64_t until_ns,
                  td_task_answer *answer)
{
    struct td_task_table *table = task->table;
    struct td_task_waiter *waiter = td_arena_alloc(req->arena, sizeof *waiter);
    if (!waiter)
        return false;
    pthread_mutex_lock(&table->lock);
    bool ended = task->state >= TD_TASK_done;
    if (!ended) {
        req->defer(req);
        *waiter = (struct td_task_waiter){table->waiters, task, req, answer, until_ns};
        table->waiters = waiter;
        td_task_wake_clock(table, until_ns);
    }
    pthread_mutex_unlock(&table->lock);
    return !ended;
}

/* ---- the clock ---- */

int64_t td_task_ttl_ns(const struct td_task_table *table)
{
    return table->service->limits.task_ttl_s * INT64_C(1000000000);
}

/* Unlinks the results that have run out; they come back as a list. */
static struct td_task *expire(struct td_task_table *table, int64_t now)
{
    struct td_task *expired = NULL, *task;
    while ((task = table->done.first) && task->end_ns + td_task_ttl_ns(table) <= now) {
        td_task_unlink(task);
        table->stats.kept--;
        table->stats.expired++;
        table->stats.results--;
        task->next = expired;
        expired = task;
    }
    return expired;
}

static int64_t next_time(const struct td_task_table *table)
{
    const struct td_task *oldest = table->done.first;
    int64_t next = oldest ? oldest->end_ns + td_task_ttl_ns(table) : INT64_MAX;
    for (const struct td_task_waiter *w = table->waiters; w; w = w->next)
        next = w->until_ns < next ? w->until_ns : next;
    return next;
}

static void *tick(void *arg)
{
    struct td_task_table *table = arg;
    pthread_setname_np(pthread_self(), "td tasks");
    td_bind_allowed(table->service->topology);
    pthread_mutex_lock(&table->lock);
    while (!table->stopping) {
        int64_t now = td_now_ns();
        struct td_task *expired = expire(table, now);
        struct td_task_waiter *late = td_task_take_waiters(table, NULL, now);
        if (expired || late) {
            pthread_mutex_unlock(&table->lock);
            td_task_answer_waiters(late);
            for (struct td_task *next; expired; expired = next) {
                next = expired->next;
                td_task_unref(expired);
            }
            pthread_mutex_lock(&table->lock);
            continue;
        }
        table->next_ns = next_time(table);
        struct timespec until = {table->next_ns / 1000000000, table->next_ns % 1000000000};
        if (table->next_ns == INT64_MAX)
            pthread_cond_wait(&table->earlier, &table->lock);
        else
            pthread_cond_timedwait(&table->earlier, &table->lock, &until);
    }
    pthread_mutex_unlock(&table->lock);
    return NULL;
}

int td_task_start_clock(struct td_task_table *table)
{
    if (!table->ticks)
        table->ticks = !pthread_create(&table->clock, NULL, tick, table);
    return table->ticks ? 0 : -EAGAIN;
}

void td_task_stop_clock(struct td_task_table *table)
{
    pthread_mutex_lock(&table->lock);
    table->stopping = true;
    pthread_cond_signal(&table->earlier);
    pthread_mutex_unlock(&table->lock);
    if (table->ticks)
        pthread_join(table->clock, NULL);
}
