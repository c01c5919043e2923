/* Calls for the tests, made from the patterns in the operators' descriptors: see sample.h. */
#include "tests/sample.h"

#include "dispatch/call/own.h"
#include "kernels/elementwise.h"
#include "kernels/jit/code.h"
#include "tests/amx/emulate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST (6 << 20) /* elements */

static uint64_t next(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void fill_bits(struct td_tensor *t, uint64_t seed)
{
    uint8_t *p = t->data;
    for (size_t i = 0; i < td_nbytes(t); i++)
        p[i] = (uint8_t)(t->dtype == TD_bool ? next(&seed) & 1 : next(&seed));
    for (int64_t i = 0; t->dtype == TD_f32 && i < td_numel(t); i++)
        if (fabsf(((float *)t->data)[i]) > 0x1p126f) /* twice as big must still be finite */
            ((float *)t->data)[i] /= 4;
    for (int64_t i = 0; t->dtype == TD_f64 && i < td_numel(t); i++)
        if (fabs(((double *)t->data)[i]) > 0x1p1022)
            ((double *)t->data)[i] /= 4;
    for (int64_t i = 0; t->dtype == TD_bf16 && i < td_numel(t); i++)
        if (fabs(td_get_real(t, i)) > 0x1p126)
            td_put_real(t, i, td_get_real(t, i) / 4);
}

static void fill(struct td_tensor *t, enum sample_values values, uint64_t seed)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 3e4, -3e4};
    int64_t n = td_numel(t);
    if (values & SAMPLE_NONE)
        return;
    if (values & SAMPLE_BITS) {
        fill_bits(t, seed);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = next(&seed);
        double x = (double)(int64_t)bits * 0x1p-61;
        if (values & SAMPLE_SPECIAL && bits % 32 == 0)
            x = special[bits / 32 % (sizeof special / sizeof *special)];
        if (values & SAMPLE_NORMAL && fabs(x) < 0x1p-126)
            x = 0;
        if (values & SAMPLE_SMALL && !(values & SAMPLE_SPECIAL))
            x /= 64;
        else if (values & SAMPLE_SMALL && !isnan(x))
            x = fmax(fmin(x, 4), -4);
        if (t->dtype == TD_bool)
            td_put_whole(t, i, (int64_t)(bits >> 7 & 1));
        else if (td_dtype_kind(t->dtype) == 'f')
            td_put_real(t, i, values & SAMPLE_ABSOLUTE ? fabs(x) : x);
        else /* a big number wraps around in INT8: what is absolute is what stands there */
            td_put_whole(t, i, isfinite(x) ? (int64_t)(x * 25) : 100);
        if (values & SAMPLE_ABSOLUTE && td_dtype_kind(t->dtype) == 'i' && td_get_whole(t, i) < 0)
            td_put_whole(t, i, -td_get_whole(t, i));
    }
}

static void without_zeros(struct td_tensor *t)
{
    for (int64_t i = 0; td_dtype_kind(t->dtype) != 'f' && i < td_numel(t); i++)
        if (!td_get_whole(t, i))
            td_put_whole(t, i, 1);
}

/* Memory for a tensor, and what stands in it. */
static int make(struct sample *s, const struct td_sample_tensor *of, enum sample_values values,
                uint64_t seed)
{
    struct td_tensor *t = of->tensor;
    if (!td_fits(t) || td_numel(t) > MOST)
        return -E2BIG;
    t->data = sample_alloc(td_nbytes(t));
    if (of->below >= 0 && !(values & SAMPLE_NONE)) {
        for (int64_t i = 0; i < td_numel(t); i++)
            td_put_whole(t, i, of->below ? (int64_t)(next(&seed) % (uint64_t)of->below) : 0);
    } else {
        fill(t, values, seed);
    }
    if (values & SAMPLE_ALIKE)
        sample_make_alike(t);
    s->input[s->n_inputs++] = *t;
    if (values & SAMPLE_LAYOUTS)
        sample_place(s, values, t);
    return 0;
}

