/* server/sandbox: each thing that the process must not do any more is tried in a child, which says
 * how it came out; so that a system that lacks Landlock or seccomp skips, which is said. */
#include "server/sandbox/sandbox.h"
#include "tests/run_tests.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FINE = 10, DENIED, ABSENT }; /* exit status of a child */

static char folder[64], outside[64];
static struct sockaddr_un abstract; /* of this process, which listens there */
static int listener;

static void start(void)
{
    char text[100];
    strcpy(folder, "/tmp/tensord-sandbox-XXXXXX");
    strcpy(outside, "/tmp/tensord-outside-XXXXXX");
    ck_assert(mkdtemp(folder) && mkdtemp(outside));
    const char *const made[] = {"models/a/1", "models/a", "models", "tokens"};
    for (int i = 3; i >= 0; i--) {
        snprintf(text, sizeof text, "%s/%s", folder, made[i]);
        ck_assert(!mkdir(text, 0700));
    }
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s/%s", i ? outside : folder,
                 i ? "secret" : "models/a/1/model.onnx");
        int fd = open(text, O_CREAT | O_WRONLY, 0600);
        ck_assert(fd >= 0 && write(fd, "x", 1) == 1 && !close(fd));
    }
    abstract.sun_family = AF_UNIX;
    strcpy(abstract.sun_path + 1, folder);
    listener = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert(!bind(listener, (struct sockaddr *)&abstract, sizeof abstract) &&
              !listen(listener, 8));
}

static void finish(void)
{
    char text[200];
    close(listener);
    snprintf(text, sizeof text, "rm -rf %s %s", folder, outside);
    ck_assert_int_eq(system(text), 0);
}

static int opens(const char *root, const char *name, int flags)
{
    char path[200];
    snprintf(path, sizeof path, "%s%s", root, name);
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0 ? FINE : errno == EACCES ? DENIED : 0;
}

/* ---- what is tried ---- */

static int model(void)
{
    return opens(folder, "/models/a/1/model.onnx", O_RDONLY);
}
static int model_written(void)
{
    return opens(folder, "/models/a/1/model.onnx", O_WRONLY);
}
static int model_made(void)
{
    return opens(folder, "/models/new", O_CREAT | O_WRONLY);
}
static int linked(void)
{
    return opens(folder, "/models/link", O_RDONLY);
}
static int secret(void)
{
    return opens(outside, "/secret", O_RDONLY);
}
static int shadow(void)
{
    return opens("/etc", "/passwd", O_RDONLY);
}
static int statm(void)
{
    return opens("/proc", "/self/statm", O_RDONLY);
}
static int memory_of_parent(void)
{
    char name[40];
    snprintf(name, sizeof name, "/%d/mem", (int)getppid());
    return opens("/proc", name, O_RDONLY);
}

static int program(void)
{
    char *words[] = {"true", NULL};
    execv("/bin/true", words);
    return errno == EACCES ? DENIED : 0;
}

static int address(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    return !connect(s, (struct sockaddr *)&to, sizeof to) || errno == ECONNREFUSED ? FINE
           : errno == EACCES                                                       ? DENIED
                                                                                   : 0;
}

