/* Dispatch: what this CPU can do, which operators there are, and the way of one call from named
 * arguments to the implementation that runs it, with the reasons.
 *
 * Errors are 0 or a negative errno; the sentence for the user goes to a struct td_problem. */
#ifndef TD_DISPATCH_H
#define TD_DISPATCH_H

#include "dispatch/registry/keys.h"
#include "dispatch/registry/registry.h"
#include "dispatch/registry/schema.h"
#include "kernels/kernels.h"
#include "kernels/level.h"

/* ---- the CPU ---- */

enum td_feature { /* CPUID's bits, in the order in which cpu-features prints them */
#define TD_FEATURE(id, name, leaf, subleaf, reg, bit) TD_FEATURE_##id,
#include "dispatch/cpu/features.def"
#undef TD_FEATURE
                  TD_FEATURES,
                  TD_FEATURES_LISTED = TD_FEATURE_amx_fp16, /* those that cpu-features prints */
};

/* Where detection reads from: the real machine, or a recorded one in tests. */
struct td_cpuid {
    void (*cpuid)(const struct td_cpuid *self, uint32_t leaf, uint32_t subleaf,
                  uint32_t reg[4]);                /* eax, ebx, ecx, edx */
    uint64_t (*xcr0)(const struct td_cpuid *self); /* asked only when osxsave is there */
    bool (*amx_permission)(
        const struct td_cpuid *self); /* asked once, only when amx_tile is there */
    const void *data;
};
extern const struct td_cpuid td_cpuid_native;

struct td_cpu {
    uint64_t features; /* bit TD_FEATURE_x */
    bool osxsave;
    uint64_t xcr0; /* 0 without osxsave */
    bool os_avx, os_avx2, os_avx512, os_amx;
    const char *amx_permission; /* "granted", "denied", "n/a" */
    unsigned cpu_levels;        /* bit TD_ISA_x: CPU and OS can run it */
    unsigned binary_levels;     /* the compiler could build it */
    unsigned levels;            /* both, and not above the cap: what selection may use */
    enum td_isa highest_cpu, highest_binary;
    enum td_isa current;   /* the highest of levels */
    const char *requested; /* the cap as given; NULL when none was */
    const char *source;    /* of the cap: "TENSORD_CPU_CAPABILITY", "ATEN_CPU_CAPABILITY" or
                              "cpu_capability", the option or the configuration file */
    const char *vendor;    /* "AuthenticAMD" */
    const char *model;     /* marketing name */
    const char *uarch;     /* "Zen 4", or "family 6 model 23" of one without a name here */
    int cores, threads;
    size_t cache[3]; /* bytes of the first core's L1 for data, L2 and L3; 0: there is none */
    char names_[64];
};

/* Detects from source and applies the cap (a level's name in lower case, NULL or "": none).
 * -EINVAL when the cap is none of the names, which problem then lists. */
int td_cpu_detect(struct td_cpu *cpu, const struct td_cpuid *source, const char *cap,
                  struct td_problem *problem);
/* Does it for the process, asks Linux for AMX, tells oneDNN. Without a cap the variable that
 * PyTorch reads, ATEN_CPU_CAPABILITY, is one; a value there that is no level is warned of and left
 * aside. To be called by main before any other thread runs, since Linux grants AMX to threads that
 * come later; later calls, from any thread, do nothing. */
int td_cpu_init(const char *cap, struct td_problem *problem);
const struct td_cpu *td_cpu(void); /* the process's; never NULL after td_cpu_init */

/* The level in use, by a kernel of that level itself: NULL when its objects are not there. */
const struct td_level *td_cpu_level(const struct td_cpu *cpu);

/* The name of what CPUID's leaf 1 says in eax; NULL when none is known. */
const char *td_cpu_uarch(uint32_t leaf1_eax);
bool td_cpu_has(const struct td_cpu *cpu, enum td_feature feature);
const char *td_feature_name(enum td_feature feature);
/* What level lacks on this CPU and OS, separated by ", "; "" when it runs. */
void td_cpu_missing(const struct td_cpu *cpu, enum td_isa level, char *text, size_t size);

/* ---- calls ---- */

