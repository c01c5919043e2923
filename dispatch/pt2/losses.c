/* PyTorch's losses, as raw archives have them: what each element costs is a formula, which is then
 * left as it is, averaged or added up. */
#include "dispatch/pt2/pt2.h"

#include <string.h>

enum { NONE, MEAN, SUM };

/* y by reduction, 0 to 2, as PyTorch numbers them. */
static int reduce(struct td_walk *walk, int64_t reduction, struct td_item *y)
{
    if (reduction < NONE || reduction > SUM)
        return td_walk_refuse(walk, "reduction: 0, 1 or 2 is right");
    return reduction == NONE ? 0
                             : td_walk_call(walk, reduction == MEAN ? "mean" : "sum",
                                            (const struct td_given[]){TD_GIVE(*y)}, 1, y, NULL);
}

int td_pt2_loss(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    int64_t reduction = td_node_int(node, "reduction", MEAN);
    struct td_pt2_target target = *(const struct td_pt2_target *)node->form;
    struct td_node copy = *node;
    if (td_node_int(node, "swap", 0) || td_node_int(node, "full", 0))
        return td_walk_refuse(walk, "swap, full: False alone is right");
    if (td_node_int(node, "log_target", 0)) /* of kl_div */
        target.formula = "exp(target) * (target - self)";
    if (!td_node_int(node, "log_input", 1)) /* of poisson_nll_loss */
        target.formula = "input - target * log(input + eps)";
    if (td_pt2_given(node, in, "pos_weight")) /* of binary_cross_entropy_with_logits */
        target.formula = "(1 - target) * self + ((pos_weight - 1) * target + 1) * "
                         "softplus(neg(self))";
    copy.form = &target;
    int err = td_pt2_formula(walk, &copy, in, out), at = td_node_find(node, "weight");
    if (!err && td_pt2_given(node, in, "weight"))
        err = TD_CALL(walk, "mul", out, TD_GIVE(*out), TD_GIVE(in[at]));
    return err ? err : reduce(walk, reduction, out);
}

/* ---- of classes ---- */

#define ARGS 12

struct classes {
    struct td_walk *walk;
    struct td_given arg[ARGS];
    int n, err;
};

static void let(struct classes *c, const char *name, struct td_item item)
{
    c->arg[c->n++] = (struct td_given){name, item};
}

static struct td_item eval(struct classes *c, const char *formula)
{
    struct td_item y = {0};
    if (!c->err)
        c->err = td_walk_formula(c->walk, formula, c->arg, c->n, &y, NULL);
    return y;
}

/* Of log probabilities x along dim, and each sample's class t. */
static struct td_item cost(struct classes *c, double smooth, int64_t reduction, bool weighted)
{
    let(c, "known", eval(c, "ne(t, ignored)"));
    if (weighted) { /* each class's own, also of what it counts in the mean */
        let(c, "share",
            eval(c, "reshape_as(index_select(weight, 0, reshape(masked_fill(t, "
                    "logical_not(known), 0), [-1])), t) * known"));
        if (smooth != 0)
            c->arg[0].item = eval(c, "transpose(transpose(x, dim, -1) * weight, dim, -1)");
    }
    let(c, "cost",
        eval(c, "masked_fill(neg(squeeze(gather(x, dim, unsqueeze(masked_fill(t, "
                "logical_not(known), 0), dim)), dim)), logical_not(known), 0)"));
    if (smooth != 0) {
        c->arg[c->n - 1].item = eval(c, "cost * keep + masked_fill(neg(mean(x, dim)), "
                                        "logical_not(known), 0) * smooth");
    }
    if (weighted && smooth == 0)
        c->arg[c->n - 1].item = eval(c, "cost * share");
    if (weighted && reduction == MEAN)
        return eval(c, "sum(cost) / sum(share)");
    return eval(c, reduction == NONE   ? "cost + 0"
                   : reduction == MEAN ? "sum(cost) / sum(known)"
                                       : "sum(cost)");
}

int td_pt2_classes(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct classes c = {.walk = walk};
    int64_t reduction = td_node_int(node, "reduction", MEAN);
    int at = td_node_find(node, "label_smoothing");
    double smooth = at < 0 ? 0 : td_scalar(&in[at].v);
    if (node->n_operands < 2 || in[0].v.kind != TD_KIND_tensor || in[1].v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "self, target: tensors are right");
    bool weighted = td_pt2_given(node, in, "weight");
    if (reduction < NONE || reduction > SUM)
        return td_walk_refuse(walk, "reduction: 0, 1 or 2 is right");
    bool shares = in[1].v.tensor.dtype & TD_FLOATS;
    int64_t dim = in[0].v.tensor.rank > 1, size = in[0].v.tensor.shape[dim];
    let(&c, "x", in[0]);
    let(&c, "t", in[1]);
    let(&c, "dim", td_item_int(dim));
    let(&c, "ignored", td_item_int(td_node_int(node, "ignore_index", -100)));
    let(&c, "keep", td_item_float(1 - smooth));
    let(&c, "smooth", td_item_float(smooth));
    if (target->how == 'x')
        c.arg[0].item = eval(&c, "log_softmax(x, dim)");
    if (!shares) {
        if (weighted)
            let(&c, "weight", in[td_node_find(node, "weight")]);
        *out = cost(&c, smooth, reduction, weighted);
        return c.err;
    }
    if (target->how != 'x' || weighted)
        return td_walk_refuse(walk, "target: classes are right%s", weighted ? " with weight" : "");
    c.arg[5].item = td_item_float(smooth / (double)(size ? size : 1));
    *out = eval(&c, "neg(sum(x * (t * keep + smooth), dim))");
    return c.err ? c.err : reduce(walk, reduction, out);
}
