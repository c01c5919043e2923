/* Pointwise calls as the texts by which products and convolutions take their post-ops. */
#ifndef TD_KERNELS_POST_TEXT_H
#define TD_KERNELS_POST_TEXT_H

#include "kernels/kernels.h"

#define TD_POSTS 4      /* formulas of a call, at most */
#define TD_POST_TEXT 64 /* bytes of what td_post_text writes, its end included */

/* A pointwise call as post-ops of what makes its argument (kernels/post.h). */
struct td_post_text {
    char text[TD_POST_TEXT];
    int n;            /* of formulas: 1 or 2 */
    int other;        /* the call's argument that they take, a tensor or a number; -1: none */
    double number[2]; /* and else so many numbers */
    int n_numbers;
};
/* Writes it, where the libraries among the rows of products and convolutions do it at little cost.
 * arg: the argument that is the result. relu becomes a slope of 0 below 0, and limits are passed
 * over by NaN: that is what the libraries do. NULL; else why it is none, a constant. */
const char *td_post_text(const struct td_call *call, int arg, struct td_post_text *post);
/* Limits are so much. */
void td_post_text_limits(double low, double high, struct td_post_text *post);

#endif
