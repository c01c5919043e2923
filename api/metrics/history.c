/* The last hour of some counters, in steps of five seconds: GET /v1/history, which the dashboard
 * draws. It serves users who run no Prometheus.
 *
 * No thread keeps it. The first request after a step's end closes that step with the difference of
 * the counters, before it is counted itself; the steps between that one and now had no requests.
 * So a call that ends while no request comes is told in the step that the next request closes. */
#include "api/metrics/counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STEP_S 5
#define STEPS (3600 / STEP_S)
#define STEP_NS (STEP_S * INT64_C(1000000000))

struct step {
    uint32_t requests, errors, p99_us;
};

struct pool_step {
    uint32_t calls, compute_us, queue_us;
};

struct td_history {
    pthread_mutex_t lock;
    _Atomic int64_t due_ns;   /* when the present step ends */
    int64_t n;                /* steps that have ended; step k is at k modulo STEPS */
    struct td_counts *before; /* the counters when the last step was closed, without operators' */
    struct step step[STEPS];
    struct pool_step *pool[TD_COUNTED]; /* STEPS of them; NULL: it had no calls, or no memory */
};

struct td_history *td_history_create(int64_t now_ns)
{
    struct td_history *h = calloc(1, sizeof *h);
    if (h && !(h->before = calloc(1, sizeof *h->before))) {
        free(h);
        return NULL;
    }
    if (h) {
        pthread_mutex_init(&h->lock, NULL);
        h->due_ns = now_ns + STEP_NS;
    }
    return h;
}

void td_history_destroy(struct td_history *h)
{
    for (int i = 0; h && i < TD_COUNTED; i++)
        free(h->pool[i]);
    if (h)
        free(h->before);
    free(h);
}