struct td_named {          /* an argument, as a client gives it */
    const char *name;      /* NULL: by its position among the nameless */
    struct td_value value; /* numbers as int or float, dtype as str, number lists as ints */
    td_keyset keys;        /* of a tensor; 0: CPU's */
};

struct td_step; /* dispatch/step/step.h */

#define TD_MAX_CASTS 4
#define TD_MAX_FEEDS 24
#define TD_MAX_TRACE 64

struct td_trace { /* the way of a call through keys and kernels */
    int n;        /* may be beyond TD_MAX_TRACE: lines that were not kept */
    struct td_trace_line {
        bool redispatch;
        int depth;
        enum td_key key;
        const struct td_run *run; /* its handle; once executed, its kernel and ns */
    } line[TD_MAX_TRACE];
};

/* What torch and NumPy call them, where it is not ATen's name: the operator's (name itself, where
 * nothing else is known), one of its overloads' parameter's (NULL: none), a type's. */
const char *td_op_called(const char *name);
const char *td_param_called(const struct td_handle *handle, bool one, const char *name);
enum td_dtype td_dtype_called(const char *name);
/* The operator whose name is nearest to one that is none; NULL: there is none near. */
const char *td_op_nearest(const char *name);

/* The one of names that name was most likely to be; NULL when none is near. */
const char *td_nearest(const char *name, const char *const *names, int n);

struct td_options {         /* what a call wants of dispatch; zeroed: nothing */
    enum td_dtype autocast; /* BF16 or FP16: what AutocastCPU converts to */
    struct td_trace *trace; /* borrowed; filled while binding */
    /* Memory that lives as long as the run, 16-byte aligned, NULL when there is none; for composite
     * operators, and for tensors with strides. */
    void *(*alloc)(void *arg, size_t bytes);
    void *alloc_arg;
    const char *const
        *also; /* borrowed, NULL-ended: names that sentences suggest beside arguments */
    /* Where no overload fits, a number may stand for a tensor without dimensions, and a list of
     * numbers for one with one: td_run.numbers. Needs alloc. */
    bool numbers;
    enum td_dtype number_type; /* of such tensors where no other decides; none: by the values */
};

/* For alloc, where alloc_arg is a struct td_arena. */
void *td_alloc_in_arena(void *arena, size_t bytes);

struct td_why { /* one candidate, for explain */
    const struct td_impl *impl;
    enum td_isa isa;    /* that it runs this call at, or would */
    const char *reason; /* "chosen", or why not, in the row's own words; a constant */
    double us;          /* it took when calls of that kind were measured; 0: it was not timed */
    double rounding;    /* its td_impl.rounding of this call, where it is the chosen one; else 0 */
};

struct td_result_names { /* of an expression, which has those, or the results of one call */
    const struct td_schema *unnamed; /* of that call, once bound, or NULL */
    int n;
    char name[][TD_NAME_SIZE];
};

struct td_seen {  /* what a part reads in place of a result that is a view of an argument */
    bool through; /* it does */
    size_t at;    /* the view's first byte there */
    int64_t stride[TD_MAX_RANK];
};

