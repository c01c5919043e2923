/* What the process can reach: files and addresses by Landlock, system calls by seccomp. Whoever
 * takes it over has what it has, and no more. Internal to server/. */
#ifndef TD_SERVER_SANDBOX_H
#define TD_SERVER_SANDBOX_H

#include "api/api.h"
#include "server/config/config.h"
#include "server/log/log.h"

/* While there is one thread: from now on this process and its threads open files of the system
 * (libraries, /proc, /sys, a few of /etc), those that an option of kind file or folder names, and
 * shared memory; run no program, connect to no TCP address, signal no other process. A folder of
 * models may hold links to elsewhere, whose targets count as named. 0, or -ENOSYS (the kernel has
 * no Landlock, or it is off there) and others of landlock_restrict_self(2): nothing has changed
 * then. */
int td_sandbox_files(const struct td_config *config);

/* Once all addresses are listened on and models are loaded: no thread makes a system call any more
 * but those that a server under way needs: no sockets but those that it accepts, no new processes,
 * no programs. What does ends the process, with the call's number in the log. 0, or -ENOSYS (the
 * kernel has no seccomp, or this is no x86-64, or a sanitizer is at work, which needs others) and
 * others of seccomp(2). log: borrowed; NULL: it is not said. */
int td_sandbox_calls(const struct td_log *log);

/* No core is dumped, and no other process of the same user looks into this one's memory. */
void td_sandbox_memory(void);

/* The rest of it, once the server stands; notes in the service how all came out, and says it in the
 * log. files: what td_sandbox_files gave. With tokens or TLS no core is dumped either. */
void td_sandbox_close(const struct td_config *config, int files, struct td_service *service,
                      struct td_log *log);

#endif
