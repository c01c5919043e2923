/* The part of the file of measured choices that has peaks (dispatch/choice/peaks.h), a list of
 * {"threads","FP32",...,"memory"}: operations or bytes a second. Internal to choices/. */
#ifndef TD_API_CHOICES_H
#define TD_API_CHOICES_H

#include "api/json/json.h"

/* 0, -EINVAL: it is no such list, and problem says why. NULL is one without peaks. */
int td_choices_check_peaks(const cJSON *peaks, struct td_problem *problem);
/* Makes known what a checked list says. */
void td_choices_take_peaks(const cJSON *peaks);
void td_choices_write_peaks(struct td_writer *w); /* "peaks":[...], all that are known */

#endif
