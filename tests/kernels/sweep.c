/* The FP32 functions of one number over floats of all sizes: every row of every level that this CPU
 * runs, beside the judge, in units in the last place; the bound is the descriptor's.
 *
 *   sweep [STEP] [OP]
 *
 * takes every STEP-th of the 2^32 bit patterns, and the floats nearest to the first multiples of
 * half of pi, where little is left of a sine or cosine; ./check takes 1 of 40,009, `sweep 1` all
 * (two minutes an operator). */
#include "kernels/elementwise.h"
#include "tests/distance.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 65536

static float in[CHUNK], right[CHUNK], got[CHUNK];

struct worst {
    double ulp;
    float at, is, want;
};

/* The next numbers. False: they are multiples of pi / 2, and the last. */
static bool draw(uint64_t *bits, uint64_t step)
{
    bool is_last = *bits >= UINT64_C(1) << 32;
    for (int i = 0; i < CHUNK; i++, *bits += step) {
        uint32_t u = (uint32_t)*bits;
        memcpy(&in[i], &u, 4);
        if (is_last)
            in[i] = (float)((i % 2 ? -1 : 1) * i * 1.5707963267948966);
    }
    return !is_last;
}

static int sweep(const struct td_handle *handle, uint64_t step)
{
    const struct td_op *op = handle->op;
    struct worst worst[16] = {0};
    struct td_value arg[TD_MAX_ARGS] = {{0}};
    struct td_tensor out[1];
    struct td_call call = {.op = op,
                           .n_args = handle->schema.n_params,
                           .arg = arg,
                           .n_out = 1,
                           .out = out,
                           .threads = 1};
    const struct td_impl *ref = op->impls;
    while (ref[1].run)
        ref++;
    call.arg[0] =
        (struct td_value){.kind = TD_KIND_tensor, .tensor = {in, TD_f32, 1, {CHUNK}, NULL}};
    uint64_t bits = 0;
    for (bool more = true; more;) {
        more = draw(&bits, step);
        call.out[0] = (struct td_tensor){right, TD_f32, 1, {CHUNK}, NULL};
        ref->run(&call);
        call.out[0].data = got;
        for (const struct td_impl *row = op->impls; row < ref; row++) {
            char why[100];
            if (!(row->dtypes & TD_f32) || !sample_runnable(row, why))
                continue;
            row->run(&call);
            struct worst *w = &worst[row - op->impls];
            for (int i = 0; i < CHUNK; i++) {
                struct td_tensor g = {got + i, TD_f32, 0}, r = {right + i, TD_f32, 0};
                int64_t where;
                if (!memcmp(got + i, right + i, 4))
                    continue;
                double d = distance(&g, &r, NULL, &where);
                if (d > w->ulp)
                    *w = (struct worst){d, in[i], got[i], right[i]};
            }
        }
    }
    int failures = 0;
    for (const struct td_impl *row = op->impls; row < ref; row++) {
        char why[100];
        const struct worst *w = &worst[row - op->impls];
        if (!(row->dtypes & TD_f32) || !sample_runnable(row, why))
            continue;
        failures += w->ulp > op->ulp;
        printf("%s - %s %s@%s: at most %.3g ulp off, %g allowed (%.9g gives %.9g, not %.9g)\n",
               w->ulp > op->ulp ? "not ok" : "ok", handle->full, row->name, td_isa_name(row->isa),
               w->ulp, op->ulp, (double)w->at, (double)w->is, (double)w->want);
    }
    return failures;
}

int main(int argc, char **argv)
{
    uint64_t step = argc > 1 ? strtoull(argv[1], NULL, 0) : 40009;
    int failures = 0;
    sample_start();
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        const struct td_op *op = handle->op;
        struct td_value arg[TD_MAX_ARGS] = {{0}};
        struct td_tensor out[TD_MAX_OUTS] = {{0}};
        struct td_call call = {.op = op, .n_args = 1, .arg = arg, .out = out};
        call.arg[0] = (struct td_value){.kind = TD_KIND_tensor,
                                        .tensor = {.dtype = TD_f32, .rank = 1, .shape = {CHUNK}}};
        bool unary = handle->schema.n_params == 1 && op->family && op->dtypes & TD_f32 &&
                     !op->rule(&call) && call.out[0].dtype == TD_f32 && call.out[0].rank == 1 &&
                     call.out[0].shape[0] == CHUNK;
        if (unary && (argc < 3 || !strcmp(argv[2], handle->full)))
            failures += sweep(handle, step ? step : 1);
    }
    td_registry_fini();
    return failures != 0;
}
