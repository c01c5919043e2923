/* Products of 8-bit integers in tiles, which know every signedness. */
#define TD_TILES
#include "kernels/int_mm/int_mm_group.h"

TD_KERNEL(int_mm)
{
    td_int_mm_simd(call);
}
