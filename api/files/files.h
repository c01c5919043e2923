/* Files that options and people name: read whole, looked at for changes, replaced whole. */
#ifndef TD_API_FILES_H
#define TD_API_FILES_H

#include "api/api.h"

#include <sys/stat.h>

/* A regular file's bytes, in the arena. NULL: problem says why. */
void *td_read_file(struct td_arena *arena, const char *path, size_t *size,
                   struct td_problem *problem);

struct td_file {
    const char *option; /* in sentences, as "tokens" */
    const char *path;
    const char *called;                          /* the path in sentences */
    const char *(*judge)(const struct stat *st); /* what is wrong with its owner or mode, or NULL;
                                                    itself NULL: nothing is */
};

/* The text of a file of at most 1 MiB with a 0 behind it, to be freed; size without that. NULL: it
 * cannot be read, is no regular file, is too long or judged wrong, or there is no memory; problem
 * has the sentence. */
char *td_file_text(const struct td_file *file, size_t *size, struct td_problem *problem);

/* For judge, of a file with secrets: it must be of this process's user, and nobody else's to read
 * or write (mode 600); or root's, where its group may read it (640), as clusters mount secrets. */
const char *td_file_judge_secret(const struct stat *st);

/* Whether the file at path is another than seen, or has other contents or rights, which seen is
 * then set to; zeros stand for no file. */
bool td_file_changed(const char *path, struct stat *seen);

/* Writes the bytes to a new file beside path, of this mode and this user's, and down to the disk:
 * its name, to be freed. Whoever renames it to path replaces the file for all who open it, at once
 * and whole. NULL: errno says why, and there is no file. */
char *td_file_beside(const char *path, mode_t mode, const void *bytes, size_t size);

#endif
