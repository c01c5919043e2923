"""NumPy's word on the operators that make tensors: {operator: (formula, calls, result)}, as
tests/pointwise.py has them for the pointwise ones."""
import math

import numpy as np

INTEGERS = ("UINT8", "INT8", "INT16", "INT32", "INT64", "UINT16", "UINT32", "UINT64")
FLOATS = ("FP16", "BF16", "FP32", "FP64")


def philox(seed, block):
    """Philox4x32-10: of each block two numbers of 64 bits."""
    low, block = np.uint64(2**32 - 1), np.asarray(block, np.uint64)
    word = [block & low, block >> np.uint64(32), block * np.uint64(0), block * np.uint64(0)]
    key = [seed % 2**64 % 2**32, seed % 2**64 // 2**32]
    for _ in range(10):
        a, b = np.uint64(0xD2511F53) * word[0], np.uint64(0xCD9E8D57) * word[2]
        word = [b >> np.uint64(32) ^ word[1] ^ np.uint64(key[0]), b & low,
                a >> np.uint64(32) ^ word[3] ^ np.uint64(key[1]), a & low]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return np.stack([word[0] << np.uint64(32) | word[1], word[2] << np.uint64(32) | word[3]], 1)


def drawn(n, seed):
    return philox(seed, np.arange((n + 1) // 2)).ravel()[:n]


def uniform(size, generator=0, dtype="FP32"):
    """As many bits as the type holds."""
    bits = {"FP16": 11, "BF16": 8, "FP32": 24, "FP64": 53}[dtype]
    return (drawn(math.prod(size), generator) >> np.uint64(64 - bits)).reshape(size) / 2.0**bits


def normal(size, generator=0, dtype=None):
    n = math.prod(size)
    pairs = (philox(generator, np.arange((n + 1) // 2)) >> np.uint64(11)) / 2.0**53
    r, turn = np.sqrt(-2 * np.log(1 - pairs[:, 0])), 2 * np.pi * pairs[:, 1]
    return np.stack([r * np.cos(turn), r * np.sin(turn)], 1).ravel()[:n].reshape(size)


def one_of(high, size, low=0, generator=0, dtype=None):
    return np.array([low + (int(v) * (high - low) >> 64) for v in drawn(math.prod(size), generator)], np.int64).reshape(size)


def order(n, generator=0, dtype=None):
    out = list(range(n))
    for i in range(n - 1, 0, -1):
        k = int(philox(generator, [i])[0, 0]) * (i + 1) >> 64
        out[i], out[k] = out[k], out[i]
    return np.array(out, np.int64)


def line(start, end, steps, dtype=None):
    """Whole numbers are cut off; what numbers meet here is exact."""
    step = (end - start) / max(1, steps - 1)
    i = np.arange(steps)
    return np.where(i < steps // 2, start + i * step, end - (steps - 1 - i) * step) if steps > 1 else np.full(steps, start)


def arange(end, start=0, step=1, dtype=None):
    n = math.ceil((end - start) / step) # before they become whole, as ATen counts
    if dtype in INTEGERS:
        start, step = int(start), int(step)
    return start + np.arange(n) * step


def made(*calls, datatypes=("BOOL", *INTEGERS, *FLOATS)):
    """Of operators without tensors: each with the type that numbers give, and with every other."""
    return [({}, call) for call in calls] + [({}, {**call, "dtype": d}) for call in calls for d in datatypes]


def placed(*calls):
    """In self's type, and in others."""
    return calls and list(calls) + [(shapes, {**how, "dtype": d}) for shapes, how in calls for d in ("BF16", "INT32")]


def like(name, parameters):
    return parameters.get("dtype", name)


def of_numbers(*names, otherwise=None):
    """What the numbers themselves make: FP32 of floats, else INT64; or otherwise."""
    def result(_, parameters):
        real = any(isinstance(parameters.get(name), float) for name in names)
        return parameters.get("dtype") or otherwise or ("FP32" if real else "INT64")
    return result


COUNTED = (*INTEGERS, *FLOATS)
REAL = of_numbers(otherwise="FP32")
NEW = [({"self": (3,)}, {"size": [2, 5]}), ({"self": (3,)}, {"size": []})]
LIKE = [({"self": (2, 9)}, {}), ({"self": (0, 3)}, {})]
TRIANGLES = [({"self": (5, 7)}, {}), ({"self": (7, 5)}, {"diagonal": -2}), ({"self": (2, 3, 4, 6)}, {"diagonal": 3}),
             ({"self": (3, 3)}, {"diagonal": -(2**50)}), ({"self": (3, 3)}, {"diagonal": 2**50})]


def constant(value):
    return lambda size, dtype=None, **_: np.full(size, value)


def filled(value=None):
    """In self's shape or size."""
    def run(self, size=None, fill_value=value, dtype=None, value=None):
        number = fill_value if value is None else value
        whole = (dtype in INTEGERS) or (dtype is None and self.dtype.kind != "f")
        return np.full(self.shape if size is None else size, math.trunc(number) if whole else number)
    return run


TABLE = {
    "zeros": (constant(0), made({"size": [2, 3]}, {"size": []}, {"size": [0, 7]}), REAL),
    "ones": (constant(1), made({"size": [131]}, {"size": [1, 5, 1]}), REAL),
    "empty.memory_format": (constant(0), made({"size": [2, 3]}), REAL),
    "empty_strided": (constant(0), made({"size": [2, 3], "stride": [1, 2]}), REAL),
    "full": (lambda size, fill_value, dtype=None: np.full(size, np.trunc(fill_value) if dtype in INTEGERS else fill_value),
             made({"size": [4, 9], "fill_value": 7}, {"size": [33], "fill_value": -2.75}), of_numbers("fill_value")),
    "scalar_tensor": (lambda s, dtype=None: np.array(np.trunc(s) if dtype in INTEGERS else s), made({"s": 7}, {"s": 2.75}), REAL),
    "zeros_like": (filled(0), placed(*LIKE), like), "ones_like": (filled(1), placed(*LIKE), like),
    "empty_like": (filled(0), placed(*LIKE), like),
    "full_like": (filled(), placed(({"self": (2, 9)}, {"fill_value": 7}), ({"self": (70,)}, {"fill_value": 2.75})), like),
    "new_zeros": (filled(0), placed(*NEW), like), "new_ones": (filled(1), placed(*NEW), like), "new_empty": (filled(0), placed(*NEW), like),
    "new_full": (filled(), placed(({"self": (3,)}, {"size": [2, 5], "fill_value": 7})), like),
    "fill.Scalar": (filled(), [({"self": (2, 9)}, {"value": 7}), ({"self": (70,)}, {"value": 2.75})], like),
    "arange": (arange, made({"end": 17}, {"end": 3.5}, datatypes=COUNTED), of_numbers("end")),
    "arange.start": (arange, made({"start": -3, "end": 40}, {"start": 0.25, "end": 9}, datatypes=COUNTED), of_numbers("start", "end")),
    "arange.start_step": (arange, made({"start": 9, "end": -9, "step": -4}, {"start": 1.5, "end": 9, "step": 1.25}, datatypes=COUNTED),
                          of_numbers("start", "end", "step")),
    "linspace": (line, made({"start": -3, "end": 5, "steps": 9}, {"start": 0.25, "end": 2.5, "steps": 300}, {"start": 4, "end": 9, "steps": 1},
                            {"start": 4, "end": 9, "steps": 0}, datatypes=FLOATS) + made({"start": -4, "end": 4, "steps": 3}, datatypes=[d for d in INTEGERS if d[0] == "I"]), REAL),
    "logspace": (lambda start, end, steps, base=10, dtype=None: np.float64(base) ** line(start, end, steps),
                 made({"start": -2, "end": 2, "steps": 40}, {"start": 0, "end": 8, "steps": 9, "base": 2}, datatypes=FLOATS), REAL),
    "eye": (lambda n, dtype=None: np.eye(n), made({"n": 5}, {"n": 0}, {"n": 40}), REAL),
    "eye.m": (lambda n, m, dtype=None: np.eye(n, m), made({"n": 5, "m": 3}, {"n": 3, "m": 300}), REAL),
    "rand": (uniform, made({"size": [0, 3]}, datatypes=FLOATS), REAL), # each time another result: only nothing is known
    "rand.generator": (uniform, made({"size": [3, 5], "generator": 7}, {"size": [100], "generator": -2**40}, datatypes=FLOATS), REAL),
    **{name: (lambda self: np.zeros(self.shape), [({"self": (0, 3)}, {})], like) for name in ("rand_like", "randn_like")},
    "randn": (normal, made({"size": [0, 3]}, datatypes=FLOATS), REAL),
    "randn.generator": (normal, made({"size": [3, 5], "generator": 7}, {"size": [1001], "generator": -2**40}, datatypes=FLOATS), REAL),
    "randint": (one_of, made({"high": 1, "size": [3]}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "randint.generator": (one_of, made({"high": 100, "size": [3, 5], "generator": 7}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "randint.low": (one_of, made({"low": 5, "high": 6, "size": [3]}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "randint.low_generator": (one_of, made({"low": 2, "high": 100, "size": [301], "generator": 7}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "randperm": (order, made({"n": 1}, {"n": 0}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "randperm.generator": (order, made({"n": 100, "generator": 7}, {"n": 0, "generator": 1}, datatypes=COUNTED), of_numbers(otherwise="INT64")),
    "tril": (lambda self, diagonal=0: np.tril(self, max(-99, min(99, diagonal))), TRIANGLES, like),
    "triu": (lambda self, diagonal=0: np.triu(self, max(-99, min(99, diagonal))), TRIANGLES, like),
}
