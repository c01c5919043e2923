/* Peers in a Python that the command line names: see peers.h. The program needs no Python: without
 * one, or where the process fails, the report says why there are none. */
#include "server/report/peers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PATIENCE_MS 120000 /* for an answer: libraries take long to load on a busy machine */

/* The next line that it says, without its end, in the arena; NULL: there is none. */
static char *read_line(struct td_peers *p, struct td_arena *arena)
{
    struct td_writer line;
    td_write_init(&line, arena, 4096);
    for (;;) {
        struct pollfd ready = {.fd = p->child.log, .events = POLLIN};
        char *room = td_write_room(&line, 2);
        if (!room || poll(&ready, 1, PATIENCE_MS) != 1 || read(p->child.log, room, 1) != 1)
            return NULL;
        if (*room != '\n') {
            td_write_took(&line, 1);
            continue;
        }
        *room = 0;
        return line.text;
    }
}

static void read_peers(struct td_peers *p, const cJSON *root)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, td_json_member(root, "peers"))
    {
        if (p->n == TD_PEERS || !cJSON_IsString(one))
            continue;
        snprintf(p->peer[p->n].name, sizeof p->peer[0].name, "%s", one->string);
        snprintf(p->peer[p->n++].version, sizeof p->peer[0].version, "%s", one->valuestring);
    }
    cJSON_ArrayForEach(one, td_json_member(root, "missing"))
    {
        if (p->n_missing == TD_PEERS || !cJSON_IsString(one))
            continue;
        snprintf(p->missing[p->n_missing].name, sizeof p->missing[0].name, "%s", one->string);
        snprintf(p->missing[p->n_missing++].why, sizeof p->missing[0].why, "%s", one->valuestring);
    }
}

void td_peers_start(struct td_peers *p, const char *python, struct td_arena *arena)
{
    const char *const words[] = {"-c", td_peers_script, NULL};
    struct td_json json = {0};
    struct td_problem problem;
    *p = (struct td_peers){.child = {.pid = -1, .log = -1, .to = -1}, .model = -1};
    if (!python) {
        td_problem_set(&p->problem, ENOENT, "no Python was named (--python PATH)");
        return;
    }
    signal(SIGPIPE, SIG_IGN); /* one that has ended is seen by its silence */
    if (td_child_spawn(&p->child, python, words, &p->problem))
        return;
    char *line = read_line(p, arena);
    if (line && !td_json_parse(&json, line, strlen(line), 8, &problem))
        read_peers(p, json.root);
    td_json_free(&json);
    if (p->n)
        return;
    td_problem_set(&p->problem, ENOENT,
                   line ? "%.200s has none of them" : "%.200s: it does not start", python);
    td_peers_stop(p);
}

static void forget_files(struct td_peers *p)
{
    if (p->model >= 0)
        close(p->model);
    p->model = -1;
    while (p->n_files)
        close(p->file[--p->n_files]);
}

void td_peers_stop(struct td_peers *p)
{
    forget_files(p);
    td_child_stop(&p->child);
}

/* ---- a network ---- */

/* A file without a name that holds these bytes; -1: there is none. */
static int keep(const void *bytes, size_t size)
{
    int fd = memfd_create("tensord-report", MFD_CLOEXEC);
    for (size_t done = 0; fd >= 0 && done < size;) {
        ssize_t n = write(fd, (const char *)bytes + done, size - done);
        if (n <= 0) {
            close(fd);
            return -1;
        }
        done += (size_t)n;
    }
    return fd;
}

static void write_path(struct td_writer *w, const char *key, int fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    td_write_str(w, key, path);
}

void td_peers_begin(struct td_peers *p, struct td_arena *arena, const void *model, size_t size)
{
    forget_files(p);
    if (p->child.pid < 0)
        return;
    p->model = keep(model, size);
    td_write_init(&p->inputs, arena, 512);
    td_write_init(&p->outputs, arena, 512);
    td_write_open(&p->inputs, NULL, '[');
    td_write_open(&p->outputs, NULL, '[');
}

static bool add_file(struct td_peers *p, struct td_writer *w, const void *bytes, size_t size)
{
    int fd = p->model >= 0 && p->n_files < TD_PEER_FILES ? keep(bytes, size) : -1;
    if (fd < 0)
        return false;
    p->file[p->n_files++] = fd;
    td_write_open(w, NULL, '{');
    write_path(w, "file", fd);
    return true;
}

void td_peers_input(struct td_peers *p, const char *name, const void *npy, size_t size)
{
    if (!add_file(p, &p->inputs, npy, size))
        return;
    td_write_str(&p->inputs, "name", name);
    td_write_close(&p->inputs, '}');
}

void td_peers_output(struct td_peers *p, const struct td_tensor *tensor)
{
    if (!add_file(p, &p->outputs, tensor->data, td_nbytes(tensor)))
        return;
    td_write_str(&p->outputs, "datatype", td_dtype_name(tensor->dtype));
    td_write_shape(&p->outputs, tensor);
    td_write_close(&p->outputs, '}');
}

static void write_order(struct td_peers *p, struct td_writer *w, int threads, const int *cpus,
                        double seconds)
{
    struct td_writer in = p->inputs, out = p->outputs; /* without their ends */
    td_write_close(&in, ']');
    td_write_close(&out, ']');
    td_write_open(w, NULL, '{');
    write_path(w, "model", p->model);
    td_write_raw(w, "inputs", in.text, in.length);
    td_write_raw(w, "outputs", out.text, out.length);
    td_write_int(w, "threads", threads);
    td_write_open(w, "cpus", '[');
    for (int i = 0; i < threads; i++)
        td_write_int(w, NULL, cpus[i]);
    td_write_close(w, ']');
    td_write_num(w, "seconds", seconds);
    td_write_close(w, '}');
    char *end = td_write_room(w, 1);
    if (end)
        *end = '\n';
    td_write_took(w, end != NULL);
}

static void read_told(const cJSON *answer, struct td_peer_told *told)
{
    const cJSON *us = td_json_member(answer, "us"), *worst = td_json_member(answer, "worst");
    const cJSON *error = td_json_member(answer, "error");
    if (cJSON_IsNumber(us) && cJSON_IsNumber(worst)) {
        told->us = us->valuedouble;
        told->worst = worst->valuedouble;
        return;
    }
    snprintf(told->why, sizeof told->why, "%s",
             cJSON_IsString(error) ? error->valuestring : "it did not answer");
}

void td_peers_ask(struct td_peers *p, struct td_arena *arena, int threads, const int *cpus,
                  double seconds, struct td_peer_told *told)
{
    struct td_writer order;
    struct td_json json = {0};
    struct td_problem problem;
    if (p->child.pid < 0 || p->model < 0)
        return;
    td_write_init(&order, arena, 1024);
    write_order(p, &order, threads, cpus, seconds);
    bool sent =
        !order.failed && write(p->child.to, order.text, order.length) == (ssize_t)order.length;
    char *line = sent ? read_line(p, arena) : NULL;
    if (line)
        td_json_parse(&json, line, strlen(line), 8, &problem);
    for (int i = 0; i < p->n; i++)
        read_told(td_json_member(json.root, p->peer[i].name), &told[i]);
    td_json_free(&json);
    if (line)
        return;
    td_problem_set(&p->problem, EPROTO, "the Python ended, or took more than %d s for a network",
                   PATIENCE_MS / 1000);
    td_peers_stop(p); /* an answer that came late would be taken for the next one's */
}
