/* What the files that read an ONNX file share. Internal to dispatch/onnx/. */
#ifndef TD_DISPATCH_ONNX_FILE_H
#define TD_DISPATCH_ONNX_FILE_H

#include "dispatch/onnx.pb-c.h" /* generated */
#include "dispatch/onnx/ops/onnx.h"

#define TD_ONNX_STRING 8 /* ONNX's number of the type */

struct td_onnx_scope { /* the names of a graph's values, in their order */
    int n;
    struct td_onnx_name {
        const char *text; /* borrowed of the message */
        int value;
        int kind; /* what it names: initializers before the inputs that they are defaults of */
    } * name;
    const struct td_onnx_scope *outer; /* of the graph around it, or NULL */
};

struct td_onnx_inlined { /* a call of one of the model's functions, whose nodes are being read */
    const TdOnnx__Node *node;
    const TdOnnx__Function *function;
    const struct td_onnx_inlined *outer; /* the call that it stands in, or NULL */
    int depth;
};

struct td_onnx_reader {
    struct td_model *model;
    struct td_problem *problem;
    const void *bytes;         /* the file, which bytes fields of messages point into, */
    size_t size;               /* and how many bytes it has */
    ProtobufCAllocator memory; /* bounded: a file's structures may not take more than its share */
    size_t left;
    bool exhausted;
    int version;   /* of the operator set */
    bool imported; /* and the file says it; else no node may be of that */
    int depth;
    int n_given;                /* outputs of the inner graph that was read last, */
    const unsigned char *given; /* and their types as the file says them; 0: it does not */
    const TdOnnx__Model *file;  /* whose functions may be called */
    const struct td_onnx_inlined *inlined; /* the call that is being read, or NULL */
    size_t inlined_nodes;                  /* that calls have become */
    int n_forms, forms_room;
    int texts_room; /* of text: by value, an enum td_onnx_text */
    unsigned char *text;
    struct td_onnx_cut {  /* of each input of the file's graph */
        const char *name; /* the input's own, where its nodes became a tokenizer: in the graph it
                             has the name of what these nodes made */
        const struct td_tokenizer *how; /* NULL: it has none */
    } * cut;
    struct td_onnx_form **form;
};

/* ---- file.c ---- */

/* file: borrowed, as long as its messages. */
void td_onnx_reader_init(struct td_onnx_reader *r, struct td_model *model, const void *file,
                         size_t size, struct td_problem *problem);
/* A text of a message, which may have none. */
static inline const char *td_onnx_or_empty(const char *text)
{
    return text ? text : "";
}
/* Whether a domain is ONNX's own. */
bool td_onnx_is_own(const char *domain);
/* Writes a sentence, gives back -EINVAL. */
#define td_onnx_wrong(r, ...) td_problem_set((r)->problem, EINVAL, __VA_ARGS__)
int td_onnx_no_memory(struct td_onnx_reader *r);
/* The type and shape of a tensor, of texts that of their numbers; name: its own. -EINVAL. */
int td_onnx_shape_of(struct td_onnx_reader *r, const TdOnnx__Tensor *from, const char *name,
                     struct td_tensor *t);
/* Gives a value to a constant, which is none of texts, and the message's bytes back. -EINVAL,
 * -ENOMEM. */
int td_onnx_constant(struct td_onnx_reader *r, int value, TdOnnx__Tensor *tensor);

/* ---- unpack.c ---- */

/* The message that these bytes of the file are, to be freed with the reader's memory. Its bytes
 * fields point into the file: they are read only, and of any alignment. NULL with the sentence. */
void *td_onnx_unpack(struct td_onnx_reader *r, const ProtobufCMessageDescriptor *kind,
                     const void *bytes, size_t size);

/* ---- texts.c ---- */

