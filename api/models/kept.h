/* How what a session keeps is put together from a file and settings. Internal to this room. */
#ifndef TD_API_KEPT_H
#define TD_API_KEPT_H

#include "api/json/json.h"
#include "api/models/models.h"

struct td_settling {
    struct td_served *served;
    struct td_kept *at; /* by input, also hidden ones; kind none: nothing is kept for it */
    struct td_tensors *tensors;
    size_t most; /* limit in bytes of what all sessions may hold; 0: it is not checked */
    struct td_problem *problem;
};

/* ---- kept.c ---- */

/* The input, also a hidden one, or the output that a member names; below 0: there is none, and the
 * sentence says so of who. */
int td_settle_input(const struct td_settling *s, const cJSON *item, const char *who);
int td_settle_output(const struct td_settling *s, const cJSON *item, const char *who);

/* Fills what a session keeps of a model, once: what its file has, and what settings say; NULL: they
 * say nothing. The ports are there. -EINVAL, -ENOMEM, -ENOSPC, -EDQUOT. */
int td_served_settle(struct td_served *served, const cJSON *settings, struct td_tensors *tensors,
                     size_t most, struct td_problem *problem);
void td_served_unsettle(struct td_served *served);
/* Whether the settings have a member that changes what sessions keep. */
bool td_settings_say(const cJSON *settings);

/* ---- served.c ---- */

struct td_digests;

/* Reads a file; of what a session keeps nothing is said yet. -EINVAL, -ENOMEM, what room says. */
int td_served_load(struct td_tensors *tensors, struct td_digests *digests,
                   struct td_weight_room *room, struct td_served **result,
                   const struct td_model_file *file, struct td_problem *problem);
/* Another of the same model, of which nothing is said either; NULL: there is no room. */
struct td_served *td_served_copy(struct td_tensors *tensors, const struct td_served *from,
                                 struct td_problem *problem);

/* ---- digests.c ---- */

/* topology: borrowed, must outlive it. NULL: out of memory. */
struct td_digests *td_digests_create(const struct td_topology *topology);
/* Once no file is left; NULL is fine. */
void td_digests_destroy(struct td_digests *digests);
/* With one reference. Those of a large file are hashed later. NULL: out of memory. */
struct td_served_file *td_served_file_create(struct td_digests *digests,
                                             const struct td_model_file *of);
void td_served_file_unref(struct td_served_file *file);

/* ---- kept_state.c ---- */

/* Reads the list of "state"; NULL: there is none. */
int td_settle_state(const struct td_settling *s, const cJSON *list);

#endif
