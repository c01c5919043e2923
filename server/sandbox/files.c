/* Landlock, by its three system calls. The kernel says which version it has, and the rules use only
 * what that version knows (Documentation/userspace-api/landlock.rst). */
#include "server/sandbox/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Missing in older headers: of version 3, 5, 4 and 6. */
#define TRUNCATE (UINT64_C(1) << 14)
#define IOCTL_DEV (UINT64_C(1) << 15)
#define CONNECT_TCP (UINT64_C(1) << 1)
#define SCOPES UINT64_C(3) /* abstract Unix sockets, signals */

#define READS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITES                                                                                     \
    (READS | TRUNCATE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |              \
     LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define FIRST ((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) /* all of version 1 */
#define FOR_FILES                                                                                  \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |   \
     TRUNCATE | IOCTL_DEV)
#define DEPTH 3 /* of a folder of models: NAME/VERSION/FILE */

struct ruleset { /* landlock_ruleset_attr as of version 6 */
    uint64_t files, addresses, scopes;
};

struct box {
    int fd;
    uint64_t handled; /* the rights to files that the rules limit */
    int err;          /* of the last rule that the kernel refused, or 0 */
};

/* Allows access to path, and to what is below it. A path that does not exist gets no rule, so it
 * cannot be opened later either. */
static void allow(struct box *box, const char *path, uint64_t access)
{
    struct stat st;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st)) {
        if (fd >= 0)
            close(fd);
        return;
    }
    struct landlock_path_beneath_attr rule = {
        .allowed_access = access & box->handled & (S_ISDIR(st.st_mode) ? UINT64_MAX : FOR_FILES),
        .parent_fd = fd};
    if (syscall(SYS_landlock_add_rule, box->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
        box->err = -errno;
    close(fd);
}

/* Allows the folder of path, because a file that replaces it is renamed to its place there. */
static void allow_beside(struct box *box, const char *path, uint64_t access)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof folder)
        return;
    memcpy(folder, path, n);
    folder[n] = 0;
    allow(box, slash ? n ? folder : "/" : ".", access);
}

/* Allows the targets of links in the folder: a folder with all that is in it, or a file. */
static void allow_links(struct box *box, const char *path, int depth)
{
    char name[PATH_MAX];
    DIR *folder = depth ? opendir(path) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat st;
        if (*entry->d_name == '.' ||
            snprintf(name, sizeof name, "%s/%s", path, entry->d_name) >= (int)sizeof name ||
            lstat(name, &st))
            continue;
        if (S_ISLNK(st.st_mode))
            allow(box, name, READS); /* which follows it */
        if (!stat(name, &st) && S_ISDIR(st.st_mode))
            allow_links(box, name, depth - 1);
    }
    if (folder)
        closedir(folder);
}

static void allow_option(void *arg, enum td_option_reach reach, const char *path)
{
    struct box *box = arg;
    char real[PATH_MAX];
    if (!*path)
        return;
    if (reach == TD_REACH_file) {
        allow_beside(box, path, READS);
        if (realpath(path, real)) /* of what is a link, where that leads */
            allow_beside(box, real, READS);
    } else if (reach == TD_REACH_written_file) {
        allow_beside(box, path, WRITES);
    } else if (reach == TD_REACH_written_folder) {
        allow(box, path, WRITES);
    } else if (reach == TD_REACH_folder) {
        allow(box, path, READS);
        allow_links(box, path, DEPTH);
    } else if (reach == TD_REACH_socket && !strncmp(path, "unix:", 5)) {
        allow_beside(box, path + 5, LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE);
    }
}

static void allow_system(struct box *box)
{
    static const char *const read[] = {"/usr",
                                       "/lib",
                                       "/lib64",
                                       "/proc",
                                       "/sys",
                                       "/etc/hosts",
                                       "/etc/localtime",
                                       "/etc/gnutls",
                                       "/etc/ld.so.cache",
                                       "/etc/nsswitch.conf",
                                       "/etc/host.conf",
                                       "/etc/gai.conf",
                                       "/etc/resolv.conf",
                                       "/etc/services",
                                       "/dev/urandom",
                                       "/dev/random",
                                       "/etc/crypto-policies"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        allow(box, read[i], READS);
    allow(box, "/proc/self/task", READS | LANDLOCK_ACCESS_FS_WRITE_FILE); /* threads' names */
    allow(box, "/proc/self/exe", LANDLOCK_ACCESS_FS_READ_FILE); /* where its functions are */
    allow(box, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
    allow(box, "/dev/shm", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
}

int td_sandbox_files(const struct td_config *config)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return -ENOSYS;
    struct ruleset set = {.files = FIRST};
    set.files |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
    set.files |= version >= 3 ? TRUNCATE : 0;
    set.files |= version >= 5 ? IOCTL_DEV : 0;
    set.addresses = version >= 4 ? CONNECT_TCP : 0;
    set.scopes = version >= 6 ? SCOPES : 0;
    size_t size = version >= 6 ? sizeof set : version >= 4 ? 16 : 8; /* longer ones are refused */
    struct box box = {.fd = (int)syscall(SYS_landlock_create_ruleset, &set, size, 0),
                      .handled = set.files};
    if (box.fd < 0)
        return -errno;
    allow_system(&box);
    td_config_each_path(config, allow_option, &box);
    if (!box.err &&
        (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, box.fd, 0)))
        box.err = -errno;
    close(box.fd);
    return box.err;
}
