/* Measured choices between kernels, kept in a file (--choices) beyond the process: by version of
 * the program and of oneDNN, CPU model and ISA level, since another of these has other times. One
 * file may have several machines' parts; each process reads and writes its own and leaves the
 * others as they are. What a file says can make a call slower, never wrong: rows are asked whether
 * they take a call all the same.
 *
 * The form: {"machines":[{"tensord","onednn","cpu","level","kinds":[...],"peaks":[...]}]}. A kind
 * is
 * {"op","signature","call","asked","row","measured":[{"row","kernel","level","us"}]}. A row is its
 * place in the operator's table, and must have the name and level that are said. Peaks, which may
 * be missing, are described in choices.h. All of the file is checked before anything of it is used.
 * A file of another form is left alone. */
#include "api/choices/choices.h"
#include "api/files/files.h"
#include "dispatch/choice/peaks.h"
#include "dispatch/choice/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (4 << 20)
#define MOST_US 1e9      /* the longest time of a kernel that is read */
#define MOST_MACHINES 32 /* of which the last ones are kept */
#define DEPTH 8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the file and what follows */
static long long written;                                /* changes(), the last time */
static struct td_problem left_alone; /* why the file is not written; empty text: it is */

static long long changes(void)
{
    return td_choices_changes() + td_peaks_changes();
}

/* ---- what this machine is ---- */

/* A machine's members; the first ones are words that say which it is. */
static const char *const parts[] = {"tensord", "onednn", "cpu", "level", "kinds", "peaks", NULL};
#define WORDS 4

static const char *word(int i)
{
    const char *const now[WORDS] = {TD_VERSION, td_onednn_version(), td_cpu()->model,
                                    td_isa_name(td_cpu()->current)};
    return now[i];
}

static bool is_this(const cJSON *machine)
{
    for (int i = 0; i < WORDS; i++) {
        const cJSON *said = td_json_member(machine, parts[i]);
        if (!cJSON_IsString(said) || strcmp(said->valuestring, word(i)) != 0)
            return false;
    }
    return true;
}

/* ---- reading ---- */

static int wrong(struct td_problem *problem, const char *what)
{
    return td_problem_set(problem, EINVAL, "%s", what);
}

static int check_rows(const cJSON *measured, struct td_problem *problem)
{
    static const char *const members[] = {"row", "kernel", "level", "us", NULL};
    const cJSON *one;
    int n = 0;
    cJSON_ArrayForEach(one, measured)
    {
        int err = td_json_members(one, "measured", members, problem);
        if (err)
            return err;
        const cJSON *us = td_json_member(one, "us");
        if (!cJSON_IsNumber(td_json_member(one, "row")) ||
            !cJSON_IsString(td_json_member(one, "kernel")) ||
            !cJSON_IsString(td_json_member(one, "level")) || !cJSON_IsNumber(us) ||
            !(us->valuedouble >= 0 && us->valuedouble <= MOST_US))
            return wrong(problem, "measured: each has row, kernel, level and us");
        n++;
    }
    return n && n <= TD_MEASURED ? 0 : wrong(problem, "measured: has from 1 to 9 rows");
}

static int check_kind(const cJSON *kind, struct td_problem *problem)
{
    static const char *const members[] = {"op",  "signature", "call", "asked",
                                          "row", "measured",  NULL};
    int err = td_json_members(kind, "kinds", members, problem);
    if (err)
        return err;
    const cJSON *signature = td_json_member(kind, "signature");
    if (!cJSON_IsString(td_json_member(kind, "op")) ||
        !cJSON_IsString(td_json_member(kind, "call")) || !cJSON_IsString(signature) ||
        strspn(signature->valuestring, "0123456789abcdef") != 16 || signature->valuestring[16] ||
        !cJSON_IsBool(td_json_member(kind, "asked")) ||
        !cJSON_IsNumber(td_json_member(kind, "row")) ||
        !cJSON_IsArray(td_json_member(kind, "measured")))
        return wrong(problem, "kinds: each has op, signature, call, asked, row and measured");
    return check_rows(td_json_member(kind, "measured"), problem);
}

/* Whether the tree is of such a file, whatever machines it tells of. */
static int check(const cJSON *root, struct td_problem *problem)
{
    static const char *const outer[] = {"machines", NULL};
    const cJSON *machines = td_json_member(root, "machines"), *machine, *kind;
    int err = td_json_members(root, "the file", outer, problem);
    if (!err && !cJSON_IsArray(machines))
        err = wrong(problem, "machines: must be a list");
    if (err)
        return err;
    cJSON_ArrayForEach(machine, machines)
    {
        err = td_json_members(machine, "machines", parts, problem);
        for (int i = 0; i < WORDS && !err; i++)
            if (!cJSON_IsString(td_json_member(machine, parts[i])))
                err = td_problem_set(problem, EINVAL, "machines: each has %s, a text", parts[i]);
        const cJSON *kinds = td_json_member(machine, "kinds");
        if (!err && !cJSON_IsArray(kinds))
            err = wrong(problem, "kinds: must be a list");
        err = err ? err : td_choices_check_peaks(td_json_member(machine, "peaks"), problem);
        if (err)
            return err;
        cJSON_ArrayForEach(kind, kinds)
        {
            if ((err = check_kind(kind, problem)))
                return err;
        }
    }
    return 0;
}