static int signal_to_parent(void)
{
    return !kill(getppid(), 0) ? FINE : errno == EPERM ? DENIED : 0;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? FINE : 0;
}
static int new_process(void)
{
    pid_t child = fork();
    if (!child)
        _exit(0);
    return child > 0 ? FINE : 0;
}
static int traced(void)
{
    return !ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? FINE : 0;
}
static int limits_of_parent(void)
{
    struct rlimit limit;
    return !prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) ? FINE : 0;
}
static int new_process_by_clone3(void)
{
    uint64_t args[8] = {0, 0, 0, 0, SIGCHLD};
    long child = syscall(SYS_clone3, args, sizeof args);
    if (!child)
        _exit(0);
    return child > 0 ? FINE : errno == ENOSYS ? DENIED : 0;
}
/* One without a file, which no rule for files keeps. */
static int socket_of_parent(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    return !connect(s, (struct sockaddr *)&abstract, sizeof abstract) ? FINE
           : errno == EPERM                                           ? DENIED
                                                                      : 0;
}
/* getpid by the numbers of 32-bit programs, among which it is 20: writev here. */
static int call_of_32_bits(void)
{
    long got = 20;
#if defined __x86_64__
    __asm__ volatile("int $0x80" : "+a"(got) : : "memory");
#endif
    return got == getpid() ? FINE : 0;
}
static int signal_by_tgkill(void) /* which signals to itself need */
{
    return !syscall(SYS_tgkill, getppid(), getppid(), 0) ? FINE : errno == EPERM ? DENIED : 0;
}
static int signal_to_itself(void)
{
    return !signal(SIGUSR1, SIG_IGN) && !raise(SIGUSR1) ? FINE : 0;
}
static int signal_by_file(void) /* when that is ready */
{
    return !fcntl(listener, F_SETOWN, getppid()) ? FINE : errno == EPERM ? DENIED : 0;
}
static int flags_of_file(void)
{
    return fcntl(listener, F_GETFL) >= 0 ? FINE : 0;
}
static int typed(void) /* for the shell that has started the server */
{
    return ioctl(listener, TIOCSTI, "x") && errno == ENOTTY ? FINE : 0;
}
static int other_kernel_call(void)
{
    return syscall(SYS_umask, 077) >= 0 ? FINE : 0;
}

static void *nothing(void *arg)
{
    return arg;
}
static int new_thread(void)
{
    pthread_t thread;
    return !pthread_create(&thread, NULL, nothing, NULL) && !pthread_join(thread, NULL) ? FINE : 0;
}
static int code_in_memory(void)
{
    int fd = memfd_create("code", MFD_CLOEXEC);
    return fd >= 0 && !ftruncate(fd, 4096) &&
                   mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0) != MAP_FAILED
               ? FINE
               : 0;
}
static int shared_memory(void)
{
    int fd = shm_open("/tensord-test-sandbox", O_RDWR, 0);
    return fd >= 0 || errno == ENOENT ? FINE : 0;
}

static int new_shared_memory(void)
{
    return opens("/dev/shm", strrchr(folder, '/'), O_CREAT | O_WRONLY);
}

static const struct {
    const char *what;
    int (*run)(void);
    int files, calls; /* how it comes out then; 0 for calls: it ends the process */
    int version;      /* of Landlock, from which on */
} tries[] = {
    {"a model", model, FINE, FINE, 1},
    {"a model that is written", model_written, DENIED, FINE, 1},
    {"a file beside models", model_made, DENIED, FINE, 1},
    {"what a link among models leads to", linked, FINE, FINE, 1},
    {"a file elsewhere", secret, DENIED, FINE, 1},
    {"/etc/passwd", shadow, DENIED, FINE, 1},
    {"/proc/self/statm", statm, FINE, FINE, 1},
    {"another process's memory", memory_of_parent, DENIED, FINE, 1},
    {"a program", program, DENIED, 0, 1},
    {"a TCP address", address, DENIED, 0, 4},
    {"a signal", signal_to_parent, DENIED, 0, 6},
    {"a socket", new_socket, FINE, 0, 1},
    {"another's abstract socket", socket_of_parent, DENIED, 0, 6},
    {"a process", new_process, FINE, 0, 1},
    {"a process by clone3", new_process_by_clone3, 0, DENIED, 99},
    {"a call of 32-bit programs", call_of_32_bits, 0, 0, 99},
    {"a new file in shared memory", new_shared_memory, DENIED, FINE, 1},
    {"being traced", traced, 0, 0, 99},
    {"another's limits", limits_of_parent, 0, 0, 99},
    {"a signal by tgkill", signal_by_tgkill, DENIED, 0, 6},
    {"a signal to itself", signal_to_itself, FINE, FINE, 1},
    {"a signal by a file", signal_by_file, FINE, 0, 99},
    {"flags of a file", flags_of_file, FINE, FINE, 1},
    {"what is typed", typed, FINE, 0, 99},
    {"umask", other_kernel_call, FINE, 0, 1},
    {"a thread", new_thread, FINE, FINE, 1},
    {"code in memory", code_in_memory, FINE, FINE, 1},
    {"shared memory", shared_memory, FINE, FINE, 1},
};

static long version_of_landlock(void)
{
    return syscall(444 /* landlock_create_ruleset */, NULL, 0, 1);
}

