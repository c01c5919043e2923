/* What is done to an input's strings before a model is run on their numbers: the case of letters,
 * and cutting into words. A word is what the pattern matches, the leftmost, then the longest. */
#include "dispatch/program/tokens.h"

#include <string.h>

/* ---- characters ---- */

/* The bytes of the character at text; what is no UTF-8 is a character of one byte. */
static int read_character(const char *text, const char *end, unsigned *c)
{
    const unsigned char *u = (const unsigned char *)text;
    int n = *u < 0x80 ? 1 : *u >= 0xf0 ? 4 : *u >= 0xe0 ? 3 : *u >= 0xc0 ? 2 : 1;
    *c = n == 1 ? *u : *u & (0xffU >> (n + 1));
    if (end - text < n || (n == 1 && *u >= 0x80)) {
        *c = 0xfffd;
        return 1;
    }
    for (int i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80) {
            *c = 0xfffd;
            return 1;
        }
        *c = *c << 6 | (u[i] & 0x3f);
    }
    return n;
}

static void write_character(char *to, int n, unsigned c)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)(first[n == 1 ? 0 : n] | c);
}

/* Capitals from first to last, every step-th, and how far their small letters are. Either takes
 * as many bytes as the other. Of Latin, Greek, Cyrillic and Armenian. */
static const struct {
    unsigned first, last, step, by;
} letters[] = {
    {'A', 'Z', 1, 32},      {0xc0, 0xd6, 1, 32},   {0xd8, 0xde, 1, 32},   {0x100, 0x12e, 2, 1},
    {0x132, 0x136, 2, 1},   {0x139, 0x147, 2, 1},  {0x14a, 0x176, 2, 1},  {0x178, 0x178, 1, -121U},
    {0x179, 0x17d, 2, 1},   {0x1a0, 0x1a4, 2, 1},  {0x1af, 0x1af, 1, 1},  {0x1cd, 0x1db, 2, 1},
    {0x1de, 0x1ee, 2, 1},   {0x1f8, 0x21e, 2, 1},  {0x222, 0x232, 2, 1},  {0x386, 0x386, 1, 38},
    {0x388, 0x38a, 1, 37},  {0x38c, 0x38c, 1, 64}, {0x38e, 0x38f, 1, 63}, {0x391, 0x3a1, 1, 32},
    {0x3a3, 0x3ab, 1, 32},  {0x400, 0x40f, 1, 80}, {0x410, 0x42f, 1, 32}, {0x460, 0x480, 2, 1},
    {0x48a, 0x4be, 2, 1},   {0x4c1, 0x4cd, 2, 1},  {0x4d0, 0x52e, 2, 1},  {0x531, 0x556, 1, 48},
    {0x1e00, 0x1e94, 2, 1}, {0x1ea0, 0x1efe, 2, 1}};

static unsigned in_case(unsigned c, enum td_letters want)
{
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        unsigned capital = want == TD_LETTERS_small ? c : c - letters[i].by;
        if (capital >= letters[i].first && capital <= letters[i].last &&
            (capital - letters[i].first) % letters[i].step == 0)
            return want == TD_LETTERS_small ? c + letters[i].by : capital;
    }
    return c;
}

/* Looks, every TD_STRIDE characters, whether the thread is to stop. */
static bool is_over(size_t n)
{
    return n % TD_STRIDE == 0 && td_stopped();
}

static void change_case(char *text, size_t n, enum td_letters want)
{
    unsigned c;
    size_t characters = 0;
    for (char *at = text, *end = text + n; at < end && !is_over(++characters);) {
        int bytes = read_character(at, end, &c);
        if (c != 0xfffd)
            write_character(at, bytes, in_case(c, want));
        at += bytes;
    }
}

/* ---- words ---- */

static bool is_in(const struct td_letter_class *class, unsigned c)
{
    bool in = false;
    for (int i = 0; i < class->n && !in; i++)
        in = c >= class->range[i][0] && c <= class->range[i][1];
    return in != class->inverse;
}

/* All places of the pattern that may be next: an optional one may be left out. */
static unsigned with_skipped(const struct td_tokenizer *how, unsigned places)
{
    for (int i = 0; i < how->n; i++)
        if (places >> i & 1 && how->class[i].optional)
            places |= 1U << (i + 1);
    return places;
}

/* The end of the longest match that begins at text, or text itself; *count: its characters. */
static const char *match(const struct td_tokenizer *how, const char *text, const char *end,
                         int64_t *count)
{
    unsigned places = with_skipped(how, 1), c;
    const char *found = text;
    int64_t characters = 0;
    while (text < end && places && !is_over((size_t)characters + 1)) {
        unsigned next = 0;
        text += read_character(text, end, &c);
        characters++;
        for (int i = 0; i < how->n; i++)
            if (places >> i & 1 && is_in(&how->class[i], c))
                next |= 1U << (i + 1) | (how->class[i].many ? 1U << i : 0);
        places = with_skipped(how, next);
        if (places >> how->n & 1) {
            found = text;
            *count = characters;
        }
    }
    return found;
}

bool td_model_tokens(const struct td_model *model, const struct td_tokenizer *how, char *text,
                     bool (*each)(void *arg, int64_t word), void *arg)
{
    size_t n = strlen(text);
    if (how->letters)
        change_case(text, n, how->letters);
    if (!how->cuts)
        return !td_stopped() && each(arg, td_program_find_word(model, text, n));
    unsigned c;
    int64_t count = 0;
    bool right = true;
    size_t steps = 0;
    for (const char *end = text + n; text < end && right;) {
        if (is_over(++steps))
            return false;
        const char *behind = match(how, text, end, &count);
        if (behind == text) {
            text += read_character(text, end, &c);
            continue;
        }
        if (count >= how->shortest)
            right = each(arg, td_program_find_word(model, text, (size_t)(behind - text)));
        text += behind - text;
    }
    return right && !td_stopped(); /* then the last word may have been cut off */
}

bool td_model_cut(const struct td_tokenizer *how, int64_t longest, struct td_tensor *t,
                  int64_t *pad)
{
    if (how->flat) {
        t->shape[0] = td_numel(t);
        t->rank = 1;
    }
    if (how->cuts)
        t->shape[t->rank++] = longest;
    *pad = how->pad;
    return how->cuts;
}
