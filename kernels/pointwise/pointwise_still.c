/* Calls of one formula of two operands of which one stays the same along each innermost row: a
 * column beside a matrix, a number for each channel of an image, the factors of an outer product, a
 * number. Nothing is laid out in tiles: rows have that element in a register. */
#include "kernels/pointwise/walk.h"

#define PARTS 4 /* pieces for each thread, at least, where rows are few and long */

struct job {
    const struct td_point_walk *walk;
    td_point_still_rows *rows;
    int64_t pieces; /* of a row */
};

int td_point_find_still(const struct td_point_walk *w)
{
    const struct td_point_op *op = w->op;
    const struct td_point_value *out = &w->value[op->out];
    int last = w->rank - 1;
    if (w->n_ops != 1 || op->n_in != 2 || !out->dense || w->shape[last] < op->unit)
        return -1;
    for (int k = 0; k < 2; k++) {
        const struct td_point_value *one = &w->value[op->in[k]], *other = &w->value[op->in[1 - k]];
        bool apart = other->data != out->data && one->data != out->data;
        if ((one->still || one->constant) && !one->made && !other->made && other->step[last] == 1)
            return apart ? k : -1;
    }
    return -1;
}

/* Computes pieces [begin, end) of the result's rows: if a piece is a whole row, as many rows at
 * once as there are along the last but one dimension. */
static void run_pieces(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct td_point_walk *w = j->walk;
    const struct td_point_op *op = w->op;
    int last = w->rank - 1;
    int64_t inner = w->shape[last], piece = inner / j->pieces;
    while (begin < end) {
        int64_t row = begin / j->pieces, col = begin % j->pieces * piece, rest = row;
        struct td_point_still still = {.rows = 1, .n = piece};
        const void *in[2];
        if (begin % j->pieces == j->pieces - 1)
            still.n = inner - col;
        if (j->pieces == 1 && last) {
            int64_t follow = w->shape[last - 1] - row % w->shape[last - 1];
            still.rows = follow < end - begin ? follow : end - begin;
        }
        for (int k = 0; k < 2; k++) {
            const struct td_point_value *v = &w->value[op->in[k]];
            int64_t at = col * v->step[last];
            rest = row;
            for (int d = last - 1; d >= 0; rest /= w->shape[d--])
                at += rest % w->shape[d] * v->step[d];
            in[k] = v->data + at * (int64_t)v->size;
            still.step[k] = last ? v->step[last - 1] : 0;
        }
        const struct td_point_value *out = &w->value[op->out];
        j->rows(&op->args, &still, out->data + (row * inner + col) * (int64_t)out->size, in);
        begin += still.rows;
    }
}

void td_point_run_still(const struct td_point_walk *w, td_point_still_rows *rows, int threads,
                        int64_t grain)
{
    struct job j = {w, rows, 1};
    int64_t inner = w->shape[w->rank - 1], n = td_numel(w->out) / inner;
    while (n * j.pieces < (int64_t)threads * PARTS && inner / (2 * j.pieces) >= grain)
        j.pieces *= 2;
    int64_t piece = inner / j.pieces;
    td_parallel_brief(threads, n * j.pieces, grain / piece + 1, run_pieces, &j);
}
