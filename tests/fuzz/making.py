"""Requests for fuzz/requests.py: calls that are nearly right, and what is done between calls.

Maker.call() starts from a call of an operator's judge (operators.py), puts other sizes in place of
its own, chooses where each tensor lies and what else is asked for, and then breaks a few things.
"""
import json
import math
import os

import numpy as np

import operators
import pointwise
import service

SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 130, 900)
EMPTY = (0, 0, 3, 2**22, 2**40) # of tensors that have no elements, and other sizes that do not matter
HUGE = (2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**45, 2**46, 2**53, 2**62, 2**63, 2**64, 10**30)
ODD = (None, True, False, 0, 1, -1, 2, -7, 0.5, -0.0, 1e-310, 1e39, -1e300, 2**31, 2**53 + 2, -2**63, 2**64, math.nan,
       math.inf, "", "x", "none", "FP32", "relu", "\u0000", "\ud7ff\"\\\n", "9" * 700, [], [0], [1, 1], [-1, 0],
       [0, 0], [True, False], [1, "x"], [[1]], list(range(17)), [2**40] * 2, {}, {"shape": []}, {"data": [1]},
       {"shape": [1], "datatype": "FP32", "data": [1]})
DATATYPES = operators.INTEGERS + operators.FLOATS + ("BOOL",)
WORDS = (b'"data":', b'"shape":', b"null", b"-1", b"2147483648", b"1e999", b"NaN", b"[[", b"]]", b"{}", b'"', b"\\u0000",
         b"\xff", b"\x00", b",,", b'"parameters":', b'"tensor":', b"9" * 400, b"\xf0\x9f\x98\x80", b"[" * 40)
SIGNS = "+ - * / // % ** < == & | ^ <<".split()
MOST = 8192 # elements of a tensor that comes with its data
LIGHT = ("abs", "add", "exp", "mul", "neg", "relu", "sigmoid", "softmax", "sub", "tanh", "transpose") # for millions of them


def one_of(rng, *choices):
    return rng.choice(choices)


class Tensor:
    """One input: shape, type, and where its elements are."""

    def __init__(self, name, shape, datatype):
        self.name, self.shape, self.datatype = name, list(shape), datatype
        self.source, self.own, self.where = "json", {}, {}
        self.said = False # a stored one's shape and type

    @property
    def count(self):
        return math.prod(self.shape) if all(isinstance(n, int) and n >= 0 for n in self.shape) else 0

    def elements(self, rng):
        count = self.count if self.count <= MOST else 0
        values = [rng.choice((0, 1, 2, 3, 100)) for _ in range(count)]
        if self.datatype in operators.FLOATS and rng.random() < 0.3:
            values = [rng.choice((0.5, -1.25, 1e30, -3, math.nan, math.inf, 0.0)) for _ in values]
        return [v != 0 for v in values] if self.datatype == "BOOL" else values

    def bytes(self, rng):
        with np.errstate(all="ignore"):
            if self.datatype not in DATATYPES:
                return b"12345678"
            if self.datatype == "BOOL" and rng.random() < 0.1:
                return bytes(rng.choice((0, 1, 2, 255)) for _ in self.elements(rng))
            if self.datatype == "BF16":
                return service.elements(service.BF16(np.array(self.elements(rng), np.float32)))
            return np.array(self.elements(rng), service.DATATYPES[self.datatype]).tobytes()

    def object(self, rng, blobs, shapes_only=False):
        what = {"shape": list(self.shape), "datatype": self.datatype}
        parameters = dict(self.own)
        if self.source == "stored":
            what = what if self.said else {}
            parameters |= self.where
        elif shapes_only or self.source == "none":
            pass
        elif self.source == "shared":
            parameters |= self.where
        elif self.source == "binary":
            blobs.append(self.bytes(rng))
            parameters["binary_data_size"] = len(blobs[-1])
        else:
            what["data"] = self.elements(rng)
        if parameters:
            what["parameters"] = parameters
        return what if self.name is None else {"name": self.name, **what}


