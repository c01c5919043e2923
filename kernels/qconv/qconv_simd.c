/* Convolutions of 8 bits, vector form: four products a lane where the level has VNNI, two
 * elsewhere. */
#include "kernels/qconv/qconv_group.h"

TD_KERNEL(qconv)
{
    td_qconv_simd(call);
}
