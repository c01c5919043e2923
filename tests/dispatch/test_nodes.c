/* Nodes of an ONNX file, one by one: which operands they are given under which names, and the
 * sentence where they are not. */
#include "dispatch/onnx/function.h"

#include "tests/dispatch/dispatch_test.h"

static struct td_model model;
static struct td_problem problem;
static struct td_onnx_reader r;
static struct td_onnx_name names[] = {
    {"a", 0, 0}, {"b", 1, 0}, {"c", 2, 0}, {"gone", TD_ONNX_LEFT_OUT, 0}, {"y", 3, 0}};
static const struct td_onnx_scope scope = {.n = sizeof names / sizeof *names, .name = names};
static struct td_node node;

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
    TdOnnx__Attribute *attribute[10];
    strcpy(text, inputs);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        input[from.n_input++] = *word == '.' ? "" : word;
    for (int i = 0; i < n; i++)
        attribute[i] = &attributes[i];
    from.op_type = (char *)(uintptr_t)op;
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

static const struct td_onnx_form *form_of(const char *op)
{
    const struct td_onnx_form *form = NULL;
    ck_assert_int_eq(td_onnx_form_of(&r, "", op, &form), 0);
    return form;
}

/* What a row says of its operands: names, marks, types, and what they are when left out (NUM-1). */
START_TEST(test_forms)
{
    begin();
    const struct td_onnx_form *f = form_of("LayerNormalization");
    ck_assert(f->n_inputs == 3 && f->n == 6 && !f->many);
    ck_assert_int_eq(f->operand[3].otherwise.kind, TD_KIND_int);
    ck_assert_int_eq(f->operand[3].otherwise.i, -1);
    ck_assert_int_eq(f->operand[4].otherwise.kind, TD_KIND_float);
    ck_assert_double_eq(f->operand[4].otherwise.f, 1e-5);
    ck_assert_int_eq(f->operand[0].otherwise.kind, TD_KIND_none);
    f = form_of("LeakyRelu");
    ck_assert_double_eq(f->operand[1].otherwise.f, 0.01);
    f = form_of("MeanVarianceNormalization");
    ck_assert_int_eq(f->operand[1].otherwise.kind, TD_KIND_ints);
    ck_assert_int_eq(f->operand[1].otherwise.ints.n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(f->operand[1].otherwise.ints.v[i], i ? i + 1 : 0);
    f = form_of("TopK");
    ck_assert(f->n_inputs == 2 && f->operand[4].mark == '?');
    ck_assert_str_eq(f->operand[4].name, "largest");
    ck_assert_int_eq(f->operand[4].otherwise.kind, TD_KIND_bool);
    ck_assert_int_eq(f->operand[4].otherwise.i, 1);
    f = form_of("Cast");
    ck_assert(f->n_inputs == 1 && f->operand[1].mark == '%');
    ck_assert_str_eq(f->operand[1].name, "to");
    ck_assert_str_eq(f->operand[3].otherwise.str, "up");
    f = form_of("BlackmanWindow");
    ck_assert_int_eq(f->operand[2].otherwise.kind, TD_KIND_dtype);
    ck_assert_int_eq(f->operand[2].otherwise.dtype, TD_f32);
    f = form_of("Where");
    ck_assert(f->n_inputs == 3 && f->n == 3);
    ck_assert(f->operand[0].type == 'B' && f->operand[1].type == 'T');
    ck_assert_str_eq(f->operand[0].name, "condition");
    f = form_of("Concat");
    ck_assert(f->n_inputs == 1 && f->many && f->operand[0].type == 'T');
    ck_assert_str_eq(f->operand[0].name, "inputs");
    end();
}
END_TEST

/* Each form is made once, and stays however many there are (NUM-1). */
START_TEST(test_many_forms)
{
    static const char *const ops[] = {
        "Relu", "Log",    "Mish", "Round",   "Selu",  "Where",     "Xor",     "BitShift", "Clip",
        "Div",  "Max",    "Mean", "Min",     "Cast",  "CastLike",  "Dropout", "Identity", "Softmax",
        "TopK", "Einsum", "Gemm", "EyeLike", "Range", "Concat",    "Expand",  "Flatten",  "Pad",
        "If",   "Loop",   "Scan", "Reshape", "Shape", "LeakyRelu", "BitCast", "IsInf",    "Resize"};
    const struct td_onnx_form *form[sizeof ops / sizeof *ops];
    begin();
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        form[i] = form_of(ops[i]);
        for (size_t k = 0; k <= i; k++)
            ck_assert_ptr_eq(form_of(ops[k]), form[k]);
        for (size_t k = 0; k < i; k++)
            ck_assert_ptr_ne(form[k], form[i]);
    }
    ck_assert_int_eq(r.n_forms, sizeof ops / sizeof *ops);
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
    ck_assert_ptr_null(constant(NULL));
    is_refused("a constant has no value");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_inputs, test_lists,      test_attributes, test_branches,
                                  test_forms,  test_many_forms, test_constants};
    return td_run_tests("nodes", tests, sizeof tests / sizeof *tests);
}
