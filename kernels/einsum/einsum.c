/* einsum: reads the equation. A letter is a label, and so is each dimension that "..." stands for,
 * counted from the end; a label that comes twice in an operand walks its diagonal, one of size 1 is
 * no label of that operand where others have more. */
#include "kernels/einsum/einsum.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define DOTS 52 /* the labels of "...": the last dimension's is DOTS + TD_MAX_RANK - 1 */

static int label_of(char c)
{
    return isupper((unsigned char)c) ? c - 'A' : c - 'a' + 26;
}

/* The labels that the text up to end stands for, of a tensor of that rank, in its order; -1: the
 * result, whose "..." is as long as dots. How many, or -EINVAL. */
static int labels_of(const struct td_call *call, const char *text, const char *end, int rank,
                     int dots, int *label)
{
    int letters = 0, n = 0;
    bool met = false;
    for (const char *p = text; p < end; p++)
        letters += isalpha((unsigned char)*p) != 0;
    for (const char *p = text; p < end; p++) {
        if (*p == ' ')
            continue;
        if (*p == '.' && !met && end - p >= 3 && p[1] == '.' && p[2] == '.') {
            int more = rank < 0 ? dots : rank - letters;
            met = true;
            p += 2;
            for (int d = 0; d < more && n < TD_EINSUM_LABELS; d++)
                label[n++] = DOTS + TD_MAX_RANK - more + d;
        } else if (isalpha((unsigned char)*p) && n < TD_EINSUM_LABELS) {
            label[n++] = label_of(*p);
        } else {
            return td_refuse(call,
                             "equation: '%c' is out of place; letters, and ... once, are "
                             "right",
                             *p);
        }
    }
    if (rank >= 0 && n != rank)
        return td_refuse(call, "equation: %.*s is for %d dimensions, but the tensor has %d",
                         (int)(end - text), text, letters, rank);
    return n;
}

/* Operand i by its part of the equation. */
static int read_operand(const struct td_call *call, struct td_einsum *e, int i, const char *text,
                        const char *end, int *count)
{
    const struct td_tensor *t = &call->arg[1].tensors.v[i];
    struct td_einsum_term *term = &e->term[i];
    int label[TD_EINSUM_LABELS], n = labels_of(call, text, end, t->rank, 0, label);
    int64_t step = 1, own[TD_EINSUM_LABELS] = {0};
    *term = (struct td_einsum_term){.data = t->data};
    e->single[i] = 0;
    for (int d = n - 1; d >= 0; step = (int64_t)((uint64_t)step * (uint64_t)t->shape[d--])) {
        int l = label[d];
        int64_t size = t->shape[d], *all = &e->size[l];
        bool again = term->labels >> l & 1;
        e->single[i] |= (uint64_t)(size == 1) << l;
        if (again ? own[l] != size : *all >= 0 && size != 1 && *all != 1 && *all != size)
            return td_refuse(call,
                             "tensors: size %lld in dimension %d of tensor %d does not go "
                             "with the %lld that its label has elsewhere",
                             (long long)size, d, i, (long long)(again ? own[l] : *all));
        *all = *all < 0 || *all == 1 ? size : *all;
        own[l] = size;
        term->labels |= (uint64_t)1 << l;
        term->step[l] += step;
        count[l]++;
    }
    return n < 0 ? n : 0;
}

/* Without "->": what "..." stands for, and then the letters that come once. */
static int default_result(const int *count, int *label)
{
    int n = 0;
    for (int d = 0; d < TD_MAX_RANK; d++)
        if (count[DOTS + d])
            label[n++] = DOTS + d;
    for (int l = 0; l < DOTS && n < TD_EINSUM_LABELS; l++)
        if (count[l] == 1)
            label[n++] = l;
    return n;
}

static int read_result(const struct td_call *call, struct td_einsum *e, const char *text,
                       const int *count)
{
    int label[TD_EINSUM_LABELS], dots = 0, n = 0, all = 0;
    uint64_t seen = 0;
    for (int d = 0; d < TD_MAX_RANK; d++)
        dots += count[DOTS + d] > 0;
    n = text ? labels_of(call, text, text + strlen(text), -1, dots, label)
             : default_result(count, label);
    for (int l = 0; l < TD_EINSUM_LABELS; l++)
        all += count[l] > 0;
    if (all > TD_BOX_RANK)
        return td_refuse(call, "equation: has %d labels; at most %d are right", all, TD_BOX_RANK);
    if (n > TD_MAX_RANK)
        return td_refuse(call, "equation: the result has %d dimensions; at most %d are right", n,
                         TD_MAX_RANK);
    for (int d = 0; d < n; d++) {
        if (!count[label[d]] || seen >> label[d] & 1)
            return td_refuse(call, "equation: the result's labels must each come once, and in an "
                                   "operand");
        seen |= (uint64_t)1 << label[d];
        e->out[d] = label[d];
    }
    e->rank = n < 0 ? 0 : n;
    return n < 0 ? n : 0;
}

