#!/usr/bin/env python3
"""PyTorch on random calls, where it is installed: the operators have ATen's names."""
import numpy as np

import attention
import convolution
import gradients
import move
import norm
import operators
import product
import reductions
import service
import softmax
import window
from judging import Outside

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    service.skip("no PyTorch in .deps/venv (700 MiB): pip install torch there to have it judge")

DTYPES = {"BOOL": torch.bool, "UINT8": torch.uint8, "INT8": torch.int8, "INT16": torch.int16,
          "INT32": torch.int32, "INT64": torch.int64, "FP16": torch.float16, "BF16": torch.bfloat16,
          "FP32": torch.float32, "FP64": torch.float64}
ACTIVATIONS = {"none": lambda x: x, "swish": F.silu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
               "sigmoid": torch.sigmoid, "tanh": torch.tanh}


def activation(x, name):
    return (ACTIVATIONS.get(name) or getattr(F, name))(x)


def gradient(name, t, p):
    if p.get("input_dtype", torch.float32) != torch.float32:
        return None # on CPUs ATen's gradient has the type of what it is made from
    if name == "linear_backward": # which ATen has for some devices only
        bias = torch.zeros(t["weight"].shape[0])
        given = [v.requires_grad_() for v in (t["self"], t["weight"], bias)]
        F.linear(*given).backward(t["grad_output"])
        return tuple(v.grad if wanted else None for v, wanted in zip(given, p["output_mask"]))
    alone = name == "convolution_backward" and t["input"].ndim == 3
    if alone:
        t = {**t, "input": t["input"][None], "grad_output": t["grad_output"][None]}
    op = getattr(torch.ops.aten, name).default
    given = {**t, **p}
    arguments = [given[a.name] for a in op._schema.arguments if not a.kwarg_only]
    out = op(*arguments, **{k: v for k, v in p.items() if k == "approximate"})
    if "output_mask" in p: # it may give more than it was asked for
        out = tuple(one if wanted else None for one, wanted in zip(out, p["output_mask"]))
    return (out[0][0], *out[1:]) if alone and out[0] is not None else out


def aten(op):
    """ATen's overload of that name; None when this version has none."""
    name, _, overload = op.partition(".")
    return getattr(getattr(torch.ops.aten, name, None), overload or "default", None)


def call(overload, given):
    """By its schema, which says what goes by position; what is left out has its default."""
    def value(a):
        v = given[a.name] if a.name in given else a.default_value
        return [v] * a.N if a.N and isinstance(v, int) else v
    listed = [a for a in overload._schema.arguments if not a.kwarg_only]
    named = {a.name: given[a.name] for a in overload._schema.arguments if a.kwarg_only and a.name in given}
    return overload(*map(value, listed), **named)


def run(op, t, p):
    name = op.split(".")[0]
    if op in norm.TABLE or op in window.TABLE: # they refuse what has no elements
        return call(aten(op), {**t, **p}) if all(v.numel() for v in t.values()) else None
    if op in attention.TABLE or op in convolution.TABLE or op in move.TABLE or op in product.TABLE or op in reductions.TABLE or (
            op in softmax.TABLE and op not in gradients.DRAWS):
        return call(aten(op), {**t, **p})
    if name == "cast":
        return t["self"].to(p["dtype"])
    if name == "linear":
        return activation(F.linear(t["input"], t["weight"], t.get("bias")), p.get("activation", "none"))
    if name == "linear_pointwise":
        x, attr = F.linear(t["X"], t["W"], t.get("B")), p.get("attr", "none")
        if attr == "leaky_relu":
            return F.leaky_relu(x, p["alpha"])
        if attr == "hardtanh":
            return F.hardtanh(x, p["alpha"], p["beta"])
        return activation(x, "gelu_tanh" if p.get("algorithm") == "tanh" else attr)
    if name in gradients.DRAWS or name == "native_layer_norm":
        return gradient(name, t, p)
    if name.startswith("rand") or (name == "full" and p.get("dtype") == torch.uint8 and p["fill_value"] < 0):
        return None # it draws other numbers; it refuses what torch.full() takes
    if name in ("logit", "sinc"): # it cancels what is near 0
        t = {k: v.double() for k, v in t.items()}
    overload = aten(op)
    return overload and call(overload, {**t, **p})


class PyTorch(Outside):
    def result(self, op, tensors, parameters):
        arguments = operators.gather({k: torch.from_numpy(np.array(v)) for k, v in tensors.items()})
        parameters = {k: DTYPES[v] if k.endswith("dtype") else v for k, v in parameters.items()}
        placed = {"layout": torch.strided, "memory_format": torch.contiguous_format}
        parameters = {k: placed.get(k, v) for k, v in parameters.items()}
        out = run(op, arguments, parameters)
        if isinstance(out, (tuple, list)):
            return tuple(np.zeros(0, np.float32) if one is None else one.numpy() for one in out)
        return None if out is None or out.dtype == torch.bfloat16 else out.numpy()


del Outside # which unittest would run as well
if __name__ == "__main__":
    service.main()
