/* What the machine can do at best, measured, and how near to it a call has come: the roofline model
 * (Williams, Waterman and Patterson, 2009). A call that does F operations and moves B bytes takes
 * at least max(F / operations a second, B / bytes a second of where B fits). */
#ifndef TD_DISPATCH_PEAKS_H
#define TD_DISPATCH_PEAKS_H

#include "kernels/kernels.h"

enum td_peak {
    TD_PEAK_f32, /* multiply-adds, two operations each, a second */
    TD_PEAK_f64,
    TD_PEAK_bf16,
    TD_PEAK_i8,
    TD_PEAK_l1, /* bytes loaded a second of data that fit this cache */
    TD_PEAK_l2,
    TD_PEAK_l3,
    TD_PEAK_memory,
    TD_PEAKS
};
const char *td_peak_name(enum td_peak peak); /* "FP32", "L1", "memory" */

struct td_peaks {
    int threads;           /* of the team that was measured */
    double rate[TD_PEAKS]; /* a second; 0: no instruction, no such cache, or no memory for it */
};

/* Measures on the calling thread and its team of so many, in about 100 ms. What was found is known
 * from then on; the highest rates of all measurements count, since a busy machine lowers them. */
void td_peaks_measure(int threads, struct td_peaks *peaks);
/* FP32 operations a second of one thread at best, as far as this takes 10 us to tell: the highest
 * of all calls, each of which measures once. */
double td_peaks_glance(void);
/* Adds what another process has measured. */
void td_peaks_restore(const struct td_peaks *peaks);
/* What is known of teams of so many threads; false: nothing. Any thread may ask. */
bool td_peaks_of(int threads, struct td_peaks *peaks);
/* Those of number i, from 0 on, as long as there are any. */
bool td_peaks_at(int i, struct td_peaks *peaks);
/* A counter that changes whenever a higher rate is known. */
long long td_peaks_changes(void);

struct td_work { /* of calls; sums may be of several */
    double operations;
    double
        bytes; /* of their arguments and results, each once: read or written in memory or caches */
};
/* What a call does: its operator's flops, and the tensors' bytes. Of an argument whose values say
 * where it is read, no more bytes than the largest result has. */
struct td_work td_work_of(const struct td_call *call);

struct td_run;
/* Of a bound call, or of all calls that it consists of, without what stays in the cache between
 * those that are computed together. */
struct td_work td_run_work(const struct td_run *run);

struct td_bound {
    const char
        *by;   /* "compute", "L1", "L2", "L3", "memory", or "overhead": less than 1 us of all */
    double us; /* that the work takes at least */
};
/* What bounds such work, computed in the type by so many threads; false: peaks are not known. */
bool td_bound_of(const struct td_work *work, enum td_dtype type, int threads,
                 struct td_bound *bound);

#endif
