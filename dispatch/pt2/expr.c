/* Expressions over sizes, evaluated from their text: torch.export writes a size as sympy does,
 * Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(1)), and a guard as Python does,
 * L['x'].size()[0] % 2 == 0. Both are Python's expressions. What cannot be computed, as a division
 * by 0, is an item of kind none, which matters only where it is not decided otherwise. */
#include "dispatch/pt2/pt2.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 48
#define MAX_CALL 64 /* arguments */

struct reader {
    struct td_walk *walk; /* NULL: nothing is computed */
    const struct td_pt2_sizes *sizes;
    const char *at;
    int depth;
};

static int expression(struct reader *r, struct td_item *out);

/* ---- words ---- */

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Takes a sign, or a word that ends there. */
static bool take(struct reader *r, const char *text)
{
    size_t n = strlen(text);
    r->at += strspn(r->at, " ");
    if (strncmp(r->at, text, n) || (is_letter(text[n - 1]) && is_letter(r->at[n])))
        return false;
    r->at += n;
    return true;
}

/* A text in quotes: n letters. */
static bool take_text(struct reader *r, const char **text, int *n)
{
    r->at += strspn(r->at, " ");
    char quote = *r->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(r->at + 1, quote) : NULL;
    if (!end || end - r->at > 1000)
        return false;
    *text = r->at + 1;
    *n = (int)(end - *text);
    r->at = end + 1;
    return true;
}

static bool take_index(struct reader *r, int64_t *i)
{
    char *end;
    r->at += strspn(r->at, " ");
    if (!isdigit((unsigned char)*r->at))
        return false;
    *i = strtoll(r->at, &end, 10);
    r->at = end;
    return true;
}

/* ---- operators ---- */

/* Whether it is computed: all are numbers. */
static void compute(struct reader *r, char how, const struct td_item *args, int n,
                    struct td_item *out)
{
    struct td_item result = {0};
    bool numbers = r->walk;
    for (int i = 0; i < n; i++)
        numbers &= td_is_number(&args[i].v);
    if (numbers && td_pt2_arithmetic(r->walk, how, args, n, &result))
        result = (struct td_item){0};
    *out = result;
}

/* Python's operators, those first that others begin with. */
static const struct {
    const char *text;
    char how;
    int level; /* from what binds least on */
} operators[] = {{"==", '=', 0}, {"!=", '!', 0}, {"<=", 'l', 0}, {">=", 'g', 0}, {"<<", '(', 3},
                 {">>", ')', 3}, {"<", '<', 0},  {">", '>', 0},  {"|", '|', 1},  {"&", '&', 2},
                 {"+", '+', 4},  {"-", '-', 4},  {"//", 'F', 5}, {"/", '/', 5},  {"%", '%', 5},
                 {"**", '^', 7}, {"*", '*', 5}};

#define SIGNS 6 /* the level of -a */

/* The operator that comes next, if it is of the level; 0: another thing. */
static char take_operator(struct reader *r, int level)
{
    const char *before = r->at;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (take(r, operators[i].text)) {
            if (operators[i].level == level)
                return operators[i].how;
            break;
        }
    r->at = before;
    return 0;
}

static int primary(struct reader *r, struct td_item *out);

/* -a, and a ** b. */
static int sign(struct reader *r, struct td_item *out)
{
    bool minus = take(r, "-");
    if (++r->depth > MAX_NESTING)
        return -ENOSYS;
    struct td_item args[2];
    int err = minus ? sign(r, &args[0]) : primary(r, &args[0]);
    if (!err && minus) {
        compute(r, 'n', args, 1, &args[0]);
    } else if (!err && take_operator(r, SIGNS + 1)) {
        err = sign(r, &args[1]);
        compute(r, '^', args, err ? 0 : 2, &args[0]);
    }
    *out = args[0];
    r->depth--;
    return err;
}

static int binary(struct reader *r, int level, struct td_item *out)
{
    struct td_item args[2];
    if (level == SIGNS)
        return sign(r, out);
    int err = binary(r, level + 1, &args[0]);
    char how;
    for (int n = 0; !err && (how = take_operator(r, level)); n++) {
        err = n && !level ? -ENOSYS : binary(r, level + 1, &args[1]); /* no a < b < c */
        if (!err)
            compute(r, how, args, 2, &args[0]);
    }
    *out = args[0];
    return err;
}

static int negation(struct reader *r, struct td_item *out)
{
    if (!take(r, "not"))
        return binary(r, 0, out);
    if (++r->depth > MAX_NESTING)
        return -ENOSYS;
    int err = negation(r, out);
    if (!err)
        compute(r, 'N', out, 1, out);
    r->depth--;
    return err;
}

static bool is_true(const struct td_item *item)
{
    return td_scalar(&item->v) != 0;
}

/* "and", and "or" of such. */
static int junction(struct reader *r, bool any, struct td_item *out)
{
    struct td_item more;
    int err = any ? junction(r, false, out) : negation(r, out);
    while (!err && take(r, any ? "or" : "and")) {
        err = any ? junction(r, false, &more) : negation(r, &more);
        bool decided = !td_is_number(&out->v) || is_true(out) == any;
        *out = decided ? *out : more;
    }
    return err;
}

