/* Messages of a file without copies of their bytes fields. protobuf-c copies each of these, and
 * nearly all of a file are weights, which a model's constants copy once more. So protobuf-c is
 * given an outline: the same message, in which the payload of a bytes field that is not empty is a
 * ProtobufCBinaryData that says where in the file the bytes are, and which has no unknown fields.
 * Afterwards each bytes field of the message is made to point there. Some converters write weights
 * to float_data in place of raw_data. Where a FLOAT tensor has one such field, packed, and no
 * raw_data, it holds the same bytes, and the outline calls it raw_data.
 *
 * The wire format: https://protobuf.dev/programming-guides/encoding */
#include "dispatch/onnx/file.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define MOST_FIELD ((1u << 29) - 1) /* the highest number of a field; 0 is none */
#define WRONG SIZE_MAX
#define LENGTH_BYTES 5 /* of each length in an outline, which is written after its message */

enum wire { /* the three low bits of a field's tag */
            WIRE_varint = 0,
            WIRE_64_bits = 1,
            WIRE_length = 2,
            WIRE_32_bits = 5,
};

enum { /* the numbers of fields of AttributeProto and TensorProto, and of one of its data_types */
       ATTRIBUTE_t = 5,
       TENSOR_data_type = 2,
       TENSOR_float_data = 4,
       TENSOR_raw_data = 9,
       DATA_TYPE_float = 1,
};

struct field {
    const uint8_t *begin, *payload, *end; /* begin: of its tag */
    uint32_t number;
    enum wire wire;
};

/* ---- reading ---- */

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* False: what is at *at is no field of these wire types, or does not end before end. */
static bool read_field(const uint8_t **at, const uint8_t *end, struct field *f)
{
    uint64_t tag, size;
    f->begin = *at;
    if (!read_varint(at, end, &tag) || !(tag >> 3) || tag >> 3 > MOST_FIELD)
        return false;
    f->number = (uint32_t)(tag >> 3);
    f->wire = tag & 7;
    f->payload = *at;
    switch (f->wire) {
    case WIRE_varint:
        if (!read_varint(at, end, &size))
            return false;
        size = 0;
        break;
    case WIRE_64_bits:
        size = 8;
        break;
    case WIRE_32_bits:
        size = 4;
        break;
    case WIRE_length:
        if (!read_varint(at, end, &size))
            return false;
        f->payload = *at;
        break;
    default:
        return false;
    }
    if (size > (uint64_t)(end - *at))
        return false;
    *at += size;
    f->end = *at;
    return true;
}

/* ---- writing the outline ---- */

/* All these write to out unless it is NULL, and give back how many bytes that takes. */

static size_t write_bytes(uint8_t *out, const void *bytes, size_t n)
{
    if (out)
        memcpy(out, bytes, n);
    return n;
}

static size_t write_head(uint8_t *out, const struct field *f, size_t length)
{
    uint8_t head[10 + LENGTH_BYTES];
    size_t n = 0;
    for (uint64_t tag = (uint64_t)f->number << 3 | WIRE_length; n == 0 || tag; tag >>= 7)
        head[n++] = (uint8_t)((tag & 127) | (tag > 127 ? 128 : 0));
    for (int i = 0; i < LENGTH_BYTES; i++, length >>= 7)
        head[n++] = (uint8_t)((length & 127) | (i < LENGTH_BYTES - 1 ? 128 : 0));
    return write_bytes(out, head, n);
}

static size_t write_message(uint8_t *out, const ProtobufCMessageDescriptor *kind, const uint8_t *at,
                            size_t size, bool is_piece);

/* Where the field's payload is, as a bytes field. */
static size_t write_where(uint8_t *out, const struct field *f)
{
    const ProtobufCBinaryData where = {(size_t)(f->end - f->payload),
                                       (uint8_t *)(uintptr_t)f->payload};
    size_t head = write_head(out, f, sizeof where);
    return head + write_bytes(out ? out + head : NULL, &where, sizeof where);
}

static size_t write_field(uint8_t *out, const ProtobufCFieldDescriptor *of, const struct field *f,
                          bool in_pieces)
{
    size_t size = (size_t)(f->end - f->payload), head = write_head(NULL, f, 0), n;
    if (f->wire == WIRE_length && of->type == PROTOBUF_C_TYPE_BYTES && size)
        return write_where(out, f);
    if (f->wire != WIRE_length || of->type != PROTOBUF_C_TYPE_MESSAGE)
        return write_bytes(out, f->begin, (size_t)(f->end - f->begin));
    n = write_message(out ? out + head : NULL, of->descriptor, f->payload, size, in_pieces);
    if (n == WRONG || n > INT32_MAX) /* of more, protobuf-c reads no message */
        return WRONG;
    return write_head(out, f, n) + n;
}

