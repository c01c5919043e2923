/* Reads the trees that a node of ai.onnx.ml has in its attributes: in the first three sets lists of
 * nodes that name each other by (tree, number), with leaves among them; in the fifth indices, with
 * leaves apart. */
#include "dispatch/onnx/trees.h"
#include "kernels/sizes.h"
#include "pools/pools.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct room { /* counted against the budget, not the reader's share: tables grow with the file */
    _Alignas(16) size_t bytes;
    _Alignas(16) unsigned char data[];
};

void *td_onnx_take(int64_t n, size_t each)
{
    int64_t bytes;
    if (n < 0 || !td_size_times(n + 1, (int64_t)each, &bytes) ||
        !td_size_plus(bytes, (int64_t)sizeof(struct room), &bytes) ||
        td_budget_take(&td_memory, (size_t)bytes))
        return NULL;
    struct room *room = calloc(1, (size_t)bytes);
    if (!room) {
        td_budget_give(&td_memory, (size_t)bytes);
        return NULL;
    }
    room->bytes = (size_t)bytes;
    return room->data;
}

void td_onnx_give_back(void *data)
{
    if (!data)
        return;
    struct room *room = (void *)((char *)data - offsetof(struct room, data));
    td_budget_give(&td_memory, room->bytes);
    free(room);
}

void td_onnx_free_forest(struct td_onnx_forest *f)
{
    td_onnx_give_back(f->root);
    td_onnx_give_back(f->node);
    td_onnx_give_back(f->first);
    td_onnx_give_back(f->weight);
}

