/* Sleeping until a word changes; inside pools/ only. */
#ifndef TD_FUTEX_H
#define TD_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word is value, at most timeout_ns (negative: for ever). May return early. */
static inline void td_futex_wait(atomic_int *word, int value, int64_t timeout_ns)
{
    struct timespec span = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout_ns < 0 ? NULL : &span, NULL, 0);
}

static inline void td_futex_wake(atomic_int *word, int sleepers)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, sleepers, NULL, NULL, 0);
}

#endif
