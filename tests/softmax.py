"""NumPy's word on softmax and its kin: {operator: (formula, calls, result, scale)}, as
tests/operators.py has them for the others."""
import numpy as np

import gradients

FLOATS = ("FP16", "BF16", "FP32", "FP64")
CALLS = [({"self": (3, 21)}, {"dim": -1}), ({"self": (21, 3)}, {"dim": 0}),
         ({"self": (2, 9, 5)}, {"dim": 1}), ({"self": ()}, {"dim": 0}), ({"self": (2, 300)}, {"dim": 1})]
TYPED = [({"self": (2, 9)}, {"dim": 1, "dtype": "FP64"})]
HALVES = [(shapes, {**how, "half_to_float": False}) for shapes, how in CALLS]


def floating(name, parameters):
    return parameters.get("dtype") or (name if name in FLOATS else "FP32")


def of_gradient(name, parameters):
    return "FP16" if (name, parameters["input_dtype"]) == ("FP32", "FP16") else name


def log_softmax(self, dim, dtype=None, half_to_float=False):
    axis, self = dim if self.ndim else None, self.astype(np.float64)
    off = self - self.max(axis=axis, keepdims=True, initial=-np.inf)
    return off - np.log(np.exp(off).sum(axis=axis, keepdims=True))


def softmax(self, **how):
    return np.exp(log_softmax(self, **how))


def slope(grad_output, output, dim, input_dtype):
    return grad_output - np.exp(output) * grad_output.sum(axis=dim if output.ndim else None, keepdims=True)


def slope_scale(grad_output, output, dim, input_dtype): # absolute outputs are larger than theirs
    return grad_output + np.exp(output) * grad_output.sum(axis=dim if output.ndim else None, keepdims=True)


def glu(self, dim=-1):
    a, b = np.split(self, 2, axis=dim)
    return a / (1 + np.exp(-b))


TABLE = {
    "glu": (glu, [({"self": (2, 4, 5)}, {"dim": 1}), ({"self": (3, 40)}, {}), ({"self": (6, 300)}, {"dim": 0}), ({"self": (2, 0)}, {})], floating),
    "special_softmax": (softmax, CALLS, floating, "all"), "special_log_softmax": (log_softmax, CALLS, floating, "all"),
    "softmax.int": (softmax, CALLS + TYPED, floating, "all"), "_softmax": (softmax, HALVES, floating, "all"),
    "log_softmax.int": (log_softmax, CALLS + TYPED, floating, "all"), "_log_softmax": (log_softmax, HALVES, floating, "all"),
    "_softmax_backward_data": (gradients.softmax, gradients.SOFTMAX, of_gradient, gradients.softmax_scale),
    "_log_softmax_backward_data": (slope, gradients.SOFTMAX, of_gradient, slope_scale),
}
