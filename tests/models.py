"""Small models for tests: ONNX files and archives made here, and what they give by NumPy."""
import os
import sys

import service

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "model"))
import archives  # noqa: E402

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
TYPES = {"FP32": TensorProto.FLOAT, "INT64": TensorProto.INT64, "BOOL": TensorProto.BOOL, "FP16": TensorProto.FLOAT16, "INT32": TensorProto.INT32, "BYTES": TensorProto.STRING}


def port(name, shape, datatype="FP32"):
    return helper.make_tensor_value_info(name, TYPES[datatype], shape)


def onnx_file(nodes, inputs, outputs, constants=None, opset=17):
    """The bytes of a model. nodes: (operator, inputs, outputs, attributes); constants: name -> array."""
    made = [helper.make_node(op, ins, outs, **more) for op, ins, outs, more in nodes]
    weights = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(made, "graph", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8).SerializeToString()


def line(factor=1.0, **how):
    """y = relu(x w) factor, of x [n,3]."""
    return onnx_file([("MatMul", ["x", "w"], ["m"], {}), ("Relu", ["m"], ["r"], {}), ("Mul", ["r", "f"], ["y"], {})],
                     [port("x", ["n", 3])], [port("y", ["n", 4])],
                     {"w": WEIGHT, "f": np.float32(factor).reshape(())}, **how)


def line_of(x, factor=1.0):
    return np.maximum(x @ WEIGHT, 0) * np.float32(factor)


def line_pt2():
    """The same without a factor, as PyTorch archives it."""
    m = archives.Model()
    x, w = m.user("x", sizes=["s0", 3]), m.weight("w", WEIGHT)
    m.outputs = [m.call("relu.default", "y", self=m.call("mm.default", "m", self=x, mat2=w))]
    return m.bytes()


def identity(name="x", out="y", datatype="FP32", shape=("n",)):
    return onnx_file([("Identity", [name], [out], {})], [port(name, list(shape), datatype)], [port(out, list(shape), datatype)])


def colors():
    """What texts are called elsewhere."""
    node = helper.make_node("LabelEncoder", ["color"], ["called"], domain="ai.onnx.ml", keys_strings=["red", "blue"], values_strings=["rot", "blau"])
    graph = helper.make_graph([node], "graph", [port("color", ["n"], "BYTES")], [port("called", ["n"], "BYTES")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)], ir_version=8).SerializeToString()


def weighty(megabytes):
    """y = x + the sum of so many MB of constants, which cannot be folded away."""
    n = megabytes * 262144
    return onnx_file([("Mul", ["x", "w"], ["y"], {})], [port("x", ["n", 1])], [port("y", ["n", n])],
                     {"w": np.ones((1, n), np.float32)})


def forever():
    """Counts for as long as x says."""
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["v", "v"], ["w"])], "body",
                             [port("i", [], "INT64"), port("go", [], "BOOL"), port("v", [1])],
                             [port("on", [], "BOOL"), port("w", [1])])
    return onnx_file([("Loop", ["n", "go", "x"], ["y"], {"body": body})], [port("n", [], "INT64"), port("x", [1])],
                     [port("y", [1])], {"go": np.array(True)})


def doubling():
    """y = relu(x) doubled until its sum is 100 or more, z = the number of turns."""
    body = helper.make_graph([helper.make_node("Add", ["v", "v"], ["w"]), helper.make_node("ReduceSum", ["w"], ["s"], keepdims=0),
                              helper.make_node("Less", ["s", "hundred"], ["on"])], "body",
                             [port("i", [], "INT64"), port("go", [], "BOOL"), port("v", [3])],
                             [port("on", [], "BOOL"), port("w", [3]), port("i", [], "INT64")])
    body.output[2].name = "turn"
    body.node.append(helper.make_node("Identity", ["i"], ["turn"]))
    return onnx_file([("Relu", ["x"], ["r"], {}), ("Loop", ["", "go", "r"], ["y", "turns"], {"body": body}),
                      ("Shape", ["turns"], ["z"], {})],
                     [port("x", [3])], [port("y", [3]), port("z", [1], "INT64")],
                     {"go": np.array(True), "hundred": np.float32(100).reshape(())})


def doubling_of(x):
    y, turns = np.maximum(x, 0), 0
    while not turns or y.sum() < 100:
        y, turns = y + y, turns + 1
    return y, turns


STEP = np.random.default_rng(5).standard_normal((16, 16)).astype(np.float32) / 5


def decoder():
    """Steps of a decoder as exporters write them: the weight is a state that the body hands on as it came, and turns round; a
    row is written at each turn's place; it ends when the last row's sum and the turn's number reach a limit."""
    body = helper.make_graph([
        helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]), helper.make_node("MatMul", ["h", "turned"], ["m"]),
        helper.make_node("Tanh", ["m"], ["next"]), helper.make_node("Reshape", ["i", "column"], ["place"]),
        helper.make_node("ScatterND", ["rows", "place", "next"], ["written"]), helper.make_node("Cast", ["i"], ["far"], to=1),
        helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0), helper.make_node("Add", ["sum", "far"], ["reached"]),
        helper.make_node("Less", ["reached", "limit"], ["going"])], "body",
        [port("i", [], "INT64"), port("on", [], "BOOL"), port("w", None), port("h", [1, 16]), port("rows", [64, 16])],
        [port("going", [], "BOOL"), port("w", None), port("next", [1, 16]), port("written", [64, 16])])
    return onnx_file([("Loop", ["most", "", "weight", "x", "empty"], ["", "last", "rows"], {"body": body})],
                     [port("x", [1, 16]), port("limit", [])], [port("last", [1, 16]), port("rows", [64, 16])],
                     {"weight": STEP, "empty": np.zeros((64, 16), np.float32), "most": np.array(64), "column": np.array([1, 1])})


def decoder_of(x, limit):
    h, rows = x, np.zeros((64, 16), np.float32)
    for i in range(64):
        h = rows[i:i + 1] = np.tanh(h @ STEP.T)
        if not h.sum() + i < limit:
            break
    return h, rows


def two(name_a="a", name_b="b"):
    """sum = a + b, product = a b, both = of FP32 and INT64."""
    return onnx_file([("Add", [name_a, name_b], ["sum"], {}), ("Mul", [name_a, name_b], ["product"], {}),
                      ("Shape", [name_a], ["shape"], {})],
                     [port(name_a, ["n", 2]), port(name_b, [2])],
                     [port("sum", ["n", 2]), port("product", ["n", 2]), port("shape", [2], "INT64")])
