#!/usr/bin/env python3
"""A folder of ONNX files that other tools wrote: does each load, does it agree with ONNX Runtime, and how long does it take
beside it.

    people.py DIR [--only REGEX] [--calls N]

A line a file: the operator sets besides ONNX's own, what the load said, the largest difference of any output (relative to
the largest element where that is above 1; whole numbers: the share that differs), and the least time of N calls of either
side in turns, one thread each, on one CPU. NAME.npz beside NAME.onnx may have inputs by name, or its first as X. What the
files want else is drawn: sizes by their names, token ids below 9, masks of ones with a tail of zeros.
"""
import argparse
import os
import pathlib
import re
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


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def draw(rng, port):
    shape = [n if isinstance(n, int) else SIZES.get(n, 2) for n in port.shape]
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


def inputs_of(rng, path, session):
    ports, file = session.get_inputs(), path.with_suffix(".npz")
    if any(p.type not in KINDS for p in ports):
        return None
    given = dict(np.load(file)) if file.exists() else {}
    if "X" in given and len(ports) == 1:
        given[ports[0].name] = given["X"]
    return {p.name: given[p.name] if p.name in given else draw(rng, p) for p in ports}


def as_array(value):
    """A sequence of maps, as ZipMap makes it, is the table of their values."""
    return np.array([list(row.values()) for row in value]) if isinstance(value, list) else np.asarray(value)


def difference(got, want):
    if got.shape != want.shape:
        return f"shape {list(got.shape)} not {list(want.shape)}"
    if want.dtype.kind in "iub" and want.dtype.itemsize > 1:
        return float(np.mean(got != want))
    a, b = got.astype(float), want.astype(float)
    same = np.isnan(a) & np.isnan(b)
    return float(np.abs(np.where(same, 0, a - b)).max(initial=0)) / max(1, float(np.abs(np.where(same, 0, b)).max(initial=0)))


def times(server, session, inputs, calls):
    """(ours, ONNX Runtime's): the least us."""
    body, headers = service.pack(inputs, binary=True)
    ours, theirs, connection = [], [], server.connect()
    for _ in range(calls):
        ours.append(server.call("POST", "/v2/models/m/infer", body, headers, connection).parameters["compute_us"])
        begin = time.perf_counter()
        session.run(None, inputs)
        theirs.append((time.perf_counter() - begin) * 1e6)
    connection.close()
    return min(ours), min(theirs)


def look(server, rng, path, calls):
    """(what is to be said of a file, whether it loads and agrees)."""
    try:
        session = session_of(path)
    except Exception as error:
        return f"ONNX Runtime refuses it: {str(error)[:90]}", False
    reply = server.call("PUT", "/v1/models/m", path.read_bytes())
    if reply.status not in (200, 201):
        return reply.json["detail"], False
    inputs = inputs_of(rng, path, session)
    if inputs is None:
        return "loads; takes no numbers", False
    reply = server.infer("m", inputs, path="/v2/models/{}/infer", binary=True)
    if reply.status != 200:
        return f"loads; {reply.json['detail']}", False
    names = [p.name for p in session.get_outputs()]
    apart = [difference(reply.outputs[name], as_array(want)) for name, want in zip(names, session.run(None, inputs))]
    said = " ".join(a if isinstance(a, str) else f"{a:.0e}" for a in apart)
    good = all(not isinstance(a, str) and a < (4e-3 if "fp16" in path.name else 1e-4) for a in apart)
    ours, theirs = times(server, session, inputs, calls)
    return f"{'agrees' if good else 'DIFFERS'} {said}; {ours:.0f} us, ONNX Runtime {theirs:.0f}", good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", default="", help="files whose path has this")
    parser.add_argument("--calls", type=int, default=40)
    args = parser.parse_args()
    rng, good, n = np.random.default_rng(service.seed()), 0, 0
    os.sched_setaffinity(0, {int(service.CPUS[0])})
    with service.Service("--pool", f"default={service.CPUS[0]}", "--log", "off") as server:
        for path in sorted(args.folder.rglob("*.onnx")):
            if not re.search(args.only, str(path)):
                continue
            said, right = look(server, rng, path, args.calls)
            good, n = good + right, n + 1
            print(f"{path.relative_to(args.folder)!s:36} {said}", flush=True)
            server.call("DELETE", "/v1/models/m")
    print(f"{good} of {n} load and agree")


if __name__ == "__main__":
    main()
