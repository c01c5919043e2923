/* What a model asserts: each assertion is a node without results, which refuses the call where it
 * does not hold. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <string.h>

static int refuse(struct td_walk *walk, const struct td_node *node, const struct td_item *in)
{
    int at = td_node_find(node, "assert_msg");
    const char *message = at >= 0 && in[at].v.kind == TD_KIND_str ? in[at].v.str : "";
    return td_walk_refuse(walk, "the model's assertion fails%s%.300s", *message ? ": " : "",
                          message);
}

/* An argument that is a number, or otherwise. */
static int bound(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 const char *name, int64_t otherwise, int64_t *v)
{
    const struct td_item *number = td_pt2_given(node, in, name);
    *v = otherwise;
    int n = number ? td_walk_ints(walk, number, v, 1) : 1;
    return n == 1 ? 0 : n < 0 ? n : td_walk_refuse(walk, "takes numbers");
}

int td_pt2_assert_range(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    int64_t size, least, most;
    (void)out;
    int err = td_walk_ints(walk, &in[0], &size, 1);
    if (err < 1)
        return err < 0 ? err : td_walk_refuse(walk, "takes a number");
    err = bound(walk, node, in, "min", target->how == 's' ? 0 : INT64_MIN, &least);
    err = err ? err : bound(walk, node, in, "max", INT64_MAX, &most);
    if (err || (size >= least && size <= most))
        return err;
    return td_walk_refuse(walk, "the model's assertion fails: %lld must be from %lld to %lld",
                          (long long)size, (long long)least, (long long)most);
}

/* A type and sizes; how the tensor lies in PyTorch's memory is no matter here. */
int td_pt2_assert_metadata(struct td_walk *walk, const struct td_node *node,
                           const struct td_item *in, struct td_item *out)
{
    const struct td_item *type = td_pt2_given(node, in, "dtype"),
                         *sizes = td_pt2_given(node, in, "size");
    const struct td_tensor *t = &in[0].v.tensor;
    int64_t size[TD_MAX_LIST];
    (void)out;
    if (in[0].v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "takes a tensor");
    if (type && type->v.kind == TD_KIND_dtype && type->v.dtype != t->dtype)
        return td_walk_refuse(walk, "the model's assertion fails: the tensor must be %s, but is %s",
                              td_dtype_name(type->v.dtype), td_dtype_name(t->dtype));
    if (!sizes)
        return 0;
    int n = td_pt2_list(walk, sizes, size);
    if (n < 0)
        return n;
    bool same = n == t->rank;
    for (int d = 0; d < n && same; d++)
        same = size[d] == t->shape[d];
    return same ? 0
                : td_walk_refuse(walk, "the model's assertion fails: the tensor has other sizes");
}

int td_pt2_assert(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    double v;
    (void)out;
    int n = td_walk_floats(walk, &in[0], &v, 1);
    if (n != 1)
        return n < 0 ? n : td_walk_refuse(walk, "takes one element");
    return v != 0 ? 0 : refuse(walk, node, in);
}
