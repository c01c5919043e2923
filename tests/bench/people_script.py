"""A model with a function of its own, as onnxscript writes it, for people_files.py."""
import numpy as np
import onnxscript
from onnxscript import FLOAT
from onnxscript import opset18 as op

own = onnxscript.values.Opset("people.own", 1)


@onnxscript.script(own, default_opset=op)
def Smooth(x, alpha: float):
    return op.Mul(x, op.Sigmoid(op.Mul(x, op.CastLike(op.Constant(value_float=alpha), x))))


@onnxscript.script(default_opset=op)
def twice(x: FLOAT[None, 8]) -> FLOAT[None, 8]:
    return Smooth(op.Add(Smooth(x, alpha=1.5), x), alpha=0.5)


def main(k):
    model = twice.to_model_proto()
    k.onnx("onnxscript, functions", "script_functions", model, [np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)])
