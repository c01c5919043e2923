/* The commands, one file each. Each gets what follows its name and returns the exit status.
 * Internal to server/. */
#ifndef TD_SERVER_COMMANDS_H
#define TD_SERVER_COMMANDS_H

#include "api/api.h"

typedef int td_command(int argc, char **argv);
#define TD_COMMAND(id, ...) td_command td_command_##id;
#include "server/commands/commands.def"
#undef TD_COMMAND

/* Detects the CPU under TENSORD_CPU_CAPABILITY (or cap when it is not NULL) and parses the
 * operators; says what went wrong on standard error. 0, or the exit status. */
int td_command_begin(const char *cap);

/* Prints a command's help: the text, and its examples behind it. The exit status, 0. */
int td_command_help(const char *word, const char *text);

/* For an option that the command does not have, or that lacks its value: says so on standard error,
 * and which was meant. The exit status, 2. */
int td_command_no_option(const char *word, const char *given);
/* Says on standard error what is wrong with a word of its command line: 2. */
int td_command_wrong(const char *word, const char *what, const char *given);

/* Prints the first example of every command. */
void td_command_examples(void);

#endif
