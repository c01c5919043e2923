/* The table of tasks as a structure: a hash by id and two lists, those under way and those done.
 * What begins and ends a task is table.c's. */
#include "api/tasks/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void td_task_append(struct td_task_queue *list, struct td_task *task)
{
    task->next = NULL;
    task->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = task;
    list->last = task;
}

void td_task_cut(struct td_task_queue *list, struct td_task *task)
{
    *(task->prev ? &task->prev->next : &list->first) = task->next;
    *(task->next ? &task->next->prev : &list->last) = task->prev;
}

static struct td_task **bucket_of(struct td_task_table *table, const char *id)
{
    char digits[4] = {0};
    snprintf(digits, sizeof digits, "%.3s", id);
    return &table->bucket[strtoul(digits, NULL, 16) % TD_TASK_BUCKETS];
}

struct td_task **td_task_place(struct td_task_table *table, const char *id)
{
    struct td_task **at = bucket_of(table, id);
    while (*at && strcmp((*at)->id, id))
        at = &(*at)->same;
    return at;
}

void td_task_unlink(struct td_task *task)
{
    struct td_task **at = td_task_place(task->table, task->id);
    *at = task->same;
    td_task_cut(task->state == TD_TASK_done ? &task->table->done : &task->table->active, task);
}

void td_task_unref(struct td_task *task)
{
    if (!task || atomic_fetch_sub(&task->refs, 1) != 1)
        return;
    td_budget_give(&task->table->budget, task->bytes);
    td_account_give(task->owner, task->bytes);
    free(task->block_);
    free(task);
}

/* ---- looking ---- */

static bool is_seen(const struct td_task *task, struct td_viewer viewer)
{
    return viewer.all || task->owner == viewer.account;
}

struct td_task *td_task_find(struct td_task_table *table, struct td_viewer viewer, const char *id)
{
    pthread_mutex_lock(&table->lock);
    struct td_task *task = *td_task_place(table, id);
    task = task && is_seen(task, viewer) ? task : NULL;
    if (task)
        atomic_fetch_add(&task->refs, 1);
    pthread_mutex_unlock(&table->lock);
    return task;
}

enum td_task_state td_task_state(struct td_task *task)
{
    pthread_mutex_lock(&task->table->lock);
    enum td_task_state state = task->state;
    pthread_mutex_unlock(&task->table->lock);
    return state;
}

int td_task_list(struct td_task_table *table, struct td_viewer viewer, struct td_task **list,
                 int max)
{
    int n = 0;
    pthread_mutex_lock(&table->lock);
    for (int k = 0; k < 2; k++)
        for (struct td_task *t = k ? table->done.first : table->active.first; t && n < max;
             t = t->next) {
            if (!is_seen(t, viewer))
                continue;
            atomic_fetch_add(&t->refs, 1);
            list[n++] = t;
        }
    pthread_mutex_unlock(&table->lock);
    return n;
}

void td_task_table_stats(struct td_task_table *table, struct td_task_stats *stats)
{
    pthread_mutex_lock(&table->lock);
    *stats = table->stats;
    stats->bytes = table->budget.used;
    pthread_mutex_unlock(&table->lock);
}
