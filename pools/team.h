/* OpenMP teams whose members sit on given CPUs, inside pools/ only. */
#ifndef TD_TEAM_H
#define TD_TEAM_H

#include "pools/machine/cpus.h"
#include "pools/pools.h"

#include <stdatomic.h>
#include <stdint.h>

enum td_binding {
    TD_BIND_none,  /* members stay where they are */
    TD_BIND_share, /* every member may run on all of the CPUs */
    TD_BIND_each,  /* member i on the i-th CPU, round and round */
};

struct td_team {
    uint64_t id; /* never used twice, so that a member can tell whom it is bound for */
    int n;       /* members, the opener included */
    enum td_binding binding;
    struct td_cpus cpus;
    atomic_int *tid;    /* n of them: the kernel's thread ids, 0 before a member was seen */
    atomic_int broken;  /* -errno of a member that could not be bound */
    bool shrunk;        /* a smaller region has run: members beyond it may have left */
    int widest;         /* members of the largest region so far */
    void (*fn)(void *); /* the region that runs, and its data */
    void *data;
    int64_t begin_ns, own_ns;     /* when that began, and when the opener was through with its part;
                                     begin_ns 0: not looked at */
    int64_t since_ns;             /* when the job began; */
    int64_t lost_ns;              /* what it has waited for members that were very late; */
    bool crowded;                 /* that was most of it */
    int64_t rests_until, rest_ns; /* it stays alone until then, and how long that is at a time */
    struct td_team *outer;        /* while open: the opener's team before, and its */
    int outer_threads, outer_dynamic, outer_levels; /* OpenMP settings */
};

/* Takes over cpus. A machine without OpenMP gives a team of one. -ENOMEM. */
int td_team_init(struct td_team *team, int n, enum td_binding binding, struct td_cpus *cpus);
void td_team_fini(struct td_team *team);

/* Makes it the calling thread's team, starts and binds its members. 0 or -errno; in either case to
 * be undone with td_team_close by the same thread, unless that thread ends. */
int td_team_open(struct td_team *team);
/* Gives the calling thread its team before back, or none: then members still there are bound to
 * outside. The caller's own affinity is the caller's to restore. */
void td_team_close(struct td_team *team, const struct td_cpus *outside);
/* Brings members back that have left since (see shrunk). */
void td_team_mend(struct td_team *team);
/* Around each job, by the opener: afterwards the team may have to rest (td_team_is_crowded). */
void td_team_begin(struct td_team *team, int64_t now);
void td_team_end(struct td_team *team);
/* Its members; 1 while it rests. */
int td_team_threads(const struct td_team *team);
/* Binds members that are not where the team says, from any thread; true if there were any. */
bool td_team_rebind(struct td_team *team);
/* Where the member is, its affinity read back now: ok when it is what the team says. */
void td_team_look(const struct td_team *team, int member, struct td_pool_thread *thread);

#endif
