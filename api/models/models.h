/* The models that the server has, by name, without HTTP. Any thread may enter. Internal to api/. */
#ifndef TD_API_MODELS_H
#define TD_API_MODELS_H

#include "api/request/request.h"
#include "api/tensors/tensors.h"
#include "dispatch/model/model.h"

#include <stdatomic.h>

#define TD_COSTS 16 /* shapes of inputs of which it is known what a run takes */

struct td_models;

enum td_keeping { /* what a session keeps for an input */
                  TD_KEEP_none,
                  TD_KEEP_state,   /* what an output has after the run */
                  TD_KEEP_context, /* the end of what the run had there, to be put before what comes
                                      next */
                  TD_KEEP_sticky   /* what the client gave last */
};
struct td_kept {
    const char *name; /* of the state, or the input */
    const char *from; /* as td_model_state has it, or "settings" */
    enum td_keeping kind;
    int input, output; /* output: -1, unless it is state */
    int grows;         /* as td_model_state has them */
    bool needed, owns; /* owns: initial's data are the model's under its name, not the file's */
    struct td_tensor initial; /* first contents; without data: zeros, or for sticky none */
    int dim;                  /* of a context: its dimension, */
    int64_t keep;             /* and its size along that */
};
const char *td_keeping_name(enum td_keeping kind);

enum td_derived { /* an input that follows from how many tokens a session has seen */
                  TD_DERIVE_none,
                  TD_DERIVE_position, /* of each token */
                  TD_DERIVE_mask,     /* ones up to the last */
                  TD_DERIVE_last,     /* the last one's */
                  TD_DERIVE_length
};
const char *td_derived_name(enum td_derived derived);

struct td_served_file {        /* shared by all td_served of one file; references are counted */
    atomic_int refs, sessions; /* sessions that use the file; api/sessions counts them */
    /* Of digests.c: */
    struct td_digests *of;
    atomic_bool known;
    char digest[65]; /* SHA-256 in hexadecimal, once it is known: td_served_digest */
    bool queued;
    int readers; /* of the file's bytes, whose arena is held until the digest is known */
    struct td_arena *holder;
    const void *bytes;
    size_t size;
    struct td_served_file *next;
};

struct td_served { /* a model under a name; references are counted */
    atomic_int refs;
    struct td_model *model;
    struct td_weight_room *room; /* of which bytes were taken for it */
    size_t bytes;
    size_t file_bytes;
    int64_t load_ns;
    int n_inputs, n_outputs;     /* of the file; behind them are those that only states have, */
    int all_inputs, all_outputs; /* with which there are so many */
    const struct td_model_port *input, *output; /* borrowed of the model */
    /* What a session keeps. Settings change it for sessions that begin later: for those the name
     * leads to another td_served of the same model. */
    int n_states, n_needed; /* of which so many have no input in the file */
    struct td_kept *state;
    int *state_in, *state_out; /* by all inputs, and all outputs: whose they are, or -1 */
    unsigned char *derives;    /* by input: enum td_derived */
    bool *derives_said;        /* by settings */
    int tokens, logits;        /* the input and the output of generation, or -1 */
    char *settings;            /* those members of them that say so, as JSON; or NULL */
    struct td_served_file *file;
    atomic_llong calls, compute_ns; /* that went well */
    _Atomic size_t reply_bytes;     /* of the last one, about */
    _Atomic uint64_t cost_[TD_COSTS];
};

/* tensors, topology: borrowed, must outlive it; models and stored tensors share one budget. NULL:
 * out of memory. */
struct td_models *td_models_create(struct td_tensors *tensors, const struct td_topology *topology);
void td_models_destroy(struct td_models *models); /* NULL is fine */
/* Called with no lock held: a name is no more (now: NULL), or leads to this model now, and what
 * goes on with another file is to end. */
typedef void td_models_end(void *arg, const char *name, const struct td_served *now);
/* The settings that a file beside the model's has; what is wrong with them is said. */
typedef int td_models_set(void *arg, const char *name, const char *text, size_t size,
                          struct td_problem *problem);
void td_models_tell(struct td_models *models, td_models_end *end, td_models_set *set,
                    void *arg); /* NULL: nobody asks */
int td_models_set_by_file(struct td_models *models, const char *name, const char *text, size_t size,
                          struct td_problem *problem);