bool td_onnx_is_tree_table(const char *name)
{
    static const char *const prefixes[] = {
        "nodes_", "class_", "target_", "leaf_", "membership_values", "tree_roots"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

/* ---- attributes ---- */

static const TdOnnx__Attribute *find(const TdOnnx__Node *from, const char *prefix, const char *name)
{
    char whole[64];
    size_t length = strlen(prefix);
    memcpy(whole, prefix, length);
    strcpy(whole + length, name);
    for (size_t i = 0; i < from->n_attribute; i++)
        if (from->attribute[i]->name && !strcmp(from->attribute[i]->name, whole))
            return from->attribute[i];
    return NULL;
}

/* A list of whole numbers; *n -1: of any length, which is told. */
static int ints_of(struct td_onnx_reader *r, const TdOnnx__Node *from, const char *prefix,
                   const char *name, int64_t *n, const int64_t **v)
{
    const TdOnnx__Attribute *a = find(from, prefix, name);
    if (!a)
        return td_onnx_wrong(r, "%s%s is missing", prefix, name);
    if (*n >= 0 && (int64_t)a->n_ints != *n)
        return td_onnx_wrong(r, "%s%s has %zu numbers; %lld are right", prefix, name, a->n_ints,
                             (long long)*n);
    *n = (int64_t)a->n_ints;
    *v = a->ints;
    return 0;
}

static int floats_of(struct td_onnx_reader *r, const TdOnnx__Node *from, const char *prefix,
                     const char *name, int64_t n, const float **v)
{
    const TdOnnx__Attribute *a = find(from, prefix, name);
    if (!a && find(from, prefix, "values_as_tensor"))
        return td_onnx_wrong(r, "nodes_values_as_tensor: thresholds in FP64 are not right here; "
                                "nodes_values, in FP32, are");
    if (!a || (int64_t)a->n_floats != n)
        return td_onnx_wrong(r, "%s%s has %zu numbers; %lld are right", prefix, name,
                             a ? a->n_floats : 0, (long long)n);
    *v = a->floats;
    return 0;
}

/* Element i of data of any alignment. */
static double number_at(const void *data, enum td_dtype type, int64_t i)
{
    union {
        float f;
        double d;
        int32_t whole;
        uint8_t byte;
    } v;
    size_t size = td_dtype_size(type);
    memcpy(&v, (const char *)data + (size_t)i * size, size);
    return type == TD_f32 ? (double)v.f : type == TD_f64 ? v.d : type == TD_i32 ? v.whole : v.byte;
}

/* A tensor of n numbers, as doubles, for td_onnx_give_back. */
static int tensor_of_numbers(struct td_onnx_reader *r, const TdOnnx__Node *from, const char *name,
                             int64_t n, double **v)
{
    const TdOnnx__Attribute *a = find(from, "", name);
    const TdOnnx__Tensor *t = a ? a->t : NULL;
    enum td_dtype type = t ? td_onnx_dtype(t->data_type) : TD_DTYPE_none;
    size_t width = type ? td_dtype_size(type) : 1;
    const void *data = t ? t->raw_data.data : NULL;
    size_t found = t ? t->raw_data.len / width : 0;
    bool spelled = t && !t->has_raw_data;
    if (spelled && type == TD_f32) {
        data = t->float_data;
        found = t->n_float_data;
    } else if (spelled && type == TD_f64) {
        data = t->double_data;
        found = t->n_double_data;
    } else if (spelled) {
        data = t->int32_data;
        found = t->n_int32_data;
    }
    if (!(type & (TD_f32 | TD_f64 | TD_u8)) || t->data_location || found != (size_t)n)
        return td_onnx_wrong(r, "%s: a tensor of %lld numbers is right", name, (long long)n);
    *v = td_onnx_take(n, sizeof **v);
    if (!*v)
        return td_onnx_no_memory(r);
    for (int64_t i = 0; i < n; i++)
        (*v)[i] = number_at(data, spelled && type == TD_u8 ? TD_i32 : type, i);
    return 0;
}

static int room_for(struct td_onnx_reader *r, struct td_onnx_forest *f, int64_t weights)
{
    if (f->n < 1 || f->n > INT32_MAX / 4)
        return td_onnx_wrong(r, "has %lld nodes of trees; 1 to %d are right", (long long)f->n,
                             INT32_MAX / 4);
    f->node = td_onnx_take(f->n, sizeof *f->node);
    f->root = td_onnx_take(f->n, sizeof *f->root);
    f->first = td_onnx_take(f->n + 1, sizeof *f->first);
    f->weight = td_onnx_take(weights, sizeof *f->weight);
    return f->node && f->root && f->first && f->weight ? 0 : td_onnx_no_memory(r);
}

/* ---- the first sets ---- */

struct name { /* of a node */
    int64_t tree, number, node;
};

static int compare(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return x->tree != y->tree       ? (x->tree < y->tree ? -1 : 1)
           : x->number != y->number ? (x->number < y->number ? -1 : 1)
                                    : 0;
}

static int look_up(struct td_onnx_reader *r, const struct name *names, int64_t n, int64_t tree,
                   int64_t number, int64_t *node)
{
    struct name key = {tree, number, 0};
    const struct name *found = bsearch(&key, names, (size_t)n, sizeof key, compare);
    *node = found ? found->node : 0;
    return found
               ? 0
               : td_onnx_wrong(r, "tree %lld has no node %lld", (long long)tree, (long long)number);
}

static int read_mode(struct td_onnx_reader *r, const ProtobufCBinaryData *text,
                     enum td_onnx_tree_mode *mode)
{
    static const char *const modes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (text->len == strlen(modes[i]) && !memcmp(text->data, modes[i], text->len)) {
            *mode = (enum td_onnx_tree_mode)i;
            return 0;
        }
    return td_onnx_wrong(r, "nodes_modes: there is no mode '%.*s'",
                         text->len < 40 ? (int)text->len : 40, (const char *)text->data);
}

static int check_feature(struct td_onnx_reader *r, int64_t feature)
{
    return feature >= 0 && feature < INT32_MAX
               ? 0
               : td_onnx_wrong(r, "nodes_featureids: %lld is no feature", (long long)feature);
}

static int read_nodes(struct td_onnx_reader *r, const TdOnnx__Node *from, struct td_onnx_forest *f,
                      const struct name *names)
{
    const TdOnnx__Attribute *modes = find(from, "nodes_", "modes"),
                            *missing = find(from, "nodes_", "missing_value_tracks_true");
    const int64_t *tree, *feature, *yes, *no;
    const float *value;
    int err = ints_of(r, from, "nodes_", "treeids", &f->n, &tree);
    err = err ? err : ints_of(r, from, "nodes_", "featureids", &f->n, &feature);
    err = err ? err : ints_of(r, from, "nodes_", "truenodeids", &f->n, &yes);
    err = err ? err : ints_of(r, from, "nodes_", "falsenodeids", &f->n, &no);
    err = err ? err : floats_of(r, from, "nodes_", "values", f->n, &value);
    if (!err && (!modes || (int64_t)modes->n_strings != f->n))
        err = td_onnx_wrong(r, "nodes_modes: %lld are right", (long long)f->n);
    for (int64_t i = 0; i < f->n && !err; i++) {
        struct td_onnx_tree_node *node = &f->node[i];
        *node = (struct td_onnx_tree_node){.feature = feature[i], .threshold = (double)value[i]};
        node->nan_true = missing && (size_t)i < missing->n_ints && missing->ints[i];
        err = read_mode(r, &modes->strings[i], &node->mode);
        if (err || node->mode == TD_ONNX_TREE_leaf)
            continue;
        err = check_feature(r, feature[i]);
        err = err ? err : look_up(r, names, f->n, tree[i], yes[i], &node->when_true);
        err = err ? err : look_up(r, names, f->n, tree[i], no[i], &node->when_false);
    }
    return err;
}

static int read_weights(struct td_onnx_reader *r, const TdOnnx__Node *from, const char *prefix,
                        struct td_onnx_forest *f, const struct name *names)
{
    const int64_t *tree, *number, *target;
    const float *value;
    int64_t n = -1, node = 0;
    int err = ints_of(r, from, prefix, "treeids", &n, &tree);
    err = err ? err : ints_of(r, from, prefix, "nodeids", &n, &number);
    err = err ? err : ints_of(r, from, prefix, "ids", &n, &target);
    err = err ? err : floats_of(r, from, prefix, "weights", n, &value);
    int64_t *of = err ? NULL : td_onnx_take(n, sizeof *of);
    if (!err && !of)
        err = td_onnx_no_memory(r);
    bool one = *prefix == 'c' && f->outputs == 2, negative = false;
    for (int64_t i = 0; i < n && !err; i++) {
        err = look_up(r, names, f->n, tree[i], number[i], &node);
        if (!err && (target[i] < 0 || target[i] >= f->outputs))
            err = td_onnx_wrong(r, "%sids: %lld is none of %lld", prefix, (long long)target[i],
                                (long long)f->outputs);
        of[i] = node;
        f->first[node + 1]++;
        one = one && target[i] == target[0];
        negative = negative || !(value[i] >= 0);
    }
    for (int64_t i = 0; i < f->n && !err; i++)
        f->first[i + 1] += f->first[i];
    for (int64_t i = n; i-- > 0 && !err;) { /* from each node's last one down */
        int64_t at = --f->first[of[i] + 1];
        f->weight[at] = (struct td_onnx_tree_weight){one ? 0 : target[i], (double)value[i]};
    }
    for (int64_t i = 0; i < f->n && !err; i++) /* each has come down to its own first */
        f->first[i] = f->first[i + 1];
    f->first[f->n] = n;
    td_onnx_give_back(of);
    f->one_score = !one ? 0 : negative ? 2 : 1;
    f->outputs = one ? 1 : f->outputs;
    return err;
}

/* Those that are no node's child. */
static int find_roots(struct td_onnx_reader *r, struct td_onnx_forest *f)
{
    char *child = td_onnx_take(f->n, sizeof *child);
    if (!child)
        return td_onnx_no_memory(r);
    for (int64_t i = 0; i < f->n; i++)
        if (f->node[i].mode != TD_ONNX_TREE_leaf)
            child[f->node[i].when_true] = child[f->node[i].when_false] = 1;
    for (int64_t i = 0; i < f->n; i++)
        if (!child[i])
            f->root[f->roots++] = i;
    td_onnx_give_back(child);
    return 0;
}

static int read_named_nodes(struct td_onnx_reader *r, const TdOnnx__Node *from,
                            struct td_onnx_forest *f)
{
    bool classifies = !strcmp(from->op_type, "TreeEnsembleClassifier");
    const char *prefix = classifies ? "class_" : "target_";
    const TdOnnx__Attribute *labels = find(from, "classlabels_", "int64s"),
                            *texts = find(from, "classlabels_", "strings"),
                            *targets = find(from, "", "n_targets"),
                            *weights = find(from, prefix, "weights");
    const int64_t *tree, *number;
    f->n = -1;
    f->outputs = !classifies ? (targets ? targets->i : 1)
                 : labels    ? (int64_t)labels->n_ints
                 : texts     ? (int64_t)texts->n_strings
                             : 0;
    if (f->outputs < 1 || f->outputs > INT32_MAX)
        return td_onnx_wrong(r, "has no classes, or no targets");
    int err = ints_of(r, from, "nodes_", "treeids", &f->n, &tree);
    err = err ? err : ints_of(r, from, "nodes_", "nodeids", &f->n, &number);
    err = err ? err : room_for(r, f, weights ? (int64_t)weights->n_floats : 0);
    struct name *names = err ? NULL : td_onnx_take(f->n, sizeof *names);
    if (!err && !names)
        err = td_onnx_no_memory(r);
    for (int64_t i = 0; i < f->n && !err; i++)
        names[i] = (struct name){tree[i], number[i], i};
    if (!err)
        qsort(names, (size_t)f->n, sizeof *names, compare);
    err = err ? err : read_nodes(r, from, f, names);
    err = err ? err : read_weights(r, from, prefix, f, names);
    err = err ? err : find_roots(r, f);
    td_onnx_give_back(names);
    return err;
}

/* ---- the fifth set ---- */

static bool flag_of(const TdOnnx__Attribute *a, int64_t i)
{
    return a && (size_t)i < a->n_ints && a->ints[i];
}

/* Inner nodes come first here, and leaves behind them. */
static int read_indexed(struct td_onnx_reader *r, const TdOnnx__Node *from,
                        struct td_onnx_forest *f, int64_t inner, int64_t leaves)
{
    const TdOnnx__Attribute *yes_leaf = find(from, "nodes_", "trueleafs"),
                            *no_leaf = find(from, "nodes_", "falseleafs"),
                            *missing = find(from, "nodes_", "missing_value_tracks_true");
    const int64_t *feature, *yes, *no, *target, *root;
    double *mode = NULL, *split = NULL, *weight = NULL;
    int64_t roots = -1;
    int err = ints_of(r, from, "nodes_", "featureids", &inner, &feature);
    err = err ? err : ints_of(r, from, "nodes_", "truenodeids", &inner, &yes);
    err = err ? err : ints_of(r, from, "nodes_", "falsenodeids", &inner, &no);
    err = err ? err : ints_of(r, from, "leaf_", "targetids", &leaves, &target);
    err = err ? err : ints_of(r, from, "", "tree_roots", &roots, &root);
    err = err ? err : tensor_of_numbers(r, from, "nodes_modes", inner, &mode);
    err = err ? err : tensor_of_numbers(r, from, "nodes_splits", inner, &split);
    err = err ? err : tensor_of_numbers(r, from, "leaf_weights", leaves, &weight);
    for (int64_t i = 0; i < inner && !err; i++) {
        int64_t t, n;
        td_size_plus(yes[i], flag_of(yes_leaf, i) ? inner : 0, &t);
        td_size_plus(no[i], flag_of(no_leaf, i) ? inner : 0, &n);
        if (yes[i] < 0 || no[i] < 0 || t >= f->n || n >= f->n)
            err = td_onnx_wrong(r, "node %lld has a child that there is not", (long long)i);
        else if (mode[i] > TD_ONNX_TREE_neq)
            err =
                td_onnx_wrong(r, "nodes_modes: sets of numbers (BRANCH_MEMBER) are not right here");
        else
            err = check_feature(r, feature[i]);
        f->node[i] = (struct td_onnx_tree_node){
            (enum td_onnx_tree_mode)(int)mode[i], flag_of(missing, i), feature[i], t, n, split[i]};
    }
    for (int64_t i = 0; i < leaves && !err; i++) {
        f->node[inner + i].mode = TD_ONNX_TREE_leaf;
        f->weight[i] = (struct td_onnx_tree_weight){target[i], weight[i]};
        if (target[i] < 0 || target[i] >= f->outputs)
            err = td_onnx_wrong(r, "leaf_targetids: %lld is none of %lld", (long long)target[i],
                                (long long)f->outputs);
    }
    for (int64_t i = 0; i <= leaves && !err; i++)
        f->first[inner + i] = i;
    for (int64_t i = 0; i < roots && !err; i++) {
        if (root[i] < 0 || root[i] >= inner || f->roots == f->n)
            err = td_onnx_wrong(r, "tree_roots: %lld is no node", (long long)root[i]);
        else
            f->root[f->roots++] = root[i];
    }
    td_onnx_give_back(mode);
    td_onnx_give_back(split);
    td_onnx_give_back(weight);
    return err;
}

int td_onnx_read_forest(struct td_onnx_reader *r, const TdOnnx__Node *from,
                        struct td_onnx_forest *f)
{
    *f = (struct td_onnx_forest){0};
    if (strcmp(from->op_type, "TreeEnsemble") != 0)
        return read_named_nodes(r, from, f);
    const TdOnnx__Attribute *features = find(from, "nodes_", "featureids"),
                            *leaves = find(from, "leaf_", "targetids"),
                            *targets = find(from, "", "n_targets");
    f->outputs = targets ? targets->i : 1;
    if (!features || !leaves || f->outputs < 1 || f->outputs > INT32_MAX)
        return td_onnx_wrong(r, "has no nodes, no leaves or no targets");
    f->n = (int64_t)features->n_ints + (int64_t)leaves->n_ints;
    int err = room_for(r, f, (int64_t)leaves->n_ints);
    return err ? err : read_indexed(r, from, f, (int64_t)features->n_ints, (int64_t)leaves->n_ints);
}
