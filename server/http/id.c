/* By what a request is known: the id that its client has given it, or one that is made here, and
 * its place in a trace of the client's (https://www.w3.org/TR/trace-context/). Both come back with
 * the reply and stand in the log, so they are taken as they are or not at all. */
#include "server/http/threads.h"

#include <string.h>
#include <sys/random.h>

#define LONGEST 128
#define TRACE 55 /* bytes of version 00: 2, 32, 16 and 2 hexadecimal digits with dashes between */

/* One of 2^64, each of which comes once, in an order of the thread's own. */
const char *td_http_id_make(struct td_http_thread *thread, char id[TD_ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    if (!thread->ids && getrandom(&thread->ids, sizeof thread->ids, GRND_NONBLOCK) < 0)
        thread->ids = (uint64_t)td_now_ns() ^ (uint64_t)(uintptr_t)thread;
    uint64_t n = thread->ids += 0x9e3779b97f4a7c15;
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9;
    n = (n ^ n >> 27) * 0x94d049bb133111eb;
    n ^= n >> 31;
    for (int i = 0; i < TD_ID_SIZE - 1; i++)
        id[i] = digits[n >> 4 * i & 15];
    id[TD_ID_SIZE - 1] = 0;
    return id;
}

const char *td_http_id_judge(const char *id)
{
    size_t n = 0;
    while (id && n <= LONGEST && id[n] > ' ' && id[n] <= '~')
        n++;
    return n && n <= LONGEST && !id[n] ? id : NULL;
}

static bool is_hex(const char *text, size_t n, bool may_be_zero)
{
    size_t zeros = strspn(text, "0");
    return strspn(text, "0123456789abcdef") == n && (may_be_zero || zeros < n);
}

const char *td_http_trace_judge(const char *trace)
{
    bool right = trace && strlen(trace) == TRACE && memcmp(trace, "ff", 2) &&
                 is_hex(trace, 2, true) && is_hex(trace + 3, 32, false) &&
                 is_hex(trace + 36, 16, false) && is_hex(trace + 53, 2, true) && trace[2] == '-' &&
                 trace[35] == '-' && trace[52] == '-';
    return right ? trace : NULL;
}
