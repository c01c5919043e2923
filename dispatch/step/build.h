/* What a step is made in, between the file that walks a run's parts and the one that makes units of
 * their calls. Internal to dispatch/. */
#ifndef TD_DISPATCH_STEP_BUILD_H
#define TD_DISPATCH_STEP_BUILD_H

#include "dispatch/call/own.h"
#include "dispatch/step/own.h"

#define FIXED (-1) /* from nowhere: it stays where it is */

struct source { /* where a tensor's data come from */
    int from;
    void *data; /* at first */
    size_t at;
};

struct made { /* a part, once it is there */
    const struct td_run *run;
    struct source *out;
    struct unit *unit;
};

struct build {
    struct td_step *step;
    void *(*alloc)(void *arg, size_t bytes);
    void *alloc_arg;
    int n_units, n_links, n_sources, n_made; /* at most; then so far */
    struct source *source;                   /* workspace */
    struct made *made;
    struct link *link;
    char *block; /* for what is measured, bytes of it left */
    size_t left;
    size_t room, temporary; /* bytes of scratch: for kernels, and behind it for what is between */
    int error;
};

/* Memory of the step: from one block as far as that was measured, which lists and texts are not.
 * NULL: there is none, which error says from then on. */
void *td_build_take(struct build *b, size_t bytes);
/* Room in scratch for a tensor that is between units. */
struct source td_build_temporary(struct build *b, const struct td_tensor *t);

int td_count_tensors_of(const struct td_value *v);
/* The number of an argument's first tensor among all of the call. */
int td_place_of(const struct td_call *call, int arg);

/* The units of a run without parts: its kernel, and before it copies of what this does not take as
 * it is. in: where its tensors' data are, which becomes where those of copies are. */
void td_build_call(struct build *b, const struct td_run *run, struct source *in,
                   const struct source *out);

#endif
