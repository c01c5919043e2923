/* dispatch/onnx/unpack.c beside protobuf-c's own reading of the same bytes: what it refuses is
 * refused, and what it reads is the same once it is written again. */
#include "dispatch/onnx/file.h"

#include "tests/run_tests.h"

#include <stdlib.h>
#include <string.h>

static TdOnnx__Tensor tensor = TD_ONNX__TENSOR__INIT, empty = TD_ONNX__TENSOR__INIT,
                      floats = TD_ONNX__TENSOR__INIT;
static TdOnnx__Attribute value = TD_ONNX__ATTRIBUTE__INIT, inner = TD_ONNX__ATTRIBUTE__INIT,
                         texts = TD_ONNX__ATTRIBUTE__INIT;
static TdOnnx__Node node = TD_ONNX__NODE__INIT, other = TD_ONNX__NODE__INIT;
static TdOnnx__Graph graph = TD_ONNX__GRAPH__INIT;
static TdOnnx__Model model = TD_ONNX__MODEL__INIT;

static ProtobufCBinaryData bytes_of(const char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)(uintptr_t)text};
}

/* A model with a bytes field in each place that has one; one is as long as what says where bytes
 * are. */
static uint8_t *written(size_t *size)
{
    static TdOnnx__Attribute *attributes[] = {&value, &inner, &texts};
    static TdOnnx__Node *nodes[] = {&node, &other};
    static TdOnnx__Tensor *tensors[] = {&tensor, &empty, &floats};
    static ProtobufCBinaryData strings[3];
    static float few[] = {1, 2}, more[] = {3, 4, 5, -0.0f, 1e-40f};
    static char raw[300];
    memset(raw, 7, sizeof raw);
    tensor.has_raw_data = empty.has_raw_data = true;
    tensor.raw_data = (ProtobufCBinaryData){sizeof raw, (uint8_t *)raw};
    tensor.name = "w";
    tensor.n_float_data = 2;
    tensor.float_data = few;
    floats.name = "v";
    floats.has_data_type = true;
    floats.data_type = 1;
    floats.n_float_data = sizeof more / sizeof *more;
    floats.float_data = more;
    value.name = "value";
    value.t = &tensor;
    inner.has_g = true;
    inner.g = bytes_of("a graph's bytes!");
    strings[0] = bytes_of("one");
    strings[2] = bytes_of("three, after an empty one");
    texts.n_strings = 3;
    texts.strings = strings;
    node.n_attribute = 3;
    node.attribute = attributes;
    node.op_type = "Constant";
    graph.n_node = 2;
    graph.node = nodes;
    graph.n_initializer = 3;
    graph.initializer = tensors;
    model.graph = &graph;
    *size = td_onnx__model__get_packed_size(&model);
    uint8_t *file = malloc(*size);
    ck_assert_ptr_nonnull(file);
    td_onnx__model__pack(&model, file);
    return file;
}

/* The elements of a FLOAT tensor are its raw data. */
static void make_raw(TdOnnx__Tensor *t)
{
    if (t->data_type != 1 || t->has_raw_data || !t->n_float_data)
        return;
    t->raw_data = (ProtobufCBinaryData){t->n_float_data * 4, (uint8_t *)t->float_data};
    t->has_raw_data = true;
    t->float_data = NULL;
    t->n_float_data = 0;
}

/* What nobody reads is not kept, which protobuf-c does. */
static void as_ours(ProtobufCMessage *message)
{
    if (message->descriptor == &td_onnx__tensor__descriptor)
        make_raw((TdOnnx__Tensor *)message);
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        free(message->unknown_fields[i].data);
    free(message->unknown_fields);
    message->n_unknown_fields = 0;
    message->unknown_fields = NULL;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *of = &message->descriptor->fields[i];
        char *at = (char *)message + of->offset;
        size_t n = 1;
        if (of->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if (of->label == PROTOBUF_C_LABEL_REPEATED) {
            n = *(size_t *)(void *)((char *)message + of->quantifier_offset);
            at = *(char **)(void *)at;
        }
        for (size_t k = 0; k < n; k++)
            if (((ProtobufCMessage **)(void *)at)[k])
                as_ours(((ProtobufCMessage **)(void *)at)[k]);
    }
}

