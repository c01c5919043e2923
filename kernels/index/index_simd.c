/* The index family, rows of all types: the folded plan is walked row by row, a row being its last
 * dimension. Where no index moves along a row and elements follow on, it is copied, or combined, as
 * one run; else its places are found some hundred at a time, and then gone through by type.
 *
 * Several may point at one element, and then the order counts. So writers share out a dimension
 * that the indices leave alone, in which no two threads can meet. */
#include "kernels/index/index.h"
#include "kernels/index/index_ways.h"

#include <string.h>

#define GRAIN 16384 /* elements worth a thread */
#define BLOCK 256   /* places found at a time */

/* ---- the walk ---- */

struct walk {
    struct td_index_plan plan;
    size_t size; /* of an element */
    char *into;
    char *beside;
    td_combine *combine; /* NULL: reads */
    struct factor factor;
    bool run;        /* a row is one */
    int64_t *counts; /* of elements, or of rows; or NULL */
    struct td_index_rows rows;
    int split; /* which dimension is shared out */
};

static inline int64_t fetch(const struct td_pointer *by, int64_t i)
{
    int64_t index =
        by->t.dtype == TD_i64 ? ((const int64_t *)by->t.data)[i] : ((const int32_t *)by->t.data)[i];
    return index < 0 ? index + by->bound : index;
}

/* Adds to n places where a pointer's indices lead, which are step apart. */
#define ADD_POINTED(T)                                                                             \
    static void add_pointed_##T(int64_t *restrict places, const T *restrict index, int64_t step,   \
                                int64_t n, int64_t bound, int64_t stride)                          \
    {                                                                                              \
        if (step == 1)                                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                places[i] += (index[i] + (index[i] < 0 ? bound : 0)) * stride;                     \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                places[i] += (index[i * step] + (index[i * step] < 0 ? bound : 0)) * stride;       \
    }
ADD_POINTED(int32_t)
ADD_POINTED(int64_t)

/* The places that n positions along dimension d lead to, from its from-th on. at: where pointers
 * stand. */
static void find_places(const struct td_index_plan *plan, int d, const int64_t *at, int64_t from,
                        int64_t n, int64_t first, int64_t *places)
{
    int64_t into = plan->into[d];
    for (int64_t i = 0; i < n; i++)
        places[i] = first + (from + i) * into;
    for (int k = 0; k < plan->n; k++) {
        const struct td_pointer *by = &plan->by[k];
        int64_t step = by->step[d], begin = at[k] + from * step;
        if (by->t.dtype == TD_i64)
            add_pointed_int64_t(places, (const int64_t *)by->t.data + begin, step, n, by->bound,
                                by->stride);
        else
            add_pointed_int32_t(places, (const int32_t *)by->t.data + begin, step, n, by->bound,
                                by->stride);
    }
}

static void move(const struct walk *w, int64_t into, const int64_t *places, char *beside,
                 int64_t step, int64_t n)
{
    char *to = w->into + (size_t)into * w->size;
    if (w->counts && w->combine && !w->rows.by_frequency)
        for (int64_t i = 0; i < n; i++)
            w->counts[places ? places[i] : into + i]++;
    if (w->combine) {
        w->combine(to, places, beside, step, n, w->factor);
    } else if (!places) {
        memcpy(beside, to, (size_t)n * w->size);
    } else {
        find_read(w->size)(beside, places, w->into, step, n);
    }
}

/* Elements [begin, end) of one row. at: where the pointers stand at its start. */
static void walk_row(struct walk *w, const int64_t *at, int64_t into, int64_t beside, int64_t begin,
                     int64_t end)
{
    const struct td_index_plan *plan = &w->plan;
    int last = plan->rank - 1;
    int64_t places[BLOCK], step = plan->beside[last];
    if (w->run) {
        for (int k = 0; k < plan->n; k++) {
            int64_t index = fetch(&plan->by[k], at[k]);
            if (index == w->rows.skip)
                return;
            if (w->rows.by_frequency)
                w->factor.real = 1 / (double)w->counts[index];
            into += index * plan->by[k].stride;
        }
        move(w, into + begin, NULL, w->beside + (size_t)(beside + begin * step) * w->size, step,
             end - begin);
        return;
    }
    if (!w->combine && plan->n == 1 && !plan->into[last] && plan->by[0].step[last] == 1 &&
        step == 1) {
        read_pointed(w->size, &plan->by[0], at[0] + begin, w->into + (size_t)into * w->size,
                     w->beside + (size_t)(beside + begin) * w->size, end - begin);
        return;
    }
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = end - i < BLOCK ? end - i : BLOCK;
        find_places(plan, plan->rank - 1, at, i, n, into, places);
        move(w, 0, places, w->beside + (size_t)(beside + i * step) * w->size, step, n);
    }
}

/* n rows of runs along the dimension outside of theirs, of each the elements [from, to), are read.
 */
