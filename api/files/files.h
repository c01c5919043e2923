/* Reads files whole, notices when they change, and replaces them in one step. */
#ifndef TD_API_FILES_H
#define TD_API_FILES_H

#include "api/api.h"

#include <sys/stat.h>

/* A regular file's bytes, in the arena. NULL: problem says why. */
void *td_read_file(struct td_arena *arena, const char *path, size_t *size,
                   struct td_problem *problem);

struct td_file {
    const char *option; /* its option's name in sentences, as "tokens" */
    const char *path;
    const char *called; /* the path in sentences */
    /* Returns what is wrong with the file's owner or mode, or NULL. NULL in its place: any owner
     * and mode are right. */
    const char *(*judge)(const struct stat *st);
};

/* The text of a file of at most 1 MiB, with a 0 behind it that size does not count; the caller
 * frees it. NULL: it cannot be read, is no regular file, is too long, judge finds it wrong, or
 * there is no memory; problem has the sentence. */
char *td_file_text(const struct td_file *file, size_t *size, struct td_problem *problem);

/* For judge, of a file with secrets. It must belong to this process's user, and nobody else may
 * read or write it (mode 600); or to root, and then its group may read it (640), as clusters mount
 * secrets. */
const char *td_file_judge_secret(const struct stat *st);

/* Whether the file at path is another one than seen, or has changed since. Sets seen to what it is
 * now; zeros stand for no file. */
bool td_file_changed(const char *path, struct stat *seen);

/* Writes the bytes to a new file in the folder of path, with this mode, and syncs it to the disk.
 * Returns its name, which the caller frees: renaming it to path replaces the old file in one step.
 * NULL: errno says why, and no file is left. */
char *td_file_beside(const char *path, mode_t mode, const void *bytes, size_t size);

#endif
