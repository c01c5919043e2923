/* A model together with the files of its weights: multipart form data, as curl -F sends it, or a
 * zip. */
#ifndef TD_DISPATCH_BUNDLE_H
#define TD_DISPATCH_BUNDLE_H

#include "dispatch/program/program.h"

struct td_bundle {
    struct td_files files;
    const struct td_file *model; /* the model among the files; NULL: the bytes are no bundle */
    struct td_file *file_;
    char *room_;   /* memory of names and of inflated files */
    size_t taken_; /* bytes of room_, taken from td_memory */
};

/* Reads a file as a bundle, if it is one; the bundle may point into the file. -EINVAL: problem says
 * what is wrong, -ENOMEM. The caller closes the bundle also after an error. */
int td_bundle_open(struct td_bundle *bundle, const void *file, size_t size,
                   struct td_problem *problem);
void td_bundle_close(struct td_bundle *bundle);

#endif
