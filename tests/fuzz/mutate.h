/* Changes to texts that leave them nearly right: of JSON, of expressions. */
#ifndef TD_TESTS_FUZZ_MUTATE_H
#define TD_TESTS_FUZZ_MUTATE_H

#include "tests/fuzz/fuzz.h"

#include <ctype.h>

static inline unsigned chance(unsigned *state, unsigned n) /* below n */
{
    *state = *state * 1664525 + 1013904223;
    return n ? (*state >> 8) % n : 0;
}

/* Replaces cut bytes at place by others, if there is room: the new size. */
static inline size_t splice(uint8_t *data, size_t size, size_t most, size_t place, size_t cut,
                            const void *in, size_t n)
{
    if (size - cut + n > most)
        return size;
    memmove(data + place + n, data + place + cut, size - place - cut);
    memcpy(data + place, in, n);
    return size - cut + n;
}

/* The end of the word, number, quoted text or sign that begins at place. */
static inline size_t word_end(const uint8_t *data, size_t size, size_t place)
{
    size_t i = place + 1;
    if (data[place] == '"' || data[place] == '\'') {
        for (; i < size && data[i] != data[place]; i++)
            i += data[i] == '\\';
        return i < size ? i + 1 : size;
    }
    while (i < size && (isalnum(data[place]) || data[place] == '_') &&
           (isalnum(data[i]) || strchr("_.+-", data[i] ? data[i] : '?')))
        i++;
    return i;
}

static inline size_t any_word(const uint8_t *data, size_t size, unsigned *state, size_t *end)
{
    size_t place = 0, seen = 0, chosen = 0;
    for (; place < size; place = word_end(data, size, place))
        if (!isspace(data[place]) && !chance(state, (unsigned)++seen))
            chosen = place;
    *end = size ? word_end(data, size, chosen) : 0;
    return chosen;
}

/* One word replaced by a number at which things wrap, by another word of the text, or by one of the
 * given ones; said twice; or left out. */
static inline size_t mutate_text(uint8_t *data, size_t size, size_t most, unsigned *state,
                                 const char *const *words, unsigned n_words)
{
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "1",
                                          "2",
                                          "3",
                                          "255",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "4611686018427387904",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "18446744073709551615",
                                          "1e300",
                                          "1e-300",
                                          "-0.0",
                                          "0.5",
                                          "1e999",
                                          "NaN",
                                          "Infinity",
                                          "-Infinity",
                                          "null",
                                          "true",
                                          "false",
                                          "None",
                                          "True",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "[1,2]",
                                          "4194304",
                                          "2097152"};
    size_t end, other_end;
    size_t place = any_word(data, size, state, &end),
           other = any_word(data, size, state, &other_end);
    char word[256];
    size_t n = other_end - other < sizeof word ? other_end - other : 0;
    memcpy(word, data + other, n);
    const char *number = numbers[chance(state, sizeof numbers / sizeof *numbers)];
    const char *given = n_words ? words[chance(state, n_words)] : number;
    switch (chance(state, 8)) {
    case 0:
        return splice(data, size, most, place, end - place, word, n);
    case 1:
        return splice(data, size, most, place, 0, word, n);
    case 2:
        return splice(data, size, most, place, end - place, "", 0);
    case 3:
    case 4:
        return splice(data, size, most, place, end - place, given, strlen(given));
    case 5:
        return LLVMFuzzerMutate(data, size, most);
    default:
        return splice(data, size, most, place, end - place, number, strlen(number));
    }
}

#endif
