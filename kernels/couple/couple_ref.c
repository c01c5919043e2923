/* pairwise_coupling: a row at a time, by LIBSVM's steps. r is held apart from 0 and 1, as is done
 * before it everywhere. */
#include "kernels/kernels.h"

#include <math.h>

static void spread(const float *pair, int64_t k, float *r)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = i + 1; j < k; j++) {
            float x = *pair++;
            x = x < 1e-7f ? 1e-7f : x > 1 - 1e-7f ? 1 - 1e-7f : x;
            r[i * k + j] = x;
            r[j * k + i] = 1 - x;
        }
}

static void couple(const float *r, int64_t k, float *q, float *qp, float *p)
{
    float eps = 0.005f / (float)k;
    for (int64_t t = 0; t < k; t++) {
        p[t] = 1 / (float)k;
        q[t * k + t] = 0;
        for (int64_t j = 0; j < k; j++) {
            if (j == t)
                continue;
            q[t * k + t] += r[j * k + t] * r[j * k + t];
            q[t * k + j] = j < t ? q[j * k + t] : -r[j * k + t] * r[t * k + j];
        }
    }
    for (int turn = 0; turn < 100 && !td_stopped(); turn++) {
        float all = 0, most = 0;
        for (int64_t t = 0; t < k; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < k; j++)
                qp[t] += q[t * k + j] * p[j];
            all += p[t] * qp[t];
        }
        for (int64_t t = 0; t < k; t++)
            most = fabsf(qp[t] - all) > most ? fabsf(qp[t] - all) : most;
        if (most < eps)
            break;
        for (int64_t t = 0; t < k; t++) {
            float step = (all - qp[t]) / q[t * k + t];
            p[t] += step;
            all = (all + step * (step * q[t * k + t] + 2 * qp[t])) / (1 + step) / (1 + step);
            for (int64_t j = 0; j < k; j++) {
                qp[j] = (qp[j] + step * q[t * k + j]) / (1 + step);
                p[j] /= 1 + step;
            }
        }
    }
}

td_kernel td_couple_ref;
void td_couple_ref(const struct td_call *call)
{
    const struct td_tensor *pairs = &call->arg[0].tensor;
    int64_t k = call->arg[1].i, width = pairs->shape[1];
    float *r = call->scratch, *q = r + k * k, *qp = q + k * k;
    for (int64_t i = 0; i < pairs->shape[0] && !td_stopped(); i++) {
        spread((const float *)pairs->data + i * width, k, r);
        couple(r, k, q, qp, (float *)call->out[0].data + i * k);
    }
}
