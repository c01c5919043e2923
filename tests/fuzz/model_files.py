#!/usr/bin/env python3
"""Model files of others, changed at random, sent to the real service and run there.

    TENSORD_BIN=build/tensord PYTHONPATH=tests .deps/venv/bin/python tests/fuzz/model_files.py [FILE_OR_FOLDER...] \\
        [--seconds 10] [--seed 1] [--kind onnx|pt2] [--mutations both|tree|bytes] [--memory BYTES] [--keep DIR]

Files (*.onnx and *.pt2; without any, the tests' own) are changed in what they mean (tree: names, numbers, types,
operators, nodes and parts in each other's places) or in their bytes. Each is loaded, looked at, run on inputs as it
declares them and on others, planned and eagerly, and taken away again.

What must hold: the service lives; a reply is a result or a problem with a sentence, never a 500; a file is judged in
PATIENCE seconds, and a run ends with its timeout_ms; what is resident stays below --memory, but for OWN; the store is
empty after each; a right model in between gives exactly its numbers; and SIGTERM ends it without a leak. A file that
breaks one of these is left in --keep, and its name said. --seed 0 draws one.
"""
import argparse
import collections
import copy
import io
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import zipfile

import numpy as np

import models
import service
from service import Service

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
import test_onnx  # noqa: E402
import test_pt2  # noqa: E402

LARGEST = 64 << 20 # bytes of a file
STATUSES = {200, 201, 400, 413, 501, 503, 504, 507} # of replies to a file, and to its calls
OWN = (2 << 30) if service.SANITIZED else (256 << 20) # bytes that are not counted; a sanitizer keeps what was freed
TIMEOUT = 1.0 # seconds that a run may ask for
PATIENCE = 120 if service.SANITIZED else 40 # a library's kernel that has begun runs to its end
MOST_CHANGES = 3 # of a graph at a time


class Fault(Exception):
    """The service did what it must not."""


# ---- files, and what is changed in them ----

def small_files():
    """The tests' own."""
    yield "line.onnx", models.line()
    yield "two.onnx", models.two()
    yield "forever.onnx", models.forever()
    yield "network.onnx", test_onnx.network().SerializeToString()
    yield "control.onnx", test_onnx.control().SerializeToString()
    yield "line.pt2", models.line_pt2()
    yield "linear_relu.pt2", test_pt2.linear_relu()[0].bytes()
    yield "views.pt2", test_pt2.views().bytes()


def files_of(paths):
    """(name, bytes) of all that there are, the largest left out."""
    for path in map(pathlib.Path, paths):
        found = sorted(p for p in path.rglob("*") if p.suffix in (".onnx", ".pt2")) if path.is_dir() else [path]
        for file in found:
            if file.stat().st_size <= LARGEST:
                yield str(file), file.read_bytes()


def other_nodes(graph, others, draw):
    """Nodes that have gone, come twice, are in another place, of another operator, or go elsewhere."""
    nodes = graph.node
    inner = [a.g for n in nodes for a in n.attribute if a.HasField("g")]
    if inner and draw.random() < 0.4:
        return other_nodes(draw.choice(inner), others, draw)
    if not nodes:
        return None
    i, k = draw.randrange(len(nodes)), draw.randrange(len(nodes))
    names = [n for node in nodes for n in (*node.input, *node.output)] or [""]
    how = draw.randrange(9)
    if how == 0:
        del nodes[i]
    elif how == 1:
        nodes.add().CopyFrom(nodes[i])
    elif how == 2:
        nodes[i].op_type = draw.choice(others)
    elif how == 3 and nodes[i].input:
        nodes[i].input[draw.randrange(len(nodes[i].input))] = draw.choice(names)
    elif how == 4:
        nodes[i].input.append(draw.choice(names))
    elif how == 5 and nodes[i].output:
        nodes[i].output[draw.randrange(len(nodes[i].output))] = draw.choice(names)
    elif how == 6:
        del nodes[i].attribute[:]
        nodes[i].attribute.extend(nodes[k].attribute)
    elif how == 7 and graph.initializer:
        tensor = draw.choice(graph.initializer)
        tensor.data_type = draw.randrange(24)
    else:
        ports = draw.choice([graph.input, graph.output])
        if ports:
            kind = draw.choice(ports).type.tensor_type
            kind.elem_type = draw.choice((kind.elem_type, draw.randrange(24)))
            if kind.shape.dim:
                draw.choice(kind.shape.dim).dim_value = draw.choice((0, 1, 2, 5, 1 << 40, -1))
    return None


