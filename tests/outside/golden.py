#!/usr/bin/env python3
"""Writes the golden answers, tests/golden/*.gz: calls of every overload in every type that it takes, with what is
right by PyTorch, which tests/checkgolden.c holds every row to, the reference too, where there is no PyTorch.

    python tests/outside/golden.py [--seed N] [--add] [OVERLOAD...]     with a Python that has PyTorch; OVERLOADs are
                                                                        shown; with --add, put behind what is written

Calls are drawn as by_torch.py draws them, and what differs from the service for a reason of unlike.py is left out. What
differs without a reason is written, and told, and ends it with 1: the tests fail until that is mended. What
PyTorch does not have is by NumPy (operators.py); drawn numbers are by NumPy's Philox4x32-10, which is held
to its authors' vectors first; post-ops are PyTorch's formulas on a product of small whole numbers, which is exact.

A file is gzip's, of the overloads that begin with its letter. It consists of lines, and of what belongs to them:
    # WORDS                                    by which PyTorch, from which seed
    OVERLOAD ! REASON                          nothing is said of its results, and why
    OVERLOAD ARGUMENT=VALUE...\\nRESULT...\\n    a call, as a sample of a descriptor has it (dispatch/call/sample.h), whose tensors
                                               name their type; its results, each [SHAPE]:TYPE:SIZE:OFF; then the
                                               elements of all tensors and results
SIZE is of the numbers that a result is summed up from; by OFF times as much, or 1, and as the result, PyTorch itself may be off. Of
a tensor all first bytes come first, then all second ones, and so on, which is shorter compressed.
"""
import argparse
import collections
import gzip
import itertools
import pathlib
import re
import sys
import zlib

import numpy as np

import factories
import operators
import service
from by_torch import (UNITS, Torch, aten, ask_service, brief, described, drawer_of, from_torch, is_whole, judge, largest,
                      rounded, tensors_of, to_torch, torch, unit, wide)
from drawing import TYPES, WIDE_UNSIGNED, shape_of
from unlike import CONVERTED, DRAWN, UNCHECKED

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden"
SEED = 20
MOST = 2400 # elements of a call
LONG = [7, 9, 17, 33, 100] # sizes with whole vectors and a rest
TRIES = 100 # calls that are drawn of an overload in a type; more, where none of them is answered
LEAST = {"FP32": 6} # calls of an overload in a type, else 2, though they fill more than their room
# Bytes, compressed, that calls of an overload may fill in a type.
ROOM = {"FP32": 1600, "FP64": 1200, "FP16": 700, "BF16": 700, "INT64": 400, "UINT8": 350, "BOOL": 250}
LEAST_ROOM = 250


# ---- the form of the files ----

class Unwritten(Exception):
    """A call that the form has no words for."""


def number(value):
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        if not -2**63 <= value < 2**63:
            raise Unwritten
        return str(value)
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    text = repr(float(value))
    return text if "." in text else text.replace("e", ".0e")


def shape(value):
    return f"[{','.join(map(str, shape_of(value)))}]:{service.datatype(value)}"


def is_tensor(value):
    return isinstance(value, (np.ndarray, service.BF16))


def word(value):
    if value is None:
        return "None"
    if isinstance(value, tuple):
        value = list(value)
    if is_tensor(value):
        return shape(value)
    if isinstance(value, list) and any(map(is_tensor, value)):
        return "|".join(map(word, value))
    if isinstance(value, list):
        if any(isinstance(v, float) for v in value):
            value = [float(v) for v in value]
        text = "[" + ",".join(map(number, value)) + "]"
        if not value or "N" in text or "I" in text:
            raise Unwritten
        return text
    if isinstance(value, str):
        if not value or value in "nmk" or re.search(r"\s", value) or value[0].isdigit():
            raise Unwritten
        return value
    return number(value)


def planes(value):
    raw = service.elements(value)
    n = int(np.prod(shape_of(value)))
    return np.frombuffer(raw, np.uint8).reshape(n, -1).T.tobytes() if n else b""


def record(overload, call, results):
    """results: (tensor, size, off) each."""
    names = [a["name"] for a in overload["arguments"] if a["name"] in call]
    words = " ".join(f"{name}={word(call[name])}" for name in names)
    if any(len(one) > 380 for one in words.split(" ")): # TD_SAMPLE_TEXT
        raise Unwritten
    line = " ".join(f"{shape(value)}:{size:.9g}:{off:.3g}" for value, size, off in results)
    tensors = [t for name in names for t in tensors_of({name: call[name]})] + [value for value, _, _ in results]
    return f"{overload['name']} {words}\n{line}\n".encode() + b"".join(map(planes, tensors))


