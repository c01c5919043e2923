/* See files.h. */
#include "api/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20)

/* ---- reading ---- */

/* Up to size bytes, as it may become shorter meanwhile; -1 with errno. */
static ssize_t read_up_to(int fd, char *to, size_t size)
{
    size_t at = 0;
    while (at < size) {
        ssize_t n = read(fd, to + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (!n)
            break;
        at += (size_t)n;
    }
    return (ssize_t)at;
}

void *td_read_file(struct td_arena *arena, const char *path, size_t *size,
                   struct td_problem *problem)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = errno;
    bool known = !(fd < 0 ? stat(path, &st) : fstat(fd, &st));
    const char *why = known && S_ISDIR(st.st_mode) ? "it is a directory"
                      : fd < 0 || !known           ? strerror(fd < 0 ? err : errno)
                      : !S_ISREG(st.st_mode)       ? "it is no file"
                                                   : NULL;
    char *bytes = NULL;
    if (!why) {
        *size = (size_t)st.st_size;
        bytes = td_arena_alloc(arena, *size + 1);
        why = !bytes ? "there is no memory for it"
              : read_up_to(fd, bytes, *size) == (ssize_t)st.st_size
                  ? NULL
                  : "it cannot be read to its end";
    }
    if (fd >= 0)
        close(fd);
    if (why)
        td_problem_set(problem, EINVAL, "%.300s: %s", path, why);
    return why ? NULL : bytes;
}

char *td_file_text(const struct td_file *file, size_t *size, struct td_problem *problem)
{
    struct stat st;
    char *text = NULL;
    ssize_t n = 0;
    const char *why = NULL;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st))
        why = strerror(errno);
    else if (!S_ISREG(st.st_mode))
        why = "is no file";
    else if (file->judge)
        why = file->judge(&st);
    if (!why && st.st_size > MOST_BYTES)
        why = "is longer than 1 MiB";
    if (!why && !(text = malloc(MOST_BYTES + 1)))
        why = "no memory for it";
    if (!why && (n = read_up_to(fd, text, MOST_BYTES)) < 0)
        why = strerror(errno);
    if (fd >= 0)
        close(fd);
    if (why) {
        td_problem_set(problem, EINVAL, "%s: %.200s: %s", file->option, file->called, why);
        free(text);
        return NULL;
    }
    text[n] = 0;
    *size = (size_t)n;
    return text;
}

const char *td_file_judge_secret(const struct stat *st)
{
    if (st->st_uid && st->st_uid != geteuid())
        return "is another user's, who could change it; it must be this one's, or root's";
    return st->st_mode & (st->st_uid ? 077 : 037)
               ? "others may read or write it; chmod 600 is right, or root's and 640"
               : NULL;
}

bool td_file_changed(const char *path, struct stat *seen)
{
    struct stat now, was = *seen;
    if (stat(path, &now))
        now = (struct stat){0};
    *seen = now;
    return now.st_dev != was.st_dev || now.st_ino != was.st_ino || now.st_size != was.st_size ||
           now.st_mode != was.st_mode || now.st_uid != was.st_uid ||
           now.st_mtim.tv_sec != was.st_mtim.tv_sec || now.st_mtim.tv_nsec != was.st_mtim.tv_nsec;
}

/* ---- writing ---- */

char *td_file_beside(const char *path, mode_t mode, const void *bytes, size_t size)
{
    char *made = NULL;
    if (asprintf(&made, "%s.XXXXXX", path) < 0) {
        errno = ENOMEM;
        return NULL;
    }
    int fd = mkstemp(made), err = fd < 0 ? errno : 0;
    for (size_t at = 0; at < size && !err;) {
        ssize_t n = write(fd, (const char *)bytes + at, size - at);
        at += n > 0 ? (size_t)n : 0;
        err = n < 0 && errno != EINTR ? errno : 0;
    }
    if (!err && (fchmod(fd, mode) || fsync(fd)))
        err = errno;
    if (fd >= 0 && close(fd) && !err)
        err = errno;
    if (!err)
        return made;
    if (fd >= 0)
        unlink(made);
    free(made);
    errno = err;
    return NULL;
}
