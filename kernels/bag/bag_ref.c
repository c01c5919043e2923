/* embedding_bag, reference: each element of each result by itself. */
#include "kernels/bag/bag.h"
#include "kernels/elementwise.h"

static void element(const struct td_bag *b, int64_t bag, int64_t column)
{
    struct td_bag_span span = td_bag_at(b, bag);
    int64_t n = 0, from = 0;
    double value = 0;
    for (int64_t i = span.begin; i < span.end; i++) {
        int64_t row = td_get_whole(b->indices, i);
        double x = td_get_real(b->weight, row * b->width + column);
        if (row == b->padding)
            continue;
        if (b->mode != TD_BAG_max) {
            value += x * (b->factors ? td_get_real(b->factors, i) : 1);
        } else if (!n || x > value) {
            value = x;
            from = row;
        }
        n++;
    }
    td_put_real(b->out, bag * b->width + column,
                b->mode == TD_BAG_mean && n ? value / (double)n : value);
    if (b->mode == TD_BAG_max)
        td_put_whole(&b->largest, bag * b->width + column, from);
}

td_kernel td_bag_ref;
void td_bag_ref(const struct td_call *call)
{
    struct td_bag b = td_bag_of(call);
    for (int64_t bag = 0; bag < b.bags && !td_stopped(); bag++) {
        struct td_bag_span span = td_bag_at(&b, bag);
        int64_t n = 0;
        for (int64_t i = span.begin; i < span.end; i++) {
            n += td_get_whole(b.indices, i) != b.padding;
            if (td_numel(&b.of_index))
                td_put_whole(&b.of_index, i, bag);
        }
        td_put_whole(&b.sizes, bag, b.mode ? n : 0);
        if (b.mode != TD_BAG_max)
            td_put_whole(&b.largest, bag, b.mode ? n : 0);
        for (int64_t column = 0; column < b.width && !td_stopped(); column++)
            element(&b, bag, column);
    }
}
