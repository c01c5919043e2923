#!/usr/bin/env python3
"""What vector kernels owe to plain loops: the same numbers at every length, for masks, NaN, infinities and offsets."""
import itertools

import numpy as np

import service

RNG = np.random.default_rng(11)
# Operators that can be vectorised whatever stands around them; each must have a vector kernel.
PLAIN = """add sub mul div abs sin cos exp exp2 expm1 erf erfc sqrt rsqrt eq ne lt gt le ge logical_and pow log log10 log1p round
floor ceil trunc fmod tan tanh reciprocal atan acos asin atan2 hypot copysign nextafter atanh asinh acosh relu sigmoid neg
floor_divide minimum maximum square where sign isinf isnan signbit logical_or logical_not remainder bitwise_and bitwise_or
bitwise_xor true_divide lgamma digamma""".split()


class Vectors(service.ServiceTest):
    def both(self, op, inputs, parameters=None):
        """By a vector kernel and by the reference."""
        return [self.service.op(op, inputs, {**(parameters or {}), "kernel": kernel}, binary=True) for kernel in (("ref",) * 2 if service.only_reference() else ("simd", "ref"))]

    def test_plain_operators(self): # IND-21
        self.needs_kernels()
        simd = {k["op"].partition(".")[0] for k in self.service.call("GET", "/v1/kernels").json["kernels"]
                if any(i["name"] == "simd" and not i["absent"] for i in k["implementations"])}
        self.assertEqual(sorted(set(PLAIN) - simd), [])

    def test_every_tail(self): # IND-30
        """From none to twice the widest register's lanes and one more."""
        for n in range(130):
            x, y = (RNG.standard_normal(n).astype(np.float32) for _ in range(2))
            for op, inputs in (("add", {"self": x, "other": y}), ("relu", {"self": x}), ("neg", {"self": (x * 9).astype(np.int8)}),
                               ("mul", {"self": x.astype(np.float64), "other": y.astype(np.float64)})):
                vector, plain = self.both(op, inputs)
                self.assertEqual(service.elements(vector), service.elements(plain), (op, n))

    def test_choice_and_maximum(self): # IND-24
        """Rows of 17: a register of 16 and one more, chosen by whole numbers, -33 or the value, and the largest."""
        c, x = RNG.integers(0, 2, (5, 17)).astype(np.uint8), RNG.standard_normal((5, 17)).astype(np.float32)
        c[0], x[1] = 1, -50
        want = np.where(c != 0, np.float32(-33), x).max(1)
        self.assertEqual(want[0], -33)
        reply = self.service.infer("eval", {"c": c, "x": x}, path="/v1/eval", binary=True, expr="amax(where(c != 0, -33.0, x), [-1])")
        self.assertEqual(reply.status, 200, reply.body[:300])
        np.testing.assert_array_equal(reply.out, want)
        chosen = np.where(c != 0, np.float32(-33), x)
        for largest in self.both("amax", {"self": chosen}, {"dim": [-1]}):
            np.testing.assert_array_equal(largest, want)

    def test_far_from_zero(self): # IND-32
        """Variance and layer norm of small numbers around a million, as two passes in doubles give them; of rows that are
        taken in pieces, whose means differ, too."""
        for shape, dim in (((4, 1000), [-1]), ((3, 7, 900), [0, 2]), ((2, 150000), [-1]), ((5000, 3), [0])):
            slope = np.linspace(0, 30, np.prod(shape)).reshape(shape)
            x = (RNG.standard_normal(shape) + slope + 1e6).astype(np.float32)
            for got in self.both("var.correction", {"self": x}, {"dim": dim, "correction": 0}):
                np.testing.assert_allclose(got, x.astype(np.float64).var(tuple(dim)), rtol=1e-3, err_msg=shape)
        x = (RNG.standard_normal((4, 1000)) + 1e6).astype(np.float32)
        wide = x.astype(np.float64)
        want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
        for got in self.both("layer_norm", {"input": x}, {"normalized_shape": [1000]}):
            np.testing.assert_allclose(got, want, atol=0.02)

    def test_ranges(self):
        """What cannot be beyond a number is not, to the last bit and at each level: 1 - erf(x)^2 has a root."""
        kernels = {k["op"]: k["implementations"] for k in self.service.call("GET", "/v1/kernels").json["kernels"]}
        for op, low, high in ("erf", -1, 1), ("erfc", 0, 2), ("tanh", -1, 1), ("sin", -1, 1), ("cos", -1, 1), ("sigmoid", 0, 1), ("gelu", -1, 0):
            rows = {f"{i['name']}@{i['level']}" for i in kernels[op] if i["resolved"]}
            for row, kind in itertools.product(sorted(rows), (np.float32, np.float64, np.float16)):
                x = np.linspace(-12, 0 if op == "gelu" else 12, 60_001).astype(kind)
                got = self.service.op(op, {"self": x}, {"kernel": row}, binary=True)
                with self.subTest(op=op, row=row, kind=kind.__name__):
                    self.assertEqual((got.min() >= low, got.max() <= high), (True, True), (got.min(), got.max()))

    def test_nan_and_infinity(self): # IND-39
        values = np.array([np.nan, -np.inf, np.inf, 0, -0.0, 1, -1] * 5, np.float32)
        for got in self.both("relu", {"self": values}):
            np.testing.assert_array_equal(got, np.where(np.isnan(values), values, np.maximum(values, 0)))
        for op, want in (("maximum", np.maximum), ("minimum", np.minimum)):
            for a, b in ((values, np.roll(values, 3)), (values, np.float32([2] * 35)), (np.float32([2] * 35), values)):
                for got in self.both(op, {"self": a, "other": b}):
                    np.testing.assert_array_equal(got, want(a, b))

    def test_linear_of_any_rank(self): # IND-7
        weight, bias = RNG.standard_normal((5, 7)).astype(np.float32), RNG.standard_normal(5).astype(np.float32)
        for shape in ((7,), (3, 7), (2, 3, 7), (2, 1, 3, 7), (0, 7), (2, 0, 7), (1, 7)):
            x = RNG.standard_normal(shape).astype(np.float32)
            for more in ({}, {"bias": bias}):
                got = self.service.op("linear", {"input": x, "weight": weight, **more}, binary=True)
                np.testing.assert_allclose(got, x @ weight.T + (bias if more else 0), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    service.main()
