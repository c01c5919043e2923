/* The kernel side's contract: tensors, operators, their implementations, and a call of one.
 *
 * An operator is one const descriptor (struct td_op) and everything reads it: argument checking,
 * the HTTP routes, the listings, the tests and the bench. An implementation (struct td_impl) is
 * one row in the descriptor's table, best first; the last row is the reference, which accepts
 * every call that the rule accepted.
 *
 * Errors are 0 or a negative errno. Kernels do not allocate, lock or parse; they read the call's
 * arguments, write its outputs, and may split their loop over the caller's OpenMP team through
 * td_parallel(). Tensors are dense and row-major, but for arguments of rows that take strides. */
#ifndef TD_KERNELS_H
#define TD_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/isa_config.h" /* generated: TD_IF_avx512(...), one a level */

#define TD_MAX_RANK 8
#define TD_MAX_ARGS 16
#define TD_MAX_OUTS 32
#define TD_MAX_LIST (TD_MAX_RANK * 2) /* numbers in a list */

/* ---- element types: one bit each, so that a type and a set of types share a field ---- */

enum td_dtype_index {
#define TD_DTYPE(id, name, aten, bytes, kind) TD_DTYPE_INDEX_##id,
#include "kernels/dtype.def"
#undef TD_DTYPE
    TD_DTYPES
};

enum td_dtype {
    TD_DTYPE_none = 0,
#define TD_DTYPE(id, name, aten, bytes, kind) TD_##id = 1 << TD_DTYPE_INDEX_##id,
#include "kernels/dtype.def"
#undef TD_DTYPE
};

#define TD_INTS (TD_u8 | TD_i8 | TD_i16 | TD_i32 | TD_i64)
#define TD_FLOATS (TD_f16 | TD_bf16 | TD_f32 | TD_f64)
#define TD_UINTS (TD_u16 | TD_u32 | TD_u64) /* the wide unsigned ones */
#define TD_ALL (TD_bool | TD_INTS | TD_FLOATS | TD_UINTS)

/* The protocol's name ("FP32"), bytes an element, and the kind letter of dtype.def. dtype: exactly
 * one bit. */
const char *td_dtype_name(enum td_dtype dtype);
size_t td_dtype_size(enum td_dtype dtype);
char td_dtype_kind(enum td_dtype dtype);

/* ATen's: 0 bool, 1 integers, 2 floats. */
int td_dtype_category(enum td_dtype dtype);

/* The smallest type that holds all types of a set, by ATen's rules: of floats where there is one,
 * else of integers; TD_DTYPE_none for none, and where a wide unsigned one meets another integer. */
enum td_dtype td_dtype_join(unsigned set);

/* Of the wide unsigned types, the signed one of as many bits, of which a row serves both where it
 * asks for no order; any other is itself. */
enum td_dtype td_dtype_signed(enum td_dtype dtype);

/* The type called so by the protocol or by ATen, case-sensitive; TD_DTYPE_none if none is. */
enum td_dtype td_dtype_find(const char *name);
extern const char td_dtype_names[]; /* the protocol's, each behind a space: " BOOL UINT8 ..." */

/* ---- ISA levels ---- */

enum td_isa {
#define TD_ISA(id, name, base) TD_ISA_##id,
#include "kernels/isa.def"
#undef TD_ISA
    TD_ISAS
};

/* "AVX512_BF16"; the end sentinel gives "OutOfBoundaryLevel", any other value "WrongLevel". */
const char *td_isa_name(enum td_isa isa);

/* ---- tensors and argument values ---- */

struct td_weight; /* a stored tensor with its packed forms: kernels/weight.h */

struct td_tensor {       /* a view, never an owner */
    void *data;          /* borrowed; aligned to the element's size; NULL when nothing is stored */
    enum td_dtype dtype; /* one bit */
    int rank;            /* 0 to TD_MAX_RANK */
    int64_t shape[TD_MAX_RANK]; /* elements a dimension, each >= 0 */
    struct td_weight *weight;   /* borrowed; the stored tensor seen through this view, or NULL */
    /* Borrowed: elements from one index to the next of each dimension, 0 or negative ones, too;
     * data is where all indices are 0. NULL: dense and row-major, as results are, and stored
     * tensors. Rules look at shapes alone. */
    const int64_t *stride;
};

int64_t td_numel(const struct td_tensor *t);
size_t td_nbytes(const struct td_tensor *t);
bool td_fits(const struct td_tensor *t); /* its bytes can be counted, even were no size zero */

