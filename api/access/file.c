/* The file of tokens. Each line has a name, the SHA-256 of the secret in hex, scopes, and key=value
 * pairs; # begins a comment. docs/access.md describes it.
 *
 * Who can read the file could try secrets against the hashes, and who can write it can have all
 * scopes. So the server takes it only if others can do neither. */
#include "api/access/table.h"
#include "api/files/files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_TOKENS 4096

/* Bytes, as 64M, or a share of the whole, as 25%. */
static bool read_bytes(const char *text, size_t whole, size_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (errno || !n)
        return false;
    if (!strcmp(end, "%")) {
        *bytes = n <= 100 ? whole / 100 * n : 0;
        return n <= 100;
    }
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    end += unit ? 1 + 2 * !strcmp(end + 1, "iB") : 0;
    *bytes = (size_t)n << shift;
    return !*end && n < UINT64_C(1) << (63 - shift);
}

static bool read_int(const char *text, int most, int *number)
{
    char *end;
    errno = 0;
    long n = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
    *number = (int)n;
    return n > 0 && n <= most && !errno && !*end;
}

/* 2027-01-31, or 2027-01-31T12:00:00Z. */
static bool read_time(const char *text, int64_t *seconds)
{
    struct tm utc = {0};
    const char *end = strptime(text, "%Y-%m-%d", &utc);
    if (end && *end)
        end = strptime(end, "T%H:%M:%SZ", &utc);
    *seconds = timegm(&utc);
    return end && !*end && *seconds > 0;
}

static bool read_hash(const char *text, unsigned char hash[TD_HASH_BYTES])
{
    if (strspn(text, "0123456789abcdefABCDEF") != 2 * TD_HASH_BYTES || text[2 * TD_HASH_BYTES])
        return false;
    for (int i = 0; i < TD_HASH_BYTES; i++) {
        char byte[3] = {text[2 * i], text[2 * i + 1]};
        hash[i] = (unsigned char)strtol(byte, NULL, 16);
    }
    return true;
}

static const char *const scopes[TD_SCOPES] = {[TD_SCOPE_read] = "read",
                                              [TD_SCOPE_run] = "run",
                                              [TD_SCOPE_store] = "store",
                                              [TD_SCOPE_admin] = "admin"};

const char *td_access_scope_name(enum td_access_scope scope)
{
    return scopes[scope];
}

static int read_scopes(char *text, unsigned *set, struct td_problem *problem)
{
    for (char *one; (one = strsep(&text, ","));) {
        int scope = 0;
        while (scope < TD_SCOPES && (!scopes[scope] || strcmp(scopes[scope], one) != 0))
            scope++;
        if (scope == TD_SCOPES)
            return td_problem_set(problem, EINVAL,
                                  "scopes: '%.40s' is none; right are read, run, store and admin, "
                                  "split by commas",
                                  one);
        *set |= 1U << scope;
    }
    return 0;
}

static int read_key(const struct td_access *access, const char *key, const char *value,
                    struct td_token *token, struct td_problem *problem)
{
    struct td_token_limits *limits = &token->limits;
    size_t whole = access->service->limits.store_bytes;
    const char *right = NULL;
    if (!strcmp(key, "prefix")) {
        snprintf(token->prefix, sizeof token->prefix, "%s", value);
        for (const char *c = value; *c; c++)
            if (!isalnum((unsigned char)*c) && !strchr("._-/", *c))
                right = "the first letters of names: letters, digits and . _ - /";
        if (!*value || strlen(value) >= sizeof token->prefix)
            right = "1 to 200 letters";
    } else if (!strcmp(key, "rate")) {
        right = read_int(value, 1000000, &limits->rate) ? NULL : "requests a second, 1 to 1000000";
    } else if (!strcmp(key, "flight")) {
        right = read_bytes(value, td_memory.limit, &limits->flight)
                    ? NULL
                    : "bytes, as 64M, or a share of --memory, as 25%";
    } else if (!strcmp(key, "memory")) {
        right = read_bytes(value, td_memory.limit, &limits->memory)
                    ? NULL
                    : "bytes, as 64M, or a share of --memory, as 25%";
    } else if (!strcmp(key, "store")) {
        right = read_bytes(value, whole, &limits->store)
                    ? NULL
                    : "bytes, as 64M, or a share of --store-bytes, as 25%";
    } else if (!strcmp(key, "pools")) {
        right = read_int(value, TD_MAX_POOLS, &limits->pools) ? NULL : "a number of pools";
    } else if (!strcmp(key, "expires")) {
        right = read_time(value, &token->expires_s)
                    ? NULL
                    : "a time in UTC, as 2027-01-31 or 2027-01-31T12:00:00Z";
    } else {
        return td_problem_set(
            problem, EINVAL,
            "'%.40s' is no key; right are prefix, rate, flight, memory, store, pools "
            "and expires",
            key);
    }
    return right ? td_problem_set(problem, EINVAL, "%s: '%.60s' is wrong; right is %s", key, value,
                                  right)
                 : 0;
}