struct td_run {          /* a call on its way: the kernel's part, and dispatch's around it */
    struct td_call call; /* its arguments and results are the run's own; copied by td_run_copy */
    const struct td_handle *handle;
    struct td_options options;
    td_keyset keys;         /* what it was dispatched by */
    td_keyset done;         /* the wrappers that it has passed */
    enum td_dtype autocast; /* what AutocastCPU has made of its floats; TD_DTYPE_none: nothing */
    enum td_key key;        /* the one that settled it */
    const struct td_impl *rows; /* that key's kernels to choose from; NULL when composite or meta */
    const struct td_impl *impl; /* once selected */
    /* Then: the level whose instructions run, and the type that the kernel is given, after
     * promotion and autocast; of a run with parts the highest of theirs, and none where they differ
     */
    enum td_isa isa;
    enum td_dtype compute_type;
    struct td_prepared prepared; /* and what it needs, until td_run_release */
    const char *forced;          /* borrowed; the kernel asked for ("ref", "simd@AVX2") or NULL */
    int n_casts;                 /* conversions to be made before the kernel runs */
    struct {
        int arg;
        struct td_tensor from;
    } cast[TD_MAX_CASTS];
    struct td_run *parts, *next; /* the calls that this one consists of, in order */
    struct td_run *spare;        /* room to bind the next part in, or NULL */
    struct {
        int arg;     /* of this part, which is that result of a part before, or, where of is NULL,
                        that argument of the whole */
        int element; /* of that argument, where it is a list; else -1 */
        int result;
        struct td_run *of;
    } feed[TD_MAX_FEEDS];
    int n_feeds;
    struct td_seen *seen; /* of each of these, once selected; NULL: it reads results as they are */
    unsigned char gives[TD_MAX_OUTS]; /* of this part's results: 1 + which of the whole's it is */
    int number;                       /* its place among the parts, from 0, once selected, */
    int with;             /* and that of the last one that it is computed together with, or -1 */
    const char *why_rows; /* those of its parts were no generated loops, when it ran last */
    bool kept;            /* it is computed with others, and its result is wanted elsewhere */
    bool view;    /* of a part, once selected: it only moves elements, and runs no kernel, since who
                     reads its results finds these in its argument */
    bool strided; /* some of its tensors have strides */
    bool lasting; /* its memory outlives the call: the step stays, and serves the next selection */
    unsigned numbers;     /* tensors that were given as numbers, one bit each argument */
    struct td_step *step; /* of one that consists of others or has strides, once selected */
    struct td_result_names *names; /* of the expression that it is; NULL: it is an operator */
    int node;      /* stored tensors are read from its replicas; -1: from where they are; to be set
                      before select */
    bool in_place; /* called as "add_": the first result is to become the first argument, whose data
                      it may be given at once where td_run_may_overwrite says so; of several, each
                      that which td_run_place says */
    int depth;     /* of nesting, for the trace */
    const struct td_derivative *derivative; /* recorded where a gradient is required, or NULL */
    const struct td_stop *stop;             /* borrowed; who may stop its execution, or NULL */
    bool sized; /* types were accepted: a later refusal may be about sizes */
    bool timed;
    int64_t ns; /* its kernel took; when timed */
    int error;  /* of its execution: 0, or -EINVAL where its data are refused */
    struct {    /* dispatch/choice/cost.c: by what its time is known, once there is a row */
        const struct td_impl *impl;
        uint64_t row, call;
        double units;
    } cost_;
    struct td_problem problem;
    struct td_value arg[TD_MAX_ARGS]; /* of a part as many of both as it has */
    struct td_tensor out[TD_MAX_OUTS];
};

/* Copies a bound run, but for its problem and what select has prepared. */
void td_run_copy(struct td_run *run, const struct td_run *from);

/* Finds the overload that the arguments fit and binds them: kinds converted, defaults filled in.
 * Then promotes types, and asks the rule; run->call.out[] has shapes and types afterwards.
 * name: "add" or "add.Tensor"; with an underscore behind the name, "add_" or "add_.Tensor", in
 * place: the result must have self's shape, and is converted to its type; of several, each that of
 * the argument that is called as it is. run is zeroed first.
 * options: copied; NULL is none.
 * -ENOENT no such operator (or overload), -EINVAL the arguments are wrong, -ENOSYS no kernel for
 * the key set (run->key is the key, run->handle the operator), -ENOMEM; run->problem says what and
 * lists what would be right. */
int td_run_bind(struct td_run *run, const char *name, const struct td_named *args, int n_args,
                const struct td_options *options);

/* The same of an expression over the named arguments: dispatch/graph/graph.h says what it may be.
 * Its handle is of no operator and has no table, and run->names is set where the text itself is
 * right. Memory, which options must give, is as the run's. -EINVAL, -ENOSYS, -ENOMEM. */
int td_run_bind_expr(struct td_run *run, const char *expr, const struct td_named *args, int n_args,
                     const struct td_options *options);
/* Of a call that was bound in place: the argument whose place result i takes; -1: none, for the
 * caller has left that argument out. */
int td_run_place(const struct td_run *run, int i);

/* What result i is called by the schema, or by the expression; NULL: it has but its number. */
const char *td_run_result_name(const struct td_run *run, int i);

/* The first overload of what td_run_bind takes for that name, also of one in place; or NULL. */
const struct td_handle *td_op_meant(const char *name);

/* Whether the values of an argument decide what an operator called so, in whichever overload, reads
 * or writes (struct td_op's follows). arg: its name; NULL: the position-th without one. */
