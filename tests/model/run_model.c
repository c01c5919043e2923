/* run_model: runs models on tensors in files, for tests that bring both. Each line of standard
 * input is MODEL <tab> DIR <tab> THREADS <tab> eager|plan|steps <tab> RUNS <tab> SECONDS that it
 * may take (60 when left out); steps are runs that each go on from the states that the last one
 * left; inputs are DIR/in0, in1, ... in the model's order, and what comes out becomes DIR/out0, ...
 * The reply is a line: "ok N" with the number of outputs, "load: SENTENCE" or "run: SENTENCE".
 * Bytes that are still counted once a model is gone are an error: the status is then 1.
 *
 * A tensor's file is a line, "FP32 2 3", and the elements. */
#include "dispatch/dispatch.h"
#include "dispatch/model/model.h"
#include "pools/memory/buffer.h"
#include "pools/pools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        return NULL;
    long bytes = ftell(file);
    void *data = bytes < 0 ? NULL : aligned_alloc(64, ((size_t)bytes + 127) & ~(size_t)63);
    rewind(file);
    if (data)
        *size = fread(data, 1, (size_t)bytes, file);
    fclose(file);
    return data;
}

/* False: there is no such file, or it is none of a tensor. Its data are the caller's. */
static bool read_tensor(const char *path, struct td_tensor *t)
{
    size_t size = 0;
    char *file = read_file(path, &size), *end = file ? memchr(file, '\n', size) : NULL;
    if (!end)
        return false;
    *end = 0;
    char *word = strtok(file, " ");
    *t = (struct td_tensor){.dtype = td_dtype_find(word)};
    while ((word = strtok(NULL, " ")) && t->rank < TD_MAX_RANK)
        t->shape[t->rank++] = strtoll(word, NULL, 10);
    size_t bytes = td_nbytes(t), room = (bytes + 127) & ~(size_t)63;
    bool right = t->dtype && bytes == size - (size_t)(end + 1 - file);
    t->data = right ? aligned_alloc(64, room) : NULL;
    if (t->data)
        memcpy(t->data, end + 1, bytes);
    free(file);
    return t->data;
}

static bool write_tensor(const char *path, const struct td_tensor *t)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    fputs(td_dtype_name(t->dtype), file);
    for (int d = 0; d < t->rank; d++)
        fprintf(file, " %lld", (long long)t->shape[d]);
    fputc('\n', file);
    size_t bytes = td_nbytes(t);
    bool written = fwrite(t->data, 1, bytes, file) == bytes;
    return !fclose(file) && written;
}

static int read_inputs(const char *dir, struct td_tensor *in, int most)
{
    char path[4096];
    int n = 0;
    while (n < most) {
        snprintf(path, sizeof path, "%s/in%d", dir, n);
        if (!read_tensor(path, &in[n]))
            break;
        n++;
    }
    return n;
}

static void write_results(const char *dir, const struct td_model_results *results, int n)
{
    char path[4096];
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/out%d", dir, i);
        if (!write_tensor(path, td_model_result(results, i)))
            perror(path);
    }
}

/* Copies of what a run has left of each state become its inputs. */
static void go_on(struct td_model *model, const struct td_model_results *results,
                  struct td_tensor *in, void **kept)
{
    const struct td_model_state *state;
    for (int i = 0; i < td_model_states(model, &state); i++) {
        const struct td_tensor *t = td_model_result(results, state[i].output);
        void *data = malloc(td_nbytes(t) + 1);
        memcpy(data, t->data, td_nbytes(t));
        free(kept[i]);
        kept[i] = data;
        in[state[i].input] = *t;
        in[state[i].input].data = data;
    }
}

static int run(struct td_model *model, const char *dir, const struct td_model_call *call, int runs,
               bool steps, struct td_problem *problem)
{
    struct td_tensor in[256];
    void *kept[256] = {0}, *own[256] = {0};
    const struct td_model_port *ports;
    const struct td_model_state *state;
    int own_n = td_model_inputs(model, &ports), n = read_inputs(dir, in, 256), err = 0;
    for (int i = 0; i < n; i++)
        own[i] = in[i].data;
    int needed = td_model_all_inputs(model) - own_n;
    if (n == own_n && n + needed <= 256 && td_model_states(model, &state) <= 256) {
        td_model_begin_states(model, in);
        err = td_model_check(model, in, n + needed, problem);
    } else {
        err = td_model_check(model, in, n, problem);
    }
    for (int i = 0; i < runs && !err; i++) {
        struct td_model_results *results = NULL;
        int64_t before = td_clock_ns();
        err = td_model_run(model, in, call, &results, problem);
        int64_t after = td_clock_ns();
        if (!err && i == runs - 1)
            write_results(dir, results, td_model_outputs(model, &ports));
        if (!err && steps)
            go_on(model, results, in, kept);
        if (!err && runs > 1)
            fprintf(stderr, "%.3f ms, %d calls\n", (double)(after - before) / 1e6,
                    td_model_figures(results).calls);
        td_model_free_results(&results);
    }
    for (int i = 0; i < n; i++)
        free(own[i]);
    for (int i = 0; i < 256; i++)
        free(kept[i]);
    return err;
}

/* A sentence on one line, whatever the file's names in it are. */
static void say(const char *what, struct td_problem *problem)
{
    for (char *c = problem->text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    printf("%s: %s\n", what, problem->text);
}

static void serve(char *line)
{
    struct td_problem problem = {0};
    struct td_model *model;
    const struct td_model_port *ports;
    size_t size = 0;
    line[strcspn(line, "\n")] = 0;
    char *path = strtok(line, "\t"), *dir = strtok(NULL, "\t"), *threads = strtok(NULL, "\t");
    char *how = strtok(NULL, "\t"), *runs = strtok(NULL, "\t"), *seconds = strtok(NULL, "\t");
    void *file = runs ? read_file(path, &size) : NULL;
    if (!file) {
        puts("load: no such file");
        return;
    }
    struct td_stop stop = {.deadline_ns = td_clock_ns() +
                                          (seconds ? atoi(seconds) : 60) * INT64_C(1000000000)};
    struct td_model_call call = {.threads = atoi(threads), .node = -1};
    call.eager = !strcmp(how, "eager");
    call.stop = &stop;
    int err = td_model_load(&model, file, size, NULL, NULL, &problem);
    free(file);
    if (err) {
        say("load", &problem);
        return;
    }
    err = run(model, dir, &call, atoi(runs), !strcmp(how, "steps"), &problem);
    if (err)
        say("run", &problem);
    else
        printf("ok %d\n", td_model_outputs(model, &ports));
    td_model_unref(&model);
}

/* Of td_memory, without the blocks that are kept for the next run. */
static size_t counted(void)
{
    td_buffers_trim(0);
    return td_memory.used;
}

int main(void)
{
    static char line[16384];
    int status = 0;
    struct td_problem problem = {0};
    td_memory.limit = (size_t)6 << 30; /* as a server's: what is hostile must not have more */
    if (td_cpu_init(NULL, &problem) || td_registry_init(&problem)) {
        fprintf(stderr, "run_model: %s\n", problem.text);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        size_t before = counted();
        serve(line);
        fflush(stdout);
        if (counted() != before) {
            fprintf(stderr, "run_model: %zu bytes are still counted\n", td_memory.used - before);
            status = 1;
        }
    }
    return status;
}
