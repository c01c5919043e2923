/* Measuring peaks, and bounds by them: see peaks.h. */
#include "dispatch/choice/peaks.h"

#include "dispatch/dispatch.h"
#include "kernels/level.h"
#include "pools/pools.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES 5
#define TRY_NS 1500000                  /* of a try, about */
#define MOST_BYTES ((size_t)256 << 20)  /* that a thread's loads go over */
#define BEYOND_BYTES ((size_t)64 << 20) /* for memory, at least, where the L3 is small */
#define GLANCE 3000                     /* rounds of a level's loop: 10 us with AVX-512 */
#define LEAST_US 1 /* of work that is said to be bounded by more than overhead */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct td_peaks known[32]; /* of different numbers of threads; the last is given up first */
static int n_known;
static long long n_changes;

const char *td_peak_name(enum td_peak peak)
{
    static const char *const names[] = {"FP32", "FP64", "BF16", "INT8", "L1", "L2", "L3", "memory"};
    return names[peak];
}

/* ---- measuring ---- */

struct measuring { /* one peak, by all threads at once */
    const struct td_level *level;
    enum td_dtype type; /* TD_DTYPE_none: loads */
    char *data;
    size_t bytes; /* of each thread */
    int64_t rounds;
    double *rate; /* of each thread */
};

/* Time of the thread alone: others may use its CPU meanwhile. */
static int64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void run_member(void *arg, int64_t begin, int64_t end)
{
    const struct measuring *m = arg;
    for (int64_t i = begin; i < end; i++) {
        int64_t start = thread_ns();
        double did = m->type ? m->level->operate(m->type, m->rounds)
                             : m->level->load(m->data + (size_t)i * m->bytes, m->bytes, m->rounds);
        m->rate[i] = did / ((double)(thread_ns() - start + 1) * 1e-9);
    }
}

/* Of all threads together. */
static double rate_once(struct measuring *m, int threads)
{
    double all = 0;
    td_parallel(threads, threads, 1, run_member, m);
    for (int i = 0; i < threads; i++)
        all += m->rate[i];
    return all;
}

/* The best rate of TRIES, with as many rounds as TRY_NS has room for. */
static double rate(struct measuring *m, int threads)
{
    double best = 0;
    int64_t ns = 0;
    m->rounds = 1;
    if (rate_once(m, threads) <= 0)
        return 0;
    for (; ns < TRY_NS / 2 && m->rounds < INT64_C(1) << 40; m->rounds *= 2) {
        int64_t start = thread_ns();
        rate_once(m, threads);
        ns = thread_ns() - start;
    }
    for (int i = 0; i < TRIES && !td_stopped(); i++) {
        double one = rate_once(m, threads);
        best = one > best ? one : best;
    }
    return best;
}

/* Of the highest level in use that has such instructions. */
static double highest_rate(struct measuring *m, int threads)
{
    double best = 0;
    for (int isa = TD_ISAS - 1; isa >= 0 && best <= 0; isa--)
        for (m->level = td_levels; m->level->name && best <= 0; m->level++)
            if ((int)m->level->isa == isa && td_cpu()->levels >> isa & 1)
                best = rate(m, threads);
    return best;
}

/* Bytes of a thread's share of each cache, 0: there is none; and that of memory, beyond all. */
static void find_sizes(int threads, size_t size[4])
{
    for (int i = 0; i < 3; i++)
        size[i] = td_cpu()->cache[i];
    size[3] = 2 * (size[2] > BEYOND_BYTES / 2 ? size[2] : BEYOND_BYTES / 2) / (size_t)threads;
    size[2] /= (size_t)threads;
    for (int i = 0; i < 4; i++)
        size[i] = size[i] < MOST_BYTES ? size[i] : MOST_BYTES;
}

static void measure_loads(struct measuring *m, int threads, double *to)
{
    size_t size[4], most = 0;
    find_sizes(threads, size);
    for (int i = 0; i < 4; i++)
        most = size[i] > most ? size[i] : most;
    most = (most + 4095) / 4096 * 4096;
    size_t all = most * (size_t)threads;
    if (td_budget_take(&td_memory, all))
        return;
    m->data = aligned_alloc(4096, all);
    if (m->data) {
        memset(m->data, 1, all);
        for (int i = 0; i < 4; i++) {
            m->bytes = (i < 3 ? size[i] / 2 : size[i]) / 4096 * 4096; /* others are there, too */
            to[i] = m->bytes ? highest_rate(m, threads) : 0;
        }
    }
    free(m->data);
    td_budget_give(&td_memory, all);
}

void td_peaks_measure(int threads, struct td_peaks *peaks)
{
    static const enum td_dtype types[] = {TD_f32, TD_f64, TD_bf16, TD_i8};
    struct measuring m = {.rate = calloc((size_t)threads, sizeof *m.rate)};
    *peaks = (struct td_peaks){.threads = threads};
    for (int i = 0; i < 4 && m.rate; i++) {
        m.type = types[i];
        peaks->rate[TD_PEAK_f32 + i] = highest_rate(&m, threads);
    }
    m.type = TD_DTYPE_none;
    if (m.rate)
        measure_loads(&m, threads, &peaks->rate[TD_PEAK_l1]);
    free(m.rate);
    td_peaks_restore(peaks);
    td_peaks_of(threads, peaks);
}

