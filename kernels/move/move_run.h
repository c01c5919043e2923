/* A run of elements whose steps are any on both sides, one element after the other. */
#ifndef TD_KERNELS_MOVE_RUN_H
#define TD_KERNELS_MOVE_RUN_H

#include <stdint.h>

/* The loop makes no vectors, into which lanes would be put one by one. */
#define TD_MOVE_SINGLY _Pragma("GCC unroll 4")
#define TD_MOVE_SINGLE __asm__("")

#define DEFINE_RUN(type)                                                                           \
    static void td_move_run_##type(type *out, int64_t out_step, const type *in, int64_t in_step,   \
                                   int64_t n)                                                      \
    {                                                                                              \
        type one = *in;                                                                            \
        if (!in_step && out_step == 1)                                                             \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = one;                                                                      \
        else if (in_step == -1 && out_step == 1)                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = in[-i];                                                                   \
        else if (in_step == 2 && out_step == 1)                                                    \
            for (int64_t i = 0; i < n; i++)                                                        \
                out[i] = in[2 * i];                                                                \
        else if (out_step == 1)                                                                    \
            TD_MOVE_SINGLY for (int64_t i = 0; i < n; i++)                                         \
            {                                                                                      \
                out[i] = in[i * in_step];                                                          \
                TD_MOVE_SINGLE;                                                                    \
            }                                                                                      \
        else                                                                                       \
            TD_MOVE_SINGLY for (int64_t i = 0; i < n; i++)                                         \
            {                                                                                      \
                out[i * out_step] = in[i * in_step];                                               \
                TD_MOVE_SINGLE;                                                                    \
            }                                                                                      \
    }
DEFINE_RUN(uint8_t)
DEFINE_RUN(uint16_t)
DEFINE_RUN(uint32_t)
DEFINE_RUN(uint64_t)

/* out[i * out_step] = in[i * in_step] of elements of size bytes, for all i < n. */
static inline void td_move_run(int64_t size, void *out, int64_t out_step, const void *in,
                               int64_t in_step, int64_t n)
{
    switch (size) {
    case 1:
        td_move_run_uint8_t(out, out_step, in, in_step, n);
        break;
    case 2:
        td_move_run_uint16_t(out, out_step, in, in_step, n);
        break;
    case 4:
        td_move_run_uint32_t(out, out_step, in, in_step, n);
        break;
    default:
        td_move_run_uint64_t(out, out_step, in, in_step, n);
    }
}

#undef TD_MOVE_SINGLY
#undef TD_MOVE_SINGLE
#undef DEFINE_RUN

#endif
