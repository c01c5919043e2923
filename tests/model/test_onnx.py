#!/usr/bin/env python3
"""ONNX files: small ones made by hand, against NumPy; wrong ones, against their sentence; and hostile ones,
which must be refused, or run, and end nothing.

    test_onnx.py RUN_MODEL [SECONDS]    mutates files for so long (5); one that ends the program is hostile.onnx then
"""
import random
import sys
import tempfile
import time
import unittest
import warnings

import numpy as np

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    print("skipped: no onnx: run deploy/setup.sh check")
    sys.exit(77)

from runner import Refused, Runner
import service # which runner finds

SECONDS = 5
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def port(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=None, version=17, **attributes):
    graph = helper.make_graph(nodes, "g", inputs, outputs,
                              [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], **attributes)


def network():
    """Convolution, norm, pool, a product: what weights there are in most files."""
    draw = np.random.default_rng(0)
    w = {"w": draw.standard_normal((4, 3, 3, 3), np.float32), "v": draw.standard_normal((4, 5), np.float32),
         "s": np.ones(4, np.float32), "z": np.zeros(4, np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], name="conv"),
             helper.make_node("BatchNormalization", ["a", "s", "z", "z", "s"], ["b"]),
             helper.make_node("Relu", ["b"], ["c"]), helper.make_node("GlobalAveragePool", ["c"], ["d"]),
             helper.make_node("Flatten", ["d"], ["e"]), helper.make_node("MatMul", ["e", "v"], ["f"]),
             helper.make_node("Softmax", ["f"], ["y"])]
    return model(nodes, [port("x", F, ["n", 3, 8, 8])], [port("y")], w)


def control():
    """A loop of an If, whose results are stacked: inner graphs see what is around them."""
    then = helper.make_graph([helper.make_node("Add", ["state", "step"], ["up"])], "then", [], [port("up")])
    other = helper.make_graph([helper.make_node("Sub", ["state", "step"], ["down"])], "other", [], [port("down")])
    body = helper.make_graph([
        helper.make_node("Mod", ["i", "two"], ["odd"]), helper.make_node("Cast", ["odd"], ["is_odd"], to=B),
        helper.make_node("If", ["is_odd"], ["new"], then_branch=then, else_branch=other),
        helper.make_node("Identity", ["new"], ["row"]), helper.make_node("Identity", ["on"], ["going"])], "body",
        [port("i", I, []), port("on", B, []), port("state", F, [2])], [port("going", B, []), port("new"), port("row")])
    nodes = [helper.make_node("Constant", [], ["two"], value_int=2),
             helper.make_node("Loop", ["times", "", "x"], ["last", "rows"], body=body, name="loop")]
    return model(nodes, [port("times", I, []), port("x", F, [2]), port("step", F, [2])],
                 [port("last"), port("rows")])


def scan(**attributes):
    """Sums up to each part of x, times the part of z that goes with it."""
    body = helper.make_graph([helper.make_node("Mul", ["a", "b"], ["c"]), helper.make_node("Add", ["s", "c"], ["t"]),
                              helper.make_node("Identity", ["t"], ["row"])], "body",
                             [port("s"), port("a"), port("b")], [port("t"), port("row")])
    node = helper.make_node("Scan", ["first", "x", "z"], ["last", "rows"], body=body, name="scan",
                            **{"num_scan_inputs": 2, **attributes})
    return model([node], [port("first"), port("x"), port("z")], [port("last"), port("rows")])


