/* The table of levels; see level.h. */
#include "kernels/level.h"

#define TD_ISA(id, name, base)                                                                     \
    const char *td_level_##id(void), *td_level_macros_##id(void);                                  \
    int td_level_lanes_##id(size_t element_bytes);
#include "kernels/isa.def"
#undef TD_ISA

const struct td_level td_levels[] = {
#define TD_ISA(id, name, base)                                                                     \
    TD_IF_##id({TD_ISA_##id, td_level_##id, td_level_macros_##id, td_level_lanes_##id}, )
#include "kernels/isa.def"
#undef TD_ISA
    {0},
};
