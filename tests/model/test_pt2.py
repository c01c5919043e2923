#!/usr/bin/env python3
"""PyTorch's archives: small ones, made by hand, against NumPy; wrong ones, against their sentence; and hostile
ones, which must be refused, or run, and end nothing.

    test_pt2.py RUN_MODEL
"""
import copy
import json
import random
import sys
import unittest
import zipfile

import numpy as np

import archives
from archives import Bool, Graph, Model, Name, Number, Type
from runner import Ended, Refused, Runner

FLOATS = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
rng = np.random.default_rng(0)


def linear_relu():
    m = Model()
    w, b = rng.standard_normal((5, 4), np.float32), rng.standard_normal(5, np.float32)
    x, pw, pb = m.user("x", sizes=["s0", 4]), m.weight("l.weight", w), m.weight("l.bias", b)
    y = m.call("linear.default", "linear", input=x, weight=pw, bias=pb)
    m.outputs = [m.call("relu_.default", "relu_", self=y)]
    return m, [w, b]


def views():
    """A tensor that two views write into, and that is read through a third."""
    m = Model()
    x = m.user("x", sizes=["s0", 4])
    y = m.call("mul.Tensor", "y", self=x, other=2)
    m.metas["y"] = archives.meta("float32", ["s0", 4])
    a = m.call("slice.Tensor", "a", self=y, dim=1, start=1, end=3)
    t = m.call("t.default", "t", self=y)
    m.call("add_.Tensor", "added", self=a, other=10)
    row = m.call("select.int", "row", self=t, dim=0, index=0)
    m.call("copy_.default", "copied", self=row, src=m.call("select.int", "last", self=y, dim=1, index=3))
    flat = m.call("view.default", "flat", self=y, size=[-1])
    m.call("mul_.Tensor", "doubled", self=flat, other=2.0)
    m.outputs = [y, a, t]
    return m