/* Where a message is a FLOAT tensor that has no raw_data and all its elements in one packed
 * float_data field: that field's begin. */
static const uint8_t *raw_floats(const ProtobufCMessageDescriptor *kind, const uint8_t *at,
                                 const uint8_t *end)
{
    const uint8_t *floats = NULL;
    uint64_t dtype = 0;
    struct field f;
    if (kind != &td_onnx__tensor__descriptor || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__)
        return NULL;
    while (at < end) {
        if (!read_field(&at, end, &f) || f.number == TENSOR_raw_data ||
            (f.number == TENSOR_float_data &&
             (floats || f.wire != WIRE_length || (f.end - f.payload) % 4 || f.end == f.payload)))
            return NULL;
        if (f.number == TENSOR_data_type && f.wire == WIRE_varint &&
            !read_varint(&f.payload, f.end, &dtype))
            return NULL;
        if (f.number == TENSOR_float_data)
            floats = f.begin;
    }
    return dtype == DATA_TYPE_float ? floats : NULL;
}

/* Whether an attribute's tensor is given in several pieces, which protobuf-c merges: they are left
 * as they are. Other tensors are elements of lists. */
static bool has_pieces(const ProtobufCMessageDescriptor *kind, const uint8_t *at,
                       const uint8_t *end)
{
    int n = 0;
    struct field f;
    while (kind == &td_onnx__attribute__descriptor && at < end && read_field(&at, end, &f))
        n += f.number == ATTRIBUTE_t;
    return n > 1;
}

/* WRONG: it is no message. Messages contain each other no deeper than onnx.proto nests them. */
static size_t write_message(uint8_t *out, const ProtobufCMessageDescriptor *kind, const uint8_t *at,
                            size_t size, bool is_piece)
{
    const uint8_t *end = at + size, *floats = is_piece ? NULL : raw_floats(kind, at, end);
    const bool in_pieces = has_pieces(kind, at, end);
    size_t all = 0;
    struct field f;
    while (at < end) {
        if (!read_field(&at, end, &f))
            return WRONG;
        if (f.begin == floats)
            f.number = TENSOR_raw_data;
        const ProtobufCFieldDescriptor *of =
            protobuf_c_message_descriptor_get_field(kind, f.number);
        size_t n = of ? write_field(out ? out + all : NULL, of, &f, in_pieces) : 0;
        if (n == WRONG)
            return WRONG;
        all += n;
    }
    return all;
}

/* ---- the message ---- */

static void point_into_file(struct td_onnx_reader *r, ProtobufCBinaryData *bytes)
{
    ProtobufCBinaryData where;
    if (!bytes->len)
        return;
    assert(bytes->len == sizeof where);
    memcpy(&where, bytes->data, sizeof where);
    r->memory.free(r, bytes->data);
    *bytes = where;
}

/* Has all bytes fields of a message, and of those in it, point into the file. */
static void point_all(struct td_onnx_reader *r, ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *of = &message->descriptor->fields[i];
        char *member = (char *)message + of->offset;
        bool repeated = of->label == PROTOBUF_C_LABEL_REPEATED;
        size_t n = 1;
        if (repeated) {
            memcpy(&n, (char *)message + of->quantifier_offset, sizeof n);
            memcpy(&member, member, sizeof member);
        }
        for (size_t k = 0; k < n && of->type == PROTOBUF_C_TYPE_BYTES; k++)
            point_into_file(r, (ProtobufCBinaryData *)(void *)member + k);
        for (size_t k = 0; k < n && of->type == PROTOBUF_C_TYPE_MESSAGE; k++) {
            ProtobufCMessage *inner = ((ProtobufCMessage **)(void *)member)[k];
            if (inner)
                point_all(r, inner);
        }
    }
}

void *td_onnx_unpack(struct td_onnx_reader *r, const ProtobufCMessageDescriptor *kind,
                     const void *bytes, size_t size)
{
    static const uint8_t nothing[1];
    bytes = bytes ? bytes : nothing;
    ProtobufCMessage *message = NULL;
    size_t n = write_message(NULL, kind, bytes, size, false);
    uint8_t *outline = n == WRONG ? NULL : r->memory.alloc(r, n + 1);
    if (outline) {
        write_message(outline, kind, bytes, size, false);
        message = protobuf_c_message_unpack(kind, &r->memory, n, outline);
        r->memory.free(r, outline);
    }
    if (message)
        point_all(r, message);
    else if (r->exhausted)
        td_problem_set(r->problem, ENOMEM, "no memory for the file's messages");
    else
        td_onnx_wrong(r, "the file is neither an ONNX model nor another that is known: its bytes "
                         "are no message");
    return message;
}
