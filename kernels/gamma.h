/* The incomplete gamma functions, one number at a time. */
#ifndef TD_KERNELS_GAMMA_H
#define TD_KERNELS_GAMMA_H

/* The part of gamma(a)'s integral up to x, and from x on: from 0 to 1; NaN where either is below 0.
 * At 0 and at infinity they are what PyTorch's are. */
double td_gamma_lower(double a, double x);
double td_gamma_upper(double a, double x);

#endif
