"""The cases of a bench file as calls of PyTorch, Inductor, ONNX Runtime and OpenVINO, on one thread or more. Run by
itself, RIVAL,RIVAL THREADS FILE, it takes orders: for each line ID SECONDS on standard input it prints one of JSON,
the least microseconds of each rival's calls in so many seconds."""
import json
import os
import sys
import time

import numpy as np

NEEDS = {"torch": "torch", "inductor": "torch", "onnxruntime": "onnxruntime, onnx", "openvino": "openvino, onnx"}
LONE = {"sigmoid": "Sigmoid", "tanh": "Tanh", "exp": "Exp", "erf": "Erf", "gelu": "Gelu", "relu": "Relu", "abs": "Abs", "sqrt": "Sqrt",
        "log": "Log", "sin": "Sin", "cos": "Cos", "silu": None, "rsqrt": None, "hardswish": "HardSwish", "floor": "Floor", "neg": "Neg"}
PAIR = {"add": "Add", "mul": "Mul", "sub": "Sub", "div": "Div", "maximum": "Max", "pow": "Pow", "lt": "Less", "eq": "Equal"}
ONNX = {"float32": 1, "uint8": 2, "int8": 3, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11, "bfloat16": 16, "bf16": 16}
FIXED = {"linear": (1, 2), "conv": (1, 2), "batch_norm": (1, 2, 3, 4), "linear_gelu": (1, 2), "linear_add": (1, 2), "conv_relu": (1, 2), "dwconv_relu6": (1, 2), "layer_norm": (1, 2)}


def type_of(case, i):
    kind = case.get("dtype", "float32")
    return "int64" if case["op"] == "gather" and i == 1 else kind if isinstance(kind, str) else kind[i]


def arrays(case):
    """The case's tensors; BF16 as FP32."""
    rng, made = np.random.default_rng(0), []
    for i, shape in enumerate(case["shapes"]):
        kind = np.dtype({"bf16": "float32", "bfloat16": "float32"}.get(type_of(case, i), type_of(case, i)))
        made.append(np.asarray(rng.uniform(-1, 1, shape) * (0.05 if len(shape) > 1 and i else 1)).astype(kind) if kind.kind == "f"
                    else rng.integers(0, 2 if kind.kind == "b" else 64, shape).astype(kind))
    return made


def least(f, seconds):
    """Microseconds of the best call, or of the best few that together take 50."""
    best, end, n = float("inf"), time.perf_counter() + seconds, 1
    while (begin := time.perf_counter()) < end:
        for _ in range(n):
            f()
        took = time.perf_counter() - begin
        if took < 50e-6:
            n *= 2
        best = min(best, took / n if took >= 50e-6 else float("inf"))
    return best * 1e6


# ---- PyTorch ----

