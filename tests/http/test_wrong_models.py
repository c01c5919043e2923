#!/usr/bin/env python3
"""Models that do not fit together are refused when they are loaded, with the node's name; models that may are not."""
import pathlib
import tempfile
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import models
import service
from models import archives, port
from service import Service

F = lambda *shape: np.ones(shape, np.float32)
I = lambda *v: np.array(v, np.int64)
MOST = 2 ** 63 - 1
np_tensor = numpy_helper.from_array
LONG = 50 # seconds: what is not bounded would take hours


def wrong(op, inputs, constants=None, shapes=None, types=None, before=(), out="y", opset=17, **attributes):
    """y = op(inputs), by a node that is called bad, with a right one before it and a right one behind it."""
    shapes, types = shapes or {"x": [2, 3]}, types or {}
    ports = [port(name, shape, types.get(name, "FP32")) for name, shape in shapes.items()]
    nodes = [*before, (op, inputs, [out], {"name": "bad", **attributes}), ("Identity", [out], ["z"], {"name": "behind"})]
    return models.onnx_file(nodes, ports, [port("z", None)], constants, opset)


def reading(inputs, op="Relu", **more):
    return models.onnx_file([(op, inputs, ["y"], {"name": "bad", **more})], [port("x", [2, 3])], [port("y", None)])


def branch(then):
    """An If on a constant, whose first branch has a node called bad."""
    graph = lambda nodes: helper.make_graph(nodes, "g", [], [port("o", None)])
    return wrong("If", ["yes"], {"yes": np.array(True), "c": F(5)}, then_branch=graph([then]),
                 else_branch=graph([helper.make_node("Relu", ["x"], ["o"])]))


def archive(target, dtype="float32", sizes=(2, 3), weight=None, **arguments):
    """A .pt2 of one call, whose result is called bad: of x, and of a weight w where there is one."""
    m = archives.Model()
    x = m.user("x", dtype, list(sizes))
    given = {"x": x, "w": m.weight("w", weight) if weight is not None else None}
    made = {k: given[v] if isinstance(v, str) and v in given else [given[i] for i in v] if isinstance(v, tuple) else v
            for k, v in arguments.items()}
    m.outputs = [m.call(target, "bad", **made)]
    return m.bytes()


