/* Nodes of an ONNX file, one by one: which operands they are given under which names, and the
 * sentence where they are not. */
#include "dispatch/onnx/function.h"

#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

static struct td_model model;
static struct td_problem problem;
static struct td_onnx_reader r;
static struct td_onnx_name names[] = {
    {"a", 0, 0}, {"b", 1, 0}, {"c", 2, 0}, {"gone", TD_ONNX_LEFT_OUT, 0}, {"y", 3, 0}};
static const struct td_onnx_scope scope = {.n = sizeof names / sizeof *names, .name = names};
static struct td_node node;
static const char *domain;

static void begin(void)
{
    model = (struct td_model){.arena = td_arena_create(), .n_values = 4};
    td_onnx_reader_init(&r, &model, NULL, 0, &problem);
    r.version = 17;
    r.imported = true;
}

static void end(void)
{
    td_arena_destroy(model.arena);
}

static TdOnnx__Attribute number_of(const char *name, int64_t i)
{
    TdOnnx__Attribute a = TD_ONNX__ATTRIBUTE__INIT;
    a.name = (char *)(uintptr_t)name;
    a.has_i = true;
    a.i = i;
    return a;
}

/* Which inner graph this is stands in its first byte: the types of its results. */
static int read_graph(struct td_onnx_reader *reader, const ProtobufCBinaryData *bytes,
                      const struct td_onnx_scope *outer, struct td_node_graph **graph)
{
    static struct td_node_graph empty;
    static const unsigned char types[][2] = {{1, 7}, {1, 6}, {0, 0}};
    ck_assert_ptr_eq(outer, &scope);
    *graph = &empty;
    reader->given = bytes->data[0] == '?' ? NULL : types[bytes->data[0] - '0'];
    reader->n_given = 2;
    return 0;
}

/* A node with those inputs, which blanks separate, and "." for none, and attributes. */
static int read_node(const char *op, const char *inputs, int n, TdOnnx__Attribute *attributes)
{
    static char text[200], *input[20], *outputs[] = {"y", ""};
    TdOnnx__Node from = TD_ONNX__NODE__INIT;
    TdOnnx__Attribute *attribute[16];
    strcpy(text, inputs);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        input[from.n_input++] = *word == '.' ? "" : word;
    for (int i = 0; i < n; i++)
        attribute[i] = &attributes[i];
    from.op_type = (char *)(uintptr_t)op;
    from.domain = (char *)(uintptr_t)domain;
    from.input = input;
    from.n_output = 2;
    from.output = outputs;
    from.n_attribute = (size_t)n;
    from.attribute = attribute;
    node = (struct td_node){0};
    *problem.text = 0;
    return td_onnx_node(&r, &from, &scope, &node, read_graph);
}

static void is_refused(const char *sentence)
{
    ck_assert_msg(strstr(problem.text, sentence), "%s", problem.text);
}

static void is_operand(int i, const char *name, enum td_operand_kind kind, int value)
{
    ck_assert_int_lt(i, node.n_operands);
    ck_assert_str_eq(node.operand[i].name, name);
    ck_assert_int_eq(node.operand[i].kind, kind);
    ck_assert_int_eq(node.operand[i].value, value);
}

/* Inputs have the row's names in its order, and those that are left out none of a kind; attributes
 * come behind them (NUM-1). */
START_TEST(test_inputs)
{
    TdOnnx__Attribute attributes[] = {number_of("axis", 5), number_of("stash_type", 6),
                                      number_of("epsilon", 7)};
    begin();
    ck_assert_int_eq(read_node("LayerNormalization", "a b c", 3, attributes), 0);
    ck_assert_int_eq(node.n_operands, 6);
    is_operand(0, "X", TD_OPERAND_value, 0);
    is_operand(1, "Scale", TD_OPERAND_value, 1);
    is_operand(2, "B", TD_OPERAND_value, 2);
    is_operand(3, "axis", TD_OPERAND_constant, 0);
    is_operand(4, "stash_type", TD_OPERAND_constant, 0);
    is_operand(5, "epsilon", TD_OPERAND_constant, 0);
    for (int i = 3; i < 6; i++) {
        ck_assert_int_eq(node.operand[i].constant.kind, TD_KIND_int);
        ck_assert_int_eq(node.operand[i].constant.i, i + 2);
        ck_assert(!node.operand[i].list && !node.operand[i].n && !node.operand[i].graph);
    }
    ck_assert_int_eq(node.n_outs, 2);
    ck_assert(node.out[0] == 3 && node.out[1] == -1);
    ck_assert_str_eq(node.name, "y");
    ck_assert_int_eq(node.version, 17);
    ck_assert_int_eq(read_node("LayerNormalization", ". gone c", 0, NULL), 0);
    is_operand(0, "X", TD_OPERAND_none, 0);
    is_operand(1, "Scale", TD_OPERAND_none, 0);
    is_operand(2, "B", TD_OPERAND_value, 2);
    ck_assert_int_eq(read_node("LayerNormalization", "a b c a", 0, NULL), -EINVAL);
    is_refused("node 'y' (LayerNormalization): has 4 inputs; at most 3 are right");
    ck_assert_int_eq(read_node("LayerNormalization", "a d", 0, NULL), -EINVAL);
    is_refused("reads 'd', which nothing makes");
    end();
}
END_TEST

