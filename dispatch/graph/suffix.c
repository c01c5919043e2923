/* What may stand behind a value of an expression: x[0], x[1:3, ..., None], x[mask], max(x, 1)[0],
 * x.sum(1), x.T. Each becomes calls of the operators that say it: select, slice, unsqueeze, index.
 */
#include "dispatch/graph/parser.h"

#include <errno.h>
#include <string.h>

#define wrong td_parse_wrong

/* ---- x[...] ---- */

struct item { /* of an index */
    enum { WHOLE, SLICE, NEW, REST, TENSOR } kind;
    const char *at;
    struct td_operand of[3]; /* of a slice begin, end and step; node -1: left out */
};

static struct td_operand none(struct td_parser *p, const char *at)
{
    return td_parse_number(p, at, TD_KIND_none, 0, 0);
}

static struct td_operand whole(struct td_parser *p, const char *at, int value)
{
    return td_parse_number(p, at, TD_KIND_int, value, 0);
}

static bool is_none(const struct td_parser *p, struct td_operand a)
{
    const struct td_graph_node *node = p->graph->node + a.node;
    return a.node >= 0 && node->value && node->value->kind == TD_KIND_none;
}

static void read_item(struct td_parser *p, struct item *item)
{
    td_parse_skip(p);
    *item = (struct item){WHOLE, p->at, {td_no_operand, td_no_operand, td_no_operand}};
    if (!strncmp(p->at, "...", 3)) {
        item->kind = REST;
        p->at += 3;
        return;
    }
    for (int i = 0; i < 3 && !p->err; i++) {
        td_parse_skip(p);
        if (*p->at && !strchr(":],", *p->at))
            item->of[i] = p->expression(p, 1);
        if (i == 2 || !td_parse_take(p, ':'))
            break;
        item->kind = SLICE;
    }
    if (p->err || item->kind == SLICE)
        return;
    const struct td_value *number = td_parse_number_of(p, item->of[0]);
    if (item->of[0].node < 0)
        wrong(p, item->at, "an index is right here");
    else if (is_none(p, item->of[0]))
        item->kind = NEW;
    else if (!number)
        item->kind = TENSOR;
    else if (number->kind != TD_KIND_int)
        wrong(p, item->at, "an index is a whole number, a:b:c, None, ... or a tensor");
}

static struct td_operand call(struct td_parser *p, const char *at, const char *op,
                              const struct td_operand *operand, int n)
{
    return p->err ? td_no_operand : td_parse_call(p, at, td_registry_find(op), false, operand, n);
}

/* One item at dimension dim, which it leaves where it was, takes away or makes. */
static struct td_operand apply(struct td_parser *p, struct td_operand a, const struct item *item,
                               int dim)
{
    struct td_operand operand[5] = {a, whole(p, item->at, dim), item->of[0]};
    int n = 3;
    if (item->kind == SLICE) {
        for (int i = 0; i < 3; i++)
            operand[2 + i] = item->of[i].node >= 0 ? item->of[i]
                             : i < 2               ? none(p, item->at)
                                                   : whole(p, item->at, 1);
        n = 5;
    }
    if (item->kind == SLICE && item->of[0].node < 0 && item->of[1].node < 0 && item->of[2].node < 0)
        return a;
    return item->kind == NEW
               ? call(p, item->at, "unsqueeze", operand, 2)
               : call(p, item->at, item->kind == SLICE ? "slice" : "select", operand, n);
}

/* Tensors among the items: what stands beside them is : alone. */
static struct td_operand look_up(struct td_parser *p, const char *at, struct td_operand a,
                                 const struct item *item, int n)
{
    struct td_operand list[TD_MAX_RANK];
    for (int i = 0; i < n; i++) {
        bool all = item[i].kind == SLICE && item[i].of[0].node < 0 && item[i].of[1].node < 0 &&
                   item[i].of[2].node < 0;
        if (item[i].kind != TENSOR && !all)
            return wrong(p, item[i].at,
                         "beside a tensor an index has : alone; take the rest in a step before");
        list[i] = all ? none(p, item[i].at) : item[i].of[0];
    }
    struct td_operand operand[2] = {a, td_parse_call(p, at, NULL, false, list, n)};
    return call(p, at, "index", operand, 2);
}

static struct td_operand take_part(struct td_parser *p, const char *at, struct td_operand a,
                                   const struct item *item, int n)
{
    int rest = n, dim = 0;
    for (int i = 0; i < n; i++) {
        if (item[i].kind == TENSOR)
            return look_up(p, at, a, item, n);
        if (item[i].kind == REST && rest < n)
            return wrong(p, item[i].at, "... is there twice");
        rest = item[i].kind == REST ? i : rest;
    }
    for (int i = 0; i < rest && !p->err; i++) {
        a = apply(p, a, &item[i], dim);
        dim += item[i].kind != WHOLE;
    }
    dim = -1;
    for (int i = n - 1; i > rest && !p->err; i--) { /* from the last dimension on */
        a = apply(p, a, &item[i], dim);
        dim -= item[i].kind != WHOLE;
    }
    return a;
}

/* Whether a call of it has several results, whatever overload fits: then [1] is one of these. */
static bool has_results(const struct td_graph_node *node)
{
    for (const struct td_handle *h = node->handle; h; h = node->one ? NULL : h->next)
        if (h->schema.n_returns > 1 || h->schema.ret[0].type.list)
            return true;
    return false;
}

static struct td_operand index_of(struct td_parser *p, struct td_operand a)
{
    const char *at = p->at - 1;
    struct item item[TD_MAX_RANK];
    int n = 0;
    do {
        if (n == TD_MAX_RANK)
            return wrong(p, p->at, "an index has at most %d parts", TD_MAX_RANK);
        read_item(p, &item[n++]);
    } while (!p->err && td_parse_take(p, ',') && (td_parse_skip(p), *p->at != ']'));
    if (p->err || !td_parse_take(p, ']'))
        return wrong(p, p->at, "',' or ']' is right here");
    const struct td_value *i = td_parse_number_of(p, item[0].of[0]);
    if (!has_results(&p->graph->node[a.node]) || a.picked)
        return td_parse_number_of(p, a) ? wrong(p, at, "a number has no parts")
                                        : take_part(p, at, a, item, n);
    if (n > 1 || item[0].kind != WHOLE || i->i < 0 || i->i >= TD_MAX_OUTS)
        return wrong(p, at, "which of a call's results is right here, from 0 on");
    a.result = (short)i->i;
    a.picked = true;
    return a;
}

/* ---- x.sum(1) ---- */

/* Behind the point. */
static struct td_operand method_of(struct td_parser *p, struct td_operand a)
{
    char name[TD_PARSER_WORD];
    const char *at = p->at;
    td_parse_word(p, name, false);
    if (td_parse_take(p, '('))
        return p->arguments(p, at, name, &a);
    if (!strcmp(name, "T"))
        return call(p, at, "t", &a, 1);
    return wrong(p, at, "'.%.60s' needs brackets, as in x.%.60s()", name, name);
}

struct td_operand td_parse_suffixes(struct td_parser *p, struct td_operand a)
{
    while (!p->err && a.node >= 0) {
        td_parse_skip(p);
        if (*p->at == '.' && td_parse_begins_word(p->at[1]))
            p->at++, a = method_of(p, a);
        else if (td_parse_take(p, '['))
            a = index_of(p, a);
        else
            break;
    }
    return a;
}
