#!/usr/bin/env python3
"""Operators of ai.onnx.ml and com.microsoft: files made here, judged by ONNX Runtime; wrong ones by their sentence.

    test_onnx_domains.py RUN_MODEL
"""
import functools
import pathlib
import sys
import unittest

import numpy as np

try:
    import onnx
    import onnx.reference
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: no onnx or no onnxruntime: run deploy/setup.sh check")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import service
from runner import Refused, Runner

ML, MS = "ai.onnx.ml", "com.microsoft"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@functools.cache
def saturates():
    """Whether ONNX Runtime adds products of 8 bits in 16 here, as it does where the CPU lacks VNNI: then it is no judge of large ones."""
    x, w = np.full((1, 32), 255, np.uint8), np.full((32, 32), 127, np.int8)
    return not (judge(*model("", "MatMulInteger", [x, w], constant=(1,)))[0] == 32 * 255 * 127).all()


def port(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model(domain, op, inputs, constant=(), outputs=1, ml=3, **attributes):
    """One node. inputs: arrays, or None for what is left out; those whose index is constant stand in the file."""
    inputs = [a if a is None else np.asarray(a) for a in inputs]
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    given = [(names[k], a) for k, a in enumerate(inputs) if a is not None and k not in constant]
    results = [f"o{k}" if outputs is None or k in np.atleast_1d(outputs) else "" for k in range(np.max(outputs) + 1)] \
        if not isinstance(outputs, int) else [f"o{k}" for k in range(outputs)]
    graph = helper.make_graph([helper.make_node(op, names, results, domain=domain, name="node", **attributes)], "g",
                              [port(n, a) for n, a in given], [helper.make_empty_tensor_value_info(o) for o in results if o],
                              [numpy_helper.from_array(inputs[k], names[k]) for k in constant if inputs[k] is not None])
    sets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, ml), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9), dict(given)


def judge(file, given):
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.graph_optimization_level = 4, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, given)


