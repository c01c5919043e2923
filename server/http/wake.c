/* How another thread wakes an HTTP thread that sleeps (loop.c says how neither misses the other).
 */
#include "server/http/threads.h"

#include <stdlib.h>
#include <unistd.h>

void td_http_wake(struct td_http_thread *thread)
{
    uint64_t one = 1;
    atomic_fetch_add(&thread->replies, 1);
    if (atomic_exchange(&thread->asleep, false) && write(thread->wake, &one, sizeof one) < 0)
        abort(); /* no eventfd has so many */
}
