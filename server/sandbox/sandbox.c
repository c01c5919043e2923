/* See sandbox.h. */
#include "server/sandbox/sandbox.h"

#include <errno.h>

void td_sandbox_close(const struct td_config *config, int files, struct td_service *service,
                      struct td_log *log)
{
    bool wanted = config->sandbox == 0; /* on|off */
    int calls = wanted ? td_sandbox_calls(log) : -ECANCELED;
    service->sandbox.files = !files;
    service->sandbox.calls = !calls;
    td_log_event(log, "sandbox", "files and addresses: %s; system calls: %s",
                 !wanted ? "all (sandbox)"
                 : files ? "all, the kernel has no Landlock or refuses it"
                         : "those that it needs, by Landlock",
                 !wanted ? "all (sandbox)"
                 : calls ? "all, the kernel has no seccomp, or a sanitizer is built in"
                         : "those that it needs, by seccomp");
}
