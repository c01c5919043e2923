/* TfIdfVectorizer: how often each n-gram of a pool comes in a row, with gaps of up to so many
 * elements between its own. A window's elements are looked up one after the other: what has been
 * found so far, and the next element, make a number that is looked up among those of the pool. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

#define LONGEST 16 /* elements of an n-gram */
#define GAPS 4096  /* elements that are left out between two of its own, at most */

/* x: sorted's first that is at least x; found: it is x itself. */
static void look_up(struct td_onnx *n, const char *place, const char *found)
{
    set(n, "at", place);
    let_ints(n, "shape", tensor_of(n, "x")->shape, 2);
    set(n, "is", found);
}

/* Adds to sums, of a column more than there are, what n-grams of this length come with such gaps.
 */
static void add_grams(struct td_onnx *n, int64_t length, int64_t step, int64_t width)
{
    for (int64_t j = 0; j < length && !n->err; j++) {
        let_int(n, "j", j);
        let_int(n, "begin", j * step);
        let_int(n, "end", j * step + width);
        set(n, "part", "select(grams, 1, j)");
        set(n, "x", "slice(rows, 1, begin, end)");
        if (j) { /* behind what has been found */
            set(n, "sorted", "sort(part)[0]");
            set(n, "part", "known * count + bucketize(part, sorted)");
            look_up(n, "clamp(bucketize(x, sorted), 0, last)",
                    "eq(view(index_select(sorted, 0, view(at, [-1])), shape), x)");
            set(n, "good", "logical_and(good, is)");
            set(n, "x", "place * count + at");
        }
        set(n, "sorted", "sort(part)[0]");
        set(n, "known", "bucketize(part, sorted)");
        look_up(n, "clamp(bucketize(x, sorted), 0, last)",
                "eq(view(index_select(sorted, 0, view(at, [-1])), shape), x)");
        set(n, "place", "at + 0");
        set(n, "good", j ? "logical_and(good, is)" : "is");
    }
    set(n, "column", "scatter(zeros_like(known), 0, known, columns)");
    set(n, "column",
        "where(good, view(index_select(column, 0, view(place, [-1])), shape), outside)");
    set(n, "sums", "scatter_add(sums, 1, column, ones_like(column, dtype=FP32))");
}

/* Of one length: n-grams from `from` on in the pool, of which so many were before. */
static void add_length(struct td_onnx *n, int64_t length, int64_t from, int64_t end, int64_t before,
                       int64_t gaps, int64_t size)
{
    int64_t count = (end - from) / length;
    if ((end - from) % length)
        return unfit(n, "ngram_counts: %lld elements are no n-grams of %lld",
                     (long long)(end - from), (long long)length);
    let_int(n, "from", from);
    let_int(n, "to", end);
    let_int(n, "first", before);
    let_int(n, "behind", before + count);
    let_int(n, "count", count);
    let_int(n, "last", count - 1);
    let_ints(n, "table", (int64_t[]){count, length}, 2);
    set(n, "grams", "view(slice(pool_int64s, 0, from, to), table)");
    set(n, "columns", "slice(ngram_indexes, 0, first, behind)");
    for (int64_t step = 1; step <= (length > 1 ? gaps + 1 : 1) && !n->err; step++) {
        int64_t width = size - step * (length - 1);
        if (width <= 0) /* wider than a row */
            return;
        if (count)
            add_grams(n, length, step, width);
    }
}

void td_onnx_tfidf(struct td_onnx *n)
{
    int64_t counts[LONGEST + 1], most = 0, before = 0;
    int64_t shortest = whole(n, "min_gram_length", 1), longest = whole(n, "max_gram_length", 1);
    int64_t gaps = whole(n, "max_skip_count", 0);
    const char *mode = text(n, "mode");
    bool binary = !strcmp(mode, "IDF"), line = tensor_of(n, "X")->rank == 1;
    int lengths = ints(n, "ngram_counts", counts, LONGEST);
    if (n->err)
        return;
    if (!binary && strcmp(mode, "TF") != 0 && strcmp(mode, "TFIDF") != 0)
        return unfit(n, "mode: TF, IDF or TFIDF is right");
    if (lengths < 1 || shortest < 1 || longest < shortest || longest > LONGEST || gaps < 0 ||
        gaps > GAPS)
        return unfit(n,
                     "min_gram_length, max_gram_length, max_skip_count, ngram_counts: 1 to %d, 0 "
                     "and up, and a list are right",
                     LONGEST);
    set_numbers(n, "pool_int64s", TD_i64);
    set_numbers(n, "ngram_indexes", TD_i64);
    let(n, "rows", *at(n, "X"));
    set(n, "rows", line ? "unsqueeze(to.dtype(rows, INT64), 0)" : "to.dtype(rows, INT64)");
    const struct td_tensor *rows = tensor_of(n, "rows");
    int64_t all = td_numel(tensor_of(n, "pool_int64s"));
    if (n->err || rows->rank != 2)
        return refuse(n, "X: one or two dimensions are right");
    int64_t size = rows->shape[1], batch = rows->shape[0];
    if (td_numel(tensor_of(n, "ngram_indexes")) < 1)
        return unfit(n, "ngram_indexes: are none");
    set(n, "most", "amax(ngram_indexes)");
    if (ints(n, "most", &most, 1) != 1 || most < 0 || most >= (int64_t)1 << 31)
        return unfit(n, "ngram_indexes: columns from 0 on are right");
    set(n, "least", "amin(ngram_indexes)");
    if (ints(n, "least", &before, 1) != 1 || before < 0)
        return unfit(n, "ngram_indexes: columns from 0 on are right");
    let_int(n, "outside", most + 1);
    let_ints(n, "to", (int64_t[]){batch, most + 2}, 2);
    set(n, "sums", "zeros(to)");
    before = 0;
    for (int64_t length = 1; length <= lengths && length <= longest && !n->err; length++) {
        int64_t from = counts[length - 1], end = length < lengths ? counts[length] : all;
        if (from < 0 || end < from || end > all)
            return unfit(n,
                         "ngram_counts: where the pool's n-grams begin, in their order, is right");
        int64_t grams = (end - from) / length;
        if (before + grams > td_numel(tensor_of(n, "ngram_indexes")))
            return unfit(n, "ngram_indexes: one for each n-gram is right");
        if (length >= shortest)
            add_length(n, length, from, end, before, gaps, size);
        before += grams;
    }
    set(n, "sums", "slice(sums, 1, 0, outside)");
    if (binary)
        set(n, "sums", "to.dtype(gt(sums, 0), FP32)");
    if (has(n, "weights") && strcmp(mode, "TF") != 0) {
        set_numbers(n, "weights", TD_f32);
        if (!n->err && td_numel(tensor_of(n, "weights")) != td_numel(tensor_of(n, "ngram_indexes")))
            return unfit(n, "weights: one for each n-gram is right");
        let_ints(n, "line", (int64_t[]){most + 1}, 1);
        set(n, "sums", "sums * scatter(zeros(line), 0, ngram_indexes, weights)");
    }
    give(n, line ? "view(sums, [-1])" : "alias(sums)");
}
