/* Options come from three places under the same names: flags, environment, file. Each option keeps
 * the text from the highest of them that has it; numbers are judged once, at the end, whatever the
 * place. All of it runs once in main. */
#include "server/config.h"

#include "api/api.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option {
#define TD_OPTION(id, flag, value, def, help) OPT_##id,
#include "server/options.def"
#undef TD_OPTION
    OPTIONS
};

static const struct {
    const char *flag, *value, *def, *help;
} options[OPTIONS] = {
#define TD_OPTION(id, flag, value, def, help) {flag, value, def, help},
#include "server/options.def"
#undef TD_OPTION
};

#define FILE_BYTES (1 << 20)

enum place { PLACE_default, PLACE_file, PLACE_environment, PLACE_flag };

struct reader {
    struct td_config *config;
    const char *text[OPTIONS];
    enum place place[OPTIONS], now;
    char *room; /* for the next text from the file; up to end */
    const char *end;
};

/* The list of a repeatable option, NULL for the others. */
static struct td_given *given(struct td_config *config, int option)
{
    return option == OPT_listen ? &config->listen : option == OPT_pool ? &config->pool : NULL;
}

void td_config_help(void)
{
    for (int i = 0; i < OPTIONS; i++) {
        char left[64];
        const char *help = options[i].help;
        snprintf(left, sizeof left, "--%s %s", options[i].flag, options[i].value);
        printf("  %-34s", left);
        for (const char *line = help; line;) {
            const char *end = strchr(line, '\n');
            printf("%*s%.*s", line == help ? 0 : 36, "", end ? (int)(end - line) : 200, line);
            line = end ? end + 1 : NULL;
            if (line)
                printf("\n");
        }
        printf(*options[i].def ? " [%s]\n" : "\n", options[i].def);
    }
}

static int find(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++) {
        const char *flag = options[i].flag;
        size_t k = 0;
        while (k < length && flag[k] && (flag[k] == name[k] || (flag[k] == '-' && name[k] == '_')))
            k++;
        if (k == length && !flag[k])
            return i;
    }
    return -1;
}

static int set(struct reader *r, int option, const char *text, struct td_problem *problem)
{
    struct td_given *list = given(r->config, option);
    if (r->place[option] > r->now)
        return 0;
    if (list && list->n == TD_MAX_GIVEN)
        return td_problem_set(problem, EINVAL, "%s: at most %d can be given", options[option].flag,
                              TD_MAX_GIVEN);
    if (list)
        list->text[list->n++] = text;
    r->text[option] = text;
    r->place[option] = r->now;
    return 0;
}

static int read_flags(struct reader *r, int argc, char **argv, struct td_problem *problem)
{
    r->now = PLACE_flag;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
            return 1;
        size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
        int option = !strncmp(arg, "--", 2) && n > 2 ? find(arg + 2, n - 2) : -1;
        if (option < 0)
            return td_problem_set(problem, EINVAL,
                                  "unknown option '%.60s'; see tensord serve --help", arg);
        if (!equals && ++i == argc)
            return td_problem_set(problem, EINVAL, "%s: wants %s", arg, options[option].value);
        int err = set(r, option, equals ? equals + 1 : argv[i], problem);
        if (err)
            return err;
    }
    return 0;
}

/* A repeatable option, such as TENSORD_POOL, may hold several, separated by blanks. */
static int read_environment(struct reader *r, struct td_problem *problem)
{
    r->now = PLACE_environment;
    for (int i = 0; i < OPTIONS; i++) {
        char name[64] = "TENSORD_";
        for (size_t k = 0, n = strlen(name); k <= strlen(options[i].flag); k++)
            name[n + k] =
                options[i].flag[k] == '-' ? '_' : (char)toupper((unsigned char)options[i].flag[k]);
        char *text = getenv(name);
        if (!text || !*text)
            continue;
        char *one, *rest = text;
        bool repeatable = given(r->config, i) != NULL;
        if (!repeatable && set(r, i, text, problem))
            return -EINVAL;
        while (repeatable && r->place[i] <= r->now && (one = strsep(&rest, " ")))
            if (*one && set(r, i, one, problem))
                return -EINVAL;
    }
    return 0;
}

static int set_from_file(void *arg, const char *key, const char *value, struct td_problem *problem)
{
    struct reader *r = arg;
    int option = find(key, strlen(key));
    if (option < 0 || option == OPT_config)
        return td_problem_set(problem, EINVAL, "unknown option '%.60s'", key);
    size_t size = strlen(value) + 1;
    if (size > (size_t)(r->end - r->room))
        return td_problem_set(problem, EINVAL, "%.60s: too many values", key);
    char *copy = memcpy(r->room, value, size);
    r->room += size;
    return set(r, option, copy, problem);
}

