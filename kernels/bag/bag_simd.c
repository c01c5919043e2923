/* embedding_bag, vector form: bag after bag, some columns of its rows at a time; sums in doubles.
 */
#include "kernels/bag/bag.h"
#include "kernels/elementwise.h"
#include "kernels/lines.h"

#define GRAIN 16384

/* n columns from column on: what the bag makes of them, and where the largest are from. Gives how
 * many rows were counted. */
static int64_t gather(const struct td_bag *b, struct td_bag_span span, int64_t column, int64_t n,
                      double *value, int64_t *from)
{
    double x[TD_RUN];
    int64_t rows = 0;
    memset(value, 0, (size_t)n * sizeof *value);
    memset(from, 0, (size_t)n * sizeof *from);
    for (int64_t i = span.begin; i < span.end; i++) {
        int64_t row = td_get_whole(b->indices, i);
        if (row == b->padding)
            continue;
        double factor = b->factors ? td_get_real(b->factors, i) : 1;
        td_line_get(x, b->weight, row * b->width + column, n);
        if (b->mode != TD_BAG_max)
            for (int64_t k = 0; k < n; k++)
                value[k] += x[k] * factor;
        else
            for (int64_t k = 0; k < n; k++) {
                bool larger = !rows || x[k] > value[k];
                value[k] = larger ? x[k] : value[k];
                from[k] = larger ? row : from[k];
            }
        rows++;
    }
    return rows;
}

static void bags(void *arg, int64_t begin, int64_t end)
{
    const struct td_bag *b = arg;
    double value[TD_RUN];
    int64_t from[TD_RUN];
    for (int64_t bag = begin; bag < end && !td_stopped(); bag++) {
        struct td_bag_span span = td_bag_at(b, bag);
        int64_t rows = 0, n = b->width < TD_RUN ? b->width : TD_RUN, column = 0;
        do { /* once at least: for the count of rows */
            n = b->width - column < TD_RUN ? b->width - column : TD_RUN;
            rows = gather(b, span, column, n, value, from);
            for (int64_t k = 0; k < n && b->mode == TD_BAG_mean && rows; k++)
                value[k] /= (double)rows;
            td_line_put(b->out, bag * b->width + column, n, value);
            for (int64_t k = 0; k < n && b->mode == TD_BAG_max; k++)
                td_put_whole(&b->largest, bag * b->width + column + k, from[k]);
        } while ((column += TD_RUN) < b->width);
        for (int64_t i = span.begin; i < span.end && td_numel(&b->of_index); i++)
            td_put_whole(&b->of_index, i, bag);
        td_put_whole(&b->sizes, bag, b->mode ? rows : 0);
        if (b->mode != TD_BAG_max)
            td_put_whole(&b->largest, bag, b->mode ? rows : 0);
    }
}

TD_KERNEL(bag)
{
    struct td_bag b = td_bag_of(call);
    int64_t each = 1 + (b.indexed / (b.bags + 1) + 1) * (b.width + 1);
    td_parallel(call->threads, b.bags, 1 + GRAIN / each, bags, &b);
}