/* The parts of the equation before end, an operand each. */
static int read_operands(const struct td_call *call, struct td_einsum *e, const char *text,
                         const char *end, int *count)
{
    for (int i = 0;; i++) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        if (i == e->n || (!comma && i < e->n - 1))
            return td_refuse(call, "equation: is for %s operands than tensors has, %d",
                             i == e->n ? "more" : "fewer", e->n);
        int err = read_operand(call, e, i, text, comma ? comma : end, count);
        if (err || !comma)
            return err;
        text = comma + 1;
    }
}

int td_einsum_read(const struct td_call *call, struct td_einsum *e)
{
    const struct td_value *tensors = &call->arg[1];
    const struct td_tensor *first = tensors->tensors.v;
    const char *text = call->arg[0].str, *arrow = strstr(text, "->");
    int count[TD_EINSUM_LABELS] = {0};
    e->n = tensors->tensors.n;
    if (!e->n || e->n > TD_EINSUM_MOST)
        return td_refuse(call, "tensors: are %d; from 1 to %d are right", e->n, TD_EINSUM_MOST);
    for (int i = 0; i < e->n; i++)
        if (first[i].dtype != first->dtype)
            return td_refuse(call, "tensors: tensor %d is %s, the first is %s; the same is right",
                             i, td_dtype_name(first[i].dtype), td_dtype_name(first->dtype));
    for (int l = 0; l < TD_EINSUM_LABELS; l++)
        e->size[l] = -1;
    int err = read_operands(call, e, text, arrow ? arrow : text + strlen(text), count);
    for (int i = 0; i < e->n && !err; i++) /* those that are broadcast along a label lack it */
        for (int l = 0; l < TD_EINSUM_LABELS; l++)
            if (e->single[i] >> l & 1 && e->size[l] != 1)
                e->term[i].labels &= ~((uint64_t)1 << l);
    return err ? err : read_result(call, e, arrow ? arrow + 2 : NULL, count);
}

static int rule(struct td_call *call)
{
    struct td_einsum e;
    int err = td_einsum_read(call, &e);
    call->n_out = 1;
    if (err)
        return err;
    call->out[0] = (struct td_tensor){.dtype = call->arg[1].tensors.v[0].dtype, .rank = e.rank};
    for (int d = 0; d < e.rank; d++)
        call->out[0].shape[d] = e.size[e.out[d]];
    return 0;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = td_einsum_run(call, NULL).bytes;
    return NULL;
}

static double flops(const struct td_call *call)
{
    return td_einsum_run(call, NULL).flops;
}

td_kernel td_einsum_ref;
TD_KERNELS_3(einsum);

static const struct td_impl impls[] = {
    TD_SIMD_3(einsum, TD_INTS | TD_FLOATS, .prepare = prepare) TD_REF(einsum),
    {0},
};

const struct td_op td_op_einsum = {
    .schema = "einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
    .doc = "out = the sum over all labels that out lacks of the operands' products; operands are "
           "taken from left to right, path changes nothing",
    .rule = rule,
    .dtypes = TD_INTS | TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = impls,
    .mixes = TD_MAX_RANK,
    .samples = (const char *const[]){"equation=ij,jk->ik tensors=[n,m]|[m,5]",
                                     "equation=bqhd,bkhd->bhqk tensors=[2,n,3,4]|[2,5,3,4]",
                                     "equation=i,i->i tensors=[n]|[n]",
                                     "equation=bi,b->ib tensors=[n,3]|[n]",
                                     "equation=iij,jk,k tensors=[3,3,n]|[n,5]|[5] finite",
                                     "equation=...ij,...jk->...ki tensors=[2,1,n,3]|[4,3,m]",
                                     "equation=ij->j tensors=[n,7]", NULL},
    .flops = flops,
};
