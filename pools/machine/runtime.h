/* The OpenMP runtime and the way of binding threads, chosen once; inside pools/ only. */
#ifndef TD_RUNTIME_H
#define TD_RUNTIME_H

#include "pools/machine/cpus.h"

struct td_runtime {
    const char *backend; /* "pthread", "kmp" or "none"; NULL before td_runtime_init */
    const char *library; /* file of the OpenMP runtime, NULL when there is none */
    /* The runtime's functions; all NULL without one. */
    void (*parallel)(void (*fn)(void *), void *data, unsigned threads, unsigned flags);
    void (*parallel_start)(void (*fn)(void *), void *data, unsigned threads);
    void (*parallel_end)(void);
    void (*set_num_threads)(int n);
    int (*get_max_threads)(void);
    int (*get_thread_num)(void);
    int (*get_level)(void);
    void (*set_dynamic)(int on);
    int (*get_dynamic)(void);
    void (*set_max_active_levels)(int n);
    int (*get_max_active_levels)(void);
};

const struct td_runtime *td_runtime(void); /* chooses "auto" at the first call if nobody did */
/* Binds the calling thread through the backend. -ENOSYS with backend "none". */
int td_runtime_bind(const struct td_cpus *cpus);

#endif
