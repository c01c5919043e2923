/* `tensord bench --all-candidates`: what the sweep finds (sweep.c), a line a cell, and in how many
 * the default is behind. */
#include "server/bench/bench.h"

#include <stdio.h>
#include <string.h>

struct all {
    bool json;
    long timed, lost, behind_ref;
    double worst;
    char worst_text[300];
};

static void name_row(char *text, size_t size, const struct td_impl *impl)
{
    snprintf(text, size, "%s@%s", impl->name, td_isa_name(impl->isa));
}

static void print_cell(void *arg, const struct td_bench_found *found)
{
    struct all *all = arg;
    const struct td_bench_cell *cell = found->cell;
    double ratio = found->own_ns / found->best_ns;
    char own[40], best[40];
    name_row(own, sizeof own, found->own);
    name_row(best, sizeof best, found->best);
    printf(all->json ? "{\"op\":\"%s\",\"sample\":\"%s\",\"stored\":%s,\"datatype\":\"%s\","
                       "\"elements\":%lld,\"default\":\"%s\",\"default_us\":%.3f,\"best\":\"%s\","
                       "\"best_us\":%.3f,\"ratio\":%.3f}\n"
                     : "%-24s %-44s %-6s %-5s %8lld  %-18s %11.3f  %-18s %11.3f  %6.3f\n",
           cell->handle->full, cell->sample,
           all->json      ? cell->stored ? "true" : "false"
           : cell->stored ? "stored"
                          : "",
           td_dtype_name(cell->dtype), (long long)cell->elements, own, found->own_ns * 1e-3, best,
           found->best_ns * 1e-3, ratio);
    all->timed++;
    all->behind_ref += found->is_behind_ref;
    all->lost += found->is_behind;
    if (!found->is_behind || ratio <= all->worst)
        return;
    all->worst = ratio;
    snprintf(all->worst_text, sizeof all->worst_text, "%s of %s%s, %s, %lld elements: %s, not %s",
             cell->handle->full, cell->sample, cell->stored ? " (stored)" : "",
             td_dtype_name(cell->dtype), (long long)cell->elements, own, best);
}

int td_bench_all(const char *op, double seconds, bool json)
{
    struct all all = {.json = json};
    const struct td_bench_sweep sweep = {
        .op = op, .seconds = seconds, .take = print_cell, .arg = &all};
    int status = td_bench_sweep(&sweep);
    if (status)
        return status;
    if (json)
        printf("{\"cells\":%ld,\"slower\":%ld,\"slower_than_ref\":%ld,\"worst\":%.3f}\n", all.timed,
               all.lost, all.behind_ref, all.worst);
    else
        printf("%ld cells; the default is behind the best by more than %.0f %% in %ld, behind the "
               "reference in %ld; the worst, %.3f: %s\n",
               all.timed, TD_BENCH_LOSES * 100 - 100, all.lost, all.behind_ref, all.worst,
               *all.worst_text ? all.worst_text : "none");
    return all.lost ? 1 : 0;
}
