"""NumPy's word on the quantizing operators: {operator: (formula, calls, result, scale, datatype)}, as
tests/pointwise.py has them for the pointwise ones. Each step is in FP32, as the definition has it."""
import numpy as np

import index
import linalg

F = np.float32
TO = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-300, 300)}


def along(input, numbers, axis):
    """One number a size of dimension axis."""
    shape = [1] * input.ndim
    shape[axis] = -1
    return F(numbers).reshape(shape)


def quantize(input, scale, zero_point, quant_min, quant_max, **_):
    with np.errstate(all="ignore"):
        y = np.rint(input.astype(F) * (F(1) / F(scale))) + F(zero_point)
    return np.trunc(np.where(y > quant_min, np.minimum(y, quant_max), quant_min)).astype(np.int64)


def dequantize(input, scale, zero_point, out_dtype=None, **_):
    return ((input.astype(F) - F(zero_point)) * F(scale)).astype(np.float64)


def by_channel(formula):
    def run(input, scales, axis, zero_points=0, **how):
        zero = along(input, zero_points, axis) if np.ndim(zero_points) else 0
        return formula(input, along(input, scales, axis), zero, **how)
    return run


def dynamic(x):
    low, high = min(x.min(initial=0), 0), max(x.max(initial=0), 0)
    scale = (F(high) - F(low)) / F(255) or F(1)
    zero = np.clip(np.rint(-F(low) / scale), 0, 255)
    return np.clip(np.rint(x.astype(F) / scale) + zero, 0, 255).astype(np.int64), np.float64(scale), np.int64(zero)


def made(_, parameters):
    return parameters["dtype"]


def back(_, parameters):
    return parameters.get("out_dtype", "FP32")


def limits(name, **more):
    return {"quant_min": TO[name][0], "quant_max": TO[name][1], "dtype": name, **more}


class Bytes(linalg.Matrix):
    by, kind = staticmethod(lambda rng, shape: rng.integers(0, 256, shape)), np.uint8


class Numbers(linalg.Matrix):
    by, kind = staticmethod(lambda rng, shape: rng.integers(-128, 128, shape)), np.int8


class Reals(linalg.Matrix):
    by, kind = staticmethod(lambda rng, shape: rng.normal(0, 1, shape)), F


def unpacked(x, bits):
    return np.stack([x >> shift & (1 << bits) - 1 for shift in range(0, 8, bits)], -1).reshape(*x.shape[:-1], -1)


def linear_bits(weight, scales, input, zero_points=None, bias=0, bits=4):
    zero = 2 ** (bits - 1) if zero_points is None else unpacked(zero_points, bits)[:, :scales.shape[1], None]
    w = (unpacked(weight, bits) - zero) * scales[..., None]
    return input @ w.reshape(len(w), -1)[:, :input.shape[-1]].T + bias