static void compare(const uint8_t *file, size_t size)
{
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, file, size, &problem);
    size_t left = r.left;
    TdOnnx__Model *ours = td_onnx_unpack(&r, &td_onnx__model__descriptor, file, size);
    TdOnnx__Model *theirs = td_onnx__model__unpack(NULL, size, file);
    ck_assert_int_eq(ours != NULL, theirs != NULL);
    ck_assert_int_eq(ours != NULL, !*problem.text);
    if (ours) {
        as_ours(&theirs->base);
        as_ours(&ours->base);
        size_t n = td_onnx__model__get_packed_size(theirs);
        uint8_t *a = malloc(n + 1), *b = malloc(n + 1);
        ck_assert_uint_eq(td_onnx__model__get_packed_size(ours), n);
        td_onnx__model__pack(theirs, a);
        td_onnx__model__pack(ours, b);
        ck_assert_mem_eq(a, b, n);
        free(a);
        free(b);
        protobuf_c_message_free_unpacked(&ours->base, &r.memory);
        td_onnx__model__free_unpacked(theirs, NULL);
    }
    ck_assert_uint_eq(r.left, left); /* all has been given back */
}

/* Bytes fields are where they are in the file, and all else is as protobuf-c has it. */
START_TEST(test_same)
{
    size_t size;
    uint8_t *file = written(&size);
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, file, size, &problem);
    TdOnnx__Model *m = td_onnx_unpack(&r, &td_onnx__model__descriptor, file, size);
    ck_assert_ptr_nonnull(m);
    const size_t lengths[] = {300, 0, 20};
    for (int i = 0; i < 3; i++) {
        const ProtobufCBinaryData raw = m->graph->initializer[i]->raw_data;
        ck_assert_uint_eq(raw.len, lengths[i]);
        ck_assert(!raw.len || (raw.data > file && raw.data + raw.len <= file + size));
    }
    ck_assert_uint_eq(m->graph->initializer[2]->n_float_data, 0);
    protobuf_c_message_free_unpacked(&m->base, &r.memory);
    compare(file, size);
    free(file);
}
END_TEST

/* A file that ends anywhere, in memory that ends there, too. */
START_TEST(test_cut)
{
    size_t size;
    uint8_t *file = written(&size);
    for (size_t n = 0; n < size; n++) {
        uint8_t *part = malloc(n + !n);
        memcpy(part, file, n);
        compare(part, n);
        free(part);
    }
    free(file);
}
END_TEST

/* Each byte as each other one: other fields, wire types and lengths, unknown fields, fields twice.
 */
START_TEST(test_changed)
{
    size_t size;
    uint8_t *file = written(&size);
    for (size_t i = 0; i < size; i++) {
        uint8_t was = file[i];
        for (int c = 0; c < 256; c++) {
            file[i] = (uint8_t)c;
            compare(file, size);
        }
        file[i] = was;
    }
    free(file);
}
END_TEST

/* Without memory the reader says so, and nothing is left. */
START_TEST(test_no_room)
{
    size_t size;
    uint8_t *file = written(&size);
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, file, size, &problem);
    size_t least = 0;
    for (TdOnnx__Model *m = NULL; !m; least += 16) {
        td_onnx_reader_init(&r, NULL, file, size, &problem);
        r.left = least;
        m = td_onnx_unpack(&r, &td_onnx__model__descriptor, file, size);
        ck_assert_int_eq(m == NULL, r.exhausted);
        if (m)
            protobuf_c_message_free_unpacked(&m->base, &r.memory);
        ck_assert_uint_eq(r.left, least);
    }
    ck_assert_uint_gt(least, size);
    free(file);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_same, test_cut, test_changed, test_no_room};
    return td_run_tests("unpack", tests, sizeof tests / sizeof *tests);
}
