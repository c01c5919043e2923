/* The system shared memory extension: regions that clients have registered by name, and tensors of
 * a call that lie in them. Internal to api/. */
#ifndef TD_API_SHM_H
#define TD_API_SHM_H

#include "api/request/request.h"
#include "api/shm/segment.h"

/* ---- shm.c ---- */

struct td_shm *td_shm_create(void); /* NULL: out of memory */
void td_shm_destroy(struct td_shm *shm);
bool td_shm_is_open(const struct td_request *req); /* clients' regions are taken where it came */
/* A new reference to the region's segment, for td_segment_unref; NULL when there is none. */
struct td_segment *td_shm_find(const struct td_request *req, const char *name);

/* ---- call.c ---- */

/* What one call uses of shared memory: most use none, and then it must cost nothing. */
struct td_shm_part { /* bytes of a segment */
    struct td_segment *segment;
    size_t at, size;
    size_t charged;  /* of td_memory, for pages that were not there */
    const char *who; /* the tensor's name; borrowed */
};

struct td_shm_call {
    int n_in, n_out; /* what of the rest is set; both 0 at first, set so by its owner */
    struct td_shm_part in[TD_MAX_INPUTS],
        out[TD_MAX_INPUTS];    /* an out without segment lies elsewhere */
    bool aside[TD_MAX_INPUTS]; /* computed elsewhere, to be copied by td_shm_end */
};

/* Whether an input's or output's parameters name a region. */
bool td_shm_is_meant(const cJSON *parameters);

/* Finds the elements of an input, whose shape and type are set; t->data is then in the region or,
 * where kernels could not use that, a copy in the request's arena. followed: its values decide what
 * a kernel reads or writes. -ENOENT (no such region), -EINVAL, -ENOMEM. */
int td_shm_input(struct td_shm_call *call, struct td_request *req, const cJSON *parameters,
                 const char *who, bool followed, struct td_tensor *t, struct td_problem *problem);
/* Notes where output i is wanted. read: the call may read it again, so it is made elsewhere: its
 * client may change what lies there. -ENOENT, -EINVAL. */
int td_shm_output(struct td_shm_call *call, struct td_request *req, const cJSON *parameters,
                  const char *who, int i, bool read, struct td_problem *problem);
/* Sets out->data of output i, of which td_shm_output was told. -EINVAL: it does not fit, or
 * overlaps another tensor of the call in part. -ENOMEM. */
int td_shm_place(struct td_shm_call *call, struct td_arena *arena, int i, struct td_tensor *out,
                 struct td_problem *problem);
/* To be called when the outputs have been computed: brings them where they should be. -EINVAL when
 * the memory did not hold: the results are then worth nothing. */
int td_shm_end(struct td_shm_call *call, const struct td_tensor *out, struct td_problem *problem);
void td_shm_release(struct td_shm_call *call); /* what it refers to; it is then as at first */

/* Copies the elements of a single tensor into the arena. As td_shm_input and td_shm_end. */
int td_shm_copy(struct td_request *req, const cJSON *parameters, const char *who,
                struct td_tensor *t, struct td_problem *problem);

#endif