def linear_scaled(input, weight, scale, bias=0):
    scale = np.repeat(scale, weight.shape[1] // scale.shape[1], 1) if np.ndim(scale) == 2 else column(scale)
    return input @ (weight.astype(F) * scale).T + bias


def dense_scaled(input, weight, scale, bias=0):
    return linear_scaled(input, weight.T, np.transpose(scale), bias)


BLOCKS = [({"weight": Bytes((5, 3, 16)), "scales": Reals((5, 3)), "input": Reals((6, 90))}, {}),
          ({"weight": Bytes((5, 3, 32)), "scales": Reals((5, 3)), "input": Reals((2, 3, 96)), "zero_points": Bytes((5, 3)), "bias": Reals((5,))}, {"bits": 8}),
          ({"weight": Bytes((6, 5, 4)), "scales": Reals((6, 5)), "input": Reals((3, 78)), "zero_points": Bytes((6, 2))}, {"bits": 2}),
          ({"weight": Bytes((4, 3, 8)), "scales": Reals((4, 3)), "input": Reals((2, 40)), "zero_points": Bytes((4, 2))}, {})]
PLAIN = [({"input": (300,)}, limits(name, scale=0.05, zero_point=zero)) for name, zero in (("INT8", -3), ("UINT8", 128), ("INT16", 7))]
CHANNELS = [({"input": (3, 4, 50), "scales": (3,), "zero_points": (3,)}, limits("INT8", axis=0)),
            ({"input": (3, 40), "scales": (40,), "zero_points": (40,)}, limits("UINT8", axis=-1))]
EIGHT = [({"input": (300,)}, limits("INT8", scale=0.05, zero_point=-3)), ({"input": (2, 9)}, limits("INT8", scale=0.25, zero_point=0, out_dtype="FP64")),
         ({"input": (70,)}, limits("INT8", scale=0.25, zero_point=1, out_dtype="BF16"))]
EIGHT_CHANNELS = [({"input": (3, 4, 50), "scales": (3,), "zero_points": (3,)}, limits("INT8", axis=0)),
                  ({"input": (3, 40), "scales": (40,)}, limits("INT8", axis=1, zero_points=None, out_dtype="BF16"))]

class Real(index.Below):
    """The shape of an FP32 argument, numbers that can be scales."""
    def draw(self, rng):
        return np.asarray(rng.uniform(0.02, 0.3, self), F)


class Half(Real):
    """The same in FP16."""
    def draw(self, rng):
        return super().draw(rng).astype(np.float16)


def real(*shape):
    return Real(shape, 0)


def column(rows):
    return np.reshape(rows, (-1, 1)) if np.ndim(rows) else rows


def matmul_integer(A, B, a_zero_point=0, b_zero_point=0):
    return (A - column(a_zero_point)) @ (B - b_zero_point)


def matmul_integer_to_float(A, B, a_scale, b_scale, a_zero_point=0, b_zero_point=0, bias=0):
    sums = matmul_integer(A, B, a_zero_point, b_zero_point).astype(F)
    return (sums * (column(a_scale.astype(F)) * b_scale.astype(F)) + F(bias)).astype(np.float64)


def qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, bias=0):
    low, high = (-128, 127) if np.min(a) < 0 else (0, 255) # as INT8 is drawn, or UINT8
    sums = (matmul_integer(a, b, a_zero_point, b_zero_point) + bias).astype(F)
    scale = column(a_scale.astype(F)) * b_scale.astype(F) / y_scale.astype(F)
    return np.clip(np.rint(sums * scale) + y_zero_point, low, high).astype(np.int64)


