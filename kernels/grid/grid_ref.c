/* The judge of what is looked up in images: one result after the other, in double. */
#include "kernels/elementwise.h"
#include "kernels/grid/grid.h"

td_kernel td_grid_ref;
void td_grid_ref(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct td_grid g = td_grid_of(call);
    int64_t n = td_numel(out), plane = g.size[0] * g.size[1] * g.size[2];
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        int64_t at[TD_GRID_TAPS], which = i / g.places;
        double weight[TD_GRID_TAPS], sum = 0;
        td_grid_taps(&g, &call->arg[1].tensor, which / g.channels * g.places + i % g.places, at,
                     weight);
        for (int k = 0; k < g.taps; k++)
            if (at[k] >= 0)
                sum += weight[k] * td_get_real(in, which * plane + at[k]);
        td_put_real(out, i, sum);
    }
}
