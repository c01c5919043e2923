/* `tensord token` adds, lists and removes the tokens of a file. Each change replaces the file in
 * one step, so a server that uses it (serve --tokens) never reads half of one. The secret is
 * printed once and stored nowhere: the file has its hash. */
#include "api/files/files.h"
#include "server/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES (1 << 20)

static const char help[] =
    "usage: tensord token add NAME --scopes SCOPES [OPTIONS]\n"
    "       tensord token list [--file FILE]\n"
    "       tensord token remove NAME [--file FILE]\n\n"
    "Adds, lists and removes tokens of the file that tensord serve --tokens reads. add prints a "
    "new\n"
    "token's secret, once, and appends its hash to the file. Clients send the secret as\n"
    "Authorization: Bearer SECRET. A running server has the change within a second.\n\n"
    "  --scopes read,run,store,admin  what it may do; see docs/access.md\n"
    "  --prefix TEXT                  names that it stores must begin with this\n"
    "  --expires TIME                 from when it is refused: 2027-01-31 or 2027-01-31T12:00:00Z, "
    "UTC\n"
    "  --rate N                       requests a second\n"
    "  --flight BYTES                 of requests and replies in flight, as 64M, or 25% of "
    "--memory\n"
    "  --memory BYTES                 of sessions and results of tasks, as 64M, or 25% of "
    "--memory\n"
    "  --store BYTES                  of tensors and models that it stores, as 2G, or 25% of "
    "--store-bytes\n"
    "  --pools N                      pools that it may make\n"
    "  --file FILE                    [TENSORD_TOKENS]\n";

/* The keys of a line, in its order. */
static const char *const keys[] = {"prefix", "expires", "rate", "flight",
                                   "memory", "store",   "pools"};
#define KEYS (sizeof keys / sizeof *keys)

struct asked {
    const char *what, *name, *scopes, *file;
    const char *value[KEYS];
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "tensord: token: %s: %s\n", what, why);
    return 1;
}

/* ---- the file ---- */

struct file {
    char *path; /* without links; from malloc */
    int fd;     /* locked */
    struct stat st;
    char *text; /* from malloc */
};

static void close_file(struct file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    free(file->text);
    free(file->path);
}

/* Opens and locks the file. Another process may have replaced it while this one waited for the
 * lock; then begins anew. */
