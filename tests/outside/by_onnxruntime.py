#!/usr/bin/env python3
"""ONNX Runtime on random calls: each operator written as a small ONNX model."""
import numpy as np

import pointwise
import service
from judging import Outside

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

KIND = {"BOOL": "BOOL", "UINT8": "UINT8", "INT8": "INT8", "INT16": "INT16", "INT32": "INT32",
        "INT64": "INT64", "UINT16": "UINT16", "UINT32": "UINT32", "UINT64": "UINT64", "FP16": "FLOAT16", "FP32": "FLOAT", "FP64": "DOUBLE"}
SAME_NAME = {"add.Tensor": "Add", "sub.Tensor": "Sub", "mul.Tensor": "Mul", "div.Tensor": "Div",
             "add.Scalar": "Add", "sub.Scalar": "Sub", "mul.Scalar": "Mul", "div.Scalar": "Div",
             "maximum": "Max", "minimum": "Min", "neg": "Neg", "abs": "Abs", "sqrt": "Sqrt", "erf": "Erf",
             "relu": "Relu", "tanh": "Tanh", "exp": "Exp", "matmul": "MatMul", "log": "Log", "sin": "Sin", "cos": "Cos",
             "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh",
             "acosh": "Acosh", "atanh": "Atanh", "reciprocal": "Reciprocal", "sign": "Sign", "floor": "Floor", "ceil": "Ceil",
             "round": "Round", "isnan": "IsNaN", "isinf": "IsInf", "eq.Tensor": "Equal", "eq.Scalar": "Equal", "lt.Tensor": "Less",
             "lt.Scalar": "Less", "le.Tensor": "LessOrEqual", "le.Scalar": "LessOrEqual", "gt.Tensor": "Greater",
             "gt.Scalar": "Greater", "ge.Tensor": "GreaterOrEqual", "ge.Scalar": "GreaterOrEqual", "max.other": "Max",
             "min.other": "Min", "pow.Tensor_Tensor": "Pow", "where.self": "Where", "mish": "Mish", "hardswish": "HardSwish",
             "bitwise_and.Tensor": "BitwiseAnd", "bitwise_or.Tensor": "BitwiseOr", "bitwise_xor.Tensor": "BitwiseXor",
             "__and__.Tensor": "BitwiseAnd", "__or__.Tensor": "BitwiseOr", "__xor__.Tensor": "BitwiseXor",
             "bitwise_not": "BitwiseNot", "fmax": "Max", "fmin": "Min", "clamp_min.Tensor": "Max", "clamp_max.Tensor": "Min"}
ACTIVATIONS = {
    "none": [], "relu": ["Relu"], "leaky_relu": [("LeakyRelu", {"alpha": 0.01})], "sigmoid": ["Sigmoid"],
    "tanh": ["Tanh"], "gelu": ["Gelu"], "gelu_tanh": [("Gelu", {"approximate": "tanh"})],
    "hardsigmoid": [("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5})], "hardswish": ["HardSwish"],
    "relu6": [("Clip", {"low": 0, "high": 6})], "hardtanh": [("Clip", {"low": -1, "high": 1})],
    "silu": ["Silu"], "swish": ["Silu"],
}


class Model:
    """ONNX nodes one after another, over the call's tensors and constants."""

    def __init__(self, tensors):
        self.tensors, self.nodes, self.constants, self.n = tensors, [], [], 0

    def constant(self, value, kind):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def __call__(self, kind, *inputs, **attributes):
        self.n += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{self.n}"], **attributes))
        return f"v{self.n}"

    def run(self, output):
        inputs = [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                  for name, value in self.tensors.items()]
        outputs = [onnx.ValueInfoProto(name=output)]
        graph = helper.make_graph(self.nodes, "call", inputs, outputs, self.constants)
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 22)])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               ["CPUExecutionProvider"])
        return session.run(None, self.tensors)[0]


