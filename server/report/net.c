/* ONNX files, as far as the report's own networks need them: protobuf by hand, as it is a few
 * numbers before each piece, so that the program has no second library for writing it. The numbers
 * are the fields' of onnx.proto. */
#include "server/report/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define OPSET 20
#define IR_VERSION 9

enum { VARINT = 0, BYTES = 2, FIXED = 5 };

static void put(struct td_writer *w, const void *bytes, size_t n)
{
    char *room = td_write_room(w, n + 1);
    if (!room)
        return;
    memcpy(room, bytes, n);
    td_write_took(w, n);
}

static void put_varint(struct td_writer *w, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    do
        bytes[n++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
    while (value >>= 7);
    put(w, bytes, n);
}

static void put_int(struct td_writer *w, int field, int64_t value)
{
    put_varint(w, (uint64_t)field << 3 | VARINT);
    put_varint(w, (uint64_t)value);
}

static void put_bytes(struct td_writer *w, int field, const void *bytes, size_t n)
{
    put_varint(w, (uint64_t)field << 3 | BYTES);
    put_varint(w, n);
    put(w, bytes, n);
}

static void put_text(struct td_writer *w, int field, const char *text)
{
    put_bytes(w, field, text, strlen(text));
}

static void put_message(struct td_writer *w, int field, const struct td_writer *inner)
{
    put_bytes(w, field, inner->text, inner->length);
    w->failed |= inner->failed;
}

static int64_t type_of(enum td_dtype dtype)
{
    return dtype == TD_i64 ? 7 : 1; /* or FLOAT */
}

void td_netfile_begin(struct td_netfile *o, struct td_arena *arena)
{
    *o = (struct td_netfile){.arena = arena, .seed = 1};
    td_write_init(&o->graph, arena, 1 << 16);
    put_text(&o->graph, 2, "graph");
}

void td_netfile_port(struct td_netfile *o, int kind, const char *name, enum td_dtype dtype,
                     int rank, const int64_t *shape)
{
    struct td_writer port, type, tensor, dims, dim;
    td_write_init(&dims, o->arena, 64);
    for (int i = 0; i < rank; i++) {
        td_write_init(&dim, o->arena, 16);
        put_int(&dim, 1, shape[i]);
        put_message(&dims, 1, &dim);
    }
    td_write_init(&tensor, o->arena, 128);
    put_int(&tensor, 1, type_of(dtype));
    if (rank >= 0)
        put_message(&tensor, 2, &dims);
    td_write_init(&type, o->arena, 128);
    put_message(&type, 1, &tensor);
    td_write_init(&port, o->arena, 192);
    put_text(&port, 1, name);
    put_message(&port, 2, &type);
    put_message(&o->graph, kind, &port);
}

/* ---- constants ---- */

static void add_constant(struct td_netfile *o, char name[16], enum td_dtype dtype, int rank,
                         const int64_t *shape, const void *data, size_t bytes)
{
    struct td_writer tensor;
    snprintf(name, 16, "c%d", o->n_constants++);
    td_write_init(&tensor, o->arena, bytes + 128);
    for (int i = 0; i < rank; i++)
        put_int(&tensor, 1, shape[i]);
    put_int(&tensor, 2, type_of(dtype));
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, bytes);
    put_message(&o->graph, 5, &tensor);
}

/* From -1 to 1. */
static double draw(struct td_netfile *o)
{
    o->seed = o->seed * 1664525 + 1013904223;
    return (double)(o->seed >> 8) * 0x1p-23 - 1;
}

/* Of the numbers that one element of a product sums up. */
static double inputs_of(int rank, const int64_t *shape)
{
    double n = rank == 3 ? (double)shape[2] : rank == 2 ? (double)shape[0] : 1;
    for (int i = 1; i < rank && rank > 3; i++)
        n *= (double)shape[i];
    return n;
}

void td_netfile_weights(struct td_netfile *o, char name[16], int rank, const int64_t *shape,
                        bool positive)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)shape[i];
    double scale = rank < 2 ? 0.1 : sqrt(3 / inputs_of(rank, shape));
    float *data = td_arena_alloc(o->arena, n * sizeof *data + 1);
    if (!data) {
        o->graph.failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        data[i] = (float)(positive ? 1 + draw(o) / 2 : draw(o) * scale);
    add_constant(o, name, TD_f32, rank, shape, data, n * sizeof *data);
}

void td_netfile_number(struct td_netfile *o, char name[16], float value)
{
    add_constant(o, name, TD_f32, 0, NULL, &value, sizeof value);
}

void td_netfile_ints(struct td_netfile *o, char name[16], const int64_t *values, int n)
{
    const int64_t shape[] = {n};
    add_constant(o, name, TD_i64, 1, shape, values, (size_t)n * sizeof *values);
}

/* ---- nodes ---- */

void td_netfile_node(struct td_netfile *o, const char *op)
{
    td_write_init(&o->node, o->arena, 256);
    put_text(&o->node, 4, op);
}

void td_netfile_operand(struct td_netfile *o, const char *name)
{
    put_text(&o->node, 1, name);
}

void td_netfile_result(struct td_netfile *o, const char *name)
{
    put_text(&o->node, 2, name);
}

/* kind: of AttributeProto's types. */
static void open_attribute(struct td_netfile *o, struct td_writer *w, const char *name, int kind)
{
    td_write_init(w, o->arena, 128);
    put_text(w, 1, name);
    put_int(w, 20, kind);
}

void td_netfile_attribute_int(struct td_netfile *o, const char *name, int64_t value)
{
    struct td_writer w;
    open_attribute(o, &w, name, 2);
    put_int(&w, 3, value);
    put_message(&o->node, 5, &w);
}

void td_netfile_attribute_float(struct td_netfile *o, const char *name, float value)
{
    struct td_writer w;
    open_attribute(o, &w, name, 1);
    put_varint(&w, 2 << 3 | FIXED);
    put(&w, &value, sizeof value);
    put_message(&o->node, 5, &w);
}

void td_netfile_attribute_text(struct td_netfile *o, const char *name, const char *value)
{
    struct td_writer w;
    open_attribute(o, &w, name, 3);
    put_text(&w, 4, value);
    put_message(&o->node, 5, &w);
}

void td_netfile_attribute_ints(struct td_netfile *o, const char *name, const int64_t *values, int n)
{
    struct td_writer w;
    open_attribute(o, &w, name, 7);
    for (int i = 0; i < n; i++)
        put_int(&w, 8, values[i]);
    put_message(&o->node, 5, &w);
}

void td_netfile_node_end(struct td_netfile *o)
{
    put_message(&o->graph, 1, &o->node);
}

char *td_netfile_end(struct td_netfile *o, size_t *size)
{
    struct td_writer model, opset;
    td_write_init(&opset, o->arena, 32);
    put_text(&opset, 1, "");
    put_int(&opset, 2, OPSET);
    td_write_init(&model, o->arena, o->graph.length + 128);
    put_int(&model, 1, IR_VERSION);
    put_text(&model, 2, "tensord report");
    put_message(&model, 7, &o->graph);
    put_message(&model, 8, &opset);
    *size = model.length;
    return model.failed ? NULL : model.text;
}