WRONG = { # what is wrong -> a file, and a word of the sentence
    # types
    "FP16 times FP32": (wrong("MatMul", ["x", "w"], {"w": F(3, 4).astype(np.float16)}), "one type"),
    "INT64 into Conv": (wrong("Conv", ["x", "w"], {"w": F(4, 3, 1, 1)}, {"x": [1, 3, 5, 5]}, {"x": "INT64"}), "INT64"),
    "INT64 and FP32": (wrong("Add", ["x", "i"], shapes={"x": [2, 3], "i": [2, 3]}, types={"i": "INT64"}), "B: is INT64, A is FP32"),
    "one of many types": (wrong("Concat", ["x", "i"], shapes={"x": [2, 3], "i": [2, 3]}, types={"i": "INT32"}, axis=0), "of one type"),
    "no BOOL": (wrong("Not", ["x"]), "BOOL is right"),
    "no BOOL among two": (wrong("And", ["b", "x"], shapes={"x": [2, 3], "b": [2, 3]}, types={"b": "BOOL"}), "B: is FP32; BOOL is right"),
    "type of a limit": (wrong("Clip", ["x", "l"], {"l": I(1)}), "min: is INT64"),
    "no such type": (wrong("Cast", ["x"], to=99), ""),
    "type behind a cast": (wrong("MatMul", ["c", "w"], {"w": F(3, 4)}, before=[("Cast", ["x"], ["c"], {"to": TensorProto.FLOAT16})]), "one type"),
    # sizes
    "rows and columns": (wrong("MatMul", ["x", "w"], {"w": F(4, 5)}), "must be equal"),
    "no broadcast": (wrong("Add", ["x", "c"], {"c": F(4)}), "broadcast"),
    "two inputs that do not go together": (wrong("Mul", ["x", "u"], shapes={"x": [2, 3], "u": [3, 2]}), "broadcast"),
    "channels": (wrong("Conv", ["x", "w"], {"w": F(4, 5, 3, 3)}, {"x": [1, 3, 9, 9]}), "channels"),
    "kernel beyond the image": (wrong("Conv", ["x", "w"], {"w": F(4, 3, 7, 7)}, {"x": [1, 3, 5, 5]}), "reaches"),
    "pads of a kernel's width": (wrong("MaxPool", ["x"], shapes={"x": [1, 3, 9, 9]}, kernel_shape=[2, 3], pads=[0, 0, 2, 0]), "pads: 2"),
    "pads of a mean": (wrong("AveragePool", ["x"], shapes={"x": [1, 3, 9, 9]}, kernel_shape=[3, 3], pads=[0, 4, 0, 0]), "pads: 4"),
    "pads beyond a window, with free sizes": (wrong("LpPool", ["x"], shapes={"x": ["n", 3, "w"]}, kernel_shape=[3], pads=[3, 0]), "pads: 3"),
    "parts that are not joined": (wrong("Concat", ["x", "c"], {"c": F(2, 5)}, axis=0), ""),
    "elements of a reshape": (wrong("Reshape", ["x", "s"], {"s": I(4, 2)}), "elements"),
    "two -1": (wrong("Reshape", ["x", "s"], {"s": I(-1, -1)}), "-1"),
    "parts of a split": (wrong("Split", ["x", "s"], {"s": I(1, 7)}, axis=1), ""),
    "Gemm's rows": (wrong("Gemm", ["x", "w", "b"], {"w": F(4, 3), "b": F(5)}, transB=1), ""),
    "scale of a norm": (wrong("LayerNormalization", ["x", "s"], {"s": F(7)}), ""),
    "expanded": (wrong("Expand", ["x", "s"], {"s": I(2, 4)}), ""),
    "behind a pool": (wrong("MatMul", ["p", "w"], {"w": F(16, 4)}, {"x": [1, 3, 8, 8]},
                            before=[("GlobalAveragePool", ["x"], ["g"], {}), ("Flatten", ["g"], ["p"], {})]), "must be equal"),
    "behind sizes that are computed": (wrong("Reshape", ["x", "s"], {"four": I(4)}, before=[
        ("Shape", ["x"], ["n"], {}), ("Mul", ["n", "four"], ["s"], {})]), "elements"),
    # axes and attributes
    "axis": (wrong("Softmax", ["x"], axis=2), "dimension 2"),
    "permutation": (wrong("Transpose", ["x"], perm=[0, 0]), "dim"),
    "permutation of too few": (wrong("Transpose", ["x"], perm=[0]), "dims"),
    "axis of a sum": (wrong("ReduceSum", ["x", "a"], {"a": I(5)}), ""),
    "squeezed": (wrong("Squeeze", ["x", "a"], {"a": I(1)}), ""),
    "kind of an attribute": (wrong("Softmax", ["x"], axis=1.5), ""),
    "text for an attribute": (wrong("Gemm", ["x", "w"], {"w": F(3, 4)}, alpha="much"), ""),
    "attribute there is none of": (wrong("Relu", ["x"], slope=0.5), "slope"),
    "attribute that is missing": (wrong("Cast", ["x"]), ""),
    # attributes whose sums and products are beyond 64 bits
    "heads": (wrong("GroupQueryAttention", ["x", "", "", "", "", "l", "t"], {"l": np.zeros(1, np.int32), "t": np.int32(2)}, {"x": [1, 2, 8]},
                    domain="com.microsoft", num_heads=2, kv_num_heads=MOST), "num_heads"), # heads + 2 kv heads would be 0
    "sizes of heads": (wrong("Attention", ["x", "w"], {"w": F(4, 3)}, {"x": [1, 2, 4]}, domain="com.microsoft", num_heads=1,
                             qkv_hidden_sizes=[MOST, MOST, 5]), "qkv_hidden_sizes"),
    "blocks of bits": (wrong("MatMulNBits", ["x", "w", "s"], {"w": np.zeros((4, 1, 16), np.uint8), "s": F(4)}, {"x": [2, 32]},
                             domain="com.microsoft", K=32, N=4, bits=4, block_size=MOST), "block_size"),
    "blocks of a table": (wrong("GatherBlockQuantized", ["w", "i", "s"], {"w": np.zeros((4, 16), np.uint8), "s": F(4, 3)}, {"i": [2]},
                                {"i": "INT64"}, domain="com.microsoft", bits=4, block_size=MOST, gather_axis=0, quantize_axis=1), "block_size"),
    "vectors of classes": (wrong("SVMClassifier", ["x"], domain="ai.onnx.ml", classlabels_ints=[0, 1], vectors_per_class=[MOST, MOST],
                                 coefficients=[1.0] * 2, support_vectors=[1.0] * 6, rho=[0.5], kernel_type="LINEAR"), "vectors_per_class"),
    "child of a tree": (wrong("TreeEnsemble", ["x"], domain="ai.onnx.ml", n_targets=1, tree_roots=[0], nodes_featureids=[0],
                              nodes_modes=np_tensor(np.zeros(1, np.uint8)), nodes_splits=np_tensor(F(1)), nodes_truenodeids=[MOST],
                              nodes_trueleafs=[1], nodes_falsenodeids=[0], nodes_falseleafs=[1], leaf_targetids=[0], leaf_weights=np_tensor(F(1))), "child"),
    # names and numbers of inputs
    "name that nothing makes": (reading(["nosuch"]), "nosuch"),
    "initializer that is missing": (reading(["x", "weight"], "MatMul"), "weight"),
    "too many inputs": (reading(["x", "x", "x"]), "inputs"),
    "too few inputs": (reading(["x"], "MatMul"), ""),
    "none at all": (reading([], "Add"), ""),
    "operator there is none of": (reading(["x"], "NoSuch"), "no such operator"),
    # inside
    "in a branch": (branch(helper.make_node("Add", ["x", "c"], ["o"], name="bad")), "broadcast"),
    "types of branches": (wrong("If", ["yes"], shapes={"x": [2, 3], "yes": []}, types={"yes": "BOOL"}, **{
        name: helper.make_graph([helper.make_node("Cast", ["x"], ["o"], to=to)], "g", [], [port("o", None, kind)])
        for name, to, kind in (("then_branch", TensorProto.FLOAT, "FP32"), ("else_branch", TensorProto.INT64, "INT64"))}), "one type"),
    # with free sizes: by kinds and types, and by sizes that are not free
    "type, with free sizes": (wrong("MatMul", ["x", "w"], {"w": F(3, 4).astype(np.float16)}, {"x": ["n", 3]}), "one type"),
    "INT64 into Conv, with free sizes": (wrong("Conv", ["x", "w"], {"w": F(4, 3, 3, 3)}, {"x": ["n", 3, "h", "w"]}, {"x": "INT64"}), "INT64"),
    "rows and columns, with free sizes": (wrong("MatMul", ["x", "w"], {"w": F(4, 5)}, {"x": ["n", 3]}), "must be equal"),
    "channels, with free sizes": (wrong("Conv", ["x", "w"], {"w": F(4, 5, 3, 3)}, {"x": ["n", 3, "h", "w"]}), "channels"),
    "Gemm's rows, with free sizes": (wrong("Gemm", ["x", "w"], {"w": F(5, 3)}, {"x": ["n", 4]}), "must be equal"),
    "Gemm's bias, with free sizes": (wrong("Gemm", ["x", "w", "b"], {"w": F(5, 3), "b": F(4)}, {"x": ["n", 5]}), "the product's is 3"),
    "scale of a norm, with free sizes": (wrong("LayerNormalization", ["x", "s"], {"s": F(7)}, {"x": ["n", 8]}), "right"),
    "gates, with free sizes": (wrong("LSTM", ["x", "w", "r"], {"w": F(1, 16, 3), "r": F(1, 12, 4)}, {"x": ["t", "n", 3]}, hidden_size=4), "gates"),
    "INT64 and FP32, with free sizes": (wrong("Mul", ["x", "c"], {"c": I(2)}, {"x": ["n", 3]}), "of one type"),
    "no broadcast, with free sizes": (wrong("Add", ["x", "c"], {"c": F(4)}, {"x": ["n", 3]}), "broadcast"),
    "behind what is free": (wrong("MatMul", ["r", "w"], {"w": F(4, 5)}, {"x": ["n", "m", 3]}, before=[("Relu", ["x"], ["r"], {})]), "must be equal"),
    "too few inputs, with free sizes": (wrong("MatMul", ["x"], shapes={"x": ["n", 3]}), ""),
    # .pt2
    "pt2: rows and columns": (archive("mm.default", weight=F(4, 5), self="x", mat2="w"), "must be equal"),
    "pt2: types": (archive("mm.default", weight=F(3, 5).astype(np.float16), self="x", mat2="w"), "one type"),
    "pt2: broadcast": (archive("add.Tensor", weight=F(4), self="x", other="w"), "broadcast"),
    "pt2: dimension": (archive("softmax.int", self="x", dim=2), "dim"),
    "pt2: elements": (archive("view.default", self="x", size=[4, 2]), "elements"),
    "pt2: kind": (archive("view.default", self="x", size="wide"), "size"),
    "pt2: missing": (archive("mm.default", self="x"), "mat2"),
    "pt2: name": (archive("relu.default", self="x", slope=0.5), "slope"),
    "pt2: linear": (archive("linear.default", weight=F(5, 4), input="x", weight_="w"), "equal"),
    "pt2: type, with a free size": (archive("mm.default", sizes=("s0", 3), weight=F(3, 5).astype(np.float16), self="x", mat2="w"), "one type"),
    "pt2: sizes, beside a free one": (archive("mm.default", sizes=("s0", 3), weight=F(4, 5), self="x", mat2="w"), "must be equal"),
    "pt2: joined": (archive("cat.default", weight=F(2, 5), tensors=("x", "w"), dim=0), "tensors"),
}