class Call:
    """A call of an operator. fair: nothing was broken on purpose; twin: its shapes may be asked for again."""

    def __init__(self, op, tensors, parameters):
        self.op, self.tensors, self.parameters = op, tensors, parameters
        self.args, self.outputs, self.headers, self.rest = [], None, {}, {}
        self.path, self.fair, self.twin = "/v1/ops/" + op, True, True

    def body(self, rng, shapes_only=False):
        blobs = []
        objects = [(t, t.object(rng, blobs, shapes_only)) for t in self.tensors]
        sizes = [(o["shape"], i) for t, o in objects if t.source != "stored" for i in range(len(o["shape"]))]
        if shapes_only and sizes and rng.random() < 0.5: # one is unknown
            shape, i = rng.choice(sizes)
            shape[i] = -1
        root = {"inputs": [o for t, o in objects if t.name is not None], **self.rest}
        args = [o for t, o in objects if t.name is None] + self.args
        parameters = dict(self.parameters)
        if shapes_only:
            parameters["meta"] = True
            parameters.pop("pool", None) # may have gone since
        if args:
            root["args"] = args
        if parameters:
            root["parameters"] = parameters
        if shapes_only:
            root.pop("outputs", None)
        elif self.outputs is not None:
            root["outputs"] = self.outputs
        head = json.dumps(root).encode()
        headers = {"Content-Type": "application/json", **({} if shapes_only else self.headers)}
        if blobs:
            headers.setdefault("Inference-Header-Content-Length", str(len(head)))
        return head + b"".join(blobs), headers


