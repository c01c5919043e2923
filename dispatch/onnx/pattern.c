/* The pattern of a Tokenizer: a part of regular expressions, of which it is known where a match
 * ends without going back (dispatch/program/tokens.h). */
#include "dispatch/onnx/file.h"
#include "dispatch/program/tokens.h"

#include <errno.h>
#include <string.h>

struct pattern {
    struct td_onnx_reader *r;
    const unsigned char *at, *end;
    struct td_tokenizer *to;
};

static int bad_pattern(struct pattern *p)
{
    return td_onnx_wrong(p->r,
                         "tokenexp: up to %d characters or classes of them are right, as in "
                         "[a-zA-Z0-9_]+, \\w{2,} or [^ ,], those that may be left out at the end",
                         TD_TOKEN_CLASSES);
}

static bool add_range(struct td_letter_class *c, unsigned from, unsigned to)
{
    if (c->n == TD_TOKEN_RANGES || from > to)
        return false;
    c->range[c->n][0] = from;
    c->range[c->n++][1] = to;
    return true;
}

/* What stands behind a backslash. */
static bool add_escaped(struct td_letter_class *c, unsigned letter)
{
    switch (letter) {
    case 'w':
        return add_range(c, '0', '9') && add_range(c, 'A', 'Z') && add_range(c, '_', '_') &&
               add_range(c, 'a', 'z');
    case 'd':
        return add_range(c, '0', '9');
    case 's':
        return add_range(c, '\t', '\n') && add_range(c, '\f', '\r') && add_range(c, ' ', ' ');
    case 't':
        return add_range(c, '\t', '\t');
    case 'n':
        return add_range(c, '\n', '\n');
    }
    bool other = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                 (letter >= 'a' && letter <= 'z') || letter >= 0x80;
    return !other && add_range(c, letter, letter);
}

/* A character of the pattern itself, in ASCII. */
static bool next(struct pattern *p, unsigned *c)
{
    *c = p->at < p->end ? *p->at++ : 0;
    return *c && *c < 0x80;
}

static bool read_set(struct pattern *p, struct td_letter_class *c)
{
    unsigned from, to;
    if (p->at < p->end && *p->at == '^') {
        c->inverse = true;
        p->at++;
    }
    do {
        if (!next(p, &from) || from == '[' || (from == ']' && !c->n))
            return false;
        if (from == ']')
            return true;
        if (from == '\\') {
            if (!next(p, &from) || !add_escaped(c, from))
                return false;
            continue;
        }
        to = from;
        if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            if (!next(p, &to) || to == '\\' || to == '[')
                return false;
        }
        if (!add_range(c, from, to))
            return false;
    } while (true);
}

static bool read_class(struct pattern *p, struct td_letter_class *c)
{
    unsigned letter;
    *c = (struct td_letter_class){0};
    if (!next(p, &letter) || strchr("()|^$*+?{}]", (int)letter))
        return false;
    if (letter == '[')
        return read_set(p, c);
    if (letter == '\\')
        return next(p, &letter) && add_escaped(c, letter);
    c->inverse = letter == '.';
    letter = letter == '.' ? '\n' : letter;
    return add_range(c, letter, letter);
}

/* A number of one or two digits. */
static bool read_count(struct pattern *p, int *n)
{
    const unsigned char *from = p->at;
    for (*n = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9' && p->at - from < 2; p->at++)
        *n = 10 * *n + (*p->at - '0');
    return p->at > from;
}

/* How often, at most -1: any number of times. */
static bool read_mark(struct pattern *p, int *least, int *most)
{
    unsigned mark = p->at < p->end ? *p->at : 0;
    *least = mark != '*' && mark != '?';
    *most = mark == '*' || mark == '+' ? -1 : 1;
    if (mark != '*' && mark != '?' && mark != '+' && mark != '{')
        return true;
    p->at++;
    if (mark == '{') {
        if (!read_count(p, least))
            return false;
        *most = *least;
        if (p->at < p->end && *p->at == ',') {
            p->at++;
            if (!read_count(p, most))
                *most = -1;
        }
        if (p->at == p->end || *p->at++ != '}' || (*most >= 0 && *most < *least) || !*most)
            return false;
    }
    return p->at == p->end || !strchr("?+*{", *p->at);
}

static bool add_class(struct pattern *p, const struct td_letter_class *c)
{
    int least, most;
    struct td_tokenizer *t = p->to;
    if (!read_mark(p, &least, &most))
        return false;
    bool many = most < 0;
    int n = many ? least + 1 : most;
    if (t->n + n > TD_TOKEN_CLASSES || (least ? t->n && t->class[t->n - 1].optional : !t->n))
        return false;
    for (int i = 0; i < n; i++) {
        struct td_letter_class *to = &t->class[t->n++];
        *to = *c;
        to->optional = i >= least;
        to->many = many && i == least;
    }
    return true;
}

int td_onnx_pattern(struct td_onnx_reader *r, const ProtobufCBinaryData *from,
                    struct td_tokenizer *to)
{
    struct pattern p = {r, from->data, from->data + from->len, to};
    struct td_letter_class c;
    while (p.at < p.end)
        if (!read_class(&p, &c) || !add_class(&p, &c))
            return bad_pattern(&p);
    if (from->len == 1 && *from->data == '.') /* all characters, and line ends too */
        to->class[0].n = 0;
    return to->n ? 0 : bad_pattern(&p);
}
