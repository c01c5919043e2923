/* The net: a handler of four signals, and where the thread goes back to.
 *
 * Going back is __builtin_setjmp and __builtin_longjmp, some instructions of our own instead of two
 * calls into the C library with registers that are mangled: half a nanosecond a call of a kernel
 * where sigsetjmp takes two to four. There is no mask to restore, as the handler blocks nothing;
 * the kernel has reset floating-point control when it entered the handler, to what threads begin
 * with, and nobody here changes that.
 *
 * The handler runs on a stack of its own, for a kernel that has used up the thread's: a piece of
 * the thread's static memory, untouched until it is needed. A thread that has such a stack already
 * (a sanitizer gives one) keeps it. */
#include "kernels/trap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

#define STACK 32768 /* registers of AMX take 11 KB of it */
#define ENTRIES 64  /* of what has trapped; with the last, traps begin to end the process */

static const struct fault {
    int number;
    const char *name, *bar;
} faults[] = {
#define FAULT(name)                                                                                \
    {                                                                                              \
        name, #name, "it has trapped (" #name ") in this process"                                  \
    }
    FAULT(SIGSEGV), FAULT(SIGBUS), FAULT(SIGILL), FAULT(SIGFPE)};
#define FAULTS ((int)(sizeof faults / sizeof *faults))

_Thread_local struct td_net *td_net_now;
static _Thread_local char stack[STACK] __attribute__((aligned(64)));
static _Thread_local bool has_stack;

static struct sigaction before[FAULTS];
static bool caught[FAULTS], on;
static atomic_bool leaves;
static td_trap_note *note, *last_note;
static td_trap_mend *mender;

static const struct fault *fault_of(int number)
{
    const struct fault *f = faults;
    while (f->number != number)
        f++;
    return f;
}

/* ---- the handler ---- */

static struct td_trapped trapped_of(const struct td_net *net, bool barred)
{
    return (struct td_trapped){.signal = fault_of(net->signal)->name,
                               .address = net->address,
                               .op = net->call->op,
                               .impl = net->impl,
                               .call = net->call,
                               .barred = barred};
}

static bool may_leave(const struct td_net *net, int number, const siginfo_t *info)
{
    return !net->stays && atomic_load(&leaves) &&
           !(number == SIGBUS && info->si_code == BUS_MCEERR_AR); /* the memory itself is gone */
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    int error = errno;
    struct td_net *net = td_net_now;
    bool sent = info->si_code <= 0; /* by somebody, not by the processor */
    (void)context;
    if (!sent && number == SIGBUS && mender && mender(info->si_addr)) {
        errno = error;
        return;
    }
    if (!sent && net) {
        net->signal = number;
        net->address = info->si_addr;
        if (may_leave(net, number, info))
            __builtin_longjmp(net->back, 1);
        td_net_now = NULL; /* once */
        struct td_trapped trapped = trapped_of(net, false);
        if (last_note)
            last_note(&trapped);
    }
    sigaction(number, &before[fault_of(number) - faults], NULL);
    if (sent) /* else it comes again, to whom it belongs */
        raise(number);
}

static void handle(int i)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    if (!caught[i])
        sigaction(faults[i].number, &action, &before[i]);
    caught[i] = true;
}

void td_trap_catch(bool leave, td_trap_note *told, td_trap_note *last)
{
    note = told;
    last_note = last;
    atomic_store(&leaves, leave);
    for (int i = 0; i < FAULTS; i++)
        handle(i);
    on = true;
}

void td_trap_mender(td_trap_mend *mend)
{
    mender = mend;
    handle((int)(fault_of(SIGBUS) - faults));
}

static void take_stack(void)
{
    stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack}, is;
    has_stack = true;
    if (!sigaltstack(NULL, &is) && is.ss_flags & SS_DISABLE &&
        getauxval(AT_MINSIGSTKSZ) < STACK / 2)
        sigaltstack(&mine, NULL);
}

/* ---- what has trapped ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
    const struct td_op *op;
    const struct td_impl *impl;
    const struct fault *fault;
    bool barred;
    atomic_llong n;
} entries[ENTRIES]; /* what is there stays; only n changes */
static atomic_int n_entries;
atomic_uint td_traps_barred;

