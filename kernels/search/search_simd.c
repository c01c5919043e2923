/* Searches, by type: values over the team, each by halving without jumps that depend on data. */
#include "kernels/half.h"
#include "kernels/search/search.h"

#define GRAIN 2048 /* values worth a thread */

#define SAME(x) (x)
#define TD_PLACES(name, T, N, LOAD, NUMBER)                                                        \
    static void search_##name(const struct td_search *s, int64_t begin, int64_t end)               \
    {                                                                                              \
        const int64_t *sorter = s->sorter ? s->sorter->data : NULL;                                \
        for (int64_t i = begin; i < end && (i % TD_STRIDE || !td_stopped()); i++) {                \
            int64_t low = 0, high = s->size, first = i / s->each * s->size;                        \
            const T *sequence = (const T *)s->sequence->data + first;                              \
            N v = s->values ? (N)LOAD(((const T *)s->values->data)[i]) : (N)s->NUMBER;             \
            while (low < high) {                                                                   \
                int64_t middle = low + (high - low) / 2;                                           \
                N a = (N)LOAD(sequence[sorter ? sorter[first + middle] : middle]);                 \
                bool before = s->right ? !(a > v) : !(a >= v);                                     \
                low = before ? middle + 1 : low;                                                   \
                high = before ? high : middle;                                                     \
            }                                                                                      \
            if (s->out->dtype == TD_i32)                                                           \
                ((int32_t *)s->out->data)[i] = (int32_t)low;                                       \
            else                                                                                   \
                ((int64_t *)s->out->data)[i] = low;                                                \
        }                                                                                          \
    }
TD_PLACES(f16, uint16_t, float, td_f16_to_f32, real)
TD_PLACES(bf16, uint16_t, float, td_bf16_to_f32, real)
TD_PLACES(f32, float, float, SAME, real)
TD_PLACES(f64, double, double, SAME, real)
TD_PLACES(u8, uint8_t, int64_t, SAME, whole)
TD_PLACES(i8, int8_t, int64_t, SAME, whole)
TD_PLACES(i16, int16_t, int64_t, SAME, whole)
TD_PLACES(i32, int32_t, int64_t, SAME, whole)
TD_PLACES(i64, int64_t, int64_t, SAME, whole)

static void values(void *arg, int64_t begin, int64_t end)
{
    const struct td_search *s = arg;
    switch (s->sequence->dtype) {
#define TD_CASE(id)                                                                                \
    case TD_##id:                                                                                  \
        search_##id(s, begin, end);                                                                \
        break;
        TD_CASE(f16)
        TD_CASE(bf16)
        TD_CASE(f32)
        TD_CASE(f64)
        TD_CASE(u8)
        TD_CASE(i8)
        TD_CASE(i16)
        TD_CASE(i32)
    default:
        search_i64(s, begin, end);
    }
}

TD_KERNEL(search)
{
    struct td_search s = td_search_of(call);
    td_parallel(call->threads, td_numel(s.out), GRAIN, values, &s);
}
