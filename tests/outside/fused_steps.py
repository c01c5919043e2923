#!/usr/bin/env python3
"""PyTorch's fused optimizers, several steps in a row, as the judge of sgd_, adam_ and adamw_ on stored tensors.

    python tests/outside/fused_steps.py     with a Python that has PyTorch; TENSORD_SEED repeats a run

Rows that no gradient names are to stay as they are; the others are those of PyTorch's step on them alone.
"""
import itertools
import sys

import numpy as np

import service

try:
    import torch
except ImportError:
    service.skip("no PyTorch (tests/outside/torch.sh installs it apart)")

SHAPE, STEPS = (7, 45), 4
YES_NO = [False, True]
SGD = [dict(lr=0.1, weight_decay=decay, momentum=momentum, dampening=dampening, nesterov=nesterov, maximize=maximize)
       for decay, momentum, dampening, nesterov, maximize in itertools.product([0, 0.1], [0, 0.9], [0, 0.25], YES_NO, YES_NO)
       if momentum or not (dampening or nesterov)]
ADAM = [dict(lr=0.1, beta1=0.8, beta2=0.9, weight_decay=decay, eps=eps, amsgrad=amsgrad, maximize=maximize)
        for decay, eps, amsgrad, maximize in itertools.product([0, 0.1], [1e-8, 0.1], YES_NO, YES_NO)]


def by_torch(op, tensors, grad, step, how):
    """Changes tensors: self and its states."""
    ours = [torch.from_numpy(tensors[name]) for name in tensors]
    if op == "sgd":
        torch._fused_sgd_(ours[:1], [torch.from_numpy(grad)], ours[1:], **how, is_first_step=False)
        return
    more = [ours[3]] if how["amsgrad"] else []
    run = torch._fused_adam_ if op == "adam" else torch._fused_adamw_
    run(ours[:1], [torch.from_numpy(grad)], ours[1:2], ours[2:3], more, [torch.tensor(float(step))], **how)


def names(op, how):
    if op == "sgd":
        return ["self"] + ["momentum_buffer"] * bool(how["momentum"])
    return ["self", "exp_avg", "exp_avg_sq"] + ["max_exp_avg_sq"] * how["amsgrad"]


def one(server, rng, op, how, kind, sparse):
    """How far apart both are at most after all steps, in units of the type at the largest number."""
    tensors = {name: np.zeros(SHAPE, kind) for name in names(op, how)}
    tensors["self"] = rng.standard_normal(SHAPE).astype(kind)
    for name, value in tensors.items():
        server.call("PUT", f"/v1/tensors/{name}", {"shape": SHAPE, "datatype": service.NAMES[value.dtype], "data": value.ravel().tolist()})
    for step in range(1, STEPS + 1):
        rows = np.asarray(rng.permutation(SHAPE[0])[:3] if sparse else np.arange(SHAPE[0]))
        grad = rng.standard_normal((len(rows), SHAPE[1])).astype(kind)
        touched = {name: value[rows] for name, value in tensors.items()}
        by_torch(op, touched, grad, step, how)
        for name, value in touched.items():
            tensors[name][rows] = value
        parameters = {name: value for name, value in how.items() if name != "amsgrad"} | ({"step": step} if op != "sgd" else {})
        reply = server.infer(op + "_", {**{name: service.stored(name) for name in tensors}, "grad": grad,
                                        **({"rows": rows} if sparse else {})}, parameters)
        assert reply.status == 200, reply.body
    worst = 0
    for name, value in tensors.items():
        got = np.asarray(server.call("GET", f"/v1/tensors/{name}").json["data"], kind).reshape(SHAPE)
        worst = max(worst, np.abs(got - value).max() / np.abs(value).max() / np.finfo(kind).eps)
    return worst


def main():
    rng = np.random.default_rng(service.seed())
    worst, calls = 0, 0
    with service.Service() as server:
        for (op, settings), kind, sparse in itertools.product([("sgd", SGD), ("adam", ADAM), ("adamw", ADAM)],
                                                              [np.float32, np.float64], YES_NO):
            for how in settings:
                worst, calls = max(worst, one(server, rng, op, how, kind, sparse)), calls + STEPS
    print(f"{calls} steps, at most {worst:.2f} units apart")
    return worst > 16


if __name__ == "__main__":
    sys.exit(main())
