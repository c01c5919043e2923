/* What test_narrow.c and the narrow.c of each level share. */
#ifndef TD_TESTS_NARROW_H
#define TD_TESTS_NARROW_H

#include "kernels/level.h"

#include <stdbool.h>
#include <stdint.h>

#define NARROW_N 256 /* elements at a time: whole vectors, and pairs of them, at every width */
#define NARROW_WAYS 5

/* NARROW_N numbers as BF16 or FP16. */
typedef void narrow_store(uint16_t *to, const float *from, bool bf16);
extern narrow_store *const td_narrow_default[],
    *const td_narrow_avx2[], *const td_narrow_avx512[], *const td_narrow_wide[];

#endif
