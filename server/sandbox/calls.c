/* seccomp: the system calls that a running server makes. The kernel runs the filter for each call;
 * since Linux 5.11 it remembers which are allowed whatever their arguments, so these cost nothing.
 */
#include "server/sandbox/sandbox.h"

#include "server/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __x86_64__
#define TAKEN false
#else
#define TAKEN true
#endif

/* Includes calls that newer C libraries make instead, for which older headers have no name. */
static const int allowed[] = {
    /* memory */
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mincore, SYS_msync, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy,
    SYS_move_pages, SYS_migrate_pages, SYS_membarrier, SYS_memfd_create,
    /* files */
    SYS_read, SYS_readv, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_write, SYS_writev, SYS_pwrite64,
    SYS_open, SYS_openat, SYS_openat2, SYS_close, SYS_close_range, SYS_lseek, SYS_fstat, SYS_stat,
    SYS_lstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs, SYS_access, SYS_faccessat,
    SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_rename,
    SYS_renameat, SYS_renameat2, SYS_fsync, SYS_fdatasync, SYS_fchmod, SYS_flock, SYS_ftruncate,
    SYS_unlink, SYS_unlinkat, SYS_dup, SYS_dup2, SYS_dup3, SYS_pipe, SYS_pipe2, SYS_sendfile,
    SYS_splice, SYS_fadvise64,
    /* connections that clients have opened */
    SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_sendto, SYS_sendmsg,
    SYS_sendmmsg, SYS_shutdown, SYS_setsockopt, SYS_getsockopt, SYS_getsockname, SYS_getpeername,
    /* waiting */
    SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_create, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_wait, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd, SYS_eventfd2,
    SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime, SYS_nanosleep,
    SYS_clock_nanosleep, SYS_pause, SYS_futex, SYS_futex_waitv, 454, 455, 456 /* futex2 */,
    /* threads */
    SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_set_tid_address, SYS_gettid,
    SYS_sched_yield, SYS_sched_setaffinity, SYS_sched_getaffinity, SYS_sched_setscheduler,
    SYS_sched_getscheduler, SYS_sched_getparam, SYS_sched_setparam, SYS_sched_setattr,
    SYS_sched_getattr, SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_setpriority,
    SYS_getpriority, SYS_getcpu, SYS_arch_prctl, SYS_prctl, SYS_exit, SYS_exit_group,
    SYS_restart_syscall,
    /* signals */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend, SYS_sigaltstack,
    /* who and when */
    SYS_getpid, SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname,
    SYS_sysinfo, SYS_getrusage, SYS_getrlimit, SYS_times, SYS_time, SYS_gettimeofday,
    SYS_clock_gettime, SYS_clock_getres, SYS_getrandom, 459 /* lsm_get_self_attr */};
#define ALLOWED (sizeof allowed / sizeof *allowed)

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Skips so many where what was loaded is the value, and where it is not. */
#define CASE(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define IS(value) CASE(value, 0, 1) /* else skips the next one */
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

static const struct td_log *log_of_calls;

/* Writes the number by hand: a signal handler may not call printf. */
static void on_denied(int number, siginfo_t *info, void *context)
{
    char text[100] = "the system call ", digits[12];
    int n = 0, call = info->si_syscall;
    (void)context;
    do
        digits[n++] = (char)('0' + call % 10);
    while ((call /= 10) > 0 && n < 11);
    for (size_t at = strlen(text); n; at++)
        text[at] = digits[--n];
    strcat(text, " is none of a server's, and ends it (sandbox)");
    if (log_of_calls)
        td_log_last_words(log_of_calls, "sandbox", text);
    raise(number); /* now as it is by default */
    _exit(1);
}

/* clone3 fails with ENOSYS: the C library then calls clone, whose flags a filter can read, and
 * which is allowed for threads only. prlimit is allowed for this process only. */
static unsigned short write_filter(struct sock_filter *to)
{
    const struct sock_filter before[] = {
        LOAD(arch),
        CASE(AUDIT_ARCH_X86_64, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
        /* signals to itself alone, whether at once or when a file is ready */
        CASE(SYS_tgkill, 0, 4),
        LOAD(args[0]),
        IS((unsigned)getpid()),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
        CASE(SYS_fcntl, 0, 6),
        LOAD(args[1]),
        CASE(F_SETOWN, 3, 0),
        CASE(F_SETOWN_EX, 2, 0),
        CASE(F_SETSIG, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
        /* nothing typed into the terminal that it was started from */
        CASE(SYS_ioctl, 0, 5),
        LOAD(args[1]),
        CASE(TIOCSTI, 2, 0),
        CASE(TIOCLINUX, 1, 0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    const struct sock_filter after[] = {
        IS(SYS_clone3),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        CASE(SYS_prlimit64, 0, 4),
        LOAD(args[0]),
        IS(0),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
        CASE(SYS_clone, 1, 0),
        RETURN(SECCOMP_RET_TRAP),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1),
        RETURN(SECCOMP_RET_ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    size_t n = sizeof before / sizeof *before;
    memcpy(to, before, sizeof before);
    for (size_t i = 0; i < ALLOWED; i++) {
        to[n++] = (struct sock_filter)IS((unsigned)allowed[i]);
        to[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    }
    memcpy(to + n, after, sizeof after);
    return (unsigned short)(n + sizeof after / sizeof *after);
}

int td_sandbox_calls(const struct td_log *log)
{
    struct sock_filter filter[2 * ALLOWED + 64];
    struct sock_fprog program = {.filter = filter, .len = write_filter(filter)};
    struct sigaction action = {.sa_sigaction = on_denied,
                               .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESETHAND};
    if (!TAKEN)
        return -ENOSYS;
    log_of_calls = log;
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -errno;
    long got = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return got < 0 ? -errno : got ? -EBUSY : 0;
}

void td_sandbox_memory(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (TAKEN) /* a sanitizer looks into its own process as another would */
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
