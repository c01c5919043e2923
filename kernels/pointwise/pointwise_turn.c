/* Operands that lie side by side along another dimension than the result, in the order of that: by
 * squares that turn in registers. Compiled once per level. */
#include "kernels/planes.h"
#include "kernels/pointwise/walk.h"
#include "kernels/turn.h"

/* Elements of 4 bytes by squares of whole vectors; those at the ends take some once more. */
static void turn_words(const struct td_point_plane *p)
{
    uint32_t *to = p->to;
    const uint32_t *from = p->from;
    if (p->rows < TD_LANES || p->cols < TD_LANES) {
        td_turn_plane_4(to, p->to_row, from, p->step, p->rows, p->cols, true);
        return;
    }
    for (int64_t a = 0; a < p->cols; a += TD_LANES)
        for (int64_t b = 0; b < p->rows; b += TD_LANES) {
            int64_t c = a < p->cols - TD_LANES ? a : p->cols - TD_LANES;
            int64_t r = b < p->rows - TD_LANES ? b : p->rows - TD_LANES;
            td_transpose(to + r * p->to_row + c, p->to_row, from + r + c * p->step, p->step);
        }
}

void TD_NAME(point_turn)(const struct td_point_plane *p)
{
    switch (p->size) {
    case 1:
        td_turn_plane_1(p->to, p->to_row, p->from, p->step, p->rows, p->cols, true);
        break;
    case 2:
        td_turn_plane_2(p->to, p->to_row, p->from, p->step, p->rows, p->cols, true);
        break;
    case 4:
        turn_words(p);
        break;
    default:
        td_turn_plane_8(p->to, p->to_row, p->from, p->step, p->rows, p->cols, true);
    }
}
