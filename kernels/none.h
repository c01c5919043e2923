/* The word NONE in a table of formulas: the formula has no meaning in what the column computes in,
 * as bitwise_not has none in floats. */
#ifndef TD_KERNELS_NONE_H
#define TD_KERNELS_NONE_H

#include <assert.h>
#include <stddef.h>

/* Whether a formula has a meaning: a constant expression. By it a reader of the table leaves out
 * the rows of those that have none, which it compiles with a NONE of its own: that may be no macro,
 * so that the word arrives here as it was written. */
#define TD_MEANT(formula) (__builtin_strcmp(#formula, "NONE") != 0)

#endif