static void read_rows(const struct walk *w, const int64_t *at, int64_t into, int64_t beside,
                      int64_t n, int64_t from, int64_t to)
{
    int d = w->plan.rank - 2;
    int64_t places[BLOCK], size = (int64_t)w->size, bytes = (to - from) * size;
    int64_t step = w->plan.beside[d] * size;
    const char *in = w->into + from * size;
    char *out = w->beside + (beside + from) * size;
    find_places(&w->plan, d, at, 0, n, into, places);
    for (int64_t i = 0; i < n; i++, out += step)
        td_copy_run(out, in + places[i] * size, bytes);
}

/* Rows [row, end), of each the elements [from, to). */
static void walk_rows(const struct walk *shared, int64_t row, int64_t end, int64_t from, int64_t to)
{
    struct walk w = *shared;
    const struct td_index_plan *plan = &w.plan;
    int64_t at[TD_MAX_RANK] = {0}, now[TD_MAX_RANK] = {0}, into = plan->base, beside = 0,
            rest = row;
    int last = plan->rank - 2;
    bool reads = w.run && !w.combine && last >= 0;
    int64_t limit = 1 + 8 * GRAIN / (to - from); /* at once, before looking whether to stop */
    for (int d = last; d >= 0; d--) {
        now[d] = rest % plan->size[d];
        rest /= plan->size[d];
        into += now[d] * plan->into[d];
        beside += now[d] * plan->beside[d];
        for (int k = 0; k < plan->n; k++)
            at[k] += now[d] * plan->by[k].step[d];
    }
    for (int64_t done = 0, n = 1; row < end; row += n) {
        if (reads) {
            n = plan->size[last] - now[last] < end - row ? plan->size[last] - now[last] : end - row;
            n = n < limit ? n : limit;
            n = n < BLOCK ? n : BLOCK;
            read_rows(&w, at, into, beside, n, from, to);
        } else {
            walk_row(&w, at, into, beside, from, to);
        }
        if ((done += n * (to - from + 8)) > 8 * GRAIN) {
            done = 0;
            if (td_stopped())
                return;
        }
        for (int64_t d = last, step = n; d >= 0; d--, step = 1) {
            int64_t back = (now[d] += step) < plan->size[d] ? step : step - now[d];
            into += back * plan->into[d];
            beside += back * plan->beside[d];
            for (int k = 0; k < plan->n; k++)
                at[k] += back * plan->by[k].step[d];
            if (now[d] < plan->size[d])
                break;
            now[d] = 0;
        }
    }
}

static int64_t rows_of(const struct td_index_plan *plan)
{
    int64_t n = 1;
    for (int d = 0; d < plan->rank - 1; d++)
        n *= plan->size[d];
    return n;
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    int last = w->plan.rank - 1;
    int64_t rows = rows_of(&w->plan);
    if (w->split == last)
        walk_rows(w, 0, rows, begin, end);
    else if (w->split < 0)
        walk_rows(w, begin, end, 0, w->plan.size[last]);
    else { /* the first dimension */
        rows /= w->plan.size[0];
        walk_rows(w, begin * rows, end * rows, 0, w->plan.size[last]);
    }
}

static void swap(int64_t *v, int d)
{
    int64_t first = v[d];
    memmove(v + 1, v, sizeof *v * (size_t)d);
    v[0] = first;
}