enum td_kind { /* what a value holds */
               TD_KIND_none,
               TD_KIND_tensor,
               TD_KIND_tensors,
               TD_KIND_int,
               TD_KIND_float,
               TD_KIND_bool,
               TD_KIND_ints,
               TD_KIND_bools, /* as ints, each 0 or 1 */
               TD_KIND_floats,
               TD_KIND_dtype,
               TD_KIND_str,
};

struct td_value {
    enum td_kind kind;
    bool wide; /* a Scalar's int from 2^63 to 2^64 - 1, of which i has the bits */
    union {
        struct td_tensor tensor;
        struct {
            struct td_tensor *v; /* borrowed; one without type (dtype none) stands for None */
            int n;
        } tensors;
        int64_t i; /* int, and bool as 0 or 1 */
        double f;
        struct {
            int64_t v[TD_MAX_LIST];
            int n;
        } ints;
        struct {
            double v[TD_MAX_LIST];
            int n;
        } floats;
        enum td_dtype dtype;
        const char *str; /* borrowed */
    };
};

/* A Scalar value (int, float or bool) as a double or as an integer (a float is truncated). */
double td_scalar(const struct td_value *v);
int64_t td_scalar_int(const struct td_value *v);

/* ---- operators, implementations, calls ---- */

struct td_call;
struct td_impl;
struct td_memo_item; /* something made once, by counted references: kernels/memo.h */

/* One sentence for the user: the field, what was wrong with it, what would be right. */
struct td_problem {
    char text[600];
};
int td_problem_set(struct td_problem *problem, int error, const char *format, ...)
    __attribute__((format(printf, 3,
                          4))); /* writes the sentence, gives back -error; NULL: nowhere */

typedef void td_kernel(const struct td_call *call);

#define TD_MAX_STATES 2

struct td_prepared { /* what a row needs for a call that it takes */
    bool only_look;  /* asked: to make nothing that takes milliseconds */
    bool unmade;     /* and answered, that it would have to: who knows whether it takes the call */
    bool dense;      /* answered by a row that takes strides: not these */
    bool rearranges; /* answered: data are copied to another layout first, which takes so long that
                        it need not be timed beside a row that does without */
    bool leads;      /* answered: no library's row behind it has been seen to be so much faster for
                        such calls that it were worth being timed. Neither a library's rows nor
                        those behind them are asked then */
    size_t scratch;  /* bytes */
    struct td_memo_item *state[TD_MAX_STATES]; /* references, the first ones; then NULL */
};
/* Operations of a call up to which a row that is about as fast as a library's leads: a trial of the
 * library takes 0.5 to 5 ms, most of which it needs to describe the call. */
#define TD_BRIEF_FLOPS 6e7
/* Gives the references back; it is as before the row was asked then. */
void td_prepared_release(struct td_prepared *prepared);

struct td_impl {
    const char *name; /* "simd", "onednn", "ref": the reply's parameters.kernel */
    td_kernel *run;   /* called on a checked call only; cannot fail */
    enum td_isa isa;  /* the level its object was compiled for */
    unsigned dtypes;  /* types of the first tensor argument that it takes */
    bool library;     /* runs at whatever level its library has chosen */
    bool strided;     /* takes arguments with strides; others are given dense copies by dispatch */
    /* Bit i: result 0 may lie where argument i does, a dense tensor of as many elements of as many
     * bytes each, and with that where others do whose bits are set: the row reads what lies there
     * before it writes it, and gives what it gives apart. No other argument and no other result may
     * meet that memory. */
    unsigned in_place;
    /* Asked once, before a call or before many that are alike but for their data. Gives NULL, and
     * in prepared, which the asker has zeroed and releases in either case, what it needs; or why it
     * does not take the call, a constant text. NULL here: it takes all calls of its dtypes and
     * needs nothing. Dispatch asks for no call whose results have no elements, nor runs it. */
    const char *(*prepare)(const struct td_call *call, struct td_prepared *prepared);
    /* Of a row that makes other, fewer multiplications than the formula has: how many times as big
     * as the formula's the bound on its rounding is for this call, which it takes; reads no data
     * but forms that are kept with stored tensors. Such a row may be faster than td_op.flops let
     * expect. NULL: it has the formula's. */
    double (*rounding)(const struct td_call *call);
};

void td_impl_absent(const struct td_call *call); /* the run of a row made by TD_ABSENT: never run */

enum td_promote { /* what happens to tensor arguments of different types before the rule runs */
                  TD_PROMOTE_none,  /* they stay as they are; the rule judges */
                  TD_PROMOTE_arith, /* all are converted to their common type, by ATen's categories
                                     */
                  TD_PROMOTE_float, /* the same, and integers become FP32 */
                  TD_PROMOTE_quotient, /* so, unless a text is given, which says how to round */
                  TD_PROMOTE_first,    /* all are converted to the first one's type */
};