/* The last input of some is any number of them, which are a list (NUM-1). */
START_TEST(test_lists)
{
    TdOnnx__Attribute axis = number_of("axis", 0), bodies[1] = {number_of("body", 0)};
    begin();
    ck_assert_int_eq(read_node("Concat", "a b gone c", 1, &axis), 0);
    ck_assert_int_eq(node.n_operands, 2);
    is_operand(0, "inputs", TD_OPERAND_list, 0);
    is_operand(1, "axis", TD_OPERAND_constant, 0);
    ck_assert_int_eq(node.operand[0].n, 4);
    static const int values[] = {0, 1, 0, 2};
    for (int i = 0; i < 4; i++) {
        const struct td_node_operand *o = &node.operand[0].list[i];
        ck_assert_int_eq(o->kind, i == 2 ? TD_OPERAND_none : TD_OPERAND_value);
        ck_assert_int_eq(o->value, values[i]);
    }
    ck_assert_int_eq(read_node("Concat", "", 1, &axis), 0);
    is_operand(0, "axis", TD_OPERAND_constant, 0);
    ck_assert_int_eq(read_node("Concat", "a d", 0, NULL), -EINVAL);
    is_refused("reads 'd', which nothing makes");
    ck_assert_int_eq(read_node("Loop", "a b c a", 1, bodies), 0);
    is_operand(1, "cond", TD_OPERAND_value, 1);
    is_operand(2, "v_initial", TD_OPERAND_list, 0);
    is_operand(3, "body", TD_OPERAND_constant, 0);
    ck_assert_int_eq(node.operand[2].n, 2);
    ck_assert_int_eq(node.operand[2].list[0].value, 2);
    ck_assert_int_eq(node.operand[2].list[1].value, 0);
    end();
}
END_TEST

/* An attribute is given once, and is one of the row's, but for those that mean nothing (NUM-1). */
START_TEST(test_attributes)
{
    static const char *const idle[] = {"consumed_inputs", "broadcast", "doc_string"};
    TdOnnx__Attribute twice[] = {number_of("axis", 1), number_of("stash_type", 1),
                                 number_of("axis", 1)};
    TdOnnx__Attribute unknown = number_of("axes", 1), input = number_of("Scale", 1);
    begin();
    ck_assert_int_eq(read_node("LayerNormalization", "a b", 2, twice), 0);
    ck_assert_int_eq(node.n_operands, 4);
    ck_assert_int_eq(read_node("LayerNormalization", "a b", 3, twice), -EINVAL);
    is_refused("'axis' is given twice");
    ck_assert_int_eq(read_node("LayerNormalization", "a b", 1, &input), -EINVAL);
    is_refused("'Scale' is given twice");
    ck_assert_int_eq(read_node("LayerNormalization", "a b", 1, &unknown), -EINVAL);
    is_refused("there is no attribute 'axes' here");
    for (int i = 0; i < 3; i++) {
        TdOnnx__Attribute nothing = number_of(idle[i], 1);
        ck_assert_int_eq(read_node("LayerNormalization", "a b", 1, &nothing), 0);
        ck_assert_int_eq(node.n_operands, 2);
    }
    TdOnnx__Node call = TD_ONNX__NODE__INIT; /* of a function, which does not say it either */
    TdOnnx__Function function = TD_ONNX__FUNCTION__INIT;
    const struct td_onnx_inlined inlined = {.node = &call, .function = &function};
    r.inlined = &inlined;
    twice[0].ref_attr_name = "said_by_the_call";
    ck_assert_int_eq(read_node("LayerNormalization", "a b", 1, twice), 0);
    ck_assert_int_eq(node.n_operands, 2);
    end();
}
END_TEST

