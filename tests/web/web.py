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

import service

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
    graph = helper.make_graph(nodes, "scores", values[:1], values[1:], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())
    return path


with service.Service() as s, tempfile.TemporaryDirectory() as folder:
    for name in ("mlp/1/weight", "mlp/1/bias"):
        tensor = np.ones((48, 64) if "weight" in name else 48, np.float32)
        s.call("PUT", f"/v1/tensors/{name}", {"shape": list(tensor.shape), "datatype": "FP32", "data": tensor.ravel().tolist()})
    x = {"name": "input", "shape": [64, 64], "datatype": "FP32", "data": [0.5] * 4096} # has a packed form made
    s.call("POST", "/v1/ops/linear", {"inputs": [x, {"name": "weight", **service.stored("mlp/1/weight")}]})
    done = subprocess.run([NODE, ROOT / "tests/web/dashboard.mjs", *sys.argv[1:]], cwd=ROOT,
                          env={**os.environ, "PAGE": f"http://127.0.0.1:{s.port}", "CHROMIUM": CHROMIUM, "PID": str(s.pid),
                               "MODEL": str(model(pathlib.Path(folder, "scores.onnx")))})
sys.exit(done.returncode)
