/* Charges to td_memory what libraries keep between calls. */
#ifndef TD_DISPATCH_LIBRARY_H
#define TD_DISPATCH_LIBRARY_H

#include <stddef.h>

/* Has oneDNN's primitives charged to td_memory from now on, and dropped when that is full. To be
 * called after td_buffers_init and before the first primitive; further calls have no effect. */
void td_library_count(void);
size_t td_library_bytes(void); /* charged so */

#endif
