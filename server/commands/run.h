/* A model without a server: asking (once.c), times (times.c), and what `tensord run` shows
 * (run_show.c). Internal to server/. */
#ifndef TD_SERVER_RUN_H
#define TD_SERVER_RUN_H

#include "api/api.h"
#include "api/json/json.h"

#define TD_ONCE_INPUTS 64

struct td_once {      /* one model and how it is run */
    const char *word; /* the command */
    const char *model, *directory;
    const char *input[TD_ONCE_INPUTS], *shape[TD_ONCE_INPUTS]; /* NAME=FILE, NAME=1,3,224,224 */
    int n_inputs, n_shapes;
    /* Gives an input without a file its elements, in the arena: 0, or -ENOMEM. NULL: nobody does.
     */
    int (*fill)(struct td_arena *arena, struct td_tensor *input);
    /* The same for those that it knows by their names: 1, it does not. NULL: it knows none. */
    int (*fill_named)(struct td_once *once, const char *name, struct td_arena *arena,
                      struct td_tensor *input);
    bool eager, explain, json;
    bool explains; /* the call asks for it */
    int streams;   /* that the call is split over; 0: it is not */
    long repeat;
    char *why; /* what failed goes there and not to standard error; NULL: it does */
    size_t why_size;
    struct td_service service;
    struct td_worker *worker;
    int (*run)(struct td_once *once);
    int failed, n_numbers;
};

/* Says it, where once wants it said; gives back 1. */
int td_once_fail(const struct td_once *once, const char *why);

/* Makes the service with these pools, has run called, on this thread, and takes all down. What run
 * gave back, or 1 once an error has been said. */
int td_once_on_machine(struct td_once *once, const struct td_pool_config *configs, int n,
                       int (*run)(struct td_once *once));
/* Has a worker of the pool, NULL: the first one, call run, with once->worker set. What it gave. */
int td_once_on_pool(struct td_once *once, const char *name, int (*run)(struct td_once *once));

struct td_answer { /* one request and its reply */
    struct td_arena *arena;
    struct td_request *req;
};
void td_once_forget(struct td_answer *answer);
struct td_ask {
    enum td_method method;
    const char *path;
    char *body; /* in the answer's arena, if it is a model's file; else it outlives the answer */
    size_t size;
    const char *type, *beside;
    const char *(*header)(struct td_request *req, const char *name); /* or NULL */
};
/* Asks on the worker, which calls it; the answer's arena is there. 0, or 1 once the problem that it
 * is has been said. */
int td_once_ask(struct td_once *once, struct td_worker *worker, struct td_answer *answer,
                const struct td_ask *what);
/* The call that td_once_write_call has written. */
int td_once_infer(struct td_once *once, struct td_worker *worker, struct td_answer *answer,
                  char *call, size_t size);
/* Puts a file there. */
int td_once_put(struct td_once *once, const char *path, const char *file, const char *type);
/* The same with a file's bytes, which lie in the arena; others may hold that after the call.
 * beside: where files lie that it names, or NULL. */
int td_once_put_bytes(struct td_once *once, const char *path, struct td_arena *arena, char *bytes,
                      size_t size, const char *type, const char *beside);
/* What the server says there, parsed; both are to be freed in any case. */
int td_once_describe(struct td_once *once, const char *path, struct td_answer *answer,
                     struct td_json *json);
/* Stores the inputs, and writes those of a call. inputs: as /v1/models says them. */
int td_once_store(struct td_once *once, struct td_writer *list, const cJSON *inputs);
/* A call with these inputs for the pool of the worker that is to run it; NULL: the first one. */
int td_once_write_call(struct td_once *once, struct td_writer *call, const struct td_writer *list,
                       const char *pool);

/* ---- times ---- */

struct td_times { /* microseconds: all, or every so many of them */
    float *us;
    long n, room, every, seen;
};
void td_times_add(struct td_times *times, double us);
void td_times_join(struct td_times *times, const struct td_times *more);
void td_times_sort(struct td_times *times);
/* Of sorted ones: within how many this share of them is; 0: the least. */
double td_times_within(const struct td_times *times, double share);
void td_times_free(struct td_times *times);
/* Makes the call once more and adds what it took to compute. */
int td_once_time(struct td_once *once, struct td_worker *worker, const struct td_writer *call,
                 struct td_times *times);

/* Shows what the model has answered, and writes its outputs into the directory if there is one.
 * model: what /v1/models says of it. 0, or 1 once an error has been said. */
int td_once_show(struct td_once *once, const cJSON *model, const struct td_response *res);

#endif
