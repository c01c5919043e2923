/* What commands show a person besides their output. Internal to server/. */
#ifndef TD_SERVER_TERMINAL_H
#define TD_SERVER_TERMINAL_H

#include <stdbool.h>

/* Whether fd is a terminal where colours and weights are welcome: not with NO_COLOR in the
 * environment, nor where TERM says that it knows no more than text. */
bool td_terminal_has_color(int fd);

/* Draws on standard error, where that is a terminal, that this share (0 to 1) of the work is done,
 * and what is being worked on; ten times a second at most. Called by one thread. */
void td_progress(double share, const char *what);

/* Takes what was drawn away: before output, and at the end. */
void td_progress_clear(void);

#endif
