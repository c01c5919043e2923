/* What a level says of itself; compiled once per level. */
#include "kernels/level.h"
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
