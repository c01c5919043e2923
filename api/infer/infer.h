/* Running one operator, by /v1/ops and by /v2/models, or a model. Internal to api/. */
#ifndef TD_API_INFER_H
#define TD_API_INFER_H

#include "api/models/models.h"
#include "api/request/request.h"

/* Runs op ("add", "add.Tensor") on the request's tensors; model is what the reply calls it. */
int td_api_infer(struct td_request *req, const char *op, const char *model);
/* Runs a model, whose reference it takes. ours: not by the protocol's route, so that the short form
 * is taken, too. */
int td_api_infer_model(struct td_request *req, struct td_served *served, const char *model,
                       bool ours);

#endif
