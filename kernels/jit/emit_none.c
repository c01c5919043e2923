/* In place of the emitter where the build has found no Xbyak: there is no code, and rows serve. */
#include "kernels/jit/loop.h"

size_t td_loop_emit(const struct td_loop *l, void *code, size_t room, uint32_t *at)
{
    (void)l, (void)code, (void)room, (void)at;
    return 0;
}
