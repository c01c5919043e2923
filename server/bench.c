/* placeholder for build; replaced below */
#include "server/commands.h"
int td_command_bench(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return 2;
}
