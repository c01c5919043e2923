"""Backward operators as NumPy has to write them: each formula as its own derivation, in float64.

operators.py lists them with its other judges; the judges from outside draw calls by DRAWS, and
outside/by_differences.py holds the operators themselves against the forward ones.
"""
import math

import numpy as np


def logistic(x):
    return 1 / (1 + np.exp(-x))


# ---- elementwise ----

def threshold(grad_output, self, threshold):
    return np.where(self <= threshold, 0, grad_output)


def sigmoid(grad_output, output):
    return grad_output * (output * (1 - output))


def tanh(grad_output, output):
    return grad_output * (1 + output) * (1 - output)


def silu(grad_output, self):
    s = logistic(self)
    return grad_output * (s + self * s * logistic(-self))


def gelu(grad_output, self, approximate="none"):
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        u = scale * (self + 0.044715 * self**3)
        slope = scale * (1 + 0.134145 * self**2)
        return grad_output * (1 + np.tanh(u) + self * slope * np.cosh(u)**-2) / 2
    below = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in np.ravel(self)]).reshape(self.shape)
    return grad_output * (below + self * np.exp(-self**2 / 2) / math.sqrt(2 * math.pi))


# ---- along dimensions ----

def softmax(grad_output, output, dim, input_dtype):
    axis = dim if output.ndim else None
    return output * grad_output - output * (grad_output * output).sum(axis=axis, keepdims=True)


def softmax_scale(grad_output, output, dim, input_dtype):
    axis = dim if output.ndim else None
    return output * (grad_output + (grad_output * output).sum(axis=axis, keepdims=True))


# ---- scales ----

def unit_slope(grad_output, self):
    """What the bounds of gradients that cross 0 are relative to."""
    return grad_output


# ---- calls ----

def ofs(second):
    """Calls of an elementwise gradient whose second argument is called so."""
    return [({"grad_output": shape, second: shape}, {}) for shape in ((131,), (2, 3, 5), (), (0, 4))]


THRESHOLD = [(shapes, {"threshold": t}) for t in (0, 1) for shapes, _ in ofs("self")]
GELU = ofs("self") + [({"grad_output": (70,), "self": (70,)}, {"approximate": "tanh"})]
SOFTMAX = [({"grad_output": shape, "output": shape}, {"dim": dim, "input_dtype": "FP32"})
           for shape, dim in (((3, 21), -1), ((21, 3), 0), ((2, 9, 5), 1), ((), 0), ((0, 4), 1))]
SOFTMAX += [({"grad_output": (2, 9), "output": (2, 9)}, {"dim": 1, "input_dtype": "FP16"})]


# ---- random calls: op -> draw(rng, draw_shape) ----

def draw_like(second, **parameters):
    def draw(rng, draw_shape):
        shape = draw_shape(rng)
        return ({"grad_output": shape, second: shape},
                {key: value[rng.integers(len(value))] for key, value in parameters.items()})
    return draw


def draw_softmax(rng, draw_shape):
    shape = draw_shape(rng, 1)
    dim = int(rng.integers(-len(shape), len(shape)))
    return {"grad_output": shape, "output": shape}, {"dim": dim, "input_dtype": "FP32"}


DRAWS = {
    "threshold_backward": draw_like("self", threshold=(0, -1, 0.25)),
    "sigmoid_backward": draw_like("output"),
    "tanh_backward": draw_like("output"),
    "silu_backward": draw_like("self"),
    "gelu_backward": draw_like("self", approximate=("none", "tanh")),
    "_softmax_backward_data": draw_softmax,
}
