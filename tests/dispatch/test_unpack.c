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
    inner.t = &floats;
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

static void compare_as(const ProtobufCMessageDescriptor *kind, const uint8_t *file, size_t size)
{
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, file, size, &problem);
    size_t left = r.left;
    ProtobufCMessage *ours = td_onnx_unpack(&r, kind, file, size);
    ProtobufCMessage *theirs = protobuf_c_message_unpack(kind, NULL, size, file);
    ck_assert_int_eq(ours != NULL, theirs != NULL);
    ck_assert_int_eq(ours != NULL, !*problem.text);
    ck_assert(ours || strstr(problem.text, "its bytes are no message"));
    if (ours) {
        as_ours(theirs);
        as_ours(ours);
        size_t n = protobuf_c_message_get_packed_size(theirs);
        uint8_t *a = malloc(n + 1), *b = malloc(n + 1);
        ck_assert_uint_eq(protobuf_c_message_get_packed_size(ours), n);
        protobuf_c_message_pack(theirs, a);
        protobuf_c_message_pack(ours, b);
        ck_assert_mem_eq(a, b, n);
        free(a);
        free(b);
        protobuf_c_message_free_unpacked(ours, &r.memory);
        protobuf_c_message_free_unpacked(theirs, NULL);
    }
    ck_assert_uint_eq(r.left, left); /* all has been given back */
}

static void compare(const uint8_t *file, size_t size)
{
    compare_as(&td_onnx__model__descriptor, file, size);
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

/* Without memory the reader says so, and nothing is left (NUM-1). */
START_TEST(test_no_room)
{
    size_t size;
    uint8_t *file = written(&size);
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, file, size, &problem);
    size_t least = 0;
    for (bool done = false; !done; least += 16) {
        td_onnx_reader_init(&r, NULL, file, size, &problem);
        r.left = least;
        TdOnnx__Model *m = td_onnx_unpack(&r, &td_onnx__model__descriptor, file, size);
        done = m;
        ck_assert_int_eq(m == NULL, r.exhausted);
        ck_assert(m || strstr(problem.text, "no memory for the file's messages"));
        if (m)
            protobuf_c_message_free_unpacked(&m->base, &r.memory);
        ck_assert_uint_eq(r.left, least);
    }
    ck_assert_uint_gt(least, size);
    free(file);
}
END_TEST

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

/* Tensors byte by byte: which of them have their elements read where they lie (NUM-1). */
START_TEST(test_tensors)
{
    static const struct {
        const uint8_t *bytes;
        size_t size;
        int raw, listed; /* bytes of raw_data, elements of float_data; -1: it is no tensor */
    } cases[] = {
        {BYTES("\x10\1\x22\4abcd"), 4, 0},            /* FLOAT, and a packed field */
        {BYTES("\x22\10abcdefgh\x10\1"), 8, 0},       /* in the other order */
        {BYTES("\x10\1\x22\4abcd\x22\4efgh"), 0, 2},  /* two packed fields */
        {BYTES("\x10\1\x25wxyz"), 0, 1},              /* an element by itself */
        {BYTES("\x10\1\x22\4abcd\x25wxyz"), 0, 2},    /* and one behind a packed field */
        {BYTES("\x10\1\x22\0"), 0, 0},                /* a field of no elements */
        {BYTES("\x10\1\x22\0\x22\4abcd"), 0, 1},      /* and one of some behind it */
        {BYTES("\x10\1\x22\6abcdef"), -1, 0},         /* an element and a half */
        {BYTES("\x10\1\x4a\5vwxyz\x22\4abcd"), 5, 1}, /* raw data as well */
        {BYTES("\x10\1\x22\4abcd\x4a\5vwxyz"), 5, 1},
        {BYTES("\x22\4abcd"), 0, 1}, /* of no type */
        {BYTES("\x10\0\x22\4abcd"), 0, 1},
        {BYTES("\x10\13\x22\4abcd"), 0, 1},       /* DOUBLE, */
        {BYTES("\x10\13\x22\4abcd\x10\1"), 4, 0}, /* or not: the last one tells */
        {BYTES("\x10\1\x22\4abcd\x10\13"), 0, 1},
        {BYTES("\x12\1\1\x22\4abcd"), -1, 0}, /* the type as a text */
        {BYTES("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\x22\4abcd"), 0, 1}, /* -1 */
        {BYTES("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"), -1, 0},
        {BYTES("\xf8\xff\xff\xff\xf\0\x10\1\x22\4abcd"), 4, 0}, /* the last number of a field */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint8_t *bytes = cases[i].bytes;
        size_t size = cases[i].size;
        struct td_problem problem = {0};
        struct td_onnx_reader r;
        compare_as(&td_onnx__tensor__descriptor, bytes, size);
        td_onnx_reader_init(&r, NULL, bytes, size, &problem);
        TdOnnx__Tensor *t = td_onnx_unpack(&r, &td_onnx__tensor__descriptor, bytes, size);
        ck_assert_msg((t != NULL) == (cases[i].raw >= 0), "case %zu", i);
        if (!t)
            continue;
        ck_assert_msg(t->raw_data.len == (size_t)cases[i].raw, "case %zu", i);
        ck_assert_msg(t->n_float_data == (size_t)cases[i].listed, "case %zu", i);
        ck_assert(!t->raw_data.len ||
                  (t->raw_data.data > bytes && t->raw_data.data < bytes + size));
        protobuf_c_message_free_unpacked(&t->base, &r.memory);
    }
}
END_TEST

/* What would be a tensor's elements, in a message of another kind; and a field's number beyond the
 * last one, of which a 32-bit tag would have nothing left (NUM-1). */
START_TEST(test_numbers)
{
    compare_as(&td_onnx__type__descriptor, BYTES("\x10\1\x22\4abcd"));
    static const uint8_t beyond[] = "\x80\x80\x80\x80\x10\0";
    struct td_problem problem = {0};
    struct td_onnx_reader r;
    td_onnx_reader_init(&r, NULL, beyond, sizeof beyond - 1, &problem);
    ck_assert_ptr_null(td_onnx_unpack(&r, &td_onnx__tensor__descriptor, beyond, sizeof beyond - 1));
}
END_TEST

/* An attribute's tensor in two pieces, which are merged: raw data and a list, a list and another
 * type, two lists (NUM-1). */
START_TEST(test_pieces)
{
    const ProtobufCMessageDescriptor *kind = &td_onnx__attribute__descriptor;
    compare_as(kind, BYTES("*\12\10\1\20\1\112\4abcd*\10\20\1\42\4efgh"));
    compare_as(kind, BYTES("*\12\10\1\20\1\42\4abcd*\2\20\6"));
    compare_as(kind, BYTES("*\12\10\2\20\1\42\4abcd*\6\42\4efgh"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_same,    test_cut,     test_changed, test_no_room,
                                  test_tensors, test_numbers, test_pieces};
    return td_run_tests("unpack", tests, sizeof tests / sizeof *tests);
}
