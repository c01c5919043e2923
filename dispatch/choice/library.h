/* What libraries keep between calls, as part of td_memory. */
#ifndef TD_DISPATCH_LIBRARY_H
#define TD_DISPATCH_LIBRARY_H

#include <stddef.h>

/* From here on primitives of oneDNN are taken from td_memory, and given back where that is full. To
 * be called behind td_buffers_init, before there are any; more calls change nothing. */
void td_library_count(void);
size_t td_library_bytes(void); /* that are taken so */

#endif
