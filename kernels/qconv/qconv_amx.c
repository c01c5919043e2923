/* Convolutions of 8 bits in tiles, which know every signedness. */
#define TD_TILES
#include "kernels/qconv/qconv_group.h"

TD_KERNEL(qconv)
{
    td_qconv_simd(call);
}
