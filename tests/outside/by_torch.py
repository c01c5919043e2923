#!/usr/bin/env python3
"""PyTorch on random calls (drawing.py) of every overload that it has, for the operators have ATen's names
and schemas: shapes, types, promotion, numbers, and what is refused.

    python tests/outside/by_torch.py [-v] [-n CALLS] [OVERLOAD...]     with a Python that has PyTorch

prints of each overload how many calls agreed, and what both refuse, we refuse, PyTorch refuses, and what
differs, which ends it with 1. TENSORD_SEED repeats a run.
"""
import argparse
import collections
import concurrent.futures
import multiprocessing
import re
import sys
import zlib

import numpy as np

import service
from drawing import Drawer, shape_of
from unlike import CONVERTED, DRAWN, LISTED, SUMS, UNCHECKED, UNSTABLE

try:
    import torch
except ImportError:
    service.skip("no PyTorch (tests/outside/torch.sh installs it apart and runs this)")

TYPES = {"BOOL": torch.bool, "UINT8": torch.uint8, "INT8": torch.int8, "INT16": torch.int16,
         "INT32": torch.int32, "INT64": torch.int64, "FP16": torch.float16, "BF16": torch.bfloat16,
         "FP32": torch.float32, "FP64": torch.float64, "UINT16": torch.uint16, "UINT32": torch.uint32, "UINT64": torch.uint64}
NAMES = {kind: name for name, kind in TYPES.items()}
UNITS = 64  # in the last place: both sides round, and each approximates in its own way
SECONDS = 20 # an operator of PyTorch may take


def aten(name):
    """ATen's overload of that name; None when this version has none."""
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, name, None), overload or "default", None)


# ---- PyTorch, in a process of its own: some calls end it ----

def to_torch(value):
    if isinstance(value, service.BF16):
        return torch.from_numpy(value.bits.view(np.int16).copy()).view(torch.bfloat16)
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, list):
        return [to_torch(one) for one in value]
    return TYPES.get(value, value) if isinstance(value, str) else value


def from_torch(value):
    if value is None or not isinstance(value, torch.Tensor):
        return value
    value = value.contiguous()
    if value.dtype == torch.bfloat16:
        return service.BF16.of_bits(value.view(torch.int16).numpy().view(np.uint16).copy())
    return value.numpy().copy()


def ask_torch(name, call, wide=False):
    """Its results, or the sentence with which it refuses. wide: with all reals as FP64."""
    overload = aten(name)
    given = {key: to_torch(value) for key, value in call.items()}
    if wide:
        given = {key: widen(value) for key, value in given.items()}
    try:
        by_place, named = [], {}
        for a in overload._schema.arguments:
            if a.name not in given and not a.has_default_value():
                return f"{a.name} is missing"
            value = given.get(a.name, a.default_value)
            if a.kwarg_only:
                named[a.name] = value
            else:
                by_place.append([value] * a.N if a.N and type(value) is int else value)
        out = overload(*by_place, **named)
        out = out if isinstance(out, (list, tuple)) else (out,)
        return [from_torch(one) for one in out]
    except Exception as error: # whatever it raises, it refuses
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def widen(value):
    if isinstance(value, list):
        return [widen(one) for one in value]
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


class Torch:
    def __init__(self):
        self.start()

    def start(self):
        self.pool = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork"),
                                                           initializer=torch.set_num_threads, initargs=(1,))

    def ask(self, *what):
        try:
            return self.pool.submit(ask_torch, *what).result(SECONDS)
        except (concurrent.futures.process.BrokenProcessPool, TimeoutError):
            for process in self.pool._processes.values():
                process.kill()
            self.start()
            return "PyTorch gives no answer: its process ended, or does not"


# ---- the service ----

def ask_service(server, connection, name, call):
    """Its results, or its sentence."""
    tensors, parameters = {}, {}
    for key, value in call.items():
        if isinstance(value, (np.ndarray, service.BF16)):
            tensors[key] = value
        elif isinstance(value, list) and any(isinstance(one, (np.ndarray, service.BF16)) for one in value):
            tensors.update({f"{key}.{i}": one for i, one in enumerate(value) if one is not None})
        elif value is not None:
            parameters[key] = value
    reply = server.infer(name, tensors, parameters, binary=True, connection=connection)
    if reply.status != 200:
        said = reply.json["detail"]
        return said if reply.status in (400, 422) else f"status {reply.status}: {said}"
    return list(reply.outputs.values())


