/* The registry: operators by name, the kernels registered for them under dispatch keys, and per
 * operator the table computed from these: for each key, the kernel that a call goes to. Written
 * under a lock, mostly by main at the start; read without one. */
#ifndef TD_DISPATCH_REGISTRY_H
#define TD_DISPATCH_REGISTRY_H

#include "dispatch/registry/keys.h"
#include "dispatch/registry/schema.h"

struct td_run;
struct td_table;
struct td_registration;

struct td_handle { /* one overload; lives as long as the process */
    const struct td_op *op;
    struct td_schema schema;
    int index;                    /* its place in the list of all */
    char full[2 * TD_NAME_SIZE];  /* "add.Tensor" */
    const struct td_handle *next; /* the next overload of the name, to be tried after it */
    bool first;                   /* of its name */
    const char *origin;           /* where it was defined: "kernels/ops.def:3" */
    _Atomic(const struct td_table *) table;
    struct td_registration *kernels; /* newest first */
};

/* Defines every operator of td_ops and registers its kernels, and what dispatch itself brings
 * (dispatch/setup.c). -EINVAL when one is wrong (a programming error, said in problem),
 * -ENOMEM. */
int td_registry_init(struct td_problem *problem);
void td_registry_fini(void);
int td_registry_count(void);
const struct td_handle *td_registry_at(int index);
/* "add.Tensor" gives that overload, "add" its first one. NULL when unknown. */
const struct td_handle *td_registry_find(const char *name);

/* ---- registering ---- */

/* A boxed kernel: gets the call with its arguments in run->call, and the keys it was chosen by.
 * Either settles the call (fills run->call.out with shapes and types) or changes it and passes it
 * on with td_redispatch(run, keys & td_keyset_below(its own key)). 0 or -errno with the sentence in
 * run->problem. It is called when a call is bound; no data is touched then. */
typedef int td_boxed(struct td_run *run, td_keyset keys);

struct td_kernel_def {
    enum td_key key;
    td_boxed *boxed;            /* this, or */
    const struct td_impl *rows; /* unboxed kernels, best first; with neither: fall through */
    const char *signature;      /* the schema it was written for, compared with the operator's; or
                                   NULL */
    const char *origin;         /* "file:line": TD_HERE */
};

#define TD_HERE_TEXT_(line) #line
#define TD_HERE_TEXT(line) TD_HERE_TEXT_(line)
#define TD_HERE (__FILE__ ":" TD_HERE_TEXT(__LINE__))

struct td_registration { /* made by the functions below; read-only */
    struct td_kernel_def def;
    char op[2 * TD_NAME_SIZE]; /* "" for a backend's fallback */
    struct td_registration *next;
};

/* Defines an operator beyond td_ops. -EEXIST (with both origins) when there is one of its name,
 * -EINVAL when its schema is wrong or a kernel registered before was written for another one,
 * -ENOSPC beyond 64 of them, -ENOMEM. */
int td_define(const struct td_op *op, const char *origin, struct td_problem *problem);
/* Registers a kernel of an operator, which may be defined later. A kernel already there for the key
 * is shadowed: 0, and problem says by whom; unregistering brings it back. -EINVAL when the
 * signatures differ; -ENOMEM. *made may be NULL. op "": as td_register_fallback. */
int td_register(const char *op, const struct td_kernel_def *def, struct td_registration **made,
                struct td_problem *problem);
/* The kernel of all operators that have none for def->key. -EEXIST when the key has one. */
int td_register_fallback(const struct td_kernel_def *def, struct td_registration **made,
                         struct td_problem *problem);
void td_unregister(struct td_registration **made); /* nulls it; NULL is fine */

/* ---- the computed table ---- */

enum td_provenance { /* why a key's kernel is the one it is */
                     TD_FROM_missing,
                     TD_FROM_kernel,
                     TD_FROM_default, /* CompositeExplicitAutograd */
                     TD_FROM_math,    /* CompositeImplicitAutograd */
                     TD_FROM_autograd,
                     TD_FROM_ambiguous, /* AutogradOther, when one of its backends has kernels */
                     TD_FROM_fallback,
};
/* "kernel", "default backend kernel", "math kernel", ... "missing" */
const char *td_provenance_name(enum td_provenance provenance);

struct td_entry {
    const struct td_registration *from; /* NULL: none */
    enum td_provenance provenance;
    bool fallthrough;
};

struct td_table {
    struct td_entry entry[TD_TABLE_SIZE];
    td_keyset through[TD_BACKENDS_END]; /* by highest backend: the keys that are not passed over */
    const struct td_table *retired;     /* the one before; internal */
};

const struct td_table *td_handle_table(const struct td_handle *handle);
/* Whether place i of the table is a backend's, and holds a kernel. */
bool td_table_has_backend(const struct td_table *table, int i);
/* Names that have kernels but no schema; returns how many (at most max are written). */
int td_registry_dangling(const char **names, int max);
/* A counter that changes whenever a table does: for whoever keeps what was bound. */
unsigned td_registry_changes(void);
/* Computes every table anew and compares. -EINVAL when one is not what it should be. */
int td_registry_check(struct td_problem *problem);

/* Computes all tables, which follow every registration from here on. For td_registry_init. -ENOMEM.
 */
int td_registry_open(struct td_problem *problem);
/* The operators of kernels/, without a kernel. For td_registry_init, which is in dispatch/setup.c.
 */
int td_registry_define(struct td_problem *problem);

#endif
