/* Kinds of calls, each of which is measured once. Calls are of one kind if they have the same
 * operator, types, ranks, attributes and threads, the same arguments are weights, and sizes are
 * similar. Sizes up to 8 must be equal. Sizes up to FINE, and those of weights, must be within half
 * an octave (the two highest bits are equal) and both or neither multiples of 16; others within an
 * octave. Kinds that differ in such large sizes alone are of one family.
 *
 * A signature depends on nothing that differs between processes, so that measurements can be saved
 * in a file. The key also contains the operator and its table, which are addresses. */
#include "dispatch/choice/hash.h"
#include "dispatch/choice/kinds.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FINE 32 /* larger sizes are compared by octaves: a tail matters little */

/* A size's class: its number of bits; and for small sizes and weights, where tails and blocks
 * matter, the two highest bits and whether it is a multiple of 16. family: all others are equal. */
static uint64_t rounded(int64_t size, bool stored, bool family)
{
    if (size <= 8)
        return (uint64_t)size;
    if (family && !stored && size > FINE)
        return FINE;
    int bits = 64 - __builtin_clzll((uint64_t)size);
    uint64_t fine = (uint64_t)(size >> (bits - 2)) << 1 | !(size % 16);
    return (uint64_t)bits << 8 | (stored || size <= FINE ? fine : 0);
}

static uint64_t mix_tensor(uint64_t h, const struct td_tensor *t, bool family)
{
    h = td_hash(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank << 1 | (t->weight != NULL));
    for (int d = 0; d < t->rank; d++)
        h = td_hash(h, rounded(t->shape[d], t->weight, family));
    return h;
}

static uint64_t mix_value(uint64_t h, const struct td_value *v, bool family)
{
    h = td_hash(h, v->kind);
    switch (v->kind) {
    case TD_KIND_tensor:
        return mix_tensor(h, &v->tensor, family);
    case TD_KIND_tensors:
        for (int i = 0; i < v->tensors.n; i++)
            h = mix_tensor(h, &v->tensors.v[i], family);
        return h;
    case TD_KIND_float: /* a factor: rows only distinguish 0, 1 and others */
        return td_hash(h, v->f == 0 ? 0 : v->f == 1 ? 1 : 2);
    default:
        return td_hash_value(h, v);
    }
}

static uint64_t mix(const struct td_call *call, bool family)
{
    uint64_t h = td_hash(0x7d1e5, (uint64_t)(call->threads > 1 ? call->threads : 1));
    for (int i = 0; i < call->n_args; i++)
        h = mix_value(h, &call->arg[i], family);
    return h;
}

uint64_t td_kind_signature(const struct td_call *call)
{
    return mix(call, false);
}

uint64_t td_kind_family(const struct td_call *call)
{
    return mix(call, true);
}

uint64_t td_kind_key(uint64_t signature, const struct td_impl *rows, const struct td_op *op)
{
    return td_hash(td_hash(signature, (uintptr_t)rows), (uintptr_t)op) | 1;
}

/* ---- as text ---- */

struct text {
    char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(t->at, (size_t)(t->end - t->at), format, list);
    va_end(list);
    t->at += n < t->end - t->at ? n : t->end - t->at - 1;
}

static void say_tensor(struct text *t, const struct td_tensor *x)
{
    if (!x->dtype) {
        say(t, "None");
        return;
    }
    say(t, "%s[", td_dtype_name(x->dtype));
    for (int d = 0; d < x->rank; d++)
        say(t, "%s%" PRId64, d ? "," : "", x->shape[d]);
    say(t, x->weight ? "] stored" : "]");
}

static void say_value(struct text *t, const struct td_value *v)
{
    switch (v->kind) {
    case TD_KIND_tensor:
        say_tensor(t, &v->tensor);
        break;
    case TD_KIND_tensors:
        for (int i = 0; i < v->tensors.n; i++) {
            say(t, i ? ", " : "[");
            say_tensor(t, &v->tensors.v[i]);
        }
        say(t, v->tensors.n ? "]" : "[]");
        break;
    case TD_KIND_ints:
    case TD_KIND_bools:
        for (int i = 0; i < v->ints.n; i++)
            say(t, "%s%" PRId64, i ? "," : "[", v->ints.v[i]);
        say(t, v->ints.n ? "]" : "[]");
        break;
    case TD_KIND_floats:
        say(t, "%d numbers", v->floats.n);
        break;
    case TD_KIND_float:
        say(t, "%.6g", v->f);
        break;
    case TD_KIND_dtype:
        say(t, "%s", td_dtype_name(v->dtype));
        break;
    case TD_KIND_str:
        say(t, "%.20s", v->str ? v->str : "None");
        break;
    case TD_KIND_none:
        say(t, "None");
        break;
    default:
        say(t, "%" PRId64, v->i);
    }
}

void td_kind_tell(const struct td_call *call, char text[TD_KIND_TEXT])
{
    struct text t = {text, text + TD_KIND_TEXT - 20}; /* leaves room for the threads */
    int threads = call->threads > 1 ? call->threads : 1;
    say(&t, "%.*s(", (int)strcspn(call->op->schema, "("), call->op->schema);
    for (int i = 0; i < call->n_args; i++) {
        say(&t, i ? ", " : "");
        say_value(&t, &call->arg[i]);
    }
    t.end = text + TD_KIND_TEXT;
    say(&t, ") on %d thread%s", threads, threads == 1 ? "" : "s");
}