# ---- what is right ----

def without_signs(value):
    if isinstance(value, list):
        return [without_signs(v) if is_tensor(v) else v for v in value]
    if isinstance(value, service.BF16):
        return service.BF16(np.abs(value.values))
    return np.asarray(np.abs(value)) if is_tensor(value) and value.dtype.kind == "f" else value


def apart(a, b):
    """The largest difference between finite numbers, infinite where others are not the same."""
    a, b = wide(a).astype(np.float64), wide(b).astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same, 0, np.where(np.isfinite(a - b), np.abs(a - b), np.inf)).max(initial=0)


def right_of(name, call, ours, theirs, ask):
    """Of each result the right one, the size of what it is summed up from, and by how much it may be off. That is
    PyTorch's in FP64, rounded, unless it is to be computed in its own type, as the service does."""
    if not tensors_of(call) and any(service.datatype(t) == "FP32" for t in theirs):
        call = {**call, "dtype": "FP32"} # which becomes FP64
    exact = ask(name, call, True)
    absolute = ask(name, {key: without_signs(value) for key, value in call.items()}, True)
    found = []
    for i, plain in enumerate(theirs):
        if not unit(plain):
            found.append((plain, 0, 0))
            continue
        size = largest(plain)
        if isinstance(absolute, list) and absolute[i] is not None:
            size = max(size, largest(absolute[i]))
        best, off = plain, UNITS * max(unit(plain), 2.0**-23)
        if isinstance(exact, list) and shape_of(exact[i]) == shape_of(plain):
            value = rounded(exact[i], plain)
            if service.datatype(exact[i]) == "FP64" and (
                    not isinstance(ours, list) or apart(ours[i], value) <= 4 * apart(ours[i], plain) + 8 * unit(plain) * size):
                best, off = value, UNITS * 2.0**-52
        if service.datatype(plain) == "FP64":
            off = UNITS * 2.0**-52
        found.append((best, min(size, 1e300), off))
    return found


def is_by_the_machine(name, call, theirs):
    """Whether whole numbers are made of real ones that none is like."""
    reals = [t for t in tensors_of(call) if not is_whole(t) and service.datatype(t) != "BOOL"]
    far = any(not np.abs(wide(t).astype(np.float64)).max(initial=0) < 100 for t in reals)
    far = far or any(isinstance(v, float) and not abs(v) < 100 for v in call.values())
    return far and any(is_whole(t) for t in theirs) and re.fullmatch(CONVERTED, name) is not None


# Of these PyTorch has nine digits in FP64: NumPy is asked.
INEXACT = "special_bessel_"


# ---- calls ----

