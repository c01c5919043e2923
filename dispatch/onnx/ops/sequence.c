/* Sequences of tensors inside a model: each is a list, which nothing but these operators takes. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

#define LONGEST 256 /* tensors of a sequence */

/* The sequence called so, with room for one more; how many, or -1. */
static int read_sequence(struct td_onnx *n, const char *name, struct td_item to[LONGEST + 1])
{
    const struct td_item *item = at(n, name);
    if (n->err || item->v.kind != TD_KIND_tensors) {
        refuse(n, "%s: a sequence of tensors is right", name);
        return -1;
    }
    if (item->n)
        memcpy(to, item->list, sizeof *to * (size_t)item->n);
    return item->n;
}

static void put_sequence(struct td_onnx *n, const struct td_item *list, int count)
{
    struct td_item made;
    if (count > LONGEST)
        return refuse(n, "a sequence has up to %d tensors here", LONGEST);
    if (!n->err)
        n->err = td_walk_list(n->walk, list, count, &made);
    put(n, 0, n->err ? (struct td_item){.v = {0}} : made);
}

/* Where position says, from the end where it is negative, of so many places; otherwise where it is
 * left out. -1 on failure. */
static int place(struct td_onnx *n, int places, int otherwise)
{
    int64_t at = otherwise;
    if (has(n, "position") && ints(n, "position", &at, 1) != 1)
        refuse(n, "position: one number is right");
    int64_t from = at < 0 ? at + places : at;
    if (!n->err && (from < 0 || from >= places))
        refuse(n, "position: is %lld, and there are %d places", (long long)at, places);
    return n->err ? -1 : (int)from;
}

void td_onnx_sequence_empty(struct td_onnx *n)
{
    const struct td_item none = {.v = {0}};
    put_sequence(n, &none, 0);
}

void td_onnx_sequence_construct(struct td_onnx *n)
{
    const struct td_item *list;
    int count = list_of(n, "inputs", &list);
    if (!n->err)
        put_sequence(n, list, count);
}

void td_onnx_sequence_at(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1];
    int count = read_sequence(n, "input_sequence", list), from = place(n, count, -1);
    if (!n->err)
        put(n, 0, list[from]);
}

void td_onnx_sequence_insert(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1];
    int count = read_sequence(n, "input_sequence", list);
    if (!n->err && count == LONGEST)
        return refuse(n, "a sequence has up to %d tensors here", LONGEST);
    /* -1 is before the last, as in Python's insert */
    int64_t said = count;
    if (has(n, "position") && ints(n, "position", &said, 1) != 1)
        refuse(n, "position: one number is right");
    said += said < 0 ? count : 0;
    if (!n->err && (said < 0 || said > count))
        refuse(n, "position: there are %d places", count + 1);
    if (n->err)
        return;
    memmove(list + said + 1, list + said, sizeof *list * (size_t)(count - said));
    list[said] = *at(n, "tensor");
    put_sequence(n, list, count + 1);
}

void td_onnx_sequence_erase(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1];
    int count = read_sequence(n, "input_sequence", list), from = place(n, count, -1);
    if (n->err)
        return;
    memmove(list + from, list + from + 1, sizeof *list * (size_t)(count - from - 1));
    put_sequence(n, list, count - 1);
}

void td_onnx_sequence_length(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1], length;
    int64_t count = read_sequence(n, "input_sequence", list);
    if (!n->err)
        n->err = td_walk_tensor_i64(n->walk, &count, -1, &length);
    put(n, 0, n->err ? (struct td_item){.v = {0}} : length);
}

/* Parts of one size, or of these; each index by itself where none is said. */
void td_onnx_split_to_sequence(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1];
    const struct td_tensor *x = tensor_of(n, "input");
    int64_t sizes[LONGEST], start = 0, each = 1;
    int axis = axis_of(n, "axis", x->rank), count = -1, parts = 0;
    bool said = has(n, "split"), one = said && !tensor_of(n, "split")->rank;
    if (said)
        count = ints(n, "split", one ? &each : sizes, one ? 1 : LONGEST);
    if (n->err || !x->rank)
        return refuse(n, "input: a tensor with dimensions is right");
    if ((said && count < 0) || each < 1)
        return refuse(n, "split: a size of 1 and up, or up to %d of 0 and up, is right", LONGEST);
    int64_t all = x->shape[axis];
    let_int(n, "axis", axis);
    for (; !n->err && (said && !one ? parts < count : start < all); parts++) {
        int64_t part = said && !one ? sizes[parts] : each < all - start ? each : all - start;
        if (parts == LONGEST || part < 0 || part > all - start)
            return refuse(n, parts == LONGEST ? "split: makes more than 256 parts"
                                              : "split: its parts do not add up to the size");
        let_int(n, "start", start);
        let_int(n, "end", start + part);
        start += part;
        list[parts] =
            eval(n, said || whole(n, "keepdims", 1) ? "slice.Tensor(input, axis, start, end)"
                                                    : "select(input, axis, start)");
    }
    if (!n->err && start != all)
        refuse(n, "split: its parts do not add up to %lld", (long long)all);
    if (!n->err)
        put_sequence(n, list, parts);
}

void td_onnx_concat_from_sequence(struct td_onnx *n)
{
    struct td_item list[LONGEST + 1];
    int count = read_sequence(n, "input_sequence", list);
    int64_t axis = whole(n, "axis", 0);
    if (!n->err && !count)
        return refuse(n, "input_sequence: has no tensors");
    if (!n->err)
        put(n, 0, call_list(n, whole(n, "new_axis", 0) ? "stack" : "cat", list, count, &axis));
}
