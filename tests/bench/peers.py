#!/usr/bin/env python3
"""One operator at a time: tensord's kernel and its whole answer over HTTP, beside PyTorch, ONNX Runtime and
OpenVINO called inside this process, one thread each; and the time until each could be called.

Whatever is not installed for the Python that runs this is left out: pip install torch onnx onnxruntime openvino.
Microseconds, the least of many.
"""
import json
import os
import subprocess
import sys
import time

import figures
import numpy as np

CHAIN = "relu(a * b + c) * sigmoid(a)"
CASES = { # the operator, or an expression; inputs
    "add, 256": ("add", {"self": (256,), "other": (256,)}),
    "add, 1 Mi": ("add", {"self": (1 << 20,), "other": (1 << 20,)}),
    CHAIN + ", 128 x 3072": ("eval", {"a": (128, 3072), "b": (128, 3072), "c": (3072,)}),
    "softmax, 1536 x 128": ("softmax", {"self": (1536, 128)}),
    "layer_norm, 128 x 768": ("layer_norm", {"input": (128, 768), "weight": (768,), "bias": (768,)}),
    "linear, 128 x 768 x 3072": ("linear", {"input": (128, 768), "weight": (3072, 768), "bias": (3072,)}),
}
PARAMETERS = {"softmax": {"dim": -1}, "layer_norm": {"normalized_shape": [768]}}
WEIGHTS = {"weight", "bias"} # kept in the server


def arrays(shapes):
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def least(f, seconds=0.7):
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def tensord(service, op, x):
    """(the kernel's, the answer's): sent in binary, with weights stored."""
    inputs = {}
    for name, value in x.items():
        inputs[name] = value
        if name in WEIGHTS:
            service.call("PUT", f"/v1/tensors/{name}", {"shape": list(value.shape), "datatype": "FP32", "data": value.ravel().tolist()})
            inputs[name] = figures.stored(name)
    rest = {"expr": CHAIN} if op == "eval" else {}
    path = "/v1/eval" if op == "eval" else f"/v1/ops/{op}"
    body, headers = figures.pack(inputs, PARAMETERS.get(op), binary=True, **rest)
    data = figures.request("POST", path, body, headers)
    connection = figures.Connection(service.port, 1 << 22)

    def call():
        status, head, _ = connection.exchange(data)
        assert status == 200, head[:400]
    whole = least(call, 2)
    connection.close()
    return min(service.call("POST", path, body, headers).parameters["compute_us"] for _ in range(100)), whole


def torch_call(op, x):
    import torch
    f, t = torch.nn.functional, {name: torch.from_numpy(value) for name, value in x.items()}
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return {"add": lambda: t["self"] + t["other"], "softmax": lambda: torch.softmax(t["self"], -1),
            "eval": lambda: torch.relu(t["a"] * t["b"] + t["c"]) * torch.sigmoid(t["a"]),
            "layer_norm": lambda: f.layer_norm(t["input"], [768], t["weight"], t["bias"]),
            "linear": lambda: f.linear(t["input"], t["weight"], t["bias"])}[op]


def onnx_model(op, x):
    from onnx import helper, numpy_helper
    nodes = {"add": [("Add", ["self", "other"], "out")], "softmax": [("Softmax", ["self"], "out")],
             "eval": [("Mul", ["a", "b"], "m"), ("Add", ["m", "c"], "p"), ("Relu", ["p"], "r"), ("Sigmoid", ["a"], "s"), ("Mul", ["r", "s"], "out")],
             "layer_norm": [("LayerNormalization", ["input", "weight", "bias"], "out")],
             "linear": [("MatMul", ["input", "weight"], "m"), ("Add", ["m", "bias"], "out")]}[op]
    fixed = {name: np.ascontiguousarray(value.T if op == "linear" else value) for name, value in x.items() if name in WEIGHTS}
    graph = helper.make_graph([helper.make_node(kind, of, [to]) for kind, of, to in nodes], "g",
                              [helper.make_tensor_value_info(name, 1, list(v.shape)) for name, v in x.items() if name not in fixed],
                              [helper.make_tensor_value_info("out", 1, None)], [numpy_helper.from_array(v, n) for n, v in fixed.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()


def ort_call(op, x):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_model(op, x), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for i in session.get_inputs():
        binding.bind_ortvalue_input(i.name, onnxruntime.OrtValue.ortvalue_from_numpy(x[i.name]))
    binding.bind_output("out")
    session.run_with_iobinding(binding)
    binding.bind_ortvalue_output("out", binding.get_outputs()[0])
    return lambda: session.run_with_iobinding(binding)


def openvino_call(op, x):
    import openvino
    core = openvino.Core()
    model = core.compile_model(core.read_model(onnx_model(op, x), b""), "CPU",
                               {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    for i in model.inputs:
        request.set_tensor(i.get_any_name(), openvino.Tensor(x[i.get_any_name()], shared_memory=True))
    return request.infer


def start(what):
    """What a process has done and holds when it could begin: (ms, MiB)."""
    code = f"import {what}; print(open('/proc/self/status').read().split('VmRSS:')[1].split()[0])"
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        took.append((time.perf_counter() - begin) * 1e3)
        if done.returncode:
            return None
    return min(took), int(done.stdout) / 1024


def main():
    figures.options(__doc__)
    figures.machine()
    peers = {"torch": torch_call, "onnxruntime": ort_call, "openvino": openvino_call}
    cpu = sorted(os.sched_getaffinity(0))[0]
    begin = time.perf_counter()
    with figures.Service("--pool", f"default={cpu}") as service:
        print(f"tensord: ready after {(time.perf_counter() - begin) * 1e3:.0f} ms, "
              f"{int(open(f'/proc/{service.pid}/status').read().split('VmRSS:')[1].split()[0]) / 1024:.0f} MiB")
        for name in list(peers):
            began = start(name)
            print(f"{name}: " + (f"imported after {began[0]:.0f} ms, {began[1]:.0f} MiB" if began else "not installed"))
            if not began:
                del peers[name]
        for name, (op, shapes) in CASES.items():
            x = arrays(shapes)
            kernel, whole = tensord(service, op, x)
            found = {"tensord's kernel": kernel, "tensord's answer": whole}
            found.update({peer: least(call(op, x)) for peer, call in peers.items()})
            print(f"{name}: " + json.dumps({k: round(v, 1) for k, v in found.items()}), flush=True)


if __name__ == "__main__":
    main()