def torch_function(case):
    import torch
    f, axis = torch.nn.functional, case.get("axis", -1)
    own = {"chain": lambda a, b, d: torch.relu(a * b + d) * torch.sigmoid(a), "softmax": lambda a: torch.softmax(a, axis),
           "layer_norm": lambda a, w, b: f.layer_norm(a, a.shape[-1:], w, b, case.get("eps", 1e-5)),
           "rms_norm": lambda a, w: f.rms_norm(a, a.shape[-1:], w, case.get("eps", 1e-5)),
           "sum": lambda a: a.sum(axis), "max": lambda a: a.amax(axis), "argmax": lambda a: a.argmax(axis),
           "transpose": lambda a: a.permute(*case["perm"]).clone(memory_format=torch.contiguous_format), "cast": lambda a: a.to(torch_type(case["to"])),
           "gather": lambda a, i: a.index_select(0, i), "concat": lambda a, b: torch.cat([a, b], axis), "linear": f.linear,
           "linear_gelu": lambda a, w, b: f.gelu(f.linear(a, w, b)), "linear_add": lambda a, w, b, r: f.linear(a, w, b) + r,
           "attention": f.scaled_dot_product_attention, "conv_relu": lambda a, w, b: torch.relu(f.conv2d(a, w, b, case["stride"], case["pad"])),
           "dwconv_relu6": lambda a, w, b: f.relu6(f.conv2d(a, w, b, case["stride"], case["pad"], groups=a.shape[1])),
           "conv": lambda a, w, b: f.conv2d(a, w, b, case["stride"], case["pad"], groups=a.shape[1] // w.shape[1]),
           "mean": lambda a: a.mean(axis), "batch_norm": lambda a, w, b, m, v: f.batch_norm(a, m, v.abs(), w, b, False, 0, 1e-5),
           "max_pool": lambda a: f.max_pool2d(a, case["kernel"], case["stride"], case["pad"]),
           "avg_pool": lambda a: f.avg_pool2d(a, case["kernel"], case["stride"], case["pad"]),
           "pad": lambda a: f.pad(a, case["pads"]), "upsample": lambda a: f.interpolate(a, scale_factor=2),
           "turned": lambda a, b: a + b.permute(*case["perm"])}
    name = case["op"]
    if "aten" in case: # parameters go by name, or behind the first tensors
        aten, parameters, first = getattr(torch.ops.aten, name), case["parameters"], case.get("first")
        return (lambda *x: aten(*x[:first], *parameters.values(), *x[first:])) if first else lambda *x: aten(*x, **parameters)
    return own[name] if name in own else getattr(torch, name, None) or getattr(f, name)


def torch_type(name):
    import torch
    return getattr(torch, {"bf16": "bfloat16"}.get(name, name))


def torch_call(case, threads, compiled=False):
    import torch
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    given = [torch.from_numpy(x).to(torch_type(type_of(case, i))) for i, x in enumerate(arrays(case))]
    function = torch_function(case)
    if not compiled:
        return lambda: function(*given)
    import torch._inductor.config
    torch._dynamo.reset()
    torch._inductor.config.freezing = True
    fixed = FIXED.get(case["op"], ())

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed = torch.nn.ParameterList([torch.nn.Parameter(given[i], requires_grad=False) for i in fixed])

        def forward(self, first, *rest):
            return function(first, *self.fixed, *rest)
    run = torch.compile(Module().eval() if fixed else function)
    left = [x for i, x in enumerate(given) if i not in fixed]
    run(*left)
    return lambda: run(*left)


# ---- ONNX ----

def onnx_model(case, x):
    """The model's bytes, and which of x it takes."""
    from onnx import helper, numpy_helper
    op, axis, fixed, result = case["op"], case.get("axis", -1), {}, ONNX[type_of(case, 0)]
    x = [np.abs(v) for v in x] if op == "batch_norm" else x # a variance is no less than 0
    for i in FIXED.get(op, ()):
        fixed[f"x{i}"] = np.ascontiguousarray(x[i].T) if op.startswith("linear") and i == 1 else x[i]

    def constant(name, value):
        fixed[name] = np.array(value)
        return name
    if op in LONE:
        nodes = [(LONE[op], ["x0"], {})] if LONE[op] else [("Sigmoid", ["x0"], {}), ("Mul", ["x0", 0], {})] if op == "silu" else \
            [("Sqrt", ["x0"], {}), ("Reciprocal", [0], {})]
    elif op in PAIR:
        nodes = [(PAIR[op], ["x0", "x1"], {})]
        result = ONNX["bool"] if op in ("lt", "eq") else result
    elif op.startswith("linear"):
        nodes = [("MatMul", ["x0", "x1"], {}), ("Add", [0, "x2"], {})]
        nodes += [("Gelu", [1], {})] if op == "linear_gelu" else [("Add", [1, "x3"], {})] if op == "linear_add" else []
    elif op == "conv":
        nodes = [("Conv", ["x0", "x1", "x2"], {"strides": [case["stride"]] * 2, "pads": [case["pad"]] * 4, "group": x[0].shape[1] // x[1].shape[1]})]
    elif op.endswith(("conv_relu", "conv_relu6")):
        deep = {"group": x[0].shape[1]} if op[0] == "d" else {}
        nodes = [("Conv", ["x0", "x1", "x2"], {"strides": [case["stride"]] * 2, "pads": [case["pad"]] * 4, **deep})]
        nodes += [("Clip", [0, constant("lo", np.float32(0)), constant("hi", np.float32(6))], {})] if deep else [("Relu", [0], {})]
    else:
        nodes = {"chain": lambda: [("Mul", ["x0", "x1"], {}), ("Add", [0, "x2"], {}), ("Relu", [1], {}), ("Sigmoid", ["x0"], {}), ("Mul", [2, 3], {})],
                 "softmax": lambda: [("Softmax", ["x0"], {"axis": axis})], "matmul": lambda: [("MatMul", ["x0", "x1"], {})],
                 "where": lambda: [("Where", ["x0", "x1", "x2"], {})],
                 "layer_norm": lambda: [("LayerNormalization", ["x0", "x1", "x2"], {"axis": axis, "epsilon": case.get("eps", 1e-5)})],
                 "sum": lambda: [("ReduceSum", ["x0", constant("axes", [axis])], {"keepdims": 0})],
                 "mean": lambda: [("ReduceMean", ["x0", constant("axes", np.atleast_1d(axis))], {"keepdims": 0})],
                 "batch_norm": lambda: [("BatchNormalization", ["x0", "x1", "x2", "x3", "x4"], {"epsilon": 1e-5})],
                 "pad": lambda: [("Pad", ["x0", constant("pads", np.array(case["pads"]).reshape(-1, 2)[::-1].T.ravel()),
                                          constant("zero", np.float32(0)), constant("axes", np.arange(-(len(case["pads"]) // 2), 0))], {})],
                 "upsample": lambda: [("Resize", ["x0", "", constant("scales", np.float32([1, 1, 2, 2]))], {"mode": "nearest"})],
                 "turned": lambda: [("Transpose", ["x1"], {"perm": case["perm"]}), ("Add", ["x0", 0], {})],
                 "avg_pool": lambda: [("AveragePool", ["x0"], {"kernel_shape": [case["kernel"]] * 2, "strides": [case["stride"]] * 2,
                                                               "pads": [case["pad"]] * 4, "count_include_pad": 1})],
                 "max": lambda: [("ReduceMax", ["x0", constant("axes", [axis])], {"keepdims": 0})],
                 "argmax": lambda: [("ArgMax", ["x0"], {"axis": axis, "keepdims": 0})],
                 "transpose": lambda: [("Transpose", ["x0"], {"perm": case["perm"]})], "cast": lambda: [("Cast", ["x0"], {"to": ONNX[case["to"]]})],
                 "gather": lambda: [("Gather", ["x0", "x1"], {})], "concat": lambda: [("Concat", ["x0", "x1"], {"axis": axis})],
                 "attention": lambda: [("Transpose", ["x1"], {"perm": [0, 1, 3, 2]}), ("MatMul", ["x0", 0], {}),
                                       ("Mul", [1, constant("scale", np.float32(x[0].shape[-1] ** -0.5))], {}), ("Softmax", [2], {"axis": -1}), ("MatMul", [3, "x2"], {})],
                 "max_pool": lambda: [("MaxPool", ["x0"], {"kernel_shape": [case["kernel"]] * 2, "strides": [case["stride"]] * 2, "pads": [case["pad"]] * 4})]}[op]()
        result = ONNX[case["to"]] if op == "cast" else ONNX["int64"] if op == "argmax" else ONNX[type_of(case, 1)] if op == "where" else result
    last = len(nodes) - 1
    made = [helper.make_node(kind, [f"t{i}" if isinstance(i, int) else i for i in of], ["out" if k == last else f"t{k}"], **how)
            for k, (kind, of, how) in enumerate(nodes)]
    given = {f"x{i}": v for i, v in enumerate(x) if f"x{i}" not in fixed}
    graph = helper.make_graph(made, "g", [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), list(v.shape)) for name, v in given.items()],
                              [helper.make_tensor_value_info("out", result, None)], [numpy_helper.from_array(v, n) for n, v in fixed.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString(), given


def of_onnx(case):
    if "aten" in case:
        raise ValueError(f"no model of {case['op']} is made")
    if any(type_of(case, i) in ("bf16", "bfloat16") for i in range(len(case["shapes"]))):
        raise ValueError("NumPy has no BF16")
    return onnx_model(case, arrays(case))


def onnxruntime_call(case, threads):
    import onnxruntime
    model, given = of_onnx(case)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in given.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    binding.bind_output("out")
    session.run_with_iobinding(binding)
    binding.bind_ortvalue_output("out", binding.get_outputs()[0])
    return lambda: session.run_with_iobinding(binding)


def openvino_call(case, threads):
    import openvino
    model, given = of_onnx(case)
    core = openvino.Core()
    model = core.compile_model(core.read_model(model, b""), "CPU",
                               {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    for name, value in given.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    return lambda held=(core, given): request.infer()


def make(rival, case, threads=1):
    return {"torch": torch_call, "inductor": lambda c, t: torch_call(c, t, True), "onnxruntime": onnxruntime_call,
            "openvino": openvino_call}[rival](case, threads)


def main():
    rivals, threads, path = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
    with open(path) as f:
        cases = {case["id"]: case for case in json.load(f)["cases"]}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # what they have to say is no answer
    ready = {}
    for line in sys.stdin:
        name, seconds = line.split()
        if name not in ready:
            ready = {name: {}}
            for rival in rivals:
                try:
                    ready[name][rival] = make(rival, cases[name], threads)
                except Exception as e: # whatever kind theirs is: this rival cannot do this
                    print(f"{rival}: {name}: {str(e)[:200]}", file=sys.stderr)
        print(json.dumps({rival: least(f, float(seconds)) for rival, f in ready[name].items()}), file=answers, flush=True)


if __name__ == "__main__":
    main()
