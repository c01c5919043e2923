/* Operators by their schemas: an input is an overload's name, a zero byte, and choices. They take
 * one of the operator's samples and put other values in the place of some arguments: those at which
 * sizes wrap, real numbers are no index, and lists are too short. What the rule accepts is run
 * where that is little work: as dispatch runs it, and by each row that takes it, in memory that may
 * not be left. Then sizes are hidden, and what is inferred must not contradict what was. */
#include "dispatch/call/own.h"
#include "tests/fuzz/draw.h"
#include "tests/sample.h"

#include "kernels/elementwise.h"

#define MOST_BYTES ((size_t)1 << 20) /* of all tensors of a call that is run */
#define MOST_WORK 2e6
#define HEAD 6 /* bytes before the parameters' */

/* ---- running ---- */

static struct { /* the tensors of a call, with their memory */
    struct td_tensor *tensor;
    void *begin;
    size_t bytes;
    int64_t stride[TD_MAX_RANK];
} input[2 * TD_MAX_ARGS + 8];
static int n_inputs;

static void gather(struct td_named *args, int n)
{
    n_inputs = 0;
    for (int i = 0; i < n; i++) {
        struct td_value *v = &args[i].value;
        int many = v->kind == TD_KIND_tensor ? 1 : v->kind == TD_KIND_tensors ? v->tensors.n : 0;
        for (int k = 0; k < many; k++)
            if (v->kind == TD_KIND_tensor || v->tensors.v[k].dtype)
                input[n_inputs++].tensor =
                    v->kind == TD_KIND_tensor ? &v->tensor : &v->tensors.v[k];
    }
}

static void fill(struct td_tensor *t, unsigned how, unsigned turn)
{
    int64_t n = td_numel(t);
    for (int64_t i = 0; i < n; i++) {
        unsigned at = (unsigned)i * 7 + turn;
        if (t->dtype == TD_bool)
            td_put_whole(t, i, at % 3 == 0);
        else if (td_dtype_kind(t->dtype) == 'f')
            td_put_real(t, i,
                        how % 4 ? (double)(int)(at % 9) - 4
                                : real[at % (sizeof real / sizeof *real)]);
        else
            td_put_whole(t, i,
                         how % 4 ? (int64_t)(at % (how % 4 == 1 ? 2 : 5))
                                 : whole[at % (sizeof whole / sizeof *whole)]);
    }
}

static void place(unsigned how)
{
    for (int i = 0; i < n_inputs; i++) {
        struct td_tensor *t = input[i].tensor;
        input[i].bytes = td_nbytes(t);
        input[i].begin = t->data = sample_alloc(input[i].bytes);
        fill(t, how, (unsigned)i);
        int64_t step = 1;
        for (int d = 0; how & 64 && d < t->rank; d++) { /* the first dimension's lie side by side */
            input[i].stride[d] = step;
            step *= t->shape[d];
        }
        if (how & 64 && t->rank)
            t->stride = input[i].stride;
    }
}

static void displace(void)
{
    for (int i = 0; i < n_inputs; i++)
        sample_free(input[i].begin, input[i].bytes);
}

static bool is_little(const struct td_run *run)
{
    const struct td_call *call = &run->call;
    size_t bytes = 0;
    double work = call->op && call->op->flops ? call->op->flops(call) : 0;
    for (int i = 0; i < n_inputs; i++)
        bytes += td_fits(input[i].tensor) && td_nbytes(input[i].tensor) < MOST_BYTES
                     ? td_nbytes(input[i].tensor)
                     : MOST_BYTES;
    for (int i = 0; i < call->n_out; i++) {
        must(td_fits(&call->out[i]));
        bytes += td_nbytes(&call->out[i]) < MOST_BYTES ? td_nbytes(&call->out[i]) : MOST_BYTES;
    }
    return bytes < MOST_BYTES && !(work > MOST_WORK);
}