/* Both branches of an If give results of the same types, as far as the file says them (NUM-1). */
START_TEST(test_branches)
{
    static const char *const pairs[] = {"00", "11", "02", "21", "0?", "?1"};
    TdOnnx__Attribute branches[] = {TD_ONNX__ATTRIBUTE__INIT, TD_ONNX__ATTRIBUTE__INIT};
    branches[0].name = "then_branch";
    branches[1].name = "else_branch";
    begin();
    for (int i = 0; i < 8; i++) {
        const char *of = i < 6 ? pairs[i] : i < 7 ? "01" : "10";
        for (int k = 0; k < 2; k++) {
            branches[k].has_g = true;
            branches[k].g = (ProtobufCBinaryData){1, (uint8_t *)(uintptr_t)of + k};
        }
        ck_assert_msg(read_node("If", "a", 2, branches) == (i < 6 ? 0 : -EINVAL), "%s", of);
        if (i < 6)
            is_operand(1, "then_branch", TD_OPERAND_graph, 0);
        else
            is_refused(i < 7 ? "its branches give INT64 and INT32 as output 1; one type is right"
                             : "its branches give INT32 and INT64 as output 1; one type is right");
    }
    end();
}
END_TEST

/* Operators are of a domain, which the file has to import where it is ONNX's own (NUM-1). */
START_TEST(test_domains)
{
    static const struct {
        const char *domain, *op, *sentence; /* NULL: it is right */
    } cases[] = {
        {NULL, "Relu", NULL},
        {"", "Relu", NULL},
        {"ai.onnx", "Relu", NULL},
        {"com.microsoft", "Relu", "there is no such operator of domain 'com.microsoft' here"},
        {"com.microsoft.nchwc", "Relu", "is laid out for one kind of CPU"},
        {"", "Relus", "there is no such operator here"},
        {"", "StringNormalizer", "is right only behind an input of texts"},
        {"", "Tokenizer", "there is no such operator here"},
        {"com.microsoft", "Tokenizer", "is right only behind an input of texts"},
        {"com.microsoft", "StringNormalizer", "there is no such operator of domain"},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        domain = cases[i].domain;
        int err = read_node(cases[i].op, "a", 0, NULL);
        ck_assert_msg(err == (cases[i].sentence ? -EINVAL : 0), "case %zu", i);
        if (err)
            is_refused(cases[i].sentence);
    }
    r.imported = false;
    domain = "";
    ck_assert_int_eq(read_node("Relu", "a", 0, NULL), -EINVAL);
    is_refused("is ONNX's own, of which the file says no operator set");
    end();
}
END_TEST

/* A tree of a root and two leaves: its tables are operands, and what was taken for them is given
 * back (NUM-1). */
START_TEST(test_trees)
{
    static struct {
        const char *name;
        int64_t ints[3];
        size_t n;
    } lists[] = {{"nodes_treeids", {0, 0, 0}, 3},      {"nodes_nodeids", {0, 1, 2}, 3},
                 {"nodes_featureids", {0, 0, 0}, 3},   {"nodes_truenodeids", {1, 0, 0}, 3},
                 {"nodes_falsenodeids", {2, 0, 0}, 3}, {"target_treeids", {0, 0}, 2},
                 {"target_nodeids", {1, 2}, 2},        {"target_ids", {0, 0}, 2}};
    static const char *const operands[] = {"X",         "n_targets", "thresholds", "outputs",
                                           "one_score", "links",     "trees",      "values"};
    static float numbers[] = {0.5f, 1, 2};
    ProtobufCBinaryData modes[] = {
        {10, (uint8_t *)"BRANCH_LEQ"}, {4, (uint8_t *)"LEAF"}, {4, (uint8_t *)"LEAF"}};
    TdOnnx__Attribute a[12];
    for (int i = 0; i < 12; i++)
        a[i] = (TdOnnx__Attribute)TD_ONNX__ATTRIBUTE__INIT;
    for (int i = 0; i < 8; i++) {
        a[i].name = (char *)(uintptr_t)lists[i].name;
        a[i].n_ints = lists[i].n;
        a[i].ints = lists[i].ints;
    }
    a[8] = number_of("n_targets", 1);
    a[9].name = "nodes_values";
    a[10].name = "target_weights";
    a[9].floats = numbers;
    a[10].floats = &numbers[1];
    a[9].n_floats = 3;
    a[10].n_floats = 2;
    a[11].name = "nodes_modes";
    a[11].strings = modes;
    a[11].n_strings = 3;
    begin();
    domain = "ai.onnx.ml";
    size_t used = td_memory.used;
    ck_assert_msg(!read_node("TreeEnsembleRegressor", "a", 12, a), "%s", problem.text);
    ck_assert_uint_eq(td_memory.used, used);
    ck_assert_int_eq(node.n_operands, 8);
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(node.operand[i].name, operands[i]);
    ck_assert_int_eq(read_node("TreeEnsembleRegressor", "a", 11, a), -EINVAL);
    is_refused("nodes_modes");
    ck_assert_uint_eq(td_memory.used, used);
    end();
}
END_TEST

