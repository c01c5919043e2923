/* One node in the place of several (pairs.h). */
#include "dispatch/onnx/pairs.h"

#include <errno.h>

static void add_value(struct td_node *node, const char *name, int value)
{
    struct td_node_operand *o = (struct td_node_operand *)&node->operand[node->n_operands++];
    *o = (struct td_node_operand){.name = name, .kind = TD_OPERAND_value, .value = value};
}

int td_pairs_replace(struct td_pairs *p, int at, int between, int last, const char *domain,
                     const char *op, const char *const *names, const int *values, int n)
{
    const struct td_node *from = &p->node[at];
    const struct td_onnx_form *form;
    int err = td_onnx_form_of(p->r, domain, op, &form);
    struct td_node made = *from;
    made.op = op;
    made.form = form;
    made.out = p->node[last].out;
    made.n_outs = 1;
    made.n_operands = 0;
    made.operand =
        td_program_alloc(p->model, sizeof *made.operand * (size_t)(n + from->n_operands));
    if (err || !made.operand)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        if (values[i] >= 0)
            add_value(&made, names[i], values[i]);
    for (int i = 0; i < from->n_operands; i++)
        for (int k = form->n_inputs; k < form->n; k++)
            if (!strcmp(from->operand[i].name, form->operand[k].name))
                ((struct td_node_operand *)made.operand)[made.n_operands++] = from->operand[i];
    p->node[at].n_outs = 0;
    if (between >= 0)
        p->node[between].n_outs = 0;
    p->node[last] = made;
    return 1;
}
