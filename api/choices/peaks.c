/* Peaks in the file of measured choices: see choices.h. */
#include "api/choices/choices.h"

#include <errno.h>
#include <math.h>

#define MOST_THREADS 65536
#define MOST_RATE 1e18 /* operations or bytes a second */

int td_choices_check_peaks(const cJSON *peaks, struct td_problem *problem)
{
    const cJSON *one;
    if (peaks && !cJSON_IsArray(peaks))
        return td_problem_set(problem, EINVAL, "peaks: must be a list");
    cJSON_ArrayForEach(one, peaks)
    {
        const cJSON *threads = td_json_member(one, "threads");
        if (!cJSON_IsNumber(threads) || threads->valuedouble < 1 ||
            threads->valuedouble > MOST_THREADS)
            return td_problem_set(problem, EINVAL, "peaks: each has threads, of 1 and more");
        for (int p = 0; p < TD_PEAKS; p++) {
            const cJSON *rate = td_json_member(one, td_peak_name((enum td_peak)p));
            if (!cJSON_IsNumber(rate) ||
                !(rate->valuedouble >= 0 && rate->valuedouble <= MOST_RATE))
                return td_problem_set(problem, EINVAL,
                                      "peaks: each has %s, operations or bytes a second",
                                      td_peak_name((enum td_peak)p));
        }
    }
    return 0;
}

void td_choices_take_peaks(const cJSON *said)
{
    const cJSON *one;
    cJSON_ArrayForEach(one, said)
    {
        struct td_peaks peaks = {.threads = (int)td_json_member(one, "threads")->valuedouble};
        for (int p = 0; p < TD_PEAKS; p++)
            peaks.rate[p] = td_json_member(one, td_peak_name((enum td_peak)p))->valuedouble;
        td_peaks_restore(&peaks);
    }
}

void td_choices_write_peaks(struct td_writer *w)
{
    struct td_peaks peaks;
    td_write_open(w, "peaks", '[');
    for (int i = 0; td_peaks_at(i, &peaks); i++) {
        td_write_open(w, NULL, '{');
        td_write_int(w, "threads", peaks.threads);
        for (int p = 0; p < TD_PEAKS; p++)
            td_write_int(w, td_peak_name((enum td_peak)p), llround(peaks.rate[p]));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}