/* The row at the place, which must be what the file says of it; NULL: it is another. */
static const struct td_impl *row_at(const struct td_impl *rows, const cJSON *said)
{
    const char *kernel = td_json_member(said, "kernel")->valuestring;
    const char *level = td_json_member(said, "level")->valuestring;
    double place = td_json_member(said, "row")->valuedouble;
    for (int i = 0; rows[i].run; i++)
        if (place == i && !strcmp(rows[i].name, kernel) && !strcmp(td_isa_name(rows[i].isa), level))
            return &rows[i];
    return NULL;
}

/* False: its operator or rows are others here. */
static bool take(const cJSON *kind)
{
    const struct td_handle *handle = td_registry_find(td_json_member(kind, "op")->valuestring);
    if (!handle)
        return false;
    struct td_measured m = {.op = handle->op,
                            .of = handle->op->impls,
                            .signature =
                                strtoull(td_json_member(kind, "signature")->valuestring, NULL, 16),
                            .asked = cJSON_IsTrue(td_json_member(kind, "asked"))};
    double place = td_json_member(kind, "row")->valuedouble;
    const cJSON *one;
    snprintf(m.call, sizeof m.call, "%s", td_json_member(kind, "call")->valuestring);
    cJSON_ArrayForEach(one, td_json_member(kind, "measured"))
    {
        const struct td_impl *row = row_at(m.of, one);
        if (!row)
            return false;
        if (place == td_json_member(one, "row")->valuedouble)
            m.row = row;
        m.tried[m.n].row = row;
        m.tried[m.n++].us = td_json_member(one, "us")->valuedouble;
    }
    return m.row && td_choice_restore(&m);
}

/* The file as a tree that is right; json is to be freed in any case. -ENOENT: there is none. */
static int read_tree(const char *path, struct td_arena *arena, struct td_json *json,
                     struct td_problem *problem)
{
    struct stat st;
    size_t size;
    int none = stat(path, &st);
    if (none && errno == ENOENT)
        return -ENOENT;
    if (!none && st.st_size > MOST_BYTES)
        return td_problem_set(problem, EINVAL, "it is longer than %d bytes", MOST_BYTES);
    const char *text = td_read_file(arena, path, &size, problem);
    int err = text ? td_json_parse(json, text, size, DEPTH, problem) : -EINVAL;
    return err ? err : check(json->root, problem);
}

int td_api_load_choices(struct td_service *service, void (*say)(const char *sentence))
{
    struct td_arena *arena = td_arena_create();
    struct td_problem problem = {""};
    struct td_json json = {0};
    char text[1400];
    const cJSON *machine, *kind;
    int taken = 0, refused = 0, others = 0;
    if (!arena)
        return -ENOMEM;
    pthread_mutex_lock(&lock);
    int err = read_tree(service->choices, arena, &json, &problem);
    if (err && err != -ENOENT)
        left_alone = problem;
    if (!err)
        cJSON_ArrayForEach(machine, td_json_member(json.root, "machines"))
        {
            bool ours = is_this(machine);
            others += !ours;
            if (ours)
                td_choices_take_peaks(td_json_member(machine, "peaks"));
            if (ours)
                cJSON_ArrayForEach(kind, td_json_member(machine, "kinds"))
                {
                    bool fits = take(kind);
                    taken += fits;
                    refused += !fits;
                }
        }
    written = changes();
    pthread_mutex_unlock(&lock);
    if (*left_alone.text)
        snprintf(text, sizeof text,
                 "choices: %.300s is ignored, and will not be written: %.600s; remove it, or name "
                 "another",
                 service->choices, problem.text);
    else if (!err && others && !taken && !refused)
        snprintf(text, sizeof text,
                 "choices: %.300s has nothing that fits: it was measured by another version, CPU "
                 "or level than %s, oneDNN %s, %s, %s; what is measured here will stand beside it",
                 service->choices, word(0), word(1), word(2), word(3));
    else if (refused)
        snprintf(text, sizeof text,
                 "choices: %d of %d in %.300s are ignored: their operators have other kernels here",
                 refused, refused + taken, service->choices);
    else if (td_tuned().kinds < taken)
        snprintf(text, sizeof text,
                 "choices: %" PRId64
                 " of the %d kinds of calls in %.300s are known; for the others there "
                 "was no room",
                 td_tuned().kinds, taken, service->choices);
    else
        snprintf(text, sizeof text, "choices: %d kinds of calls are known from %.300s", taken,
                 service->choices);
    say(text);
    td_json_free(&json);
    td_arena_destroy(arena);
    return 0;
}

/* ---- writing ---- */

