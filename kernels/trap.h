/* The last net under kernels: what becomes of a call whose kernel makes the processor raise
 * SIGSEGV, SIGBUS, SIGILL or SIGFPE. The kernel is left where it is, the call fails with -EFAULT,
 * and the row is barred: nobody selects it any more for this operator in this process, but for a
 * table's last one, the reference.
 *
 * A row of our own can be left at any instruction: kernels do not allocate or lock, so that all
 * they leave behind is memory of results and scratch, which is given back as after any call that
 * fails. What does more within a row lifts the net meanwhile and lays another under its own parts:
 * a team's barrier is reached, a lock is given back. A library's row cannot be left: its frames
 * have destructors, flags of what is begun only once, barriers of its own. A trap there, as one
 * outside of rows, ends the process. So does a page that the machine itself has lost.
 *
 * That a kernel which has written where it should not has spoilt something else before it trapped
 * cannot be ruled out: hence td_trap_catch's leave. */
#ifndef TD_KERNELS_TRAP_H
#define TD_KERNELS_TRAP_H

#include "kernels/kernels.h"

struct td_trapped {     /* a kernel's trap */
    const char *signal; /* "SIGSEGV" */
    const void *address;
    const struct td_op *op;
    const struct td_impl *impl; /* NULL: the operator's check of the data */
    const struct td_call *call;
    bool barred; /* the row runs no more */
};
typedef void td_trap_note(const struct td_trapped *trapped);

/* Catches traps from here on; to be called before there are other threads. leave: false, and each
 * ends the process. note: is told of each that does not, by the thread that had called; last: of
 * one that does, by the signal's handler. Either may be NULL. */
void td_trap_catch(bool leave, td_trap_note *note, td_trap_note *last);

/* Who can make a page be there again that raised SIGBUS; asked first, by the signal's handler, on
 * any thread. Catches that signal if nothing else does. */
typedef bool td_trap_mend(const void *address);
void td_trap_mender(td_trap_mend *mend);

/* Runs fn under the net for a row, or for rows that td_net_note names. 0, or -EFAULT: it has
 * trapped, which problem, where it is given, says. */
int td_trap_run(const struct td_impl *impl, const struct td_call *call, void (*fn)(void *arg),
                void *arg, struct td_problem *problem);

/* ---- what has trapped ---- */

extern atomic_uint td_traps_barred; /* rows; whoever keeps selected rows compares it */

/* Why the operator's row may not run, a constant text; NULL: it may. Operators share rows, and each
 * has its own bar. */
const char *td_trap_bar(const struct td_op *op, const struct td_impl *impl);
static inline const char *td_trap_bars(const struct td_op *op, const struct td_impl *impl)
{
    return atomic_load_explicit(&td_traps_barred, memory_order_relaxed) ? td_trap_bar(op, impl)
                                                                        : NULL;
}

/* 0, or -EFAULT where a row that was selected is barred, which problem, where it is given, says. */
int td_trap_refuse(const struct td_op *op, const struct td_impl *impl, struct td_problem *problem);

struct td_trap_count {
    const struct td_op *op;
    const struct td_impl *impl; /* NULL: the operator's check */
    const char *signal;
    long long n;
};
/* The i-th of those that have trapped, in their order; false: there are not so many. */
bool td_trap_at(int i, struct td_trap_count *count);

/* ---- for what runs within rows ---- */

struct td_net {
    void *back[5]; /* __builtin_setjmp's */
    struct td_net *before, *outer;
    const struct td_impl *impl;
    const struct td_call *call;
    bool stays; /* it may not be left */
    int signal; /* that was raised; 0: none */
    const void *address;
};
extern _Thread_local struct td_net *td_net_now; /* NULL: no row is left from here */

/* Which of several rows runs, whose names tell who has trapped. */
static inline void td_net_note(const struct td_impl *impl, const struct td_call *call)
{
    if (td_net_now) {
        td_net_now->impl = impl;
        td_net_now->call = call;
    }
}

/* From lift to drop the row is not left, but for what runs under a net of that outer one: of this
 * thread, or of another that works for it (a net of its own, with the lifted one's outer). drop
 * leaves the row where one of those has trapped, which net->signal says. */
void td_net_lift(struct td_net *net);
void td_net_under(struct td_net *net, void (*fn)(void *arg), void *arg);
void td_net_drop(struct td_net *net);

#endif