double td_peaks_glance(void)
{
    static _Atomic double highest;
    double before = atomic_load(&highest), did = 0;
    int64_t begin = 0, ns = 1;
    for (int isa = TD_ISAS - 1; isa >= 0 && did <= 0; isa--)
        for (const struct td_level *l = td_levels; l->name && did <= 0; l++)
            if ((int)l->isa == isa && td_cpu()->levels >> isa & 1 && l->operate(TD_f32, 1) > 0) {
                begin = thread_ns();
                did = l->operate(TD_f32, GLANCE);
                ns += thread_ns() - begin;
            }
    double rate = did / ((double)ns * 1e-9);
    if (rate > before)
        atomic_store(&highest, rate); /* a race may keep the lower of two */
    return rate > before ? rate : before;
}

void td_peaks_restore(const struct td_peaks *peaks)
{
    const int most = (int)(sizeof known / sizeof *known);
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_known && known[i].threads != peaks->threads)
        i++;
    i = i < most ? i : most - 1;
    if (i == n_known || known[i].threads != peaks->threads)
        known[i] = (struct td_peaks){.threads = peaks->threads};
    n_known = i < n_known ? n_known : i + 1;
    for (int p = 0; p < TD_PEAKS; p++) {
        n_changes += peaks->rate[p] > known[i].rate[p];
        known[i].rate[p] = peaks->rate[p] > known[i].rate[p] ? peaks->rate[p] : known[i].rate[p];
    }
    pthread_mutex_unlock(&lock);
}

bool td_peaks_at(int i, struct td_peaks *peaks)
{
    pthread_mutex_lock(&lock);
    bool there = i < n_known;
    if (there)
        *peaks = known[i];
    pthread_mutex_unlock(&lock);
    return there;
}

long long td_peaks_changes(void)
{
    pthread_mutex_lock(&lock);
    long long n = n_changes;
    pthread_mutex_unlock(&lock);
    return n;
}

bool td_peaks_of(int threads, struct td_peaks *peaks)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_known && !found; i++) {
        found = known[i].threads == threads;
        *peaks = found ? known[i] : *peaks;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* ---- work ---- */

/* Of elements that lie apart: one that is broadcast is read once. */
static double bytes_of(const struct td_tensor *t)
{
    double n = (double)td_dtype_size(t->dtype);
    for (int d = 0; d < t->rank; d++)
        n *= t->stride && !t->stride[d] ? 1 : (double)t->shape[d];
    return n;
}

static double argument_bytes(const struct td_value *v)
{
    double bytes = 0;
    if (v->kind == TD_KIND_tensor)
        return bytes_of(&v->tensor);
    for (int i = 0; v->kind == TD_KIND_tensors && i < v->tensors.n; i++)
        bytes += bytes_of(&v->tensors.v[i]);
    return bytes;
}

struct td_work td_work_of(const struct td_call *call)
{
    double largest = 0;
    struct td_work work = {0, 0};
    for (int i = 0; i < call->n_out; i++) {
        double bytes = bytes_of(&call->out[i]);
        largest = bytes > largest ? bytes : largest;
        work.bytes += bytes;
    }
    for (int i = 0; i < call->n_args; i++) {
        double bytes = argument_bytes(&call->arg[i]);
        work.bytes += call->op->follows && bytes > largest ? largest : bytes;
    }
    work.operations = call->op->flops ? call->op->flops(call) : (double)td_numel(&call->out[0]);
    return work;
}

/* Whether a part's argument comes from one that it is computed together with. */
static bool is_near(const struct td_run *part, int feed)
{
    const struct td_run *of = part->feed[feed].of;
    return part->with >= 0 && of && of->with == part->with;
}

struct td_work td_run_work(const struct td_run *run)
{
    struct td_work all = {0, 0};
    if (!run->parts)
        return run->view ? all : td_work_of(&run->call);
    for (const struct td_run *part = run->parts; part; part = part->next) {
        struct td_work work = td_run_work(part);
        for (int i = 0; i < part->n_feeds; i++)
            if (is_near(part, i))
                work.bytes -= bytes_of(&part->feed[i].of->call.out[part->feed[i].result]);
        if (part->with >= 0 && part->with != part->number && !part->kept)
            work.bytes -= bytes_of(&part->call.out[0]);
        all.operations += work.operations;
        all.bytes += work.bytes;
    }
    return all;
}

static enum td_peak peak_of(enum td_dtype type, const struct td_peaks *peaks)
{
    if (type == TD_bf16 && peaks->rate[TD_PEAK_bf16] > 0)
        return TD_PEAK_bf16;
    if (type & (TD_i8 | TD_u8) && peaks->rate[TD_PEAK_i8] > 0)
        return TD_PEAK_i8;
    return type & (TD_f64 | TD_i64 | TD_u64) ? TD_PEAK_f64 : TD_PEAK_f32;
}

bool td_bound_of(const struct td_work *work, enum td_dtype type, int threads,
                 struct td_bound *bound)
{
    struct td_peaks peaks;
    size_t size[4];
    if (!td_peaks_of(threads, &peaks))
        return false;
    find_sizes(threads, size);
    int cache = 0;
    while (cache < 3 &&
           (work->bytes > (double)size[cache] * threads || peaks.rate[TD_PEAK_l1 + cache] <= 0))
        cache++;
    double computes = peaks.rate[peak_of(type, &peaks)], rate = peaks.rate[TD_PEAK_l1 + cache];
    double computing = computes > 0 ? work->operations / computes : 0;
    double moving = rate > 0 ? work->bytes / rate : 0;
    bound->us = (computing > moving ? computing : moving) * 1e6;
    bound->by = bound->us < LEAST_US ? "overhead"
                : computing > moving ? "compute"
                                     : td_peak_name((enum td_peak)(TD_PEAK_l1 + cache));
    return true;
}