static int open_locked(struct file *file, bool makes)
{
    struct stat now;
    for (;;) {
        file->fd = open(file->path, (makes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0600);
        if (file->fd < 0 || flock(file->fd, LOCK_EX) || fstat(file->fd, &file->st))
            return -errno;
        if (!stat(file->path, &now) && now.st_ino == file->st.st_ino)
            return 0;
        close(file->fd);
    }
}

static int open_file(struct file *file, const char *path, bool makes)
{
    char *real = realpath(path, NULL);
    *file = (struct file){.path = real ? real : strdup(path), .fd = -1};
    file->text = file->path ? calloc(1, MOST_BYTES + 1) : NULL;
    if (!file->text)
        return -ENOMEM;
    int err = open_locked(file, makes);
    ssize_t n = err ? 0 : pread(file->fd, file->text, MOST_BYTES, 0);
    return err ? err : n < 0 ? -errno : n == MOST_BYTES ? -EFBIG : 0;
}

/* Puts the text in the place of the file, whole, once it is found right. Its owner stays, and of
 * root's its group, and whether that may read it. The exit status. */
static int replace(const struct file *file, const char *text)
{
    struct td_problem problem;
    const struct stat *st = &file->st;
    char *made = td_file_beside(file->path, st->st_uid ? 0600 : 0600 | (st->st_mode & 040), text,
                                strlen(text));
    if (!made)
        return fail(file->path, strerror(errno));
    bool kept = (geteuid() && st->st_uid == geteuid()) || !chown(made, st->st_uid, st->st_gid);
    int status = kept ? 0 : fail(made, strerror(errno));
    if (!status && td_access_try(made, file->path, &problem) < 0) {
        fprintf(stderr, "tensord: %s\n", problem.text);
        status = 2;
    }
    if (!status && rename(made, file->path))
        status = fail(file->path, strerror(errno));
    if (status)
        unlink(made);
    free(made);
    return status;
}

/* Whether the line is of a token, and of that name: NULL is any. */
static bool is_of(const char *line, const char *name)
{
    line += strspn(line, " \t");
    size_t n = strcspn(line, " \t\r\n#");
    return n && (!name || (strlen(name) == n && !memcmp(line, name, n)));
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

/* ---- adding ---- */

/* 256 random bits as letters that stand for themselves in a URL, a shell and a header. */
static int draw(char secret[64])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned char random[43];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return -EIO;
    char *at = stpcpy(secret, "tensord_");
    for (size_t i = 0; i < sizeof random; i++)
        *at++ = letters[random[i] & 63];
    *at = 0;
    return 0;
}

static int add(const struct asked *asked, const struct file *file)
{
    char secret[64], hash[65], *text = NULL;
    size_t size = 0, length = strlen(file->text);
    FILE *to = open_memstream(&text, &size);
    if (!to || draw(secret))
        return fail(asked->name, "no random numbers, or no memory");
    td_digest(secret, strlen(secret), hash);
    fprintf(to, "%s%s%s  %s  %s", file->text, length && file->text[length - 1] != '\n' ? "\n" : "",
            asked->name, hash, asked->scopes);
    for (size_t i = 0; i < KEYS; i++)
        if (asked->value[i])
            fprintf(to, "  %s=%s", keys[i], asked->value[i]);
    fprintf(to, "\n");
    fclose(to);
    int status = replace(file, text);
    free(text);
    if (status)
        return status;
    if (isatty(STDOUT_FILENO))
        fprintf(stderr, "%s now has %s. Its secret, which is shown this once:\n", file->path,
                asked->name);
    puts(secret);
    explicit_bzero(secret, sizeof secret);
    return 0;
}

/* ---- removing, listing ---- */

static int drop(const struct asked *asked, const struct file *file)
{
    char *text = calloc(1, strlen(file->text) + 1), *at = text;
    bool found = false;
    for (const char *line = file->text, *next; text && *line; line = next) {
        next = next_line(line);
        if (is_of(line, asked->name))
            found = true;
        else
            at = mempcpy(at, line, (size_t)(next - line));
    }
    int status = !text    ? fail(file->path, "out of memory")
                 : !found ? fail(file->path, "has no token of that name")
                          : replace(file, text);
    free(text);
    return status;
}

/* All of each line but the hash. */
static int list(const struct file *file)
{
    struct td_problem problem;
    if (td_access_try(file->path, file->path, &problem) < 0) {
        fprintf(stderr, "tensord: %s\n", problem.text);
        return 2;
    }
    for (const char *line = file->text; *line; line = next_line(line)) {
        char name[80], scopes[80];
        int behind = 0;
        if (!is_of(line, NULL) || sscanf(line, "%79s %*s %79[a-z,]%n", name, scopes, &behind) < 2)
            continue;
        printf("%-20s %-20s", name, scopes);
        for (const char *c = line + behind; *c && !strchr("\r\n#", *c);) {
            c += strspn(c, " \t");
            int n = (int)strcspn(c, " \t\r\n#");
            printf(n ? " %.*s" : "", n, c);
            c += n;
        }
        putchar('\n');
    }
    return 0;
}

/* ---- the command ---- */

/* The place for an option's value, or NULL. */
static const char **place(struct asked *asked, const char *option)
{
    if (!strcmp(option, "--scopes"))
        return &asked->scopes;
    if (!strcmp(option, "--file"))
        return &asked->file;
    for (size_t i = 0; i < KEYS; i++)
        if (!strncmp(option, "--", 2) && !strcmp(option + 2, keys[i]))
            return &asked->value[i];
    return NULL;
}

/* 0, or the exit status. */
static int read_args(int argc, char **argv, struct asked *asked)
{
    for (int i = 0; i < argc; i++) {
        const char **to = *argv[i] == '-'                ? place(asked, argv[i])
                          : !asked->what                 ? &asked->what
                          : !asked->name && *asked->what ? &asked->name
                                                         : NULL;
        bool option = *argv[i] == '-';
        if (!to || (option && (i + 1 == argc || !strncmp(argv[i + 1], "--", 2))))
            return option ? td_command_no_option("token", argv[i])
                          : td_command_wrong("token", "one word too many:", argv[i]);
        *to = option ? argv[++i] : argv[i];
        if (strpbrk(*to, " \t\r\n#"))
            return td_command_wrong("token", "no blank or # may stand in", *to);
    }
    return 0;
}

int td_command_token(int argc, char **argv)
{
    struct asked asked = {.file = getenv("TENSORD_TOKENS")};
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return td_command_help("token", help);
    int status = read_args(argc, argv, &asked);
    if (status)
        return status;
    bool adds = asked.what && !strcmp(asked.what, "add"),
         drops = asked.what && !strcmp(asked.what, "remove"),
         lists = asked.what && !strcmp(asked.what, "list");
    if (!adds && !drops && !lists)
        return td_command_wrong("token", "add, list or remove is right, not",
                                asked.what ? asked.what : "");
    if (!asked.file || !*asked.file)
        return td_command_wrong("token", "--file FILE is missing for", asked.what);
    if (!lists && !asked.name)
        return td_command_wrong("token", "a name is missing for", asked.what);
    if (adds && !asked.scopes)
        return td_command_wrong("token", "--scopes, as in read,run, is missing for", asked.name);
    struct file file;
    int err = open_file(&file, asked.file, adds);
    status = err     ? fail(asked.file, strerror(-err))
             : adds  ? add(&asked, &file)
             : drops ? drop(&asked, &file)
                     : list(&file);
    close_file(&file);
    return status;
}