struct td_op {
    const char *schema; /* ATen's, without namespace; the first word is name[.overload] */
    const char *doc;    /* the formula, one line */
    /* Judges shapes and types, fills out[]; 0 or -EINVAL. Results may be of any size: dispatch
     * refuses those that cannot be counted. */
    int (*rule)(struct td_call *call);
    enum td_promote promote;
    bool casts;          /* argument dtype, where given, is what self becomes before all else */
    unsigned unpromoted; /* tensor arguments that stay as they are all the same, one bit each */
    unsigned int32;      /* tensor arguments that must be INT32, one bit each */
    unsigned dtypes;     /* types of the first tensor argument that the rule accepts */
    double ulp;          /* bound against ref, in units in the last place of the output type */
    bool sums;           /* the bound counts against the same call on absolute values */
    const struct td_impl *impls; /* best first, ended by a row without run; the last is ref */
    const char *const *samples;  /* argument patterns for tests, docs, bench; NULL-ended */
    double (*flops)(const struct td_call *call); /* NULL: one an output element */
    unsigned follows; /* arguments whose values say where the kernel reads or writes, or how much,
                         one bit each: nobody may change these while a call is on its way (what it
                         divides whole numbers by may change: it cannot trap) */
    /* Judges such values: 0, or -EINVAL by td_refuse. Runs before each kernel, once all data are
     * there and converted; NULL: any will do. */
    int (*check)(const struct td_call *call);
    /* Up to this rank of its first result, TD_MAX_RANK for any, a row of results may be made of any
     * rows of arguments, whatever shapes say: it is cut into streams by hints alone. */
    int mixes;
    /* The operator by others, "mul(self, sigmoid(self))", for backends without kernels of it; NULL:
     * there is no such formula. */
    const char *composite;
    const void *family; /* what the operator's family knows of it, in the family's own form */
};

struct td_call {
    const struct td_op *op;
    int n_args, n_out;
    int threads;   /* OpenMP threads it may use, >= 1; 0: td_fusion_make asks, see td_pointwise */
    void *scratch; /* borrowed; as many bytes as the implementation asked for, 64-byte aligned */
    const struct td_prepared *prepared; /* borrowed; what the row that runs has answered */
    struct td_problem *problem; /* borrowed; where a rule that refuses writes why; NULL: nowhere */
    /* Results of which the rule only bounds a size, one bit each, and its dimension: the kernel
     * tells it in *rows, which is set while a row runs. */
    unsigned counted;
    int counted_dim;
    int64_t *rows;
    struct td_value *arg; /* borrowed; n_args in the schema's order, defaults filled in */
    /* Borrowed, TD_MAX_OUTS where a rule is asked, then n_out. Shape and type from the rule; data
     * from the caller. A list of results, which the schema calls Tensor[], has one here for each of
     * its elements. */
    struct td_tensor *out;
};

/* The tensor argument i, which the schema says is a tensor; NULL when optional and absent. */
static inline const struct td_tensor *td_arg(const struct td_call *call, int i)
{
    return call->arg[i].kind == TD_KIND_tensor ? &call->arg[i].tensor : NULL;
}

/* Whether no result of the call has elements, whatever sizes stand beside the 0. No kernel runs
 * then: one that counted through these sizes would be at it for days. */
bool td_call_is_nothing(const struct td_call *call);
/* Runs a row on a call with its data in place: has them checked, also where the results have no
 * elements, and gives counted results their size. 0; -EINVAL: the data are refused; -EFAULT: the
 * row has trapped (kernels/trap.h). */
int td_impl_run(const struct td_impl *impl, struct td_call *call);

/* Refuses a call from its rule or its check: writes the sentence and gives back -EINVAL. */
#define td_refuse(call, ...) td_problem_set((call)->problem, EINVAL, __VA_ARGS__)

/* The table of all operators, NULL-ended, in the order of ops.def. */
extern const struct td_op *const td_ops[];

/* ---- oneDNN's own choice of instructions ---- */

/* Caps it at a level, TD_ISAS for no cap. To be called before anything else of it is used; -EBUSY
 * when it is too late. */
int td_onednn_cap(enum td_isa cap);
enum td_isa td_onednn_isa(void);      /* the level that its effective choice amounts to */
const char *td_onednn_isa_name(void); /* its own word for it: "avx512_core_bf16" */
const char *td_onednn_version(void);  /* "3.2.0" */

