/* A Scalar that whole numbers are computed with, where ATen cuts its fraction off. */
#ifndef TD_KERNELS_CUT_H
#define TD_KERNELS_CUT_H

#include "kernels/kernels.h"

#include <errno.h>

/* 0, or -EINVAL for the argument, called name, whose whole part no INT64 is. */
static inline int td_rule_cut(struct td_call *call, const struct td_value *v, const char *name)
{
    if (v->kind != TD_KIND_float || (v->f >= -0x1p63 && v->f < 0x1p63))
        return 0;
    return td_refuse(
        call,
        "%s: is %.15g, of which no INT64 is the whole part; a number that has one is right "
        "for tensors of whole numbers",
        name, v->f);
}

#endif
