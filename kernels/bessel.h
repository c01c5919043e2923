/* Bessel's functions, one number at a time: of the kinds J and Y, and the modified K. */
#ifndef TD_KERNELS_BESSEL_H
#define TD_KERNELS_BESSEL_H

double td_bessel_j0(double x);
double td_bessel_j1(double x);
/* -infinity at 0, NaN below. */
double td_bessel_y0(double x);
double td_bessel_y1(double x);
/* Infinite at 0, NaN below; scaled: times exp(x). */
double td_bessel_k0(double x);
double td_bessel_k1(double x);
double td_bessel_k0_scaled(double x);
double td_bessel_k1_scaled(double x);

#endif
