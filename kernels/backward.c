/* Rules of the operators that compute gradients: see backward.h. Nothing broadcasts here: a
 * gradient has the shape of what it belongs to, and another shape is most likely another layer's.
 */
#include "kernels/backward.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <stdio.h>

int td_rule_type(struct td_call *call, int i, const char *name)
{
    const struct td_tensor *t = td_arg(call, i);
    enum td_dtype first = call->arg[0].tensor.dtype;
    if (t && t->dtype != first)
        return td_refuse(call, "%s: is %s; %s is right, since all tensors must be of one type",
                         name, td_dtype_name(t->dtype), td_dtype_name(first));
    return 0;
}

struct text {
    char s[TD_MAX_RANK * 22 + 4];
};

static struct text written(int rank, const int64_t *shape)
{
    struct text text = {"["};
    int n = 1;
    for (int d = 0; d < rank; d++)
        n += sprintf(text.s + n, d ? ", %lld" : "%lld", (long long)shape[d]);
    sprintf(text.s + n, "]");
    return text;
}

int td_rule_shape(struct td_call *call, int i, const char *name, const char *whose, int rank,
                  const int64_t *shape)
{
    const struct td_tensor *t = td_arg(call, i);
    bool same = !t || t->rank == rank;
    for (int d = 0; t && same && d < rank; d++)
        same = t->shape[d] == shape[d];
    if (same)
        return 0;
    struct text is = written(t->rank, t->shape), right = written(rank, shape);
    return td_refuse(call, "%s: has shape %s; %s, %s, is right", name, is.s, whose, right.s);
}

int td_rule_whole(struct td_call *call, int i, const char *name)
{
    const struct td_tensor *t = td_arg(call, i);
    if (t && !(t->dtype & (TD_i32 | TD_i64)))
        return td_refuse(call, "%s: is %s; INT32 or INT64 is right", name, td_dtype_name(t->dtype));
    if (t && t->rank != 1)
        return td_refuse(call, "%s: has %d dimensions; one is right", name, t->rank);
    return 0;
}

int td_rule_gradient(struct td_call *call, const char *name)
{
    const struct td_tensor *grad = &call->arg[0].tensor;
    int err = td_rule_type(call, 1, name);
    err = err ? err : td_rule_shape(call, 1, name, "grad_output's", grad->rank, grad->shape);
    return err ? err : td_rule_unary(call);
}

bool td_wants(const struct td_call *call, int i)
{
    return call->arg[call->n_args - 1].ints.v[i];
}

void td_rule_mask(struct td_call *call)
{
    call->n_out = 3;
    for (int i = 0; i < 3; i++) {
        call->out[i].dtype = call->arg[0].tensor.dtype;
        if (!td_wants(call, i)) {
            call->out[i].rank = 1;
            call->out[i].shape[0] = 0;
        }
    }
}
