/* How far a long command is, for who waits before a terminal: one line on standard error that is
 * drawn over itself and leaves nothing behind. In pipes and files there is none. */
#include "server/commands/terminal.h"

#include "pools/pools.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define WIDTH 30
#define EVERY_NS 100000000

static bool knows_more_than_text(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool td_terminal_has_color(int fd)
{
    const char *no = getenv("NO_COLOR");
    return knows_more_than_text(fd) && !(no && *no);
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static bool drawn;

void td_progress(double share, const char *what)
{
    static int64_t last;
    static const char bar[] = "##############################";
    _Static_assert(sizeof bar - 1 == WIDTH, "what is cut from it fits");
    int64_t now = td_now_ns();
    int full = (int)(share * WIDTH), left = columns() - WIDTH - 9;
    if ((last && now - last < EVERY_NS) || left < 0 || !knows_more_than_text(STDERR_FILENO))
        return;
    bool color = td_terminal_has_color(STDERR_FILENO);
    fprintf(stderr, "\r[%s%.*s%s%*s] %3d %% %.*s\033[K", color ? "\033[32m" : "", full, bar,
            color ? "\033[0m" : "", WIDTH - full, "", (int)(share * 100), left, what);
    last = now;
    drawn = true;
}

void td_progress_clear(void)
{
    if (drawn)
        fputs("\r\033[K", stderr);
    drawn = false;
}

/* ---- keys ---- */

static struct termios before;

static void restore_and_end(int number)
{
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
    signal(number, SIG_DFL);
    raise(number);
}

bool td_terminal_keys(bool on)
{
    struct termios each;
    if (!on) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        return true;
    }
    if (tcgetattr(STDIN_FILENO, &before))
        return false;
    each = before;
    each.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    signal(SIGINT, restore_and_end);
    signal(SIGTERM, restore_and_end);
    return !tcsetattr(STDIN_FILENO, TCSANOW, &each);
}
