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


def masked(output_mask, *results):
    return tuple(one if wanted else np.zeros(0) for one, wanted in zip(results, output_mask))


def layer_norm(grad_out, input, normalized_shape, mean, rstd, output_mask, weight=None, bias=None,
               sign=-1):
    n = math.prod(normalized_shape)
    g, x = grad_out.reshape(-1, n), input.reshape(-1, n)
    x = (x + sign * mean.reshape(-1, 1)) * rstd.reshape(-1, 1)
    scaled = g if weight is None else g * weight.ravel()
    level = scaled.mean(axis=1, keepdims=True) if n else 0
    slope = (scaled * x).mean(axis=1, keepdims=True) if n else 0
    to_input = rstd.reshape(-1, 1) * (scaled + sign * (level + x * slope))
    return masked(output_mask, to_input.reshape(input.shape),
                  (g * x).sum(axis=0).reshape(normalized_shape),
                  g.sum(axis=0).reshape(normalized_shape))


def layer_norm_scale(**arguments):
    return layer_norm(**arguments, sign=1)


def group_norm(grad_out, input, mean, rstd, N, C, HxW, group, output_mask, weight=None, sign=-1):
    g, rstd = grad_out.reshape(N, C, HxW), rstd.reshape(N, group, 1)
    x = (input.reshape(N, group, -1) + sign * mean.reshape(N, group, 1)) * rstd
    scaled = (g if weight is None else g * weight[:, None]).reshape(N, group, -1)
    level, slope = (v.mean(axis=2, keepdims=True) for v in (scaled, scaled * x))
    to_input = rstd * (scaled + sign * (level + x * slope))
    return masked(output_mask, to_input.reshape(input.shape), (g * x.reshape(N, C, HxW)).sum(axis=(0, 2)),
                  g.sum(axis=(0, 2)))


def group_norm_scale(**arguments):
    return group_norm(**arguments, sign=1)


# ---- products ----

def linear(self, grad_output, weight, output_mask):
    g = grad_output.reshape(-1, weight.shape[0])
    return masked(output_mask, grad_output @ weight, g.T @ self.reshape(-1, weight.shape[1]),
                  g.sum(axis=0))


def pair(value):
    return value * 2 if len(value) == 1 else value


def convolution(grad_output, input, weight, stride, padding, dilation, groups, output_mask, **_):
    g, image = (t if t.ndim == 4 else t[None] for t in (grad_output, input))
    (sy, sx), (py, px), (dy, dx) = pair(stride), pair(padding), pair(dilation)
    image = np.pad(image, ((0, 0), (0, 0), (py, py), (px, px)))
    to_image, to_weight = np.zeros_like(image), np.zeros_like(weight)
    outs, per_group, ky, kx = weight.shape
    h, w = g.shape[2:]
    for o in range(outs):
        first = o // (outs // groups) * per_group
        for i in range(ky):
            for j in range(kx):
                window = (slice(None), slice(first, first + per_group),
                          slice(i * dy, i * dy + (h - 1) * sy + 1, sy),
                          slice(j * dx, j * dx + (w - 1) * sx + 1, sx))
                to_image[window] += g[:, o, None] * weight[o, :, i, j][:, None, None]
                to_weight[o, :, i, j] = np.einsum("nhw,nchw->c", g[:, o], image[window])
    height, width = image.shape[2] - py, image.shape[3] - px
    to_input = to_image[:, :, py:height, px:width].reshape(input.shape)
    return masked(output_mask, to_input, to_weight, g.sum(axis=(0, 2, 3)))


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
NORM = [
    ({"grad_out": (5, 16), "input": (5, 16), "mean": (5, 1), "rstd": (5, 1), "weight": (16,), "bias": (16,)},
     {"normalized_shape": [16], "output_mask": [True, True, True]}),
    ({"grad_out": (2, 3, 7), "input": (2, 3, 7), "mean": (2, 1, 1), "rstd": (2, 1, 1)},
     {"normalized_shape": [3, 7], "weight": None, "bias": None, "output_mask": [True, False, False]}),
    ({"grad_out": (70, 5), "input": (70, 5), "mean": (70,), "rstd": (70,), "bias": (5,)},
     {"normalized_shape": [5], "weight": None, "output_mask": [False, False, True]}),
    ({"grad_out": (0, 5), "input": (0, 5), "mean": (0, 1), "rstd": (0, 1), "weight": (5,), "bias": (5,)},
     {"normalized_shape": [5], "output_mask": [True, True, True]})]
