/* oneDNN as a whole: the ISA level that it may use and uses, and its version. */
#include "kernels/level.h"
#include "kernels/memo.h"
#include "kernels/onednn/prim.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum td_isa isa;
    dnnl_cpu_isa_t cap;
} levels[] = {
    /* lowest first; oneDNN counts FP16 without AMX below AMX, we do the reverse */
    {TD_ISA_default, dnnl_cpu_isa_sse41},
    {TD_ISA_avx2, dnnl_cpu_isa_avx2},
    {TD_ISA_avx2_vnni, dnnl_cpu_isa_avx2_vnni},
    {TD_ISA_avx512, dnnl_cpu_isa_avx512_core},
    {TD_ISA_avx512_vnni, dnnl_cpu_isa_avx512_core_vnni},
    {TD_ISA_avx512_bf16, dnnl_cpu_isa_avx512_core_bf16},
    {TD_ISA_amx, dnnl_cpu_isa_avx512_core_amx},
    {TD_ISA_avx512_fp16, dnnl_cpu_isa_avx512_core_amx}, /* of which FP16's vectors are a part */
};

static enum td_isa cap = TD_ISAS - 1; /* as told; set before there are threads */

int td_onednn_cap(enum td_isa isa)
{
    if (isa >= TD_ISAS)
        return 0;
    dnnl_status_t status = dnnl_set_max_cpu_isa(levels[isa].cap);
    cap = isa;
    return status == dnnl_success ? 0 : status == dnnl_unimplemented ? -ENOTSUP : -EBUSY;
}

enum td_isa td_onednn_isa(void)
{
    unsigned has = dnnl_get_effective_cpu_isa();
    int i = (int)cap;
    while (i > 0 && (has & levels[i].cap) != (unsigned)levels[i].cap)
        i--;
    return levels[i].isa;
}

enum td_isa td_onednn_named(const char *how)
{
    static const struct {
        const char *word;
        enum td_isa isa;
    } words[] = {
        /* each before those that it begins with */
        {"avx10_1_512_amx", TD_ISA_amx},
        {"avx10_1_512", TD_ISA_avx512_fp16},
        {"avx512_core_amx", TD_ISA_amx},
        {"avx512_core_fp16", TD_ISA_avx512_fp16},
        {"avx512_core_bf16", TD_ISA_avx512_bf16},
        {"avx512_core_vnni", TD_ISA_avx512_vnni},
        {"avx512_core", TD_ISA_avx512},
        {"avx2_vnni", TD_ISA_avx2_vnni},
        {"avx2", TD_ISA_avx2},
        {"avx", TD_ISA_default},
        {"sse41", TD_ISA_default},
    };
    size_t i = 0;
    while (i < sizeof words / sizeof *words && !strstr(how, words[i].word))
        i++;
    return i < sizeof words / sizeof *words ? words[i].isa : TD_ISAS;
}

enum td_isa td_onednn_serves(enum td_isa isa, enum td_dtype dtype)
{
    enum td_isa plain = isa >= TD_ISA_avx512 ? TD_ISA_avx512
                        : isa >= TD_ISA_avx2 ? TD_ISA_avx2
                                             : TD_ISA_default;
    if (dtype == TD_bf16 && isa >= TD_ISA_amx)
        return TD_ISA_amx;
    bool own = (dtype == TD_bf16 && isa == TD_ISA_avx512_bf16) ||
               (dtype == TD_f16 && isa >= TD_ISA_amx) || !dtype;
    return own ? isa : plain;
}

enum td_isa td_onednn_level(const struct td_prepared *prepared, enum td_dtype dtype)
{
    enum td_isa named = 0;
    int n = 0;
    for (; prepared && n < TD_MAX_STATES && prepared->state[n]; n++) {
        const struct td_onednn_prim *p = td_memo_value(prepared->state[n]);
        named = p && p->isa > named ? p->isa : named;
    }
    return td_onednn_serves(n && named < TD_ISAS ? named : td_onednn_isa(), dtype);
}

const char *td_onednn_isa_name(void)
{
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
    case dnnl_cpu_isa_avx2_vnni_2:
        return "avx2_vnni_2";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_fp16:
        return "avx512_core_fp16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    case dnnl_cpu_isa_avx512_core_amx_fp16:
        return "avx512_core_amx_fp16";
    default:
        return "default";
    }
}

static char version[32];

static void version_write(void)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
}

const char *td_onednn_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, version_write);
    return version;
}
