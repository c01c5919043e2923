/* A cell of `bench --all-candidates`: a call made from an operator's sample, as large as is wanted.
 */
#include "server/bench/bench.h"

#include "kernels/elementwise.h"
#include "kernels/weight.h"

#include <errno.h>
#include <string.h>

/* The largest tensor of the call; 0: there is none such. */
static int64_t bind(struct td_bench_cell *cell, int64_t size)
{
    int64_t most = 0;
    td_sample_read(&cell->args, &cell->handle->schema, cell->sample,
                   &(struct td_sizes){size, size, size}, cell->dtype);
    if (td_run_bind(&cell->run, cell->handle->full, cell->args.arg, cell->args.n_args, NULL))
        return 0;
    for (int i = 0; i < cell->args.n_tensors; i++) {
        int64_t n = td_numel(cell->args.tensor[i].tensor);
        most = n > most ? n : most;
    }
    for (int i = 0; i < cell->run.call.n_out; i++) {
        int64_t n = td_numel(&cell->run.call.out[i]);
        most = n > most ? n : most;
    }
    return most;
}

/* What letters stand for so that the call is of that class; 0: no size makes it so. */
static int64_t size_for(struct td_bench_cell *cell, int64_t class)
{
    int64_t found = 0, size = 1;
    cell->elements = 0;
    while (size <= class) {
        int64_t n = bind(cell, size);
        if (n > class || (n && n == cell->elements)) /* or letters change nothing */
            break;
        if (n) {
            found = size;
            cell->elements = n;
        }
        size = size & (size - 1) ? (size + 1) / 3 * 4 : size * 3 / 2 + (size == 1);
    }
    return cell->elements * 4 > class || cell->elements == class ? found : 0;
}

/* Behind its end lies what kernels may read, and mask: 64 bytes that are there. */
static int fill(struct td_bench_cell *cell, const struct td_sample_tensor *of)
{
    struct td_tensor *t = of->tensor;
    uint32_t seed = 12345;
    if (!(t->data = td_arena_zalloc(cell->arena, td_nbytes(t) + 64)))
        return -ENOMEM;
    for (int64_t i = 0; i < td_numel(t); i++) {
        seed = seed * 1664525 + 1013904223;
        int64_t whole = of->below < 0 ? 1 + (seed >> 25) : of->below ? (seed >> 8) % of->below : 0;
        if (td_dtype_kind(t->dtype) == 'f')
            td_put_real(t, i, (double)(seed >> 8) * 0x1p-23 - 0.99);
        else
            td_put_whole(t, i, t->dtype == TD_bool ? whole & 1 : whole);
    }
    return 0;
}

/* The argument called weight is stored, where that is wanted. */
static int give_data(struct td_bench_cell *cell)
{
    for (int i = 0; i < cell->args.n_tensors; i++) {
        struct td_sample_tensor *t = &cell->args.tensor[i];
        if (fill(cell, t))
            return -ENOMEM;
        if (!cell->stored || strcmp(cell->handle->schema.param[t->param].name, "weight") != 0)
            continue;
        if (td_weight_create(&cell->weight, t->tensor, NULL))
            return -ENOMEM;
        *t->tensor = *td_weight_tensor(cell->weight);
    }
    if (td_run_bind(&cell->run, cell->handle->full, cell->args.arg, cell->args.n_args, NULL) ||
        !cell->run.rows) /* of parts, or of nothing */
        return -EINVAL;
    cell->run.call.threads = 1;
    for (int i = 0; i < cell->run.call.n_out; i++)
        if (!(cell->run.call.out[i].data =
                  td_arena_zalloc(cell->arena, td_nbytes(&cell->run.call.out[i]) + 64)))
            return -ENOMEM;
    return 0;
}

int td_bench_cell_begin(struct td_bench_cell *cell, int64_t elements)
{
    int64_t size = size_for(cell, elements);
    if (!size)
        return -EINVAL;
    if (!(cell->arena = td_arena_create()))
        return -ENOMEM;
    bind(cell, size);
    int err = give_data(cell);
    if (err)
        td_bench_cell_end(cell);
    return err;
}

void td_bench_cell_end(struct td_bench_cell *cell)
{
    td_weight_unref(&cell->weight);
    td_arena_destroy(cell->arena);
}