def activated(m, x, name):
    for step in ACTIVATIONS[name]:
        kind, attributes = step if isinstance(step, tuple) else (step, {})
        if kind in ("Silu", "Sigmoid"): # ONNX Runtime's own Sigmoid is 6e-8 off far below 0
            one = m.constant(1, np.float32)
            x = m("Div", x if kind == "Silu" else one, m("Add", one, m("Exp", m("Neg", x))))
        elif kind == "Clip":
            x = m("Clip", x, *(m.constant(attributes[k], np.float32) for k in ("low", "high")))
        else:
            x = m(kind, x, **attributes)
    return x


def linear(m, input, weight, bias):
    x = m("MatMul", input, m("Transpose", weight, perm=[1, 0]))
    return m("Add", x, bias) if bias in m.tensors else x


def pair(value):
    return [value, value] if isinstance(value, int) else list(value)


def number(m, value):
    return m.constant(value, np.float32)


FORMS = { # of pointwise operators that ONNX has by other words
    "square": lambda m, p: m("Mul", "self", "self"), "log1p": lambda m, p: m("Log", m("Add", "self", number(m, 1))),
    "expm1": lambda m, p: m("Sub", m("Exp", "self"), number(m, 1)), "exp2": lambda m, p: m("Pow", number(m, 2), "self"),
    "log2": lambda m, p: m("Div", m("Log", "self"), number(m, np.log(2))),
    "log10": lambda m, p: m("Div", m("Log", "self"), number(m, np.log(10))),
    "erfc": lambda m, p: m("Sub", number(m, 1), m("Erf", "self")), "selu": lambda m, p: m("Selu", "self"),
    "relu6": lambda m, p: m("Clip", "self", number(m, 0), number(m, 6)),
    "hardsigmoid": lambda m, p: m("HardSigmoid", "self", alpha=1 / 6, beta=0.5),
    "hardtanh": lambda m, p: m("Clip", "self", number(m, p["min_val"]), number(m, p["max_val"])),
    "leaky_relu": lambda m, p: m("LeakyRelu", "self", alpha=p.get("negative_slope", 0.01)),
    "softplus": lambda m, p: None if p else m("Softplus", "self"), "elu": lambda m, p: None if p else m("Elu", "self"),
    "logical_not": lambda m, p: m("Equal", "self", number(m, 0)), "ne.Tensor": lambda m, p: m("Not", m("Equal", "self", "other")),
    "ne.Scalar": lambda m, p: m("Not", m("Equal", "self", number(m, p["other"]))),
    "fmod.Tensor": lambda m, p: m("Mod", "self", "other", fmod=1),
    "fmod.Scalar": lambda m, p: m("Mod", "self", number(m, p["other"]), fmod=1),
    "pow.Tensor_Scalar": lambda m, p: m("Pow", "self", number(m, p["exponent"])),
    "pow.Scalar": lambda m, p: m("Pow", number(m, p["self"]), "exponent"),
    "clamp_min": lambda m, p: m("Max", "self", number(m, p["min"])), "clamp_max": lambda m, p: m("Min", "self", number(m, p["max"])),
    "where.ScalarOther": lambda m, p: m("Where", "condition", "self", number(m, p["other"])),
    "where.ScalarSelf": lambda m, p: m("Where", "condition", number(m, p["self"]), "other"),
    "masked_fill.Scalar": lambda m, p: m("Where", "mask", number(m, p["value"]), "self"),
    "addcmul": lambda m, p: m("Add", "self", m("Mul", m("Mul", "tensor1", "tensor2"), number(m, p.get("value", 1)))),
}