/* What goes on with a file that the name led to before ends. */
void td_models_end_old(struct td_models *models, const char *name);

/* Letters, digits, . _ -, not dots only; 200 at most; and it does not begin as operators do. */
bool td_models_name_is_right(const char *name);

/* A new reference, for td_served_unref; NULL when there is none. */
struct td_served *td_models_find(struct td_models *models, const char *name);
void td_served_unref(struct td_served **served); /* nulls the pointer; NULL is fine */
int td_models_remove(struct td_models *models, const char *name); /* 0 or -ENOENT */
int td_models_count(struct td_models *models);

struct td_model_file { /* as it has arrived */
    const void *bytes;
    size_t size;
    struct td_arena
        *holder;        /* the arena of the bytes, which may be held for longer than the call */
    const char *beside; /* as td_model_load has it */
};
/* Reads the file, which takes long, and gives the model its name: 201 it is new, 200 another was
 * replaced, and requests under way finish on that. room: who answers for it, NULL: the store alone.
 * name: a right one. made: gets a new reference to the model, or is NULL.
 * -EDQUOT (room's), -EINVAL, -ENOMEM, -ENOSPC, and nothing has changed. */
int td_models_load(struct td_models *models, struct td_weight_room *room, const char *name,
                   const struct td_model_file *file, struct td_served **made,
                   struct td_problem *problem);

/* Has sessions of the model keep what settings say; of them members other than state, sticky,
 * derived and roles are passed over. most: bytes that sessions may hold. Sessions that there are go
 * on as they began. -EINVAL: problem names the member, and nothing has changed; -ENOENT: there is
 * no such model; -ENOMEM, -ENOSPC, -EDQUOT. */
int td_models_settle(struct td_models *models, const char *name, const cJSON *settings, size_t most,
                     struct td_problem *problem);

/* The port as contents that are kept for it have it. */
struct td_model_port td_kept_port(const struct td_served *served, const struct td_kept *kept);
/* Whether such contents are right: -EINVAL. */
int td_kept_check(const struct td_served *served, const struct td_kept *kept,
                  const struct td_tensor *t, struct td_problem *problem);

struct td_models_listed {
    const char *name;
    struct td_served *served; /* a reference */
};
/* All that there are now, by name, in an array of the arena: how many, or -ENOMEM. */
int td_models_list(struct td_models *models, struct td_arena *arena,
                   struct td_models_listed **list);

/* A copy of the index's text, where it is kept and no name has come or gone since; else false, and
 * it is to be written, of a list that is asked for next, and kept as of those changes. */
bool td_models_index(struct td_models *models, struct td_arena *arena, const char **text,
                     size_t *size, uint64_t *changes);
void td_models_keep_index(struct td_models *models, const char *text, size_t size,
                          uint64_t changes);

/* The sentence for a name that no model has; gives back -ENOENT. */
int td_models_unknown(struct td_models *models, struct td_arena *arena, const char *name,
                      struct td_problem *problem);

/* ---- models.c ---- */

/* An input or output: its name, type and shape, in the words of the protocol's metadata, or of
 * Triton's configuration of a model. optional: it can be left out. */
void td_write_port(struct td_writer *w, const struct td_model_port *port, bool config,
                   bool optional);

/* The reply for a name that no model has. */
int td_api_no_model(struct td_request *req);

/* ---- digests.c: which file it is of ---- */

/* SHA-256 of the file, in hexadecimal; borrowed. Computed now where it is not known yet, which
 * takes up to some two seconds, for 512 MiB. */
const char *td_served_digest(const struct td_served *served);
/* Bytes that this would have to read; 0: it is known. */
size_t td_served_unhashed(const struct td_served *served);
/* Whether both are of files with the same bytes; as td_served_digest, where the sizes are equal. */
bool td_served_is_alike(const struct td_served *a, const struct td_served *b);
/* Whether that would have to compute a digest. */
bool td_served_must_hash(const struct td_served *a, const struct td_served *b);

/* ---- cost.c: what a run of it takes ---- */

/* Of inputs of these shapes, in seconds; INFINITY: nobody knows. */
double td_served_cost(const struct td_served *served, const struct td_tensor *inputs, bool eager);
void td_served_learn(struct td_served *served, const struct td_tensor *inputs, bool eager,
                     int64_t ns);

#endif
