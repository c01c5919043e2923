/* Functions that an ONNX file brings. Internal to dispatch/onnx/. */
#ifndef TD_DISPATCH_ONNX_FUNCTION_H
#define TD_DISPATCH_ONNX_FUNCTION_H

#include "dispatch/onnx/file.h"

/* The model's function that a node calls; NULL: it is an operator. */
const TdOnnx__Function *td_onnx_function(const struct td_onnx_reader *r, const TdOnnx__Node *node);

/* A value's number, -1 where nothing in sight is called so; TD_ONNX_LEFT_OUT for an input of a
 * function that its call leaves out. */
#define TD_ONNX_LEFT_OUT (-2)
int td_onnx_look_up(const struct td_onnx_scope *scope, const char *name);
/* The attribute itself, or the one of the call under way that it stands for; NULL: there is none.
 */
const TdOnnx__Attribute *td_onnx_given(const struct td_onnx_reader *r, const TdOnnx__Attribute *a);

/* Reads a node into a graph, values by their names in scope. */
typedef int td_onnx_node_reader(struct td_onnx_reader *r, const TdOnnx__Node *node,
                                const struct td_onnx_scope *scope, void *graph);
/* Has read called for the function's nodes, where names are looked up as the call of it in outer
 * has them. -EINVAL, -ENOMEM. */
int td_onnx_inline(struct td_onnx_reader *r, const TdOnnx__Node *node, const TdOnnx__Function *f,
                   const struct td_onnx_scope *outer, td_onnx_node_reader *read, void *graph);

#endif
