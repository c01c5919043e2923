/* The stored tensors by name, without HTTP. Any thread may enter. Internal to api/. */
#ifndef TD_API_TENSORS_H
#define TD_API_TENSORS_H

#include "kernels/weight.h"
#include "pools/pools.h"

struct td_tensors;
/* bytes: that names, tensors and all their forms may have of td_memory. NULL: out of memory. */
struct td_tensors *td_tensors_create(size_t bytes);
void td_tensors_destroy(struct td_tensors *tensors); /* after the last of its weights' users */
struct td_budget *td_tensors_budget(struct td_tensors *tensors);
/* shed gives back what is only kept for speed of the store's room; it is called where that is full,
 * with no lock held. */
void td_tensors_shed_by(struct td_tensors *tensors, void (*shed)(void *arg), void *arg);

/* Who answers for what is kept in the server: models' constants have their bytes there, too. */
struct td_weight_room *td_tensors_room(struct td_tensors *tensors);

/* Letters, digits, . _ - in segments split by '/', none of them dots only; 200 at most. */
bool td_tensors_name_is_right(const char *name);

/* A new reference to the stored tensor, for td_weight_unref; NULL when there is none. */
struct td_weight *td_tensors_find(struct td_tensors *tensors, const char *name);
int td_tensors_remove(struct td_tensors *tensors, const char *name); /* 0 or -ENOENT */

int td_tensors_count(struct td_tensors *tensors);

struct td_tensors_listed {
    const char *name;
    struct td_weight *weight; /* a reference, for td_weight_unref */
};
/* All that are stored now, or those whose names begin with "UNDER/", in an array of the arena: how
 * many, or -ENOMEM. */
int td_tensors_list(struct td_tensors *tensors, struct td_arena *arena, const char *under,
                    struct td_tensors_listed **list);
int td_tensors_remove_under(struct td_tensors *tensors, const char *under); /* how many, or 0 */

/* As td_weight_create, a weight that counts as the store's from now on. room: who answers for it,
 * as a part of the store (td_access_room); NULL: the store alone. -ENOMEM, -ENOSPC: the store is
 * full, or what room says. */
int td_tensors_make(struct td_tensors *tensors, struct td_weight_room *room,
                    struct td_weight **weight, const struct td_tensor *like);

/* The sentence for -ENOSPC, -EDQUOT or -ENOMEM of the store; what: that has no place. Gives back
 * err. */
int td_tensors_no_room(const struct td_tensors *tensors, int err, const char *what,
                       struct td_problem *problem);

struct td_tensors_new { /* a tensor on its way into the store */
    struct td_tensors_new *next;
    const char *name;
    struct td_weight *weight;         /* a reference */
    const struct td_weight *expected; /* what must have the name until then; NULL: any or none */
};
/* Gives all of the list their names at once, or none of them; takes the references in any case.
 * 201 one of the names is new, 200 all are replaced, -EBUSY one has another tensor than expected,
 * -ENOMEM, -ENOSPC. */
int td_tensors_put(struct td_tensors *tensors, struct td_tensors_new *list);

/* ---- .npy, of requests and replies ---- */

struct td_request;
/* Whether the body is one, by its first bytes. */
bool td_is_npy(const struct td_request *req);
/* Reads a .npy body (format 1.0 to 3.0, little-endian, C or Fortran order) into a view over it,
 * whose data may be unaligned, or over a copy in the arena, in C order. -EINVAL, -ENOMEM. */
int td_read_npy(struct td_request *req, struct td_tensor *t, struct td_problem *problem);
/* Its head, before the elements: how long it is, or 0: NumPy has no such type. */
#define TD_NPY_HEAD 256
size_t td_npy_head(const struct td_tensor *t, char head[TD_NPY_HEAD]);
/* Makes a copy of the tensor the response. What td_api_problem gives back. */
int td_npy_response(struct td_request *req, const struct td_tensor *t);

/* ---- .safetensors ---- */

/* Calls each for every tensor of a .safetensors body, in the order of their data, once all of it
 * has been judged; stops at the first error and gives it back. t->data may be unaligned and lives
 * as long as the body. -EINVAL. */
typedef int td_each_tensor(void *arg, const char *key, const struct td_tensor *t,
                           struct td_problem *problem);
int td_read_safetensors(struct td_request *req, td_each_tensor *each, void *arg,
                        struct td_problem *problem);
/* A text of the file's __metadata__, in the arena; NULL where there is none. */
const char *td_safetensors_text(struct td_request *req, const char *key);

struct td_file_tensor {
    const char *name;
    const struct td_tensor *tensor;
};
/* Makes a file of the tensors the response. text: keys and values of its __metadata__, in turn, up
 * to a NULL; or NULL. What td_api_problem gives back. */
int td_safetensors_response(struct td_request *req, const struct td_file_tensor *list, int n,
                            const char *const *text);

#endif
