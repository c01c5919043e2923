/* ONNX files made from a line of text a network: net.c writes the format, networks.c reads the
 * text. Internal to server/report. */
#ifndef TD_SERVER_REPORT_NET_H
#define TD_SERVER_REPORT_NET_H

#include "api/json/json.h"

#include <stdint.h>

struct td_netfile { /* a file on its way, in an arena */
    struct td_arena *arena;
    struct td_writer graph, node; /* bytes of protobuf */
    int n_constants;
    uint32_t seed; /* of weights */
};

void td_netfile_begin(struct td_netfile *o, struct td_arena *arena);
/* An input, or an output, whose shape is left open (rank < 0). */
enum { TD_NETFILE_INPUT = 11, TD_NETFILE_OUTPUT = 12 };
void td_netfile_port(struct td_netfile *o, int kind, const char *name, enum td_dtype dtype,
                     int rank, const int64_t *shape);
/* A constant under a name of its own, which is written there. Weights are drawn, the same in each
 * file, and about as large as keeps a network's values where they are; or, positive, between 0.5
 * and 1.5. */
void td_netfile_weights(struct td_netfile *o, char name[16], int rank, const int64_t *shape,
                        bool positive);
void td_netfile_number(struct td_netfile *o, char name[16], float value);
void td_netfile_ints(struct td_netfile *o, char name[16], const int64_t *values, int n);

/* A node: its operator, then operands ("": left out), results and attributes, and its end. */
void td_netfile_node(struct td_netfile *o, const char *op);
void td_netfile_operand(struct td_netfile *o, const char *name);
void td_netfile_result(struct td_netfile *o, const char *name);
void td_netfile_attribute_int(struct td_netfile *o, const char *name, int64_t value);
void td_netfile_attribute_float(struct td_netfile *o, const char *name, float value);
void td_netfile_attribute_text(struct td_netfile *o, const char *name, const char *value);
void td_netfile_attribute_ints(struct td_netfile *o, const char *name, const int64_t *values,
                               int n);
void td_netfile_node_end(struct td_netfile *o);

/* The file, in the arena; NULL: no memory. */
char *td_netfile_end(struct td_netfile *o, size_t *size);

struct td_network { /* that the program composes itself */
    const char *suite, *name;
    const char *inputs, *text; /* see networks.def */
};
extern const struct td_network td_networks[]; /* ended by one without name */
/* Its file, in the arena. NULL, with the place in the text, borrowed: that is not right, or (where
 * it is NULL) there is no memory. */
char *td_network_file(const struct td_network *network, struct td_arena *arena, size_t *size,
                      const char **wrong);

#endif