class Maker:
    """names: stored tensors that only this client changes; shared: those of all clients."""

    def __init__(self, rng, ops, keys, regions, tag):
        self.rng, self.ops, self.keys, self.regions = rng, ops, keys, regions
        self.kernels = sorted({k["name"] for op in ops for k in op["kernels"]}) + ["simd@AVX2", "ref@DEFAULT", "none"]
        self.names = [f"{tag}/{i}" for i in range(4)]
        self.shared = ["all/0", "all/1"]
        self.chain = [f"{tag}/chain{i}" for i in range(3)]

    def likely(self, chance):
        return self.rng.random() < chance

    # ---- a call that should be right ----

    def base(self):
        op = self.rng.choice(self.ops)
        judge = operators.JUDGES.get(op["name"])
        datatype = self.rng.choice(op["dtypes"])
        if not judge: # an operator that has none: anything that its schema names
            tensors = [Tensor(a["name"], [self.rng.choice(SIZES) for _ in range(self.rng.randrange(4))], datatype)
                       for a in op["arguments"] if a["type"].startswith("Tensor")]
            return op, Call(op["name"], tensors, {a["name"]: self.rng.choice(ODD) for a in op["arguments"]
                                                  if not a["type"].startswith("Tensor") and "default" not in a})
        shapes, parameters = self.rng.choice(judge.calls)
        pick = EMPTY if self.likely(0.1) else SIZES
        sizes = {n: n if pick is SIZES and self.likely(0.4) else self.rng.choice(pick) for s in shapes.values() for n in s}
        mapped = {key: [sizes.get(n, n) for n in value] if key == "normalized_shape" else value
                  for key, value in parameters.items()}
        tensors = [Tensor(name, [sizes[n] for n in shape], "BOOL" if name in pointwise.MASKS else datatype) for name, shape in shapes.items()]
        return op, Call(op["name"], tensors, mapped)

    # ---- a chain of calls: what one has left in the store is the next one's input ----

    def first_link(self):
        """Its result is of a few numbers, or, of a call of 300 bytes, of up to 25 million."""
        if self.likely(0.7):
            return self.base()[1]
        padding = self.rng.choice((30, 300, 1000, 1500, 2500))
        call = Call("conv2d", [Tensor(name, [1, 1, 1, 1], "FP32") for name in ("input", "weight")], {"padding": [padding] * 2})
        return call

    def link(self, name, shape, datatype):
        """A call whose first tensor is the stored one, and whose others have shapes that go with it; None: none found."""
        for _ in range(200):
            op = self.rng.choice(self.ops)
            judge = operators.JUDGES.get(op["name"])
            if not judge or datatype not in op["dtypes"] or (math.prod(shape) > 1 << 20 and op["name"] not in LIGHT):
                continue
            shapes, parameters = self.rng.choice(judge.calls)
            first = next(iter(shapes.values()), None)
            if first is None or len(first) != len(shape) or "normalized_shape" in parameters:
                continue
            sizes = dict(zip(first, shape))
            tensors = [Tensor(n, [sizes.get(k, k) for k in dims], "BOOL" if n in pointwise.MASKS else datatype)
                       for n, dims in shapes.items()]
            if any(t.count > MOST for t in tensors[1:]):
                continue
            tensors[0].source, tensors[0].where = "stored", {"tensor": name}
            return Call(op["name"], tensors, dict(parameters))
        return None

    def by_position(self, call, op):
        """The first arguments without their names."""
        names = [a["name"] for a in op["arguments"]]
        count = self.rng.randrange(1, 3)
        for name in names[:count]:
            tensor = next((t for t in call.tensors if t.name == name), None)
            if tensor:
                tensor.name = None
            elif name in call.parameters:
                call.args.append(call.parameters.pop(name))
            else:
                break

    def by_expression(self, call):
        """The call as part of an expression, over the same tensors."""
        names = dict.fromkeys(t.name.partition(".")[0] for t in call.tensors)
        args = [f"{n}={n}" for n in names] + [f"{n}={self.word(value)}" for n, value in call.parameters.items()]
        text, some = f"{call.op}({', '.join(args)})", list(names) or ["1"]
        for _ in range(self.rng.randrange(6)):
            other = one_of(self.rng, text, self.rng.choice(some), "2", "-0.5", "True")
            text = one_of(self.rng, f"{self.rng.choice(LIGHT)}({text})", f"({text} {self.rng.choice(SIGNS)} {other})", f"-{text}",
                          f"{text}[{self.rng.randrange(3)}]", f"cat([{text}, {other}], 0)", f"where({text} > 0, {other}, {text})",
                          f"sum({text}, [-1], keepdim=True)", f"expand({text}, [3, -1, -1])")
        if self.likely(0.3):
            text = f"x = {text}; _y = x * 2; z = {one_of(self.rng, 'x + _y', 'x', '_y', 'matmul(x, _y)')}"
        if self.likely(0.2):
            at = self.rng.randrange(len(text))
            text = text[:at] + one_of(self.rng, "", "(", ")", "[", ",", "=", ";", " ", "_", "1e9", "None", text) + text[at + self.rng.randrange(3):]
        call.path, call.parameters, call.rest = "/v1/eval", {}, {"expr": text}

    def word(self, value):
        """A constant as expressions have it."""
        return f"[{', '.join(map(self.word, value))}]" if isinstance(value, list) else repr(value)

    def place(self, call):
        for tensor in call.tensors:
            where = self.rng.random()
            if tensor.count > MOST or where < 0.04:
                tensor.source = one_of(self.rng, "none", "shared")
            elif where < 0.25:
                tensor.source = "binary"
            elif where < 0.35:
                tensor.source = "stored"
            elif where < 0.45:
                tensor.source = "shared"
            if tensor.source == "stored":
                name = self.rng.choice(self.names if self.likely(0.8) else self.shared)
                tensor.where, tensor.said = {"tensor": name}, self.likely(0.3)
                call.twin = call.twin and name in self.names
            elif tensor.source == "shared":
                tensor.where = self.region(tensor.count * self.rng.choice((1, 1, 2, 4, 8)))
            if self.likely(0.1):
                tensor.own = {one_of(self.rng, "device", "layout", "requires_grad"):
                              one_of(self.rng, "cpu", "refcpu", "meta", "cuda", "strided", "sparse_coo", "_mkldnn", True, 5)}

    def region(self, size):
        where = {"shared_memory_region": self.rng.choice(self.regions.names), "shared_memory_byte_size": size}
        if self.likely(0.5):
            where["shared_memory_offset"] = self.rng.choice((0, 0, 1, 8, 64, 4000, 4096, 2**20, 2**53))
        return where

    def options(self, call):
        choices = {
            "explain": (True, False), "trace": (True,), "kernel": self.kernels, "pool": ("default", "few", "nosuch"),
            "device": ("cpu", "refcpu", "meta", "cuda", "privateuse2"), "binary_data_output": (True,),
            "layout": ("strided", "sparse_coo", "sparse_csr", "_mkldnn"), "autocast": ("BF16", "FP16", None),
            "meta": (True, False), "timeout_ms": (0, 1, 1000, 10**9), "timeout": (1, 10**12), "priority": (0, 1, 9, 10**9),
            "include_keys": [self.some_keys() for _ in range(3)], "exclude_keys": [self.some_keys() for _ in range(3)]}
        while self.likely(0.4):
            name = self.rng.choice(sorted(choices))
            call.parameters[name] = self.rng.choice(choices[name])

    def some_keys(self):
        return [self.rng.choice(self.keys) for _ in range(self.rng.randrange(3))]

    def results(self, call):
        """Where the results go, perhaps twice or to nowhere."""
        call.outputs = []
        while self.likely(0.6):
            parameters = one_of(self.rng, {}, {"binary_data": True}, {"binary_data": False}, self.region(4096),
                                {"tensor": self.rng.choice(self.names)}, {"tensor": self.rng.choice(self.shared)},
                                {"tensor": "../x"}, {"binary_data": self.rng.choice(ODD)})
            call.outputs.append({"name": one_of(self.rng, "out", "out", "out", "out0", "nosuch", 1), "parameters": parameters})
        changed = {o["parameters"].get("tensor") for o in call.outputs}
        call.twin = call.twin and not changed & {t.where.get("tensor", "") for t in call.tensors}

    def in_place(self, call):
        name, dot, overload = call.op.partition(".")
        call.path = call.path.replace(call.op, name + "_" + dot + overload)
        call.tensors[0].source, call.tensors[0].where = "stored", {"tensor": self.rng.choice(self.names + self.shared)}
        call.twin = False

    # ---- what is wrong with it ----

    def broken(self, call):
        call.fair = False
        tensor = self.rng.choice(call.tensors) if call.tensors else Tensor("self", [2], "FP32")
        how = self.rng.randrange(13)
        if how == 0:
            tensor.shape.insert(self.rng.randrange(len(tensor.shape) + 1), self.rng.choice(SIZES))
        elif how == 1 and tensor.shape:
            tensor.shape.pop()
        elif how == 2 and tensor.shape:
            tensor.shape[self.rng.randrange(len(tensor.shape))] = self.rng.choice(SIZES)
        elif how == 3 and tensor.shape:
            tensor.shape[self.rng.randrange(len(tensor.shape))] = self.rng.choice(HUGE + (-1, 0.5, "2", None))
            tensor.source = one_of(self.rng, "none", "json", "shared")
        elif how == 4:
            tensor.shape = one_of(self.rng, [], [0] * 8, [1] * 8, [1] * 9, [2] * 8, [2**40, 0, 2**6], [0, 2**46], [2**24] * 2)
        elif how == 5:
            tensor.datatype = one_of(self.rng, *DATATYPES, "FP31", None)
        elif how == 6:
            tensor.name = one_of(self.rng, "self", "other", "", "x" * 60, "out", 5)
        elif how == 7 and call.tensors:
            call.tensors.remove(tensor)
        elif how == 8:
            count, kind = self.rng.choice((1, 1, 2, 15, 16, 31, 32, 40)), self.rng.randrange(3)
            call.tensors[:0] = [Tensor((None, tensor.name, f"t{i}")[kind], [1], "FP32") for i in range(count)]
        elif how == 9:
            names = [*call.parameters, "dim", "alpha", "dtype", "bias", "explain", "meta", "device", "kernel", "pool"]
            call.parameters[self.rng.choice(names)] = self.rng.choice(ODD)
        elif how == 10:
            call.args.insert(0, self.rng.choice(ODD))
        elif how == 11:
            call.headers["Inference-Header-Content-Length"] = str(one_of(self.rng, 0, 1, 10, 99, 10**6, 2**63, -1, "x"))
        else:
            call.rest[one_of(self.rng, "inputs", "parameters", "outputs", "args", "id")] = self.rng.choice(ODD)
        for one in call.tensors:
            if one.count > MOST and one.source in ("json", "binary") and self.likely(0.5):
                one.source = "none"

    # ---- all of it ----

    def call(self):
        op, call = self.base()
        if self.likely(0.1):
            self.by_expression(call)
        elif self.likely(0.3):
            self.by_position(call, op)
        self.place(call)
        if self.likely(0.4):
            self.options(call)
        if self.likely(0.2):
            self.results(call)
        if call.path == "/v1/eval":
            pass
        elif self.likely(0.07) and call.tensors:
            self.in_place(call)
        elif self.likely(0.15):
            call.path = one_of(self.rng, f"/v2/models/op.{call.op}/infer", f"/v2/models/op.{call.op}/versions/1/infer")
        if self.likely(0.1):
            call.headers["Prefer"] = one_of(self.rng, "respond-async", "wait=1, respond-async;x=y", "respond-asyn")
        if self.likely(0.1):
            call.rest["id"] = one_of(self.rng, "7", "", "\u00e9\n", "x" * 2000)
        while self.likely(0.35):
            self.broken(call)
        return call

    def mutated(self, data):
        """A few bytes other than they were."""
        data = bytearray(data)
        for _ in range(self.rng.choice((1, 1, 2, 5))):
            at = self.rng.randrange(len(data) + 1)
            end = min(len(data), at + self.rng.choice((0, 1, 1, 2, 9, 100)))
            how = self.rng.randrange(5)
            if how == 0:
                data[at:end] = b""
            elif how == 1:
                data[at:end] = bytes(self.rng.randrange(256) for _ in range(end - at))
            elif how == 2:
                data[at:at] = self.rng.choice(WORDS)
            elif how == 3:
                data[at:at] = data[at:end]
            else:
                del data[at + 1:]
        return bytes(data)


class Regions:
    """Objects in shared memory: one as it should be, and one that shrinks, grows and goes."""

    def __init__(self, tag):
        base = f"/tensord_fuzz_{os.getpid()}_{tag}"
        self.keys = [base + "_good", base + "_bad"]
        self.names = [f"good{tag}", f"part{tag}", f"bad{tag}", "nosuch"]
        self.size = 65536
        for key in self.keys:
            self.resize(key, self.size)

    def resize(self, key, size):
        with open("/dev/shm" + key, "ab") as file:
            file.truncate(size)

    def close(self):
        for key in self.keys:
            if os.path.exists("/dev/shm" + key):
                os.unlink("/dev/shm" + key)
