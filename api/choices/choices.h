/* Measured choices between kernels, kept in a file (--choices) beyond the process: by version of
 * the program and of oneDNN, CPU model and ISA level, since another of these has other times. One
 * file may have several machines' parts; each process reads and writes its own and leaves the
 * others as they are. What a file says can make a call slower, never wrong: rows are asked whether
 * they take a call all the same. Internal to api/. */
#ifndef TD_API_CHOICES_H
#define TD_API_CHOICES_H

#include "api/api.h"

/* Writes what has been measured since the last time, if there is a file and it may be written. 1:
 * it has; 0: there was nothing to do; -errno, with the sentence. Any thread may ask. */
int td_choices_keep(struct td_service *service, struct td_problem *problem);

#endif