class Right(unittest.TestCase):
    def test_network(self):
        for n in 1, 2:
            y, = RUN.run(network().SerializeToString(), [np.ones((n, 3, 8, 8), np.float32)])
            self.assertEqual(y.shape, (n, 5))
            np.testing.assert_allclose(y.sum(1), 1, 1e-5)

    def test_control(self):
        for times in 1, 5:
            last, rows = RUN.run(control().SerializeToString(), [np.array(times), np.float32([1, 2]), np.float32([10, 1])])
            state, wanted = np.float32([1, 2]), []
            for i in range(times):
                state = state + (1 if i % 2 else -1) * np.float32([10, 1])
                wanted.append(state)
            np.testing.assert_array_equal(last, state)
            np.testing.assert_array_equal(rows, wanted)

    def test_uneven_pads(self):
        """Of a max pool: what windows find beyond an edge changes nothing, so that most go without a padded copy, which
        would have no places to tell."""
        draw = np.random.default_rng(service.seed())
        x = draw.standard_normal((2, 3, 8, 13), np.float32)
        x[0, 0, 7, 12] = np.nan
        for turn in range(40):
            kernel, stride = (int(n) for n in draw.integers(1, 4, 2))
            begin, end = int(draw.integers(0, kernel // 2 + 1)), int(draw.integers(0, kernel))
            padded = np.pad(x, ((0, 0), (0, 0), (begin, end), (begin, end)), constant_values=-np.inf)
            windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
            node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2,
                                    pads=[begin, begin, end, end])
            y, = RUN.run(model([node], [port("x", F, [2, 3, 8, 13])], [port("y")]).SerializeToString(), [x])
            np.testing.assert_array_equal(y, windows.max((4, 5)), f"{kernel} {stride} {begin} {end}")
        image = draw.permutation(96).astype(np.float32).reshape(1, 1, 8, 12)
        node = helper.make_node("MaxPool", ["x"], ["y", "at"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
        y, at = RUN.run(model([node], [port("x", F, [1, 1, 8, 12])], [port("y"), port("at", I)]).SerializeToString(), [image])
        self.assertEqual(y.shape, (1, 1, 4, 6))
        np.testing.assert_array_equal(image.reshape(-1)[at], y)

    def test_bias_beyond_the_last_tap(self):
        """Of a transposed convolution: what no tap reaches is the bias, and what output_shape asks for beyond all comes last."""
        x, w = np.array([[[1, 10, 100]]], np.float32), np.array([[[1, 2, 3]]], np.float32)
        for taps, step, more, image in (
                (3, 2, {"output_padding": [1], "pads": [1, 0]}, [2, 13, 20, 130, 200, 300, 0]),
                (3, 2, {"output_padding": [1], "pads": [0, 1]}, [1, 2, 13, 20, 130, 200, 300]),
                (1, 3, {"output_padding": [2], "pads": [1, 0]}, [0, 0, 10, 0, 0, 100, 0, 0]),
                (1, 1, {"output_padding": [2]}, [1, 10, 100, 0, 0]),
                (2, 3, {"output_padding": [2], "pads": [1, 3]}, [2, 0, 10, 20, 0, 100]),
                (1, 3, {"output_shape": [9]}, [1, 0, 0, 10, 0, 0, 100, 0, 0]), (1, 3, {"output_shape": [6]}, [0, 0, 10, 0, 0, 100])):
            node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[step], **more)
            for bias in (0, 0.5):
                m = model([node], [port("x", F, [1, 1, 3])], [port("y")], {"w": w[..., :taps], "b": np.array([bias], np.float32)})
                np.testing.assert_array_equal(RUN.run(m.SerializeToString(), [x])[0], [[np.array(image) + bias]], f"{node}")

    def test_range(self):
        """Nothing where the step leads away from the limit, as where a file counts what may be too few."""
        for start, limit, delta in ((0, 5, 2), (5, 0, 1), (5, 0, -2), (0, 5, -1), (3, 3, 1), (0.5, -7, 1), (5.5, 1, -1.5)):
            kind = F if isinstance(start, float) else I
            values = [np.array(v, np.float32 if kind == F else np.int64) for v in (start, limit, delta)]
            m = model([helper.make_node("Range", ["s", "l", "d"], ["y"])], [port(c, kind, []) for c in "sld"], [port("y", kind)])
            y, = RUN.run(m.SerializeToString(), values)
            np.testing.assert_array_equal(y, np.arange(*values))

    def test_running_sum_of_nothing(self):
        m = model([helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=1)], [port("x", F, [0, 2])], [port("y")],
                  {"axis": np.array(0)})
        self.assertEqual(RUN.run(m.SerializeToString(), [np.ones((0, 2), np.float32)])[0].shape, (0, 2))

    def test_norms(self):
        """FP16 need not hold the squares of a norm; where no axes are told to be none, it is of each element."""
        x = np.array([[300, -400, 0], [0.5, -1.5, 2]], np.float16)
        for axes, noop, wanted in (([1], 0, [[500], [2.549]]), ([], 0, [[500]]), ([], 1, np.abs(x))):
            m = model([helper.make_node("ReduceL2", ["x", "axes"], ["y"], noop_with_empty_axes=noop)], [port("x", TensorProto.FLOAT16, [2, 3])],
                      [port("y", TensorProto.FLOAT16)], {"axes": np.array(axes, np.int64)}, 18)
            np.testing.assert_allclose(RUN.run(m.SerializeToString(), [x])[0], wanted, 1e-3)

    def test_scan(self):
        """Along any dimension, from either end."""
        draw = np.random.default_rng(5)
        first, x, z = (draw.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 3), (2, 3, 4), (4, 2, 3)))
        for back_x, back_z, back_rows in np.ndindex(2, 2, 2):
            m = scan(scan_input_axes=[2, -3], scan_input_directions=[back_x, back_z], scan_output_axes=[1],
                     scan_output_directions=[back_rows])
            last, rows = RUN.run(m.SerializeToString(), [first, x, z])
            parts = (x[:, :, ::-1] if back_x else x).transpose(2, 0, 1) * (z[::-1] if back_z else z)
            wanted = first + np.cumsum(parts, 0)
            np.testing.assert_array_equal(last, wanted[-1])
            np.testing.assert_array_equal(rows, (wanted[::-1] if back_rows else wanted).transpose(1, 0, 2))

    def test_sequences_of_different_lengths(self):
        """A batch of them, each up to its own end, is what each is alone, in either direction; nothing is behind an end.
        Lengths are an input or a constant; steps of the cell's own kernel, or one by one (P, linear_before_reset=0)."""
        draw = np.random.default_rng(3)
        r, run = lambda *shape: draw.standard_normal(shape, np.float32), lambda m, *a: RUN.run(m.SerializeToString(), a)
        lengths, x, h, c = np.array([6, 3, 1, 5], np.int32), r(6, 4, 3), r(2, 4, 5), r(2, 4, 5)
        for op, gates, states, named in (("LSTM", 4, "hc", {}), ("LSTM", 4, "hc", {"P": r(2, 15)}), ("GRU", 3, "h", {"linear_before_reset": 1}),
                                         ("GRU", 3, "h", {}), ("RNN", 1, "h", {})):
            peeps = {k: named.pop(k) for k in [*named] if k == "P"}
            w = {"w": r(2, gates * 5, 3), "r": r(2, gates * 5, 5), "b": r(2, 2 * gates * 5), **peeps}
            out = ["y", *(s + "_" for s in states)]
            node = helper.make_node(op, ["x", "w", "r", "b", "l", *states, *peeps], out, hidden_size=5, direction="bidirectional", **named)
            ports = [port("x"), *map(port, states)]
            whole = model([node], [ports[0], port("l", TensorProto.INT32), *ports[1:]], [*map(port, out)], w)
            got = run(whole, x, lengths, h, *([c] if "c" in states else []))
            kept = run(model([node], ports, [*map(port, out)], {**w, "l": lengths}), x, h, *([c] if "c" in states else []))
            for b, n in enumerate(lengths):
                one = slice(b, b + 1)
                alone = run(whole, x[:n, one], lengths[one], h[:, one], *([c[:, one]] if "c" in states else []))
                for y, last in ((got[0], got[1:]), (kept[0], kept[1:])):
                    np.testing.assert_allclose(y[:n, :, one], alone[0], 1e-4, 1e-5, f"{op} {named} {b}")
                    self.assertFalse(y[n:, :, b].any())
                    for a, want in zip(last, alone[1:]):
                        np.testing.assert_allclose(a[:, one], want, 1e-4, 1e-5, f"{op} {named} {b}")

    def test_unique(self):
        draw = np.random.default_rng(6)
        for shape, axis in (((200,), None), ((5, 8), None), ((60, 2), 0), ((2, 60), 1), ((3, 40, 2), -2), ((1,), None)):
            x = draw.integers(0, 4, shape)
            how = {} if axis is None else {"axis": axis}
            wanted, first, inverse, counts = np.unique(x, True, True, True, axis)
            for ordered in 1, 0:
                m = model([helper.make_node("Unique", ["x"], ["y", "i", "v", "n"], sorted=ordered, **how)],
                          [port("x", I, shape)], [port("y", I), port("i", I), port("v", I), port("n", I)])
                turn = np.arange(len(first)) if ordered else np.argsort(first)
                got = RUN.run(m.SerializeToString(), [x])
                right = np.take(wanted, turn, axis or 0), first[turn], np.argsort(turn)[np.ravel(inverse)], counts[turn]
                for g, r in zip(got, right):
                    np.testing.assert_array_equal(g, r)

    def test_unsigned(self):
        """Constants in each of the fields that may hold them."""
        for kind, dtype in ((TensorProto.UINT16, np.uint16), (TensorProto.UINT32, np.uint32), (TensorProto.UINT64, np.uint64)):
            most = int(np.iinfo(dtype).max)
            for raw in True, False:
                m = model([helper.make_node("Max", ["x", "w"], ["y"])], [port("x", kind, [3])], [port("y", kind)])
                values = np.array([most, 1, most // 2 + 1], dtype)
                m.graph.initializer.append(helper.make_tensor("w", kind, [3], values.tobytes() if raw else values.tolist(), raw))
                y, = RUN.run(m.SerializeToString(), [np.array([5, most - 1, 7], dtype)])
                self.assertEqual((y.dtype, y.tolist()), (dtype, [most, most - 1, most // 2 + 1]))

    def test_defaults_of_inputs(self):
        """An input with an initializer is none that a client gives."""
        m = model([helper.make_node("Add", ["x", "w"], ["y"])], [port("x", F, [2]), port("w", F, [2])], [port("y")],
                  {"w": np.float32([1, 2])})
        np.testing.assert_array_equal(RUN.run(m.SerializeToString(), [np.float32([1, 1])])[0], [2, 3])


class Wrong(unittest.TestCase):
    def refused(self, file, *words, inputs=(np.float32([1, 2]),)):
        with self.assertRaises(Refused) as caught:
            RUN.run(file if isinstance(file, bytes) else file.SerializeToString(), inputs)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def one(self, op, inputs=("x",), **attributes):
        return model([helper.make_node(op, inputs, ["y"], name="it", **attributes)], [port("x", F, [2])], [port("y")])

    def test_sentences(self):
        self.refused(b"", "no ONNX model")
        self.refused(b"hello, world", "ONNX")
        self.refused(self.one("Scan", num_scan_inputs=1), "'it' (Scan)", "body")
        self.refused(self.one("Scan", num_scan_inputs=2), "num_scan_inputs", "2 of 1 inputs")
        ones = [np.ones(shape, np.float32) for shape in ((3,), (4, 3), (5, 3))]
        self.refused(scan(), "4 and 5 parts", inputs=ones)
        self.refused(scan(scan_input_axes=[0, 2]), "2 is no dimension", inputs=ones)
        self.refused(scan(scan_input_axes=[-3, 0]), "-3 is no dimension", inputs=ones)
        self.refused(self.one("SequenceMap"), "'it' (SequenceMap)")
        self.refused(self.one("SequenceConstruct"), "output 'y' is no tensor")
        self.refused(self.one("Relu", strange=1), "'it' (Relu)", "'strange'")
        self.refused(self.one("Relu", ["x", "x"]), "has 2 inputs; at most 1")
        self.refused(self.one("Relu", ["nothing"]), "'nothing', which nothing makes")
        self.refused(self.one("Relu", ["y"]), "reads a value that nothing makes")
        self.refused(self.one("Cast", to=TensorProto.FLOAT8E4M3FN), "FLOAT8E4M3FN")
        self.refused(self.one("Softmax", axis=7), "dimension 7 is out of range")
        self.refused(self.one("Relu", domain="com.example"), "com.example")
        twice = model([helper.make_node("Relu", ["x"], ["y"])] * 2, [port("x", F, [2])], [port("y")])
        self.refused(twice, "'y' is made twice")
        self.refused(self.one("Conv", domain="com.microsoft.nchwc"), "ORT_ENABLE_EXTENDED")
        other = self.one("TreeEnsembleRegressor", domain="ai.onnx.ml") # as xgboost's are: of no set of ONNX's own
        other.opset_import[0].domain = "ai.onnx.ml"
        self.refused(other, "'it' (TreeEnsembleRegressor)", "nodes_treeids is missing")
        unsaid = self.one("Relu")
        unsaid.opset_import[0].domain = "ai.onnx.ml"
        self.refused(unsaid, "'it' (Relu)", "no operator set")
        del unsaid.opset_import[:]
        self.refused(unsaid, "no ONNX model")
        newer = self.one("Relu")
        newer.opset_import[0].version = 99
        self.refused(newer, "operator set 99")
        sequence = self.one("Relu")
        sequence.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(F, None)))
        self.refused(sequence, "'x' is a sequence")

    def test_tensors(self):
        def tensor(change):
            m = network()
            change(m.graph.initializer[0])
            return m

        def external(t):
            t.data_location = TensorProto.EXTERNAL
        self.refused(tensor(external), "'w'", "of no file")
        self.refused(tensor(lambda t: t.ClearField("raw_data")), "'w'", "not as many")
        self.refused(tensor(lambda t: t.dims.append(2)), "'w'", "not as many")
        self.refused(tensor(lambda t: t.dims.extend([1 << 40] * 2)), "'w'", "no tensor has such sizes")
        self.refused(tensor(lambda t: t.dims.append(-1)), "'w'", "no tensor has such sizes")
        self.refused(tensor(lambda t: t.dims.extend([1] * 9)), "'w'", "at most 8 dimensions")

    def test_depth(self):
        """Graphs in graphs, in bytes that no recursion has to read."""
        def field(number, data):
            size, length = len(data), b""
            while size > 127:
                length, size = length + bytes([size & 127 | 128]), size >> 7
            return bytes([number << 3 | 2]) + length + bytes([size]) + data
        for deep in 20, 3000:
            graph = b""
            for _ in range(deep):
                branch = field(1, b"then_branch") + field(6, graph) + bytes([0xa0, 1, 5])
                graph = field(1, field(1, b"c") + field(4, b"If") + field(5, branch))
            self.refused(field(7, graph + field(11, port("c", B, []).SerializeToString())) + field(8, b"\x10\x11"),
                         "deep", inputs=[np.array(True)])

    def test_many(self):
        """As many graphs as nodes: what is done once a graph must not look at all values."""
        empty = helper.make_graph([], "empty", [], [port("c", B, [])])
        nodes = [helper.make_node("If", ["c"], ["y%d" % i], then_branch=empty, else_branch=empty) for i in range(100000)]
        m = model(nodes, [port("c", B, [])], [port("y7", B, [])])
        before = time.monotonic()
        self.assertTrue(RUN.run(m.SerializeToString(), [np.array(True)], runs=1, seconds=100)[0])
        self.assertLess(time.monotonic() - before, 20)

    def test_endless(self):
        body = helper.make_graph([], "body", [port("i", I, []), port("on", B, [])], [port("on", B, [])])
        m = model([helper.make_node("Loop", ["", "on"], [], body=body)], [port("on", B, [])], [])
        with self.assertRaisesRegex(Refused, "stopped"):
            RUN.run(m.SerializeToString(), [np.array(True)], seconds=1)


def mutated(good, other, draw):
    bad = bytearray(good)
    how = draw.random()
    if how < 0.6:
        for _ in range(draw.choice([1, 1, 2, 8])):
            bad[draw.randrange(len(bad))] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
    elif how < 0.7:
        del bad[draw.randrange(len(bad)):]
    elif how < 0.85:
        a, n = draw.randrange(len(good)), draw.choice([1, 2, 8, 64])
        bad[a:a + n] = bytes(draw.randrange(256) for _ in range(draw.choice([0, n])))
    else:
        a, b, n = draw.randrange(len(good)), draw.randrange(len(other)), draw.randrange(200)
        bad[a:a] = other[b:b + n]
    return bytes(bad)


def other_attribute(good, draw):
    """A number of a node, or a size, in another's place."""
    m = onnx.load_from_string(good)
    extremes = [-1, 0, 1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 62, -(1 << 63)]
    numbers = [(a, "i") for n in m.graph.node for a in n.attribute if a.type == a.INT]
    lists = [a.ints for n in m.graph.node for a in n.attribute if a.ints] + [t.dims for t in m.graph.initializer if t.dims]
    texts = [a for n in m.graph.node for a in n.attribute if a.s]
    if lists and draw.random() < 0.6:
        numbers = draw.choice(lists)
        if draw.random() < 0.7:
            numbers[draw.randrange(len(numbers))] = draw.choice(extremes)
        else:
            numbers.append(draw.choice(extremes))
    elif numbers:
        setattr(*draw.choice(numbers), draw.choice(extremes))
    elif texts:
        draw.choice(texts).s = draw.choice([b"", b"cubic", b"reflect", b"bidirectional", b"SAME_LOWER", b"x" * 5000])
    node = draw.choice(m.graph.node)
    if draw.random() < 0.2 and node.input:
        node.input[draw.randrange(len(node.input))] = draw.choice(["", *node.input, *(i.name for i in m.graph.input)])
    return m.SerializeToString()


def other_inputs(inputs, draw):
    """Values that go where nobody expects them."""
    inputs = [v.copy() for v in inputs]
    for _ in range(draw.choice([1, 1, 3])):
        v = draw.choice(inputs) if inputs else np.zeros(0)
        if not v.size:
            continue
        place = tuple(draw.randrange(n) for n in v.shape)
        if v.dtype.kind == "f":
            v[place] = draw.choice([0, -1, np.inf, np.nan, 1e30, -1e30])
        elif v.dtype.kind == "i":
            info = np.iinfo(v.dtype)
            v[place] = draw.choice([-1, 0, 1, 7, 100, info.min, info.max, info.max // 2])
    return inputs


class Hostile(unittest.TestCase):
    def inputs(self, m):
        given = [i for i in m.graph.input if i.name not in {t.name for t in m.graph.initializer}]
        kinds = [helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in given]
        shapes = [[d.dim_value or 2 for d in i.type.tensor_type.shape.dim] for i in given]
        return [np.ones(s, k) for s, k in zip(shapes, kinds)]

    def test_mutations(self):
        from onnx.backend.test.case.node import collect_testcases
        seed = int(time.time()) if SECONDS > 60 else 1
        print("seed", seed)
        draw = random.Random(seed)
        cases = [(m.SerializeToString(), self.inputs(m)) for m in (network(), control())]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            every = collect_testcases(None) # operator
        for case in every:
            try:
                inputs = [np.asarray(v) for v in case.data_sets[0][0]]
            except ValueError: # lists
                continue
            if all(v.dtype.kind in "fib" and v.dtype.itemsize < 16 and v.size < 100000 for v in inputs):
                cases.append((case.model.SerializeToString(), inputs))
        done, end = {"ran": 0, "refused": 0}, time.monotonic() + SECONDS
        while time.monotonic() < end:
            (good, inputs), (other, _) = draw.choice(cases), draw.choice(cases)
            how = draw.random()
            bad = mutated(good, other, draw) if how < 0.4 else other_attribute(good, draw) if how < 0.75 else good
            with np.errstate(all="ignore"):
                inputs = other_inputs(inputs, draw) if how > 0.6 else inputs
            try:
                RUN.run(bad, inputs, seconds=2, runs=draw.choice([1, 3]))
                done["ran"] += 1
            except Refused:
                done["refused"] += 1
            except Exception:
                kept = tempfile.mkdtemp() # to try it again
                with open(kept + "/hostile.onnx", "wb") as file:
                    file.write(bad)
                np.savez(kept + "/hostile.npz", *inputs)
                print("what did it is in", kept)
                raise
        print(done)
        self.assertGreater(min(done.values()), 0)


if __name__ == "__main__":
    RUN = Runner(sys.argv.pop(1))
    if sys.argv[1:] and sys.argv[1].isdigit():
        SECONDS = float(sys.argv.pop(1))
    right = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(RUN.close() or not right)
