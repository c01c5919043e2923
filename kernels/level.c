/* What a level says of itself, and what its kernels share; compiled once per level. */
#include "kernels/level.h"
#include "kernels/lines.h"
#include "kernels/vec.h"

#define TEXT_(word) #word
#define TEXT(word) TEXT_(word)

const char *TD_NAME(level)(void);
const char *TD_NAME(level)(void)
{
    return TEXT(CPU_CAPABILITY);
}

const char *TD_NAME(level_macros)(void);
const char *TD_NAME(level_macros)(void)
{
    return ""
#ifdef CPU_CAPABILITY_DEFAULT
           " DEFAULT"
#endif
#ifdef CPU_CAPABILITY_AVX2
           " AVX2"
#endif
#ifdef CPU_CAPABILITY_AVX2_VNNI
           " AVX2_VNNI"
#endif
#ifdef CPU_CAPABILITY_AVX512
           " AVX512"
#endif
#ifdef CPU_CAPABILITY_AVX512_VNNI
           " AVX512_VNNI"
#endif
#ifdef CPU_CAPABILITY_AVX512_BF16
           " AVX512_BF16"
#endif
#ifdef CPU_CAPABILITY_AMX
           " AMX"
#endif
#ifdef CPU_CAPABILITY_AVX512_FP16
           " AVX512_FP16"
#endif
        ;
}

int TD_NAME(level_lanes)(size_t element_bytes);
int TD_NAME(level_lanes)(size_t element_bytes)
{
    return (int)(sizeof(td_vf) / element_bytes);
}

void td_line_get(double *to, const struct td_tensor *t, int64_t at, int64_t n)
{
    float room[TD_RUN];
    const float *from = (const float *)t->data + at;
    if (t->dtype == TD_f64) {
        memcpy(to, (const double *)t->data + at, (size_t)n * sizeof *to);
        return;
    }
    if (t->dtype != TD_f32) {
        td_line_widen(room, (const uint16_t *)t->data + at, n, t->dtype);
        from = room;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)from[i];
}

void td_line_put(const struct td_tensor *t, int64_t at, int64_t n, const double *x)
{
    float room[TD_RUN];
    float *to = t->dtype == TD_f32 ? (float *)t->data + at : room;
    if (t->dtype == TD_f64) {
        memcpy((double *)t->data + at, x, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)x[i];
    if (t->dtype != TD_f32)
        td_line_narrow((uint16_t *)t->data + at, room, n, t->dtype);
}
