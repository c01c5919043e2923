/* Products of 8-bit integers, vector form: four products a lane where the level has VNNI, two
 * elsewhere. */
#include "kernels/int_mm/int_mm_group.h"

TD_KERNEL(int_mm)
{
    td_int_mm_simd(call);
}
