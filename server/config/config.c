/* Options come from three places under the same names: flags, environment, file. Each option keeps
 * the text from the highest of them that has it; numbers are judged once, at the end, whatever the
 * place. All of it runs once in main. */
#include "server/config/config.h"

#include "api/api.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum option {
#define TD_OPTION(type, name, ...) OPT_##name,
#include "server/config/options.def"
#undef TD_OPTION
    OPTIONS
};

enum type { TYPE_text, TYPE_written, TYPE_list, TYPE_number, TYPE_bytes, TYPE_choice, TYPE_flag };

static const struct {
    const char *name, *value, *def, *help;
    double lowest, highest;
    size_t at; /* of its field in struct td_config */
    enum type type;
} options[OPTIONS] = {
#define TD_OPTION(type, name, value, def, lowest, highest, help)                                   \
    {#name, value, def, help, lowest, highest, offsetof(struct td_config, name), TYPE_##type},
#include "server/config/options.def"
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
    return options[option].type == TYPE_list ? (void *)((char *)config + options[option].at) : NULL;
}

struct flag {
    char text[40];
};

static struct flag flag(int option)
{
    struct flag flag;
    snprintf(flag.text, sizeof flag.text, "%s", options[option].name);
    for (char *c = flag.text; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return flag;
}

void td_config_help(void)
{
    for (int i = 0; i < OPTIONS; i++) {
        char left[64];
        const char *help = options[i].help;
        snprintf(left, sizeof left, "--%s%s%s", flag(i).text, *options[i].value ? " " : "",
                 options[i].value);
        printf("  %-36s", left);
        for (const char *line = help; line;) {
            const char *end = strchr(line, '\n');
            printf("%*s%.*s", line == help ? 0 : 38, "", end ? (int)(end - line) : 200, line);
            line = end ? end + 1 : NULL;
            if (line)
                printf("\n");
        }
        printf(*options[i].def ? " [%s]\n" : "\n", options[i].def);
    }
}

/* With dashes or underscores, whatever the place. */
static int find(const char *name, size_t length)
{
    for (int i = 0; i < OPTIONS; i++) {
        const char *right = options[i].name;
        size_t k = 0;
        while (k < length && right[k] &&
               (right[k] == name[k] || (right[k] == '_' && name[k] == '-')))
            k++;
        if (k == length && !right[k])
            return i;
    }
    return -1;
}

/* What other servers call what an option here says. */
static const struct {
    const char *name, *ours;
} elsewhere[] = {{"port", "listen"},       {"http-port", "listen"}, {"host", "listen"},
                 {"bind", "listen"},       {"address", "listen"},   {"model-repository", "models"},
                 {"model-store", "models"}};

struct suggestion {
    char text[80];
};

/* For a name that is none, with or without dashes in front: "; did you mean 'NAME'?", or "". */
static struct suggestion suggest(const char *given, size_t n)
{
    struct flag flags[OPTIONS];
    struct suggestion said = {""};
    char name[48];
    size_t dashes = strspn(given, "-");
    snprintf(name, sizeof name, "%.*s", (int)(n > dashes ? n - dashes : 0), given + dashes);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    const char *names[OPTIONS];
    for (int i = 0; i < OPTIONS; i++) {
        flags[i] = flag(i);
        names[i] = flags[i].text;
    }
    const char *near = NULL;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (!strcmp(name, elsewhere[i].name))
            near = elsewhere[i].ours;
    near = near ? near : td_nearest(name, names, OPTIONS);
    if (near)
        snprintf(said.text, sizeof said.text, "; did you mean '%s%s'?", dashes ? "--" : "", near);
    return said;
}

static int set(struct reader *r, int option, const char *text, struct td_problem *problem)
{
    struct td_given *list = given(r->config, option);
    if (r->place[option] > r->now)
        return 0;
    if (list && list->n == TD_MAX_GIVEN)
        return td_problem_set(problem, EINVAL, "%s: at most %d can be given", flag(option).text,
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
                                  "unknown option '%.60s'%s; see tensord serve --help", arg,
                                  suggest(arg, n).text);
        if (!equals && options[option].type == TYPE_flag)
            equals = "=on";
        else if (!equals && ++i == argc)
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
        for (size_t k = 0, n = strlen(name); k <= strlen(options[i].name); k++)
            name[n + k] = (char)toupper((unsigned char)options[i].name[k]);
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
        return td_problem_set(problem, EINVAL, "unknown option '%.60s'%s", key,
                              suggest(key, strlen(key)).text);
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
        err = td_config_each_member(text, n, set_from_file, r, &why);
    }
    free(text);
    if (file)
        fclose(file);
    return err ? td_problem_set(problem, EINVAL, "config: %.200s: %.300s", path, why.text) : 0;
}

/* What a K, M, G or T there multiplies bytes with, with an iB behind it or not; 0: it is no unit.
 */
static double unit(const char *text)
{
    static const char letters[] = "KMGT";
    const char *at = *text ? strchr(letters, toupper((unsigned char)*text)) : NULL;
    bool ends = at && (!text[1] || !strcmp(text + 1, "iB"));
    return !*text ? 1 : ends ? (double)(UINT64_C(1) << 10 * (at - letters + 1)) : 0;
}

static int number(const struct reader *r, int option, double *out, struct td_problem *problem)
{
    double lowest = options[option].lowest, highest = options[option].highest;
    bool bytes = options[option].type == TYPE_bytes;
    char *end;
    *out = strtod(r->text[option], &end);
    double by = bytes ? unit(end) : !*end;
    *out *= by;
    if (end == r->text[option] || !by || *out < lowest || *out > highest ||
        *out != (double)(int64_t)*out)
        return td_problem_set(problem, EINVAL,
                              "%s: '%.40s' is wrong; right is a whole number from "
                              "%.0f to %.0f%s",
                              flag(option).text, r->text[option], lowest, highest,
                              bytes ? ", or one with K, M, G or T, as 512M" : "");
    return 0;
}

static int choice(const struct reader *r, int option, int *out, struct td_problem *problem)
{
    const char *text = r->text[option], *word = options[option].value;
    for (int i = 0;; i++) {
        size_t n = strcspn(word, "|");
        if (n == strlen(text) && !memcmp(word, text, n)) {
            *out = i;
            return 0;
        }
        if (!word[n])
            break;
        word += n + 1;
    }
    return td_problem_set(problem, EINVAL, "%s: '%.40s' is wrong; right is one of %s",
                          flag(option).text, text, options[option].value);
}

static int truth(const struct reader *r, int option, bool *out, struct td_problem *problem)
{
    static const char *const words[] = {"off", "on", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(r->text[option], words[i])) {
            *out = i % 2;
            return 0;
        }
    return td_problem_set(problem, EINVAL, "%s: '%.40s' is wrong; right is on or off",
                          flag(option).text, r->text[option]);
}

/* From its text to its field. */
static int judge(struct reader *r, int option, struct td_problem *problem)
{
    void *field = (char *)r->config + options[option].at;
    struct td_given *list = field;
    double value;
    int err = 0;
    switch (options[option].type) {
    case TYPE_text:
    case TYPE_written:
        *(const char **)field = r->text[option];
        break;
    case TYPE_list:
        if (!list->n && *r->text[option])
            list->text[list->n++] = r->text[option];
        break;
    case TYPE_number:
        if (!(err = number(r, option, &value, problem)))
            *(int *)field = (int)value;
        break;
    case TYPE_bytes:
        if (!(err = number(r, option, &value, problem)))
            *(size_t *)field = (size_t)value;
        break;
    case TYPE_choice:
        err = choice(r, option, field, problem);
        break;
    case TYPE_flag:
        err = truth(r, option, field, problem);
        break;
    }
    return err;
}

static void note_given(struct reader *r)
{
    char *at = r->config->given;
    size_t room = sizeof r->config->given;
    for (int i = 0; i < OPTIONS; i++) {
        const struct td_given *list = given(r->config, i);
        for (int k = 0; r->place[i] && k < (list ? list->n : 1); k++) {
            int n = snprintf(at, room, "%s--%s%s%s", at > r->config->given ? " " : "", flag(i).text,
                             options[i].type == TYPE_flag ? "=" : " ",
                             list ? list->text[k] : r->text[i]);
            at += (size_t)n < room ? n : (int)room - 1;
            room = sizeof r->config->given - (size_t)(at - r->config->given);
        }
    }
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
    for (int i = 0; i < OPTIONS && !err; i++)
        err = judge(&r, i, problem);
    note_given(&r);
    return err;
}

void td_config_fini(struct td_config *config)
{
    free(config->memory_);
}

void td_config_each_path(const struct td_config *config,
                         void (*each)(void *arg, enum td_option_reach reach, const char *path),
                         void *arg)
{
    for (int i = 0; i < OPTIONS; i++) {
        bool is_file = !strcmp(options[i].value, "FILE") && i != OPT_config;
        bool written = options[i].type == TYPE_written;
        if (is_file || !strcmp(options[i].value, "DIR"))
            each(arg,
                 is_file   ? written ? TD_REACH_written_file : TD_REACH_file
                 : written ? TD_REACH_written_folder
                           : TD_REACH_folder,
                 *(const char *const *)((const char *)config + options[i].at));
    }
    for (int i = 0; i < config->listen.n; i++)
        each(arg, TD_REACH_socket, config->listen.text[i]);
}
