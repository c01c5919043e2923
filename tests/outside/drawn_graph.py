"""A small ONNX graph that is being drawn, node by node, for graphs.py."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MOST = 30000 # elements of a value
KINDS = {"FP32": TensorProto.FLOAT, "FP16": TensorProto.FLOAT16, "QDQ": TensorProto.FLOAT}
WITH_ONE = ("Gelu", "Elu", "Selu", "Celu") # which add or subtract 1


class Graph:
    """Nodes one after another. kind: FP32, FP16, or QDQ, where layers stand between quantized values."""

    def __init__(self, rng, kind):
        self.rng, self.kind, self.type = rng, kind, KINDS[kind]
        self.nodes, self.constants, self.shapes, self.types = [], [], {}, {}
        self.inputs, self.made = [], [] # names; made: of results, the last one last

    # ---- what is drawn ----

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def maybe(self, chance):
        return self.rng.random() < chance

    def numbers(self, shape, scale=1.0, low=None):
        """Those of QDQ are whole or simple fractions, of which all sums are exact."""
        if self.kind == "QDQ":
            value = self.rng.integers(-8 if low is None else 1, 9, shape) / 8
        else:
            value = self.rng.standard_normal(shape) * scale if low is None else low + self.rng.random(shape)
        return np.asarray(value, np.float32).astype(np.float16).astype(np.float32)

    # ---- what is put in ----

    def constant(self, value, kind=None):
        """An initializer; floats have the graph's type."""
        value = np.asarray(value)
        if value.dtype.kind == "f" and kind is None:
            value = value.astype(np.float16 if self.kind == "FP16" else np.float32)
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(value if kind is None else value.astype(kind), name))
        self.shapes[name], self.types[name] = value.shape, self.constants[-1].data_type
        return name

    def input(self, shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.shapes[name], self.types[name] = tuple(shape), self.type
        return name

    def __call__(self, op, *inputs, outs=1, **attributes):
        """A node: its first result's name, or None where it is not right, its results are too large or have nothing in them, or an input is None."""
        if None in inputs:
            return None
        names = [f"v{len(self.nodes)}" + ("" if i == 0 else f"_{i}") for i in range(outs)]
        node = helper.make_node(op, list(inputs), names, **attributes)
        given = [helper.make_tensor_value_info(n, self.types[n], self.shapes[n]) for n in dict.fromkeys(filter(None, inputs))]
        known = [c for c in self.constants if c.name in inputs]
        graph = helper.make_graph([node], "one", given, [onnx.ValueInfoProto(name=n) for n in names], known)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        try:
            found = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph.output
        except Exception: # drawn parameters need not be right
            return None
        for out in found:
            t = out.type.tensor_type
            shape = tuple(d.dim_value for d in t.shape.dim)
            if not t.elem_type or not t.HasField("shape") or min((*shape, 1)) < 1 or np.prod(shape) > MOST:
                return None
            self.shapes[out.name], self.types[out.name] = shape, t.elem_type
        self.nodes.append(node)
        return names[0]

    def shape(self, name):
        return self.shapes[name]

    def earlier(self, like):
        """Another result or input of a shape for which like(shape) holds, or None."""
        found = [n for n in self.inputs + self.made if self.types[n] == self.type and like(self.shapes[n])]
        return self.pick(*found) if found else None

    # ---- a file ----

    def rounding(self, op, name):
        """The steps behind a node that round its result, as operators and their second inputs."""
        if self.kind == "FP32": # the last digits are others, and those of a 1 in a sum
            some = self.rng.choice([-1, 1], self.shapes[name]) * 2.0 ** -22
            return [("Mul", 1 + some)] + [("Add", some)] * (op in WITH_ONE)
        return [("Cast", self.type), ("Cast", TensorProto.FLOAT)]

    def rounded(self):
        """The nodes with each result of the graph's type rounded, and their constants. LpPool in FP16 sums squares: they are rounded."""
        nodes, constants = [], list(self.constants)
        for node in self.nodes:
            made = onnx.NodeProto()
            made.CopyFrom(node)
            nodes.append(made)
            for i, name in enumerate(node.output):
                if self.types.get(name) != self.type:
                    continue
                steps = self.rounding(node.op_type, name)
                if self.kind == "FP16" and node.op_type == "LpPool":
                    steps = [("Pow", 2.0), *steps, ("Sqrt", None)]
                made.output[i] = f"{name}.0"
                for k, (op, other) in enumerate(steps, 1):
                    inputs, how = [f"{name}.{k - 1}"], {"to": other} if op == "Cast" else {}
                    if op in ("Mul", "Add", "Pow"):
                        inputs.append(f"{name}.by{k}")
                        constants.append(numpy_helper.from_array(np.asarray(other, np.float32), inputs[1]))
                    nodes.append(helper.make_node(op, inputs, [f"{name}.{k}" if k < len(steps) else name], **how))
        return nodes, constants

    def model(self, outputs, kind=None, nodes=None, constants=None, batch=None):
        """kind: the type of all that is FP16 in it instead; batch: the first dimension of inputs is a word of this name."""
        to = self.type if kind is None else kind
        def port(name):
            shape = list(self.shapes[name])
            if batch and name in self.inputs and shape:
                shape[0] = batch
            given = self.types[name]
            return helper.make_tensor_value_info(name, to if given == self.type else given, shape if name in self.inputs else None)
        constants = self.constants if constants is None else constants
        if to != self.type:
            constants = [numpy_helper.from_array(numpy_helper.to_array(c).astype(np.float32), c.name)
                         if c.data_type == self.type else c for c in constants]
        graph = helper.make_graph(nodes or self.nodes, "drawn", [port(n) for n in self.inputs], [port(n) for n in outputs], constants)
        return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