/* What has been counted between two readings of a counter, at most what a step can hold. */
static uint32_t since(const atomic_llong *now, const atomic_llong *before, long long unit)
{
    long long n = (*now - *before) / unit;
    return n < 0 ? 0 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

/* The time within which 99 of 100 of these were, in microseconds, evenly spread within a bucket; of
 * those beyond the last bound, that bound. */
static uint32_t quantile(const long long bucket[TD_BUCKETS + 1], long long n)
{
    double rank = 0.99 * (double)n, below = 0;
    int i = 0;
    while (i < TD_BUCKETS && below + (double)bucket[i] < rank)
        below += (double)bucket[i++];
    double low = i ? (double)td_bounds_ns[i - 1] : 0;
    double high = i < TD_BUCKETS ? (double)td_bounds_ns[i] : low;
    double share = n && bucket[i] ? (rank - below) / (double)bucket[i] : 0;
    return (uint32_t)((low + (high - low) * share) / 1000);
}

static struct step requests_since(const struct td_counts *now, const struct td_counts *before)
{
    struct step step = {0};
    long long bucket[TD_BUCKETS + 1] = {0}, n = 0;
    for (int r = 0; r <= TD_ROUTES; r++) {
        const struct td_route_counts *of = &now->route[r], *was = &before->route[r];
        for (int c = 0; c < 6; c++) {
            uint32_t more = since(&of->requests[c], &was->requests[c], 1);
            step.requests += more;
            step.errors += c >= 4 ? more : 0;
        }
        for (int b = 0; b <= TD_BUCKETS; b++)
            bucket[b] += since(&of->took.bucket[b], &was->took.bucket[b], 1);
    }
    for (int b = 0; b <= TD_BUCKETS; b++)
        n += bucket[b];
    step.p99_us = quantile(bucket, n);
    return step;
}

static struct pool_step calls_since(const struct td_counts *now, const struct td_counts *before,
                                    int pool)
{
    struct pool_step step = {0};
    for (int b = 0; b <= TD_BUCKETS; b++)
        step.calls += since(&now->compute[pool].bucket[b], &before->compute[pool].bucket[b], 1);
    step.compute_us = since(&now->compute[pool].sum_ns, &before->compute[pool].sum_ns, 1000);
    step.queue_us = since(&now->queue[pool].sum_ns, &before->queue[pool].sum_ns, 1000);
    return step;
}

/* Closes the steps that have ended; with the lock held. */
static void close_steps(struct td_history *h, struct td_counts *now, int64_t now_ns)
{
    int64_t ended = (now_ns - h->due_ns) / STEP_NS + 1;
    for (int64_t k = ended > STEPS ? ended - STEPS : 0; k < ended; k++) {
        int64_t at = (h->n + k) % STEPS;
        h->step[at] = k ? (struct step){0} : requests_since(now, h->before);
        for (int p = 0; p < TD_COUNTED; p++) {
            struct pool_step step = k ? (struct pool_step){0} : calls_since(now, h->before, p);
            if (step.calls && !h->pool[p])
                h->pool[p] = calloc(STEPS, sizeof *h->pool[p]);
            if (h->pool[p])
                h->pool[p][at] = step;
        }
    }
    h->n += ended;
    h->due_ns += ended * STEP_NS;
    free(h->before);
    h->before = now;
}

void td_history_look(struct td_history *h, const struct td_metrics *metrics, int64_t now_ns)
{
    if (now_ns < atomic_load_explicit(&h->due_ns, memory_order_relaxed) ||
        pthread_mutex_trylock(&h->lock))
        return;
    struct td_counts *now = now_ns < h->due_ns ? NULL : td_counts_of_service(metrics);
    if (now)
        close_steps(h, now, now_ns);
    pthread_mutex_unlock(&h->lock);
}

/* ---- GET /v1/history ---- */

static void write_series(struct td_writer *w, const char *name, const struct td_history *h,
                         const void *first, size_t size)
{
    int64_t from = h->n > STEPS ? h->n - STEPS : 0;
    td_write_open(w, name, '[');
    for (int64_t k = from; k < h->n; k++)
        td_write_int(w, NULL,
                     *(const uint32_t *)((const char *)first + (size_t)(k % STEPS) * size));
    td_write_close(w, ']');
}

void td_history_write(struct td_history *h, const struct td_metrics *metrics, int64_t now_ns,
                      struct td_writer *w)
{
    td_history_look(h, metrics, now_ns);
    pthread_mutex_lock(&h->lock);
    time_t until = time(NULL) - (time_t)((now_ns - (h->due_ns - STEP_NS)) / 1000000000);
    struct tm utc;
    char text[32];
    strftime(text, sizeof text, "%FT%TZ", gmtime_r(&until, &utc));
    td_write_open(w, NULL, '{');
    td_write_int(w, "step_s", STEP_S);
    td_write_str(w, "until", text);
    write_series(w, "requests", h, &h->step->requests, sizeof *h->step);
    write_series(w, "errors", h, &h->step->errors, sizeof *h->step);
    write_series(w, "p99_us", h, &h->step->p99_us, sizeof *h->step);
    td_write_open(w, "pools", '[');
    for (int p = 0; p < TD_COUNTED; p++) {
        if (!h->pool[p])
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", td_counts_pool(metrics, p));
        write_series(w, "calls", h, &h->pool[p]->calls, sizeof **h->pool);
        write_series(w, "compute_us", h, &h->pool[p]->compute_us, sizeof **h->pool);
        write_series(w, "queue_us", h, &h->pool[p]->queue_us, sizeof **h->pool);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    td_write_close(w, '}');
    pthread_mutex_unlock(&h->lock);
}

int td_api_history_get(struct td_request *req, struct td_response *res)
{
    const struct td_metrics *metrics = req->service->metrics;
    struct td_writer w;
    td_write_init(&w, req->arena, 16384);
    td_history_write(td_counts_history(metrics), metrics, td_now_ns(), &w);
    return td_write_response(&w, res, 200);
}