# ---- what of two answers differs ----

def wide(value):
    return np.asarray(value.values if isinstance(value, service.BF16) else value)


def unit(value):
    kind = service.datatype(value)
    return {"BF16": 2.0**-7, "FP16": 2.0**-10, "FP32": 2.0**-23, "FP64": 2.0**-52}.get(kind, 0)


def largest(value):
    v = wide(value).astype(np.float64)
    return np.abs(v[np.isfinite(v)]).max(initial=0)


def near(ours, want, eps, size):
    """Whether all of ours are want's, where one may be rounded and approximated. eps: 0 is exact; size: of
    the numbers that they are made from."""
    a, b = wide(ours), wide(want)
    if not eps or a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        close = np.abs(a - b) <= UNITS * eps * (np.abs(b) + max(size, largest(want)) / 4)
        return bool(np.all(np.where(finite, close, (a == b) | (np.isnan(a) & np.isnan(b)))))


def difference(name, call, ours, theirs, torch_of):
    """A sentence, or None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, PyTorch has {len(theirs)}"
    eps = max((unit(v) for v in tensors_of(call) + ours), default=0)
    size = max((largest(v) for v in tensors_of(call)), default=0)
    if "norm" in name: # divided by the square root of eps, where there is no variance
        size *= 1000
    exact = None
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if b is None and 0 in shape_of(a): # what an output_mask leaves out
            continue
        if service.datatype(a) != service.datatype(b):
            return f"result {i} is {service.datatype(a)}, PyTorch's {service.datatype(b)}"
        if tuple(shape_of(a)) != tuple(shape_of(b)):
            return f"result {i} is {list(shape_of(a))}, PyTorch's {list(shape_of(b))}"
        op = name.split(".")[0]
        if op in DRAWN or near(a, b, eps, size) or (UNSTABLE.get(op) == i and not call.get("stable") and as_good(call, a, b)):
            continue
        if exact is None:
            exact = torch_of(name, call, True)
        if isinstance(exact, list) and wide(a).dtype.kind == "f" and near(a, rounded(exact[i], a), eps, size):
            continue
        return f"result {i}: {where_not(a, b, eps, size)}"
    return None


def where_not(ours, theirs, eps, size):
    """The first place at which they differ, and in how many they do."""
    a, b = wide(ours).ravel(), wide(theirs).ravel()
    far = [i for i in range(a.size) if not near(a[i:i + 1], b[i:i + 1], eps, size)]
    if not far: # together, though no one alone
        return f"{brief(ours)}, PyTorch's {brief(theirs)}"
    return f"{a[far[0]]} at {far[0]}, PyTorch's {b[far[0]]}; {len(far)} of {a.size} differ"


def rounded(value, like):
    with np.errstate(all="ignore"):
        v = wide(value)
        return service.BF16(v) if isinstance(like, service.BF16) else v.astype(like.dtype)


def as_good(call, ours, theirs):
    """Whether both places along dim hold the same numbers, between which PyTorch chooses as it likes."""
    v, dim = wide(call["self"]), call.get("dim", -1)
    if not v.ndim or ours.ndim != v.ndim:
        ours, theirs = np.expand_dims(ours, dim), np.expand_dims(theirs, dim)
    a, b = (np.take_along_axis(v.reshape(v.shape or (1,)), one, dim) for one in (ours, theirs))
    return bool(np.array_equal(a, b, equal_nan=v.dtype.kind == "f"))


def tensors_of(call):
    return [one for value in call.values() for one in (value if isinstance(value, list) else [value])
            if isinstance(one, (np.ndarray, service.BF16))]


def brief(value):
    if isinstance(value, (np.ndarray, service.BF16)):
        numbers = service.numbers(value)
        more = "..." if len(numbers) > 12 else ""
        numbers = ", ".join(f"{n:.6g}" for n in numbers[:12])
        return f"{service.datatype(value)}{list(shape_of(value))} {numbers}{more}"
    if isinstance(value, list):
        return "[" + "; ".join(map(brief, value)) + "]"
    return repr(value)


def marked(call, said):
    """The sentence, and of the call what entries of LISTED ask for."""
    tensors = tensors_of(call)
    marks = "(UINT8) " * any(service.datatype(t) == "UINT8" for t in tensors)
    marks += "(one wide) " * any(1 in shape_of(t)[-1:] for t in tensors)
    marks += "(lowest) " * any(wide(t).dtype.kind == "i" and (wide(t) == np.iinfo(wide(t).dtype).min).any() for t in tensors)
    marks += "(beyond) " * any(type(v) in (int, float) and abs(v) > 65504 for v in call.values())
    return marks + said


def is_whole(value):
    return service.datatype(value)[:3] in ("INT", "UIN")


def described(server):
    """{overload: what GET /v1/ops/{op} says of it}."""
    listed = server.call("GET", "/v1/ops").json["ops"]
    return {o["name"]: o for op in dict.fromkeys(o["op"] for o in listed)
            for o in server.call("GET", f"/v1/ops/{op}").json["overloads"]}


def drawer_of(overload, seed, **how):
    """Draws calls of one that PyTorch has, with the arguments that it knows: linear takes one more here."""
    name = overload["name"]
    known = {a.name for a in aten(name)._schema.arguments}
    overload = {**overload, "arguments": [a for a in overload["arguments"] if a["name"] in known]}
    return Drawer(overload, np.random.default_rng([seed, zlib.crc32(name.encode())]), not re.match(SUMS, name), **how)


def expected(name, call, theirs, said, refused):
    """Whether what differs is to differ."""
    if all(one is None or 0 in shape_of(one) for one in theirs) or (
            refused and any(0 in shape_of(one) for one in tensors_of(call))):
        return True # of what has no elements PyTorch looks at neither the type nor all of the shape
    if is_whole(next(one for one in theirs if one is not None)) and re.fullmatch(CONVERTED, name) and any(
            not np.abs(wide(t)).max(initial=0) < 100 for t in tensors_of(call)):
        return True
    said = marked(call, said)
    return any(re.fullmatch(names, name) and re.search(sentence, said) for names, sentence, _ in LISTED)


def judge(name, call, ours, theirs, torch_of):
    """What came of a call, and a sentence."""
    if isinstance(theirs, str):
        return ("both refuse", theirs) if isinstance(ours, str) else ("PyTorch refuses", theirs)
    said = ours if isinstance(ours, str) else difference(name, call, ours, theirs, torch_of)
    if not said:
        return "agreed", ""
    if expected(name, call, theirs, said, isinstance(ours, str)):
        return "as listed", said
    return ("we refuse" if isinstance(ours, str) else "differ"), said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=60, help="calls an overload")
    parser.add_argument("-v", action="store_true", help="show every call that is refused by one side")
    parser.add_argument("overload", nargs="*")
    options = parser.parse_args()
    seed = service.seed()
    total = collections.Counter()
    theirs = Torch()
    with service.Service() as server:
        connection = server.connect()
        for name, overload in described(server).items():
            if aten(name) is None or (options.overload and name not in options.overload
                                      and overload["op"] not in options.overload):
                continue
            drawer = drawer_of(overload, seed)
            counts, said = collections.Counter(), {}
            for _ in range(options.n):
                call = drawer.draw()
                try:
                    ours = ask_service(server, connection, name, call)
                except OSError as error:
                    print("the connection ended", name, {k: brief(v) for k, v in call.items()}, error)
                    raise
                if isinstance(ours, str) and "out of range" in ours and name in UNCHECKED:
                    continue
                verdict, why = judge(name, call, ours, theirs.ask(name, call), theirs.ask)
                counts[verdict] += 1
                if verdict == "differ" or (verdict == "we refuse") or (options.v and verdict != "agreed"):
                    said.setdefault((verdict, re.sub(r"[0-9.-]+", "", why)[:40]), (why, call))
            total += counts
            print(f"{name}: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())))
            for (verdict, _), (why, call) in said.items():
                print(f"  {verdict}: {why}\n    {', '.join(f'{k}={brief(v)}' for k, v in call.items())}")
            sys.stdout.flush()
    print(", ".join(f"{n} {verdict}" for verdict, n in sorted(total.items())))
    return bool(total["differ"] + total["we refuse"])


if __name__ == "__main__":
    sys.exit(main())
