"""NumPy's word on the operators that copy: {operator: (formula, calls, result)}, as tests/pointwise.py
has them for the pointwise ones."""
import numpy as np

FLOATS = ("FP16", "BF16", "FP32", "FP64")
NAMES = ("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "UINT16", "UINT32", "UINT64", *FLOATS)


def cast(self, dtype=None, **_):
    if dtype is None:
        return self
    if dtype == "BOOL":
        return self != 0
    return self.astype(np.float64) if dtype in FLOATS else np.trunc(self).astype(np.int64)


def same(name, _):
    return name


def wanted(name, parameters):
    return parameters.get("dtype", name)


SHAPES = [({"self": shape}, {}) for shape in ((131,), (2, 3, 5), (), (0, 4))]
TO = [({"self": (300,)}, {"dtype": name}) for name in NAMES]
PLACED = SHAPES + [({"self": (70,)}, {"dtype": name, "device": "cpu", "layout": "strided"}) for name in ("BF16", "INT32")]
EVAL = [({"input": shape}, {"p": 0.5, "train": False}) for shape in ((131,), (2, 9))]

TABLE = {
    "cast": (cast, TO, wanted), "to.dtype": (cast, TO, wanted),
    "to.device": (cast, [({"self": (70,)}, {"device": "cpu", "dtype": name}) for name in NAMES], wanted),
    "_to_copy": (cast, PLACED, wanted), "to.dtype_layout": (cast, PLACED, wanted),
    "clone": (lambda self: self, SHAPES, same), "contiguous": (lambda self, memory_format=None: self, SHAPES + [({"self": (4, 9)}, {"memory_format": "channels_last"})], same),
    "lift_fresh_copy": (lambda self: self, SHAPES, same),
    "to.other": (lambda self, other: self, [({"self": (3, 9), "other": (1,)}, {})], same),
    "type_as": (lambda self, other: self, [({"self": (3, 9), "other": (0,)}, {})], same),
    "copy": (lambda self, src: np.broadcast_to(src, self.shape),
             [({"self": (3, 9), "src": shape}, {}) for shape in ((3, 9), (9,), (3, 1), ())] + [({"self": (600, 3), "src": (600, 1)}, {})], same),
    "native_dropout": (lambda input, p, train: (input, np.ones(input.shape, bool)), EVAL, lambda name, _: (name, "BOOL")),
    **{name: (lambda input, p, train: input, EVAL, same) for name in ("dropout", "feature_dropout", "alpha_dropout")},
}
