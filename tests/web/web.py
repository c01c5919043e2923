#!/usr/bin/env python3
"""web.py [--pictures DIR | --cost SECONDS]: the dashboard in headless Chromium, as dashboard.mjs looks at it, or
pictures of it, or what each view costs the server while somebody looks."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import certificates
import service
import tokens

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODE = ROOT / ".deps/venv/bin/node"
CHROMIUM = shutil.which("chromium")

if not CHROMIUM:
    service.skip("no Chromium: install Debian's package chromium; other systems may have none that runs without a desktop")
if not NODE.exists() or not (ROOT / ".deps/npm/node_modules/playwright-core").exists():
    service.skip("no playwright-core in .deps/npm: run deploy/setup.sh check")

def model(path):
    """Two layers and a softmax, of as many rows of three as come."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in "xy"]
    made = [("Gemm", "x a b", "m"), ("Relu", "m", "r"), ("Gemm", "r c d", "s"), ("Softmax", "s", "y")]
    nodes = [helper.make_node(op, inputs.split(), [out]) for op, inputs, out in made]
    weights = [numpy_helper.from_array(np.linspace(-1, 1, np.prod(shape), dtype=np.float32).reshape(shape), name)
               for name, shape in (("a", (3, 16)), ("b", (16,)), ("c", (16, 3)), ("d", (3,)))]
    return write(path, nodes, values, weights)


def write(path, nodes, values, weights=()):
    graph = helper.make_graph(nodes, "graph", values[:1], values[1:], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


def foul(path):
    """What would run code where a name became a part of the page."""
    bad = "<img src=x onerror='window.foul=1'>"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in ("in" + bad, "out" + bad)]
    return write(path, [helper.make_node("Softmax", ["in" + bad], ["m" + bad], name="one" + bad),
                        helper.make_node("CumSum", ["m" + bad, "axis"], ["out" + bad], name="two" + bad)], values,
                 [numpy_helper.from_array(np.array(1), "axis")])


def long(path, steps=2000):
    """As many steps that no pass takes together."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 3]) for name in ("v0", f"v{steps}")]
    nodes = [helper.make_node("Softmax", [f"v{i}"], [f"v{i + 1}"], name=f"node{i}") if i % 2 == 0 else
             helper.make_node("CumSum", [f"v{i}", "axis"], [f"v{i + 1}"], name=f"node{i}") for i in range(steps)]
    return write(path, nodes, values, [numpy_helper.from_array(np.array(1), "axis")])


with service.Service() as s, tempfile.TemporaryDirectory() as folder:
    for name in ("mlp/1/weight", "mlp/1/bias"):
        tensor = np.ones((48, 64) if "weight" in name else 48, np.float32)
        s.call("PUT", f"/v1/tensors/{name}", {"shape": list(tensor.shape), "datatype": "FP32", "data": tensor.ravel().tolist()})
    x = {"name": "input", "shape": [64, 64], "datatype": "FP32", "data": [0.5] * 4096} # has a packed form made
    s.call("POST", "/v1/ops/linear", {"inputs": [x, {"name": "weight", **service.stored("mlp/1/weight")}]})
    files = {"MODEL": model(pathlib.Path(folder, "scores.onnx")), "FOUL": foul(pathlib.Path(folder, "foul.onnx")),
             "LONG": long(pathlib.Path(folder, "long.onnx"))}
    done = subprocess.run([NODE, ROOT / "tests/web/dashboard.mjs", *sys.argv[1:]], cwd=ROOT,
                          env={**os.environ, "PAGE": f"http://127.0.0.1:{s.port}", "CHROMIUM": CHROMIUM, "PID": str(s.pid),
                               **{name: str(path) for name, path in files.items()}})
if done.returncode or len(sys.argv) > 1:
    sys.exit(done.returncode)
with tempfile.TemporaryDirectory() as folder:
    known = tokens.Tokens(folder + "/tokens", tokens.RANDOM)
    for name, scopes in (("READER", "read"), ("RUNNER", "run"), ("USER", "read,run"), ("KEEPER", "read,run,store")):
        known.add(name, scopes)
    known.write()
    authority, (cert, key) = certificates.here()
    with service.Service("--tokens", known.path, "--tls-cert", str(cert), "--tls-key", str(key), tls=authority.context()) as s, service.Service("--listen", "0.0.0.0:0", "--insecure") as insecure:
        put = s.call("PUT", "/v1/models/scores", model(pathlib.Path(folder, "scores.onnx")).read_bytes(), known.headers("KEEPER"))
        assert put.status == 201, put.body
        done = subprocess.run([NODE, ROOT / "tests/web/tokens.mjs"], cwd=ROOT,
                              env={**os.environ, "PAGE": f"https://127.0.0.1:{s.port}", "INSECURE": f"http://127.0.0.1:{insecure.port}",
                                   "NODE_EXTRA_CA_CERTS": str(authority.ca), "CHROMIUM": CHROMIUM, "TOKENS": known.path, **known.secrets})
    assert not any(secret in s.log for secret in known.secrets.values()), "a secret is in the log"
sys.exit(done.returncode)
