/* What `tensord bench MODEL` prints: tables for people, one JSON object for programs. */
#include "server/bench/model.h"

#include <stdio.h>
#include <stdlib.h>

#define SHOWN 20 /* operators */

double td_model_bench_us(const struct td_model_bench *b)
{
    double us = 0;
    for (int i = 0; i < b->n_shares; i++)
        us += b->share[i].us;
    return us;
}

static double percent(const struct td_share *share, double all_us)
{
    return all_us > 0 ? 100 * share->us / all_us : 0;
}

static void show_settings(const struct td_model_bench *b)
{
    printf("\n%7s %7s %10s %10s %10s %10s %11s\n", "workers", "threads", "us min", "p50", "p90",
           "p99", "answers/s");
    for (int i = 0; i < b->n_settings; i++) {
        const struct td_setting *s = &b->setting[i];
        printf("%7d %7d %10.3f %10.3f %10.3f %10.3f %11.0f\n", s->workers, s->threads,
               td_times_within(&s->times, 0), td_times_within(&s->times, 0.5),
               td_times_within(&s->times, 0.9), td_times_within(&s->times, 0.99), s->rate);
    }
}

static void show_shares(const struct td_model_bench *b)
{
    double all = td_model_bench_us(b);
    struct td_share rest = {.us = 0};
    if (*b->why)
        printf("\nno plan, and so no times by operator: %s\n", b->why);
    if (!b->n_shares)
        return;
    printf("\n%-37s %-7s %-11s %5s %9s %5s\n", "operator", "kernel", "level", "calls", "us", "%");
    for (int i = 0; i < b->n_shares; i++) {
        const struct td_share *share = &b->share[i];
        rest.us += i < SHOWN ? 0 : share->us;
        if (i < SHOWN)
            printf("%-37.37s %-7.7s %-11s %5ld %9.3f %5.1f\n", share->op, share->kernel, share->isa,
                   share->calls, share->us, percent(share, all));
    }
    if (rest.us > 0)
        printf("%-62s %9.3f %5.1f\n", "(the others)", rest.us, percent(&rest, all));
}

static void show_text(const struct td_model_bench *b)
{
    const cJSON *model = b->json.root;
    printf("%s: %s, %.0f nodes\nloaded in %.1f ms, first answer %.1f ms later; the model holds "
           "%.1f MB, "
           "all %.0f\n",
           b->once.model, td_json_member(model, "format")->valuestring,
           td_json_member(model, "nodes")->valuedouble, b->load_ms, b->first_ms,
           b->model_bytes * 1e-6, b->process_bytes * 1e-6);
    show_settings(b);
    show_shares(b);
}

static double digits(double us)
{
    return (double)(int64_t)(us * 1e3 + 0.5) * 1e-3;
}

static void write_settings(struct td_writer *w, const struct td_model_bench *b)
{
    td_write_open(w, "settings", '[');
    for (int i = 0; i < b->n_settings; i++) {
        const struct td_setting *s = &b->setting[i];
        td_write_open(w, NULL, '{');
        td_write_int(w, "workers", s->workers);
        td_write_int(w, "threads", s->threads);
        td_write_num(w, "us_min", digits(td_times_within(&s->times, 0)));
        td_write_num(w, "us_p50", digits(td_times_within(&s->times, 0.5)));
        td_write_num(w, "us_p90", digits(td_times_within(&s->times, 0.9)));
        td_write_num(w, "us_p99", digits(td_times_within(&s->times, 0.99)));
        td_write_num(w, "answers_s", digits(s->rate));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

static void write_shares(struct td_writer *w, const struct td_model_bench *b)
{
    double all = td_model_bench_us(b);
    td_write_open(w, "operators", '[');
    for (int i = 0; i < b->n_shares; i++) {
        const struct td_share *share = &b->share[i];
        td_write_open(w, NULL, '{');
        td_write_str(w, "operator", share->op);
        td_write_str(w, "kernel", share->kernel);
        td_write_str(w, "isa", share->isa);
        td_write_int(w, "calls", share->calls);
        td_write_num(w, "us", digits(share->us));
        td_write_num(w, "percent", digits(percent(share, all)));
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

void td_model_bench_show(const struct td_model_bench *b)
{
    struct td_writer w;
    if (!b->once.json) {
        show_text(b);
        return;
    }
    td_write_init(&w, b->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "model", b->once.model);
    td_write_num(&w, "load_us", digits(b->load_ms * 1e3));
    td_write_num(&w, "first_us", digits(b->first_ms * 1e3));
    td_write_num(&w, "model_bytes", b->model_bytes);
    td_write_num(&w, "process_bytes", b->process_bytes);
    td_write_str(&w, "op_by_op", *b->why ? b->why : NULL);
    write_settings(&w, b);
    write_shares(&w, b);
    td_write_close(&w, '}');
    if (!w.failed)
        printf("%.*s\n", (int)w.length, w.text);
}