/* The number that a Constant of that attribute is. */
static const struct td_tensor *constant(TdOnnx__Attribute *a)
{
    TdOnnx__Node from = TD_ONNX__NODE__INIT;
    from.n_attribute = a != NULL;
    from.attribute = &a;
    from.op_type = "Constant";
    from.name = "it";
    *problem.text = 0;
    int n = model.n_constants, err = td_onnx_constant_node(&r, &from, 3);
    ck_assert_int_eq(err, *problem.text ? -EINVAL : 0);
    ck_assert_int_eq(model.n_constants, err ? n : n + 1);
    return err ? NULL : &model.constant[n].tensor;
}

static void is_tensor(const struct td_tensor *t, enum td_dtype dtype, int rank, int64_t n)
{
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_int_eq(t->rank, rank);
    ck_assert_int_eq(td_numel(t), n);
}

/* What a Constant's attribute makes of it (NUM-1). */
START_TEST(test_constants)
{
    static int64_t wholes[] = {5, -6};
    static float reals[] = {0.5f, 1.5f, 2.5f};
    TdOnnx__Attribute a = number_of("value_int", -7);
    begin();
    const struct td_tensor *t = constant(&a);
    is_tensor(t, TD_i64, 0, 1);
    ck_assert_int_eq(*(const int64_t *)t->data, -7);
    a = number_of("value_float", 0);
    a.f = 2.5f;
    t = constant(&a);
    is_tensor(t, TD_f32, 0, 1);
    ck_assert_float_eq(*(const float *)t->data, 2.5f);
    a = number_of("value_ints", 0);
    a.n_ints = 2;
    a.ints = wholes;
    t = constant(&a);
    is_tensor(t, TD_i64, 1, 2);
    ck_assert_mem_eq(t->data, wholes, sizeof wholes);
    a = number_of("value_floats", 0);
    a.n_floats = 3;
    a.floats = reals;
    t = constant(&a);
    is_tensor(t, TD_f32, 1, 3);
    ck_assert_mem_eq(t->data, reals, sizeof reals);
    a = number_of("value_string", 0);
    ck_assert_ptr_null(constant(&a));
    is_refused("node 'it' (Constant): a constant of kind 'value_string' is none of numbers");
    a = number_of("value", 0); /* without its tensor */
    ck_assert_ptr_null(constant(&a));
    TdOnnx__Tensor tensor = TD_ONNX__TENSOR__INIT;
    int64_t three = 3;
    tensor.has_data_type = true;
    tensor.data_type = 1;
    tensor.n_dims = 1;
    tensor.dims = &three;
    tensor.n_float_data = 3;
    tensor.float_data = r.memory.alloc(&r, sizeof reals); /* which it gives back */
    ck_assert_ptr_nonnull(tensor.float_data);
    memcpy(tensor.float_data, reals, sizeof reals);
    a.t = &tensor;
    t = constant(&a);
    is_tensor(t, TD_f32, 1, 3);
    ck_assert_mem_eq(t->data, reals, sizeof reals);
    ck_assert_ptr_null(constant(NULL));
    is_refused("a constant has no value");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_inputs,  test_lists, test_attributes, test_branches,
                                  test_domains, test_trees, test_constants};
    return td_run_tests("nodes", tests, sizeof tests / sizeof *tests);
}