/* Brings dimension d to the front; what meets in one element still comes in the same order. */
static void bring(struct td_index_plan *plan, int d)
{
    swap(plan->size, d);
    swap(plan->into, d);
    swap(plan->beside, d);
    for (int k = 0; k < plan->n; k++)
        swap(plan->by[k].step, d);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Shares the walk out. */
static void run(struct walk *w, int threads)
{
    struct td_index_plan *plan = &w->plan;
    int last = plan->rank - 1, best = -1;
    int64_t row = plan->size[last], rows = rows_of(plan);
    if (!row || !rows)
        return;
    w->split = -1;
    if (!w->combine) { /* a reader meets nobody */
        w->split = rows < 4 * (int64_t)threads ? last : -1;
    } else {
        for (int d = 0; d < last && !plan->overlaps; d++)
            if (plan->into[d] && (best < 0 || plan->size[d] > plan->size[best]))
                best = d;
        bool along = plan->into[last] && !plan->overlaps;
        if (best >= 0 && (plan->size[best] >= 4 * (int64_t)threads || !along)) {
            bring(plan, best);
            w->split = 0;
        } else if (along) {
            w->split = last;
        } else {
            threads = 1;
        }
    }
    if (w->split == last)
        td_parallel(threads, row, most(64, GRAIN / rows), some_rows, w);
    else if (w->split < 0)
        td_parallel(threads, rows, most(1, GRAIN / row), some_rows, w);
    else
        td_parallel(threads, plan->size[0], most(1, GRAIN / (row * (rows / plan->size[0]))),
                    some_rows, w);
}

static void prepare(struct walk *w, const struct td_call *call)
{
    struct td_index_plan *plan = &w->plan;
    td_index_fold(plan);
    int last = plan->rank - 1;
    w->run = plan->into[last] == 1 && (plan->beside[last] == 1 || w->combine);
    for (int k = 0; k < plan->n; k++)
        w->run = w->run && !plan->by[k].step[last];
    w->rows = td_index_rows(call);
    if ((w->rows.skip >= 0 || w->rows.by_frequency) && !w->run) { /* rows of one element */
        plan->size[plan->rank] = 1;
        plan->into[plan->rank] = plan->beside[plan->rank] = 1;
        plan->by[0].step[plan->rank++] = 0;
        w->run = true;
    }
}

/* ---- reading and writing ---- */

struct copying {
    char *to;
    const char *from; /* NULL: zeros */
};

static void copy_range(void *arg, int64_t begin, int64_t end)
{
    const struct copying *c = arg;
    if (c->from)
        memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
    else
        memset(c->to + begin, 0, (size_t)(end - begin));
}

struct division {
    const struct td_tensor *out;
    const int64_t *counts;
    bool self;
};

#define DIVIDE(id, T, LOAD, STORE)                                                                 \
    case TD_##id:                                                                                  \
        for (int64_t i = begin; i < end; i++)                                                      \
            if (d->counts[i]) {                                                                    \
                T *x = (T *)d->out->data + i;                                                      \
                *x = (T)STORE(LOAD(*x) / (float)(d->counts[i] + d->self));                         \
            }                                                                                      \
        break;
#define DIVIDE_WHOLE(id, T)                                                                        \
    case TD_##id:                                                                                  \
        for (int64_t i = begin; i < end; i++)                                                      \
            if (d->counts[i]) {                                                                    \
                int64_t n = d->counts[i] + d->self, sum = ((T *)d->out->data)[i];                  \
                ((T *)d->out->data)[i] = (T)(sum / n - (sum % n < 0));                             \
            }                                                                                      \
        break;

static void divide_range(void *arg, int64_t begin, int64_t end)
{
    const struct division *d = arg;
    switch (d->out->dtype) {
        DIVIDE(f32, float, SAME, SAME)
        DIVIDE(f16, uint16_t, LOAD_f16, STORE_f16)
        DIVIDE(bf16, uint16_t, LOAD_bf16, STORE_bf16)
        DIVIDE_WHOLE(bool, uint8_t)
        DIVIDE_WHOLE(u8, uint8_t)
        DIVIDE_WHOLE(i8, int8_t)
        DIVIDE_WHOLE(i16, int16_t)
        DIVIDE_WHOLE(i32, int32_t)
        DIVIDE_WHOLE(i64, int64_t)
    default:
        for (int64_t i = begin; i < end; i++)
            if (d->counts[i])
                ((double *)d->out->data)[i] /= (double)(d->counts[i] + d->self);
    }
}

static void count_rows(struct walk *w, const struct td_tensor *index)
{
    if (w->plan.by[0].bound)
        memset(w->counts, 0, (size_t)w->plan.by[0].bound * sizeof *w->counts);
    for (int64_t i = 0, n = td_numel(index); i < n; i++)
        w->counts[fetch(&w->plan.by[0], i)]++;
}

static void write(const struct td_call *call, struct walk *w)
{
    const struct td_tensor *out = &call->out[0];
    const struct td_value *self = td_index_arg(call, 0), *alpha = td_index_alpha(call);
    enum td_index_way way = td_index_way(call);
    uint64_t room, neutral;
    struct td_tensor source = td_index_source(call, &room);
    struct copying start = {out->data, self->kind == TD_KIND_tensor ? self->tensor.data : NULL};
    int64_t *counts = (int64_t *)((char *)call->scratch + td_index_room(call));
    w->factor = (struct factor){td_scalar(alpha), (uint64_t)td_scalar_int(alpha)};
    w->into = out->data;
    w->combine = find_combine(way, out->dtype);
    if (start.from != start.to)
        td_parallel(call->threads, (int64_t)td_nbytes(out), 4 * GRAIN, copy_range, &start);
    prepare(w, call);
    if (!td_index_keeps_self(call)) {
        struct walk first = *w;
        td_index_neutral(way, out->dtype, &neutral);
        first.combine = find_combine(TD_INDEX_write, out->dtype);
        first.beside = (char *)&neutral;
        memset(first.plan.beside, 0, sizeof first.plan.beside);
        run(&first, call->threads);
    }
    w->beside = source.data;
    if (way == TD_INDEX_mean) {
        w->counts = counts;
        if (td_numel(out))
            memset(counts, 0, (size_t)td_numel(out) * sizeof *counts);
    } else if (w->rows.by_frequency) {
        w->counts = counts;
        count_rows(w, &td_index_arg(call, 2)->tensor);
    }
    run(w, call->threads);
    if (way == TD_INDEX_mean) {
        struct division d = {out, counts, td_index_keeps_self(call)};
        td_parallel(call->threads, td_numel(out), GRAIN, divide_range, &d);
    }
}

TD_KERNEL(index)
{
    struct walk w = {.size = td_dtype_size(call->out[0].dtype)};
    td_index_plan(call, &w.plan, call->scratch);
    if (td_index_way(call) != TD_INDEX_read) {
        write(call, &w);
        return;
    }
    if (call->counted)
        *call->rows = w.plan.size[call->counted_dim];
    w.into = td_index_arg(call, 0)->tensor.data;
    w.beside = call->out[0].data;
    prepare(&w, call);
    run(&w, call->threads);
}