static int place_of(const struct td_measured *m, const struct td_impl *row)
{
    return (int)(row - m->of);
}

/* Only of the operators' own tables, and what there is a name for. */
static void write_kind(void *arg, const struct td_measured *m, long long hits)
{
    struct td_writer *w = arg;
    char name[TD_NAME_SIZE], signature[17];
    (void)hits;
    if (!m->op || m->of != m->op->impls)
        return;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(m->op->schema, "("), m->op->schema);
    snprintf(signature, sizeof signature, "%016llx", (unsigned long long)m->signature);
    td_write_open(w, NULL, '{');
    td_write_str(w, "op", name);
    td_write_str(w, "signature", signature);
    td_write_str(w, "call", m->call);
    td_write_bool(w, "asked", m->asked);
    td_write_int(w, "row", place_of(m, m->row));
    td_write_open(w, "measured", '[');
    for (int i = 0; i < m->n; i++) {
        td_write_open(w, NULL, '{');
        td_write_int(w, "row", place_of(m, m->tried[i].row));
        td_write_str(w, "kernel", m->tried[i].row->name);
        td_write_str(w, "level", td_isa_name(m->tried[i].row->isa));
        td_write_us(w, "us", llround(m->tried[i].us * 1e3));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    td_write_close(w, '}');
}

/* The parts of other machines, as they stand in the file, but for the first ones. */
static void write_others(struct td_writer *w, const cJSON *machines, int skipped)
{
    const cJSON *machine;
    cJSON_ArrayForEach(machine, machines)
    {
        char *text = skipped-- > 0 || is_this(machine) ? NULL : cJSON_PrintUnformatted(machine);
        if (text)
            td_write_raw(w, NULL, text, strlen(text));
        cJSON_free(text);
    }
}

static void write_file(struct td_writer *w, const cJSON *machines, int skipped)
{
    td_write_open(w, NULL, '{');
    td_write_open(w, "machines", '[');
    write_others(w, machines, skipped);
    td_write_open(w, NULL, '{');
    for (int i = 0; i < WORDS; i++)
        td_write_str(w, parts[i], word(i));
    td_write_open(w, "kinds", '[');
    td_choices_visit(write_kind, w);
    td_write_close(w, ']');
    td_choices_write_peaks(w);
    td_write_close(w, '}');
    td_write_close(w, ']');
    td_write_close(w, '}');
}

/* Whether read_tree will take it: there are bounds to what it reads. */
static bool can_be_read(const struct td_writer *w)
{
    struct td_problem problem;
    struct td_json json = {0};
    bool can =
        w->length <= MOST_BYTES && !td_json_parse(&json, w->text, w->length, DEPTH, &problem);
    td_json_free(&json);
    return can;
}

/* As many of the other machines' parts as can be read again, the last ones. */
static void write_all(struct td_writer *w, struct td_arena *arena, const cJSON *before)
{
    const cJSON *machines = td_json_member(before, "machines");
    int n = cJSON_GetArraySize(machines);
    int skipped = n < MOST_MACHINES ? 0 : n - MOST_MACHINES + 1;
    td_write_init(w, arena, 65536);
    do {
        w->length = 0, w->comma = false; /* in the same memory */
        write_file(w, machines, skipped);
    } while (!w->failed && !can_be_read(w) && skipped++ < n);
}

/* Of a symbolic link, what it leads to is replaced. */
static int replace(const char *path, const char *text, size_t n)
{
    char *real = realpath(path, NULL);
    const char *to = real ? real : path;
    char *made = td_file_beside(to, 0644, text, n);
    int err = !made || rename(made, to) ? -errno : 0;
    if (made && err)
        unlink(made);
    free(made);
    free(real);
    return err;
}

int td_api_keep_choices(struct td_service *service, struct td_problem *problem)
{
    if (!service->choices || !*service->choices)
        return 0;
    struct td_arena *arena = td_arena_create();
    struct td_json json = {0};
    struct td_writer w;
    if (!arena)
        return td_problem_set(problem, ENOMEM, "choices: no memory to write them");
    pthread_mutex_lock(&lock);
    long long now = changes();
    int err = 0;
    if (now != written && !*left_alone.text) {
        err = read_tree(service->choices, arena, &json, problem);
        if (err && err != -ENOENT)
            left_alone = *problem;
    }
    if (*left_alone.text) {
        err = td_problem_set(problem, EINVAL, "choices: %.300s is not written, and stays: %.600s",
                             service->choices, left_alone.text);
    } else if (now != written) {
        write_all(&w, arena, err ? NULL : json.root);
        err = w.failed ? -ENOMEM : replace(service->choices, w.text, w.length);
        if (err)
            td_problem_set(problem, -err, "choices: %.300s cannot be written: %s", service->choices,
                           strerror(-err));
        else
            written = now;
        err = err ? err : 1;
    }
    pthread_mutex_unlock(&lock);
    td_json_free(&json);
    td_arena_destroy(arena);
    return err;
}