class Golden:
    def __init__(self, server, seed):
        self.server, self.seed = server, seed
        self.connection, self.torch = server.connect(), Torch()
        self.counts, self.said = collections.Counter(), []

    def one(self, overload, call):
        """The call's record; None where there is nothing to hold a row to."""
        name = overload["name"]
        if sum(int(np.prod(shape_of(t))) for t in tensors_of(call)) > MOST:
            return None
        ours = ask_service(self.server, self.connection, name, call)
        if isinstance(ours, str) and "out of range" in ours and name in UNCHECKED:
            return None
        theirs = self.torch.ask(name, call)
        verdict, why = judge(name, call, ours, theirs, self.torch.ask)
        self.counts[verdict] += 1
        if verdict not in ("agreed", "differ", "we refuse") or any(t is None for t in theirs) or is_by_the_machine(name, call, theirs):
            return None
        if sum(int(np.prod(shape_of(t))) for t in theirs) > MOST:
            return None
        right = right_of(name, call, ours, theirs, self.torch.ask)
        if verdict == "agreed" and any(not unit(b) and apart(a, b) for a, (b, _, _) in zip(ours, right)):
            return None # of equal numbers other places
        if verdict != "agreed":
            self.said.append(f"{verdict}: {why}\n    {name} {', '.join(f'{k}={brief(v)}' for k, v in call.items())}")
        with_defaults(overload, call)
        return record(overload, call, right)

    def by_torch(self, overload):
        """Samples in every type, in turns with long rows, and with shapes and numbers that are drawn."""
        drawer = drawer_of(overload, self.seed, grain=2.0**-6)
        types = [kind for kind in TYPES + WIDE_UNSIGNED if kind in overload["dtypes"]] or ["FP32"]
        for turn, kind in enumerate(types):
            room = ROOM.get(kind, LEAST_ROOM)
            seen = set()
            for i in range(4 * TRIES):
                if (room < 0 and len(seen) >= LEAST.get(kind, 2)) or (i >= TRIES and seen):
                    break
                samples = drawer.samples or [""]
                call = drawer.draw(kind, samples[(i + turn) % len(samples)], LONG if i % 3 == 0 else None)
                try:
                    made = self.one(overload, call)
                except Unwritten:
                    continue
                if made and made not in seen:
                    seen.add(made)
                    room -= len(zlib.compress(made, 9))
                    yield made

    def by_numpy(self, overload):
        name, judged = overload["name"], operators.JUDGES[overload["name"]]
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        types = [kind for kind in overload["dtypes"] if kind in TYPES] if judged.datatype == "FP32" else [judged.datatype]
        for kind, (shapes, parameters) in itertools.product(types, judged.calls):
            kind = parameters.get("dtype", "FP32") if not shapes else kind
            tensors = operators.draw_all(rng, kind, shapes)
            exact, scale = operators.exact_and_scale(judged, tensors, parameters)
            names = operators.each_of(judged.result(kind, parameters), exact)
            right = [(tensor_of(to, value), float(np.max(of, initial=0)), UNITS * 2.0**-52)
                     for to, value, of in zip(names, exact.values(), scale.values())]
            if sum(len(service.elements(t)) for t, _, _ in right) > 3000:
                continue
            call = {**parameters, **tensors}
            ours = ask_service(self.server, self.connection, name, call)
            if isinstance(ours, str):
                continue
            with_defaults(overload, call)
            try:
                yield record(overload, call, right)
            except Unwritten:
                continue


def with_defaults(overload, call):
    """What a sample would put in place of a type that is left out."""
    for a in overload["arguments"]:
        if a["type"].startswith("ScalarType?"):
            call.setdefault(a["name"], None)


def tensor_of(kind, value):
    value = np.asarray(operators.narrow(kind, value))
    return service.BF16(value) if kind == "BF16" else value.astype(service.DATATYPES[kind])


# ---- post-ops ----

def formulas():
    """The pointwise table's, by their names."""
    text = (FOLDER.parent.parent / "kernels/pointwise/pointwise.def").read_text()
    return sorted(set(re.findall(r"^TD_\w+\((\w+),", text, re.M)))


NUMBERS = [[], [0.5], [-1.5, 2.0], [0.5, 1.25, 0.75]]
# Of those that PyTorch calls otherwise, or gives their numbers in another order.
BY_TORCH = {
    "plus": lambda x, y: x + y, "minus": lambda x, y: x - y, "cube": lambda x, y: x * x * x,
    "prelu": lambda x, y: torch.where(x > 0, x, y * x), "second": lambda x, y: y,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "div_trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "add": lambda x, y, p: x + p * y, "sub": lambda x, y, p: x - p * y, "rsub": lambda x, y, p: y - p * x,
    "gelu_tanh_backward": lambda x, y: torch.ops.aten.gelu_backward(x, y, approximate="tanh"),
    "leaky_relu_backward": lambda x, y, p: torch.ops.aten.leaky_relu_backward(x, y, p, False),
    "swish": torch.nn.functional.silu, "hardtanh": torch.nn.functional.hardtanh,
}


def by_formula(name, x, y, numbers):
    """PyTorch's result, or None where it has no such formula."""
    operands = [x] if y is None else [x, y]
    try:
        if name in BY_TORCH:
            return BY_TORCH[name](*operands, *numbers)
        packet = getattr(torch.ops.aten, name)
        for overload in ("default", "Tensor", "Tensor_Tensor", "Scalar"):
            one = getattr(packet, overload, None)
            if one and len([a for a in one._schema.arguments if a.type.kind() == "TensorType"]) == len(operands):
                return one(*operands, *numbers)
    except (AttributeError, RuntimeError, TypeError):
        pass
    return None


# What comes before another: exact, so that a step behind it steps where it should.
FIRST = [("leaky_relu", [0.5], False), ("plus", [], True), ("clamp", [-1.5, 2.0], False), ("mul", [], True)]