def conv_integer(x, x_zero_point, w, w_zero_point, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1):
    x = np.pad(x - x_zero_point, ((0, 0), padding[::2], padding[1::2], (0, 0)))
    w = w - np.reshape(w_zero_point, (-1, 1, 1, 1))
    (n, h, wide, c), (o, each, kh, kw) = x.shape, w.shape
    rows, cols = ((h, wide)[d] - dilation[d] * ((kh, kw)[d] - 1) - 1 for d in (0, 1))
    sums = np.zeros((n, rows // stride[0] + 1, cols // stride[1] + 1, o), np.int64)
    for i in range(kh):
        for j in range(kw):
            part = x[:, i * dilation[0]:, j * dilation[1]:][:, :rows + 1:stride[0], :cols + 1:stride[1]]
            for g in range(groups):
                of = slice(g * (o // groups), (g + 1) * (o // groups))
                sums[..., of] += part[..., g * each:(g + 1) * each] @ w[of, :, i, j].T
    return sums


def qlinear_conv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B=0, **how):
    low, high = (-128, 127) if np.min(x) < 0 else (0, 255) # as INT8 is drawn, or UINT8
    sums = (conv_integer(x, x_zero_point, w, w_zero_point, **how) + B).astype(F)
    y = np.rint(sums * (x_scale.astype(F) * w_scale.astype(F) / y_scale.astype(F))) + y_zero_point
    return np.clip(y, low, high).astype(np.int64)


def conv_integer_to_float(x, x_scale, x_zero_point, w, w_scale, w_zero_point, B=0, **how):
    sums = conv_integer(x, x_zero_point, w, w_zero_point, **how).astype(F)
    return (sums * (x_scale.astype(F) * w_scale.astype(F)) + F(B)).astype(np.float64)


PRODUCTS = [({"A": (5, 7), "B": (7, 40)}, {}), ({"A": (2, 20, 33), "B": (33, 70), "a_zero_point": (), "b_zero_point": ()}, {}),
            ({"A": (2, 1, 9, 40), "B": (3, 40, 5), "a_zero_point": (9,), "b_zero_point": (5,)}, {}), ({"A": (3, 0), "B": (0, 4)}, {})]
ROUNDED = [({"a": (*batch, 20, 40), "a_scale": rows, "a_zero_point": tuple(rows), "b": (40, 33), "b_scale": cols,
             "b_zero_point": tuple(cols), "y_scale": real(), "y_zero_point": ()}, {})
           for batch, rows, cols in (((), real(), real()), ((2,), real(20), real(33)))]

ROUNDED += [({**ROUNDED[0][0], "bias": index.Narrow((33,), 900)}, {})]
FLOATS = [({"A": (20, 40), "B": (40, 33), "a_scale": real(), "b_scale": real(33), "a_zero_point": (), "b_zero_point": (33,), "bias": real(33)}, {}),
          ({"A": (3, 5, 130), "B": (130, 70), "a_scale": real(), "b_scale": real()}, {}),
          ({"A": (2, 1, 9, 40), "B": (3, 40, 5), "a_scale": real(9), "b_scale": real(5), "a_zero_point": (9,), "bias": real(5)}, {})]
ROUNDED += [({name: Half(shape, 0) if isinstance(shape, Real) else shape for name, shape in shapes.items()}, p) for shapes, p in ROUNDED]

SCALED = [({"input": Reals((20, 40)), "weight": Numbers((33, 40)), "scale": real(33), "bias": real(33)}, {}),
          ({"input": Reals((2, 3, 300)), "weight": Numbers((17, 300)), "scale": real(17)}, {}),
          ({"input": Reals((5,)), "weight": Numbers((70, 5)), "scale": real()}, {}), ({"input": Reals((7, 320)), "weight": Numbers((37, 320)), "scale": real(37, 10)}, {})]
DENSE_SCALED = [({**tensors, "weight": Numbers(tensors["weight"][::-1]), "scale": real(*tensors["scale"][::-1])}, parameters) for tensors, parameters in SCALED]

CONVOLUTIONS = [({"x": x, "x_scale": real(), "x_zero_point": (), "w": w, "w_scale": real(*cols), "w_zero_point": cols, "y_scale": real(), "y_zero_point": (), **more}, how)
                for x, w, cols, more, how in (((1, 9, 8, 3), (20, 3, 3, 3), (20,), {"B": index.Narrow((20,), 900)}, {"stride": (2, 2), "padding": (1, 1, 1, 1)}),
                                              ((2, 5, 6, 40), (7, 40, 1, 1), (), {}, {}), ((1, 7, 9, 70), (33, 70, 2, 3), (33,), {}, {"padding": (0, 2, 1, 0), "dilation": (2, 1)}),
                                              ((1, 9, 9, 21), (21, 1, 3, 3), (21,), {"B": index.Narrow((21,), 900)}, {"padding": (1, 1, 1, 1), "groups": 21}),
                                              ((1, 6, 5, 6), (4, 3, 2, 2), (4,), {}, {"groups": 2}))]

REAL_CONVOLUTIONS = [({name: real(*a) if name == "B" else a for name, a in shapes.items() if name[:2] != "y_"}, how) for shapes, how in CONVOLUTIONS]

TABLE = {
    "conv_integer_to_float": (conv_integer_to_float, REAL_CONVOLUTIONS, lambda *_: "FP32", "own", "INT8"),
    "qlinear_conv": (qlinear_conv, CONVOLUTIONS, lambda name, _: name, "own", "INT8"),
    "linear_bits": (linear_bits, BLOCKS, lambda *_: "FP32", 16, "UINT8"),
    "linear_scaled": (linear_scaled, SCALED, lambda *_: "FP32", 16),
    "dense_scaled": (dense_scaled, DENSE_SCALED, lambda *_: "FP32", 16),
    "matmul_integer": (matmul_integer, PRODUCTS, lambda *_: "INT32", "own", "INT8"),
    "matmul_integer_to_float": (matmul_integer_to_float, FLOATS, lambda *_: "FP32", "own", "INT8"),
    "qlinear_matmul": (qlinear_matmul, ROUNDED, lambda name, _: name, "own", "INT8"),
    "quantize_per_tensor": (quantize, PLAIN, made), "quantize_per_channel": (by_channel(quantize), CHANNELS, made),
    "dequantize_per_tensor": (dequantize, EIGHT, back, "own", "INT8"),
    "dequantize_per_channel": (by_channel(dequantize), EIGHT_CHANNELS, back, "own", "INT8"),
    "dynamic_quantize_linear": (dynamic, [({"x": (300,)}, {}), ({"x": (2, 9)}, {})], lambda *_: ("UINT8", "FP32", "UINT8")),
}
