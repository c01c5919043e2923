"""Random calls of any operator, drawn from what GET /v1/ops/{op} says of it: its samples, whose letters
become sizes, and its schema, for what the samples leave out. Some are changed so that they are
probably wrong, for what an operator refuses is part of what it means.

A call is {argument: value}: an array, service.BF16, a list of those, or what JSON has.
"""
import numpy as np

import service

TYPES = ["BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"]
WIDE_UNSIGNED = ["UINT16", "UINT32", "UINT64"] # for which PyTorch has few operators
SHORT = {"i64": "INT64", "i32": "INT32", "f32": "FP32", "bool": "BOOL"}
SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 9]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e4, -3e4, 1e-5]
MOST = 20000 # elements of a tensor
WORDS = {"rounding_mode": ["floor", "trunc"], "approximate": ["none", "tanh"], "mode": ["reflect", "replicate"],
         "side": ["left", "right"], "padding": ["same", "valid"], "indexing": ["ij", "xy"],
         "reduce": ["sum", "prod", "mean", "amax", "amin", "add", "multiply"]}
LEFT_ALONE = {"layout", "device", "pin_memory", "memory_format", "generator", "path", "train", "training", "sorted"}


class Letters(dict):
    """Of n, m and k: a size each, the same throughout a call. first: the sizes that one of them may have, if there
    are any."""

    def __init__(self, rng, first):
        super().__init__()
        self.rng, self.first = rng, first

    def __missing__(self, letter):
        self[letter] = int(self.rng.choice(SIZES if self or not self.first else self.first))
        return self[letter]

    def read(self, text):
        return self[text] if text in ("n", "m", "k") else int(text)


def numbers(rng, kind, shape, values, grain=None):
    """An array, or service.BF16. grain: real numbers are multiples of it."""
    if kind == "BOOL":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in ("FP16", "BF16", "FP32", "FP64"):
        x = rng.integers(-4, 5, shape) / 2 if values == "even" else rng.normal(0, 2, shape)
        if grain:
            x = np.round(x / grain) * grain
        if values == "special":
            x = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x)
        return service.BF16(x) if kind == "BF16" else np.asarray(x).astype(service.DATATYPES[kind])
    info = np.iinfo(service.DATATYPES[kind])
    x = rng.integers(max(info.min, -9), 10, shape)
    if values == "special":
        ends = np.array([info.min, info.min + 1, info.max, 0, 1], dtype=object)
        x = np.where(rng.random(shape) < 0.3, rng.choice(ends, shape), x)
    return np.asarray(x).astype(service.DATATYPES[kind])


def shape_of(value):
    return value.bits.shape if isinstance(value, service.BF16) else value.shape


