/* The importer's table: what each of ONNX's operators is in calls of ours. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

#define MICROSOFT "com.microsoft"
#define ML "ai.onnx.ml"
#define OWN "tensord" /* which no tool writes: what several nodes become here */

static const struct td_onnx_row rows[] = {
#define TD_ONNX(op, operands, formula) {"", #op, operands, NULL, formula},
#define TD_ONNX_BY(op, operands, function, ...)                                                    \
    {"", #op, operands, td_onnx_##function, __VA_ARGS__},
#define TD_ONNX_IN(domain, op, operands, formula) {domain, #op, operands, NULL, formula},
#define TD_ONNX_IN_BY(domain, op, operands, function, ...)                                         \
    {domain, #op, operands, td_onnx_##function, __VA_ARGS__},
#include "dispatch/onnx/ops/operators.def"

#include "dispatch/onnx/ops/domains.def"
#undef TD_ONNX
#undef TD_ONNX_BY
#undef TD_ONNX_IN
#undef TD_ONNX_IN_BY
};

const struct td_onnx_row *td_onnx_find(const char *domain, const char *op)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].op, op) && !strcmp(rows[i].domain, domain))
            return &rows[i];
    return NULL;
}
