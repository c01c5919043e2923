/* Looking at sessions: one, a model's, and their totals. What is seen is of one moment. */
#include "api/sessions/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void td_sessions_stats(struct td_sessions *sessions, struct td_session_stats *stats)
{
    pthread_mutex_lock(&sessions->lock);
    *stats = (struct td_session_stats){.bytes = sessions->budget.used,
                                       .limit = sessions->budget.limit,
                                       .steps = sessions->steps,
                                       .conflicts = sessions->conflicts};
    memcpy(stats->ended, sessions->ended, sizeof stats->ended);
    pthread_mutex_unlock(&sessions->lock);
}

int td_sessions_groups(struct td_sessions *sessions, struct td_arena *arena,
                       struct td_session_group **groups)
{
    int n = 0, room = 0;
    pthread_mutex_lock(&sessions->lock);
    for (const struct td_session_kin *kin = sessions->kin; kin; kin = kin->next)
        room++;
    *groups = td_arena_zalloc(arena, sizeof **groups * (size_t)room + 1);
    for (const struct td_session_kin *kin = sessions->kin; kin && *groups; kin = kin->next) {
        const char *model = td_arena_strdup(arena, kin->model, strlen(kin->model));
        if (model)
            (*groups)[n++] = (struct td_session_group){model, kin->n, kin->bytes};
    }
    pthread_mutex_unlock(&sessions->lock);
    return *groups && n == room ? n : -ENOMEM;
}

static bool see(struct td_session *session, struct td_arena *arena, int64_t now,
                struct td_session_view *view)
{
    const char *name = td_session_name(session);
    *view = (struct td_session_view){.owner = td_account_name(session->owner),
                                     .step = session->step,
                                     .bytes = session->taken,
                                     .busy = session->busy,
                                     .node = session->node,
                                     .idle_ns = session->busy ? 0 : now - session->used_ns,
                                     .left_ns = session->ttl_s * INT64_C(1000000000)};
    if (!session->busy)
        view->left_ns = session->expires_ns - now;
    memcpy(view->pool, session->pool, sizeof view->pool);
    view->name = td_arena_strdup(arena, name, strlen(name));
    return view->name;
}

void td_session_view_end(struct td_session_view *view)
{
    td_contents_unref(&view->contents);
    td_served_unref(&view->served);
}

int td_sessions_see(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                    const char *name, struct td_arena *arena, struct td_session_view *view)
{
    pthread_mutex_lock(&sessions->lock);
    struct td_session *session = td_session_find(sessions, viewer, model, name);
    int err = !session ? -ENOENT : see(session, arena, td_now_ns(), view) ? 0 : -ENOMEM;
    if (!err) {
        view->contents = td_contents_ref(session->contents);
        view->served = session->served;
        atomic_fetch_add(&view->served->refs, 1);
    }
    pthread_mutex_unlock(&sessions->lock);
    return err;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_session_view *)a)->name,
                  ((const struct td_session_view *)b)->name);
}

int td_sessions_list(struct td_sessions *sessions, struct td_viewer viewer, const char *model,
                     const char *after, int most, struct td_arena *arena,
                     struct td_session_view **list, struct td_session_group *total)
{
    int n = 0, err = 0;
    int64_t now = td_now_ns();
    pthread_mutex_lock(&sessions->lock);
    const struct td_session_kin *kin = td_session_kin_of(sessions, model);
    *total = (struct td_session_group){model, kin ? kin->n : 0, kin ? kin->bytes : 0};
    struct td_session_view *all = *list = td_arena_alloc(arena, sizeof *all * (size_t)total->n + 1);
    struct td_session *session = kin && all ? kin->first : NULL;
    for (; session && !err; session = session->sibling) {
        if (!td_session_is_seen(session, viewer)) {
            total->n--;
            total->bytes -= session->taken;
        } else if (!session->busy && session->expires_ns <= now)
            total->n--;
        else if (strcmp(td_session_name(session), after) > 0)
            err = see(session, arena, now, &all[n++]) ? 0 : -ENOMEM;
    }
    pthread_mutex_unlock(&sessions->lock);
    if (!all || err)
        return -ENOMEM;
    qsort(all, (size_t)n, sizeof *all, by_name);
    return n < most ? n : most;
}
