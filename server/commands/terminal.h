/* What commands show a person besides their output. Internal to server/. */
#ifndef TD_SERVER_TERMINAL_H
#define TD_SERVER_TERMINAL_H

#include <stdbool.h>

/* Whether fd is a terminal where colours and weights are welcome: not with NO_COLOR in the
 * environment, nor where TERM says that it knows no more than text. */
bool td_terminal_has_color(int fd);

/* Has standard input give each key at once and show none, or be again as it was, which it is as
 * well when a signal ends the program. False: it is no terminal. */
bool td_terminal_keys(bool on);

/* Draws on standard error, where that is a terminal, that this share (0 to 1) of the work is done,
 * and what is being worked on; ten times a second at most. Called by one thread. */
void td_progress(double share, const char *what);

/* Takes what was drawn away: before output, and at the end. */
void td_progress_clear(void);

#endif