static bool is_name(const char *text)
{
    size_t n = strlen(text);
    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            return false;
    return n && n < TD_TOKEN_NAME;
}

/* Parses one line. Sentences do not quote a word that may be a secret. */
static int read_line(const struct td_access *access, char *words, struct td_token_line *line,
                     struct td_problem *problem)
{
    char *word[3] = {NULL};
    for (int i = 0; i < 3; i++)
        do
            word[i] = words ? strsep(&words, " \t") : NULL;
        while (word[i] && !*word[i]);
    if (!word[0] || !is_name(word[0]))
        return td_problem_set(problem, EINVAL,
                              "a token's name comes first: letters, digits and . _ -, at most %d",
                              TD_TOKEN_NAME - 1);
    strcpy(line->name, word[0]);
    if (!word[1] || !read_hash(word[1], line->token.hash))
        return td_problem_set(problem, EINVAL,
                              "%s: behind the name comes the SHA-256 of the secret, 64 hex digits "
                              "(tensord token add makes both)",
                              line->name);
    if (!word[2])
        return td_problem_set(problem, EINVAL, "%s: scopes are missing, as in read,run",
                              line->name);
    int err = read_scopes(word[2], &line->token.scopes, problem);
    for (char *pair; !err && (pair = words ? strsep(&words, " \t") : NULL);) {
        char *equals = strchr(pair, '=');
        if (!*pair)
            continue;
        if (!equals)
            return td_problem_set(problem, EINVAL, "%s: behind the scopes comes key=value alone",
                                  line->name);
        *equals = 0;
        err = read_key(access, pair, equals + 1, &line->token, problem);
    }
    return err;
}

static int judge_twins(const struct td_token_line *lines, int n, struct td_problem *problem)
{
    const struct td_token_line *last = &lines[n];
    for (int i = 0; i < n; i++) {
        if (!strcmp(lines[i].name, last->name))
            return td_problem_set(problem, EINVAL, "%s: there is a token of that name already",
                                  last->name);
        if (!memcmp(lines[i].token.hash, last->token.hash, TD_HASH_BYTES))
            return td_problem_set(problem, EINVAL, "%s: has the secret of %s", last->name,
                                  lines[i].name);
    }
    return 0;
}

static int read_lines(const struct td_access *access, char *text, struct td_token_line **result,
                      struct td_problem *problem)
{
    struct td_token_line *lines = NULL;
    struct td_problem why;
    int n = 0, err = 0;
    for (int at = 1; text && !err; at++) {
        char *line = strsep(&text, "\n");
        size_t length = strcspn(line, "#\r");
        line[length] = 0;
        if (strspn(line, " \t") == length)
            continue;
        if (n == MOST_TOKENS) {
            err = td_problem_set(problem, EINVAL, "tokens: %.200s: line %d: more than %d tokens",
                                 access->called, at, MOST_TOKENS);
            break;
        }
        struct td_token_line *more = realloc(lines, ((size_t)n + 1) * sizeof *lines);
        if (!more) {
            err = td_problem_set(problem, ENOMEM, "tokens: no memory for them");
            break;
        }
        lines = more;
        lines[n] = (struct td_token_line){0};
        err = read_line(access, line, &lines[n], &why);
        if (!err)
            err = judge_twins(lines, n, &why);
        if (err)
            td_problem_set(problem, -err, "tokens: %.200s: line %d: %.300s", access->called, at,
                           why.text);
        n++;
    }
    if (err) {
        free(lines);
        return err;
    }
    *result = lines;
    return n;
}

int td_access_read(const struct td_access *access, struct td_token_line **lines,
                   struct td_problem *problem)
{
    const struct td_file file = {"tokens", access->path, access->called,
                                 access->tried ? NULL : td_file_judge_secret};
    size_t size;
    char *text = td_file_text(&file, &size, problem);
    int n =
        !text ? -EINVAL
        : strlen(text) < size
            ? td_problem_set(problem, EINVAL, "tokens: %.200s: holds a zero byte", access->called)
            : read_lines(access, text, lines, problem);
    free(text);
    return n;
}

int td_access_try(const char *path, const char *called, struct td_problem *problem)
{
    struct td_service service = {.limits = {.store_bytes = SIZE_MAX}};
    const struct td_access access = {
        .service = &service, .path = path, .called = called, .tried = true};
    struct td_token_line *lines = NULL;
    int n = td_access_read(&access, &lines, problem);
    free(lines);
    return n;
}