class Right(unittest.TestCase):
    def same(self, model, inputs, *wanted, **how):
        for mode in ("eager", "plan"):
            got = RUN.run(model.bytes(), inputs, how=mode, **how)
            self.assertEqual(len(got), len(wanted))
            for g, w in zip(got, wanted):
                w = np.asarray(w)
                self.assertEqual(g.shape, w.shape)
                np.testing.assert_allclose(g, w, 1e-5, 1e-5)

    def test_linear_relu(self):
        m, (w, b) = linear_relu()
        for n in 1, 3:
            x = rng.standard_normal((n, 4), np.float32)
            self.same(m, [x], np.maximum(x @ w.T + b, 0))

    def test_writes_through_views(self):
        y = FLOATS * 2
        y[:, 1:3] += 10
        y[:, 0] = y[:, 3]
        y *= 2
        self.same(views(), [FLOATS], y, y[:, 1:3], y.T)

    def test_writes_into_what_is_turned(self):
        for target in "numpy_T", "mT", "mH", "matrix_H", "adjoint", "positive":
            m = Model()
            y = m.call("neg.default", "y", self=m.user("x", sizes=["s0", 4]))
            v = m.call(target + ".default", "v", self=y)
            m.call("mul_.Tensor", "doubled", self=y, other=2)
            m.call("add_.Tensor", "added", self=m.call("select.int", "first", self=v, dim=0, index=0), other=5)
            m.outputs = [y, v]
            want = FLOATS * -2
            turned = want if target == "positive" else want.T
            turned[0] += 5
            self.same(m, [FLOATS], want, turned)

    def test_writes_into_parts(self):
        m = Model()
        y = m.call("neg.default", "y", self=m.user("x", sizes=["s0", 4]))
        a, b = m.call("split.Tensor", [["a", "b"]], self=y, split_size=2, dim=1)[0]
        m.call("relu_.default", "relu_", self=Name(b))
        c, d, e = m.call("split_with_sizes.default", [["c", "d", "e"]], self=y, split_sizes=[1, 2, 1], dim=1)[0]
        m.call("zero_.default", "zero_", self=Name(d))
        turned = m.call("permute.default", "turned", self=y, dims=[1, 0])
        m.call("add_.Tensor", "add_", self=turned, other=1)
        m.call("mul_.Tensor", "mul_", self=m.call("narrow.default", "f", self=y, dim=1, start=-2, length=1), other=3)
        m.call("mul_.Tensor", "mul__1", self=m.call("narrow.default", "g", self=y, dim=-1, start=2, length=2), other=5)
        m.outputs = [y, Name(a), Name(e)]
        y = -FLOATS
        y[:, 2:] = np.maximum(y[:, 2:], 0)
        y[:, 1:3] = 0
        y += 1
        y[:, 2] *= 3
        y[:, 2:] *= 5
        self.same(m, [FLOATS], y, y[:, :2], y[:, 3:])

    def test_writes_into_a_view_and_then_its_part(self):
        m = Model()
        base = m.call("neg.default", "base", self=m.user("x", sizes=["s0", 4]))
        turned = m.call("permute.default", "turned", self=base, dims=[1, 0])
        m.call("add_.Tensor", "added", self=turned, other=1)
        row = m.call("select.int", "row", self=turned, dim=0, index=2)
        m.call("mul_.Tensor", "scaled", self=row, other=10)
        m.outputs = [turned, row, base]
        y = 1 - FLOATS
        y[:, 2] *= 10
        self.same(m, [FLOATS], y.T, y[:, 2], y)

    def test_several_results(self):
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        v, i = m.call("max.dim", ["values", "indices"], self=x, dim=1)
        p, q = m.call("chunk.default", [["p", "q"]], self=x, chunks=2, dim=1)[0]
        m.outputs = [v, i, m.call("cat.default", "cat", tensors=[Name(q), Name(p)], dim=1), x, x]
        self.same(m, [FLOATS], FLOATS.max(1), FLOATS.argmax(1), np.roll(FLOATS, 2, 1), FLOATS, FLOATS)

    def test_sizes(self):
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        n = m.call("sym_size.int", Number("n"), self=x, dim=0)
        half = m.call("_operator.floordiv", Number("half"), a=m.call("_operator.mul", Number("n4"), a=n, b=4), b=2)
        y = m.call("view.default", "y", self=x, size=[half, 2])
        z = m.call("full.default", "z", size=[m.call("_operator.mod", Number("r"), a=n, b=2), 2], fill_value=half,
                   dtype=Type(5), pin_memory=False)
        m.outputs = [y, z, half, m.call("torch.sym_max", Number("most"), a=n, b=100)]
        for n in 1, 2, 3:
            x = FLOATS[:n]
            self.same(m, [x], x.reshape(-1, 2), np.full((n % 2, 2), 2 * n), 2 * n, 100)

    def test_numbers(self):
        m = Model()
        x, k = m.user("x", sizes=[4]), m.number("k")
        m.constant("unused", 3)
        m.outputs = [m.call("mul.Tensor", "y", self=x, other=k), m.call("_operator.add", Number("more"), a=k, b=1),
                     m.call("sub.Tensor", "z", self=6, other=x), m.call("where.ScalarOther", "w", self=m.call(
                         "gt.Scalar", "gt", self=x, other=0), condition=Name("gt"), other=0.5)]
        m.nodes[-1]["inputs"][0] = {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1}
        x = FLOATS[1]
        self.same(m, [x, np.int64(5)], x * 5, 6, 6 - x, np.where(x > 0, x, .5))
        self.same(m, [x, np.int64(-1)], -x, 0, 6 - x, np.where(x > 0, x, .5))

    def test_cond(self):
        def branch(op, **more):
            g = Graph()
            g.outputs = [g.call(op, "r", self=g.input("u"), **more)]
            return g
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        many = m.call("_operator.gt", Bool("many"), a=m.call("sym_size.int", Number("n"), self=x, dim=0), b=1)
        y = m.call("torch.ops.higher_order.cond", "y", many, branch("add.Tensor", other=1), branch("neg.default"), [x])
        y = m.call("torch.ops.higher_order.wrap_with_autocast", "z0", "cpu", None, False, None, branch("neg.default"), y)
        y = m.call("torch.ops.higher_order.wrap_with_set_grad_enabled", "z1", False, branch("neg.default"), y)
        some = m.call("gt.Scalar", "some", self=m.call("sum.default", "sum", self=y), other=0)
        m.outputs = [m.call("torch.ops.higher_order.cond", "z", some, branch("mul.Tensor", other=3),
                            branch("abs.default"), [y])]
        self.same(m, [FLOATS[2:]], np.abs(FLOATS[2:]))
        self.same(m, [FLOATS[:1]], -3 * FLOATS[:1])
        self.same(m, [FLOATS[1:]], 3 * (FLOATS[1:] + 1))

    def test_while(self):
        def graph(op, **more):
            g = Graph()
            i, x, k = g.input("i"), g.input("u"), g.input("k")
            if op == "lt.Scalar":
                g.outputs = [g.call(op, "lt", self=i, other=4)]
            else:
                g.outputs = [g.call("add.Tensor", "i1", self=i, other=1), g.call(op, "u1", self=x, other=k)]
            return g
        m = Model()
        x, k = m.user("x", sizes=["s0", 4]), m.user("k", sizes=[])
        zero = m.call("zeros.default", "zero", size=[], dtype=Type(5))
        i, y = m.call("torch.ops.higher_order.while_loop", ["n", "y"], graph("lt.Scalar"), graph("mul.Tensor"),
                      [zero, x], [k])
        m.outputs = [i, y]
        self.same(m, [FLOATS, np.float32(2)], 4, FLOATS * 16)

    def test_stored(self):
        """Parts of one storage, turned, shared and repeated; a constant; an index with a gap."""
        m = Model()
        base = np.arange(24, dtype=np.float32)
        x = m.user("x", sizes=["s0", 4])
        m.weight("base", base)
        names = [m.weight("turned", file="weight_0", layout=archives.meta("float32", [4, 3], [1, 4], 2)),
                 m.weight("again", file="weight_0", layout=archives.meta("float32", [4, 3], [1, 4], 2)),
                 m.weight("repeated", kind="buffer", file="weight_0", layout=archives.meta("float32", [4, 3], [0, 1], 5)),
                 m.weight("index", np.array([2, 0]), kind="tensor_constant")]
        y = m.call("matmul.default", "y0", self=x, other=names[0])
        for i in 1, 2:
            y = m.call("add.Tensor", "y%d" % i, self=y, other=m.call("matmul.default", "m%d" % i, self=x, other=names[i]))
        m.outputs = [m.call("index.Tensor", "y", self=y, indices=[None, names[3]])]
        turned = base[2:14].reshape(3, 4).T
        wanted = FLOATS @ (2 * turned + base[5:8])
        self.same(m, [FLOATS], wanted[:, [2, 0]])

    def test_formulas(self):
        """What is no operator of ours: cells, transforms, names with other endings, quantized values."""
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        h, c = (m.weight(n, rng.standard_normal((3, 2), np.float32)) for n in "hc")
        w, v = (rng.standard_normal(n, np.float32) for n in ((8, 4), (8, 2)))
        b = np.zeros(8, np.float32)
        one, two = m.call("lstm_cell.default", ["one", "two"], input=x, hx=[h, c], w_ih=m.weight("w", w),
                          w_hh=m.weight("v", v), b_ih=m.weight("b", b), b_hh=None)
        f = m.call("fft_fft2.default", "f", self=x)
        n = m.call("_weight_norm.default", "n", v=x, g=m.weight("g", np.arange(4, dtype=np.float32).reshape(1, 4)), dim=1)
        d = m.call("diff.default", "d", self=x, dim=1, prepend=m.call("zeros_like.default", "zero", self=x))
        part = m.call("slice_copy.Tensor", "part", self=x, dim=1, start=1, end=3)
        q = m.call("torch.ops.quantized_decomposed.dequantize_per_tensor.default", "q", input=m.weight(
            "bytes", np.array([1, 2, 3], np.int8)), scale=0.5, zero_point=1, quant_min=-128, quant_max=127, dtype=Type(2))
        eight, scales = rng.integers(-128, 128, (5, 4)).astype(np.int8), rng.uniform(0.1, 1, 5).astype(np.float32)
        packed = m.call("_weight_int8pack_mm.default", "packed", self=x, mat2=m.weight("eight", eight), scales=m.weight("scales", scales))
        m.outputs = [one, two, m.call("real.default", "re", self=f), m.call("imag.default", "im", self=f), part, q, n, d, packed]
        h, c = (np.frombuffer(m.files["data/weights/weight_%d" % i], np.float32).reshape(3, 2) for i in (0, 1))
        i, g, t, o = np.split(FLOATS @ w.T + h @ v.T, 4, 1)
        sigmoid = lambda u: 1 / (1 + np.exp(-u))
        cell = sigmoid(g) * c + sigmoid(i) * np.tanh(t)
        f = np.fft.fft2(FLOATS)
        self.same(m, [FLOATS], sigmoid(o) * np.tanh(cell), cell, f.real, f.imag, FLOATS[:, 1:3], [0, .5, 1],
                  FLOATS * np.arange(4) / np.sqrt((FLOATS ** 2).sum(0)),
                  np.diff(FLOATS, prepend=np.zeros_like(FLOATS), axis=1), FLOATS @ (eight * scales[:, None]).T)

    def test_unsigned(self):
        """Their types by number, and bits that are written through a view of another type."""
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        w = {k: np.array([1, np.iinfo(k).max, 3, 0], k) for k in (np.uint16, np.uint32, np.uint64)}
        stored = [m.weight(f"w{i}", v) for i, v in enumerate(w.values())]
        sums = [m.call("add.Tensor", f"sum{i}", self=x, other=v) for i, v in enumerate(stored)]
        long = m.call("mul.Tensor", "long", self=stored[2], other=stored[2])
        y = m.call("neg.default", "y", self=x)
        bits = m.call("view.dtype", "bits", self=y, dtype=Type(4))
        m.call("bitwise_and_.Scalar", "and_", self=bits, other=2**31 - 1)
        m.outputs = [*sums, long, y, bits]
        self.same(m, [FLOATS], *(FLOATS + v.astype(np.float32) for v in w.values()), w[np.uint64] * w[np.uint64],
                  abs(FLOATS), abs(FLOATS).view(np.int32))

    def test_kept_out(self):
        """What computes nothing: dropout, assertions, copies of the same type; and new values of buffers."""
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        state = m.weight("count", np.zeros(4, np.float32), kind="buffer")
        y = m.call("dropout.default", "y", input=x, p=0.5, train=False)
        m.call("_assert_tensor_metadata.default", [], a=y, size=None)
        m.metas["to"] = m.metas["x"]
        m.call("to.dtype", "to", self=y, dtype=Type(7))
        m.call("relu_.default", "relu_", self=Name("to"))
        new = m.call("add.Tensor", "new", self=state, other=1)
        out = m.call("add.Tensor", "out", self=x, other=1)
        m.ends = [{"buffer_mutation": {"arg": {"name": new}, "buffer_name": "count"}},
                  {"user_output": {"arg": {"as_none": True}}}, {"user_output": {"arg": {"as_tensor": {"name": out}}}},
                  {"user_output": {"arg": {"as_int": 7}}}]
        self.same(m, [FLOATS], np.maximum(FLOATS, 0) + 1, 7)


