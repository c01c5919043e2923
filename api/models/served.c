/* A model as a name leads to it: the model of a file, and what a session of it keeps. */
#include "api/models/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_served(struct td_served *served)
{
    td_model_unref(&served->model);
    td_served_unsettle(served);
    if (served->file)
        td_served_file_unref(served->file);
    served->room->give(served->room, served->bytes, true);
    free(served);
}

void td_served_unref(struct td_served **served)
{
    struct td_served *old = *served;
    *served = NULL;
    if (old && atomic_fetch_sub(&old->refs, 1) == 1)
        free_served(old);
}

static void note_ports(struct td_served *served)
{
    served->n_inputs = td_model_inputs(served->model, &served->input);
    served->n_outputs = td_model_outputs(served->model, &served->output);
    served->all_inputs = td_model_all_inputs(served->model);
    served->all_outputs = td_model_all_outputs(served->model);
}

int td_served_load(struct td_tensors *tensors, struct td_digests *digests,
                   struct td_weight_room *room, struct td_served **result,
                   const struct td_model_file *file, struct td_problem *problem)
{
    struct td_served *served = calloc(1, sizeof *served);
    size_t bytes = sizeof *served + sizeof *served->file;
    int64_t begin = td_now_ns();
    int err = served ? room->take(room, bytes, true) : -ENOMEM;
    if (err) {
        free(served);
        return td_tensors_no_room(tensors, err, "the model", problem);
    }
    served->room = room;
    served->bytes = bytes;
    served->file_bytes = file->size;
    atomic_init(&served->refs, 1);
    err = td_model_load(&served->model, file->bytes, file->size, file->beside, room, problem);
    if (err && err != -EINVAL)
        td_tensors_no_room(tensors, err, "the model", problem);
    if (!err) {
        note_ports(served);
        served->file = td_served_file_create(digests, file);
        if (!served->file)
            err = td_tensors_no_room(tensors, -ENOMEM, "the model", problem);
        served->load_ns = td_now_ns() - begin;
    }
    if (err)
        free_served(served);
    else
        *result = served;
    return err;
}

struct td_served *td_served_copy(struct td_tensors *tensors, const struct td_served *from,
                                 struct td_problem *problem)
{
    struct td_served *served = calloc(1, sizeof *served);
    int err = served ? from->room->take(from->room, sizeof *served, true) : -ENOMEM;
    if (err) {
        free(served);
        td_tensors_no_room(tensors, err, "the settings", problem);
        return NULL;
    }
    served->room = from->room;
    served->bytes = sizeof *served;
    served->file_bytes = from->file_bytes;
    served->load_ns = from->load_ns;
    atomic_init(&served->refs, 1);
    served->model = td_model_ref(from->model);
    served->file = from->file;
    atomic_fetch_add(&served->file->refs, 1);
    note_ports(served);
    served->calls = (long long)from->calls;
    served->compute_ns = (long long)from->compute_ns;
    for (int i = 0; i < TD_COSTS; i++)
        served->cost_[i] = (uint64_t)from->cost_[i];
    return served;
}
