/* epoll_wait in front of the C library's, for libmicrohttpd, which finds this one as the program's.
 *
 * It asks for at most 128 events; when it gets exactly 128 it asks again before it handles them,
 * and with its whole timeout (seen in 0.9.75, daemon.c, MHD_epoll). So 128 or 256 clients that all
 * send and wait for their answers were not answered until another connection had something to say,
 * or 30 seconds had passed. An array that is never quite filled keeps it from asking again; events
 * that were left are there at the next call. The alternative, running its loop from outside, costs
 * a system call more for each request. */
#include <stddef.h>
#include <sys/epoll.h>

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events, int n,
                                                      int timeout)
{
    return epoll_pwait(fd, events, n > 1 ? n - 1 : n, timeout, NULL);
}