static void *out_begin[TD_MAX_OUTS];
static size_t out_bytes[TD_MAX_OUTS];

static void place_outs(struct td_run *run)
{
    for (int i = 0; i < run->call.n_out; i++) {
        out_bytes[i] = td_nbytes(&run->call.out[i]);
        out_begin[i] = run->call.out[i].data = sample_alloc(out_bytes[i]);
    }
}

static void displace_outs(int n)
{
    for (int i = 0; i < n; i++) {
        must(sample_guarded(out_begin[i], out_bytes[i]));
        sample_free(out_begin[i], out_bytes[i]);
    }
}

/* As a request is run. */
static void execute(struct td_run *run)
{
    size_t scratch = 0;
    run->call.threads = 1;
    run->node = -1;
    if (td_run_select(run, &scratch))
        return;
    if (scratch <= 16 * MOST_BYTES) {
        scratch = (scratch + 63) / 64 * 64;
        void *room = sample_alloc(scratch);
        place_outs(run);
        td_run_execute(run, room);
        displace_outs(run->call.n_out);
        sample_free(room, scratch);
    }
    td_run_release(run);
}

static void execute_rows(struct td_run *run)
{
    char why[100];
    const struct td_impl *row = run->rows;
    for (; row && row->run && !run->parts && !run->n_casts && !td_call_is_nothing(&run->call);
         row++) {
        unsigned type = td_row_dtype(&run->call);
        if (!sample_runnable(row, why) || !(row->dtypes & type) ||
            (run->strided && !row->strided) || !sample_takes(row, &run->call))
            continue;
        struct td_tensor bound[TD_MAX_OUTS]; /* a row gives counted results their sizes */
        memcpy(bound, run->call.out, sizeof bound);
        place_outs(run);
        sample_run(row, &run->call);
        displace_outs(run->call.n_out);
        memcpy(run->call.out, bound, sizeof bound);
    }
}

static void run_all(const struct td_handle *handle, struct td_named *args, int n,
                    const struct td_options *options, unsigned how)
{
    static struct td_run run;
    struct td_stop stop = {.deadline_ns = td_clock_ns() + WORK_NS};
    const struct td_stop *before = td_stop_obey(&stop);
    sample_lie_at_front(how & 128);
    place(how);
    if (!td_run_bind(&run, handle->full, args, n, options)) {
        run.call.threads = 1;
        execute_rows(&run);
        execute(&run);
    }
    displace();
    sample_lie_at_front(false);
    td_stop_obey(before);
}

/* ---- sizes that nobody knows ---- */

