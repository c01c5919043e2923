/* Searches, reference: numbers of any type through doubles, or through INT64. */
#include "kernels/elementwise.h"
#include "kernels/search/search.h"

static bool comes_before(const struct td_search *s, int64_t at, int64_t value)
{
    if (td_dtype_kind(s->sequence->dtype) == 'f') {
        double a = td_get_real(s->sequence, at),
               v = s->values ? td_get_real(s->values, value) : s->real;
        return s->right ? !(a > v) : !(a >= v);
    }
    int64_t a = td_get_whole(s->sequence, at),
            v = s->values ? td_get_whole(s->values, value) : s->whole;
    return s->right ? a <= v : a < v;
}

td_kernel td_search_ref;
void td_search_ref(const struct td_call *call)
{
    struct td_search s = td_search_of(call);
    for (int64_t i = 0, n = td_numel(s.out); i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        int64_t low = 0, high = s.size, first = i / s.each * s.size;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            int64_t at = s.sorter ? td_get_whole(s.sorter, first + middle) : middle;
            if (comes_before(&s, first + at, i))
                low = middle + 1;
            else
                high = middle;
        }
        td_put_whole(s.out, i, low);
    }
}