enum td_onnx_text { /* whether a value's numbers are those of texts */
                    TD_ONNX_TEXT_none,
                    TD_ONNX_TEXT_own,  /* of the file's */
                    TD_ONNX_TEXT_sent, /* of the caller's, which may be unknown */
};
enum td_onnx_text td_onnx_text_of(const struct td_onnx_reader *r, int value);
int td_onnx_set_text(struct td_onnx_reader *r, int value, enum td_onnx_text is); /* -ENOMEM */
/* As td_onnx_constant, also of texts. */
int td_onnx_tensor_value(struct td_onnx_reader *r, int value, TdOnnx__Tensor *tensor);
/* What a node makes of texts. -EINVAL: it can do nothing with them; -ENOMEM. */
int td_onnx_follow_texts(struct td_onnx_reader *r, const char *domain, const TdOnnx__Node *node,
                         const struct td_onnx_scope *scope);
/* Says of a result's port whether it is of texts; said: the file says so. -EINVAL. */
int td_onnx_check_text(struct td_onnx_reader *r, struct td_model_port *port, int value, bool said);
/* The attribute of numbers that one of texts is here; NULL: none. */
const char *td_onnx_text_name(const struct td_onnx_row *row, const char *name);
/* The numbers of n texts. -ENOMEM. */
int td_onnx_words(struct td_onnx_reader *r, const ProtobufCBinaryData *text, size_t n,
                  int64_t *word);

/* ---- tokens.c ---- */

/* Makes tokenizers of the nodes behind inputs of texts, which it takes out of the graph. -EINVAL,
 * -ENOMEM. */
int td_onnx_read_tokenizers(struct td_onnx_reader *r, TdOnnx__Graph *graph);

/* ---- pattern.c ---- */

struct td_tokenizer;
/* Fills the classes of one. -EINVAL. */
int td_onnx_pattern(struct td_onnx_reader *r, const ProtobufCBinaryData *from,
                    struct td_tokenizer *to);

/* ---- external.c ---- */

/* The bytes of a tensor that lie in another file, for td_onnx_free_external. -EINVAL, -ENOMEM. */
int td_onnx_external(struct td_onnx_reader *r, const TdOnnx__Tensor *from, const char *name,
                     size_t bytes, void **data);
void td_onnx_free_external(void *data, size_t bytes);

/* ---- attribute.c ---- */

/* Reads a graph that stands in a node. */
typedef int td_onnx_graph_reader(struct td_onnx_reader *r, const ProtobufCBinaryData *bytes,
                                 const struct td_onnx_scope *outer, struct td_node_graph **graph);
/* Fills an operand with the numbers of an attribute's texts. -EINVAL, -ENOMEM. */
int td_onnx_text_attribute(struct td_onnx_reader *r, const TdOnnx__Attribute *a,
                           struct td_node_operand *o);
/* Fills an operand, as its row's mark has it. -EINVAL, -ENOMEM. */
int td_onnx_attribute(struct td_onnx_reader *r, const TdOnnx__Attribute *a, char mark,
                      const struct td_onnx_scope *scope, struct td_node_operand *o,
                      td_onnx_graph_reader *graph);

/* ---- node.c ---- */

/* Fills a node, whose values are looked up in scope. */
int td_onnx_node(struct td_onnx_reader *r, const TdOnnx__Node *from,
                 const struct td_onnx_scope *scope, struct td_node *node,
                 td_onnx_graph_reader *graph);
/* Puts the node in front of the sentence of what is wrong inside of it; gives back -EINVAL or
 * -ENOMEM, which err is. */
int td_onnx_in_node(struct td_onnx_reader *r, const TdOnnx__Node *from, int err);
/* The operator's form, made when the model first has one. -EINVAL, -ENOMEM. */
int td_onnx_form_of(struct td_onnx_reader *r, const char *domain, const char *op,
                    const struct td_onnx_form **found);
/* A Constant: its value, which is no node. */
int td_onnx_constant_node(struct td_onnx_reader *r, const TdOnnx__Node *from, int value);
/* ---- loop.c ---- */

/* Of a whole program: what a Loop's body hands on unchanged is read from where it came. -ENOMEM. */
int td_onnx_settle_loops(struct td_model *model);

/* ---- pairs.c ---- */

/* Of a whole program: makes QLinear operators of those between DequantizeLinear and QuantizeLinear.
 * -ENOMEM. */
int td_onnx_join_pairs(struct td_onnx_reader *r);

/* ---- gather.c ---- */

/* Of a whole program: gathers from tables of few bits before floats are made of them. -ENOMEM. */
int td_onnx_pick_rows(struct td_model *model);

#endif