int sample_init(struct sample *s, const char *name, const char *pattern, struct td_sizes sizes,
                enum td_dtype dtype, enum sample_values values, uint64_t seed)
{
    const struct td_schema *schema = &td_registry_find(name)->schema;
    int err = 0;
    memset(s, 0, sizeof *s);
    td_sample_read(&s->made, schema, pattern, &sizes, dtype);
    for (int i = 0; i < s->made.n_tensors && !err; i++) {
        const struct td_sample_tensor *t = &s->made.tensor[i];
        int place = schema->param[t->param].type.list ? 100 * t->param + t->element : t->param;
        err = make(s, t, values, seed + (uint64_t)place * 1000003);
    }
    if (err)
        return err;
    sample_lay(s);
    err = td_run_bind(&s->run, name, s->made.arg, s->made.n_args, NULL);
    for (int i = 0; !err && i < s->run.call.n_out; i++)
        err = td_numel(&s->run.call.out[i]) > MOST ? -E2BIG : 0;
    if (!err && !(values & SAMPLE_NONE) && s->run.call.op->check &&
        s->run.call.op->check(&s->run.call))
        for (int i = 0; i < s->n_inputs; i++) /* it divides */
            without_zeros(&s->input[i]);
    sample_lay(s);
    if (err)
        s->run.call.n_out = 0;
    for (int i = 0; i < s->run.call.n_out; i++) {
        s->out_bytes[i] = td_nbytes(&s->run.call.out[i]);
        s->run.call.out[i].data = sample_alloc(s->out_bytes[i]);
    }
    return err;
}

void sample_fini(struct sample *s)
{
    for (int i = 0; i < s->n_inputs; i++)
        sample_free(s->input[i].data, td_nbytes(&s->input[i]));
    for (int i = 0; i < s->n_inputs; i++)
        sample_free(s->laid[i].begin, s->laid[i].bytes);
    for (int i = 0; i < s->run.call.n_out; i++)
        sample_free(s->run.call.out[i].data, s->out_bytes[i]);
}

bool sample_same_inputs(const struct sample *a, const struct sample *b)
{
    for (int i = 0; i < a->n_inputs; i++)
        if (memcmp(a->input[i].data, b->input[i].data, td_nbytes(&a->input[i])))
            return false;
    return true;
}

void sample_copy_inputs(struct sample *to, const struct sample *from)
{
    for (int i = 0; i < from->n_inputs; i++)
        memcpy(to->input[i].data, from->input[i].data, td_nbytes(&from->input[i]));
    sample_lay(to);
}

void sample_start(void)
{
    struct td_problem problem = {0};
    if (td_cpu_init(getenv("TENSORD_CPU_CAPABILITY"), &problem) || td_registry_init(&problem)) {
        fprintf(stderr, "%s\n", problem.text);
        exit(2);
    }
#ifdef TD_WIDE
    emulate_amx_start();
    if (!(td_cpu()->cpu_levels >> TD_ISA_avx512 & 1)) /* a generated loop would be of its code */
        td_loops_allow(false);
#endif
}

bool sample_runnable(const struct td_impl *impl, char why[100])
{
    if (impl->run == td_impl_absent) {
        snprintf(why, 100, "registered as absent");
        return false;
    }
#ifdef TD_WIDE /* the rows above AVX2 are made of AVX2 instructions here, the others are as ever   \
                */
    bool runnable = impl->isa > TD_ISA_avx2 && td_cpu()->levels >> TD_ISA_avx2 & 1;
    snprintf(why, 100, runnable ? "" : "not built wide");
#else
    bool runnable = td_cpu()->levels >> impl->isa & 1;
    int n = snprintf(why, 100, runnable ? "" : "this CPU lacks ");
    if (!runnable)
        td_cpu_missing(td_cpu(), impl->isa, why + n, 100 - (size_t)n);
#endif
    return runnable;
}

bool sample_is_simd(const struct td_impl *impl, const struct td_call *call, const char *level)
{
    char why[100];
    return !strcmp(impl->name, "simd") && !strcmp(td_isa_name(impl->isa), level) &&
           sample_runnable(impl, why) && sample_takes(impl, call);
}

bool sample_takes(const struct td_impl *impl, const struct td_call *call)
{
    struct td_prepared prepared = {0};
    bool takes = !impl->prepare || (!impl->prepare(call, &prepared) &&
                                    !(prepared.dense && td_call_count_strides(call)));
    td_prepared_release(&prepared);
    return takes;
}

int sample_run(const struct td_impl *impl, struct td_call *call)
{
    struct td_prepared prepared = {0};
    const char *no = impl->prepare ? impl->prepare(call, &prepared) : NULL;
    if (no) {
        fprintf(stderr, "%s@%s: %s\n", impl->name, td_isa_name(impl->isa), no);
        exit(2);
    }
    size_t size = (prepared.scratch + 63) / 64 * 64;
    call->scratch = size ? sample_alloc(size) : NULL;
    if (size) /* NaN, and other than what the last call has left */
        memset(call->scratch, 0xff, size);
    call->prepared = &prepared;
    int err = td_impl_run(impl, call);
    sample_free(call->scratch, size);
    td_prepared_release(&prepared);
    call->scratch = NULL;
    call->prepared = NULL;
    return err;
}
