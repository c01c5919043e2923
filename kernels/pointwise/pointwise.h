/* What the files of the pointwise family share: the formulas by number, and the walk over tensors
 * that broadcast against each other. The walk is compiled once with base flags; the rows that it
 * calls are the level's own. */
#ifndef TD_KERNELS_POINTWISE_H
#define TD_KERNELS_POINTWISE_H

#include "kernels/kernels.h"

enum td_point {
#define TD_POINT(id, ...) TD_POINT_##id,
#include "kernels/pointwise/pointwise.def"
    TD_POINTS
};

#define TD_POINT_OPERANDS 3
#define TD_POINT_PARAMS 3

/* td_op.family of a pointwise operator. */
struct td_pointwise {
    enum td_point point;
    const char *operands, *params; /* which of the call's arguments they are, a digit each */
    const char *words;             /* "approximate none tanh": the string argument's name, and what
                                      it may be; NULL: there is none */
};

/* What a formula makes of its operands' type. */
enum td_point_result {
    TD_POINT_IS_same,
    TD_POINT_IS_truth, /* BOOL */
    TD_POINT_IS_pick,  /* as same; operand 0 is BOOL and chooses */
    TD_POINT_IS_ratio, /* as same; whole numbers are not divided by a 0 in operand 1 */
};
enum td_point_result td_point_result(enum td_point point);

const char *td_point_name(enum td_point point); /* "plus" */
/* Whether calls of the operator are computed by the formula: by its own, or by a variant. */
bool td_point_serves(enum td_point point, const struct td_op *op);

/* The type in which the call is computed: that of its tensors, a choosing one apart;
 * of numbers alone, what they make. */
enum td_dtype td_point_type(const struct td_call *call);

/* The number that operand k is, rounded to the tensors' type where it is compared with them; left
 * out, one that limits nothing: operand 1 is the lower limit. */
struct td_value td_point_number(const struct td_call *call, int k);

/* What the schema calls argument i. */
const char *td_point_arg_name(const struct td_call *call, int i, char room[32]);

/* Parameter k as either kind of number; absent, it is a limit that limits nothing: the first the
 * lower one; nan_to_num's are 0 and the type's last numbers. */
void td_point_param(const struct td_call *call, int k, double *real, int64_t *whole);

/* What a row gets beside its elements. */
struct td_point_args {
    enum td_dtype type;                    /* of the operands, but for constants: theirs is FP32
                                              where type is BF16 or FP16 */
    enum td_dtype from[TD_POINT_OPERANDS]; /* of each operand: where one picks, BOOL */
    enum td_dtype to;                      /* of the result */
    double real[TD_POINT_PARAMS];          /* the parameters */
    int64_t whole[TD_POINT_PARAMS];
};

/* out[i] = formula(in[0][i], ...) for i in [0, n), n a multiple of the walk's unit. in[k] may be
 * out. */
typedef void td_point_row(const struct td_point_args *args, int64_t n, void *out,
                          const void *const *in);

/* n elements of size bytes, each step elements behind the one before, side by side. */
void td_point_copy(char *to, const char *from, int64_t n, int64_t step, size_t size);

/* A Scalar as one element of the type that rows expect of constants. */
void td_point_put(char *to, struct td_value number, enum td_dtype type);

/* A row: elements of BOOL, made ones of args->to. A unit is one element. */
td_point_row td_point_widen;

struct td_point_walked { /* an operand in memory, along a result */
    const char *data;
    size_t size; /* bytes an element */
    int rank;
    const int64_t *shape, *step; /* the result's sizes; elements, 0 where it is broadcast */
};
/* Its elements for the result's n from number begin on, in order. */
void td_point_lay_out(const struct td_point_walked *v, int64_t begin, int64_t n, char *to);

/* The level's row of a formula for operands and result in FP32. A unit is one vector. */
typedef td_point_row *td_point_row_of(enum td_point point);
td_point_row_of td_point_row_default, td_point_row_avx2, td_point_row_avx512;

/* The judge's formula of numbers: x has TD_POINT_OPERANDS, param TD_POINT_PARAMS. */
double td_point_judge(enum td_point point, const double *x, const double *param,
                      enum td_dtype type);

/* The formula that computes the call: its operator's, or a variant. */
enum td_point td_point_of(const struct td_call *call);

struct td_point_plane { /* of elements of size bytes: to[r * to_row + c] = from[r + c * step] */
    void *to;
    const void *from;
    int64_t to_row, step, rows, cols;
    size_t size;
};
/* Transposes a plane, by the level's instructions. */
typedef void td_point_turn(const struct td_point_plane *plane);
td_point_turn td_point_turn_default, td_point_turn_avx2, td_point_turn_avx512;
/* That of a level's vectors, which several levels have: for files built once per level. */
#define TD_POINT_TURN                                                                              \
    (TD_VBYTES == 64   ? td_point_turn_avx512                                                      \
     : TD_VBYTES == 32 ? td_point_turn_avx2                                                        \
                       : td_point_turn_default)

struct td_point_way {    /* that a kernel goes */
    td_point_row *row;   /* its row, */
    int unit;            /* which wants multiples of so many elements of the type */
    td_point_turn *turn; /* of its level */
};
/* Runs the row over the call's elements; splits big results over the team. A kernel of the family
 * calls this and does nothing else: where call->threads is 0, td_fusion_make asks for the way,
 * which is left in call->scratch, and nothing runs. */
void td_pointwise(const struct td_call *call, const struct td_point_way *way);

/* Rows of n elements, a unit and more, that follow on each other in the result, for a formula of
 * two operands of which one is a single element for each row, it stays, and the other one's n
 * elements lie side by side. step: elements from an operand's row to the next. The result's memory
 * is no operand's: where n is no multiple of the unit, some elements are computed twice. */
struct td_point_still {
    int64_t rows, n, step[2];
};
typedef void td_point_still_rows(const struct td_point_args *args,
                                 const struct td_point_still *still, void *out,
                                 const void *const *in);

/* The same where the formula may have such rows: still[i] is for operand i that stays, or NULL. */
void td_pointwise_still(const struct td_call *call, const struct td_point_way *way,
                        td_point_still_rows *const still[2]);

/* Whether a formula of that cost has such rows: it takes no longer than its loads, and vectors are
 * longer than 16 bytes, for which the code is not worth its size. */
#define TD_POINT_HAS_STILL(cost) (TD_VBYTES > 16 && (cost) <= 4)
/* Those of a formula of so many operands: id_first and id_second, or NULL. */
#define TD_POINT_STILL_1(id, cost, lanes)                                                          \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
#define TD_POINT_STILL_2(id, cost, lanes)                                                          \
    {                                                                                              \
        TD_MEANT(lanes) && TD_POINT_HAS_STILL(cost) ? id##_first : NULL,                           \
            TD_MEANT(lanes) && TD_POINT_HAS_STILL(cost) ? id##_second : NULL                       \
    }
#define TD_POINT_STILL_3 TD_POINT_STILL_1

#endif
