/* Of a build with references alone (-Dkernels=ref): what others ask of oneDNN, which it has not. */
#include "kernels/level.h"
#include "kernels/memo.h"
#include "kernels/onednn/post.h"

int td_onednn_cap(enum td_isa cap)
{
    (void)cap;
    return 0;
}

enum td_isa td_onednn_isa(void)
{
    return TD_ISA_default;
}

const char *td_onednn_isa_name(void)
{
    return "none";
}

const char *td_onednn_version(void)
{
    return "none";
}

enum td_isa td_onednn_level(const struct td_prepared *prepared, enum td_dtype dtype)
{
    (void)prepared, (void)dtype;
    return TD_ISA_default;
}

bool td_onednn_post_knows(const struct td_post_op *op)
{
    (void)op;
    return false;
}

void td_onednn_count(struct td_weight_room *room)
{
    (void)room;
}

size_t td_onednn_bytes(void)
{
    return 0;
}

void td_onednn_forget(void)
{
}