bool td_op_follows(const char *name, const char *arg, int position);

/* Whether an operator of that name ("rand"), by any of its overloads, draws chance: those without a
 * generator draw a seed of their own. */
bool td_op_draws_chance(const char *name);

/* The elements of a bound call's tensor argument as they came, before a conversion (NULL for other
 * arguments); and others in their place, of the same type and shape. */
const void *td_run_input(const struct td_run *run, int arg);
void td_run_set_input(struct td_run *run, int arg, void *data);

/* Whether a bound call leads to Meta: it has shapes and types, and nothing can be executed. */
bool td_run_is_meta(const struct td_run *run);

/* Where a result's size follows from values, of which Meta has none: it becomes TD_UNKNOWN. */
void td_run_hide_counted(struct td_run *run);

#define TD_UNKNOWN (-1)
#define TD_MAX_UNKNOWNS 128

/* Binds a call of tensors that lead to Meta and of which sizes may be unknown: TD_UNKNOWN is any
 * size, a number below it the same size wherever it stands. A result then has TD_UNKNOWN where its
 * size is not always one number, or such a number where it is always that size. expr: what
 * td_run_bind_expr is to bind, or NULL for the operator op. Options give memory.
 * Rules are asked for numbers in place of what is unknown, some thousand times at most: what is
 * alike in all calls that they accept counts as known. Where many sizes hang together, trials may
 * miss some, or find none. What td_run_bind gives back; -EINVAL also where no sizes are found,
 * where how many results or dimensions there are follows from unknown sizes, where more than
 * TD_MAX_UNKNOWNS are, and where the keys lead elsewhere. */
int td_run_infer(struct td_run *run, const char *op, const char *expr, const struct td_named *args,
                 int n_args, const struct td_options *options);

/* Has the first result converted to a type behind the kernel: where it replaces a tensor that keeps
 * its type. -EINVAL when that is of a lower category (FP32 to INT64); -ENOMEM. */
int td_run_convert(struct td_run *run, enum td_dtype to);

/* What the calling thread adds to and takes from the key set of every call that it binds, until it
 * leaves the scope; exclusion wins. Scopes nest: leave restores what was before. */
struct td_key_scope {
    td_keyset include, exclude;
};
struct td_key_scope td_keys_enter(td_keyset include, td_keyset exclude);
void td_keys_leave(struct td_key_scope before);

/* For boxed kernels: goes on with the call as if its arguments had only these keys. */
int td_redispatch(struct td_run *run, td_keyset keys);
/* ---- derivatives: call/autograd.c ---- */

struct td_derivative {
    const char *op, *arg; /* "relu", "self" */
    const char *formula;  /* of grad, result and the operator's arguments: "neg(grad)" */
};
/* What a formula may name beside arguments: "grad", "result", "result1" of several; NULL-ended. */
extern const char *const td_derivative_words[];
/* The first of an operator's ("add.Tensor"), NULL when it has none; and the one after. */
const struct td_derivative *td_derivative_find(const char *op);
const struct td_derivative *td_derivative_next(const struct td_derivative *derivative);
/* Whether one of its operator's formulas names an argument, or "result". */
bool td_derivative_needs(const struct td_derivative *first, const char *word);

/* ---- calls from C: step/direct.c ---- */

/* The operator for callers that were written for a signature ("relu(Tensor self) -> Tensor"): to be
 * looked up once. -ENOENT no such operator; -EINVAL it has another signature: problem shows both.
 */
int td_handle_typed(const struct td_handle **handle, const char *op, const char *signature,
                    struct td_problem *problem);
/* A direct call, unboxed: call->op, arg, out and threads set, arguments of the right kinds in the
 * schema's order, out[].data and shapes set, no conversions needed (asserted in debug builds). A
 * kernel that is registered boxed is called all the same. scratch: as td_run_execute's. Goes
 * through the table of the handle. 0, or -EINVAL: the data are refused, call->problem, where it is
 * set, says why. */
int td_call_unboxed(const struct td_handle *handle, struct td_call *call, td_keyset keys,
                    void *scratch);

