/* What Prometheus is told: counters and histograms. Internal to api/. */
#ifndef TD_API_METRICS_H
#define TD_API_METRICS_H

#include "api/request/request.h"

struct td_metrics *td_metrics_create(void);
void td_metrics_destroy(struct td_metrics *metrics);
/* A request answered; route: its row of routes.def, -1: none. */
void td_metrics_request(struct td_metrics *metrics, int route, const struct td_request *req,
                        int64_t now_ns);
/* A call computed. pool: its name. */
void td_metrics_call(struct td_metrics *metrics, const struct td_run *run, const char *pool,
                     int64_t queue_ns, int64_t compute_ns);
/* A model run. */
void td_metrics_model(struct td_metrics *metrics, const char *model, const char *pool,
                      int64_t queue_ns, int64_t compute_ns);

#endif