def forest(rng, trees, depth, features, modes=MODES, whole=False):
    """The nodes of random trees, as lists; and (tree, node) of their leaves."""
    rows, leaves = [], []
    for tree in range(trees):
        n, waiting = 1, [(0, 0)]
        while waiting:
            at, deep = waiting.pop()
            if deep == depth or (deep and rng.random() < 0.2):
                rows.append((tree, at, 0, 0.0, "LEAF", 0, 0, 0))
                leaves.append((tree, at))
                continue
            limit = float(rng.integers(-2, 3)) if whole else float(np.float32(rng.standard_normal()))
            rows.append((tree, at, int(rng.integers(features)), limit, str(rng.choice(modes)), n, n + 1, int(rng.integers(2))))
            waiting += [(n, deep + 1), (n + 1, deep + 1)]
            n += 2
    order = sorted(range(len(rows)), key=lambda i: rows[i][:2])
    names = ["treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
    return {"nodes_" + name: [rows[i][k] for i in order] for k, name in enumerate(names)}, leaves


def weights(rng, prefix, leaves, targets, each, positive=False):
    """each: how many targets a leaf has, from its tree's own on; 0: all have target 0."""
    rows = [(tree, node, (tree + t) % targets if each else 0, float(np.float32(abs(rng.standard_normal()) if positive else rng.standard_normal())))
            for tree, node in leaves for t in range(each or 1)]
    return {f"{prefix}_{name}": [row[k] for row in rows] for k, name in enumerate(["treeids", "nodeids", "ids", "weights"])}


class Domains(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(service.seed())

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def whole(self, low, high, shape, kind=np.int64):
        return self.rng.integers(low, high, shape).astype(kind)

    def same(self, *args, within=2e-6, **how):
        """What the node gives is ONNX Runtime's, whole numbers to the last bit (8 bits within one)."""
        file, given = model(*args, **how)
        wanted, found = judge(file, given), RUN.run(file.SerializeToString(), list(given.values()))
        for got, want in zip(found, wanted, strict=True):
            if isinstance(want, list):
                want = np.array([list(row.values()) for row in want])
            with self.subTest(op=args[1], **{k: v for k, v in how.items() if np.isscalar(v)}):
                self.assertEqual(got.shape, want.shape)
                if want.dtype.kind == "f":
                    np.testing.assert_allclose(got, want, rtol=within, atol=within * max(1, np.nanmax(np.abs(want), initial=0)))
                else:
                    self.assertLessEqual(np.abs(got.astype(int) - want.astype(int)).max(initial=0), want.dtype.itemsize == 1)
        return found

    def refused(self, word, *args, **how):
        """When it is loaded: whatever sizes are, where they are free."""
        file, given = model(*args, **how)
        with self.assertRaises(Refused) as caught:
            RUN.run(file.SerializeToString(), list(given.values()))
        self.assertIn(word, str(caught.exception))

    # ---- ai.onnx.ml ----

    def rows_with_nan(self, rows, features, whole=False):
        x = self.whole(-3, 4, (rows, features)).astype(np.float32) if whole else self.normal(rows, features)
        x[self.rng.random(x.shape) < 0.1] = np.nan
        return x

    def sequence(self, nodes, inputs, constants=()):
        """A graph of nodes (operator, inputs, outputs, attributes), whose last result is y."""
        made = [helper.make_node(op, ins, outs, **more) for op, ins, outs, more in nodes]
        graph = helper.make_graph(made, "g", [port(name, a) for name, a in inputs.items()], [helper.make_empty_tensor_value_info("y")],
                                  [numpy_helper.from_array(np.asarray(a), name) for name, a in dict(constants).items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def pair(self, node, x, scales, w=None, b=None, behind=(), kinds=(np.uint8, np.int8), **how):
        """DequantizeLinear, a node in floats, perhaps others behind it, QuantizeLinear: from 8 bits to 8 bits. w: weight, scale, axis."""
        x_scale, y_scale, *zeros = scales
        values = {"xs": np.float32(x_scale), "xz": kinds[0](zeros[0]), "ys": np.float32(y_scale), "yz": kinds[0](zeros[1])}
        nodes, ins = [("DequantizeLinear", ["x", "xs", "xz"], ["xf"], {})], ["xf"]
        if w is not None:
            scale = np.asarray(w[1], np.float32)
            values |= {"w": w[0], "ws": scale, "wz": np.zeros(scale.shape, w[0].dtype)}
            nodes.append(("DequantizeLinear", ["w", "ws", "wz"], ["wf"], {"axis": w[2]} if scale.ndim else {}))
            ins.append("wf")
        if b is not None:
            values |= {"b": b, "bs": np.float32(x_scale) * scale, "bz": np.zeros(scale.shape, np.int32)}
            nodes.append(("DequantizeLinear", ["b", "bs", "bz"], ["bf"], {"axis": 0} if scale.ndim else {}))
            ins.append("bf")
        for k, op in enumerate((node, *behind)):
            nodes.append((op, ins if not k else [f"v{k - 1}"], [f"v{k}"], how if not k else {}))
        nodes.append(("QuantizeLinear", [nodes[-1][2][0], "ys", "yz"], ["y"], {}))
        file = self.sequence(nodes, {"x": x}, values)
        for mode in "eager", "plan":
            got, = RUN.run(file.SerializeToString(), [x], how=mode)
        return file, got

    def summed(self, op, x, w, b, pads=None, strides=None, dilations=None, group=1, transB=0):
        """The sums of a convolution or product of whole numbers, by ONNX's own evaluator in FP64, which holds them."""
        if op != "Conv":
            return x @ (w.T if transB else w) + (0 if b is None else b)
        how = {k: v for k, v in {"pads": pads, "strides": strides, "dilations": dilations, "group": group}.items() if v is not None}
        x, w, b = (np.asarray(a, np.float64) for a in (x, w, b))
        file = self.sequence([("Conv", ["x", "w", "b"], ["y"], how)], {"x": x}, {"w": w, "b": b})
        return onnx.reference.ReferenceEvaluator(file).run(None, {"x": x})[0]

    def test_pairs(self):
        """Convolutions and products between DequantizeLinear and QuantizeLinear are summed as whole numbers: floats would lose the last bits of such sums."""
        for kind, zeros in (np.uint8, (7, 0)), (np.int8, (-128, -128)):
            low, high = np.iinfo(kind).min, np.iinfo(kind).max + 1
            for cols in (), (24,):
                for name, op, how, x, w in (
                        ("conv", "Conv", {"pads": [1, 0, 1, 2], "strides": [2, 1]}, (1, 600, 5, 6), (24, 600, 3, 3)), ("depthwise", "Conv", {"group": 24, "pads": [1] * 4}, (2, 24, 7, 6), (24, 1, 3, 3)),
                        ("groups", "Conv", {"group": 2}, (1, 8, 4, 5), (24, 4, 3, 3)), ("line", "Conv", {"dilations": [2]}, (2, 9, 30), (24, 9, 4)), ("gemm", "Gemm", {"transB": 1}, (5, 4000), (24, 4000)),
                        ("plain gemm", "Gemm", {}, (5, 4000), (4000, 24)), ("matmul", "MatMul", {}, (2, 3, 4000), (4000, 24))):
                    x, w, axis = self.whole(low, high, x, kind), self.whole(-127, 128, w, np.int8), 1 if op == "MatMul" or name == "plain gemm" else 0
                    x_scale, scale = np.float32(0.03), self.rng.uniform(0.01, 0.02, cols).astype(np.float32)
                    b = None if op == "MatMul" else self.whole(-90000, 90000, 24, np.int32)
                    # What is left of the sums when all but little of them cancels out is a step of the result each.
                    fine = x_scale * np.float32(0.015)
                    if op != "Conv":
                        half = x.shape[-1] // 2
                        x[..., half:], w = x[..., :half], np.concatenate([p := (w[:half] if axis else w[:, :half]), -p], 1 - axis)
                        (w if axis else w.T)[0] += self.whole(-1, 2, 24, np.int8).astype(np.int8)
                        w, b = w.clip(-127, 127), None if b is None else b % 50
                    else:
                        fine = fine * np.float32(5000 if name == "conv" else 500)
                    for behind in ((), ("Relu",)) if op == "Conv" else ((),):
                        with self.subTest(name=name, kind=kind.__name__, cols=cols, behind=behind):
                            file, got = self.pair(op, x, (x_scale, fine, *zeros), (w, scale, axis), b, behind, (kind, np.int8), **how)
                            options = onnxruntime.SessionOptions()
                            options.log_severity_level = 4
                            wanted, = onnxruntime.InferenceSession(file.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
                            if kind == np.int8 or not saturates():
                                self.assertLessEqual(np.abs(got.astype(int) - wanted.astype(int)).max(), 4) # some of these it leaves in floats
                            sums = self.summed(op, x.astype(int) - zeros[0], w.astype(int), b, **how).astype(np.float32)
                            by = x_scale * scale / fine
                            y = np.rint(sums * (by.reshape(-1, *[1] * (w.ndim - 2)) if op == "Conv" and by.ndim else by)) + zeros[1]
                            self.assertGreater(len(np.unique(y.clip(low, high - 1))), 2)
                            np.testing.assert_array_equal(got, y.clip(low, high - 1))
        x = self.whole(0, 256, (1, 6, 8, 8), np.uint8) # floats of such a scale would have no end
        for op, how, wanted in (("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}, x.reshape(1, 6, 4, 2, 4, 2).max((3, 5))), ("Flatten", {}, x.reshape(1, -1)),
                                ("Transpose", {"perm": [0, 3, 1, 2]}, x.transpose(0, 3, 1, 2))):
            with self.subTest(op=op):
                np.testing.assert_array_equal(self.pair(op, x, (1e38, 1e38, 9, 9), **how)[1], wanted)
        _, got = self.pair("MaxPool", x, (-1, -1, 9, 9), kernel_shape=[2, 2], strides=[2, 2]) # the largest number is the least of 8 bits
        np.testing.assert_array_equal(got, x.reshape(1, 6, 4, 2, 4, 2).min((3, 5)))
        for shape, size in ((2, 6, 9), [3]), ((1, 2, 5, 6, 7), [2, 3, 2]): # in one dimension and in three
            many = self.whole(0, 256, shape, np.uint8)
            wanted, = self.same("", "MaxPool", [many], kernel_shape=size)
            np.testing.assert_array_equal(self.pair("MaxPool", many, (0.5, 0.5, 9, 9), kernel_shape=size)[1], wanted)
        _, got = self.pair("Flatten", x, (0.5, 0.25, 9, 3)) # another scale: not the same numbers
        np.testing.assert_array_equal(got, np.clip((x.reshape(1, -1).astype(int) - 9) * 2 + 3, 0, 255))

    def test_vectors_of_8_bits(self):
        """A vector is a row or a column, also of a product between QDQ pairs."""
        for a, b in ((7,), (7, 4)), ((3, 7), (7,)), ((7,), (7,)), ((2, 3, 7), (7,)), ((7,), (2, 7, 4)):
            most = 64 if saturates() else 128
            x, w = self.whole(0, 256, a, np.uint8), self.whole(1 - most, most, b, np.int8)
            self.same("", "MatMulInteger", [x, w, np.uint8(7)], constant=(2,))
            self.same("", "QLinearMatMul", [x, np.float32(0.5), np.uint8(7), w, np.float32(0.25), np.int8(3), np.float32(64), np.uint8(90)], constant=(1, 2, 4, 5, 6, 7))
            wanted = np.rint((x.astype(int) - 7) @ w.astype(int) / 512).clip(-90, 165) + 90 # of which floats hold all
            np.testing.assert_array_equal(self.pair("MatMul", x, (0.5, 64, 7, 90), (w, 0.25, 0))[1], wanted)

    def test_sequences(self):
        """Lists of tensors inside a model: made, split, changed at places from either end, joined."""
        x, z = self.normal(5, 3), self.normal(2, 3)
        many = ("SequenceConstruct", ["x", "z", "x"], ["s"], {})
        two, end = np.array(1), np.array(-1)
        split = lambda **how: ("SplitToSequence", ["x", "n"] if "n" in how else ["x"], ["s"], {k: v for k, v in how.items() if k != "n"})
        join = lambda **how: ("ConcatFromSequence", ["s"], ["y"], how)
        for nodes, constants in (
                ([many, join(axis=0)], {}), ([many, ("SequenceErase", ["s", "p"], ["t"], {}), ("ConcatFromSequence", ["t"], ["y"], {"axis": -2})], {"p": two}),
                ([many, ("SequenceErase", ["s"], ["t"], {}), ("SequenceLength", ["t"], ["y"], {})], {}), ([many, ("SequenceAt", ["s", "p"], ["y"], {})], {"p": end}),
                ([many, ("SequenceInsert", ["s", "z", "p"], ["t"], {}), ("ConcatFromSequence", ["t"], ["y"], {"axis": 0})], {"p": end}),
                ([("SequenceEmpty", [], ["e"], {}), ("SequenceInsert", ["e", "x"], ["t"], {}), ("SequenceInsert", ["t", "z", "p"], ["s"], {}), join(axis=0)], {"p": np.array(0)}),
                ([split(), ("SequenceAt", ["s", "p"], ["y"], {})], {"p": two}), ([split(keepdims=0), join(axis=1, new_axis=1)], {}), ([split(axis=1, n=1), join(axis=1)], {"n": np.array(2)}),
                ([split(n=1), ("SequenceAt", ["s", "p"], ["y"], {})], {"n": np.array([1, 4]), "p": two}), ([split(n=1), ("SequenceLength", ["s"], ["y"], {})], {"n": np.array(2)})):
            file = self.sequence(nodes, {"x": x, "z": z}, constants)
            wanted = onnxruntime.InferenceSession(file.SerializeToString()).run(None, {"x": x, "z": z})
            for mode in "eager", "plan":
                got, = RUN.run(file.SerializeToString(), [x, z], how=mode)
                with self.subTest(nodes=[n[0] for n in nodes], constants=constants):
                    np.testing.assert_array_equal(got, wanted[0])
        for nodes, constants, word in (([many, ("SequenceAt", ["s", "p"], ["y"], {})], {"p": np.array(3)}, "3 places"), ([split(n=1), join(axis=0)], {"n": np.array([1, 3])}, "do not add up"),
                                       ([split(n=1), join(axis=0)], {"n": np.array(0)}, "1 and up"), ([("SequenceAt", ["x", "p"], ["y"], {})], {"p": two}, "sequence of tensors"),
                                       ([many, ("Relu", ["s"], ["y"], {})], {}, "Relu"), ([("SequenceEmpty", [], ["s"], {}), join(axis=0)], {}, "no tensors"),
                                       ([many, ("SequenceInsert", ["s", "x", "p"], ["t"], {}), ("SequenceLength", ["t"], ["y"], {})], {"p": np.array(9)}, "4 places")):
            with self.assertRaises(Refused) as caught:
                RUN.run(self.sequence(nodes, {"x": x, "z": z}, constants).SerializeToString(), [x, z])
            self.assertIn(word, str(caught.exception))

    def test_tfidf(self):
        """Pools of n-grams of one to three elements, with gaps, in every mode."""
        for _ in range(12):
            tokens = int(self.rng.integers(2, 6))
            lengths = int(self.rng.integers(1, 4))
            grams, counts, order = [], [], 0
            for n in range(1, lengths + 1):
                counts.append(len(grams))
                each = {tuple(int(v) for v in self.whole(0, tokens, n)) for _ in range(self.rng.integers(1, 6))}
                grams += [v for gram in sorted(each) for v in gram]
                order += len(each)
            least = int(self.rng.integers(1, lengths + 1))
            most = int(self.rng.integers(least, lengths + 1))
            how = {"mode": str(self.rng.choice(["TF", "IDF", "TFIDF"])), "min_gram_length": least, "max_gram_length": most,
                   "max_skip_count": int(self.rng.integers(0, 4)), "ngram_counts": counts, "ngram_indexes": self.rng.permutation(order).tolist(), "pool_int64s": grams}
            if self.rng.integers(2):
                how["weights"] = [float(v) for v in self.normal(order)]
            kind = np.int32 if self.rng.integers(2) else np.int64
            for shape in ((7,), (3, 9), (2, 2), (1, 40)):
                self.same("", "TfIdfVectorizer", [self.whole(0, tokens + 1, shape, kind)], **how)
        how = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_int64s": [5, 6, 7, 8]}
        x = [np.array([5, 7, 8])]
        for wrong, word in (({"mode": "IDT"}, "mode"), ({"ngram_counts": [0, 3]}, "n-grams of 2"), ({"ngram_counts": [3, 2]}, "ngram_counts"), ({"ngram_indexes": [0, 1]}, "ngram_indexes"),
                            ({"ngram_indexes": [0, -1, 2]}, "from 0 on"), ({"ngram_indexes": [0, 2**40, 2]}, "from 0 on"), ({"weights": [1.0], "mode": "IDF"}, "weights"),
                            ({"max_gram_length": 99}, "max_gram_length"), ({"max_skip_count": 2**40}, "max_skip_count"), ({"min_gram_length": 3}, "min_gram_length")):
            self.refused(word, "", "TfIdfVectorizer", x, **{**how, **wrong})

    def test_trees_regress(self):
        for modes, whole, rows in (["BRANCH_LEQ"], False, 1), (["BRANCH_LEQ"], False, 70), (MODES, True, 40), (["BRANCH_EQ"], True, 9):
            for targets, each in (1, 1), (3, 2), (3, 3):
                nodes, leaves = forest(self.rng, 11, 5, 7, modes, whole)
                for how in "SUM", "AVERAGE":
                    self.same(ML, "TreeEnsembleRegressor", [self.rows_with_nan(rows, 7, whole)], n_targets=targets, aggregate_function=how,
                              base_values=[0.5] * targets, **nodes, **weights(self.rng, "target", leaves, targets, each))

    def test_trees_classify(self):
        for classes, each, positive in (3, 3, True), (4, 1, False), (2, 0, True), (2, 0, False):
            for transform in "NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO":
                if not each and "SOFTMAX" in transform: # of one score it is nothing
                    continue
                nodes, leaves = forest(self.rng, 9, 4, 5, ["BRANCH_LEQ"])
                self.same(ML, "TreeEnsembleClassifier", [self.rows_with_nan(20, 5)], outputs=2, classlabels_int64s=[7, 3, 9, 1][:classes],
                          post_transform=transform, **nodes, **weights(self.rng, "class", leaves, classes, each, positive))

    def test_trees_with_shared_nodes(self):
        """A node may be the child of several, as LightGBM's sets of categories become: as good as a copy for each. (ONNX Runtime takes
        only some of them, and reads chains of equality as sets.)"""
        for leaves in 2, 3, 5:
            inner = 6
            rows = [(int(self.rng.integers(3)), float(self.rng.integers(-2, 3)), str(self.rng.choice(MODES)), int(self.rng.integers(n + 1, inner + leaves)), n + 1,
                     int(self.rng.integers(2))) for n in range(inner)] + [(0, 0.0, "LEAF", 0, 0, 0)] * leaves
            reached = {0} | {child for row in rows[:inner] for child in row[3:5]}
            rows, value = [row if n in reached else None for n, row in enumerate(rows)], self.normal(inner + leaves)
            copied, waiting, of = [None], [(0, 0)], {}
            while waiting:
                at, n = waiting.pop()
                row, of[at] = rows[n], n
                copied[at] = row if row[2] == "LEAF" else (*row[:3], len(copied), len(copied) + 1, row[5])
                if row[2] != "LEAF":
                    waiting += [(len(copied), row[3]), (len(copied) + 1, row[4])]
                    copied += [None, None]
            found, x = [], self.rows_with_nan(70, 3, True)
            for table, source in (rows, range(len(rows))), (copied, of):
                kept = [n for n, row in enumerate(table) if row]
                names = ["featureids", "values", "modes", "truenodeids", "falsenodeids", "missing_value_tracks_true"]
                nodes = {"nodes_" + k: [table[n][i] for n in kept] for i, k in enumerate(names)} | {"nodes_treeids": [0] * len(kept), "nodes_nodeids": kept}
                ends = [n for n in kept if table[n][2] == "LEAF"]
                file, _ = model(ML, "TreeEnsembleRegressor", [x], n_targets=1, **nodes, target_treeids=[0] * len(ends), target_nodeids=ends, target_ids=[0] * len(ends),
                                target_weights=[float(value[source[n]]) for n in ends])
                found += RUN.run(file.SerializeToString(), [x])
            np.testing.assert_array_equal(*found)

    def test_trees_indexed(self):
        """The fifth set: two trees, one of which has but a leaf behind its root."""
        tensor = lambda name, kind, v: helper.make_tensor(name, kind, [len(v)], v)
        tables = {"nodes_splits": tensor("s", TensorProto.FLOAT, [0.5, -1, 0.0]), "nodes_featureids": [1, 0, 2],
                  "nodes_modes": tensor("m", TensorProto.UINT8, [0, 3, 1]), "nodes_truenodeids": [1, 0, 3], "nodes_falsenodeids": [2, 1, 3],
                  "nodes_trueleafs": [0, 1, 1], "nodes_falseleafs": [1, 1, 1], "tree_roots": [0, 2],
                  "leaf_targetids": [0, 1, 1, 0], "leaf_weights": tensor("w", TensorProto.FLOAT, [1, 2, 3, 4])}
        self.same(ML, "TreeEnsemble", [self.normal(20, 3)], ml=5, n_targets=2, aggregate_function=1, post_transform=0, **tables)
        self.refused("has a child", ML, "TreeEnsemble", [self.normal(2, 3)], ml=5, n_targets=2, **{**tables, "nodes_truenodeids": [9, 0, 3]})
        self.refused("tree_roots", ML, "TreeEnsemble", [self.normal(2, 3)], ml=5, n_targets=2, **{**tables, "tree_roots": [0, 3]})
        self.refused("BRANCH_MEMBER", ML, "TreeEnsemble", [self.normal(2, 3)], ml=5, n_targets=2,
                     **{**tables, "nodes_modes": tensor("m", TensorProto.UINT8, [0, 6, 1])})

    def test_wrong_trees(self):
        nodes, leaves = forest(self.rng, 3, 3, 4, ["BRANCH_LEQ"])
        more = {"n_targets": 1, **weights(self.rng, "target", leaves, 1, 1)}
        x = [self.normal(2, 4)]
        for word, wrong in {"has no node": {"nodes_truenodeids": [99] * len(nodes["nodes_nodeids"])}, "of two trees": {"nodes_falsenodeids": [1] * len(nodes["nodes_nodeids"])},
                            "is no feature": {"nodes_featureids": [-1] * len(nodes["nodes_nodeids"])}, "nodes_modes": {"nodes_modes": ["LEFT"] * len(nodes["nodes_nodeids"])},
                            "nodes_values": {"nodes_values": [1.0]}, "is none of 1": {"target_ids": [1] * len(leaves)}}.items():
            with self.subTest(word):
                self.refused(word, ML, "TreeEnsembleRegressor", x, **{**nodes, **more, **wrong})
        round_ = {"treeids": [0] * 3, "nodeids": [0, 1, 2], "featureids": [0] * 3, "values": [0.0] * 3, "modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
                  "truenodeids": [1, 2, 0], "falsenodeids": [2, 1, 0]}
        self.refused("goes round", ML, "TreeEnsembleRegressor", x, **{"nodes_" + k: v for k, v in round_.items()}, n_targets=1, **weights(self.rng, "target", [(0, 2)], 1, 1))
        self.refused("feature", ML, "TreeEnsembleRegressor", [self.normal(2, 1)], **{**nodes, **more, "nodes_featureids": [3] * len(nodes["nodes_nodeids"])})
        self.refused("so few of", ML, "TreeEnsembleRegressor", x, **nodes, **{**more, "n_targets": 1 << 30, "target_ids": list(range(len(leaves)))})
        self.refused("no classes", ML, "TreeEnsembleClassifier", x, outputs=2, **nodes, **weights(self.rng, "class", leaves, 2, 1))

    def test_linear(self):
        x, table = self.normal(9, 6), self.normal(18).tolist()
        for transform in "NONE", "SOFTMAX", "LOGISTIC":
            self.same(ML, "LinearRegressor", [x], coefficients=table, intercepts=[1.0, 2.0, 3.0], targets=3, post_transform=transform)
            self.same(ML, "LinearClassifier", [x], outputs=2, coefficients=table, intercepts=[1.0, 2.0, 3.0], classlabels_ints=[5, 2, 8], post_transform=transform)
        for transform in "NONE", "LOGISTIC":
            self.same(ML, "LinearClassifier", [x], outputs=2, coefficients=table[:6], intercepts=[0.1], classlabels_ints=[5, 2], post_transform=transform)
        self.refused("PROBIT", ML, "LinearClassifier", [x], outputs=2, coefficients=table, intercepts=[1.0] * 3, classlabels_ints=[1, 2, 3], post_transform="PROBIT")

    def test_before_a_model(self):
        x = self.normal(9, 4)
        x[0] = 0
        hole = x.copy()
        hole[self.rng.random(x.shape) < 0.3] = np.nan
        self.same(ML, "Scaler", [x], offset=[1.0, 2.0, 3.0, 4.0], scale=[0.5, 2.0, 1.0, 3.0])
        self.same(ML, "Scaler", [self.whole(-9, 9, (3, 4))], offset=[1.0], scale=[0.5])
        self.same(ML, "Imputer", [hole], imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
        self.same(ML, "Imputer", [x], imputed_value_floats=[7.0], replaced_value_float=0.0)
        self.same(ML, "Imputer", [self.whole(0, 3, (5, 2))], imputed_value_int64s=[7, 8], replaced_value_int64=1)
        self.same(ML, "Binarizer", [x], threshold=0.25)
        for norm in "L1", "L2", "MAX":
            self.same(ML, "Normalizer", [abs(x)], norm=norm)
        self.same(ML, "ArrayFeatureExtractor", [x, np.int64([[3, 0]])])
        self.same(ML, "ArrayFeatureExtractor", [self.normal(5), np.int64([3, 0])])
        self.same(ML, "FeatureVectorizer", [x, self.normal(9, 2)], inputdimensions=[4, 2])
        self.same(ML, "OneHotEncoder", [self.whole(0, 5, (4, 3))], cats_int64s=[3, 1, 2])
        self.refused("is given numbers", ML, "OneHotEncoder", [self.whole(0, 5, (4, 3))], cats_strings=["a"])
        _, table = RUN.run(model(ML, "LinearClassifier", [x], outputs=2, coefficients=[1.0] * 8, intercepts=[0.0] * 2, classlabels_ints=[0, 1])[0].SerializeToString(), [x])
        self.assertEqual(table.shape, (9, 2))

    def test_labels(self):
        for x, keys, values in ((self.whole(0, 9, (4, 3)), {"keys_int64s": [5, 2, 7, 0]}, {"values_int64s": [50, 20, 70, 0], "default_int64": -3}),
                                (self.whole(0, 9, (6,)), {"keys_int64s": list(range(40, 0, -1))}, {"values_floats": self.normal(40).tolist(), "default_float": 0.5}),
                                (self.whole(0, 4, (5,)).astype(np.float32), {"keys_floats": [3.0, 1.0]}, {"values_int64s": [1, 2]})):
            self.same(ML, "LabelEncoder", [x], **keys, **values)
        self.refused("is given numbers", ML, "LabelEncoder", [self.whole(0, 4, (5,))], keys_strings=["a"], values_int64s=[1])

    def test_maps(self):
        """ZipMap's scores come as the table that they are."""
        graph = helper.make_graph([helper.make_node("ZipMap", ["x"], ["y"], domain=ML, classlabels_int64s=[4, 2])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
                                  [helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(
                                      TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))))])
        x = self.normal(3, 2)
        y, = RUN.run(helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 3)]).SerializeToString(), [x])
        np.testing.assert_array_equal(y, x)

    def test_machines(self):
        x, vectors = self.normal(9, 4), self.normal(7, 4)
        for kernel in "RBF", "LINEAR", "SIGMOID", "POLY":
            self.same(ML, "SVMRegressor", [x], within=2e-5, kernel_type=kernel, kernel_params=[0.3, 0.5, 3.0], n_supports=7,
                      support_vectors=vectors.ravel().tolist(), coefficients=self.normal(7).tolist(), rho=[0.25])
        self.same(ML, "SVMRegressor", [x], coefficients=self.normal(4).tolist(), rho=[0.25], kernel_type="LINEAR", n_supports=0, kernel_params=[0.0, 0.0, 0.0])

    def test_machines_of_classes(self):
        """Labels by votes; probabilities by Platt's curves and what couples them: they may disagree."""
        for counts in (3, 4), (2, 5, 3), (2, 1, 3, 2):
            k, n = len(counts), sum(counts)
            how = {"classlabels_ints": [7, 3, 5, 4][:k], "vectors_per_class": list(counts), "support_vectors": self.normal(n * 4).tolist(),
                   "coefficients": self.normal((k - 1) * n).tolist(), "rho": self.normal(k * (k - 1) // 2).tolist(), "kernel_params": [0.3, 0.5, 3.0]}
            share = {"prob_a": (-abs(self.normal(k * (k - 1) // 2)) - 1).tolist(), "prob_b": self.normal(k * (k - 1) // 2).tolist()}
            for kernel in "RBF", "LINEAR", "SIGMOID", "POLY":
                x = self.normal(9, 4)
                self.same(ML, "SVMClassifier", [x], outputs=[0, 1], within=2e-5, kernel_type=kernel, **how)
                self.same(ML, "SVMClassifier", [x], outputs=[0, 1], within=2e-5, kernel_type=kernel, **how, **share)
        self.same(ML, "SVMClassifier", [self.normal(9, 4)], outputs=[0, 1], classlabels_ints=[0, 1, 2], coefficients=self.normal(12).tolist(), rho=[0.25],
                  kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])

    # ---- com.microsoft ----

    def test_fused(self):
        a, b, bias = self.normal(2, 3, 8), self.normal(2, 8, 5), self.normal(8)
        for op in "Gelu", "QuickGelu", "FastGelu":
            self.same(MS, op, [a])
        self.same(MS, "FastGelu", [a, bias])
        self.same(MS, "BiasGelu", [a, bias])
        self.same(MS, "FusedMatMul", [a, b], alpha=0.25)
        self.same(MS, "FusedMatMul", [a, b.swapaxes(1, 2).copy()], alpha=2.0, transB=1)
        self.same(MS, "FusedMatMul", [a.swapaxes(0, 1).copy(), b], transBatchA=1)
        for activation, more in ("Tanh", {}), ("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Sigmoid", {}):
            self.same(MS, "FusedGemm", [a[0], b[0], self.normal(5)], activation=activation, alpha=0.5, **more)
        x, w = self.normal(1, 2, 7, 7), self.normal(3, 2, 3, 3)
        self.same(MS, "FusedConv", [x, w, None, self.normal(1, 3, 7, 7)], within=1e-5, activation="Relu", kernel_shape=[3, 3], pads=[1] * 4)
        self.same(MS, "FusedConv", [x, w, self.normal(3)], within=1e-5, activation="Clip", activation_params=[-0.5, 0.5], kernel_shape=[3, 3])
        self.refused("activation", MS, "FusedGemm", [a[0], b[0]], activation="Round")

    def test_resize_of_whole_numbers(self):
        """Between pixels toward zero, and with antialias to the nearest along rows and then along columns. ONNX Runtime's shares are
        FP32: a sum that lies just between two numbers may go the other way, of sixths (1.5) in either of the two steps."""
        for kind, least in (np.uint8, 0), (np.int8, -128), (np.int32, -(1 << 20)):
            x = self.whole(least, least + 250 if kind != np.int32 else 1 << 20, (1, 2, 7, 9), kind)
            for scale in 2.0, 0.5, 1.5:
                for how in {"mode": "linear"}, {"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1}:
                    if "antialias" in how and kind != np.uint8:
                        continue # ONNX Runtime clips INT8 as if it were UINT8
                    file, given = model("", "Resize", [x, None, np.float32([1, 1, scale, scale])], constant=(2,), **how)
                    got, want = *RUN.run(file.SerializeToString(), [x]), *judge(file, given)
                    apart = np.abs(got.astype(int) - want)
                    self.assertLessEqual(apart.max(), ("antialias" in how) + (scale == 1.5), (kind, scale, how))
                    self.assertLess((apart > 0).mean(), 0.3, (kind, scale, how))

    def test_norms(self):
        a, skip, gamma, beta = self.normal(2, 3, 8), self.normal(2, 3, 8), self.normal(8), self.normal(8)
        self.same(MS, "SkipLayerNormalization", [a, skip, gamma, beta, self.normal(8)], outputs=[0, 3], epsilon=1e-5)
        self.same(MS, "SkipSimplifiedLayerNormalization", [a, skip, gamma], outputs=[0, 3], epsilon=1e-6)
        self.same("", "SimplifiedLayerNormalization", [a, gamma], axis=-1, epsilon=1e-6, stash_type=1)
        x = self.normal(3, 5, 7)
        for shape in (7,), (5, 1), (1, 7), (1, 1), (), (5, 7): # what is broadcast to the sizes that are normalized
            self.same("", "LayerNormalization", [x, self.normal(*shape), self.normal(5, 7)], axis=1, within=2e-5)
            self.same("", "LayerNormalization", [x, self.normal(5, 7), self.normal(*shape)], axis=1, within=2e-5)
        words, mask = self.whole(0, 9, (2, 4), np.int32), np.int32([[1, 1, 1, 0], [1, 1, 0, 0]])
        self.same(MS, "EmbedLayerNormalization", [words, self.whole(0, 2, (2, 4), np.int32), self.normal(9, 8), self.normal(6, 8), self.normal(2, 8), gamma,
                                                  beta, mask], outputs=2, epsilon=1e-12)

    def test_attention(self):
        x, w, bias = self.normal(2, 5, 8), self.normal(8, 24), self.normal(24)
        for mask in (None, np.int32([5, 3]), np.int32([5, 4, 0, 1]), np.int32([[1] * 5, [1, 1, 1, 0, 0]]), self.whole(0, 2, (2, 5, 5), np.int32)):
            self.same(MS, "Attention", [x, w, bias, mask], within=1e-5, num_heads=2)
        self.same(MS, "Attention", [x, w, bias], within=1e-5, num_heads=2, unidirectional=1)
        self.same(MS, "Attention", [x, w, bias, None, self.normal(2, 2, 2, 3, 4)], within=1e-5, outputs=2, num_heads=2)
        q, k, v = self.normal(2, 3, 8), self.normal(2, 4, 8), self.normal(2, 4, 8)
        self.same(MS, "MultiHeadAttention", [q, k, v, bias, np.int32([[1] * 4, [1, 1, 1, 0]]), self.normal(2, 1, 3, 4)], within=1e-5, num_heads=2)
        self.same(MS, "MultiHeadAttention", [q, k, v, None, None, None, self.normal(2, 2, 5, 4), self.normal(2, 2, 5, 4)], within=1e-5, outputs=3, num_heads=2)

    def test_groups(self):
        """As a model's builder writes it: a prompt, and then steps with what came before."""
        angle = np.outer(np.arange(32), 1e4 ** (-np.arange(0, 16, 2) / 16))
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        how = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
        for past, steps, more in (0, 3, {"scale": 0.25}), (5, 1, {}), (5, 1, {"local_window_size": 3, "softcap": 2.0}), (0, 6, {"local_window_size": 2}):
            before = [self.normal(1, 2, past, 16), self.normal(1, 2, past, 16)]
            lengths = [np.int32([past + steps - 1]), np.int32(past + steps), cos, sin]
            q, k, v = self.normal(1, steps, 64), self.normal(1, steps, 32), self.normal(1, steps, 32)
            self.same(MS, "GroupQueryAttention", [q, k, v, *before, *lengths], within=1e-5, outputs=3, **how, **more)
            self.same(MS, "GroupQueryAttention", [np.concatenate([q, k, v], 2), None, None, *before, *lengths], within=1e-5, outputs=3, **how, **more)
        self.refused("total_sequence_length", MS, "GroupQueryAttention", [q, k, v, *before, np.int32([9]), np.int32(10), cos, sin], outputs=3, **how)
        at = np.int64([[2, 3, 4]])
        self.same(MS, "RotaryEmbedding", [self.normal(1, 2, 3, 16), at, cos, sin])
        self.same(MS, "RotaryEmbedding", [self.normal(1, 3, 32), np.int64([2]), cos, sin])

    def test_few_bits(self):
        for bits in 2, 4, 8:
            for zeros in False, True:
                k, n, block = 40, 6, 16
                blocks, each = 3, 8 // bits
                b = self.whole(0, 256, (n, blocks, block // each), np.uint8)
                zero = self.whole(0, 256, (n, -(-blocks // each)), np.uint8) if zeros else None
                for rows in 3, 9:
                    self.same(MS, "MatMulNBits", [self.normal(rows, k), b, abs(self.normal(n, blocks)), zero], constant=(1, 2, 3), within=1e-5,
                              K=k, N=n, bits=bits, block_size=block)
                half = [np.float16(x) for x in (self.normal(9, k), abs(self.normal(n, blocks)))]
                self.same(MS, "MatMulNBits", [half[0], b, half[1], zero, None, np.float16(self.normal(n))], constant=(1, 2, 3, 5), within=1e-2, K=k, N=n, bits=bits, block_size=block)
        for bits, block in (4, 16), (4, 32), (8, 16):
            width, rows = 40 if bits == 8 or block == 16 else 64, 7
            blocks = -(-width // block)
            data = self.whole(0, 256, (rows, width * bits // 8), np.uint8)
            for zero in None, self.whole(0, 256, (rows, -(-blocks * bits // 8)), np.uint8):
                self.same(MS, "GatherBlockQuantized", [data, self.whole(-rows, rows, (2, 3)), abs(self.normal(rows, blocks)), zero], constant=(0, 2, 3), within=1e-6,
                          bits=bits, block_size=block, gather_axis=0, quantize_axis=1)
        self.refused("one for each block", MS, "GatherBlockQuantized", [data, self.whole(0, 2, (2,)), self.normal(rows, 9)], constant=(0, 2), bits=8, block_size=16)
        self.refused("g_idx", MS, "MatMulNBits", [self.normal(3, k), b, self.normal(n, blocks), None, np.zeros(k, np.int32)], constant=(1, 2, 4), K=k, N=n, bits=8,
                     block_size=block)

    def test_eight_bits(self):
        scales, zeros = [np.float32(s) for s in (0.03, 0.02, 0.05)], [np.uint8(z) for z in (120, 130, 100)]
        a, b = (self.whole(0, 256, (2, 3, 4, 4), np.uint8) for _ in range(2))
        last = [scales[2], zeros[2]]
        one, two = [a, scales[0], zeros[0]], [b, scales[1], zeros[1]]
        self.same(MS, "QLinearAdd", [*one, *two, *last])
        self.same(MS, "QLinearMul", [*one, *two, *last])
        self.same(MS, "QLinearConcat", [*last, *one, *two], constant=(0, 1, 3, 4, 6, 7), axis=1)
        for op, more in (("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
                         ("QLinearGlobalAveragePool", {})):
            self.same(MS, op, [*one, *last], constant=(1, 2, 3, 4), **more)
        for op, more in ("QLinearSigmoid", {}), ("QLinearSoftmax", {"axis": -1, "opset": 13}):
            self.same(MS, op, [*one, np.float32(1 / 256), np.uint8(0)], constant=(1, 2, 3, 4), **more)
        most = 64 if saturates() else 128
        x, w, each = self.normal(3, 8), self.whole(-most, most, (8, 5), np.int8), abs(self.normal(5)) / 100
        none, bias = np.zeros(5, np.int8), self.normal(5)
        self.same(MS, "DynamicQuantizeMatMul", [x, w, each, none, bias], constant=(1, 2, 3, 4))
        self.same(MS, "MatMulIntegerToFloat", [self.whole(0, 256, (3, 8), np.uint8), w, scales[0], each, zeros[0], none, bias], constant=(1, 3, 5, 6))
        gemm = [self.whole(0, 256, (3, 8), np.uint8), scales[0], zeros[0], w.T.copy(), each, none, self.whole(-99, 99, 5, np.int32)]
        self.same(MS, "QGemm", [*gemm, *last], constant=range(1, 9), transB=1)
        self.same(MS, "QGemm", gemm, constant=range(1, 7), transB=1)

    def test_dynamic_8_bits(self):
        """Products as a dynamic quantizer writes them, in either order, and where a part of it has another reader or is no constant."""
        for turn, (swap, kind, extra, bias) in enumerate((s, k, e, b) for s in (0, 1) for k in (np.int8, np.uint8) for e in (None, "i", "c", "m", "f") for b in (True, False)):
            n = 7 + turn % 3
            x, w = self.normal(*((4, 12) if extra else (12,))), self.whole(*((-128, 128) if kind == np.int8 else (0, 256)), (12, n), kind)
            scale = abs(self.normal(n)) / 100 if turn % 2 else np.float32(0.01)
            zero = np.full(scale.shape, self.whole(-3, 4, ()) if kind == np.int8 else 130, kind)
            pair = lambda a, b: [b, a] if swap else [a, b]
            nodes = [("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], {}), ("Mul", pair("s", "ws"), ["m"], {}), ("MatMulInteger", ["q", "w", "z", "wz"], ["i"], {}),
                     ("Cast", ["i"], ["c"], {"to": 1}), ("Mul", pair("c", "m"), ["f"], {})] + [("Add", pair("f", "b"), ["o"], {})] * bias
            last = "o" if bias else "f"
            nodes += [("Cast", [extra], ["e"], {"to": 1}), ("Cast", [last], ["l"], {"to": 1}), ("Add", ["l", "e"], ["y"], {})] if extra else [("Identity", [last], ["y"], {})]
            b = self.normal(n)
            file = self.sequence(nodes, {"x": x}, {"w": w, "ws": scale, "wz": zero, "b": b})
            want, = onnx.reference.ReferenceEvaluator(file).run(None, {"x": x})
            for mode in "eager", "plan":
                got, = RUN.run(file.SerializeToString(), [x], how=mode)
                np.testing.assert_allclose(got, want, 1e-5, 1e-5, f"{swap} {kind} {extra} {bias}")

    def test_dynamic_8_bits_of_images(self):
        """Convolutions as a dynamic quantizer writes them, of images and of rows, and of groups of channels."""
        for shape, sizes, group in ((2, 3, 7, 6), (5, 3, 3, 2), 1), ((1, 6, 5, 5), (6, 1, 3, 3), 6), ((1, 6, 5, 5), (4, 3, 1, 1), 2), ((2, 4, 9), (5, 4, 3), 1):
            for kind, bias, scales in (np.int8, True, ()), (np.uint8, True, (1,)), (np.int8, False, ()):
                x, w, b = self.normal(*shape), self.whole(*((-128, 128) if kind == np.int8 else (0, 256)), sizes, kind), self.normal(sizes[0])
                nodes = [("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], {}), ("Mul", ["s", "ws"], ["m"], {}), ("Reshape", ["b", "to"], ["br"], {}),
                         ("ConvInteger", ["q", "w", "z", "wz"], ["i"], {"group": group, "pads": [1] * 2 * (len(shape) - 2)}), ("Cast", ["i"], ["c"], {"to": 1}),
                         ("Mul", ["c", "m"], ["f"], {}), ("Add", ["f", "br"], ["y"], {}) if bias else ("Identity", ["f"], ["y"], {})]
                zero, scale = kind(3 if kind == np.int8 else 130), np.full(scales, 0.01, np.float32)
                file = self.sequence(nodes, {"x": x}, {"w": w, "ws": scale, "wz": zero, "b": b, "to": np.int64([1, -1] + [1] * (len(shape) - 2))})
                low, high = min(x.min(), 0), max(x.max(), 0)
                s = (high - low) / np.float32(255)
                z = np.rint(-low / s)
                q = np.clip(np.rint(x / s) + z, 0, 255) - z
                want = self.summed("Conv", q, w.astype(np.float64) - zero, np.zeros(sizes[0]), pads=[1] * 2 * (len(shape) - 2), group=group) * (s * np.float32(0.01))
                want = want + b.reshape(1, -1, *[1] * (len(shape) - 2)) if bias else want
                for mode in "eager", "plan":
                    got, = RUN.run(file.SerializeToString(), [x], how=mode)
                    np.testing.assert_allclose(got, want, 1e-5, 1e-5, f"{shape} {kind} {bias}")

    def test_unknown(self):
        graph = helper.make_graph([helper.make_node("LabelEncoder", ["x"], ["a"], domain=ML, classes_strings=["a"])],
                                  "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "m"])], [helper.make_empty_tensor_value_info("a")])
        with self.assertRaisesRegex(Refused, "^load: .*classes_strings"):
            RUN.run(helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 3)]).SerializeToString(), [self.normal(2, 1)])
        self.refused("no such operator of domain", MS, "NoSuchThing", [self.normal(2)])


RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    RUN.main()