def build(m, op, p):
    """The nodes of a call; the name of its output, or None where ONNX has no such thing."""
    if not m.tensors:
        return None
    rank = next(iter(m.tensors.values())).ndim
    if op in SAME_NAME:
        operands = list(m.tensors)
        if "other" in p:
            operands.append(m.constant(p["other"], m.tensors["self"].dtype))
        if p.get("alpha", 1) != 1:
            operands[1] = m("Mul", operands[1], m.constant(p["alpha"], np.float32))
        return m(SAME_NAME[op], *operands)
    if op == "_int_mm":
        empty = m.tensors["mat2"].size == 0 # it leaves the result unwritten then
        return None if empty else m("MatMulInteger", "self", "mat2")
    if op == "rsqrt":
        return m("Reciprocal", m("Sqrt", "self"))
    if op in ("silu", "sigmoid"):
        return activated(m, "self", op)
    if op == "gelu":
        return m("Gelu", "self", approximate=p.get("approximate", "none"))
    if op == "cast":
        return None if p["dtype"] == "BF16" else m("Cast", "self", to=getattr(TensorProto, KIND[p["dtype"]]))
    if op == "softmax.int":
        x = "self" if "dtype" not in p else m("Cast", "self", to=getattr(TensorProto, KIND[p["dtype"]]))
        return m("Softmax", x, axis=p["dim"]) if rank else None
    if op in ("sum", "sum.dim_IntList"):
        x = "self" if "dtype" not in p else m("Cast", "self", to=getattr(TensorProto, KIND[p["dtype"]]))
        axes = [m.constant(p["dim"], np.int64)] if "dim" in p else []
        return m("ReduceSum", x, *axes, keepdims=int(p.get("keepdim", False)))
    if op == "layer_norm":
        shape = p["normalized_shape"]
        weight = "weight" if "weight" in m.tensors else m.constant(np.ones(shape), np.float32)
        return m("LayerNormalization", "input", weight, *(["bias"] if "bias" in m.tensors else []),
                 axis=-len(shape), epsilon=p.get("eps", 1e-5))
    if op in ("transpose.int", "permute"):
        order = list(range(rank))
        if op == "permute":
            order = [d % rank for d in p["dims"]]
        else:
            a, b = p["dim0"] % rank, p["dim1"] % rank
            order[a], order[b] = b, a
        return m("Transpose", "self", perm=order)
    if op == "linear":
        return activated(m, linear(m, "input", "weight", "bias"), p.get("activation", "none"))
    if op == "dense":
        x = m("MatMul", "input", "weight")
        return activated(m, m("Add", x, "bias") if "bias" in m.tensors else x, p.get("activation", "none"))
    if op == "linear_pointwise":
        name = p.get("attr", "none")
        x = linear(m, "X", "W", "B")
        if name == "leaky_relu":
            return m("LeakyRelu", x, alpha=p["alpha"])
        if name == "hardtanh":
            return m("Clip", x, *(m.constant(p[k], np.float32) for k in ("alpha", "beta")))
        return activated(m, x, "gelu_tanh" if p.get("algorithm") == "tanh" else name)
    if op == "conv2d":
        py, px = pair(p.get("padding", 0))
        image = "input" if rank == 4 else m("Unsqueeze", "input", m.constant([0], np.int64))
        out = m("Conv", image, "weight", *(["bias"] if "bias" in m.tensors else []),
                strides=pair(p.get("stride", 1)), pads=[py, px, py, px],
                dilations=pair(p.get("dilation", 1)), group=p.get("groups", 1))
        return out if rank == 4 else m("Squeeze", out, m.constant([0], np.int64))
    return FORMS[op](m, p) if op in FORMS else None


class OnnxRuntime(Outside):
    share, least = 5, 0.1

    def result(self, op, tensors, parameters):
        m = Model(tensors)
        output = build(m, pointwise.ALSO.get(op, op), parameters)
        return None if output is None else m.run(output)

    def blur(self, op, tensors, parameters):
        if op != "layer_norm": # of which it sums one by one and takes E[x^2] - E[x]^2, all in FP32
            return 1
        x = np.asarray(tensors["input"], np.float64)
        axes = tuple(range(-len(parameters["normalized_shape"]), 0))
        mean, spread = (f(x, axis=axes, keepdims=True) for f in (np.mean, np.var))
        added = x.size / max(1, mean.size)
        return (1 + added / 2**14) * (1 + mean**2 / (spread + parameters.get("eps", 1e-5)))


del Outside # which unittest would run as well
if __name__ == "__main__":
    service.main()
