/* Tensor files as bodies: .npy and .safetensors. What is taken must lie in the file, or in the copy
 * that a Fortran order is put right in, to its last byte. */
#include "api/tensors/files.h"
#include "tests/fuzz/fuzz.h"

static uint64_t sum; /* so that reading is not left out */

static int look(void *arg, const char *key, const struct td_tensor *t, struct td_problem *problem)
{
    (void)arg;
    (void)problem;
    must(td_fits(t) && t->rank >= 0 && t->rank <= TD_MAX_RANK);
    sum += strlen(key);
    for (size_t i = 0; i < td_nbytes(t); i++)
        sum += ((const uint8_t *)t->data)[i];
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    fuzz_start();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_service service = {.limits.json_depth = 32};
    struct td_problem problem = {""};
    struct td_tensor t;
    struct td_arena *arena = td_arena_create();
    char *body = malloc(size ? size : 1); /* exact */
    struct td_request req = {
        .service = &service, .arena = arena, .body = memcpy(body, data, size), .body_size = size};
    int err = td_read_npy(&req, &t, &problem);
    must(!err == !*problem.text);
    if (!err)
        look(NULL, "", &t, &problem);
    *problem.text = 0;
    err = td_read_safetensors(&req, look, NULL, &problem);
    must(!err == !*problem.text);
    free(body);
    td_arena_destroy(arena);
    return 0;
}