/* ---- for descriptors and kernels ---- */

/* Whoever computes may be asked to stop: between pieces of their work, of some ten thousand
 * operations each, kernels look, and return early. What they have written then is of no use. */
struct td_stop {
    atomic_bool asked;   /* by any thread */
    int64_t deadline_ns; /* CLOCK_MONOTONIC at which it is as if asked; 0: never */
};
bool td_stop_is_due(const struct td_stop *stop);
int64_t td_clock_ns(void); /* CLOCK_MONOTONIC */
/* From here on the calling thread computes for somebody who may stop it (NULL: nobody); gives back
 * who could before. The team of td_parallel obeys its caller's. */
const struct td_stop *td_stop_obey(const struct td_stop *stop);
extern _Thread_local const struct td_stop *td_stop_obeyed;
static inline bool td_stopped(void)
{
    return td_stop_obeyed && td_stop_is_due(td_stop_obeyed);
}
#define TD_STRIDE 4096 /* elements after which a loop over single ones looks */

typedef void td_range(void *arg, int64_t begin, int64_t end);

/* Runs fn over [0, n) in contiguous pieces on the calling thread's team, up to where it is stopped.
 * grain: how many of them are worth a thread, some ten thousand operations. Uses one thread when
 * n < 2 * grain; a team is always opened at its full size, since libgomp keeps threads (and where
 * they are bound) only while the size stays the same. */
void td_parallel(int threads, int64_t n, int64_t grain, td_range *fn, void *arg);
/* As td_parallel, for short loops, in which waking a sleeping thread takes longer than the work
 * that it would do. The team's threads poll for work for about 0.1 ms after a loop, and only then
 * sleep. So where a loop with n >= 2 * grain ended on the calling thread within that time, grain
 * decides, as in td_parallel; otherwise 8 * grain does. */
void td_parallel_brief(int threads, int64_t n, int64_t grain, td_range *fn, void *arg);
/* Whether so many equal items can be shared among slots without one slot having over a quarter more
 * than an equal share. */
static inline bool td_shared_evenly(int64_t items, int64_t slots)
{
    return slots < 2 || (items >= slots && (items % slots == 0 || items >= 4 * slots));
}
/* How often the calling thread has used a team there: tells whether a kernel did. */
unsigned td_teams_opened(void);

/* The name of a per-level function: TD_NAME(add) is td_add_avx2 in the avx2 object. */
#define TD_PASTE_(a, b) td_##a##_##b
#define TD_PASTE(a, b) TD_PASTE_(a, b)
#define TD_NAME(what) TD_PASTE(what, TD_LEVEL)

/* Opens a kernel's definition in a per-level file: TD_KERNEL(add) { ... } */
#define TD_KERNEL(what)                                                                            \
    td_kernel TD_NAME(what);                                                                       \
    void TD_NAME(what)(const struct td_call *call)

/* Rows of an implementation table. TD_SIMD(avx2, add, TD_f32) is td_add_avx2, or nothing at all
 * when the compiler could not build that level; more fields may follow: .prepare = prepare. */
#define TD_SIMD(level, what, types, ...)                                                           \
    TD_IF_##level({.name = "simd",                                                                 \
                   .run = td_##what##_##level,                                                     \
                   .isa = TD_ISA_##level,                                                          \
                   .dtypes = (types),                                                              \
                   __VA_ARGS__}, )
#define TD_AMX(what, types, ...)                                                                   \
    TD_IF_amx({.name = "amx",                                                                      \
               .run = td_##what##_amx,                                                             \
               .isa = TD_ISA_amx,                                                                  \
               .dtypes = (types),                                                                  \
               __VA_ARGS__}, )
/* A level that is passed over on purpose: the next lower row serves. It is listed as such. */
#define TD_ABSENT(level)                                                                           \
    TD_IF_##level({.name = "simd", .run = td_impl_absent, .isa = TD_ISA_##level}, )
#define TD_REF(what, ...)                                                                          \
    {                                                                                              \
        .name = "ref", .run = td_##what##_ref, .isa = TD_ISA_default, .dtypes = TD_ALL,            \
        __VA_ARGS__                                                                                \
    }
#define TD_KERNELS_3(what) td_kernel td_##what##_avx512, td_##what##_avx2, td_##what##_default
#define TD_SIMD_3(what, ...)                                                                       \
    TD_SIMD(avx512, what, __VA_ARGS__)                                                             \
    TD_SIMD(avx2, what, __VA_ARGS__)                                                               \
    TD_SIMD(default, what, __VA_ARGS__)

#endif
