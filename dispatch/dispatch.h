/* Dispatch: what this CPU can do, which operators there are, and the way of one call from named
 * arguments to the implementation that runs it, with the reasons.
 *
 * Errors are 0 or a negative errno; the sentence for the user goes to a struct td_problem. */
#ifndef TD_DISPATCH_H
#define TD_DISPATCH_H

#include "kernels/kernels.h"

/* ---- the CPU ---- */

enum td_feature { /* CPUID's bits, in the order in which cpu-features prints them */
#define TD_FEATURE(id, name, leaf, subleaf, reg, bit) TD_FEATURE_##id,
#include "dispatch/features.def"
#undef TD_FEATURE
                  TD_FEATURES
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
    const char *vendor;    /* "AuthenticAMD" */
    const char *model;     /* marketing name */
    const char *uarch;     /* cpuinfo's microarchitecture */
    int cores, threads;
    char names_[160];
};

/* Detects from source and applies the cap (a level's name in lower case, NULL or "": none).
 * -EINVAL when the cap is none of the names, which problem then lists. */
int td_cpu_detect(struct td_cpu *cpu, const struct td_cpuid *source, const char *cap,
                  struct td_problem *problem);
/* Does it for the process, asks Linux for AMX, tells oneDNN. To be called by main before any other
 * thread runs; a second call does nothing. */
int td_cpu_init(const char *cap, struct td_problem *problem);
const struct td_cpu *td_cpu(void); /* the process's; never NULL after td_cpu_init */

bool td_cpu_has(const struct td_cpu *cpu, enum td_feature feature);
const char *td_feature_name(enum td_feature feature);
/* What level lacks on this CPU and OS, separated by ", "; "" when it runs. */
void td_cpu_missing(const struct td_cpu *cpu, enum td_isa level, char *text, size_t size);

/* ---- schemas: name[.overload](type name=default, *, ...) -> returns ---- */

enum td_base { /* a type's name, without ? and [] */
               TD_BASE_Tensor,
               TD_BASE_int,
               TD_BASE_float,
               TD_BASE_bool,
               TD_BASE_str,
               TD_BASE_Scalar,
               TD_BASE_ScalarType,
               TD_BASE_Layout,
               TD_BASE_Device,
               TD_BASE_MemoryFormat,
               TD_BASE_Generator,
               TD_BASE_Dimname,
               TD_BASES
};

struct td_type {
    enum td_base base;
    bool optional;      /* T? */
    bool list;          /* T[], T[N] */
    bool list_optional; /* T[]? */
    int list_size;      /* N of T[N]; a single value stands for N times itself */
    bool mutated;       /* (a!) */
    char alias[16];     /* what stands in the parentheses: "a!", "a -> *"; "" when none */
};

#define TD_NAME_SIZE 48

struct td_param {
    struct td_type type;
    char name[TD_NAME_SIZE];
    bool keyword_only;
    bool has_default;
    struct td_value def;   /* kind none: None; kind str: the text is default_str */
    char default_text[24]; /* as written */
    char default_str[24];  /* without quotes, when def is a str */
};

struct td_schema {
    char ns[TD_NAME_SIZE]; /* "" when none was given */
    char name[TD_NAME_SIZE], overload[TD_NAME_SIZE];
    int n_params;
    struct td_param param[TD_MAX_ARGS];
    bool vararg; /* ... at the end of the arguments */
    int n_returns;
    struct td_param ret[TD_MAX_OUTS];
    bool varret;
};

/* -EINVAL; problem says "column N: ..." (1 is the first). */
int td_schema_parse(struct td_schema *schema, const char *text, struct td_problem *problem);
/* Writes it back in canonical form, cut at size; returns its full length. */
size_t td_schema_format(const struct td_schema *schema, char *text, size_t size);
size_t td_type_format(const struct td_type *type, char *text, size_t size);

/* ---- the operators, live ---- */

struct td_handle { /* one overload; made by td_registry_init, lives as long as the process */
    const struct td_op *op;
    struct td_schema schema;
    int index;                   /* in td_ops */
    char full[2 * TD_NAME_SIZE]; /* "add.Tensor" */
    int n_overloads;             /* on the first overload of a name: how many stand there; else 0 */
};

/* Parses every schema of td_ops. -EINVAL when one is wrong (a programming error, said in problem),
 * -ENOMEM. */
int td_registry_init(struct td_problem *problem);
void td_registry_fini(void);
int td_registry_count(void);
const struct td_handle *td_registry_at(int index);
/* "add.Tensor" gives that overload, "add" its first one (with n_overloads). NULL when unknown. */
const struct td_handle *td_registry_find(const char *name);

/* ---- calls ---- */

struct td_named { /* an argument by name, as a client gives it */
    const char *name;
    struct td_value value; /* numbers as int or float, dtype as str, number lists as ints */
};

#define TD_MAX_CASTS 4

struct td_why { /* one candidate, for explain */
    const struct td_impl *impl;
    const char *reason; /* "chosen", or why not; a constant */
};

struct td_run { /* a call on its way: the kernel's part, and dispatch's around it */
    struct td_call call;
    const struct td_handle *handle;
    const struct td_impl *impl; /* once selected */
    const char *forced;         /* borrowed; the kernel asked for ("ref", "simd@AVX2") or NULL */
    int n_casts;                /* promotions to be made before the kernel runs */
    struct {
        int arg;
        struct td_tensor from;
    } cast[TD_MAX_CASTS];
    struct td_problem problem;
};

/* Finds the overload that the arguments fit and binds them: kinds converted, defaults filled in.
 * Then promotes types, and asks the rule; run->call.out[] has shapes and types afterwards.
 * name: "add" or "add.Tensor". run is zeroed first.
 * -ENOENT no such operator (or overload), -EINVAL the arguments are wrong; run->problem says what
 * and lists what would be right. */
int td_run_bind(struct td_run *run, const char *name, const struct td_named *args, int n_args);

/* Bytes that td_run_execute needs besides inputs and outputs: promoted inputs, the kernel's
 * scratch. Selects the implementation first (with call.threads set). -EINVAL when the forced kernel
 * does not exist or does not take this call. */
int td_run_select(struct td_run *run, size_t *scratch);
/* Runs it on the calling thread. scratch: borrowed, as many bytes as select said, 64-byte aligned.
 * out[].data must be set. */
void td_run_execute(struct td_run *run, void *scratch);

/* The level at which impl runs: its own, or the library's. */
enum td_isa td_impl_isa(const struct td_impl *impl);

/* Every candidate of the run's operator with why it was chosen or not; returns how many (at most
 * max). */
int td_run_explain(const struct td_run *run, struct td_why *why, int max);

/* What the call costs, in seconds on one thread, as far as known: the learned time of its operator
 * and implementation, else a guess from its arithmetic and bytes. */
double td_run_estimate(const struct td_run *run);

/* The common type of ATen's promotion rules. tensors: types of tensors with dimensions; zero_dim:
 * of tensors without; scalars: the kinds of plain numbers (types i64, f64 or bool); each a set. */
enum td_dtype td_promote_types(unsigned tensors, unsigned zero_dim, unsigned scalars);

#endif