/* A table's last row stays, whatever it does. */
static bool count(const struct td_net *net)
{
    const struct td_op *op = net->call->op;
    const struct fault *fault = fault_of(net->signal);
    int i = 0;
    pthread_mutex_lock(&lock);
    int n = atomic_load(&n_entries);
    while (i < n &&
           (entries[i].op != op || entries[i].impl != net->impl || entries[i].fault != fault))
        i++;
    if (i == n && n < ENTRIES) {
        bool barred = net->impl && net->impl[1].run;
        entries[i] = (struct entry){op, net->impl, fault, barred, 0};
        atomic_store(&n_entries, n + 1);
        atomic_fetch_add(&td_traps_barred, barred);
        atomic_store(&leaves, n + 1 < ENTRIES && atomic_load(&leaves));
    }
    if (i < ENTRIES)
        atomic_fetch_add(&entries[i].n, 1);
    pthread_mutex_unlock(&lock);
    return i < ENTRIES && entries[i].barred;
}

const char *td_trap_bar(const struct td_op *op, const struct td_impl *impl)
{
    int n = atomic_load(&n_entries);
    for (int i = 0; i < n; i++)
        if (entries[i].op == op && entries[i].impl == impl && entries[i].barred)
            return entries[i].fault->bar;
    return NULL;
}

int td_trap_refuse(const struct td_op *op, const struct td_impl *impl, struct td_problem *problem)
{
    const char *bar = td_trap_bars(op, impl);
    return bar ? td_problem_set(problem, EFAULT,
                                "the kernel %s@%s was chosen for this call, and %s since; the next "
                                "call gets another",
                                impl->name, td_isa_name(impl->isa), bar)
               : 0;
}

bool td_trap_at(int i, struct td_trap_count *count)
{
    if (i >= atomic_load(&n_entries))
        return false;
    const struct entry *e = &entries[i];
    *count = (struct td_trap_count){e->op, e->impl, e->fault->name, atomic_load(&e->n)};
    return true;
}

static int settle(const struct td_net *net, struct td_problem *problem)
{
    struct td_trapped trapped = trapped_of(net, count(net));
    if (note)
        note(&trapped);
    const char *name = net->call->op->schema;
    int n = (int)strcspn(name, "(");
    if (!net->impl)
        return td_problem_set(problem, EFAULT, "%.*s: its look at the data has failed (%s)", n,
                              name, trapped.signal);
    return td_problem_set(
        problem, EFAULT, "%.*s: the kernel %s@%s has failed (%s)%s", n, name, net->impl->name,
        td_isa_name(net->impl->isa), trapped.signal,
        trapped.barred ? "; it is not used again: another one serves the next call" : "");
}

/* ---- under the net ---- */

/* Whether fn has trapped; net->signal is what, then. */
static __attribute__((noinline)) bool traps(struct td_net *net, void (*fn)(void *), void *arg)
{
    if (!has_stack)
        take_stack();
    net->before = td_net_now;
    if (__builtin_setjmp(net->back)) {
        td_net_now = td_net_now->before; /* this net's: all that lie on it are gone */
        return true;
    }
    td_net_now = net;
    fn(arg);
    td_net_now = net->before;
    return false;
}

int td_trap_run(const struct td_impl *impl, const struct td_call *call, void (*fn)(void *arg),
                void *arg, struct td_problem *problem)
{
    struct td_net net;
    if (!on) {
        fn(arg);
        return 0;
    }
    net.impl = impl;
    net.call = call;
    net.stays = false;
    return traps(&net, fn, arg) ? settle(&net, problem) : 0;
}

void td_net_lift(struct td_net *net)
{
    net->outer = td_net_now;
    net->signal = 0;
    td_net_now = NULL;
}

void td_net_under(struct td_net *net, void (*fn)(void *arg), void *arg)
{
    if (!net->outer) {
        fn(arg);
        return;
    }
    net->impl = net->outer->impl;
    net->call = net->outer->call;
    net->stays = net->outer->stays;
    net->signal = 0;
    traps(net, fn, arg);
}

void td_net_drop(struct td_net *net)
{
    td_net_now = net->outer;
    if (!net->signal)
        return;
    net->outer->impl = net->impl;
    net->outer->call = net->call;
    net->outer->signal = net->signal;
    net->outer->address = net->address;
    __builtin_longjmp(net->outer->back, 1);
}
