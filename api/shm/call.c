/* Tensors of a call that lie in clients' shared memory. One is used where it lies. Copied are:
 * elements that are not aligned to their size; BOOL inputs and those whose values a kernel follows
 * (indices, divisors), which are checked and must not change afterwards; and an output that lies
 * exactly where an input does, since not every kernel may write what it has yet to read. Anything
 * else may change under a kernel: what it reads twice may differ, which spoils that client's own
 * result and nothing else. Bounds are judged at every use, against the region and against what is
 * left of the segment at that moment. */
#include "api/access/access.h"
#include "api/shm/shm.h"

#include <errno.h>
#include <string.h>

bool td_shm_is_meant(const cJSON *parameters)
{
    return cJSON_GetObjectItemCaseSensitive(parameters, "shared_memory_region") != NULL;
}

static int refuse_broken(const struct td_shm_part *part, struct td_problem *problem)
{
    return td_problem_set(problem, EINVAL,
                          "%s: its shared memory was taken away while it was in use: the segment "
                          "shrank, or the system had no memory for it; unregister the region and "
                          "register it anew",
                          part->who);
}

/* Reads the three parameters; part has then a reference to the region's segment. */
static int find_part(struct td_request *req, const cJSON *parameters, const char *who,
                     struct td_shm_part *part, struct td_problem *problem)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(parameters, "shared_memory_region");
    *part = (struct td_shm_part){.who = who};
    if (!td_access_may(req, TD_SCOPE_admin))
        return td_problem_set(problem, EKEYREJECTED,
                              "%s: the token has not the scope admin, which shared memory needs",
                              who);
    if (!cJSON_IsString(name))
        return td_problem_set(problem, EINVAL,
                              "%s: shared_memory_region must be the name of a region", who);
    if (!cJSON_HasObjectItem(parameters, "shared_memory_byte_size"))
        return td_problem_set(problem, EINVAL, "%s: shared_memory_byte_size is missing", who);
    int err = td_json_bytes(parameters, "shared_memory_byte_size", who, &part->size, problem);
    if (!err)
        err = td_json_bytes(parameters, "shared_memory_offset", who, &part->at, problem);
    if (err)
        return err;
    part->segment = td_shm_find(req, name->valuestring);
    if (!part->segment)
        return td_problem_set(problem, ENOENT,
                              "%s: no shared memory region '%.100s'; GET "
                              "/v2/systemsharedmemory/status lists them",
                              who, name->valuestring);
    return 0;
}

/* Whether the part's first bytes, as many as a tensor needs, are there now. */
static int check_part(const struct td_shm_part *part, struct td_problem *problem)
{
    size_t size = td_segment_size(part->segment);
    if (part->at >= size + !part->size || part->size > size - part->at)
        return td_problem_set(problem, EINVAL,
                              "%s: %zu bytes from offset %zu are not within the region, which has "
                              "%zu",
                              part->who, part->size, part->at, size);
    if (td_segment_is_broken(part->segment))
        return refuse_broken(part, problem);
    size_t left = td_segment_left(part->segment);
    if (part->size && part->at + part->size > left)
        return td_problem_set(problem, EINVAL,
                              "%s: the segment has shrunk since the region was registered; %zu "
                              "bytes of it are left, %zu are needed",
                              part->who, left, part->at + part->size);
    return 0;
}

/* For pages of the part that touching it makes. */
static int charge_part(struct td_shm_part *part, struct td_problem *problem)
{
    if (!td_segment_charge(part->segment, part->at, part->size, &part->charged))
        return 0;
    return td_problem_set(problem, ENOMEM,
                          "%s: no memory for pages of shared memory that nobody has written yet",
                          part->who);
}

static bool is_aligned(const char *data, const struct td_tensor *t)
{
    return (uintptr_t)data % td_dtype_size(t->dtype) == 0;
}

int td_shm_input(struct td_shm_call *call, struct td_request *req, const cJSON *parameters,
                 const char *who, bool followed, struct td_tensor *t, struct td_problem *problem)
{
    size_t bytes = td_nbytes(t);
    if (call->n_in == TD_MAX_INPUTS)
        return td_problem_set(problem, EINVAL, "%s: too many inputs in shared memory", who);
    struct td_shm_part *part = &call->in[call->n_in++];
    *part = (struct td_shm_part){0};
    int err = find_part(req, parameters, who, part, problem);
    if (!err && part->size != bytes)
        err = td_problem_set(problem, EINVAL,
                             "%s: shared_memory_byte_size is wrong; its shape and datatype need "
                             "%zu bytes",
                             who, bytes);
    if (!err)
        err = check_part(part, problem);
    if (!err)
        err = charge_part(part, problem);
    if (err)
        return err;
    t->data = td_segment_data(part->segment) + part->at;
    if (followed || t->dtype == TD_bool || !is_aligned(t->data, t)) {
        void *copy = td_arena_alloc(req->arena, bytes + 1);
        if (!copy)
            return td_problem_set(problem, ENOMEM, "no memory for %s", who);
        t->data = memcpy(copy, t->data, bytes);
    }
    return 0;
}

