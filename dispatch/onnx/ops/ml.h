/* What the files of ai.onnx.ml's operators share. */
#ifndef TD_DISPATCH_ONNX_ML_H
#define TD_DISPATCH_ONNX_ML_H

#include "dispatch/onnx/ops/onnx.h"

/* Makes X FP32, of two dimensions. */
void td_ml_let_rows(struct td_onnx *n);
/* Names labels, the attribute ints as a tensor. */
void td_ml_let_labels(struct td_onnx *n, const char *ints);
/* What a post_transform makes of scores. */
void td_ml_transform(struct td_onnx *n, const char *how);

#endif
