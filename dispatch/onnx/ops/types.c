/* The element types that ONNX numbers. */
#include "dispatch/onnx/ops/onnx.h"

enum {
    FLOAT = 1,
    UINT8,
    INT8,
    UINT16,
    INT16,
    INT32,
    INT64,
    STRING,
    BOOL,
    FLOAT16,
    DOUBLE,
    UINT32,
    UINT64,
    BFLOAT16 = 16
};

static const struct type {
    const char *name;
    enum td_dtype dtype;
} types[] = {
    [FLOAT] = {"FLOAT", TD_f32},     [UINT8] = {"UINT8", TD_u8},
    [INT8] = {"INT8", TD_i8},        [UINT16] = {"UINT16", TD_u16},
    [INT16] = {"INT16", TD_i16},     [INT32] = {"INT32", TD_i32},
    [INT64] = {"INT64", TD_i64},     [STRING] = {"STRING", TD_DTYPE_none},
    [BOOL] = {"BOOL", TD_bool},      [FLOAT16] = {"FLOAT16", TD_f16},
    [DOUBLE] = {"DOUBLE", TD_f64},   [UINT32] = {"UINT32", TD_u32},
    [UINT64] = {"UINT64", TD_u64},   {"COMPLEX64", TD_DTYPE_none},
    {"COMPLEX128", TD_DTYPE_none},   [BFLOAT16] = {"BFLOAT16", TD_bf16},
    {"FLOAT8E4M3FN", TD_DTYPE_none}, {"FLOAT8E4M3FNUZ", TD_DTYPE_none},
    {"FLOAT8E5M2", TD_DTYPE_none},   {"FLOAT8E5M2FNUZ", TD_DTYPE_none},
    {"UINT4", TD_DTYPE_none},        {"INT4", TD_DTYPE_none},
    {"FLOAT4E2M1", TD_DTYPE_none},   {"FLOAT8E8M0", TD_DTYPE_none},
    {"UINT2", TD_DTYPE_none},        {"INT2", TD_DTYPE_none},
};
#define TYPES ((int64_t)(sizeof types / sizeof *types))

enum td_dtype td_onnx_dtype(int64_t type)
{
    return type > 0 && type < TYPES ? types[type].dtype : TD_DTYPE_none;
}

const char *td_onnx_type_name(int64_t type)
{
    return type > 0 && type < TYPES ? types[type].name : "of an unknown number";
}
