/* Expressions, as /v1/eval takes them: a text over the tensors a, b, c and the number n, a zero
 * byte, and the tensors' types and shapes. What binds is run where that is little work, and
 * inferred with sizes that nobody knows, which must not contradict what was. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"
#include "tests/fuzz/mutate.h"
#include "tests/sample.h"

#define N_TENSORS 3
#define MOST ((size_t)1 << 18) /* bytes of a tensor */

static const char *words[1200];
static unsigned n_words;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const more[] = {
        "a", "b",  "c",  "n",  "(",  ")",      ",", "[", "]",   "=",  ";",     "+",
        "-", "*",  "/",  "//", "%",  "**",     "~", "&", "|",   "^",  "<<",    ">>",
        "<", "<=", "==", "!=", "y=", "'relu'", "2", "0", "1.5", "pi", "[1,2]", "True"};
    (void)argc;
    (void)argv;
    fuzz_start();
    for (int i = 0; i < td_registry_count() && n_words < 1100; i++)
        if (td_registry_at(i)->first)
            words[n_words++] = td_registry_at(i)->schema.name;
    for (int k = 0; k < 4; k++) /* these make up more of a text */
        for (size_t i = 0; i < sizeof more / sizeof *more && n_words < 1200; i++)
            words[n_words++] = more[i];
    return 0;
}

/* An argument that is not used is refused. */
static bool is_named(const char *text, const char *name)
{
    size_t size = strlen(text), end;
    for (size_t at = 0; at < size; at = end) {
        end = word_end((const uint8_t *)text, size, at);
        if (end - at == 1 && text[at] == *name)
            return true;
    }
    return false;
}

static bool is_little(const struct td_run *run)
{
    bool little = true;
    for (const struct td_run *part = run->parts; part; part = part->next)
        for (int i = 0; i < part->call.n_out; i++)
            little = little && td_fits(&part->call.out[i]) && td_nbytes(&part->call.out[i]) < MOST;
    return little;
}

static void execute(struct td_run *run)
{
    size_t scratch = 0;
    struct td_stop stop = {.deadline_ns = td_clock_ns() + WORK_NS};
    const struct td_stop *before = td_stop_obey(&stop);
    run->call.threads = 1;
    run->node = -1;
    if (!td_run_select(run, &scratch)) {
        scratch = (scratch + 63) / 64 * 64;
        if (scratch < 64 * MOST) {
            void *room = sample_alloc(scratch), *out[TD_MAX_OUTS];
            size_t bytes[TD_MAX_OUTS];
            for (int i = 0; i < run->call.n_out; i++) {
                bytes[i] = td_nbytes(&run->call.out[i]);
                out[i] = run->call.out[i].data = sample_alloc(bytes[i]);
            }
            td_run_execute(run, room);
            for (int i = 0; i < run->call.n_out; i++) {
                must(sample_guarded(out[i], bytes[i]));
                sample_free(out[i], bytes[i]);
            }
            sample_free(room, scratch);
        }
        td_run_release(run);
    }
    td_stop_obey(before);
}

static void infer(struct bytes *b, const char *text, const struct td_run *known,
                  struct td_named *args, int n, const struct td_options *options)
{
    static struct td_run run;
    bool hidden = false;
    for (int i = 0; i < n; i++) {
        struct td_tensor *t = &args[i].value.tensor;
        args[i].keys = td_keyset_of(TD_KEY_Meta);
        for (int d = 0; args[i].value.kind == TD_KIND_tensor && d < t->rank; d++)
            if (take(b) & 1) {
                t->shape[d] = TD_UNKNOWN;
                hidden = true;
            }
    }
    if (!hidden || td_run_infer(&run, NULL, text, args, n, options))
        return;
    must(run.call.n_out == known->call.n_out);
    for (int i = 0; i < run.call.n_out; i++) {
        const struct td_tensor *got = &run.call.out[i], *right = &known->call.out[i];
        must(got->rank == right->rank);
        for (int d = 0; d < got->rank; d++)
            must(got->shape[d] == TD_UNKNOWN || got->shape[d] == right->shape[d]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t sizes[] = {2, 3, 1, 4, 0, 5, 8, 17};
    static const char *const names[] = {"a", "b", "c"};
    static struct td_run run;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    struct bytes b = {zero ? zero + 1 : data + size, data + size};
    char *text = calloc(1, size + 1);
    memcpy(text, data, zero ? (size_t)(zero - data) : size);
    struct td_named args[N_TENSORS + 1];
    struct td_tensor made[N_TENSORS];
    int n = 0, n_made = 0;
    for (int i = 0; i < N_TENSORS; i++) {
        unsigned dtype = take(&b);
        struct td_tensor t = {.dtype = dtype % 4 ? TD_f32 : 1 << dtype / 4 % TD_DTYPES,
                              .rank = (int)(2 + take(&b)) % 5};
        for (int d = 0; d < t.rank; d++)
            t.shape[d] = PICK(&b, sizes);
        if (!is_named(text, names[i]))
            continue;
        t.data = sample_alloc(td_nbytes(&t));
        for (size_t k = 0; k < td_nbytes(&t); k++)
            ((uint8_t *)t.data)[k] =
                t.dtype == TD_bool ? k % 2
                                   : (uint8_t)(k % td_dtype_size(t.dtype) ? 1 + k % 7 : k % 3);
        made[n_made++] = t;
        args[n++] =
            (struct td_named){.name = names[i], .value = {.kind = TD_KIND_tensor, .tensor = t}};
    }
    if (is_named(text, "n"))
        args[n++] = (struct td_named){.name = "n", .value = {.kind = TD_KIND_int, .i = 2}};
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = td_arena_create()};
    int err = td_run_bind_expr(&run, text, args, n, &options);
    must(!err == !*run.problem.text);
    if (!err && is_little(&run))
        execute(&run);
    for (int i = 0; i < n_made; i++)
        sample_free(made[i].data, td_nbytes(&made[i]));
    if (!err && take(&b) % 16 == 1)
        infer(&b, text, &run, args, n, &options);
    td_arena_destroy(options.alloc_arg);
    free(text);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    if (!zero || seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, most);
    uint8_t text[TD_GRAPH_TEXT];
    size_t n = (size_t)(zero - data), room = most - (size - n);
    if (n > sizeof text)
        return size;
    memcpy(text, data, n);
    size_t now =
        mutate_text(text, n, room < sizeof text ? room : sizeof text, &seed, words, n_words);
    return splice(data, size, most, 0, n, text, now);
}
