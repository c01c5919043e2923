#!/usr/bin/env python3
"""A folder of files that other tools wrote: does each load, does it agree with its tool, and how long does it take beside
ONNX Runtime or PyTorch.

    people.py DIR [--only REGEX] [--calls N]

A line a file: what wrote it, what the load said, the largest difference of any output (relative to the largest element
where that is above 1; whole numbers: the share that differs), and the least time of N calls of either side in turns, one
thread each, on one CPU; then a table by tool. people_files.py writes such files: beside each its NAME.npz with in0, in1, ...,
the inputs, out0, ..., the tool's answers. A NAME.npz may also have inputs by name, or its first as X, and be missing: what a
file wants is then drawn (sizes by their names, token ids below 9, masks of ones with a tail of zeros), and ONNX Runtime
answers.
"""
import argparse
import collections
import os
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
os.environ.setdefault("TENSORD_BIN", str(pathlib.Path(__file__).resolve().parents[2] / "build/tensord"))
import service  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402

KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32,
         "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(bool)": np.bool_, "tensor(float16)": np.float16}
SIZES = {"b": 1, "past": 5, "total": 8, "s": 3, "seq": 12, "sequence": 12}
HALF = ("fp16", "bf16", "_4", "_8", "dynamic", "qdq", "qop", "int4") # beside these a last bit of 8 or 16 is a difference


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def program_of(path):
    """PyTorch's own run of an archive: a function of arrays."""
    import torch
    torch.set_num_threads(1)
    program = torch.export.load(path)
    kinds = [n.meta["val"].dtype for n in program.graph.nodes if n.op == "placeholder" and n.name in program.graph_signature.user_inputs]
    run = program.module()
    names = list(program.call_spec.in_spec.child(1).context or []) if program.call_spec.in_spec.child(1).num_children else []

    def call(arrays):
        tensors = [torch.from_numpy(np.array(a)).to(kind) for a, kind in zip(arrays, kinds)]
        args = tensors[:len(tensors) - len(names)]
        return lambda: run(*args, **dict(zip(names, tensors[len(args):])))
    return call


def draw(rng, port):
    """Of what has four dimensions, pictures of 64 x 64."""
    picture = len(port.shape) == 4
    shape = [n if isinstance(n, int) else SIZES.get(n, 64 if picture and d else 2) for d, n in enumerate(port.shape)]
    kind, name = KINDS[port.type], port.name
    if "seqlens" in name or "total_sequence" in name:
        return np.full(shape, 7 if "seqlens" in name else 8, kind)
    if "mask" in name and kind in (np.int64, np.int32):
        mask = np.ones(shape, kind)
        mask[-1:, 9:] = 0
        return mask
    if "type" in name or kind == np.bool_:
        return rng.integers(0, 2, shape).astype(kind)
    if kind in (np.int64, np.int32, np.uint8, np.int8):
        return rng.integers(0, 9 if kind in (np.int64, np.int32) else 100, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def drawn(rng, file, session):
    """Inputs by name, and ONNX Runtime's answers; None: it does not run on what is drawn."""
    ports = session.get_inputs()
    if any(p.type not in KINDS for p in ports):
        return None
    given = dict(file)
    if "X" in given and len(ports) == 1:
        given[ports[0].name] = given["X"]
    inputs = {p.name: given[p.name] if p.name in given else draw(rng, p) for p in ports}
    try:
        return inputs, session.run(None, inputs)
    except Exception:
        return None


def as_array(value):
    """A sequence of maps, as ZipMap makes it, is the table of their values."""
    value = value.tolist() if isinstance(value, np.ndarray) and value.dtype == object else value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return np.array([list(row.values()) for row in value], np.float32)
    return np.asarray(value)


def difference(got, want):
    if got.shape != want.shape:
        return f"shape {list(got.shape)} not {list(want.shape)}"
    if want.dtype.kind in "iubSUO" and (want.dtype.itemsize > 1 or want.dtype.kind == "b"):
        return float(np.mean(got != want))
    a, b = got.astype(float), want.astype(float)
    same = (np.isnan(a) & np.isnan(b)) | (a == b)
    with np.errstate(invalid="ignore"):
        return float(np.abs(np.where(same, 0, a - b)).max(initial=0)) / max(1, float(np.abs(np.where(np.isfinite(b), b, 0)).max(initial=0)))


def times(server, path, inputs, parameters, theirs, calls):
    """(ours, theirs): the least us."""
    body, headers = service.pack(inputs, parameters, binary=True)
    ours, other, connection = [], [], server.connect()
    for _ in range(calls):
        ours.append(server.call("POST", "/v2/models/m/infer", body, headers, connection).parameters["compute_us"])
        begin = time.perf_counter()
        theirs()
        other.append((time.perf_counter() - begin) * 1e6)
    connection.close()
    return min(ours), min(other)


def bytes_of(path):
    """A form of the file and of those beside it, where its weights lie in others."""
    beside = [p for p in (path.with_name(path.name + ".data"), path.with_name(path.stem + ".data")) if p.exists()]
    if not beside:
        return path.read_bytes(), {}
    mark, parts = "people-people", []
    for name, file in [("model", path), *((p.name, p) for p in beside)]:
        parts.append(f'--{mark}\r\nContent-Disposition: form-data; name="{name}"; filename="{file.name}"\r\n\r\n'.encode() + file.read_bytes() + b"\r\n")
    return b"".join(parts) + f"--{mark}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={mark}"}