static void infer(struct bytes *b, const struct td_handle *handle, const struct td_run *known,
                  struct td_named *args, int n, const struct td_options *options)
{
    static struct td_run run;
    int64_t was[8] = {0}, hidden = 0;
    for (int i = 0; i < n; i++)
        args[i].keys = td_keyset_of(TD_KEY_Meta);
    for (int i = 0; i < n_inputs; i++)
        for (int d = 0; d < input[i].tensor->rank; d++) {
            unsigned c = take(b);
            int64_t *to = &input[i].tensor->shape[d], name = c % 8;
            if (c < 128 && (name == 0 || !was[name] || was[name] == *to + 1)) {
                was[name] = *to + 1;
                *to = name ? -1 - name : TD_UNKNOWN;
                hidden++;
            }
        }
    if (!hidden || td_run_infer(&run, handle->full, NULL, args, n, options))
        return;
    must(run.call.n_out == known->call.n_out);
    for (int i = 0; i < run.call.n_out; i++) {
        const struct td_tensor *got = &run.call.out[i], *right = &known->call.out[i];
        must(got->rank == right->rank);
        for (int d = 0; d < got->rank; d++)
            must(got->shape[d] == TD_UNKNOWN ||
                 (got->shape[d] < 0 ? was[-1 - got->shape[d]] - 1 : got->shape[d]) ==
                     right->shape[d]);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct td_sample made;
    static struct td_run run;
    struct td_named args[TD_MAX_ARGS];
    const uint8_t *zero = n ? memchr(data, 0, n) : NULL;
    const struct td_handle *handle = zero ? td_registry_find((const char *)data) : NULL;
    if (!handle)
        return 0;
    struct bytes b = {zero + 1, data + n};
    int n_samples = 0;
    while (handle->op->samples[n_samples])
        n_samples++;
    struct td_sizes sizes = {PICK(&b, size), PICK(&b, size), PICK(&b, size)};
    enum td_dtype dtype = draw_dtype(&b);
    unsigned how = take(&b), sample = take(&b);
    td_sample_read(&made, &handle->schema,
                   n_samples ? handle->op->samples[sample % (unsigned)n_samples] : "", &sizes,
                   handle->op->dtypes & dtype || how % 8 == 7 ? dtype : TD_f32);
    int n_args = draw_args(&b, handle, &made, args);
    struct td_options options = {.alloc = td_alloc_in_arena,
                                 .alloc_arg = td_arena_create(),
                                 .autocast = how % 32 == 5 ? TD_bf16 : 0};
    gather(args, n_args);
    if (!td_run_bind(&run, handle->full, args, n_args, &options)) {
        if (is_little(&run))
            run_all(handle, args, n_args, &options, how);
        if (take(&b) % 16 == 1)
            infer(&b, handle, &run, args, n_args, &options);
    }
    td_arena_destroy(options.alloc_arg);
    return 0;
}

/* Two parameters that go together: all numbers of one are some big number, and those of the other
 * follow from it. */
static void relate(uint8_t *slots, size_t n, unsigned seed)
{
    unsigned first = seed % 8, second = first + 1 + seed / 8 % 4, turn = seed / 32;
    uint8_t *a = slots + first * SLOT, *b = slots + second * SLOT;
    if ((second + 1) * SLOT > n)
        return;
    unsigned big = turn / 3 % (sizeof whole / sizeof *whole);
    unsigned relation = BY_LAST + turn / 128 % RELATIONS;
    for (int i = 0; i < 2; i++) { /* of a list: that it is one for all, its length, the number */
        unsigned number = i ? relation : big, length = 1 + turn % 3;
        uint8_t value[] = {SLOT_DRAWS, SLOT_PLAIN, (uint8_t)(number & ~3u), (uint8_t)length,
                           (uint8_t)number};
        memcpy(i ? b : a, value, sizeof value);
    }
}

/* Now and then another operator, another value for a parameter, or two that go together. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
    uint8_t *zero = n ? memchr(data, 0, n) : NULL;
    size_t name = zero ? (size_t)(zero - data) + 1 : 0;
    if (!zero || !td_registry_find((char *)data) || seed % 8 == 0) {
        const struct td_handle *handle =
            td_registry_at((int)(seed / 8 % (unsigned)td_registry_count()));
        size_t length = strlen(handle->full) + 1;
        if (length + n - name > most)
            return n;
        memmove(data + length, data + name, n - name);
        memcpy(data, handle->full, length);
        return length + n - name;
    }
    size_t head = name + HEAD, room = head + TD_MAX_ARGS * SLOT + 16;
    if (n < room && room <= most) {
        memset(data + n, 0, room - n);
        n = room;
    }
    if (n >= room && seed % 8 < 3) {
        relate(data + head, TD_MAX_ARGS * SLOT, seed / 8);
        return n;
    }
    if (n >= room && seed % 8 < 5) { /* one parameter's */
        uint8_t *slot = data + head + seed / 8 % 10 * SLOT;
        LLVMFuzzerMutate(slot, SLOT, SLOT);
        slot[0] = SLOT_DRAWS;
        if (seed / 128 % 8)
            slot[1] = SLOT_PLAIN;
        return n;
    }
    return name + LLVMFuzzerMutate(data + name, n - name, most - name);
}