GROUPS = [
    ({"grad_out": (2, 6, 5), "input": (2, 6, 5), "mean": (2, 3), "rstd": (2, 3), "weight": (6,)},
     {"N": 2, "C": 6, "HxW": 5, "group": 3, "output_mask": [True, True, True]}),
    ({"grad_out": (3, 4, 20, 20), "input": (3, 4, 20, 20), "mean": (3, 1), "rstd": (3, 1)},
     {"weight": None, "N": 3, "C": 4, "HxW": 400, "group": 1, "output_mask": [True, False, False]}),
    ({"grad_out": (4, 8, 1), "input": (4, 8, 1), "mean": (4, 8), "rstd": (4, 8), "weight": (8,)},
     {"N": 4, "C": 8, "HxW": 1, "group": 8, "output_mask": [False, True, True]})]
LINEAR = [({"self": (*rows, n), "grad_output": (*rows, m), "weight": (m, n)}, {"output_mask": mask})
          for rows, n, m, mask in (((5,), 9, 4, [True, True, True]), ((2, 30), 33, 65, [True, True, True]),
                                   ((), 7, 3, [True, True, False]), ((8,), 6, 5, [False, False, True]),
                                   ((0,), 3, 2, [True, True, True]))]
PLAIN = {"bias_sizes": None, "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "transposed": False,
         "output_padding": [0, 0], "groups": 1, "output_mask": [True, True, True]}
IMAGES = [
    ({"grad_output": (2, 4, 9, 8), "input": (2, 3, 9, 8), "weight": (4, 3, 3, 3)},
     {**PLAIN, "bias_sizes": [4], "padding": [1, 1]}),
    ({"grad_output": (5, 3, 8), "input": (3, 7, 6), "weight": (5, 3, 2, 3)},
     {**PLAIN, "stride": [2, 1], "padding": [0, 2], "output_mask": [True, True, False]}),
    ({"grad_output": (1, 8, 4, 4), "input": (1, 4, 11, 11), "weight": (8, 2, 3, 3)},
     {**PLAIN, "groups": 2, "dilation": [2], "stride": [2], "output_mask": [False, True, True]}),
    ({"grad_output": (1, 6, 5, 5), "input": (1, 6, 5, 5), "weight": (6, 1, 1, 1)}, {**PLAIN, "groups": 6}),
    ({"grad_output": (1, 6, 5, 5), "input": (1, 6, 5, 5), "weight": (6, 6, 1, 1)},
     {**PLAIN, "output_mask": [False, False, True]})]


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


def draw_mask(rng):
    return [bool(b) for b in rng.random(3) < 0.8]


def draw_norm(rng, draw_shape):
    shape = draw_shape(rng, 1)
    n = int(rng.integers(1, len(shape) + 1))
    kept, stat = shape[len(shape) - n:], shape[:len(shape) - n] + (1,) * n
    return ({"grad_out": shape, "input": shape, "mean": stat, "rstd": stat, "weight": kept, "bias": kept},
            {"normalized_shape": list(kept), "output_mask": draw_mask(rng)})


def draw_linear(rng, draw_shape):
    rows, (n, m) = draw_shape(rng, 0, 3, 20), (int(v) for v in rng.integers(1, 150, 2))
    return ({"self": (*rows, n), "grad_output": (*rows, m), "weight": (m, n)},
            {"output_mask": draw_mask(rng)})


def draw_convolution(rng, draw_shape):
    groups, per_group, outs, images = (int(v) for v in rng.integers(1, 4, 4))
    kernel, gaps, strides, padding = ([int(v) for v in rng.integers(low, high, 2)]
                                      for low, high in ((1, 5), (1, 3), (1, 4), (0, 3)))
    size = [int(rng.integers(1, 14)) + gap * (k - 1) for k, gap in zip(kernel, gaps)]
    out = [(n + 2 * p - gap * (k - 1) - 1) // s + 1
           for n, p, gap, k, s in zip(size, padding, gaps, kernel, strides)]
    return ({"grad_output": (images, groups * outs, *out), "input": (images, groups * per_group, *size),
             "weight": (groups * outs, per_group, *kernel)},
            {**PLAIN, "bias_sizes": [groups * outs], "stride": strides, "padding": padding, "dilation": gaps,
             "groups": groups, "output_mask": draw_mask(rng)})


DRAWS = {
    "threshold_backward": draw_like("self", threshold=(0, -1, 0.25)),
    "sigmoid_backward": draw_like("output"),
    "tanh_backward": draw_like("output"),
    "silu_backward": draw_like("self"),
    "gelu_backward": draw_like("self", approximate=("none", "tanh")),
    "_softmax_backward_data": draw_softmax,
    "_log_softmax_backward_data": draw_softmax,
    "native_layer_norm_backward": draw_norm,
    "linear_backward": draw_linear,
    "convolution_backward": draw_convolution,
}
