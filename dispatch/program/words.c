/* The strings of a model. A program has each as a number, because strings are only compared, looked
 * up and moved. They are found by an open-addressing hash table that is at most half full and does
 * not change once the model is loaded. */
#include "dispatch/program/program.h"
#include "kernels/hash.h"

#include <errno.h>
#include <string.h>

/* The slot of a string, or the free slot where it would be put. */
static int *place_of(const struct td_model *model, const char *text, size_t n)
{
    int mask = model->word_places_ - 1;
    uint64_t hash = td_hash_bytes(text, n);
    int at = (int)((hash ^ hash >> 32) & (uint64_t)mask);
    while (model->word_place_[at]) {
        const char *word = model->word_[model->word_place_[at] - 1];
        if (strlen(word) == n && !memcmp(word, text, n))
            break;
        at = (at + 1) & mask;
    }
    return &model->word_place_[at];
}

static int grow(struct td_model *model)
{
    int places = model->word_places_ ? 2 * model->word_places_ : 64;
    int *place = td_program_alloc(model, sizeof *place * (size_t)places);
    const char **word = td_program_alloc(model, sizeof *word * (size_t)places / 2);
    if (!place || !word)
        return -ENOMEM;
    memset(place, 0, sizeof *place * (size_t)places);
    if (model->n_words_)
        memcpy(word, model->word_, sizeof *word * (size_t)model->n_words_);
    model->word_ = word;
    model->word_place_ = place;
    model->word_places_ = places;
    for (int i = 0; i < model->n_words_; i++)
        *place_of(model, word[i], strlen(word[i])) = i + 1;
    return 0;
}

int td_program_word(struct td_model *model, const char *text, size_t n, int64_t *word)
{
    n = strnlen(text, n);
    int err = 2 * model->n_words_ >= model->word_places_ ? grow(model) : 0;
    int *place = err ? NULL : place_of(model, text, n);
    if (place && !*place) {
        const char *own = td_program_text(model, text, n);
        if (!own)
            return -ENOMEM;
        model->word_[model->n_words_] = own;
        *place = ++model->n_words_;
    }
    *word = place ? *place - 1 : -1;
    return err;
}

int64_t td_program_find_word(const struct td_model *model, const char *text, size_t n)
{
    return model->n_words_ ? *place_of(model, text, n) - 1 : -1;
}

int64_t td_model_word(const struct td_model *model, const char *text)
{
    return td_program_find_word(model, text, strlen(text));
}

const char *td_model_text(const struct td_model *model, int64_t word)
{
    return word >= 0 && word < model->n_words_ ? model->word_[word] : "_Unused";
}
