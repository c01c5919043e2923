/* A pattern for words: classes of characters in a row. Internal to dispatch/. */
#ifndef TD_DISPATCH_PROGRAM_TOKENS_H
#define TD_DISPATCH_PROGRAM_TOKENS_H

#include "dispatch/program/program.h"

#define TD_TOKEN_CLASSES 16
#define TD_TOKEN_RANGES 16

enum td_letters { TD_LETTERS_as_they_are, TD_LETTERS_small, TD_LETTERS_capital };

struct td_letter_class {
    int n;
    unsigned range[TD_TOKEN_RANGES][2]; /* characters from the first to the second */
    bool inverse;                       /* all others */
    bool optional, many;                /* may be left out; may come again */
};

/* Once a class is optional, all behind it are. So what does not match is known after at most as
 * many characters as there are classes, and what matches is read once. */
struct td_tokenizer {
    enum td_letters letters;
    bool flat, cuts;  /* td_model_cut */
    int64_t pad;      /* the number of the word behind a row's last */
    int64_t shortest; /* characters of a word; shorter ones are left out */
    int n;            /* classes; the first is not optional */
    struct td_letter_class class[TD_TOKEN_CLASSES];
};

#endif