class Wrong(unittest.TestCase):
    def refused(self, model, words, inputs=(FLOATS,)):
        with self.assertRaises(Refused) as caught:
            RUN.run(model if isinstance(model, bytes) else model.bytes(), list(inputs))
        self.assertIn(words, str(caught.exception))

    def test_inputs(self):
        m = Model()
        m.ranges = {"s0": {"min_val": 3, "max_val": 8}}
        x, y, z = m.user("x", sizes=["s0", 4]), m.user("y", sizes=[4, "s0"]), m.user("z", sizes=[(2, "s0")])
        m.outputs = [m.call("matmul.default", "m", self=x, other=y), z]
        fit = lambda a, b, c: [np.zeros((a, 4), np.float32), np.zeros((4, b), np.float32), np.zeros(c, np.float32)]
        RUN.run(m.bytes(), fit(3, 3, 6))
        self.refused(m, "y: its size in dimension 1 must be 3, to fit the other inputs, but is 4", fit(3, 4, 6))
        self.refused(m, "z: its size in dimension 0 must be 6", fit(3, 3, 8))
        self.refused(m, "z: its size in dimension 0 must be 6, to fit the other inputs, but is 7", fit(3, 3, 7))
        self.refused(m, "must be from 3 to 8, but is 2", fit(2, 2, 4))
        self.refused(m, "must be from 3 to 8, but is 9", fit(9, 9, 18))
        self.refused(m, "x: must have the shape [?, 4]", [FLOATS.T, FLOATS, FLOATS])

    def test_nodes(self):
        def one(op, outs="y", /, **arguments):
            m = Model()
            m.outputs = [m.call(op, outs, self=m.user("x", sizes=["s0", 4]), **arguments)]
            return m
        self.refused(one("no_such_thing.default"), "node 'y' (torch.ops.aten.no_such_thing.default): there is no such")
        self.refused(one("quantile.default"), "run_decompositions")
        self.refused(one("relu.default", other=1), "relu has no argument 'other' here")
        self.refused(one("add.Tensor", other=Name("ghost")), "has 'ghost', which nothing makes")
        self.refused(one("add.Tensor", other=Name("y")), "reads 'y', which nothing before it makes")
        self.refused(one("dropout.default", p=.5, train=True), "call model.eval()")
        self.refused(one("zeros_like.default", dtype=Type(10)), "has an argument that cannot be read (as_scalar_type)")
        self.refused(one("view.default", size=[5, -1]), "node 'y' (view): view: ")
        self.refused(one("torch.ops.higher_order.cond"), "other arguments than torch.export gives")
        self.refused(one("numpy_T.default", reduction=2), "argument 'reduction' is not understood")
        self.refused(one("fft_fft.default", norm="both"), "norm: backward")
        m = one("as_strided.default", size=[2], stride=[1])
        m.metas["x"] = archives.meta("float32", ["s0", 4], [1, 3])
        self.refused(m, "sees a tensor's memory")
        m = one("relu.default")
        m.metas = list(m.metas.values())
        self.refused(m, "")
        self.refused(one("relu.default", "x"), "two values called 'x'")
        m = one("relu.default")
        m.nodes.append(copy.deepcopy(m.nodes[0]))
        self.refused(m, "two values called 'y'")
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        r = m.call("expand.default", "e", self=x, size=[2, 3, 4])
        m.call("add_.Tensor", "w", self=r, other=1)
        m.outputs = [x]
        self.refused(m, "is seen through another view")
        g = Graph()
        g.outputs = [g.call("relu.default", "r", self=g.input("u"))]
        m = Model()
        m.outputs = [m.call("torch.ops.higher_order.while_loop", "y", g, g, [m.user("x", sizes=["s0", 4])])]
        self.refused(m, "12 numbers stand where at most 1 may")

    def test_unsure(self):
        """Whether reshape copies depends on how its argument lies."""
        m = Model()
        y = m.call("neg.default", "y", self=m.user("x", sizes=["s0", 4]))
        t = m.call("t.default", "t", self=y)
        m.metas["t"] = archives.meta("float32", [4, "s0"], [1, 4])
        m.call("add_.Tensor", "w", self=m.call("reshape.default", "r", self=t, shape=[-1]), other=1)
        m.outputs = [y]
        self.refused(m, "may be a copy or a view")

    def test_endless(self):
        """A loop that never ends is stopped; that it makes no calls does not help it."""
        g, h = Graph(), Graph()
        g.input("u")
        g.outputs = [True]
        h.outputs = [h.input("u")]
        m = Model()
        m.outputs = [m.call("torch.ops.higher_order.while_loop", "y", g, h, [m.user("x", sizes=["s0", 4])])]
        with self.assertRaises(Refused) as caught:
            RUN.run(m.bytes(), [FLOATS], how="eager", runs=1, seconds=1)
        self.assertIn("stopped", str(caught.exception))

    def test_archives(self):
        m, _ = linear_relu()
        good, files = m.bytes(), m.entries()
        name = "m/models/model.json"
        without = lambda *names: archives.zipped({k: v for k, v in files.items() if k not in names})
        self.refused(good[:-30], "damaged")
        self.refused(good[: len(good) // 2], "damaged")
        self.refused(b"PK\3\4" + b"\0" * 100, "damaged")
        self.refused(without(name), "not what torch.export.save writes")
        self.refused(without("m/data/weights/weight_0"), "has no data/weights/weight_0 for 'l.weight'")
        self.refused(without("m/data/weights/model_weights_config.json"), "PyTorch 2.9 or newer")
        self.refused(archives.zipped({"m/serialized_exported_program.json": b"{}"}), "older form")
        self.refused(archives.zipped(files, zipfile.ZIP_DEFLATED), "is compressed")
        self.refused(m.bytes(**{"m/byteorder": b"big"}), "not little-endian")
        self.refused(m.bytes(**{name: b"{"}), "is no JSON")
        self.refused(m.bytes(**{name: b"[" * 300 + b"]" * 300}), "nested more than 256 deep")
        self.refused(m.bytes(**{name: b'{"schema_version": {"major": 9}}'}), "schema_version is 9; 7 and 8 are read")
        self.refused(m.bytes(**{name: b'{"schema_version": {"major": 8}}'}), "graph without")
        self.refused(m.bytes(**{"m/data/weights/weight_0": b"\0" * 79}), "reaches beyond the 79 bytes")
        at = good.index(files["m/data/weights/weight_0"])
        self.refused(good[:at] + b"\1" + good[at + 1:], "damaged at 'm/data/weights/weight_0'")
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.refused(archives.zipped([*files.items(), (name, b"{}")]), "")

    def test_layouts(self):
        def seen(sizes, strides, offset=0, **change):
            m = Model()
            x = m.user("x", sizes=["s0", 4])
            m.weight("base", np.zeros(8, np.float32))
            w = m.weight("w", file="weight_0", layout={**archives.meta("float32", sizes, strides, offset), **change})
            m.outputs = [m.call("add.Tensor", "y", self=x, other=w)]
            return m
        RUN.run(seen([4], [2], 1).bytes(), [FLOATS])
        self.refused(seen([4], [2], 2), "'w' reaches beyond the 32 bytes")
        self.refused(seen([4], [-1], 4), "strides that there are none of here")
        self.refused(seen([1 << 40, 1 << 40, 1 << 40], [0, 0, 0]), "beyond")
        self.refused(seen([1 << 40], [1 << 40]), "beyond")
        self.refused(seen([1 << 40], [0]), "")
        self.refused(seen([1] * 9, [1] * 9), "there are none of here")
        self.refused(seen([4], [1], dtype=11), "a type, sizes or strides")
        self.refused(seen([4], [1, 1]), "a type, sizes or strides")
        self.refused(seen(["s0"], [1]), "a type, sizes or strides")


class Hostile(unittest.TestCase):
    """Changed archives: each is refused or runs; none ends the process."""

    def tried(self, model):
        try:
            RUN.run(model, [FLOATS], runs=1, seconds=5)
        except Refused:
            return 0
        except Ended as ended:
            (RUN.path / "../ended.pt2").resolve().write_bytes(model)
            self.fail("the process ended: %s" % ended)
        return 1

    def models(self):
        m, _ = linear_relu()
        return [m, views()]

    def test_bytes(self):
        draw = random.Random(1)
        for m in self.models():
            good = m.bytes()
            for _ in range(150):
                bad = bytearray(good)
                for _ in range(draw.choice([1, 1, 2, 8])):
                    bad[draw.randrange(len(bad))] = draw.choice([0, 1, 255, draw.randrange(256)])
                self.tried(bytes(bad))
            for end in range(0, len(good), 61):
                self.tried(good[:end])
            for _ in range(60):
                a, b, n = (draw.randrange(len(good)) for _ in range(3))
                self.tried(good[:a] + good[b: b + n] + good[a:])

    def test_json(self):
        """Values of the JSON in each other's places, and numbers that are wrong."""
        draw = random.Random(2)
        ran = 0
        for m in self.models():
            for name in "m/models/model.json", "m/data/weights/model_weights_config.json":
                tree = json.loads(m.entries()[name])
                for _ in range(250):
                    ran += self.tried(m.bytes(**{name: json.dumps(changed(tree, draw)).encode()}))
        self.assertGreater(ran, 10)


def places(tree, found):
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        found.append((tree, key))
        if isinstance(value, (dict, list)):
            places(value, found)
    return found


def changed(tree, draw):
    tree = copy.deepcopy(tree)
    found = places(tree, [])
    for _ in range(draw.choice([1, 1, 1, 3])):
        (a, i), (b, k) = draw.choice(found), draw.choice(found)
        other = draw.choice([None, 0, -1, 1 << 62, -(1 << 62), 1e300, 0.5, "", "x", "p_l_weight", True, [], {}, [[]],
                             {"as_int": 1 << 62}, {"as_tensor": {"name": "x"}}, *[copy.deepcopy(b[k])] * 8])
        if draw.random() < 0.8:
            a[i] = other
        elif isinstance(a, list):
            a.insert(i, other)
        else:
            del a[i]
            break # what stood in it is gone
    return tree


if __name__ == "__main__":
    RUN = Runner(sys.argv.pop(1))
    right = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(RUN.close() or not right)