static int in_child(bool files, int i)
{
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        char models[100], tokens[100];
        struct td_config config = {.models = models};
        snprintf(models, sizeof models, "%s/models", folder);
        snprintf(tokens, sizeof tokens, "%s/tokens/file", folder);
        config.tokens = tokens;
        config.config = config.tls_cert = config.tls_key = config.tls_client_ca = "";
        config.choices = config.dump_jit = "";
        int got = files ? td_sandbox_files(&config) : td_sandbox_calls(NULL);
        _exit(got ? ABSENT : tries[i].run());
    }
    int status;
    ck_assert(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void link_models(void)
{
    char from[200], to[200];
    snprintf(from, sizeof from, "%s/secret2", outside);
    snprintf(to, sizeof to, "%s/models/link", folder);
    int fd = open(from, O_CREAT | O_WRONLY, 0600);
    ck_assert(fd >= 0 && !close(fd) && !symlink(from, to));
}

/* right: how each comes out, 0 where nothing is said of it. */
static void try_all(bool files, const char *skipped, int (*right)(size_t i))
{
    start();
    link_models();
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        int got = in_child(files, (int)i);
        if (got == ABSENT) {
            printf("skipped: %s\n", skipped);
            break;
        }
        if (right(i))
            ck_assert_msg(got == right(i), "%s: %d, not %d", tries[i].what, got, right(i));
    }
    finish();
}

static int right_of_files(size_t i)
{
    return version_of_landlock() >= tries[i].version ? tries[i].files : 0;
}

static int right_of_calls(size_t i)
{
    if (tries[i].run == memory_of_parent) /* as the system lets it */
        return 0;
    return tries[i].calls ? tries[i].calls : -SIGSYS;
}

START_TEST(test_files)
{
    try_all(true, "this kernel has no Landlock", right_of_files);
}
END_TEST

START_TEST(test_calls)
{
    try_all(false, "no seccomp here, or a sanitizer is built in", right_of_calls);
}
END_TEST

/* What would lead out of the process, or to more rights: each with arguments that are wrong, so
 * that nothing comes of it where it is let through. */
START_TEST(test_calls_that_lead_out)
{
    static const int calls[] = {
        /* programs and processes */
        SYS_execve, SYS_execveat, SYS_fork, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
        SYS_kill, SYS_tkill, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal,
        /* sockets, and what else others see */
        SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_shmget, SYS_msgget,
        /* the kernel */
        SYS_bpf, SYS_io_uring_setup, SYS_io_uring_enter, SYS_perf_event_open, SYS_userfaultfd,
        SYS_seccomp, SYS_init_module, SYS_finit_module, SYS_kexec_load, SYS_reboot, SYS_syslog,
        SYS_keyctl, SYS_add_key, SYS_request_key, SYS_modify_ldt, SYS_iopl, SYS_ioperm,
        SYS_personality,
        /* who it is, and where */
        SYS_setuid, SYS_setgid, SYS_setresuid, SYS_setgroups, SYS_capset, SYS_unshare, SYS_setns,
        SYS_chroot, SYS_pivot_root, SYS_mount, SYS_umount2, SYS_swapon, SYS_quotactl,
        SYS_sethostname, SYS_settimeofday,
        /* files */
        SYS_open_by_handle_at, SYS_name_to_handle_at, SYS_fanotify_init, SYS_chmod, SYS_chown,
        SYS_link, SYS_symlink, SYS_mknod, SYS_mkdir, SYS_truncate};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (!child) {
            if (td_sandbox_calls(NULL))
                _exit(ABSENT);
            syscall(calls[i], -1L, -1L, -1L, -1L, -1L, -1L);
            _exit(FINE);
        }
        ck_assert(child > 0 && waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == ABSENT) {
            printf("skipped: no seccomp here, or a sanitizer is built in\n");
            return;
        }
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "call %d", calls[i]);
    }
}
END_TEST

START_TEST(test_memory)
{
    struct rlimit limit;
    td_sandbox_memory();
    ck_assert(!getrlimit(RLIMIT_CORE, &limit) && !limit.rlim_cur && !limit.rlim_max);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE), 0);
#endif
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_files, test_calls, test_calls_that_lead_out, test_memory};
    return td_run_tests("server_sandbox", tests, sizeof tests / sizeof *tests);
}
