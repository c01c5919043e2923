/* What the files of linear algebra share: a call's matrices, one after the other, in FP64. */
#ifndef TD_KERNELS_LINALG_H
#define TD_KERNELS_LINALG_H

#include "kernels/kernels.h"

enum td_linalg_kind {
    TD_LINALG_inv,
    TD_LINALG_cholesky,
    TD_LINALG_det,
    TD_LINALG_slogdet,
    TD_LINALG_solve,
    TD_LINALG_triangular,
    TD_LINALG_cholesky_solve,
    TD_LINALG_svd,
    TD_LINALG_eigh,
    TD_LINALG_qr,
    TD_LINALG_exp,
};

struct td_linalg {
    enum td_linalg_kind kind;
    const struct td_tensor *a, *b; /* borrowed; b: right-hand sides, NULL where there are none */
    int64_t m, n, k;               /* a matrix of a is m by n; columns of b */
    int64_t count;                 /* of matrices, with those that b repeats */
    bool upper, left, unit;        /* left: a stands left of what is looked for */
    bool vector;                   /* b has no dimension of columns */
    bool all, vectors;             /* all of an orthogonal matrix; whether there are any */
};

/* What a checked call asks. */
struct td_linalg td_linalg_of(const struct td_call *call);

/* The number of a's and of b's matrix for the i-th result, by broadcasting; whether it is the first
 * of those that share a's. */
struct td_linalg_place {
    int64_t a, b;
    bool first;
};
struct td_linalg_place td_linalg_place(const struct td_call *call, const struct td_linalg *l,
                                       int64_t i);

/* The steps that rows do in their own way, in the same order of operations, so that all give the
 * same bits. Matrices are n by n, row by row. */
struct td_linalg_steps {
    /* P L U of w in its place, L's diagonal of ones left out: row i was exchanged with row
     * pivot[i], counted from 1, the largest of its column. Gives the first i + 1 of which that is
     * 0, or 0. */
    int64_t (*factor)(double *w, int32_t *pivot, int64_t n);
    /* x, n by k, becomes what the triangle of t times it was before; element i, j of the triangle
     * is t[i * row + j * column]. */
    void (*solve)(const double *t, int64_t row, int64_t column, int64_t n, bool upper, bool unit,
                  double *x, int64_t k);
    /* U of U' U in the upper triangle of w, of which it reads no other. Gives the first i + 1 of
     * which there is none, where it ends, or 0. */
    int64_t (*cholesky)(double *w, int64_t n);
};

/* The results of all matrices. */
void td_linalg_run(const struct td_call *call, const struct td_linalg_steps *steps);
/* Bytes of scratch that it takes. */
size_t td_linalg_scratch(const struct td_call *call, const struct td_linalg *l);

/* Of one matrix, in scratch: */
/* u (m by m, or by min(m, n)), s (min(m, n), falling) and v transposed (n by n, or min(m, n) by n)
 * of a, m by n. NULL for u: s alone. room: td_linalg_svd_room doubles. */
void td_linalg_svd(const double *a, int64_t m, int64_t n, bool all, double *u, double *s, double *v,
                   double *room);
int64_t td_linalg_svd_room(int64_t m, int64_t n, bool all);
/* Eigenvalues, rising, of the symmetric a, which is lost, and its eigenvectors in the columns of v;
 * NULL: none. */
void td_linalg_eigh(double *a, int64_t n, double *values, double *v);
/* q r of a, m by n, which becomes r; q is m by width, whose columns are orthogonal; NULL: none. */
void td_linalg_qr(double *a, int64_t m, int64_t n, double *q, int64_t width, double *room);
/* e to the power of a, which is lost; room: n n doubles. */
void td_linalg_exp(double *a, int64_t n, double *y, double *room);

#endif
