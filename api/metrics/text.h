/* Prometheus' text under way: text.c has what is counted, stores.c what is kept. Internal to this
 * room. */
#ifndef TD_API_METRICS_TEXT_H
#define TD_API_METRICS_TEXT_H

#include "api/metrics/counts.h"

struct td_text {
    struct td_arena *arena;
    char *at;
    size_t length, room;
};

struct td_label {
    char text[TD_COUNTED_NAME + 32];
};

void td_text_line(struct td_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_text_family(struct td_text *t, const char *name, const char *type, const char *help);
/* One of a family's histograms; label: with what follows the others, such as op="add". */
void td_text_histogram(struct td_text *t, const char *name, const char *label,
                       struct td_histogram *h);

/* ---- stores.c ---- */

void td_text_models(struct td_text *t, struct td_counts *m, const struct td_service *service);
void td_text_stores(struct td_text *t, const struct td_service *service);

#endif
