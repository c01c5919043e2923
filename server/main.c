/* tensord's commands. Start-up is a list: the CPU before any thread, then operators, machine,
 * pools, the api's state, HTTP; the end is the same list backwards. `isa` and `ops` build no
 * server: they ask the api's own handlers, so that command and route cannot disagree. */
#include "server/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    td_command *run;
    const char *help;
} commands[] = {
#define TD_COMMAND(id, word, options, examples, help) {word, td_command_##id, help},
#include "server/commands/commands.def"
#undef TD_COMMAND
};

static void usage(FILE *to)
{
    fprintf(to, "tensord " TD_VERSION ": a CPU's vector and matrix units behind plain HTTP\n\n"
                "usage: tensord COMMAND [OPTIONS]\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n`tensord COMMAND --help` tells the options of each. TENSORD_CPU_CAPABILITY caps "
                "the\nISA level for all of them.\n");
}

int main(int argc, char **argv)
{
    td_runtime_tune(argv); /* may start the program anew, so nothing comes before it */
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        td_command_examples();
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("tensord " TD_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 2, argv + 2);
    const char *names[sizeof commands / sizeof *commands];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        names[i] = commands[i].name;
    const char *near = td_nearest(argv[1], names, sizeof commands / sizeof *commands);
    fprintf(stderr, "tensord: unknown command '%s'%s%s%s; there are", argv[1],
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
    fprintf(stderr, "\n");
    return 2;
}