struct td_stack { /* of tagged values */
    int n;
    struct td_value v[2 * TD_MAX_ARGS];
};
/* A call by a stack: takes the operator's arguments off it, the last one on top, and puts its
 * results there; on failure the stack stays as it was, but for -ENOMEM. Memory of results and
 * scratch is options->alloc's. -EINVAL, -ENOSYS, -ENOMEM. */
int td_call_boxed(const struct td_handle *handle, struct td_stack *stack, td_keyset keys,
                  const struct td_options *options, struct td_problem *problem);
/* "[call] op=[aten::silu], key=[CPU]", indented by depth, without line end; with kernel and time
 * once the call has run. Returns its full length. */
size_t td_trace_format(const struct td_trace_line *line, char *text, size_t size);

/* Bytes that td_run_execute needs besides inputs and outputs: promoted inputs, the kernel's
 * scratch. Selects the implementation first (with call.threads set), and keeps what that has
 * prepared until td_run_release. -EINVAL when the forced kernel does not exist or does not take
 * this call; -ENOMEM. */
int td_run_select(struct td_run *run, size_t *scratch);
/* Gives back what select has prepared, but for the step of one that is lasting; to be called of
 * every run that it succeeded on, before it is bound anew or forgotten. */
void td_run_release(struct td_run *run);
/* Whether, by the row that select has chosen, the first result may be given the data of argument
 * arg, which is gone then. That of others too that may be overwritten, if it is the same; but no
 * other argument or result may meet it. */
bool td_run_may_overwrite(const struct td_run *run, int arg);
/* Runs it on the calling thread. scratch: borrowed, as many bytes as select said, 64-byte aligned.
 * out[].data must be set. Returns the time at its end, CLOCK_MONOTONIC in ns. Where the data are
 * refused, run->error is -EINVAL, where a kernel has trapped (kernels/trap.h) -EFAULT, where a
 * stored tensor cannot be converted -ENOMEM, and run->problem says why; else it is 0, and the
 * results that the operator counts have their sizes. */
int64_t td_run_execute(struct td_run *run, void *scratch);

/* The level at which impl runs on tensors of the type: its own, or the highest of its library's
 * that serves the type (TD_DTYPE_none: any). What was selected says more: run->isa. */
enum td_isa td_impl_isa(const struct td_impl *impl, enum td_dtype dtype);
/* Why it may not run here: its level, or a switch; NULL: it may. */
const char *td_impl_barred(const struct td_impl *impl);
/* Whether there is something to run, and it may. */
bool td_impl_is_usable(const struct td_impl *impl);
/* "simd" is any row of that name, "simd@AVX2" the one of that level. */
bool td_row_is_named(const struct td_impl *row, const char *name);
const struct td_impl *td_op_best(const struct td_op *op); /* the first usable implementation */

/* Whether rows that a fixed order cannot choose from, a library's and our own, are measured by the
 * first call of a kind, and the fastest kept (choice/measure.c). Off at first: then the order
 * decides. */
void td_tune(bool on);
/* Whether Winograd's algorithm (rows with td_impl.rounding) may be used; at first it may. */
void td_winograd_use(bool allowed);

/* Every candidate of the run's operator with why it was chosen or not; returns how many (at most
 * max). */
int td_run_explain(const struct td_run *run, struct td_why *why, int max);

/* How autocast takes the operator: "lower", "fp32" or "widest", as dispatch/call/autocast.def has
 * it; NULL: it leaves it alone. And what it made of a bound call's floats, of an expression's parts
 * the type that was asked for before others; TD_DTYPE_none: they stayed what they were. */
const char *td_autocast_policy(const struct td_handle *handle);
enum td_dtype td_autocast_of(const struct td_run *run);

/* What a bound call costs in seconds on one thread: as far as is known, and what it can be relied
 * on not to take more than: what it took before, row, shapes and attributes being the same, or a
 * generous bound from its arithmetic, where that is little. INFINITY where a library would have to
 * make its code first. */
struct td_cost {
    double likely, most;
};
struct td_cost td_run_cost(struct td_run *run);

/* The common type of ATen's promotion rules. tensors: types of tensors with dimensions; zero_dim:
 * of tensors without; scalars: the kinds of plain numbers (types i64, f64 or bool); each a set.
 * TD_DTYPE_none: of none, or there is none. */
enum td_dtype td_promote_types(unsigned tensors, unsigned zero_dim, unsigned scalars);

#endif
