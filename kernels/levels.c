/* The table of levels; see level.h. */
#include "kernels/level.h"
#include "kernels/level_config.h" /* generated: TD_LEVEL_IF_avx512(...), one a level */

#define TD_ISA(id, name, base)                                                                     \
    const char *td_level_##id(void), *td_level_macros_##id(void);                                  \
    int td_level_lanes_##id(size_t element_bytes);                                                 \
    double td_level_operate_##id(enum td_dtype type, int64_t rounds),                              \
        td_level_load_##id(const void *data, size_t bytes, int64_t rounds);
#include "kernels/isa.def"
#undef TD_ISA

const struct td_level td_levels[] = {
#define TD_ISA(id, name, base)                                                                     \
    TD_LEVEL_IF_##id({TD_ISA_##id, td_level_##id, td_level_macros_##id, td_level_lanes_##id,       \
                      td_level_operate_##id, td_level_load_##id}, )
#include "kernels/isa.def"
#undef TD_ISA
    {0},
};
