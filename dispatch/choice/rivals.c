/* Which rows are timed for a call, and in which order: see rivals.h. */
#include "dispatch/choice/rivals.h"

#include "dispatch/choice/peaks.h"

#include <math.h>
#include <string.h>

/* Rows behind one that does this much of what the CPU can do are not timed, unless they multiply
 * less. */
#define NEAR_PEAK 0.9
/* In FP32 a library was hardly ever faster for a call of which one of our rows takes no longer than
 * this: there it has no instructions that our rows lack. */
#define SHORT_F32_NS 8000

/* A library's row is timed if it may save in so many calls what that takes: the library compiles
 * its code, which takes LIBRARY_NS, packs weights, and runs three times. */
#define CALLS_TO_PAY 100
#define LIBRARY_NS 2000000

/* Whether one of our rows cannot beat one of the higher level: it is the same code with vectors of
 * half the width, or without vectors. */
static bool is_beaten(enum td_isa isa, enum td_isa higher)
{
    return isa == TD_ISA_default ? higher != isa : isa < TD_ISA_avx512 && higher >= TD_ISA_avx512;
}

/* t->peak_ns, which is computed where it is needed first: to look at the peak takes 10 us. */
static double peak_ns(struct td_timing *t)
{
    const struct td_call *call = &t->copy.call;
    if (t->peak_ns >= 0)
        return t->peak_ns;
    bool known = !t->asked && td_row_dtype(call) == TD_f32 && call->op->flops;
    t->peak_ns = known ? call->op->flops(call) / (td_peaks_glance() * call->threads) * 1e9 : 0;
    return t->peak_ns;
}

double td_timing_near_peak_ns(struct td_timing *t)
{
    return peak_ns(t) / NEAR_PEAK;
}

double td_timing_short_ns(const struct td_timing *t)
{
    return td_row_dtype(&t->copy.call) == TD_f32 ? SHORT_F32_NS : TD_SHORT_NS;
}

double td_timing_packing_ns(const struct td_timing *t)
{
    double bytes = 0;
    for (int i = 0; i < t->copy.call.n_args; i++)
        if (t->copy.arg[i].kind == TD_KIND_tensor && t->copy.arg[i].tensor.weight)
            bytes += (double)td_nbytes(&t->copy.arg[i].tensor);
    return bytes;
}

bool td_timing_may_pay(struct td_timing *t, double ns)
{
    double peak = peak_ns(t), saved = (ns - peak) * t->times * CALLS_TO_PAY;
    double cost = LIBRARY_NS + td_timing_packing_ns(t) + 3 * ns;
    return peak <= 0 || isinf(ns) || saved > cost; /* infinite: it has trapped */
}

bool td_timing_may_be_short(struct td_timing *t)
{
    return peak_ns(t) > 0 && peak_ns(t) <= td_timing_short_ns(t);
}

/* Whether one of our rows, even at a tenth of the peak, takes less than a library's first run. */
static bool is_light(struct td_timing *t)
{
    return peak_ns(t) > 0 && 10 * peak_ns(t) <= LIBRARY_NS;
}

/* Whether a row that reads its arguments in their own layout, or a library's, is among the rivals.
 */
static bool has_straight(const struct td_timing *t)
{
    bool has = false;
    for (int i = 0; i < t->n; i++)
        has |= !t->rival[i].later && !t->rival[i].prepared.rearranges;
    return has;
}

/* Whether an earlier row is the same code: tables list it again behind others, for calls that it is
 * to leave to these. */
static bool is_there(const struct td_timing *t, const struct td_impl *row)
{
    bool is = false;
    for (int i = 0; i < t->n; i++)
        is |= t->rival[i].row->run == row->run && t->rival[i].row->isa == row->isa;
    return is;
}

bool td_rival_ask(struct td_timing *t, struct td_rival *r)
{
    r->later = false;
    if (td_row_objection(&t->copy.call, r->row, &r->prepared))
        return false;
    size_t bytes = td_room_of(r->prepared.scratch);
    bool hopeless = !t->asked && r->prepared.rearranges && has_straight(t);
    if (bytes > 2 * TD_COPY_BYTES || hopeless) {
        td_prepared_release(&r->prepared);
        return false;
    }
    t->scratch = bytes > t->scratch ? bytes : t->scratch;
    return true;
}

/* Moves rivals that are to be asked later behind the others, each in their order. A single one is
 * asked: it is not timed. */
static void put_last(struct td_timing *t)
{
    struct td_rival later[TD_MEASURED];
    int n = 0, kept = 0;
    for (int i = 0; i < t->n; i++)
        if (t->rival[i].later)
            later[n++] = t->rival[i];
        else
            t->rival[kept++] = t->rival[i];
    memcpy(&t->rival[kept], later, (size_t)n * sizeof *later);
    if (t->n == 1 && n && !td_rival_ask(t, t->rival))
        t->n = 0;
}

/* Whether the row leads the client's call too. What is timed may be a part of it, which a row leads
 * more readily, because it has fewer operations. */
static bool leads_whole(const struct td_timing *t, const struct td_impl *row)
{
    struct td_prepared prepared = {.only_look = true};
    if (t->times <= 1)
        return true;
    bool leads = !td_row_objection(t->whole, row, &prepared) && prepared.leads;
    td_prepared_release(&prepared);
    return leads;
}

void td_rivals_find(struct td_timing *t, const struct td_impl *rows)
{
    enum td_isa own = TD_ISA_default;
    bool has_own = false, led = false;
    for (const struct td_impl *row = rows; row[1].run && t->n < TD_MEASURED; row++) {
        if (row->library && led)
            break;
        struct td_rival *r = &t->rival[t->n];
        size_t scratch = t->scratch;
        *r = (struct td_rival){.row = row,
                               .later = !t->asked && row->library && (has_own || is_light(t))};
        if ((!t->asked && !row->library && is_beaten(row->isa, own)) || is_there(t, row) ||
            (!r->later && !td_rival_ask(t, r)))
            continue;
        if (r->prepared.rearranges && td_timing_may_be_short(t)) {
            td_prepared_release(&r->prepared);
            t->scratch = scratch;
            r->later = true;
        }
        has_own = has_own || !row->library;
        if (!row->library && row->isa > own)
            own = row->isa;
        led = led || (!t->asked && r->prepared.leads && leads_whole(t, row));
        t->n++;
    }
    bool alone = t->n == 1 && !t->rival->later;
    if (t->n && !alone && is_light(t))
        put_last(t);
}
