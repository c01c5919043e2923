/* Formulas in whole numbers whose bits hang on no sign, so that the rows of the signed types serve
 * the unsigned ones, too: a list that constants can be made of. */
#ifndef TD_KERNELS_POINTWISE_SIGNLESS_H
#define TD_KERNELS_POINTWISE_SIGNLESS_H

#include "kernels/pointwise/pointwise.h"

#define TD_POINT_IS_(id, other) TD_POINT_##id == TD_POINT_##other
#define TD_POINT_SIGNLESS(id)                                                                      \
    (TD_POINT_IS_(id, add) || TD_POINT_IS_(id, sub) || TD_POINT_IS_(id, rsub) ||                   \
     TD_POINT_IS_(id, mul) || TD_POINT_IS_(id, square) || TD_POINT_IS_(id, neg) ||                 \
     TD_POINT_IS_(id, positive) || TD_POINT_IS_(id, where) || TD_POINT_IS_(id, eq) ||              \
     TD_POINT_IS_(id, ne) || TD_POINT_IS_(id, addcmul) || TD_POINT_IS_(id, bitwise_and) ||         \
     TD_POINT_IS_(id, bitwise_or) || TD_POINT_IS_(id, bitwise_xor) ||                              \
     TD_POINT_IS_(id, bitwise_not) || TD_POINT_IS_(id, logical_and) ||                             \
     TD_POINT_IS_(id, logical_or) || TD_POINT_IS_(id, logical_xor) ||                              \
     TD_POINT_IS_(id, logical_not))

#endif