def tree_onnx(good, others, draw):
    import onnx
    if draw.random() < 0.4:
        return test_onnx.other_attribute(good, draw)
    m = onnx.load_from_string(good)
    for _ in range(draw.randrange(1, MOST_CHANGES + 1)):
        other_nodes(m.graph, others, draw)
    if draw.random() < 0.1:
        m.opset_import[0].version = draw.choice((0, 1, 6, 7, 9, 12, 13, 18, 21, 22, 1 << 40))
    return m.SerializeToString()


def zipped(entries):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return data.getvalue()


def tree_pt2(good, others, draw):
    """The JSON of one member, with values in each other's places, numbers that are wrong, other overloads."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist() if "sample_inputs" not in name}
    graphs = [name for name in entries if name.endswith("model.json")]
    name = draw.choice(graphs if graphs and draw.random() < 0.8 else [n for n in entries if n.endswith(".json")])
    tree = test_pt2.changed(json.loads(entries[name]), draw)
    nodes = []
    try:
        nodes = tree["graph_module"]["graph"]["nodes"]
        if draw.random() < 0.2:
            draw.choice(nodes)["target"] = draw.choice(others)
        elif draw.random() < 0.2:
            nodes.insert(draw.randrange(len(nodes) + 1), copy.deepcopy(draw.choice(nodes)))
    except (KeyError, TypeError, IndexError, AttributeError):
        pass # changed already
    if draw.random() < 0.05:
        weight = draw.choice(list(entries))
        entries[weight] = entries[weight][:draw.randrange(len(entries[weight]) + 1)]
    return zipped({**entries, name: json.dumps(tree).encode()})


def targets(name, good):
    """The operators of a file, as it calls them."""
    if name.endswith(".onnx"):
        import onnx
        return {node.op_type for node in onnx.load_from_string(good).graph.node}
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        graph = next((n for n in archive.namelist() if n.endswith("model.json")), None)
        return set(re.findall(r'"target": *"([^"]+)"', archive.read(graph).decode())) if graph else set()


# ---- the service ----

class Run:
    def __init__(self, files, others, args):
        self.files, self.others, self.draw = files, others, random.Random(args.seed)
        self.mutations, self.keep = args.mutations, args.keep
        self.limit, self.most = args.memory, 0
        self.service = Service("--memory", str(args.memory), "--max-body", str(2 * LARGEST))
        self.counts, self.slowest = collections.Counter(), (0, "", "")
        self.idle = None

    def call(self, what, method, path, body=None, headers=None):
        begin = time.monotonic()
        try:
            connection = self.service.connect(PATIENCE)
            reply = self.service.call(method, path, body, headers, connection)
            connection.close()
        except OSError as error:
            raise Fault(f"{what}: {error!r}; the service {self.state()}") from None
        self.slowest = max(self.slowest, (time.monotonic() - begin, what, self.name))
        if method in ("PUT", "POST"):
            self.counts[f"{what} {reply.status}"] += 1
        if reply.status >= 400 and (reply.status not in STATUSES or len(reply.json["detail"]) < 8):
            raise Fault(f"{what}: {reply.status} {reply.body[:300]!r}")
        self.most = max(self.most, self.resident())
        if self.most > self.limit + OWN:
            raise Fault(f"{what}: {self.most >> 20} MiB are resident")
        return reply

    def state(self):
        try:
            return f"has ended with {self.service.process.wait(10)}"
        except subprocess.TimeoutExpired:
            return "lives"

    def resident(self):
        with open(f"/proc/{self.service.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def array(self, port):
        """As the port says, and mostly with numbers that are small."""
        sizes = {-1: self.draw.choice((1, 1, 2, 3, 7, 16, 0))}
        shape = [sizes.get(n, n) for n in port["shape"]]
        if self.draw.random() < 0.05 and shape:
            shape[self.draw.randrange(len(shape))] = self.draw.choice((0, 1, 2, 5))
        kind = service.DATATYPES.get(port["datatype"], np.float32)
        if np.prod(shape, dtype=float) > 1 << 22:
            return None
        values = np.arange(int(np.prod(shape))).reshape(shape) % self.draw.choice((1, 2, 5, 100))
        return np.asarray(values, kind)

    def run(self, model):
        inputs = [(port["name"], self.array(port)) for port in model["inputs"]]
        if any(value is None for _, value in inputs):
            return
        if self.draw.random() < 0.3:
            with np.errstate(all="ignore"):
                inputs = list(zip((name for name, _ in inputs),
                                  test_onnx.other_inputs([value for _, value in inputs], self.draw)))
        body, headers = service.pack(dict(inputs), {"timeout_ms": int(TIMEOUT * 1000)}, binary=True)
        eagerly = service.pack(dict(inputs), {"timeout_ms": int(TIMEOUT * 1000), "eager": True}, binary=True)
        for _ in range(self.draw.choice((1, 3, 3))): # what comes again gets a plan
            self.call("run", "POST", "/v2/models/changed/infer", body, headers)
        if self.draw.random() < 0.3:
            self.call("eager", "POST", "/v2/models/changed/infer", *eagerly)
        self.call("plan", "GET", "/v1/models/changed/plan")

    def one(self, file):
        if self.call("load", "PUT", "/v1/models/changed", file).status >= 400:
            return
        self.call("metadata", "GET", "/v2/models/changed/config")
        self.run(self.call("metadata", "GET", "/v2/models/changed").json)
        self.call("delete", "DELETE", "/v1/models/changed")
        end = time.monotonic() + PATIENCE # a thread that has replied lets go of the model a moment later
        while (more := self.nobodys() - self.idle):
            if time.monotonic() > end:
                raise Fault(f"{more} bytes are counted for nothing")
            time.sleep(0.01)

    def nobodys(self):
        """Bytes that the store counts beside the models it has: the right one may have got another plan."""
        reply = self.call("store", "GET", "/v1/models").json
        return reply["store"]["bytes"] - sum(model["bytes"] for model in reply["models"])

    def control(self):
        x = np.array([[1, 2, 3], [self.draw.randrange(9), -1, 0]], np.float32)
        reply = self.service.infer("right", {"x": x}, path="/v2/models/{}/infer", binary=True)
        if reply.status != 200 or not np.array_equal(reply.outputs["y"], models.line_of(x)):
            raise Fault(f"the right model gives {reply.status} {reply.body[:300]!r}")

    def changed(self, name, good):
        tree = self.mutations == "tree" or (self.mutations == "both" and self.draw.random() < 0.7)
        if not tree:
            return test_onnx.mutated(good, self.draw.choice(self.files)[1], self.draw)
        kind = ".onnx" if name.endswith(".onnx") else ".pt2"
        return (tree_onnx if kind == ".onnx" else tree_pt2)(good, self.others[kind], self.draw)

    def go(self, seconds):
        self.name, end = "", time.monotonic() + seconds
        self.call("load", "PUT", "/v1/models/right", models.line())
        self.control()
        self.idle = self.nobodys()
        for n in itertools.count():
            if time.monotonic() > end:
                return True
            self.name, good = self.draw.choice(self.files)
            file = self.changed(self.name, good)
            try:
                self.one(file)
                if n % 10 == 0:
                    self.control()
            except (Fault, ValueError, KeyError) as fault:
                path = pathlib.Path(self.keep) / f"fault-{n}{pathlib.Path(self.name).suffix}"
                path.write_bytes(file)
                print(f"{self.name} changed, as in {path}: {fault!r}", flush=True)
                return False

    def end(self):
        self.service.stop()
        print(f"{dict(sorted(self.counts.items()))}; the longest: {self.slowest[0]:.1f} s, {self.slowest[1]} of "
              f"{self.slowest[2]}; at most {self.most >> 20} MiB resident", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="0 draws one [1]")
    parser.add_argument("--kind", choices=("onnx", "pt2"), help="only such files [both]")
    parser.add_argument("--mutations", choices=("tree", "bytes", "both"), default="both", help="[both]")
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes that the service may hold [1 GiB]")
    parser.add_argument("--keep", default=tempfile.gettempdir(), help="where files go that broke something")
    args = parser.parse_args()
    args.seed = args.seed or random.SystemRandom().randrange(1, 2**31)
    files = [f for f in (files_of(args.files) if args.files else small_files()) if f[0].endswith(args.kind or "")]
    others = {kind: sorted(set().union(*(targets(*f) for f in files if f[0].endswith(kind)))) for kind in (".onnx", ".pt2")}
    print(f"--seed {args.seed}, {len(files)} files", flush=True)
    run = Run(files, others, args)
    held = False
    try:
        held = run.go(args.seconds)
    finally:
        run.end()
    raise SystemExit(not held)


if __name__ == "__main__":
    main()
