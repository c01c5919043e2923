#!/usr/bin/env python3
"""PyTorch on random calls, where it is installed: the operators have ATen's names."""
import numpy as np

import gradients
import norm
import service
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


def by_schema(op, t, p):
    """ATen's overload of that name, all arguments in its order."""
    name, _, overload = op.partition(".")
    schema = getattr(getattr(torch.ops.aten, name), overload or "default")._schema
    given = {**t, **p}
    named = {a.name: given[a.name] if a.name in given else a.default_value if a.has_default_value() else None
             for a in schema.arguments}
    return getattr(getattr(torch.ops.aten, name), overload or "default")(**named)


def run(op, t, p):
    name = op.split(".")[0]
    if op in window.TABLE:
        return by_schema(op, t, p) if all(v.numel() for v in t.values()) else None
    if name in norm.NAMES:
        return by_schema(op, t, p) if t["input"].numel() else None # it refuses nothing at all
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
    if name in ("gelu", "silu", "layer_norm", "conv2d", "softmax"):
        first = t.pop("self" if "self" in t else "input")
        return getattr(F, name)(first, **t, **p)
    if not hasattr(torch, name) or name == "rand":
        return None # this version is too old; it draws other numbers
    return getattr(torch, name)(**{("input" if k == "self" else k): v for k, v in t.items()}, **p)


class PyTorch(Outside):
    def result(self, op, tensors, parameters):
        arguments = {k: torch.from_numpy(np.array(v)) for k, v in tensors.items()}
        parameters = {k: DTYPES[v] if k.endswith("dtype") else v for k, v in parameters.items()}
        out = run(op, arguments, parameters)
        if isinstance(out, tuple):
            return tuple(np.zeros(0, np.float32) if one is None else one.numpy() for one in out)
        return None if out is None or out.dtype == torch.bfloat16 else out.numpy()


del Outside # which unittest would run as well
if __name__ == "__main__":
    service.main()
