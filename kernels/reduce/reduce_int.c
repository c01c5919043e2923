/* Reductions of whole numbers and BOOL: plain loops over one type each, which the compiler turns
 * into the level's vectors. Totals are of 64 bits and wrap. */
#include "kernels/none.h"
#include "kernels/reduce/reduce.h"
#include "kernels/vec.h"

/* Of formulas for real numbers alone no rows come, and unsigned numbers are never below 0. */
enum { NONE };
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* Of a type in which they wrap, or in which PIECE of them have room. */
#define W_add(a, b) ((a) + (b))
#define W_mul(a, b) ((a) * (b))
#define LOWEST ((T)-1 > 0 ? (T)0 : (T)((U)1 << (8 * sizeof(T) - 1)))
#define HIGHEST ((T)~LOWEST)

#define JOIN(name, formula)                                                                        \
    TD_INLINE int64_t total_##name(int64_t a, int64_t b)                                           \
    {                                                                                              \
        return formula;                                                                            \
    }
JOIN(add, (int64_t)((uint64_t)a + (uint64_t)b))
JOIN(mul, (int64_t)((uint64_t)a *(uint64_t)b))
JOIN(max, a > b ? a : b)
JOIN(min, a < b ? a : b)
JOIN(xor, a ^ b)

#define NAME u8
#define T uint8_t
#define U unsigned
#define SUM int32_t
#define PIECE (1 << 15)
#include "kernels/reduce/int_rows.def"
#define NAME i8
#define T int8_t
#define U unsigned
#define SUM int32_t
#define PIECE (1 << 15)
#include "kernels/reduce/int_rows.def"
#define NAME i16
#define T int16_t
#define U unsigned
#define SUM int32_t
#define PIECE (1 << 15)
#include "kernels/reduce/int_rows.def"
#define NAME i32
#define T int32_t
#define U unsigned
#define SUM uint64_t
#define PIECE INT64_MAX
#include "kernels/reduce/int_rows.def"
#define NAME i64
#define T int64_t
#define U uint64_t
#define SUM uint64_t
#define PIECE INT64_MAX
#include "kernels/reduce/int_rows.def"
#define NAME truth /* BOOL: whatever is not 0 is 1 */
#define T uint8_t
#define U unsigned
#define OF(x) ((x) != 0)
#define SUM int32_t
#define PIECE (1 << 15)
#include "kernels/reduce/int_rows.def"

TD_KERNEL(reduce_int)
{
    static const struct td_fold_rows *const rows[] = {rows_truth, rows_u8,  rows_i8,
                                                      rows_i16,   rows_i32, rows_i64};
    enum td_dtype type = call->arg[0].tensor.dtype;
    td_reduce(call,
              &(const struct td_reduce_way){rows[__builtin_ctz(type)], type, NULL, 1 << 16, NULL});
}
