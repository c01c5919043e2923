/* What the files share that make one node of several which a quantizer has written (pairs.c,
 * dynamic.c): the graph as lists by value. */
#ifndef TD_DISPATCH_ONNX_PAIRS_H
#define TD_DISPATCH_ONNX_PAIRS_H

#include "dispatch/onnx/file.h"

#include <string.h>

struct td_pairs {
    struct td_onnx_reader *r;
    struct td_model *model;
    struct td_node *node;            /* of the graph */
    int *maker, *constant, *readers; /* by value, as in gather.c */
    int *reader;                     /* by value: 1 + the last node that reads it */
    int n_values;                    /* that these lists have */
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

/* Puts a node of another operator, with the attributes of node at, in the place of node last, whose
 * result it makes; node at is left out, and so is between, but for -1. names: of its values, as
 * many as there are, of which those below 0 are left out. 1, or -ENOMEM. */
int td_pairs_replace(struct td_pairs *p, int at, int between, int last, const char *domain,
                     const char *op, const char *const *names, const int *values, int n);

/* Joins what a dynamic quantizer makes of a product or convolution, of which node at is the
 * multiplication by the scales. 1: it is joined, 0: it stays; -ENOMEM. */
int td_pairs_join_dynamic(struct td_pairs *p, int at);

#endif