class Look:
    """What became of a file; said: in words."""

    def __init__(self, path):
        self.path, self.loads, self.agrees, self.ratio, self.said = path, False, False, None, ""
        kept = path.with_name(path.name + ".npz")
        self.file = dict(np.load(kept if kept.exists() else path.with_suffix(".npz"), allow_pickle=True)) if kept.exists() or path.with_suffix(".npz").exists() else {}
        self.tool = str(self.file.pop("tool", "?"))

    def judge(self, server, rng, calls):
        session, refused = None, None
        if self.path.suffix == ".onnx":
            try:
                session = session_of(self.path)
                if self.tool == "?":
                    self.tool = session.get_modelmeta().producer_name or "unsaid"
            except Exception as error:
                refused = f"ONNX Runtime refuses it: {str(error).strip().splitlines()[0][:90]}"
        body, headers = bytes_of(self.path)
        reply = server.call("PUT", "/v1/models/m", body, headers)
        if reply.status not in (200, 201):
            self.said = reply.json["detail"]
            return
        self.loads = True
        ports = [p["name"] for p in reply.json["inputs"]]
        if "in0" in self.file:
            arrays = [self.file[f"in{i}"] for i in range(sum(k.startswith("in") for k in self.file))]
            if session is not None:
                ports = [p.name for p in session.get_inputs()]
            inputs, wanted = dict(zip(ports, arrays)), [self.file[f"out{i}"] for i in range(sum(k.startswith("out") for k in self.file))]
        elif session is None:
            self.said = refused or "has no inputs beside it"
            return
        else:
            made = drawn(rng, self.file, session)
            if made is None:
                self.said = "wants other inputs than are drawn; NAME.npz is right"
                return
            inputs, wanted = made
            arrays = list(inputs.values())
        state = {"session": ""} if any(s.get("from") != "pair" for s in reply.json.get("state", [])) else {}
        kinds = {p["name"]: p["datatype"] for p in reply.json["inputs"]}
        given = {name: service.BF16(a) if kinds.get(name) == "BF16" else a for name, a in inputs.items()}
        answer = server.infer("m", given, state, path="/v2/models/{}/infer", binary=True)
        if answer.status != 200:
            self.said = answer.json["detail"]
            return
        outputs = list(answer.outputs.values()) if session is None else [answer.outputs[p.name] for p in session.get_outputs()]
        apart = [difference(getattr(got, "values", got), as_array(want)) for got, want in zip(outputs, wanted)]
        self.said = " ".join(a if isinstance(a, str) else f"{a:.0e}" for a in apart)
        limit = 1e-2 if any(word in self.path.stem for word in HALF) else 1e-4
        self.agrees = len(outputs) == len(wanted) and all(not isinstance(a, str) and a < limit for a in apart)
        if refused:
            self.said += f"; {refused}"
            return
        run = (lambda: session.run(None, inputs)) if session is not None else program_of(self.path)(arrays)
        ours, theirs = times(server, self.path, given, state, run, calls)
        self.ratio = ours / theirs
        self.said += f"; {ours:.0f} us, {'ONNX Runtime' if session is not None else 'PyTorch'} {theirs:.0f}, {self.ratio:.2f}"


def table(looks):
    """By tool: files, how many load, agree, and the ratio of times in the middle, at best and at worst."""
    tools = collections.defaultdict(list)
    for look in looks:
        tools[look.tool].append(look)
    print("| written by | files | load | agree | time beside the tool's: median (best, worst) |\n|---|---|---|---|---|")
    for tool, of in [*tools.items(), ("all", looks)]:
        ratios = [look.ratio for look in of if look.ratio]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})" if ratios else ""
        print(f"| {tool} | {len(of)} | {sum(look.loads for look in of)} | {sum(look.agrees for look in of)} | {spread} |")
    timed = sorted((look for look in looks if look.ratio), key=lambda look: -look.ratio)
    if timed:
        print(f"geometric mean {statistics.geometric_mean(look.ratio for look in timed):.2f}; the slowest beside their tool: "
              + ", ".join(f"{look.path.stem} {look.ratio:.2f}" for look in timed[:5]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="files whose path has this")
    parser.add_argument("--calls", type=int, default=40)
    args = parser.parse_args()
    rng, looks = np.random.default_rng(service.seed()), []
    os.sched_setaffinity(0, {int(service.CPUS[0])})
    with service.Service("--pool", f"default={service.CPUS[0]}", "--log", "off") as server:
        for path in sorted([*args.folder.rglob("*.onnx"), *args.folder.rglob("*.pt2")]):
            if not re.search(args.only, str(path)):
                continue
            look = Look(path)
            look.judge(server, rng, args.calls)
            looks.append(look)
            verdict = "agrees" if look.agrees else "DIFFERS" if look.ratio else "loads;" if look.loads else "REFUSED"
            print(f"{path.relative_to(args.folder)!s:36} {verdict} {look.said}", flush=True)
            server.call("DELETE", "/v1/models/m")
    table(looks)
    print(f"{sum(look.agrees for look in looks)} of {len(looks)} load and agree")


if __name__ == "__main__":
    main()