class Drawer:
    """draw() gives a call of the overload that GET /v1/ops/{op} describes so. special: also with NaN, infinities
    and the ends of types. grain: of which real numbers are multiples."""

    def __init__(self, overload, rng, special=True, grain=None):
        self.overload, self.rng, self.grain = overload, rng, grain
        self.kinds_of_values = ["plain", "plain", "even"] + ["special"] * special
        self.samples = overload.get("samples") or []

    def chance(self, p):
        return self.rng.random() < p

    def one_of(self, values):
        return values[self.rng.integers(len(values))]

    def draw(self, kind=None, sample=None, first=None):
        """kind and sample are drawn where they are not given. first: sizes for one of the sample's letters."""
        rng = self.rng
        self.letters = Letters(rng, first)
        self.values = self.one_of(self.kinds_of_values)
        self.wild = self.chance(0.4) # whether shapes and numbers may be other than the sample's
        unsigned = WIDE_UNSIGNED if self.chance(0.2) else []
        own = [kind for kind in self.overload["dtypes"] if kind in (unsigned or TYPES)] or TYPES
        self.kind = kind or self.one_of(own if self.chance(0.75) else TYPES)
        self.mixed = self.chance(0.3)
        self.extra = self.shape_change()
        if sample is None:
            sample = self.one_of(self.samples) if self.samples else ""
        given = dict(item.split("=", 1) for item in sample.split() if "=" in item)
        call = {}
        for argument in self.overload["arguments"]:
            name, kind = argument["name"], argument["type"].split("(")[0]
            if name in given:
                call[name] = self.argument(name, kind, argument["type"], given[name])
            elif self.omitted(argument) is not None:
                call[name] = self.omitted_value
        if self.chance(0.02) and call:
            call.pop(self.one_of(sorted(call)))
        return call

    # ---- tensors ----

    def shape_change(self):
        """What happens to every tensor's shape in this call: something in front, less, a size of 0."""
        if not self.wild or self.chance(0.4):
            return lambda shape: shape
        more = tuple(int(n) for n in self.rng.choice([0, 1, 2, 3], self.rng.integers(1, 4)))
        less = int(self.rng.integers(1, 4))
        place = int(self.rng.integers(0, 6))
        size = int(self.one_of([0, 1, 2]))
        return self.one_of([lambda s: more + s, lambda s: more[:1] + s, lambda s: s[less:], lambda s: (),
                            lambda s: s[:place] + (size,) * (place < len(s)) + s[place + 1:]])

    def tensor(self, text):
        shape, _, kind = text.partition(":")
        kind, _, below = kind.partition("<")
        shape = tuple(self.letters.read(n) for n in shape.strip("[]").split(",") if n)
        shape = self.extra(shape)
        if self.wild and self.chance(0.15):
            shape = self.shape_change()(shape)
        if self.wild and self.chance(0.15):
            shape = tuple(1 if self.chance(0.4) else n for n in shape)
        while np.prod(shape, dtype=float) > MOST:
            shape = shape[1:]
        kind = SHORT[kind] if kind else self.one_of(TYPES) if self.mixed else self.kind
        if self.wild and self.chance(0.03):
            kind = self.one_of(TYPES)
        if not below:
            return numbers(self.rng, kind, shape, self.values, self.grain)
        below = self.letters.read(below)
        low = -below if self.wild and self.chance(0.3) else 0
        high = below + (self.wild and self.chance(0.15))
        x = self.rng.integers(low, high, shape) if high > low else np.zeros(shape)
        if kind in ("BF16", "BOOL", "FP16") or (kind == "UINT8" and low < 0):
            kind = "INT64"
        return np.asarray(x).astype(service.DATATYPES[kind])

    # ---- the rest ----

    def argument(self, name, kind, whole, text):
        if text == "None":
            return None
        if kind.startswith("Tensor"):
            if "[]" not in whole:
                return self.tensor(text)
            return [None if one == "None" else self.tensor(one) for one in text.split("|")]
        if name in LEFT_ALONE:
            return self.plain(text)
        if kind.startswith("ScalarType"):
            return self.one_of(TYPES) if self.chance(0.5) else text
        if (self.wild and self.chance(0.3)) or (kind.startswith("Scalar") and self.chance(0.5)):
            other = self.free(name, kind)
            return self.plain(text) if other is None else other
        return self.nudge(self.plain(text)) if self.wild and self.chance(0.2) else self.plain(text)

    def plain(self, text):
        if text.startswith("["):
            return [self.plain(one) for one in text.strip("[]").split(",") if one]
        if text in ("n", "m", "k"):
            return self.letters[text]
        if text in ("True", "False"):
            return text == "True"
        for read in (int, float):
            try:
                return read(text)
            except ValueError:
                pass
        return text

    def nudge(self, value):
        if isinstance(value, list):
            if self.chance(0.2):
                return value[:-1]
            return [self.nudge(v) if self.chance(0.5) else v for v in value]
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return value + int(self.one_of([-2, -1, 1, 2]))
        return value

    def omitted(self, argument):
        """A value for what the sample leaves out, or None."""
        self.omitted_value = None
        name, kind = argument["name"], argument["type"]
        if not kind.startswith("Tensor") and name not in LEFT_ALONE and (
                "default" not in argument or self.chance(0.25)):
            self.omitted_value = self.free(name, kind)
        return self.omitted_value

    def scalar(self):
        if self.values == "special" and self.chance(0.4):
            return self.one_of([float("nan"), float("inf"), -float("inf"), -0.0, 0, 200, -200, 70000, 3e9])
        return self.one_of([0, 1, 2, 3, -1, -2, 7, 0.5, -1.5, 2.5, 0.0, 1.0, 2.0, True, False])

    def free(self, name, kind):
        """Any value of that type."""
        base = kind.split("[")[0].rstrip("?")
        if "[" in kind and base in ("int", "float", "bool"):
            n = int(self.rng.integers(0, 4))
            return [self.free(name, base) for _ in range(n)]
        if base == "Scalar":
            return self.scalar()
        if base == "ScalarType":
            return self.one_of(TYPES)
        if base == "bool":
            return bool(self.rng.integers(2))
        if base == "int":
            return int(self.one_of([0, 0, 1, 1, 2, 3, -1, -1, -2, -3, 5]))
        if base == "float":
            return float(self.one_of([0.0, 0.5, 1.0, 1e-5, 2.0, -1.0]))
        if base == "str" and name in WORDS:
            return self.one_of(WORDS[name])
        return None
