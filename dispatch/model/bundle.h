/* A model that comes with the files of its weights: a form, as curl -F sends it, or a zip. */
#ifndef TD_DISPATCH_BUNDLE_H
#define TD_DISPATCH_BUNDLE_H

#include "dispatch/program/program.h"

struct td_bundle {
    struct td_files files;
    const struct td_file *model; /* which of them it is; NULL: the bytes are no bundle */
    struct td_file *file_;
    char *room_; /* names and what was inflated */
    size_t taken_;
};

/* Looks for one in a file, which it may point into. -EINVAL: what is wrong with it, -ENOMEM; to be
 * closed in either case. */
int td_bundle_open(struct td_bundle *bundle, const void *file, size_t size,
                   struct td_problem *problem);
void td_bundle_close(struct td_bundle *bundle);

#endif
