/* Autograd: tensors that require a gradient put its key in front of every other, and the kernel
 * here records what a backward of the call will need, then passes the call on below itself. What is
 * recorded is the operator's derivatives: a formula for each argument that has one, and by its
 * words the arguments and the result that have to be kept for it. The server keeps none of them:
 * whoever called has the arguments already and gets the result. Operators without derivatives fall
 * through; of calls that an operator's formulas are not for, nothing is recorded. */
#include "dispatch/call/own.h"

#include <ctype.h>
#include <string.h>

const char *const td_derivative_words[] = {"grad", "result", "result1", "result2", NULL};

static const struct td_derivative derivatives[] = {
#define TD_DERIVATIVE(op, arg, formula) {op, arg, formula},
#define TD_NO_DERIVATIVE(op, of)
#include "dispatch/call/derivatives.def"
#undef TD_DERIVATIVE
#undef TD_NO_DERIVATIVE
    {0},
};

/* Whether the formulas are not for this call: what derivatives.def says of its arguments. */
static bool is_none(const char *op, const struct td_value *arg)
{
#define TD_DERIVATIVE(op, arg, formula)
#define TD_NO_DERIVATIVE(name, of)                                                                 \
    if (!strcmp(op, name))                                                                         \
        return of;
#include "dispatch/call/derivatives.def"
#undef TD_DERIVATIVE
#undef TD_NO_DERIVATIVE
    return false;
}

const struct td_derivative *td_derivative_find(const char *op)
{
    const struct td_derivative *d = derivatives;
    while (d->op && strcmp(d->op, op))
        d++;
    return d->op ? d : NULL;
}

const struct td_derivative *td_derivative_next(const struct td_derivative *d)
{
    return d[1].op && !strcmp(d[1].op, d->op) ? d + 1 : NULL;
}

static bool names(const char *formula, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = formula; (at = strstr(at, word)); at += n) {
        bool begins = at == formula || !(isalnum((unsigned char)at[-1]) || strchr("_.", at[-1]));
        if (begins && !isalnum((unsigned char)at[n]) && (!at[n] || !strchr("_.(", at[n])))
            return true;
    }
    return false;
}

bool td_derivative_needs(const struct td_derivative *first, const char *word)
{
    for (const struct td_derivative *d = first; d; d = td_derivative_next(d))
        if (names(d->formula, word))
            return true;
    return false;
}

int td_kernel_autograd(struct td_run *run, td_keyset keys)
{
    const char *op = run->handle->full;
    run->derivative = is_none(op, run->call.arg) ? NULL : td_derivative_find(op);
    return td_redispatch(run, keys & td_keyset_below(TD_KEY_AutogradOther)); /* its lowest key */
}