def product_of(name, tensors):
    """In FP64, with which small multiples of a power of two are exact."""
    image, weight, bias = (to_torch(t).double() for t in tensors)
    if name == "linear":
        return aten(name)(image, weight, bias)
    if name == "dense":
        return torch.addmm(bias, image, weight)
    return torch.ops.aten.conv2d(image.permute(0, 3, 1, 2), weight, bias).permute(0, 2, 3, 1).contiguous()


def post_op(golden, overload, rng, kind, steps):
    """The call's record with these steps behind the product: (formula, numbers, whether it takes a tensor) each."""
    def small(*shape):
        return tensor_of(kind, rng.integers(-4, 5, shape) / 2)
    name = overload["name"]
    tensors = {"linear": [small(4, 3), small(9, 3), small(9)], "dense": [small(4, 3), small(3, 9), small(9)]}.get(
        name, [small(1, 3, 3, 3), small(9, 3, 1, 1), small(9)])
    out = product = product_of(name, tensors)
    others = [tensor_of(kind, rng.integers(-4, 5, tuple(out.shape)) / 2 + 0.25) for _, _, two in steps if two]
    call = dict(zip(("input", "weight", "bias"), tensors))
    call["activation"] = ",".join(f + f"({','.join(map(repr, numbers))})" * bool(numbers) for f, numbers, _ in steps)
    if others:
        call["others"] = list(others)
    ours = ask_service(golden.server, golden.connection, name, call)
    if isinstance(ours, str):
        return None
    for formula, numbers, two in steps:
        out = by_formula(formula, out, to_torch(others.pop(0)).double() if two else None, numbers)
        if out is None:
            golden.counts[f"no post-op {formula} of PyTorch"] += 1
            return None
    golden.counts["post-ops"] += 1
    value = rounded(from_torch(out), ours[0])
    return record(overload, call, [(value, max(largest(value), largest(from_torch(product))), UNITS * 2.0**-52)])


def post_ops(golden, overload, rng, kinds):
    """Calls in these types with each formula behind the product, and behind another formula."""
    known = []
    for step in itertools.product(formulas() + ["hardtanh", "swish"], NUMBERS, (False, True)):
        made = [one for kind in kinds if (one := post_op(golden, overload, rng, kind, [step]))]
        if made:
            known.append(step)
        yield from made
    for i, (step, kind) in enumerate(itertools.product(known, kinds[:2])):
        one = post_op(golden, overload, rng, kind, [FIRST[i // 2 % len(FIRST)], step])
        if one:
            yield one


def check_philox():
    """Random123's vectors of philox4x32, 10 rounds, for the counters that a seed and a block can make."""
    word = [int(v) for v in factories.philox(0, [0])[0]]
    assert word == [0x6627E8D5E169C58D, 0xBC57AC4C9B00DBD8], word


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--add", action="store_true", help="of OVERLOADs that have no golden answers yet")
    parser.add_argument("overload", nargs="*")
    options = parser.parse_args()
    check_philox()
    files = collections.defaultdict(list)
    with service.Service() as server:
        golden = Golden(server, options.seed)
        for name, overload in described(server).items():
            if options.overload and name not in options.overload and overload["op"] not in options.overload:
                continue
            rng = np.random.default_rng([options.seed, zlib.crc32(name.encode())])
            judged = operators.JUDGES.get(name)
            known = ("generator" in name or re.match(INEXACT, name)) and judged
            if aten(name) is None or known:
                made = list(golden.by_numpy(overload))
            elif overload["op"] in DRAWN:
                made = [f"{name} ! only shape and type are told\n".encode()]
            else:
                made = list(golden.by_torch(overload)) or list(golden.by_numpy(overload))
            if name in ("linear", "dense", "conv2d_channels_last"):
                made += post_ops(golden, overload, rng, ["FP64", "FP32", "BF16", "FP16"] if name == "linear" else ["FP64", "FP32"])
            files[name[0]] += made
            print(f"{name}: {len(made)}, {sum(map(len, made))} bytes", flush=True)
        golden.connection.close()
    print("\n".join(golden.said))
    print(dict(sorted(golden.counts.items())))
    for letter, made in files.items() if options.add or not options.overload else []:
        path = FOLDER / f"{letter}.gz"
        before = gzip.decompress(path.read_bytes()) if options.add else b""
        head = f"# PyTorch {torch.__version__}, NumPy {np.__version__}, seed {options.seed}\n".encode()
        path.write_bytes(gzip.compress(before + head + b"".join(made), 9, mtime=0))
    return bool(golden.said)


if __name__ == "__main__":
    sys.exit(main())
