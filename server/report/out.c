/* The files of a report: written beside their places and then renamed, so that whoever reads one
 * reads a whole one, and a full disk, an error or a signal leaves what was there before. */
#include "server/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 2

static char unfinished[FILES][4096]; /* "": there is none; read by the handler */

static int fail(const char *path, int err)
{
    fprintf(stderr, "tensord: report: %s: %s; nothing was written\n", path, strerror(err));
    return 1;
}

static void discard(void)
{
    for (int i = 0; i < FILES; i++) {
        if (*unfinished[i])
            unlink(unfinished[i]);
        *unfinished[i] = 0;
    }
}

/* Ends the program from whichever thread it comes to: with functions that a handler may call. */
static void interrupt(int number)
{
    static const char said[] = "\ntensord: report: stopped; nothing was written\n";
    discard();
    if (write(STDERR_FILENO, said, sizeof said - 1) < 0)
        _exit(1);
    _exit(128 + number);
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

/* Opens a file of the directory that is not there yet, for a name that becomes `unfinished`. */
static int open_unfinished(const char *directory, int i)
{
    snprintf(unfinished[i], sizeof unfinished[i], "%.3900s/.report-XXXXXX", directory);
    int fd = mkostemp(unfinished[i], O_CLOEXEC);
    if (fd < 0)
        *unfinished[i] = 0;
    return fd;
}

int td_report_prepare(const char *directory)
{
    struct stat st;
    if (strlen(directory) > 3900)
        return fail(directory, ENAMETOOLONG);
    if (mkdir(directory, 0777) && errno != EEXIST)
        return fail(directory, errno);
    if (stat(directory, &st) || !S_ISDIR(st.st_mode))
        return fail(directory, ENOTDIR);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        signal(ends[i], interrupt);
    signal(SIGXFSZ, SIG_IGN); /* a limit of files' sizes is an error like a full disk */
    int fd = open_unfinished(directory, 0), err = errno;
    if (fd < 0)
        return fail(directory, err);
    close(fd);
    discard();
    return 0;
}

static int write_whole(int fd, const char *text, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, text + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno;
        done += (size_t)n;
    }
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, 0666 & ~mask) || fsync(fd) ? errno : 0;
}

int td_report_write(const char *directory, const char *date, const struct td_report_file *files,
                    int n)
{
    char path[FILES][4096];
    int err = 0, at = 0;
    for (int i = 0; i < n && !err; i++) {
        at = i;
        snprintf(path[i], sizeof path[i], "%.3900s/%s.%s", directory, date, files[i].ending);
        int fd = open_unfinished(directory, i);
        err = fd < 0 ? errno : write_whole(fd, files[i].text, files[i].size);
        if (fd >= 0 && close(fd) && !err)
            err = errno;
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) /* both get their names, or neither */
        signal(ends[i], SIG_IGN);
    for (int i = 0; i < n && !err; i++) {
        at = i;
        err = rename(unfinished[i], path[i]) ? errno : 0;
        if (!err)
            *unfinished[i] = 0;
    }
    discard();
    if (err)
        return fail(path[at], err);
    for (int i = 0; i < n; i++)
        printf("%s\n", path[i]);
    return 0;
}
