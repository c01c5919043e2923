#!/usr/bin/env python3
"""Expressions: what they give is what the same calls give one by one, bit for bit, and what NumPy says."""
import json
import random
import re
import threading

import numpy as np

import service

TYPES = "BOOL UINT8 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64 UINT16 UINT32 UINT64".split()
SHAPES = [[], [1], [7], [3, 7], [3, 1], [1, 7], [2, 3, 7], [2, 1, 1]]
INFIX = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "%": "remainder", "==": "eq", "<": "lt",
         ">=": "ge", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor"}
UNARY = ("relu neg abs sigmoid tanh exp sqrt floor round sign isnan square silu logical_not erf").split()
CALLS = {"maximum": 2, "minimum": 2, "where": 3, "pow": 2, "atan2": 2, "logical_and": 2, "hypot": 2}
REDUCTIONS = "sum mean amax amin any prod".split()


class Refused(Exception):
    pass


class Eval(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.line = cls.service.connect()
        cls.addClassCleanup(cls.line.close)

    def post(self, path, status=200, headers=None, /, **body):
        reply = self.service.call("POST", path, body, headers or {}, self.line)
        self.assertEqual(reply.status, status, (body, reply.body[:400]))
        return reply

    def is_answered(self, expr, wanted, /, **inputs):
        self.assertEqual(self.post("/v1/eval", expr=expr, **inputs).json, wanted)

    def refused(self, expr, *words, **inputs):
        self.problem(self.post("/v1/eval", 400, expr=expr, **inputs), 400, *words)

    # ---- one by one ----

    def call(self, op, *args):
        """The tensor (without name) that an operator makes of tensors and numbers."""
        reply = self.service.call("POST", "/v1/ops/" + op, {"args": list(args)}, {}, self.line)
        if reply.status == 400:
            raise Refused(reply.json["detail"])
        self.assertEqual(reply.status, 200, reply.body[:300])
        out = reply.json["outputs"][0]
        return {key: out[key] for key in ("shape", "datatype", "data")}

    def tensor(self, rng, shapes=SHAPES):
        datatype, shape = rng.choice(TYPES), rng.choice(shapes)
        low = 0 if datatype[0] in "BU" else -6
        def one():
            return rng.random() < 0.5 if datatype == "BOOL" else rng.randint(low, 6) if "INT" in datatype \
                else rng.choice([rng.randint(-48, 48) / 8, "NaN", "Infinity"] + 9 * [rng.randint(-48, 48) / 16])
        return {"shape": shape, "datatype": datatype, "data": [one() for _ in range(int(np.prod(shape)))]}

    def grow(self, rng, inputs, depth):
        """(text, value): a random expression, and its value by calls one after the other."""
        if depth == 0 or rng.random() < 0.1:
            name = rng.choice(sorted(inputs))
            return name, inputs[name]
        kind = rng.random()
        if kind < 0.35:
            sign = rng.choice(sorted(INFIX))
            left, a = self.grow(rng, inputs, depth - 1)
            if rng.random() < 0.3:
                number = rng.choice([2, 3, 0.5, 1.5])
                return f"({left} {sign} {number})", self.call(INFIX[sign], a, number)
            right, b = self.grow(rng, inputs, depth - 1)
            return f"({left} {sign} {right})", self.call(INFIX[sign], a, b)
        if kind < 0.65:
            op = rng.choice(UNARY)
            text, a = self.grow(rng, inputs, depth - 1)
            return f"{op}({text})", self.call(op, a)
        if kind < 0.85:
            op = rng.choice(sorted(CALLS))
            parts = [self.grow(rng, inputs, depth - 1) for _ in range(CALLS[op])]
            if op == "where":
                parts[0] = f"({parts[0][0]} > 0)", self.call("gt", parts[0][1], 0)
            return f"{op}({', '.join(text for text, _ in parts)})", self.call(op, *(value for _, value in parts))
        text, a = self.grow(rng, inputs, depth - 1)
        if not a["shape"]:
            return text, a
        op, dim = rng.choice(REDUCTIONS), rng.randrange(len(a["shape"]))
        if op in ("any", "prod"):
            return f"{op}({text}, {dim}, True)", self.call(op, a, dim, True)
        return f"{op}({text}, [{dim}], keepdim=True)", self.call(op, a, [dim], True)

    def agree(self, rng, inputs, depth):
        try:
            text, value = self.grow(rng, inputs, depth)
        except Refused:
            return False
        for more in ({}, {"kernel": "ref"}) if rng.random() < 0.1 else ({},):
            named = [{"name": name, **tensor} for name, tensor in inputs.items() if name in text]
            used = [t for t in named if t["name"] in set("".join(c if c.isalnum() else " " for c in text).split())]
            reply = self.post("/v1/eval", expr=text, inputs=used, parameters=more).json
            out = {key: reply["outputs"][0][key] for key in value}
            if not more:
                self.assertEqual(out, value, (text, used))
            else:
                self.assertEqual((out["shape"], out["datatype"]), (value["shape"], value["datatype"]), text)
        return True

    def test_is_what_calls_one_by_one_give(self):
        seed = service.seed()
        rng = random.Random(seed)
        with self.subTest(seed=seed):
            done = sum(self.agree(rng, {name: self.tensor(rng) for name in ("x0", "x1", "x2")}, rng.randint(1, 5))
                       for _ in range(250))
            self.assertGreater(done, 60)

    def test_across_tiles(self):
        """Sizes round and beyond a tile, in two threads and one."""
        seed = service.seed()
        rng, done = random.Random(seed), 0
        with self.subTest(seed=seed):
            for n in (511, 513, 1024, 2047, 4099):
                for _ in range(3):
                    shapes = [[n], [1], [2, n], [2, 1]]
                    done += self.agree(rng, {name: self.tensor(rng, shapes) for name in ("x0", "x1")}, 3)
            self.assertGreater(done, 0)

    def test_tiles_of_any_size(self):
        """Of what is broadcast, of 24 bytes an element: some sizes round up to more than there is room for."""
        for n in range(1, 140):
            a, b, c = np.arange(n, dtype=np.float64).reshape(n, 1), np.arange(8.0), np.array([3.0])
            for op in ("addcmul", "lerp"):
                inputs = {"self": a, **dict(zip(("end", "weight") if op == "lerp" else ("tensor1", "tensor2"), (b, c)))}
                want = a + (b - a) * c if op == "lerp" else a + b * c
                np.testing.assert_array_equal(self.service.infer(op, inputs, binary=True, connection=self.line).out, want)

    def test_as_in_python(self):
        """Products, indices, methods and modules, as NumPy has them."""
        rng = np.random.default_rng(6)
        x, w = rng.integers(-9, 9, (3, 4, 5)).astype(np.float32), rng.integers(-9, 9, (5, 2)).astype(np.float32)
        i = np.array([2, 0, 1])
        inputs = {"x": x.tolist(), "w": w.tolist(), "i": i.tolist()}
        for expr, want in {
                "x @ w": x @ w, "x @ w * 2 + 1": x @ w * 2 + 1, "x[1]": x[1], "x[-1]": x[-1], "x[1, 2]": x[1, 2], "x[1][2][3]": x[1][2][3],
                "x[:, 1]": x[:, 1], "x[1:3]": x[1:3], "x[:2, ::2]": x[:2, ::2], "x[..., 0]": x[..., 0], "x[0, ..., 1:]": x[0, ..., 1:],
                "x[..., 1:, -1]": x[..., 1:, -1], "x[None]": x[None], "x[:, None, 1]": x[:, None, 1], "x[..., None]": x[..., None],
                "x[1:, ..., None, 2]": x[1:, ..., None, 2], "x[i]": x[i], "x[:, i]": x[:, i], "x[i, i]": x[i, i], "x[x > 2]": x[x > 2],
                "x[:]": x, "x[-2:, 1:-1]": x[-2:, 1:-1], "x.sum()": x.sum(), "x.sum(axis=1)": x.sum(axis=1), "(x + 1).exp().log()[0]": x[0] + 1,
                "x[0].sum(0, keepdims=True)": x[0].sum(0, keepdims=True), "x.sum(2)[1]": x.sum(2)[1], "w.T": w.T, "x @ w.T.T": x @ w,
                "x.max(1)[0]": x.max(1), "max(x, axis=2)[0].sum()": x.max(2).sum(), "torch.relu(x)[2]": np.maximum(x, 0)[2],
                "torch.nn.functional.relu(x)": np.maximum(x, 0), "np.power(x, 2)": x ** 2,
                "x.reshape((3, 20))": x.reshape(3, 20), "x.reshape([60,])": x.reshape(60), "clamp(x, torch.inf * -1, 2)": np.minimum(x, 2),
                "x.to(torch.float64) - 1": x - 1, "np.concatenate((x, x), axis=1)": np.concatenate((x, x), 1)}.items():
            used = {name: inputs[name] for name in re.findall(r"\b[xwi]\b", expr)}
            with self.subTest(expr=expr):
                got = self.post("/v1/eval", expr=expr, **used).json["out"]
                self.assertEqual(np.shape(got), want.shape)
                np.testing.assert_allclose(got, want, rtol=1e-5)
        self.is_answered("round(a, decimals=2)", {"out": [1.23, -2.5, 0.01]}, a=[1.234, -2.5, 0.005001])
        self.is_answered("a.round(decimals=-1)", {"out": [1230, -20]}, a=[1234, -25])
        self.is_answered("y = a.abs(); z = y.sum()", {"y": [1, 2], "z": 3}, a=[-1, 2])
        self.is_answered("a.max(1)[1]", {"out": [1]}, a=[[1, 2]])
        self.is_answered("mean(a)", {"out": 1.5}, a=[1, 2])
        self.is_answered("a @ b", {"out": 2.5}, a=[1, 2], b=[0.5, 1])
        for expr, *words in (("a[1.5]", "whole number"), ("a[]", "index"), ("a[0", "']'"), ("a[...,...]", "twice"), ("a[0, a]", "beside a tensor"),
                             ("a.sum", "brackets", ".sum"), ("a.rleu()", "did you mean 'relu'"), ("torch.rleu(a)", "did you mean 'relu'"),
                             ("2[0]", "no parts"), ("max(a, 0)[:1]", "results"), ("a[" + "0," * 9 + "]", "at most 8"), ("a.sum(axs=0)", "axs"),
                             ("1 @ 2", "tensor"), ("a[0, 0, 0]", "dimension")):
            self.refused(expr, *words, a=[[1, 2], [3, 4]])

    def test_numpy(self):
        rng = np.random.default_rng(5)
        a, b, c = (rng.standard_normal(shape) for shape in ((3, 5), (5,), (3, 1)))
        space = {"a": a, "b": b, "c": c, "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
                 "exp": np.exp, "where": np.where, "sum": lambda x, dim: x.sum(dim), "tanh": np.tanh, "maximum": np.maximum}
        for expr in ("relu(a*b+c)*sigmoid(a)", "-a**2 + 2**-b", "(a - 2) / 3 // 0.25 % 2", "where((a > b) & (a != c), a, -b * 2)",
                     "exp(a - maximum(b, c)) / (1 + sum(c * b, 0))", "2 - 3 * (1 - a) / 4", "7 % exp(a) + 1e-3"):
            with self.subTest(expr=expr):
                used = {name: space[name] for name in "abc" if name in set("".join(ch if ch.isalpha() else " " for ch in expr).split())}
                got = self.service.infer("", used, binary=True, path="/v1/eval", expr=expr)
                self.assertEqual(got.status, 200, got.body[:300])
                np.testing.assert_allclose(got.out, eval(expr, space), rtol=1e-12)

    # ---- numbers ----

    def result(self, expr, inputs=(), **parameters):
        """The only result as the long form has it: its type, shape and data."""
        out, = self.post("/v1/eval", expr=expr, inputs=list(inputs), parameters=parameters).json["outputs"]
        return out["datatype"], out["shape"], [float(x) for x in out["data"]]

    def constant(self, rng, depth):
        """(text, value): an expression of numbers alone, and what Python makes of it."""
        if depth == 0:
            text = rng.choice(["2", "3", "7", "-5", "0", "0.5", "2.5", "-1.25", "True", "False"])
            return text if text[0] != "-" else f"({text})", eval(text)
        sign = rng.choice("+ - * / // % ** < <= == != > >= & | ^ << >>".split())
        (left, a), (right, b) = self.constant(rng, depth - 1), self.constant(rng, rng.randrange(depth))
        if sign in ("**", "<<") and abs(b) > 40:
            return left, a
        try:
            value = eval(f"a {sign} b", {}, {"a": a, "b": b})
        except (TypeError, ValueError, ArithmeticError): # floats and &, a negative shift, a quotient by 0
            return left, a
        return (f"({left} {sign} {right})", value) if not isinstance(value, complex) and abs(value) < 2**31 else (left, a)

    def test_of_numbers_alone_as_python(self):
        seed = service.seed()
        rng = random.Random(seed)
        types = {bool: "BOOL", int: "INT64", float: "FP32"}
        with self.subTest(seed=seed):
            for _ in range(300):
                text, value = self.constant(rng, rng.randint(0, 4))
                datatype, shape, (got,) = self.result(text)
                self.assertEqual((datatype, shape), (types[type(value)], []), text)
                self.assertEqual(np.float32(got) if datatype == "FP32" else got, np.float32(value) if datatype == "FP32" else value, text)
        for text, value in (("pi", np.pi), ("-e", -np.e), ("torch.pi * 2", 2 * np.pi), ("np.inf", np.inf), ("math.sqrt(2)", 2 ** 0.5), ("~True", 0),
                            ("~5", -6), ("sin(1)", np.sin(1)), ("hypot(3, 4)", 5), ("pow(2, 10)", 1024), ("maximum(2, 2.5)", 2.5),
                            ("where(True, 1, 2)", 1), ("mean([1, 2])", 1.5), ("mean(3)", 3)):
            with self.subTest(text=text):
                np.testing.assert_allclose(self.result(text)[2], [value], rtol=1e-6)
        self.is_answered("2+3", {"out": 5})
        self.is_answered("x**2", {"out": 4}, x=2)
        self.is_answered("nan", {"out": "NaN"})
        self.is_answered("_n = 1; y = sum(x, _n); z = _n * 2; _z = y", {"y": [3], "z": 2}, x=[[1, 2]])
        self.is_answered("[1, 2, 3] * 2", {"out": [2, 4, 6]})
        self.is_answered("x", {"out": 2**64 - 1}, x=2**64 - 1)
        self.is_answered("sin(pi)", {"out": float(np.sin(np.pi))}, dtype="FP64")
        for name in ("pi", "e", "inf", "nan"): # an input of that name is meant, and a result
            self.is_answered(name + " + 1", {"out": [4]}, **{name: [3]})
            self.is_answered(f"{name} = a * 2; y = {name} + 1", {name: [6], "y": [7]}, a=[3])
        self.assertEqual(self.post("/v1/eval", expr="2+3", meta=True).json, {"out": {"datatype": "INT64", "shape": []}})

    def test_numbers_for_tensors(self):
        """A number is promoted as PyTorch promotes Python's: of a tensor's type, but where it is of a higher category."""
        own = {bool: "BOOL", int: "INT64", float: "FP32"}
        ops = {"maximum": np.maximum, "minimum": np.minimum, "atan2": np.arctan2, "fmod": np.fmod, "pow": np.power, "add": np.add,
               "where": lambda x, y: np.where(True, x, y)}
        def category(datatype):
            return 0 if datatype == "BOOL" else 1 if "INT" in datatype else 2
        for datatype in TYPES:
            for shape in ([2], []):
                x = np.array([3, 1], float)[:len(shape) + 1].reshape(shape) if datatype != "BOOL" else np.ones(shape)
                tensor = {"name": "x", "shape": shape, "datatype": datatype, "data": [v > 0 if datatype == "BOOL" else v for v in x.reshape(-1).tolist()]}
                for number in (True, 3, 2.5):
                    kind = datatype if category(datatype) >= category(own[type(number)]) else own[type(number)]
                    for op, judge in ops.items():
                        if kind == "BOOL" and op in ("pow", "fmod", "add"):
                            continue
                        first = "True, " if op == "where" else ""
                        wanted = "FP32" if op == "atan2" and category(kind) < 2 else kind
                        for text, want in ((f"{op}({first}x, {number})", judge(x, number)), (f"{op}({first}{number}, x)", judge(number, x))):
                            with self.subTest(text=text, datatype=datatype, shape=shape):
                                got = self.result(text, [tensor])
                                self.assertEqual(got[:2], (wanted, shape))
                                np.testing.assert_allclose(got[2], np.broadcast_to(want, shape).reshape(-1), rtol=1e-2 if "16" in kind else 1e-6)
        x = np.array([-1.5, 0, 2], np.float32)
        for expr, want in (("maximum(x, 0)", np.maximum(x, 0)), ("minimum(x, 0.5)", np.minimum(x, 0.5)), ("where(x > 0, x, 0)", np.maximum(x, 0)),
                           ("where(x > 0, 1, -1)", np.where(x > 0, 1, -1)), ("pow(2, x)", 2 ** x), ("2 // x.exp()", 2 // np.exp(x)),
                           ("x + [1, 2, 3.5]", x + [1, 2, 3.5]), ("x[maximum(0, 1)]", x[1]), ("gather(x, 0, 2)", x[2]), ("x * pi", x * np.pi)):
            with self.subTest(expr=expr):
                np.testing.assert_allclose(self.service.infer("", {"x": x}, path="/v1/eval", expr=expr).out, want, rtol=1e-6)
                model = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}], "expr": expr + "; n = 2"}
                model["expr"] = "y = " + model["expr"]
                self.assertIn(self.service.call("PUT", "/v1/models/of_numbers", model).status, (200, 201))
                for eager in (False, True, False):
                    reply = self.service.call("POST", "/v1/models/of_numbers", {"x": x.tolist(), "eager": eager})
                    self.assertEqual(reply.status, 200, reply.body[:300])
                    np.testing.assert_allclose(reply.json["y"], want, rtol=1e-6)
                    self.assertEqual(reply.json["n"], 2)
        for op, wanted, arguments in (("pow", 8, {"self": 2, "exponent": 3}), ("where", 1, {"condition": True, "self": 1, "other": 2}),
                                      ("maximum", [1.5, 2], {"self": [1, 2], "other": 1.5})):
            self.assertEqual(self.post("/v1/ops/" + op, **arguments).json, {"out": wanted})

    # ---- forms ----

    def test_at_a_stride(self): # JIT-24
        """Sums, largest numbers and sums of sizes at every stride, and what is there times a number, in both precisions."""
        rng = np.random.default_rng(service.seed())
        for kind, n, step in ((np.float32, 1, 1), (np.float32, 100, 3), (np.float64, 37, 40), (np.float64, 1000, 7), (np.float32, 33, 2)):
            x = rng.standard_normal(n).astype(kind)
            text = "sum = x.sum(); most = x.amax(); size = x[::s].abs().sum(); scaled = slice_scatter(x, x[::s] * a, 0, 0, None, s)"
            reply = self.service.infer("", {"x": x}, {"s": step, "a": -2.5}, path="/v1/eval", expr=text)
            self.assertEqual(reply.status, 200, reply.body[:300])
            scaled = x.copy()
            scaled[::step] *= kind(-2.5)
            np.testing.assert_allclose(reply.outputs["sum"], x.sum(), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(reply.outputs["size"], np.abs(x[::step]).sum(), rtol=1e-6)
            np.testing.assert_array_equal(reply.outputs["most"], x.max())
            np.testing.assert_array_equal(reply.outputs["scaled"], scaled)

    def test_blocked_layout(self): # JIT-36
        """An image in nChw16c times a number a channel, from where it lies so and from planes and back."""
        rng = np.random.default_rng(service.seed())
        x, y = rng.standard_normal((2, 48, 3, 5)).astype(np.float32), rng.standard_normal((2, 48)).astype(np.float32)
        right = x * y[:, :, None, None]
        blocked = x.reshape(2, 3, 16, 3, 5).transpose(0, 1, 3, 4, 2)
        reply = self.service.infer("", {"x": np.ascontiguousarray(blocked), "y": y}, path="/v1/eval", expr="x * y.view([2, 3, 1, 1, 16])")
        np.testing.assert_array_equal(reply.out, right.reshape(2, 3, 16, 3, 5).transpose(0, 1, 3, 4, 2))
        text = ("_b = x.view([2, 3, 16, 3, 5]).permute([0, 1, 3, 4, 2]); _p = _b * y.view([2, 3, 1, 1, 16]);"
                "out = _p.permute([0, 1, 4, 2, 3]).reshape([2, 48, 3, 5])")
        reply = self.service.infer("", {"x": x, "y": y}, path="/v1/eval", expr=text)
        self.assertEqual(reply.status, 200, reply.body[:300])
        np.testing.assert_array_equal(reply.out, right)

    def test_short_form(self):
        self.is_answered("a+b", {"out": [4, 5]}, a=[1, 2], b=3)
        self.is_answered("a+b", {"out": [2.5]}, a=[1], b=1.5)
        self.is_answered("a", {"out": [1]}, a=[1])
        self.is_answered("max(a, 1)", {"values": [2, 5], "indices": [1, 0]}, a=[[1, 2], [5, 3]])
        self.is_answered("max(a, 1)[1] * n + (1 + 2 * 3)", {"out": [9, 7]}, a=[[1, 2], [5, 3]], n=2)
        self.is_answered("gelu(a, approximate=how)", {"out": [0]}, a=[0.0], how="tanh")
        self.is_answered("x = a * 2; _y = x + 1; z = _y * _y; same = x", {"x": [2], "z": [9], "same": [2]}, a=[1])
        self.is_answered("cat(l, 0)", {"out": [1, 2]}, **{"l.0": [1], "l.1": [2]})
        self.is_answered("cat([a * 2, b], 0)", {"out": [2, 3]}, a=[1], b=[3])
        self.is_answered("stack([split(a, 1)[0], split(a, 1)[1]])", {"out": [[1], [2]]}, a=[1, 2])
        self.is_answered("index(a * 2, [None, i])", {"out": [[4], [8]]}, a=[[1, 2], [3, 4]], i=[1])
        self.is_answered("ones([2]) * 3", {"out": [3, 3]})
        self.is_answered("to(a, FP16) < 2 ** 3 - 2.5", {"out": [True]}, a=[1])
        self.assertEqual(self.post("/v1/eval", expr="a * 2", a=[1], dtype="INT8", meta=True).json,
                         {"out": {"datatype": "INT8", "shape": [1]}})
        reply = self.post("/v1/eval", expr="silu(a) + 1", a=[0.0], device="refcpu", trace=True).json
        self.assertEqual(reply["out"], [1])
        self.assertIn("[call] op=[aten::silu], key=[Tracer]", reply["parameters"]["trace"])

    def test_binary_stored_and_tasks(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.assertIn(self.service.call("PUT", "/v1/tensors/w", {"shape": [3], "datatype": "FP32", "data": [1, 2, 3]}).status, (200, 201))
        out = self.service.infer("", {"x": x, "w": service.stored("w")}, binary=True, path="/v1/eval", expr="x * w + 1").out
        np.testing.assert_array_equal(out, x * [1, 2, 3] + 1)
        asked = [{"name": "z", "parameters": {"tensor": "kept/z"}}]
        reply = self.service.infer("", {"x": x}, path="/v1/eval", expr="y = x + 1; z = y * 2", outputs=asked).json
        self.assertEqual([o["name"] for o in reply["outputs"]], ["z"])
        stored = self.service.infer("relu", {"self": service.stored("kept/z")}).out
        np.testing.assert_array_equal(stored, (x + 1) * 2)
        task = self.post("/v1/eval", 202, {"Prefer": "respond-async"}, expr="a + 1", a=[1]).headers["Location"]
        self.assertEqual(self.service.call("GET", task + "?wait=10").json, {"out": [2]})

    def test_into_a_tensor_that_keeps_its_type(self):
        x = np.array([1.5, 2.5], np.float32)
        for expr, want in (("a", x), ("a * 2", x * 2), ("a * 2 + 1", x * 2 + 1), ("sum(a * a, [0], True)", [8.5]), ("max(a, 0)[0]", 2.5),
                           ("_y = a * 2; out = _y + a * _y", x * 2 + x * x * 2)):
            for more in ({}, {"kernel": "ref"}):
                self.service.call("PUT", "/v1/tensors/wide", {"shape": [1], "datatype": "FP64", "data": [0]})
                reply = self.service.infer("", {"a": x}, more, path="/v1/eval", expr=expr,
                                           outputs=[{"name": "out", "parameters": {"tensor": "wide"}}])
                self.assertEqual((reply.status, reply.json.get("outputs", [{}])[0].get("datatype")), (200, "FP64"), reply.body[:300])
                there = self.service.infer("add", {"self": service.stored("wide"), "other": np.array(0.0)}).out
                np.testing.assert_array_equal(there, want)

    def test_explain(self):
        self.needs_kernels()
        told = self.post("/v1/eval", expr="a * 2 + a", a=[1.5], explain=True).json["parameters"]
        parts = told["explain"]["parts"]
        self.assertEqual([part["operator"] for part in parts], ["mul.Scalar", "add.Tensor"])
        self.assertEqual([part["with"] for part in parts], [1, 1])
        self.assertEqual(told["explain"]["operator"], "eval")
        self.assertEqual((told["kernel"], told["explain"]["not_generated"]), ("fused", "it has few elements"))
        parts = self.post("/v1/eval", expr="relu(a * b) - sum(exp(a) * 2, [0]) + i / 2", a=[[1.5, 2]], b=[[2.0], [3]], i=[1],
                          explain=True).json["parameters"]["explain"]["parts"]
        self.assertEqual([(part["operator"], part.get("with")) for part in parts],
                         [("mul.Tensor", 8), ("relu", 8), ("exp", 3), ("mul.Scalar", 3), ("sum.dim_IntList", None), ("sub.Tensor", 8),
                          ("cast", 7), ("div.Scalar", 7), ("add.Tensor", 8)])
        self.assertTrue(all(any(c["verdict"].startswith("chosen") for c in part["candidates"]) for part in parts))
        a = np.linspace(-9, 9, 6000, dtype=np.float32).tolist()
        told = self.post("/v1/eval", expr="relu(a * b) + exp(a)", a=a, b=a, explain=True).json["parameters"]
        low = told["isa"] == "DEFAULT"
        self.assertEqual(told["kernel"], "fused" if low else "jit")
        self.assertEqual(told["explain"].get("not_generated"), "its level is below AVX2" if low else None)
        with service.Service("--jit", "off") as s:
            told = s.call("POST", "/v1/eval", {"expr": "relu(a * b) + exp(a)", "a": a, "b": a, "explain": True}).json["parameters"]
            self.assertEqual((told["kernel"], told["explain"]["not_generated"]), ("fused", "generating code is switched off"))
        self.assertEqual(self.post("/v1/eval", expr="a * 2", a=[1.5], kernel="ref", explain=True).json["parameters"]["kernel"], "ref")
        # who reads what was only moved reads the argument; unless it is read as it is
        square = np.arange(400, dtype=np.float32).reshape(20, 20)
        for expr, views, want in (("a + permute(b, [1, 0])", [True, None], square * 2 + square.T),
                                  ("a + reshape(b, [20, 20])", [True, None], square * 3),
                                  ("cumsum(permute(b, [1, 0]), 1) + a", [None] * 3, np.cumsum(square.T, 1) + square * 2),
                                  ("x = permute(b, [1, 0]); y = x + a", [None, None], square.T)):
            told = self.post("/v1/eval", expr=expr, a=(square * 2).tolist(), b=square.tolist(), explain=True).json
            parts = told["parameters"]["explain"]["parts"]
            self.assertEqual([part.get("view") for part in parts], views, expr)
            self.assertEqual([not part["candidates"] for part in parts], [bool(view) for view in views], expr)
            np.testing.assert_array_equal(told.get("out", told.get("x")), want)
        # the same call twice is one
        parts = self.post("/v1/eval", expr="exp(a) / sum(exp(a))", a=[1.5], explain=True).json["parameters"]["explain"]["parts"]
        self.assertEqual([part["operator"] for part in parts], ["exp", "sum", "div.Tensor"])

    # ---- what came before ----

    def counted(self):
        text = self.service.call("GET", "/metrics", None, {}, self.line).body.decode()
        return [int(re.search(r'tensord_expressions_total\{event="%s"\} (\d+)' % event, text)[1]) for event in ("hit", "miss")]

    def test_bound_once(self):
        """An expression that came before is found in the cache, and computes with its own elements."""
        def found(out, /, **body):
            hits, misses = self.counted()
            reply = self.post("/v1/eval", **body).json
            if out is not None:
                self.assertEqual(reply["out"], out)
            now = self.counted()
            return [now[0] - hits, now[1] - misses], reply
        expr = "relu(a * b - 1) + a * n"
        self.assertEqual(found([3, 5.75], expr=expr, a=[1.0, 1.5], b=[1, 1.5], n=3)[0], [0, 1])
        self.assertEqual(found([7, -6], expr=expr, a=[2.0, -2], b=[1, 1.5], n=3)[0], [1, 0])
        self.assertEqual(found([5, -4], expr=expr, a=[2.0, -2], b=[1, 1.5], n=2)[0], [0, 1])
        self.assertEqual(found([7], expr=expr, a=[2.0], b=[1.0], n=3)[0], [0, 1])
        self.assertEqual(found([7], expr=expr, a=[2.0], b=[1.0], n=3, pool="default", timeout_ms=9000)[0], [1, 0])
        self.assertEqual(found([7], expr=expr, a=[2.0], b=[1.0], n=3, kernel="ref")[0], [0, 0])
        self.assertEqual(found([7], expr=expr, a=[2.0], b=[1.0], n=3, autocast="BF16")[0], [0, 1])
        told = [found([7], expr=expr, a=[2.0], b=[1.0], n=3, explain=True) for _ in range(2)]
        self.assertEqual([hits for hits, _ in told], [[1, 0], [1, 0]])
        parts = told[0][1]["parameters"]["explain"]["parts"]
        self.assertEqual([part["operator"] for part in parts], ["mul.Tensor", "sub.Scalar", "relu", "mul.Scalar", "add.Tensor"])
        self.assertEqual(parts, told[1][1]["parameters"]["explain"]["parts"])
        self.assertEqual(told[1][1]["parameters"]["kernel"], "composite" if service.only_reference() else "fused")
        for _ in range(2): # what is not the same whenever it runs
            self.assertEqual(found(None, expr="a + rand([3])", a=[1.0])[0], [0, 1])
            self.assertEqual(found([2], expr="a[a > 1.5]", a=[1.0, 2])[0], [0, 1])
            self.problem(self.post("/v1/eval", 400, expr="a + rleu(a)", a=[1.0]), 400, "column 5", "did you mean 'relu'")
        self.assertNotEqual(*(found(None, expr="a + rand([3])", a=[1.0])[1]["out"] for _ in range(2)))

    def test_by_many_at_once(self):
        rng = np.random.default_rng(service.seed())
        wrong = []
        def evaluate(k):
            line = self.service.connect()
            for i in range(120):
                x = rng_of[k].standard_normal((3, 1 + i % 3)).astype(np.float32)
                got = self.service.infer("", {"x": x}, path="/v1/eval", expr="y = maximum(x, 0) * 2 - x; s = amax(y, [0])", connection=line).outputs
                want = np.maximum(x, 0) * 2 - x
                if not np.array_equal(got["y"], want) or not np.array_equal(got["s"], want.max(0)):
                    wrong.append((k, i, x, got))
            line.close()
        rng_of = [np.random.default_rng(rng.integers(1 << 30)) for _ in range(6)]
        threads = [threading.Thread(target=evaluate, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    # ---- what is wrong ----

    def test_any_text(self):
        """Whatever stands there, it is computed or refused with its place, and the service lives."""
        seed = service.seed()
        rng = random.Random(seed)
        words = ["a", "b", "l", "(", ")", "[", "]", ",", "=", ";", "_t", "x", "0", "1", "-1", "2.5", "1e400", "'tanh'", "None", "inf", "dim", "dtype",
                 "FP16", "relu", "sum", "max", "cat", "where", "to", "gather", "softmax", "full", "nonzero", "split", "matmul", "9" * 18, "\"", "\u00fc",
                 "+", "-", "*", "/", "//", "%", "**", "<", "==", "<<", "&", "|", "^", "~", ".", "keepdim=True", "arange(3)", "a+b", "sum(a,[0])"]
        with self.subTest(seed=seed):
            done = 0
            for _ in range(1500):
                expr = rng.choice(["", "a+", "max(a,0)[0]*", "x=b;y=a*"]) + "".join(rng.choice(words) + rng.choice(["", "", " "]) for _ in range(rng.randint(1, 9)))
                inputs = {name: value for name, value in (("a", [[1.5, -2], [0, 3]]), ("b", [1, 0]), ("l", 2))
                          if name in "".join(c if c.isalnum() or c == "_" else " " for c in expr).split()}
                reply = self.service.call("POST", "/v1/eval", {"expr": expr, "meta": rng.random() < 0.2, **inputs}, {}, self.line)
                self.assertIn(reply.status, (200, 400, 501, 503), (expr, reply.body[:300]))
                done += reply.status == 200
            self.assertGreater(done, 5)
            self.assertIsNone(self.service.process.poll())

    def test_what_is_wrong(self):
        for expr, *words in (
                ("", "column 1", "the text ends"), ("a+", "column 3", "the text ends"), ("rleu(a)", "column 1", "did you mean 'relu'"),
                ("aa+a", "column 1", "no input 'aa'"), ("a<a<a", "column 4", "chain"), ("a a", "column 3", "'a' is not right"),
                ("sum(a,dmi=1)", "column 7", "did you mean 'dim'"), ("sum(a, dim=7)", "column 1", "out of range"), ("relu(a", "column 7", "')'"),
                ("a*1+(2", "column 7", "')'"), ("max(a,0)[7]", "max.dim has 2 results"), ("a=a", "column 1", "value already"), ("max(a,0)+1", "several results"), ("max(a)[0]", "one result"),
                ("cat([a, 2], 0)", "None, or numbers alone"), ("cat([[a]], 0)", "column 6", "a list has"),
                ("x=a;a", "column 5", "has a name"), ("a+nonzero(a)", "not known"), ("a+1..2", "column"), ("a+99999999999999999999", "no INT64"), ("a+0xe", "column 3", "is no number"),
                ("add(neg(a), other=a, other=sum(a))", "column 22", "add: other is given twice"),
                ("[a]+1", "column 4", "no overload"), ("sum(dim=0, a)", "column 12", "by keyword"), ("a+'x", "no end"), ("a+'x'", "column 2"),
                ("a" + "+a" * 5000, "8192"), ("-" * 99 + "a", "deeper than 64"), ("(" * 70 + "a" + ")" * 70, "deeper than 64"),
                ("a+" + "+".join(f"{i}*a" for i in range(300)), "more than 256"), ("_x=a", "no result"), ("1+2*(a<<3>4>5)", "chain"),
                ("1//0", "no value"), ("1<<-1", "no value"), ("1.5&2", "whole"),
                ("maximum(a, 'x')", "text"), ("minimum(a, dtype)", "no input 'dtype'"), ("add_(a, 1)", "no operator"), ("a+\u00e9", "column 3"), ("a;b=a", "name"), ("sum(a,[1,2", "']'")):
            with self.subTest(expr=expr[:40]):
                self.refused(expr, "expr", *words, a=[1, 2])
        self.refused("a", "kernl", "did you mean 'kernel'", a=[1], kernl="ref")
        self.refused("None", "no tensor")
        self.refused("'x'", "no tensor")
        for more in ({"dtype": "INT8"}, {"dtype": "UINT8"}):
            self.refused("maximum(a, 300)", "other", "300", more["dtype"], a=[1, 2], **more)
        self.refused("b+1", "no input 'b'", b1=[1])
        self.problem(self.post("/v1/eval", 400, a=[1]), 400, "expr", "text")
        self.problem(self.post("/v1/eval", 400, expr=3, a=[1]), 400, "expr", "text")
        x = {"name": "a", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        self.problem(self.post("/v1/eval", 400, expr="a", inputs=[x], args=[]), 400, "args")
        self.problem(self.post("/v1/eval", 400, expr="a", inputs=[x], parameters={"streams": 2}), 400, "streams")
        self.problem(self.post("/v1/eval", 400, expr="a", inputs=[x], outputs=[{"name": "b"}]), 400, "'b'", "out")
        both = [{"name": name, "parameters": {"tensor": "one"}} for name in "cb"]
        self.problem(self.post("/v1/eval", 400, expr="b=a*2;c=b", inputs=[x], outputs=both), 400, "b: ", "another output")
        self.problem(self.post("/v1/eval", 400, expr="a*2", inputs=[x], parameters={"kernel": "onednn"}), 400, "kernel")
        self.problem(self.post("/v1/eval", 501, expr="a*2", inputs=[x], parameters={"device": "cuda"}), 501, "mul.Scalar")

    def test_bodies_of_other_forms(self):
        """Who sends something else is shown a body that is right, which then is answered."""
        model = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}, {"name": "n", "datatype": "INT64", "shape": []}], "expr": "x * n"}
        self.assertIn(self.service.call("PUT", "/v1/models/shown", model).status, (200, 201))
        for path in ("/v1/eval", "/v1/ops/relu", "/v1/ops/add", "/v1/ops/softmax", "/v1/ops/embedding", "/v1/ops/cat", "/v1/models/shown"):
            for body, *words in (("x+1", "near x+1"), ("{'expr':'2+3'}", "near {'expr'"), ("", "empty"), ("[1,-2,3]",), ('"2+3"',), ("5",),
                                 ("expr=2+3", "near expr=2"), ('{"x":[1,2}', "near"), ('{"x":1', "ends early")):
                with self.subTest(path=path, body=body):
                    reply = self.service.call("POST", path, body, {"Content-Type": "application/x-www-form-urlencoded"}, self.line)
                    detail = self.problem(reply, 400, "must be a JSON object, such as {", *words)["detail"]
                    self.assertEqual(detail.count("body"), 1)
                    shown = json.loads(detail[detail.index("such as ") + 8:])
                    reply = self.service.call("POST", path, shown, {}, self.line)
                    self.assertEqual(reply.status, 200, (shown, reply.body[:300]))
        reply = self.service.call("POST", "/v1/ops/conv2d", "[1]", {}, self.line) # whose example is long
        self.problem(reply, 400, "must be a JSON object", "by their names")
        model["inputs"][0]["shape"] = [64, 64]
        self.service.call("PUT", "/v1/models/shown", model)
        self.problem(self.service.call("POST", "/v1/models/shown", "[1]", {}, self.line), 400, "x FP32 [64,64], n INT64 []")
        self.problem(self.service.call("POST", "/v2/models/op.relu/infer", "[1]", {}, self.line), 400, "object with inputs")
        for method in ("GET", "PUT"):
            reply = self.service.call(method, "/v1/eval?expr=2%2B3", None, {}, self.line)
            detail = self.problem(reply, 405, method, "POST", "with a body such as {")["detail"]
            self.assertEqual(reply.headers["Allow"], "POST")
            self.assertEqual(self.post("/v1/eval", **json.loads(detail[detail.index("{"):])).json, {"out": 5})
        for path in ("/v1/ops/relu", "/v1/models/shown"):
            self.problem(self.service.call("GET", path + "?self=1", None, {}, self.line), 400, "'self'", "POST computes it")


if __name__ == "__main__":
    service.main()
