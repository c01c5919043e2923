/* Cutting a whole into near-equal parts: CPUs and threads over workers, a batch over streams. */
#include "pools/pools.h"

void td_split(int64_t total, int64_t parts, int64_t index, int64_t *begin, int64_t *count)
{
    int64_t least = total / parts, more = total % parts;
    *begin = index * least + (index < more ? index : more);
    *count = least + (index < more);
}
