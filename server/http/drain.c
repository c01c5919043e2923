/* How an HTTP thread ends without losing a request.
 *
 * A connection whose handshake is done stands in a queue of the kernel's until it is accepted, and
 * closing the listening socket resets all that stand there. So new ones are kept out first, while
 * the queue is emptied: by a filter that drops what would begin a handshake, on all sockets of the
 * port at once, as the kernel shares connections out among these. The client's system repeats its
 * attempt a second later and is then refused; handshakes that had begun have ACCEPT_NS to finish. A
 * Unix socket is out of reach once its name is gone.
 *
 * What comes on connections is answered, each time with Connection: close (reply.c), and what is
 * idle is closed by the watch. */
#include "server/http/threads.h"

#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <unistd.h>

#define ACCEPT_NS 100000000

/* Classic BPF over a TCP header: drops SYN without ACK, lets all else pass. A kernel that does not
 * take it resets what arrives in the microseconds between the last accept and close. */
static void keep_out(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* flags */
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static int listening(const struct td_http_thread *thread)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(thread->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    return info ? info->listen_fd : -1;
}

void td_http_drain(struct td_http *http)
{
    td_listener_unlink(&http->listener);
    for (int i = 0; i < http->n_threads && http->listener.address.ss_family; i++)
        keep_out(listening(&http->thread[i]));
    atomic_store(&http->draining, true);
    for (int i = 0; i < http->n_threads; i++)
        td_http_wake(&http->thread[i]);
}

bool td_http_is_drained(const struct td_http *http)
{
    for (int i = 0; i < http->n_threads; i++)
        if (!atomic_load(&http->thread[i].drained))
            return false;
    return true;
}

void td_http_deafen(struct td_http_thread *thread)
{
    int fd = thread->daemon && !thread->deaf ? MHD_quiesce_daemon(thread->daemon) : -1;
    thread->deaf = true;
    if (fd >= 0 && fd != thread->http->listener.fd) /* which several threads have */
        close(fd);
}

void td_http_drain_turn(struct td_http_thread *thread, int64_t now)
{
    if (!thread->drain_ns)
        thread->drain_ns = now;
    td_watch_drain(&thread->watch, now);
    struct pollfd queue = {.fd = thread->deaf ? -1 : listening(thread), .events = POLLIN};
    if (!thread->deaf && now - thread->drain_ns > ACCEPT_NS && poll(&queue, 1, 0) == 0)
        td_http_deafen(thread);
    if (thread->deaf && !thread->watch.n)
        atomic_store(&thread->drained, true);
}