static int read_file(struct reader *r, const char *path, struct td_problem *problem)
{
    FILE *file = fopen(path, "re");
    struct td_problem why = {""};
    char *text = file ? malloc(FILE_BYTES) : NULL;
    char *values = text ? r->config->memory_ = malloc(FILE_BYTES) : NULL;
    size_t n = values ? fread(text, 1, FILE_BYTES, file) : 0;
    int err = 0;
    if (!values || ferror(file)) {
        err = td_problem_set(&why, EINVAL, "%s", strerror(errno));
    } else if (n == FILE_BYTES) {
        err = td_problem_set(&why, EINVAL, "must have less than %d bytes", FILE_BYTES);
    } else {
        r->now = PLACE_file;
        r->room = values;
        r->end = values + FILE_BYTES;
        err = td_api_each_member(text, n, set_from_file, r, &why);
    }
    free(text);
    if (file)
        fclose(file);
    return err ? td_problem_set(problem, EINVAL, "config: %.200s: %.300s", path, why.text) : 0;
}

static int number(const struct reader *r, enum option option, double low, double high, double *out,
                  struct td_problem *problem)
{
    char *end;
    *out = strtod(r->text[option], &end);
    if (end == r->text[option] || *end || *out < low || *out > high ||
        *out != (double)(int64_t)*out)
        return td_problem_set(problem, EINVAL,
                              "%s: '%.40s' is wrong; right is a whole number from "
                              "%.0f to %.0f",
                              options[option].flag, r->text[option], low, high);
    return 0;
}

static int read_shm(const struct reader *r, int *clients, struct td_problem *problem)
{
    static const char *const names[] = {
        [TD_SHM_auto] = "auto", [TD_SHM_on] = "on", [TD_SHM_off] = "off"};
    const char *text = r->text[OPT_client_shared_memory];
    for (int i = 0; i <= TD_SHM_off; i++)
        if (!strcmp(text, names[i])) {
            *clients = i;
            return 0;
        }
    return td_problem_set(problem, EINVAL,
                          "client-shared-memory: '%.40s' is wrong; right are auto, on and off",
                          text);
}

static int finish(struct reader *r, struct td_problem *problem)
{
    struct td_config *c = r->config;
    double io_threads, json_depth, connections, idle_s, drain_s, max_body, max_headers;
    double task_ttl_s, tasks, task_bytes, io_spin_us;
    if (!c->listen.n)
        c->listen.text[c->listen.n++] = r->text[OPT_listen];
    c->io_cpus = r->text[OPT_io_cpus];
    c->cpu_capability = r->text[OPT_cpu_capability];
    c->pin_backend = r->text[OPT_pin_backend];
    if (number(r, OPT_io_threads, 0, 64, &io_threads, problem) ||
        number(r, OPT_io_spin_us, -1, 1e6, &io_spin_us, problem) ||
        number(r, OPT_json_depth, 2, 1000, &json_depth, problem) ||
        number(r, OPT_connections, 1, 1e6, &connections, problem) ||
        number(r, OPT_idle_s, 1, 86400, &idle_s, problem) ||
        number(r, OPT_drain_s, 0, 86400, &drain_s, problem) ||
        number(r, OPT_task_ttl_s, 1, 86400, &task_ttl_s, problem) ||
        number(r, OPT_tasks, 0, 1e6, &tasks, problem) ||
        number(r, OPT_task_bytes, 0, 1e15, &task_bytes, problem) ||
        number(r, OPT_max_body, 1024, 1e12, &max_body, problem) ||
        number(r, OPT_max_headers, 1024, 60000, &max_headers, problem) ||
        read_shm(r, &c->client_shared_memory, problem))
        return -EINVAL;
    c->io_threads = (int)io_threads;
    c->io_spin_us = (int)io_spin_us;
    c->json_depth = (int)json_depth;
    c->connections = (int)connections;
    c->idle_s = (int)idle_s;
    c->drain_s = (int)drain_s;
    c->task_ttl_s = (int)task_ttl_s;
    c->tasks = (int)tasks;
    c->task_bytes = (size_t)task_bytes;
    c->max_body = (size_t)max_body;
    c->max_headers = (size_t)max_headers;
    return 0;
}

int td_config_read(struct td_config *config, int argc, char **argv, struct td_problem *problem)
{
    struct reader r = {.config = config};
    *config = (struct td_config){0};
    for (int i = 0; i < OPTIONS; i++)
        r.text[i] = options[i].def;
    int err = read_flags(&r, argc, argv, problem);
    if (err)
        return err;
    if ((err = read_environment(&r, problem)))
        return err;
    if (*r.text[OPT_config] && (err = read_file(&r, r.text[OPT_config], problem)))
        return err;
    return finish(&r, problem);
}

void td_config_fini(struct td_config *config)
{
    free(config->memory_);
}