int td_shm_output(struct td_shm_call *call, struct td_request *req, const cJSON *parameters,
                  const char *who, int i, bool read, struct td_problem *problem)
{
    const cJSON *binary = cJSON_GetObjectItemCaseSensitive(parameters, "binary_data");
    if (cJSON_IsTrue(binary))
        return td_problem_set(problem, EINVAL,
                              "%s: cannot go into shared memory and into the reply; leave out "
                              "binary_data or shared_memory_region",
                              who);
    if (i >= TD_MAX_INPUTS)
        return td_problem_set(problem, EINVAL,
                              "%s: is beyond the %d outputs that can go into shared memory", who,
                              TD_MAX_INPUTS);
    for (; call->n_out <= i; call->n_out++) {
        call->out[call->n_out] = (struct td_shm_part){0};
        call->aside[call->n_out] = false;
    }
    call->aside[i] = read;
    return find_part(req, parameters, who, &call->out[i], problem);
}

/* Judges the place of output i against another tensor's. */
static int check_overlap(struct td_shm_call *call, int i, const struct td_shm_part *other,
                         bool other_is_input, struct td_problem *problem)
{
    const struct td_shm_part *out = &call->out[i];
    enum td_overlap overlap = td_segment_overlap(out->segment, out->at, out->size, other->segment,
                                                 other->at, other->size);
    if (overlap == TD_SAME && other_is_input)
        call->aside[i] = true;
    else if (overlap != TD_APART)
        return td_problem_set(problem, EINVAL,
                              "%s: overlaps %s in shared memory; an output lies apart from all "
                              "other tensors, or exactly where one input does",
                              out->who, other->who);
    return 0;
}

int td_shm_place(struct td_shm_call *call, struct td_arena *arena, int i, struct td_tensor *out,
                 struct td_problem *problem)
{
    struct td_shm_part *part = &call->out[i];
    size_t bytes = td_nbytes(out);
    int err = 0;
    if (bytes > part->size)
        return td_problem_set(problem, EINVAL,
                              "%s: shared_memory_byte_size is %zu; the result has %zu bytes",
                              part->who, part->size, bytes);
    if ((err = check_part(part, problem)))
        return err;
    part->size = bytes;
    for (int k = 0; k < call->n_in && !err; k++)
        err = check_overlap(call, i, &call->in[k], true, problem);
    for (int k = 0; k < i && !err; k++)
        if (call->out[k].segment)
            err = check_overlap(call, i, &call->out[k], false, problem);
    if (!err)
        err = charge_part(part, problem);
    if (err)
        return err;
    out->data = td_segment_data(part->segment) + part->at;
    if (!is_aligned(out->data, out))
        call->aside[i] = true;
    if (call->aside[i] && !(out->data = td_arena_alloc(arena, bytes + 1)))
        return td_problem_set(problem, ENOMEM, "no memory for the result");
    return 0;
}

int td_shm_end(struct td_shm_call *call, const struct td_tensor *out, struct td_problem *problem)
{
    for (int i = 0; i < call->n_out; i++) {
        struct td_shm_part *part = &call->out[i];
        if (part->segment && call->aside[i])
            memcpy(td_segment_data(part->segment) + part->at, out[i].data, td_nbytes(&out[i]));
        if (part->segment && td_segment_is_broken(part->segment))
            return refuse_broken(part, problem);
    }
    for (int i = 0; i < call->n_in; i++)
        if (td_segment_is_broken(call->in[i].segment))
            return refuse_broken(&call->in[i], problem);
    return 0;
}

static void release(struct td_shm_part *part)
{
    if (part->segment) {
        td_segment_settle(part->segment, part->at, part->size, part->charged);
        td_segment_clear(part->segment);
    }
    td_segment_unref(&part->segment);
}

void td_shm_release(struct td_shm_call *call)
{
    for (int i = 0; i < call->n_in; i++)
        release(&call->in[i]);
    for (int i = 0; i < call->n_out; i++)
        release(&call->out[i]);
    call->n_in = call->n_out = 0;
}

int td_shm_copy(struct td_request *req, const cJSON *parameters, const char *who,
                struct td_tensor *t, struct td_problem *problem)
{
    struct td_shm_call call;
    call.n_in = call.n_out = 0;
    int err = td_shm_input(&call, req, parameters, who, false, t, problem);
    void *copy = err ? NULL : td_arena_alloc(req->arena, td_nbytes(t) + 1);
    if (!err && !copy)
        err = td_problem_set(problem, ENOMEM, "no memory for %s", who);
    if (!err) {
        t->data = memcpy(copy, t->data, td_nbytes(t));
        err = td_shm_end(&call, NULL, problem);
    }
    td_shm_release(&call);
    return err;
}
