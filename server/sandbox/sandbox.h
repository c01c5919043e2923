/* What the process can reach: files and addresses are limited by Landlock, system calls by seccomp.
 * An attacker who gains control of the process has what these leave, and no more. Internal to
 * server/. */
#ifndef TD_SERVER_SANDBOX_H
#define TD_SERVER_SANDBOX_H

#include "api/api.h"
#include "server/config/config.h"
#include "server/log/log.h"

/* While there is one thread, since threads that are there already would not be limited. From now on
 * the process opens only files of the system (libraries, /proc, /sys, a few of /etc), files in the
 * folders that options name, and shared memory. It runs no program, connects to no TCP address and
 * signals no other process. Links in a folder of models may lead elsewhere; their targets can be
 * read too. 0, or -ENOSYS (the kernel has no Landlock, or it is turned off) and what else
 * landlock_restrict_self(2) has: nothing has changed then. */
int td_sandbox_files(const struct td_config *config);

/* Once all addresses are listened on: from now on all threads make only the system calls that a
 * running server needs. It opens no socket but those that it accepts, makes no process and runs no
 * program. Any other call ends the process, with its number in the log. 0, or -ENOSYS (the kernel
 * has no seccomp, this is no x86-64, or a sanitizer is built in, which makes other calls) and what
 * else seccomp(2) has. log: borrowed; NULL: nothing is logged. */
int td_sandbox_calls(const struct td_log *log);

/* For a process with secrets, before it has them: no core is dumped, and no other process of the
 * same user can read its memory. */
void td_sandbox_memory(void);

/* td_sandbox_calls, if the configuration wants a sandbox; notes in the service what is in force,
 * and logs it. files: what td_sandbox_files gave. */
void td_sandbox_close(const struct td_config *config, int files, struct td_service *service,
                      struct td_log *log);

#endif
