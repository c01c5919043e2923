#!/usr/bin/env python3
"""Backward operators against central differences of their forward ones, both over HTTP.

A random gradient g makes one number of a result, sum(g * out); how that changes when one element of
an argument moves by H to either side, in FP64, is what the backward operator must say, in FP64 and
by its fast kernel in FP32. TENSORD_SEED repeats a run; each prints its own."""

import numpy as np

import gradients
import service

H = 1e-5
BOUNDS = {"FP64": 1e-7, "FP32": 2e-5} # of the largest difference, or of 1 where all are smaller
ROUNDS = 15
ELEMENTS = 16 # that are moved, of each argument


class Case:
    """A forward call, and the backward one that belongs to it.

    moved: its arguments by the names of the backward operator's results.
    backward(g, results, datatype) -> the backward call's further tensors and parameters."""

    def __init__(self, forward, tensors, parameters, moved, backward):
        self.forward, self.tensors, self.parameters = forward, tensors, parameters
        self.moved, self.backward = moved, backward


def normal(rng, *shape):
    """Numbers that FP32 has too."""
    return np.asarray(rng.standard_normal(shape)).astype(np.float32).astype(np.float64)


def shape_of(rng, low=0):
    return tuple(int(n) for n in rng.integers(1, 7, rng.integers(low, 4)))


# ---- one case of each operator ----

def of_input(forward, **parameters):
    def case(rng):
        x = normal(rng, *shape_of(rng))
        x += np.sign(x) / 64 # relu has no slope at 0
        how = {key: values[rng.integers(len(values))] for key, values in parameters.items()}
        more = how if forward != "relu" else {"threshold": 0}
        return Case(forward, {"self": x}, how, {"out": "self"},
                    lambda g, results, _: ({"grad_output": g, "self": x}, more))
    return case


def of_output(forward):
    def case(rng):
        return Case(forward, {"self": normal(rng, *shape_of(rng))}, {}, {"out": "self"},
                    lambda g, results, _: ({"grad_output": g, "output": results["out"]}, {}))
    return case


def along_dim(forward):
    def make(rng):
        shape = shape_of(rng, 1)
        how = {"dim": int(rng.integers(-len(shape), len(shape)))}
        return Case(forward, {"self": normal(rng, *shape)}, how, {"out": "self"},
                    lambda g, results, datatype: ({"grad_output": g, "output": results["out"]},
                                                  {**how, "input_dtype": datatype}))
    return make


THREE = ("out0", "out1", "out2")


def layer_norm(rng):
    shape = (*shape_of(rng), int(rng.integers(3, 9)))
    kept = shape[-int(rng.integers(1, len(shape) + 1)):]
    tensors = {"input": normal(rng, *shape), "weight": normal(rng, *kept), "bias": normal(rng, *kept)}
    how, mask = {"normalized_shape": list(kept)}, gradients.draw_mask(rng)
    return Case("native_layer_norm", tensors, {**how, "eps": 1e-3}, dict(zip(THREE, tensors)),
                lambda g, results, _: (
                    {**tensors, "grad_out": g, "mean": results["out1"], "rstd": results["out2"]},
                    {**how, "output_mask": mask}))


def linear(rng):
    n, m = (int(v) for v in rng.integers(1, 30, 2))
    tensors = {"input": normal(rng, *shape_of(rng), n), "weight": normal(rng, m, n), "bias": normal(rng, m)}
    mask = gradients.draw_mask(rng)
    return Case("linear", tensors, {}, dict(zip(THREE, tensors)),
                lambda g, results, _: (
                    {"self": tensors["input"], "grad_output": g, "weight": tensors["weight"]},
                    {"output_mask": mask}))


def convolution(rng):
    shapes, how = gradients.DRAWS["convolution_backward"](rng, None)
    tensors = {"input": normal(rng, *shapes["input"]), "weight": normal(rng, *shapes["weight"]),
               "bias": normal(rng, *how["bias_sizes"])}
    forward = {key: how[key] for key in ("stride", "padding", "dilation", "groups")}
    return Case("conv2d", tensors, forward, dict(zip(THREE, tensors)),
                lambda g, results, _: (
                    {"grad_output": g, "input": tensors["input"], "weight": tensors["weight"]}, how))


CASES = {
    "threshold_backward": of_input("relu"),
    "sigmoid_backward": of_output("sigmoid"),
    "tanh_backward": of_output("tanh"),
    "silu_backward": of_input("silu"),
    "gelu_backward": of_input("gelu", approximate=("none", "tanh")),
    "_softmax_backward_data": along_dim("softmax.int"),
    "_log_softmax_backward_data": along_dim("log_softmax.int"),
    "native_layer_norm_backward": layer_norm,
    "linear_backward": linear,
    "convolution_backward": convolution,
}


class Differences(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.connection = cls.service.connect()
        cls.addClassCleanup(cls.connection.close)

    def run_op(self, op, tensors, parameters):
        reply = self.service.infer(op, tensors, parameters, binary=True, connection=self.connection)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def first(self, case, tensors):
        outputs = self.run_op(case.forward, tensors, case.parameters).outputs
        return outputs.get("out", outputs.get("out0"))

    def slope(self, case, g, name, at):
        """What sum(g * out) does when element at of that argument moves."""
        ends = []
        for step in (H, -H):
            moved = case.tensors[name].copy()
            moved[at] += step
            ends.append(self.first(case, {**case.tensors, name: moved}))
        return np.sum(g * (ends[0] - ends[1])) / (2 * H)

    def test_every_backward_operator(self): # DSP-36
        seed = service.seed()
        rng = np.random.default_rng(seed)
        self.assertEqual(set(CASES), set(gradients.DRAWS))
        for op, make in CASES.items():
            for _ in range(ROUNDS):
                case = make(rng)
                shapes = {name: tensor.shape for name, tensor in case.tensors.items()}
                with self.subTest(op=op, shapes=shapes, parameters=case.parameters, seed=seed):
                    self.try_case(rng, op, case)

    def try_case(self, rng, op, case):
        results = self.run_op(case.forward, case.tensors, case.parameters).outputs
        g = normal(rng, *results.get("out", results.get("out0")).shape)
        slopes = {}
        for result, name in case.moved.items():
            tensor = case.tensors[name]
            count = min(ELEMENTS, tensor.size)
            where = [np.unravel_index(i, tensor.shape) for i in rng.choice(tensor.size, count, False)]
            slopes[result] = where, np.array([self.slope(case, g, name, at) for at in where])
        for datatype, bound in BOUNDS.items():
            tensors, parameters = case.backward(g, results, datatype)
            tensors = {k: np.asarray(v).astype(service.DATATYPES[datatype]) for k, v in tensors.items()}
            said = self.run_op(op, tensors, parameters).outputs
            mask = parameters.get("output_mask", [True])
            self.assertEqual(sorted(said), sorted(case.moved))
            for wanted, (result, (where, slope)) in zip(mask, slopes.items()):
                if not wanted:
                    self.assertEqual(said[result].shape, (0,))
                    continue
                self.assertEqual(said[result].shape, case.tensors[case.moved[result]].shape)
                got = np.array([said[result][at] for at in where], np.float64)
                off = np.abs(got - slope).max() / max(1, np.abs(slope).max())
                self.assertLess(off, bound, f"{result} in {datatype}: {got}; {slope} is right")


if __name__ == "__main__":
    service.main()
