#!/usr/bin/env python3
"""What of an expression is computed together, in vectors, and what is not and why: masks, comparisons, places, indices, types,
sums across rows, scattered sums. Each by the kernels that a call gets, without generated loops, and by the reference."""
import json
import re
import tempfile

import numpy as np

import models
import service

F32 = np.float32
LENGTHS = (1, 7, 8, 15, 16, 17, 31, 33, 64, 100, 129)


class Together(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rng = np.random.default_rng(service.seed())
        cls.plain = service.Service("--jit", "off")
        cls.addClassCleanup(cls.plain.stop)
        levels = {level["name"]: level["in_use"] for level in cls.service.call("GET", "/v1/isa").json["levels"]}
        cls.vectors = not service.only_reference()
        cls.jit = cls.vectors and levels["AVX2"]

    def draw(self, *shape):
        return self.rng.uniform(-2, 2, shape).astype(F32)

    def eval(self, expr, inputs, parameters=None, service_=None):
        reply = (service_ or self.service).infer("", inputs, parameters, path="/v1/eval", binary=True, expr=expr)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def alike(self, expr, inputs, want, rtol=0.0, atol=0.0):
        for s, parameters in ((self.service, {}), (self.plain, {}), (self.service, {"kernel": "ref"})):
            got = self.eval(expr, inputs, parameters, s).out
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=f"{expr} {parameters}")
            self.assertEqual(got.dtype, want.dtype, expr)

    def told(self, expr, inputs):
        return self.eval(expr, inputs, {"explain": True}).parameters

    def groups(self, expr, inputs):
        """The operators that are computed together, group after group; one alone is a group."""
        groups = {}
        for i, part in enumerate(self.told(expr, inputs)["explain"]["parts"]):
            groups.setdefault(part.get("with", f"alone {i}"), []).append(part["operator"].partition(".")[0])
        return sorted(groups.values())

    # ---- classes of work ----

    def test_two_classes(self): # IND-1
        """Of a network, convolutions and products take what follows them; the rest is computed together, and a sum by its own."""
        self.needs_kernels()
        w, k = self.draw(8, 8), self.draw(8, 3, 3, 3)
        file = models.onnx_file(
            [("Conv", ["x", "k"], ["c"], {"pads": [1, 1, 1, 1]}), ("Relu", ["c"], ["r"], {}), ("ReduceMean", ["r"], ["m"], {"axes": [2, 3], "keepdims": 0}),
             ("MatMul", ["m", "w"], ["p"], {}), ("Relu", ["p"], ["q"], {}), ("Exp", ["q"], ["e"], {}), ("Mul", ["e", "q"], ["t"], {}), ("Tanh", ["t"], ["y"], {})],
            [models.port("x", [2, 3, 16, 16])], [models.port("y", [2, 8])], {"w": w, "k": k})
        self.assertEqual(self.service.call("PUT", "/v1/models/classes", file).status, 201)
        x = self.draw(2, 3, 16, 16)
        for _ in range(4):
            reply = self.service.infer("classes", {"x": x}, {"explain": True}, path="/v2/models/{}/infer", binary=True)
            self.assertEqual(reply.status, 200, reply.body[:300])
        want = self.service.infer("classes", {"x": x}, {"eager": True, "kernel": "eager"}, path="/v2/models/{}/infer", binary=True)
        np.testing.assert_allclose(reply.outputs["y"], want.outputs["y"], rtol=1e-3, atol=1e-4)
        steps = self.service.call("GET", "/v1/models/classes/plan").json["plans"][0]["steps"]
        names = [step["operator"].partition(".")[0] for step in steps]
        if self.jit: # what needs a library or AVX2
            self.assertNotIn("relu", names[:names.index("mean")])
        chain = [step for step in steps if step["operator"].partition(".")[0] in ("exp", "mul", "tanh")]
        self.assertEqual(len({step["with"] for step in chain}), 1, chain)
        self.assertEqual({step["kernel"] for step in steps if step["operator"].startswith("mean")} & {"fused", "jit"}, set())

    def test_groups(self): # IND-42
        """Calls over the same elements are one group, a sum and what makes its argument too, and what follows on it; the same call
        twice is one; and a group needs no memory for what only it reads."""
        self.needs_kernels()
        x = {"a": self.draw(64, 128), "b": self.draw(64, 128)}
        self.assertEqual(self.groups("relu(a * b) - exp(a)", x), [["mul", "relu", "exp", "sub"]])
        self.assertEqual(self.groups("sum(relu(a * b), [1], True) * 2 + 1", x), [["mul", "add"], ["mul", "relu", "sum"]])
        self.assertEqual(self.groups("sum(relu(a * b), [0])", x), [["mul", "relu"], ["sum"]])
        self.assertEqual(self.groups("tanh(matmul(a, b.t()) + 1)", x), sorted([["t"], ["matmul"], ["add", "tanh"]]))
        self.assertEqual(self.groups("exp(a * b) / sum(exp(a * b))", x), [["div"], ["mul", "exp", "sum"]])
        big = {"a": self.draw(1 << 20)}
        for expr, reads in (("a * 2", 1), ("tanh(relu(a * 2) + 1)", 1), ("relu(a * 2) - exp(a)", 2)):
            self.assertEqual(self.told(expr, big)["explain"]["bytes"], (reads + 1) * 4 << 20, expr)
        self.assertEqual(self.told("sum(relu(a * 2))", big)["explain"]["bytes"], (4 << 20) + 4)

    def test_sums(self): # IND-42
        """Reductions of what is computed together with them, at every tail, of rows in one tile and in several; what is read again is
        there."""
        folds = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "linalg_vector_norm": lambda x, axis: np.sqrt((x * x).sum(axis))}
        for n in (*LENGTHS, 5000):
            x, y = self.draw(3, n), self.draw(3, n)
            made = np.maximum(x * 2, 0).astype(np.float64) + y
            for name, fold in folds.items():
                args = {"linalg_vector_norm": "2, [-1]"}.get(name, "[-1]")
                self.alike(f"{name}(relu(x * 2) + y, {args})", {"x": x, "y": y}, fold(made, -1).astype(F32), rtol=1e-5, atol=1e-5)
            self.alike("_t = relu(x * 2) + y; out = sum(_t) * _t", {"x": x, "y": y}, (made.sum() * made).astype(F32), rtol=1e-4, atol=1e-4)

    def test_levels(self): # IND-17
        """A call by rows of one width alone: 512, 256 or none; another width is no row's."""
        x = self.draw(100)
        for level, width in (("AVX512", 64), ("AVX2", 32), ("DEFAULT", 16)):
            runs = any(row["level"] == level and row["kernel"] == "simd" and row["runnable"]
                       for row in self.service.call("GET", "/v1/kernels/exp").json["overloads"][0]["candidates"])
            reply = self.service.infer("exp", {"self": x}, {"kernel": f"simd@{level}"})
            if runs:
                self.assertEqual((reply.parameters["kernel"], reply.parameters["isa"]), ("simd", level))
                np.testing.assert_allclose(reply.out, np.exp(x), rtol=1e-6)
                with service.Service("--cpu-capability", level.lower()) as s:
                    told = self.eval("relu(a * 2) + exp(a)", {"a": self.draw(8192)}, {}, s).parameters
                    self.assertEqual(told["isa"], level)
            else:
                self.problem(reply, 400, "kernel")
        self.problem(self.service.infer("exp", {"self": x}, {"kernel": "simd@AVX1024"}), 400, "has no 'simd@AVX1024'", "ref@DEFAULT")

    def test_what_blocks(self): # IND-20
        """Chance has no vector form to join, far elements are gathered first, and other types have no generated loop: the rest stays together."""
        x = {"a": self.draw(64, 128)}
        self.needs_kernels()
        self.assertEqual(self.groups("relu(a * 2) + rand([64, 128])", x), sorted([["mul", "relu", "add"], ["rand"]]))
        self.assertEqual(self.groups("relu(a.t() * 2)", x), sorted([["t"], ["mul", "relu"]]))
        for kind in (np.float64, np.int64, np.float16):
            told = self.told("relu(a * 2)", {"a": x["a"].astype(kind)})
            self.assertEqual((told["kernel"], told["explain"]["not_generated"]), ("fused", "not all of it is FP32"))
        self.assertEqual(self.groups("relu(a * 2)", {"a": x["a"].astype(np.int64)}), [["mul", "relu"]])
        a = x["a"]
        self.alike("relu(a.t() * 2)", x, np.maximum(a.T * 2, 0))

    # ---- masks and comparisons ----

    def test_masks(self): # IND-22, IND-23
        """A mask that only chooses, one that is added as well, and one as numbers; of BOOL and of UINT8, at every tail."""
        for n in (*LENGTHS, 5000):
            x, y, m = self.draw(n), self.draw(n), self.rng.integers(0, 2, n).astype(bool)
            for mask in (m, m.astype(np.uint8) * 7):
                chosen = "m" if mask.dtype == bool else "(m != 0)"
                self.alike(f"where({chosen}, x, y) * 2", {"m": mask, "x": x, "y": y}, np.where(m, x, y) * 2)
                self.alike(f"where({chosen}, x, y) + m", {"m": mask, "x": x, "y": y}, np.where(m, x, y) + mask.astype(F32))
                self.alike("x * m.to(FP32)", {"m": mask, "x": x}, x * mask.astype(F32))
                self.alike(f"amax(where({chosen}, -33.0, x), [0])", {"m": mask, "x": x}, np.where(m, F32(-33), x).max(0))
        if self.vectors:
            x = {"m": self.rng.integers(0, 2, (64, 128)).astype(bool), "x": self.draw(64, 128)}
            self.assertEqual(self.groups("where(m, x, -x) * 2 + m", x), [["neg", "where", "mul", "cast", "add"]])

    def test_where_nothing_is_read(self): # IND-25
        """Elements under a mask or beyond an edge are a number, infinities too, whatever lies there."""
        for n in LENGTHS:
            x, m = self.draw(3, n), self.rng.integers(0, 2, (3, n)).astype(bool)
            x[m] = np.nan
            for fill in (0.0, -1.5, np.inf, -np.inf):
                number = {np.inf: "inf", -np.inf: "-inf"}.get(fill, fill)
                self.alike(f"masked_fill(x, m, {number}) * 2", {"x": x, "m": m}, np.where(m, F32(fill), x) * 2)
                padded = np.pad(np.where(m, F32(1), x), ((0, 0), (1, 2)), constant_values=fill)
                self.alike(f"amax(constant_pad_nd(masked_fill(x, m, 1), [1, 2], {number}), [1])", {"x": x, "m": m}, padded.max(1))

    def test_comparisons(self): # IND-26
        """With a number on either side, and of two types: as in the wider one."""
        for n in (*LENGTHS, 5000):
            x, i = self.draw(n), self.rng.integers(-2, 3, n)
            self.alike("where(0.5 < x, x, 0)", {"x": x}, np.where(x > 0.5, x, F32(0)))
            self.alike("where(x > 0.5, x, 0)", {"x": x}, np.where(x > 0.5, x, F32(0)))
            self.alike("where(i < x, x, 1)", {"x": x, "i": i}, np.where(i.astype(F32) < x, x, F32(1)))
            self.alike("where(i == 1, x, -x)", {"x": x, "i": i}, np.where(i == 1, x, -x))

    # ---- places ----

    def test_places(self): # IND-27
        """Along the innermost dimension an operand goes on by one or stays; it may stay along others; any other way it is laid out first."""
        for n in (*LENGTHS, 300):
            a, row, column, one = self.draw(6, n), self.draw(n), self.draw(6, 1), self.draw(1)
            for b in (row, column, one, self.draw(1, n), self.draw(6, n)):
                self.alike("relu(a * b) - a", {"a": a, "b": b}, np.maximum(a * b, 0) - a)
            self.alike("relu(a[:, ::2] * 3)", {"a": a}, np.maximum(a[:, ::2] * 3, 0))
            self.alike("relu(a.t() * b)", {"a": a, "b": column.reshape(-1)}, np.maximum(a.T * column.reshape(-1), 0))

    def test_wide_numbers(self): # IND-28
        """Whole numbers beyond INT32 and FP64 beyond FP32 stay what they are: nothing is computed in a narrower type."""
        for edge in (2 ** 31 - 1, 2 ** 31, -2 ** 31, -2 ** 31 - 1, 2 ** 53 + 1):
            i = np.array([edge] * 40)
            self.alike("i + 1", {"i": i}, i + 1)
            self.alike("i * 2 - 1", {"i": i}, i * 2 - 1)
            self.alike(f"where(i == {edge}, i, 0)", {"i": i}, i)
        x = np.array([1e39, 1e-300, 1 / 3] * 20)
        self.alike("x * 2 + 1e39", {"x": x}, x * 2 + 1e39)
        self.alike("i + 1", {"i": np.full(40, 2 ** 31 - 2, np.int32)}, np.full(40, 2 ** 31 - 1, np.int32))

    def test_places_as_numbers(self): # IND-34
        """Indices of elements are numbers to compute with."""
        for n in LENGTHS:
            x = self.draw(4, n)
            self.alike(f"x * arange({n}) + 1", {"x": x}, x * np.arange(n, dtype=F32) + 1)
            self.alike(f"where(arange({n}) < 5, x, 0)", {"x": x}, np.where(np.arange(n) < 5, x, F32(0)))

    def test_indirect(self): # IND-35
        """What is read at places that are values: rows, single elements, and one row for all."""
        for n in LENGTHS:
            x, rows, k = self.draw(9, n), self.rng.integers(0, 9, 5), self.rng.integers(0, n, (9, 4))
            self.alike("relu(index_select(x, 0, i) * 2)", {"x": x, "i": rows}, np.maximum(x[rows] * 2, 0))
            self.alike("gather(x, 1, i) + 1", {"x": x, "i": k}, np.take_along_axis(x, k, 1) + 1)
            self.alike("x - index_select(x, 0, i)", {"x": x, "i": rows[:1]}, x - x[rows[:1]])
        if self.vectors:
            self.assertEqual(self.groups("relu(index_select(x, 0, i) * 2)", {"x": self.draw(9, 500), "i": np.arange(9)}), sorted([["index_select"], ["mul", "relu"]]))

    # ---- types ----

    def test_types_of_other_widths(self): # IND-36
        """Of eight bytes an element takes half the lanes, of two it is computed in FP32: the same at every tail."""
        for n in LENGTHS:
            x = self.rng.integers(-50, 50, n)
            for kind in (np.float64, np.int64, np.int32, np.int16, np.int8, np.float16):
                a = x.astype(kind)
                self.alike("maximum(a * 2, -a) + a", {"a": a}, np.maximum(a * 2, -a) + a)
            half = service.BF16(x / 4)
            for s, more in ((self.service, {}), (self.plain, {}), (self.service, {"kernel": "ref"})):
                got = self.eval("relu(a) + a", {"a": half}, more, s).out
                np.testing.assert_array_equal(got.values, service.BF16(np.maximum(half.values, 0) + half.values).values)

    # ---- sums ----

    def test_reductions(self): # IND-31
        """Of whole vectors and what is left: largest, smallest, sum, product, any, where the largest is, and the exclusive or of whole numbers; NaN is passed on."""
        for n in (*LENGTHS, 1000):
            x = self.draw(3, n)
            if n > 8:
                x[1, n - 2] = x[2, 1] = np.nan # in the last vector, and in the first, behind which others come
            with np.errstate(invalid="ignore"):
                for op, want, how in (("amax", x.max(1), {"dim": [1]}), ("amin", x.min(1), {"dim": [1]}), ("sum.dim_IntList", x.astype(np.float64).sum(1), {"dim": [1]}),
                                      ("prod.dim_int", x.astype(np.float64).prod(1), {"dim": 1}), ("argmax", x.argmax(1), {"dim": 1}), ("argmin", x.argmin(1), {"dim": 1}),
                                      ("any.dim", (x > 1.9).any(1), {"dim": 1})):
                    for kernel in ("simd", "ref") if self.vectors else ("ref",):
                        got = self.service.infer(op, {"self": (x > 1.9) if op == "any.dim" else x}, {**how, "kernel": kernel}, binary=True)
                        self.assertEqual(got.status, 200, got.body[:300])
                        np.testing.assert_allclose(got.out, want, rtol=1e-4, atol=1e-5, err_msg=f"{op} {n}")
            for whole in (self.rng.integers(-99, 99, (3, n), dtype) for dtype in (np.int8, np.int32, np.int64)):
                for dim in (0, 1):
                    got = self.service.infer("xor_sum", {"self": whole}, {"dim": [dim]}, binary=True)
                    np.testing.assert_array_equal(got.out, np.bitwise_xor.reduce(whole, axis=dim))
        long = self.rng.integers(-99, 99, 400000, np.int32) # cut into pieces
        self.assertEqual(self.service.infer("xor_sum", {"self": long}, binary=True).out, np.bitwise_xor.reduce(long))
        for op, of, want in (("amax", [-np.inf] * 19, -np.inf), ("amin", [np.inf] * 19, np.inf), ("sum", [], 0), ("prod", [], 1)): # where they begin
            self.assertEqual(self.service.infer(op, {"self": F32(of)}).out, want, op)

    def test_down_columns(self): # IND-33
        """Sums across rows: columns lie side by side in the lanes."""
        for n in LENGTHS:
            for rows in (1, 2, 33, 700):
                x = self.draw(rows, n)
                self.alike("sum(relu(x * 2), [0])", {"x": x}, np.maximum(x * 2, 0).astype(np.float64).sum(0).astype(F32), rtol=1e-5, atol=1e-5)
                self.alike("amax(x, [0])", {"x": x}, x.max(0))
        if self.vectors:
            self.assertEqual(self.service.infer("sum.dim_IntList", {"self": x}, {"dim": [0]}).parameters["kernel"], "simd")

    def test_scattered_sums(self): # IND-37
        """Several elements that are added at one place all count; what makes them is computed together all the same."""
        for n in LENGTHS:
            x, to = self.draw(4, n), np.sort(self.rng.integers(0, 3, (4, n)), 1)
            want = np.zeros((4, 3))
            np.add.at(want, (np.arange(4)[:, None], to), np.maximum(x * 2, 0).astype(np.float64))
            self.alike("scatter_add(z, 1, i, relu(x * 2))", {"z": np.zeros((4, 3), F32), "x": x, "i": to}, want.astype(F32), rtol=1e-5, atol=1e-5)
        if self.vectors:
            self.assertEqual(self.groups("scatter_add(z, 1, i, relu(x * 2))", {"z": np.zeros((4, 3), F32), "x": x, "i": to}), sorted([["scatter_add"], ["mul", "relu"]]))

    def test_accuracy(self): # IND-38
        """Functions keep their digits where a short formula loses them: near 0, and where exp overflows; within the bound that is told."""
        told = {op["op"]: op["ulp"] for op in self.service.call("GET", "/v1/ops").json["ops"]}
        x = np.concatenate([F32(10) ** np.arange(-30, 0, dtype=F32), self.draw(40), F32([20, 40, 80])]).astype(F32)
        for op, right in (("expm1", np.expm1), ("tanh", np.tanh), ("asinh", np.arcsinh), ("log1p", np.log1p), ("sigmoid", lambda v: 1 / (1 + np.exp(-v)))):
            for sign in (1, -1):
                a = x * F32(sign)
                a = a[a > -1] if op == "log1p" else a
                want = right(a.astype(np.float64))
                for kernel in ("simd", "ref") if self.vectors else ("ref",):
                    got = self.service.infer(op, {"self": a}, {"kernel": kernel}, binary=True).out.astype(np.float64)
                    step = np.spacing(np.maximum(np.abs(want).astype(F32), np.finfo(F32).tiny)).astype(np.float64)
                    self.assertLessEqual((np.abs(got - want) / step).max(), told[op] + 1, f"{op} {kernel}")

    # ---- threads and reasons ----

    def test_threads(self): # IND-40
        """What is small stays on one thread; what is big takes those that the pool has."""
        threads = self.service.call("GET", "/v1/pools/default").json["threads"]
        small = self.told("relu(a * 2) + 1", {"a": self.draw(64)})["explain"]["threads"]
        big = self.told("relu(a * 2) + exp(a)", {"a": self.draw(1 << 21)})["explain"]["threads"]
        self.assertEqual((small, big), (1, threads))
        with service.Service("--pool", f"one={service.CPUS[0]}") as s:
            self.assertEqual(self.eval("relu(a * 2) + exp(a)", {"a": self.draw(1 << 21)}, {"explain": True}, s).parameters["explain"]["threads"], 1)

    def test_options(self): # IND-41
        """Threads, the width of vectors, packed weights, generated loops and measured choices, by one file; each takes effect."""
        said = {"pool": [f"few={service.CPUS[0]}"], "cpu_capability": "avx2", "weight_prepack": "off", "jit": "off", "tune": "off"}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(said, file)
            file.flush()
            with service.Service("--config", file.name) as s:
                told = self.eval("relu(a * 2) + exp(a)", {"a": self.draw(1 << 20)}, {"explain": True}, s).parameters
                self.assertEqual((told["pool"], told["explain"]["threads"]), ("few", 1))
                self.assertIn(told["isa"], ("AVX2", "DEFAULT"))
                if self.vectors and told["isa"] == "AVX2":
                    self.assertEqual(told["explain"]["not_generated"], "generating code is switched off")
                s.call("PUT", "/v1/tensors/w", {"shape": [70, 90], "datatype": "FP32", "data": [1] * 6300})
                self.assertEqual(s.infer("linear", {"input": self.draw(60, 90), "weight": service.stored("w")}, binary=True).status, 200)
                metrics = s.call("GET", "/metrics").body.decode()
        self.assertIn("\ntensord_packed_bytes 0\n", metrics)
        self.assertIn("\ntensord_tuned_kinds 0\n", metrics)

    def refusals(self, s):
        text = s.call("GET", "/metrics").body.decode()
        return {why: int(n) for why, n in re.findall(r'^tensord_not_generated_total\{reason="([^"]+)"\} (\d+)$', text, re.M)}

    def test_reasons(self): # IND-44
        """Each time that calls are computed together without a generated loop is counted under the reason that explain gives."""
        self.needs_kernels()
        big = {"a": self.draw(64, 128)}
        many = {f"x{i}": self.draw(8192) for i in range(9)}
        for s, expr, inputs, why in (
                (self.service, "relu(a * 2)", {"a": self.draw(9)}, "it has few elements"),
                (self.service, "relu(a * 2)", {"a": big["a"].astype(np.float64)}, "not all of it is FP32"),
                (self.service, "relu(a * b)", {"a": self.draw(2000, 3), "b": self.draw(2000, 1)}, "its rows are short"),
                (self.service, "relu(tan(a) * 2)", big, "a formula calls a function"),
                (self.service, "relu(" + " * ".join(many) + ")", many, "it reads and writes more tensors than there are registers for"),
                (self.plain, "relu(a * 2)", big, "generating code is switched off")):
            before = self.refusals(s)
            told = self.eval(expr, inputs, {"explain": True}, s).parameters["explain"].get("not_generated")
            after = self.refusals(s)
            if self.jit:
                self.assertEqual(told, why, expr)
                self.assertEqual({key: after[key] - before[key] for key in after if after[key] != before[key]}, {why: 1}, expr)
        for level, a, why in (("default", big["a"], "its level is below AVX2"), ("avx2", big["a"].astype(np.float64), "not all of it is FP32")):
            with service.Service("--cpu-capability", level) as s:
                self.eval("relu(a * 2)", {"a": a}, {}, s)
                self.assertEqual({reason: n for reason, n in self.refusals(s).items() if n}, {why: 1}, level)


if __name__ == "__main__":
    service.main()