/* "a if c else b" */
static int expression(struct reader *r, struct td_item *out)
{
    struct td_item condition, other;
    if (++r->depth > MAX_NESTING)
        return -ENOSYS;
    int err = junction(r, true, out);
    if (!err && take(r, "if")) {
        err = junction(r, true, &condition);
        err = err ? err : take(r, "else") ? expression(r, &other) : -ENOSYS;
        if (!err && !td_is_number(&condition.v))
            *out = condition;
        else if (!err && !is_true(&condition))
            *out = other;
    }
    r->depth--;
    return err;
}

/* ---- what they are made of ---- */

/* Functions, by sympy's names and Python's. */
static const struct {
    const char *name;
    char how; /* ' ': its argument */
    int n;    /* arguments; 0: two and more */
} functions[] = {{"Integer", ' ', 1},      {"Add", '+', 0},        {"Mul", '*', 0},
                 {"Max", 'M', 0},          {"max", 'M', 0},        {"Min", 'm', 0},
                 {"min", 'm', 0},          {"FloorDiv", 'F', 2},   {"CleanDiv", 'F', 2},
                 {"Mod", '%', 2},          {"PythonMod", '%', 2},  {"Pow", '^', 2},
                 {"PowByNatural", '^', 2}, {"IntTrueDiv", '/', 2}, {"FloatTrueDiv", '/', 2},
                 {"Rational", '/', 2},     {"ToFloat", 'f', 1},    {"float", 'f', 1},
                 {"math.floor", 'v', 1},   {"FloorToInt", 'v', 1}, {"math.ceil", 'u', 1},
                 {"CeilToInt", 'u', 1},    {"math.trunc", 'i', 1}, {"TruncToInt", 'i', 1},
                 {"int", 'i', 1},          {"math.sqrt", 'q', 1}};

/* Behind a function's name. */
static int call(struct reader *r, size_t which, struct td_item *out)
{
    struct td_item args[2];
    int n = functions[which].n, given = 0, err = 0;
    char how = functions[which].how;
    do {
        err = expression(r, &args[given ? 1 : 0]);
        if (!err && given && !n)
            compute(r, how, args, 2, &args[0]);
    } while (!err && ++given < MAX_CALL && take(r, ","));
    if (err || !take(r, ")") || (n ? given != n : given < 2))
        return err ? err : -ENOSYS;
    if (n && how != ' ')
        compute(r, how, args, n, &args[0]);
    *out = args[0];
    return 0;
}

/* Symbol('s0', integer=True), behind its bracket. */
static int symbol(struct reader *r, struct td_item *out)
{
    const char *name;
    int n;
    if (!take_text(r, &name, &n) || !*(r->at += strcspn(r->at, ")")))
        return -ENOSYS;
    r->at++;
    return r->sizes->symbol(r->sizes, name, n, out);
}

/* ['x'][0].size()[1], behind L: which input, and what of it. */
static int input(struct reader *r, struct td_item *out)
{
    char path[256];
    int n = 0, length;
    const char *key;
    int64_t i = 0;
    while (take(r, "[")) {
        bool text = take_text(r, &key, &length);
        if (!text && !take_index(r, &i))
            return -ENOSYS;
        int room = (int)sizeof path - n;
        int wrote = text ? snprintf(path + n, (size_t)room, "%s%.*s", n ? "_" : "", length, key)
                         : snprintf(path + n, (size_t)room, "%s%lld", n ? "_" : "", (long long)i);
        n += wrote;
        if (wrote >= room || !take(r, "]"))
            return -ENOSYS;
    }
    for (int k = 0; k < n; k++)
        path[k] = (char)(isalnum((unsigned char)path[k]) ? path[k] : '_');
    char what = take(r, ".size()")             ? 's'
                : take(r, ".shape")            ? 's'
                : take(r, ".stride()")         ? 't'
                : take(r, ".storage_offset()") ? 'o'
                                               : 'n';
    bool list = what == 's' || what == 't';
    if (!n || (list && !(take(r, "[") && take_index(r, &i) && take(r, "]"))))
        return -ENOSYS;
    return r->sizes->input(r->sizes, path, what, i, out);
}

static int number(struct reader *r, struct td_item *out)
{
    char *end;
    errno = 0;
    int64_t i = strtoll(r->at, &end, 10);
    *out = td_item_int(i);
    if (*end == '.' || *end == 'e')
        *out = td_item_float(strtod(r->at, &end));
    else if (errno)
        return -ENOSYS;
    r->at = end;
    return is_letter(*end) ? -ENOSYS : 0;
}

static int primary(struct reader *r, struct td_item *out)
{
    r->at += strspn(r->at, " ");
    if (isdigit((unsigned char)*r->at))
        return number(r, out);
    if (take(r, "(")) {
        int err = expression(r, out);
        return err || take(r, ")") ? err : -ENOSYS;
    }
    if (take(r, "True") || take(r, "False")) {
        *out = td_item_bool(r->at[-2] == 'u');
        return 0;
    }
    if (take(r, "L"))
        return input(r, out);
    if (take(r, "Symbol"))
        return take(r, "(") ? symbol(r, out) : -ENOSYS;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (take(r, functions[i].name))
            return take(r, "(") ? call(r, i, out) : -ENOSYS;
    return -ENOSYS;
}

int td_pt2_evaluate(struct td_walk *walk, const char *text, const struct td_pt2_sizes *sizes,
                    struct td_item *out)
{
    struct reader r = {.walk = walk, .sizes = sizes, .at = text};
    int err = expression(&r, out);
    r.at += strspn(r.at, " ");
    return err ? err : *r.at ? -ENOSYS : 0;
}
