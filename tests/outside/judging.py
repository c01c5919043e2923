"""What judges from outside share: random calls of every operator in FP32, run over HTTP and compared
with another implementation.

TENSORD_SEED repeats a run; each prints its own. A judge subclasses Outside and gives result().
"""
import math
import os
import random

import numpy as np

import gradients
import index
import linalg
import move
import operators
import order
import recurrent
import reductions
import service

ELEMENTS = 1 << 15
CALLS = 12 # random ones an operator, besides those of its judge in operators.py
UNITS = 64 # in the last place: both sides round, and the other one also approximates


def draw_shape(rng, low=0, high=4, most=40):
    """Of at most ELEMENTS elements: some judges take 0.1 ms for each."""
    dims = rng.integers(low, high + 1)
    while True:
        shape = tuple(int(n) for n in rng.integers(1, most, dims))
        if math.prod(shape) <= ELEMENTS:
            return shape


def draw_pair(rng):
    """Two shapes that broadcast."""
    shape = draw_shape(rng)
    thin = tuple(1 if rng.random() < 0.3 else n for n in shape)[rng.integers(0, len(shape) + 1):]
    return (shape, thin) if rng.random() < 0.5 else (thin, shape)


def draw_products(rng):
    m, k, n = (int(v) for v in rng.integers(1, 130, 3))
    batch = draw_shape(rng, 0, 2, 5)
    return [((*batch, m, k), (k, n)), ((*batch, m, k), (*batch, k, n)), ((m, k), (*batch, k, n)),
            ((k,), (k,)), ((k,), (k, n)), ((m, k), (k,))][rng.integers(0, 6)]


def draw_linear(rng, names):
    k, n = (int(v) for v in rng.integers(1, 150, 2))
    shapes = {names[0]: (*draw_shape(rng, 1, 2, 30), k), names[1]: (n, k)}
    if rng.random() < 0.7:
        shapes[names[2]] = (n,)
    return shapes


def draw_conv(rng):
    groups, per_group = (int(v) for v in rng.integers(1, 4, 2))
    outs = groups * int(rng.integers(1, 6))
    kernel = [int(v) for v in rng.integers(1, 5, 2)]
    dilation = [int(v) for v in rng.integers(1, 3, 2)]
    image = [int(rng.integers(1, 14)) + d * (k - 1) for k, d in zip(kernel, dilation)]
    shapes = {"input": (int(rng.integers(1, 4)), groups * per_group, *image),
              "weight": (outs, per_group, *kernel)}
    if rng.random() < 0.7:
        shapes["bias"] = (outs,)
    return shapes, {"stride": [int(v) for v in rng.integers(1, 4, 2)], "dilation": dilation,
                    "padding": [int(v) for v in rng.integers(0, 3, 2)], "groups": groups}


def draw_call(rng, op):
    """({argument: shape}, parameters) for an operator; None where those of operators.py are all."""
    if op in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum"):
        return dict(zip(("self", "other"), draw_pair(rng))), {}
    if op == "matmul":
        return dict(zip(("self", "other"), draw_products(rng))), {}
    if op == "_int_mm":
        m, k, n = (int(v) for v in rng.integers(1, 130, 3))
        return {"self": (m, k), "mat2": (k, n)}, {}
    if op in ("linear", "dense"):
        name = random.Random(int(rng.integers(1 << 30))).choice(sorted(filter(None, operators.ACTIVATIONS)))
        shapes = draw_linear(rng, ("input", "weight", "bias"))
        if op == "dense":
            shapes["weight"] = shapes["weight"][::-1]
        return shapes, {"activation": name}
    if op == "linear_pointwise":
        return draw_linear(rng, ("X", "W", "B")), {"attr": "relu"}
    if op == "conv2d":
        return draw_conv(rng)
    if op in ("layer_norm", "native_layer_norm"):
        shape = draw_shape(rng, 1)
        n = int(rng.integers(1, len(shape) + 1))
        kept = shape[len(shape) - n:]
        more = {} if op == "layer_norm" else {"eps": float(rng.random())}
        return {"input": shape, "weight": kept, "bias": kept}, {"normalized_shape": list(kept), **more}
    if op in reductions.TABLE:
        return reductions.draw(rng, op, draw_shape)
    if op in move.TABLE:
        return move.draw(rng, op, draw_shape)
    if op == "softmax.int":
        shape = draw_shape(rng, 1)
        return {"self": shape}, {"dim": int(rng.integers(len(shape)))}
    if op in index.TABLE or op in linalg.TABLE or op in order.TABLE or op in recurrent.TABLE: # with other values each time
        calls = operators.JUDGES[op].calls
        return calls[rng.integers(len(calls))]
    if op in gradients.DRAWS:
        return gradients.DRAWS[op](rng, draw_shape)
    shapes, parameters = operators.JUDGES[op].calls[0]
    if not shapes: # made from numbers
        return None
    name, *others = shapes
    if parameters or others: # Scalar forms, cast: what matters are the parameters
        return None
    if op in ("rand_like", "randn_like"): # nobody knows what is drawn, but that of nothing
        return None
    return {name: draw_shape(rng, 2 if op in ("tril", "triu") else 0)}, {}


class Outside(service.ServiceTest):
    """result(op, tensors, parameters) gives the other's array, several as a tuple or by name, or None
    when it has no such thing."""

    share = 2 # of as many operators it must know one
    least = 0 # the smallest scale: the other's approximations may be of a constant absolute error
    args = ("--pool", f"all={','.join(map(str, sorted(os.sched_getaffinity(0))))}")

    def result(self, op, tensors, parameters):
        raise NotImplementedError

    def blur(self, op, tensors, parameters):
        """By how much the other one's own form widens the bound: a factor for each element."""
        return 1

    def test_every_operator(self):
        seed = service.seed()
        rng = np.random.default_rng(seed)
        judged = dict.fromkeys(operators.JUDGES, 0)
        for op, judge in operators.JUDGES.items():
            drawn = [draw_call(rng, op) for _ in range(CALLS)]
            for call in judge.calls + [call for call in drawn if call]:
                with self.subTest(op=op, call=call, seed=seed):
                    judged[op] += self.try_call(rng, op, judge, *call)
        known = sum(map(bool, judged.values()))
        print(f"{sum(judged.values())} calls of {known} operators judged")
        self.assertGreater(known, len(judged) / self.share)
        self.assertGreater(sum(judged.values()), 8 * known)

    def try_call(self, rng, op, judge, shapes, parameters):
        tensors = operators.draw_all(rng, judge.datatype, shapes)
        want = self.result(op, tensors, parameters)
        if want is None:
            return 0
        reply = self.service.infer(op, tensors, parameters, binary=bool(rng.integers(2)))
        self.assertEqual(reply.status, 200, reply.body[:300])
        exact, scale = operators.exact_and_scale(judge, tensors, parameters)
        datatype = judge.result(judge.datatype, parameters)
        want = want if isinstance(want, dict) else dict(zip(exact, want if isinstance(want, tuple) else (want,)))
        blur = self.blur(op, tensors, parameters)
        wrong = operators.compare_all(
            reply.outputs, datatype, {k: operators.wide(np.asarray(v)) for k, v in want.items()},
            {k: np.maximum(v, self.least) * blur for k, v in scale.items()}, UNITS)
        self.assertIsNone(wrong)
        return 1
