/* What pairs.c, dynamic.c and scaled.c share, which make one node of several that a quantizer has
 * written: who makes and who reads each value of the graph. */
#ifndef TD_DISPATCH_ONNX_PAIRS_H
#define TD_DISPATCH_ONNX_PAIRS_H

#include "dispatch/onnx/file.h"
#include "kernels/elementwise.h"

#include <string.h>

struct td_pairs {
    struct td_onnx_reader *r;
    struct td_model *model;
    struct td_node *node; /* of the graph */
    /* Of each value, as in gather.c: 1 + the node that makes it; 1 + its constant; how many nodes
     * read it; 1 + the last of these. 0: there is none. */
    int *maker, *constant, *readers, *reader;
    int n_values;      /* of these lists */
    bool keeps_scaled; /* td_pairs_has_scaled */
};

/* Whether the node is an operator of ONNX's own domain, or of this one. */
static inline bool td_pairs_is(const struct td_node *node, const char *domain, const char *op)
{
    const struct td_onnx_form *form = node->form;
    return node->lower == td_onnx_walk && !strcmp(node->op, op) &&
           (!strcmp(form->row->domain, "") || !strcmp(form->row->domain, domain));
}

/* The value that the operand called so is, or -1. */
static inline int td_pairs_operand(const struct td_node *node, const char *name)
{
    int i = td_node_find(node, name);
    return i >= 0 && node->operand[i].kind == TD_OPERAND_value ? node->operand[i].value : -1;
}

static inline const struct td_tensor *td_pairs_constant(const struct td_pairs *p, int value)
{
    return value >= 0 && p->constant[value] ? &p->model->constant[p->constant[value] - 1].tensor
                                            : NULL;
}

/* Whether the node is a Cast to FP32. */
static inline bool td_pairs_is_cast_to_f32(const struct td_node *node)
{
    int to = td_pairs_is(node, "", "Cast") ? td_node_find(node, "to") : -1;
    return to >= 0 && node->operand[to].kind == TD_OPERAND_constant &&
           node->operand[to].constant.kind == TD_KIND_dtype &&
           node->operand[to].constant.dtype == TD_f32;
}

/* Whether a Gemm is A times B or B transposed, plus C, and nothing is scaled. */
static inline bool td_pairs_is_plain_gemm(const struct td_node *node)
{
    for (int i = 0; i < node->n_operands; i++) {
        const struct td_node_operand *o = &node->operand[i];
        if ((!strcmp(o->name, "alpha") || !strcmp(o->name, "beta")) &&
            (o->kind != TD_OPERAND_constant || td_scalar(&o->constant) != 1))
            return false;
    }
    return td_node_int(node, "transA", 0) == 0;
}

/* Whether all zero points are 0. */
static inline bool td_pairs_are_zero(const struct td_tensor *points)
{
    int64_t i = 0, n = td_numel(points);
    while (i < n && td_get_real(points, i) == 0)
        i++;
    return i == n;
}

/* Puts a node of another operator, with the attributes of node at, in the place of node last, whose
 * result it makes. Node at is left out, and so is between, unless it is -1. names: of its n
 * operands, whose values these are; those below 0 are left out. 1, or -ENOMEM. */
int td_pairs_replace(struct td_pairs *p, int at, int between, int last, const char *domain,
                     const char *op, const char *const *names, const int *values, int n);

/* Joins what a dynamic quantizer makes of a product or convolution, of which node at is the
 * multiplication by the scales. 1: it is joined, 0: it stays; -ENOMEM. */
int td_pairs_join_dynamic(struct td_pairs *p, int at);

/* Joins the product of node at with what makes FP32 of its INT8 weight (scaled.c). The same. */
int td_pairs_join_scaled(struct td_pairs *p, int at);
/* Whether the model has so many numbers in INT8 that this is worth it. */
bool td_pairs_has_scaled(const struct td_model *model);

#endif
