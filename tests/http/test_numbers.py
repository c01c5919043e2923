#!/usr/bin/env python3
"""Numbers at the edges of their types, as PyTorch answers: the answers are written down from PyTorch 2.15
(autocast: from its lists for CPUs)."""
import math

import numpy as np

import service

NAN, INF = math.nan, math.inf
WIDE = 2**64 - 1
KERNELS = ("ref", "simd")


def u64(*values):
    return np.array(values, np.uint64)


class Numbers(service.ServiceTest):
    def out(self, op, inputs, parameters=None):
        return self.service.op(op, inputs, parameters, binary=True)

    def both(self, op, inputs, parameters):
        return self.service.infer(op, inputs, parameters, binary=True).outputs

    def is_answered(self, op, inputs, parameters, wanted, datatype=None):
        got = self.out(op, inputs, parameters)
        np.testing.assert_array_equal(got, wanted, f"{op} {parameters}")
        if datatype:
            self.assertEqual(got.dtype, datatype, op)

    def is_refused(self, op, inputs, parameters, *words):
        self.problem(self.service.infer(op, inputs, parameters), 400, *words)

    def test_formulas_of_whole_numbers_are_no_activations(self):
        x, w = np.array([[1, 2]], np.float32), np.eye(2, dtype=np.float32)
        for name in ("bitwise_not", "bitwise_and", "bitwise_left_shift", "gcd", "lcm"):
            for kernel in KERNELS:
                self.is_refused("linear", {"input": x, "weight": w}, {"activation": name, "kernel": kernel},
                                "activation", f'"{name}" has no meaning', "relu")

    def test_isclose_of_wide_integers(self):
        exact = {"rtol": 0.0, "atol": 0.0}
        for kernel in KERNELS:
            for a, b, tolerance, close in ((16777217, 16777216, exact, False), (16777217, 16777217, exact, True),
                                           (2**53 + 1, 2**53, exact, False), (-2**63, 2**63 - 1, {"rtol": 0.0, "atol": 1e18}, False),
                                           (2**53 + 1, 2**53, {"rtol": 0.0, "atol": 1.0}, True), (10, 11, {"rtol": 0.1, "atol": 0.0}, True),
                                           (3, 5, {"rtol": 0.0, "atol": 1.5}, False), (-3, -2, {"rtol": 0.5, "atol": 0.0}, True)):
                inputs = {"self": np.full(20, a, np.int64), "other": np.full(20, b, np.int64)}
                self.is_answered("isclose", inputs, {**tolerance, "kernel": kernel}, [close] * 20)
            small = {"self": np.array([250, 3], np.uint8), "other": np.array([3, 250], np.uint8)}
            self.is_answered("isclose", small, {"rtol": 0.0, "atol": 10.0, "kernel": kernel}, [False, False])
        self.is_answered("isclose", {"self": u64(WIDE, 2**63), "other": u64(WIDE - 1, 2**63)}, exact, [False, True])

    def test_middles_and_modes(self):
        both = lambda *call: self.service.infer(*call, binary=True).outputs
        real = lambda *x: np.array(x, np.float32)
        for kernel in KERNELS:
            how = {"kernel": kernel}
            for x, middle, known in ((real(2, 1, 4, 3), 2, 2), (real(NAN, 3, 1), NAN, 1), (real(NAN, NAN), NAN, NAN), (real(5), 5, 5),
                                     (real(INF, -INF, NAN), NAN, -INF), (u64(WIDE, 3), 3, 3)):
                self.is_answered("median", {"self": x}, how, middle, x.dtype)
                self.is_answered("nanmedian", {"self": x}, how, known, x.dtype)
            rows = np.array([[NAN, NAN, 3], [1, NAN, 0], [2, 2, 1]])
            for op, values, places in (("nanmedian.dim", [3, 0, 2], [2, 2, 0]), ("median.dim", [NAN, NAN, 2], [0, 1, 0]), ("mode", [3, 0, 2], [2, 2, 1])):
                got = both(op, {"self": rows}, {"dim": 1, **how})
                np.testing.assert_array_equal(got["values"], values)
                np.testing.assert_array_equal(got["indices"], places)
            for x, value, place in ((real(1, 2, 2, 3, 3), 2, 2), (real(0, -0.0, 0, 1, -0.0), 0, 4), (real(NAN, NAN, NAN), NAN, 0), (u64(WIDE, 1, WIDE), WIDE, 2),
                                    (np.array([True, False, True]), True, 2), (np.array(7, np.int8), 7, 0), (np.tile([4, 9, 4], 700), 4, 2099)):
                got = both("mode", {"self": x}, how)
                np.testing.assert_array_equal([got["values"], got["indices"]], [np.array(value, x.dtype), place])
        for op in "median", "nanmedian":
            self.is_answered(op, {"self": np.zeros((2, 0), np.float32)}, {}, NAN)
            self.is_refused(op, {"self": np.zeros(0, np.int32)}, {}, "self", "no elements", "INT32")
            self.is_refused(op + ".dim", {"self": np.zeros((2, 0))}, {"dim": 1}, "no elements")
        self.is_refused("mode", {"self": np.zeros((2, 0))}, {}, "no elements")
        self.is_refused("mode", {"self": real(1)}, {"dim": 1}, "dim")
        self.assertEqual([one.shape for one in both("mode", {"self": np.zeros((0, 2))}, {}).values()], [(0,), (0,)])

    def test_scalars_of_uint64(self):
        u = u64(2**64 - 6, 3)
        for op, wanted in (("mul", u64(6, 2**64 - 3)), ("add", u64(2**64 - 7, 2)), ("bitwise_and", u), ("eq", [False, False]),
                           ("lt", [True, True]), ("ge", [False, False])):
            self.is_answered(op, {"self": u}, {"other": WIDE}, wanted)
        self.is_answered("eq", {"self": u}, {"other": 2**64 - 6}, [True, False])
        self.is_answered("full", {}, {"size": [2], "fill_value": WIDE, "dtype": "UINT64"}, u64(WIDE, WIDE), np.uint64)
        self.is_answered("full_like", {"self": u}, {"fill_value": 2**63}, u64(2**63, 2**63))
        self.is_answered("full", {}, {"size": [1], "fill_value": WIDE, "dtype": "FP32"}, [np.float32(2**64)])
        self.is_answered("fill", {"self": u}, {"value": WIDE}, u64(WIDE, WIDE))
        self.is_answered("masked_fill", {"self": u, "mask": np.array([True, False])}, {"value": WIDE}, u64(WIDE, 3))
        self.is_answered("constant_pad_nd", {"self": u}, {"pad": [1, 0], "value": 2**63}, u64(2**63, 2**64 - 6, 3))
        self.is_answered("add", {"self": np.array([1], np.float32)}, {"other": WIDE}, [np.float32(2**64)])
        self.is_answered("eq", {"self": np.array([1], np.float32)}, {"other": WIDE}, [False])
        self.is_answered("searchsorted.Scalar", {"sorted_sequence": np.array([1, 2**63 - 1], np.int64)}, {"self": WIDE}, 2)
        for op, inputs, parameters, words in (
                ("add", {"self": np.array([1])}, {"other": WIDE}, ("other", "18446744073709551615", "INT64")),
                ("eq", {"self": np.array([1])}, {"other": WIDE}, ("other", "INT64")),
                ("clamp", {"self": u}, {"max": WIDE}, ("max", "INT64")),
                ("full", {}, {"size": [1], "fill_value": WIDE}, ("fill_value", "INT64")),
                ("arange", {}, {"start": 0, "end": WIDE}, ("end", "INT64")),
                ("sum", {"self": np.array([1])}, {"dim": WIDE}, ("dim",)),
                ("softmax", {"self": np.array([1], np.float32)}, {"dim": WIDE}, ("dim", "INT64")),
                ("add", {"self": u}, {"other": 2**64}, ("other", "UINT64"))):
            self.is_refused(op, inputs, parameters, *words)

    def test_edges_of_parts(self):
        """The step is rounded, and then each edge, once: so no edge of these is 0."""
        for bins, ends, dtype, middle in ((6, [-1, 1], np.float32, -(2**-25)), (9, [-1, 2], np.float32, 2**-25), (6, [-1, 1], np.float64, 2**-54)):
            edges = self.both("histogram", {"self": np.zeros(1, dtype)}, {"bins": bins, "range": ends})["bin_edges"]
            self.assertEqual(edges[3], middle, edges)

    def test_windows_at_fractions(self):
        image, pool = np.arange(6 * 7, dtype=np.float32).reshape(1, 6, 7), "fractional_max_pool2d"
        for sample, rows, columns in ((0.3, [1, 3, 5], [1, 4, 6]), (0, [1, 3, 5], [1, 3, 6]), (-1e30, [1, 1, 5], [1, 1, 6]), (NAN, [1, 1, 5], [1, 1, 6])):
            got = self.both(pool, {"self": image, "random_samples": np.full((1, 1, 2), sample, np.float32)}, {"kernel_size": 2, "output_size": 3})
            if sample >= 0: # else in any place inside
                np.testing.assert_array_equal(got["out1"][0], np.add.outer(np.array(rows) * 7, columns))
            np.testing.assert_array_equal(got["out0"], got["out1"])
        half = np.full((1, 1, 2), 0.5, np.float32)
        hole = image.copy()
        hole[0, 0, 0] = hole[0, 1, 0] = NAN
        self.assertEqual(self.both(pool, {"self": hole, "random_samples": half}, {"kernel_size": [6, 2], "output_size": [1, 6]})["out1"][0, 0, 0], 7)
        for kernel, size, words in ((2, 6, ("6 windows of 2",)), ([0, 2], 3, ("kernel_size",)), (2, [-1, 3], ("output_size",)), ([2**62] * 2, [2**62] * 2, ("fit",))):
            self.is_refused(pool, {"self": image, "random_samples": half}, {"kernel_size": kernel, "output_size": size}, *words)
        for samples in half[0], half[:0], half[..., :1], half.astype(np.float64):
            self.is_refused(pool, {"self": image, "random_samples": samples}, {"kernel_size": 2, "output_size": 3}, "random_samples")
        self.is_refused(pool, {"self": image[:, :0], "random_samples": half}, {"kernel_size": 2, "output_size": 3}, "self", "no elements")

    def test_fractions_beside_integers_are_cut(self):
        m, v = np.array([[1, 2], [3, 4]]), np.array([1, 2])
        square = np.array([[7, 10], [15, 22]])
        for kernel in KERNELS:
            for beta, alpha, wanted in ((0.5, 1, square), (1, 0.5, m), (1.5, 2, m + 2 * square), (0.5, 0.5, 0 * m), (-0.5, 1, square)):
                scales = {"beta": beta, "alpha": alpha, "kernel": kernel}
                for dtype in (np.int64, np.int32, np.uint8):
                    a = m.astype(dtype)
                    for op, inputs, result in (
                            ("addmm", {"self": a, "mat1": a, "mat2": a}, wanted),
                            ("baddbmm", {"self": a[None], "batch1": a[None], "batch2": a[None]}, wanted[None]),
                            ("addmv", {"self": v.astype(dtype), "mat": a, "vec": v.astype(dtype)},
                             int(beta) * v + int(alpha) * np.array([5, 11]))):
                        if kernel == "ref" or self.service.infer(op, inputs, scales).status == 200: # not every row takes integers
                            self.is_answered(op, inputs, scales, result, dtype)
            x = np.array([-3, -1, 0, 1, 5])
            kernels = {"kernel": kernel}
            for low, high, wanted in ((-0.5, 0.5, 0 * x), (-1.5, 2.5, [-1, -1, 0, 1, 2]), (-2, 2.5, [-2, -1, 0, 1, 2]), (0.5, 1.5, [0, 0, 0, 1, 1])):
                self.is_answered("hardtanh", {"self": x}, {"min_val": low, "max_val": high, **kernels}, wanted, np.int64)
            self.is_answered("threshold", {"self": x}, {"threshold": 1, "value": 2.5, **kernels}, [2, 2, 2, 2, 5], np.int64)
            self.is_answered("addcmul", {"self": x, "tensor1": x, "tensor2": x}, {"value": 0.5, **kernels}, x, np.int64)
        for name, value in (("min_val", "NaN"), ("max_val", 1e300), ("min_val", "-Infinity")):
            self.is_refused("hardtanh", {"self": x}, {name: value}, name, "INT64")
        self.is_refused("addmv", {"self": v, "mat": m, "vec": v}, {"beta": "NaN"}, "beta", "INT64")
        for op in ("add", "sub", "rsub"): # PyTorch refuses these, too
            self.is_refused(op, {"self": x, "other": x}, {"alpha": 0.5}, "alpha", "integer")

    def test_empty_indices_of_any_type(self):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for dtype in (np.uint8, np.int8, np.int16, np.float32, np.bool_, np.uint64):
            index = np.zeros((0, 3), dtype)
            self.is_answered("gather", {"self": x, "index": index}, {"dim": 0}, np.zeros((0, 3)))
            self.is_answered("gather", {"self": x, "index": np.zeros((2, 0), dtype)}, {"dim": 0}, np.zeros((2, 0)))
            for op, more, parameters in (("scatter", {"src": x}, {}), ("scatter", {}, {"value": 1.0}), ("scatter_add", {"src": x}, {}),
                                         ("scatter_reduce.two", {"src": x}, {"reduce": "sum"}), ("scatter.reduce", {"src": x}, {"reduce": "add"})):
                self.is_answered(op, {"self": x, "index": index, **more}, {"dim": 0, **parameters}, x)
            self.is_refused("gather", {"self": x, "index": np.zeros((1, 3), dtype)}, {"dim": 0}, "index", "INT64")
            self.is_refused("index_select", {"self": x, "index": np.zeros(0, dtype)}, {"dim": 0}, "index", "INT64")

    def test_histc_where_a_type_ends(self):
        """Places are quotients of the elements' type, by limits as it has them."""
        large = {"bins": 2**24 + 3, "min": 0, "max": 1} # FP32 has no such number of parts
        got = self.out("histc", {"self": np.array([1, 0, 1], np.float32)}, large)
        self.assertEqual((got.shape, got[0], got[-1], got.sum()), ((2**24 + 3,), 1, 2, 3))
        for dtype, end in ((np.float32, 3e38), (np.float64, 1.7e308)):
            for x, limits, wanted in (([0.1], (0, 0.1), [0, 0, 0, 1]), ([5, 5], (0, 0), [0, 0, 2, 0]), ([1e30, 1e30], (0, 0), [0, 0, 2, 0]),
                                      ([1, end], (-end, end), [0, 0, 1, 1]), ([-end, 1, end], (0, 0), [1, 0, 1, 1]),
                                      ([0.3 * end], (0, end), [0, 1, 0, 0])):
                self.is_answered("histc", {"self": np.array(x, dtype)}, {"bins": 4, "min": limits[0], "max": limits[1]}, wanted, dtype)
        self.is_refused("histc", {"self": np.array([1], np.float32)}, {"bins": 4, "min": -1e300, "max": 1e300}, "min, max", "FP32")
        self.is_refused("histc", {"self": np.array([1, INF], np.float32)}, {"bins": 4}, "self", "not finite")

    def test_histogram_at_its_edges(self):
        x = np.array([1, 2, 1, 0, 3, 2.5], np.float32)
        for more, parameters, hist, edges in (
                ({}, {"bins": 4}, [1, 2, 1, 2], [0, 0.75, 1.5, 2.25, 3]), ({}, {"bins": 3, "range": [1.0, 1.0]}, [0, 2, 0], [0.5, 5 / 6, 7 / 6, 1.5]),
                ({"weight": np.array([0, 1, 2, 4, 8, 16], np.float32)}, {"bins": 4}, [4, 2, 1, 24], [0, 0.75, 1.5, 2.25, 3]),
                ({}, {"bins": 2, "range": [5.0, 6.0], "density": True}, [NAN, NAN], [5, 5.5, 6]), ({}, {"bins": 1}, [6], [0, 3])):
            got = self.both("histogram.bin_ct", {"self": x, **more}, parameters)
            np.testing.assert_array_equal(got["hist"], hist)
            np.testing.assert_allclose(got["bin_edges"], edges, 1e-7)
        for bins, hist in (([0, 1, 2, 3], [1, 2, 3]), ([3, 1, 2], [0, 0]), ([1, 1, 2, 2], [0, 2, 1]), ([0, NAN, 2], [0, 4])):
            got = self.both("histogram.bins_tensor", {"self": x, "bins": np.array(bins, np.float32)}, {})
            np.testing.assert_array_equal(got["hist"], hist)
        empty = self.both("histogram.bin_ct", {"self": np.zeros((2, 0))}, {"bins": 2})
        self.assertEqual((empty["hist"].tolist(), empty["bin_edges"].tolist()), ([0, 0], [0, 0.5, 1]))
        for parameters, words in (({"bins": 0}, ("bins", "from 1")), ({"bins": 2**31 - 1}, ("bins", "from 1")), ({"range": [2.0, 1.0]}, ("range", "finite")),
                                  ({"range": [1.0]}, ("range", "two")), ({"range": [0.0, 1e39]}, ("range", "FP32"))):
            self.is_refused("histogram.bin_ct", {"self": x}, parameters, *words)
        self.is_refused("histogram.bin_ct", {"self": np.array([1, NAN])}, {}, "self", "not finite")
        self.is_refused("histogram.bin_ct", {"self": x, "weight": x[:5]}, {}, "weight", "elements")
        self.is_refused("histogram.bins_tensor", {"self": x, "bins": x.astype(np.float64)}, {}, "bins", "FP32")
        self.is_refused("histogram.bins_tensor", {"self": x, "bins": x[:1]}, {}, "bins", "two edges")
        self.is_refused("histogram.bins_tensor", {"self": x.astype(np.int64), "bins": x}, {}, "INT64")

    def test_factors_at_their_edges(self):
        a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
        got = self.both("linalg_lu_factor_ex", {"A": a}, {})
        np.testing.assert_array_equal(got["LU"], [[4, 5, 6], [0.25, 0.75, 1.5]])
        self.assertEqual((got["pivots"].tolist(), got["info"].item()), ([2, 2], 0))
        parts = self.both("linalg_lu", {"A": a}, {})
        for pivots, data in ((True, True), (False, True), (True, False)):
            again = self.both("lu_unpack", {"LU_data": got["LU"], "LU_pivots": got["pivots"]}, {"unpack_pivots": pivots, "unpack_data": data})
            for name, one in again.items():
                wanted = parts[name] if (pivots if name == "P" else data) else np.zeros(0)
                np.testing.assert_array_equal(one, wanted)
        none = self.both("linalg_lu_factor_ex", {"A": np.zeros((2, 2, 2))}, {})
        self.assertEqual((none["pivots"].tolist(), none["info"].tolist()), ([[1, 2], [1, 2]], [1, 1]))
        self.assertEqual([one.shape for one in self.both("linalg_lu", {"A": np.zeros((3, 0))}, {}).values()], [(3, 3), (3, 0), (0, 0)])
        for pivots in ([0, 1], [3, 1], [-2**31, 1]):
            self.is_refused("lu_unpack", {"LU_data": a, "LU_pivots": np.array(pivots, np.int32)}, {}, "LU_pivots", "from 1 to 2")
        self.is_refused("lu_unpack", {"LU_data": a, "LU_pivots": np.array([1], np.int32)}, {}, "LU_pivots", "2 for each")
        self.is_refused("linalg_lu", {"A": a}, {"pivot": False}, "pivot", "CPUs")
        self.is_refused("linalg_lu_factor_ex", {"A": a}, {"check_errors": True}, "check_errors")
        self.is_refused("linalg_lu", {"A": a[0]}, {}, "A", "two or more")

    def test_grid_sampler_where_a_place_is_no_number(self):
        plane = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
        places = np.array([[NAN, 0], [0, NAN], [NAN, NAN], [INF, 0], [-INF, 0], [0, INF], [0.25, -0.5]], np.float32).reshape(1, 1, 7, 2)
        first, last = [4, 2, 1, 4, 4, 2], [4, 2, 1, 6, 4, 8]
        wanted = {(0, 0): [NAN] * 6 + [3.75], (0, 1): last + [3.75], (0, 2): first + [3.75],
                  (1, 0): [0] * 6 + [2], (1, 1): last + [2], (1, 2): first + [2],
                  (2, 0): [NAN] * 6 + [3.9276123046875], (2, 1): [NAN] * 6 + [3.55078125], (2, 2): [NAN] * 6 + [3.3046875]}
        for kernel in KERNELS:
            for (mode, padding), right in wanted.items():
                for dtype in (np.float32, np.float64):
                    got = self.out("grid_sampler_2d", {"input": plane.astype(dtype), "grid": places.astype(dtype)},
                                   {"interpolation_mode": mode, "padding_mode": padding, "align_corners": True, "kernel": kernel})
                    np.testing.assert_allclose(got.ravel(), right, 1e-6, err_msg=f"{mode} {padding} {kernel}")
            space = np.arange(1, 28, dtype=np.float32).reshape(1, 1, 3, 3, 3)
            places3 = np.array([[NAN, 0, 0], [0, NAN, 0], [0, 0, NAN], [INF, 0, 0], [-INF, 0, 0], [0, INF, 0], [0, 0, INF]],
                               np.float32).reshape(1, 1, 1, 7, 3)
            wanted3 = ([0] * 7, [15, 17, 23, 15, 13, 17, 23], [15, 17, 23, 15, 15, 17, 23])
            for mode in (0, 1):
                for padding, right in enumerate(wanted3):
                    got = self.out("grid_sampler_3d", {"input": space, "grid": places3},
                                   {"interpolation_mode": mode, "padding_mode": padding, "align_corners": True, "kernel": kernel})
                    np.testing.assert_array_equal(got.ravel(), right, f"{mode} {padding} {kernel}")

    def test_sums_of_8_bits_wrap(self):
        """Sums of products beyond INT32, and lanes beyond the last channel: a sanitizer would see that signed ones overflow."""
        side, one = 190, np.float32(1)
        x, w, zero = np.full((1, side, side, 1), 255, np.uint8), np.full((1, 1, side, side), 255, np.uint8), np.uint8(0)
        wanted = (side * side * 255 * 255) - (1 << 32)
        self.assertLess(wanted, 0)
        kernels = {k["op"]: k["implementations"] for k in self.service.call("GET", "/v1/kernels").json["kernels"]}
        for row in sorted({f"{i['name']}@{i['level']}" for i in kernels["qlinear_conv"] if i["name"] in ("ref", "simd") and i["resolved"]}):
            got = self.service.op("qlinear_conv", {"x": x, "x_scale": one, "x_zero_point": zero, "w": w, "w_scale": one, "w_zero_point": zero,
                                                   "y_scale": np.float32(1 << 25), "y_zero_point": np.int8(0)}, {"kernel": row}, binary=True)
            self.assertEqual(got.tolist(), [[[[round(wanted / (1 << 25))]]]], row)

    def test_infinities_behind_relu(self):
        """A plan's convolutions and linears, whose library takes what follows: 0 of -infinity, and NaN of NaN."""
        x = np.random.default_rng(5).standard_normal((1, 16, 12, 12)).astype(np.float32)
        x[0, 0, 0, :3] = -INF, NAN, INF
        weights = [{"name": "k", "datatype": "FP32", "shape": [16, 16, 1, 1], "data": [1] * 256},
                   {"name": "w", "datatype": "FP32", "shape": [64, 12], "data": [1] * 768}]
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 16, 12, 12]}], "constants": weights,
                "expr": "y = relu(conv2d(x, k)); z = relu(linear(x, w))"}
        self.assertEqual(self.service.call("PUT", "/v1/models/behind", body).status, 201)
        row = x[0, 0, 0].copy()
        for first, wanted in ((-INF, 0), (NAN, NAN), (INF, INF)):
            x[0, 0, 0] = [first, *row[3:], 1, 1, 1][:12]
            for _ in range(3): # walked, recorded, by its plan
                out = self.service.infer("behind", {"x": x}, path="/v2/models/{}/infer", binary=True).outputs
                np.testing.assert_array_equal(out["y"][0, :, 0, 0], [wanted] * 16)
                np.testing.assert_array_equal(out["z"][0, 0, 0], [wanted] * 64)
        self.assertEqual(self.service.call("DELETE", "/v1/models/behind").status, 204)

    def test_infinity_stays_infinity(self):
        """Of rows of odd and even lengths, whose elements the kernels of short types take in pairs."""
        for depth in (1, 2, 3, 5, 8, 17, 33):
            for at in {0, depth - 1}:
                a, b = np.ones((3, depth), np.float32), np.ones((depth, 8), np.float32)
                a[1, at] = np.inf
                want = np.full((3, 8), depth, np.float32)
                want[1] = np.inf
                for short in (service.BF16, np.float16):
                    x, y = (short(v.tolist()) if short is service.BF16 else short(v) for v in (a, b))
                    for kernel in ("onednn", "amx", "simd", "ref", None):
                        reply = self.service.infer("mm", {"self": x, "mat2": y}, {"kernel": kernel} if kernel else {})
                        if reply.status == 200:
                            got = np.array(reply.json["outputs"][0]["data"], np.float32).reshape(3, 8)
                            np.testing.assert_array_equal(got, want, f"{kernel} {depth} {at}")
                        else:
                            self.assertIn("cannot run", reply.json["detail"])
                            self.assertIsNotNone(kernel)

    def test_nan_stays_nan(self):
        """Every pointwise function of one operand, of every number of BF16 and FP16: NaN gives NaN."""
        to_number = {"sign", "sgn", "nan_to_num"}
        bits = np.arange(65536, dtype=np.uint16)
        tried = 0
        for op in self.service.call("GET", "/v1/ops").json["ops"]:
            if not op["schema"].split("(")[1].startswith("Tensor self)") or not op["schema"].endswith("-> Tensor"):
                continue
            for datatype in ("BF16", "FP16"):
                if datatype not in op["dtypes"] or op["name"] in to_number:
                    continue
                x = service.BF16.of_bits(bits) if datatype == "BF16" else bits.view(np.float16)
                reply = self.service.infer(op["name"], {"self": x}, {}, binary=True)
                if reply.status != 200 or (reply.json["outputs"][0]["datatype"], reply.json["outputs"][0]["shape"]) != (datatype, [65536]):
                    continue
                got, came = (y.values if datatype == "BF16" else y for y in (reply.out, x))
                self.assertTrue(np.isnan(got[np.isnan(came)]).all(), f"{op['name']} {datatype}")
                tried += 1
        self.assertGreater(tried, 80)


