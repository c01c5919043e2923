/* `tensord ready`: for health checks of containers, whose images have no curl. */
#include "server/commands/ask.h"
#include "server/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int td_command_ready(int argc, char **argv)
{
    const char *where = argc ? argv[0] : "127.0.0.1:8080";
    if (argc && (!strcmp(where, "--help") || !strcmp(where, "-h")))
        return td_command_help(
            "ready",
            "usage: tensord ready [[https://]ADDR:PORT]\n\nWhether the server there takes "
            "requests (GET /v2/health/ready): the exit status is 0,\nor 1 where it does not yet, "
            "or there is none. [127.0.0.1:8080]\nIt sends no secret and takes any "
            "certificate.\n");
    if (argc > 1 || *where == '-') {
        fprintf(stderr, "tensord: ready takes one ADDR:PORT, not '%s'; see --help\n",
                argv[argc - 1]);
        return 2;
    }
    if (td_ask_is_ready(where)) {
        printf("ready\n");
        return 0;
    }
    if (errno == EPROTO)
        fprintf(stderr, "tensord: the server at %s is not ready, or speaks another protocol\n",
                where);
    else
        fprintf(stderr, "tensord: no server at %s: %s\n", where, strerror(errno));
    return 1;
}