class WrongModels(service.ServiceTest):
    def put(self, file, name="m"):
        return self.service.call("PUT", "/v1/models/" + name, file)

    def test_refused(self):
        self.assertGreater(len(WRONG), 20)
        for what, (file, word) in WRONG.items():
            with self.subTest(what):
                said = self.problem(self.put(file), 400, word)["detail"]
                self.assertRegex(said, r"node '(bad|y)")
        self.assertEqual(self.service.call("GET", "/v1/models").json["models"], [])
        self.alive()

    def test_outputs(self):
        """A file that says another type of an output is refused; wrong sizes are replaced by what is made."""
        file = lambda *declared: models.onnx_file([("Relu", ["x"], ["y"], {})], [port("x", [2, 3])], [port("y", *declared)])
        self.problem(self.put(file([2, 3], "INT64")), 400, "output 'y' is declared INT64; the model makes FP32")
        self.assertEqual(self.put(file([2, 4])).status, 201)
        said = self.service.call("GET", "/v2/models/m").json["outputs"]
        self.assertEqual([(one["datatype"], one["shape"]) for one in said], [("FP32", [2, 3])])
        self.service.call("DELETE", "/v1/models/m")

    def right(self, file, inputs):
        """It is loaded, and gives a result for these."""
        reply = self.put(file)
        self.assertIn(reply.status, (200, 201), reply.body[:300])
        reply = self.service.infer("m", inputs, path="/v2/models/{}/infer")
        self.assertEqual(reply.status, 200, reply.body[:300])

    def test_what_may_fit_is_loaded(self):
        x = lambda *shape: {"x": np.ones(shape, np.float32)}
        free = {"x": ["n", "m"]}
        for what, file, inputs in (
                ("for one size alone", wrong("Add", ["x", "c"], {"c": F(4, 3)}, {"x": ["n", 3]}), x(4, 3)),
                ("for one product alone", wrong("Reshape", ["x", "s"], {"s": I(5, 7)}, free), x(7, 5)),
                ("for multiples", wrong("DepthToSpace", ["x"], shapes={"x": ["n", "c", "h", "w"]}, blocksize=5), x(1, 25, 2, 2)),
                ("for one rank alone", wrong("Transpose", ["s"], None, free, before=[("Squeeze", ["x"], ["s"], {})], perm=[1, 0]), x(3, 4)),
                ("for a size that is cut off", wrong("MatMul", ["s", "w"], {"w": F(4, 2), "a": I(0), "b": I(5), "d": I(1)}, free,
                                                     before=[("Slice", ["x", "a", "b", "d"], ["s"], {})]), x(2, 4)),
                ("for one number of rows", wrong("MatMul", ["w", "x"], {"w": F(2, 5)}, {"x": ["n", 3]}), x(5, 3)),
                ("joined for one size", wrong("Concat", ["x", "c"], {"c": F(5, 2)}, free, axis=1), x(5, 3)),
                ("for a free bias", wrong("Conv", ["i", "w", "x"], {"i": F(1, 3, 4, 4), "w": F(7, 3, 1, 1)}, {"x": ["n"]}), x(7)),
                ("with pads less than the window", wrong("MaxPool", ["x"], shapes={"x": [1, 3, 9, 9]}, kernel_shape=[3, 3], pads=[2, 2, 2, 2]), x(1, 3, 9, 9)),
                ("with pads for the same size", wrong("MaxPool", ["x"], shapes={"x": [1, 3, 9]}, kernel_shape=[2], dilations=[5],
                                                      auto_pad="SAME_UPPER"), x(1, 3, 9)),
                ("for large sizes", wrong("AveragePool", ["x"], shapes={"x": [1, 1, "h", "w"]}, kernel_shape=[2100, 1]), x(1, 1, 2101, 2)),
                ("by a value", wrong("Reshape", ["x", "s"], shapes={"x": [2, 3], "s": [2]}, types={"s": "INT64"}), {**x(2, 3), "s": I(3, 2)}),
                ("by how many there are", wrong("Reshape", ["at", "s"], {"s": I(3, 4)}, before=[("NonZero", ["x"], ["at"], {})]), x(2, 3)),
                ("in a branch that is not taken", wrong("If", ["yes"], shapes={"x": [2, 3], "yes": []}, types={"yes": "BOOL"},
                                                        then_branch=helper.make_graph([helper.make_node("Relu", ["x"], ["o"])], "t", [], [port("o", None)]),
                                                        else_branch=helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["o"])], "e", [], [port("o", None)])),
                 {**x(2, 3), "yes": np.array(True)})):
            with self.subTest(what):
                self.right(file, inputs)
        self.service.call("DELETE", "/v1/models/m")

    def test_time(self):
        """Loops that go on are left to who calls; what stands behind them, too. Many nodes take time in proportion."""
        body = lambda nodes: helper.make_graph(nodes, "body", [port("i", [], "INT64"), port("go", [], "BOOL"), port("v", [2, 3])],
                                               [port("go", [], "BOOL"), port("w", [2, 3])])
        for nodes in ([helper.make_node("Relu", ["v"], ["w"])], [helper.make_node("Relu", ["v"], [f"w{i}"]) for i in range(2000)]):
            nodes[-1].output[0] = "w"
            file = wrong("Loop", ["most", "yes", "x"], {"most": np.array(2 ** 60), "yes": np.array(True)}, body=body(nodes))
            begin = time.monotonic()
            self.assertIn(self.put(file).status, (200, 201))
            self.assertLess(time.monotonic() - begin, LONG)
        pads = lambda n: [("Pad", [f"p{i}" if i else "x", "one"], [f"p{i + 1}"], {"mode": "reflect"}) for i in range(n)] + [("Relu", [f"p{n}"], ["y"], {})]
        for n, size in ((1, 1000000), (2000, 100000)): # each makes a list of as many places
            file = models.onnx_file(pads(n), [port("x", [size])], [port("y", None)], {"one": I(1, 1)})
            begin = time.monotonic()
            self.assertIn(self.put(file).status, (200, 201))
            self.assertLess(time.monotonic() - begin, LONG)
        chain = [("Add", [f"v{i}" if i else "x", "x"], [f"v{i + 1}"], {}) for i in range(20000)]
        file = models.onnx_file(chain + [("MatMul", ["v20000", "x"], ["y"], {"name": "bad"})], [port("x", [2, 3])], [port("y", None)])
        begin = time.monotonic()
        self.problem(self.put(file), 400, "node 'bad'")
        self.assertLess(time.monotonic() - begin, LONG)
        self.service.call("DELETE", "/v1/models/m")

    def test_from_files(self):
        """A directory of models and `tensord run` refuse them, too."""
        file, _ = WRONG["rows and columns"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "wrong.onnx"
            path.write_bytes(file)
            with Service("--models", folder) as s:
                self.assertEqual(s.call("GET", "/v1/models").json["models"], [])
            self.assertRegex(s.log, r"wrong\.onnx: not loaded: [^\n]*node 'bad' \(MatMul\)")
            done = service.run("run", str(path))
            self.assertEqual(done.returncode, 1)
            self.assertIn("node 'bad' (MatMul)", done.stderr)


if __name__ == "__main__":
    service.main()