class Autocast(service.ServiceTest):
    """PyTorch's lists for CPUs, and what the answer says."""

    def post(self, op, inputs, parameters=None, autocast="BF16", **more):
        reply = self.service.infer(op, inputs, {**(parameters or {}), "autocast": autocast, **more})
        self.assertEqual(reply.status, 200, f"{op} {reply.body[:300]!r}")
        return reply.json["outputs"][0]["datatype"], reply.parameters["autocast"], reply

    def test_lower_precision(self): # DSP-28
        def ones(*shape):
            return np.ones(shape, np.float32)
        m, b, image = ones(2, 2), ones(1, 2, 2), ones(1, 1, 4, 4)
        for op, inputs, parameters in (
                ("matmul", {"self": m, "other": m}, {}), ("mm", {"self": m, "mat2": m}, {}), ("bmm", {"self": b, "mat2": b}, {}),
                ("addmm", {"self": m, "mat1": m, "mat2": m}, {}), ("baddbmm", {"self": b, "batch1": b, "batch2": b}, {}),
                ("linear", {"input": m, "weight": m}, {}), ("prelu", {"self": m, "weight": ones(1)}, {}),
                ("conv1d", {"input": ones(1, 1, 4), "weight": ones(1, 1, 2)}, {}), ("conv2d", {"input": image, "weight": ones(1, 1, 2, 2)}, {}),
                ("conv3d", {"input": ones(1, 1, 3, 3, 3), "weight": ones(1, 1, 2, 2, 2)}, {}),
                ("conv_transpose1d", {"input": ones(1, 1, 4), "weight": ones(1, 1, 2)}, {}),
                ("conv_transpose2d.input", {"input": image, "weight": ones(1, 1, 2, 2)}, {}),
                ("conv_transpose3d.input", {"input": ones(1, 1, 3, 3, 3), "weight": ones(1, 1, 2, 2, 2)}, {}),
                ("einsum", {"tensors.0": m, "tensors.1": m}, {"equation": "ij,jk->ik"}),
                ("scaled_dot_product_attention", {"query": image, "key": image, "value": image}, {})):
            for asked in ("BF16", "FP16"):
                self.assertEqual(self.post(op, inputs, parameters, asked)[:2], (asked, asked), op)
            wide = {name: x.astype(np.float64) for name, x in inputs.items()}
            self.assertEqual(self.post(op, wide, parameters)[:2], ("FP64", "none"), op)

    def test_einsum_computes(self):
        a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8]], np.float32)
        for kernel in ({}, {"device": "refcpu"}):
            reply = self.post("einsum", {"tensors.0": a, "tensors.1": b}, {"equation": "ij,jk->ik", **kernel})[2]
            self.assertEqual(reply.json["outputs"][0]["data"], [19, 22, 43, 50])
            self.assertEqual(reply.parameters["compute_type"], "BF16") # its operands' conversions do not count

    def test_compute_type_of_parts(self):
        x = np.ones(4, np.float32)
        for expr, said in (("relu(x) + 1", "FP32"), ("relu(cast(x, FP64)) + 1", "FP64"), ("cast(x, FP64)", "FP32"),
                           ("relu(x) + relu(cast(x, FP64))", None)):
            reply = self.service.infer("", {"x": x}, path="/v1/eval", expr=expr)
            self.assertEqual(reply.status, 200, reply.body[:300])
            self.assertEqual(reply.parameters.get("compute_type"), said, expr)

    def test_fp32_and_widest(self):
        short, single = service.BF16([2, 3]), np.array([2, 3], np.float32)
        self.assertEqual(self.post("prod", {"self": short})[:2], ("FP32", "FP32"))
        self.assertEqual(self.post("cat", {"tensors.0": short, "tensors.1": single}, {"dim": 0})[:2], ("FP32", "FP32"))
        self.assertEqual(self.post("cat", {"tensors.0": short, "tensors.1": short}, {"dim": 0})[:2], ("BF16", "BF16"))
        self.assertEqual(self.post("cat", {"tensors.0": short, "tensors.1": single}, {"dim": 0})[2].json["outputs"][0]["data"], [2, 3, 2, 3])

    def test_what_stayed_is_told(self):
        m = np.ones((2, 2), np.float32)
        datatype, said, reply = self.post("add", {"self": m, "other": m}, explain=True)
        self.assertEqual((datatype, said), ("FP32", "none"))
        self.assertEqual(reply.parameters["explain"]["autocast"], {"asked": "BF16", "policy": "none", "type": "none"})
        explained = self.post("mm", {"self": m, "mat2": m}, explain=True)[2].parameters["explain"]
        self.assertEqual(explained["autocast"], {"asked": "BF16", "policy": "lower", "type": "BF16"})
        reply = self.service.call("POST", "/v1/ops/add", {"self": [1.5], "other": [1.5], "autocast": "BF16"})
        self.assertEqual((reply.json["out"], reply.parameters["autocast"]), ([3], "none"))
        self.assertNotIn("autocast", self.service.infer("add", {"self": m, "other": m}).parameters)


if __name__ == "__main__":
    service.main()
