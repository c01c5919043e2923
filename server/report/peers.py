"""PyTorch, ONNX Runtime and OpenVINO beside tensord, for `tensord report --python`: which starts this in the Python that has
them. Says first which there are, {"peers": {NAME: VERSION}, "missing": {NAME: WHY}}; then answers orders, a line of JSON each:
{"model": FILE, "inputs": [{"name", "file"}], "outputs": [{"shape", "file"}], "threads": N, "cpus": [0], "seconds": S} with
{NAME: {"us": the least, "worst": the largest difference from outputs, by what it may be} or {"error": WHY}}."""
import importlib
import json
import os
import sys
import time

NEEDS = {"torch": ("torch", "onnx", "numpy"), "onnxruntime": ("onnxruntime", "numpy"), "openvino": ("openvino", "numpy")}
NEAR, PART = 1e-4, 1e-3 # as server/report/judge.c has them


def least(f, seconds):
    """Microseconds of the best call."""
    best, end = float("inf"), time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        f()
        best = min(best, time.perf_counter() - begin)
    return best * 1e6


def worst(outputs, right):
    import numpy as np
    found = 0.0
    for x, y in zip(outputs, right, strict=True):
        x = np.asarray(x, np.float64).reshape(y.shape)
        room = NEAR * max(1.0, float(y.std())) + PART * np.abs(y)
        found = max(found, float((np.abs(x - y) / room).max(initial=0)))
    return found


# ---- each: what makes a call of a model, which gives its outputs ----

def of_onnxruntime(model, inputs, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(value))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    session.run_with_iobinding(binding)
    for output, value in zip(session.get_outputs(), binding.get_outputs()):
        binding.bind_ortvalue_output(output.name, value)
    return lambda: session.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()


def of_openvino(model, inputs, threads):
    import openvino
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model, b""), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for name, value in inputs.items():
        request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
    return request.infer, lambda: [request.get_output_tensor(i).data.copy() for i in range(len(compiled.outputs))]


# Calls of torch for ONNX's operators, {0} and so on their operands, {name} attributes.
POINT = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs",
         "Neg": "neg", "Sign": "sign", "MatMul": "matmul"}
INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}


class Source:
    """A network as a module's forward, written out, so that nothing but torch's own calls takes time."""

    def __init__(self, model):
        import onnx
        import torch
        self.torch, graph = torch, onnx.load_from_string(model).graph
        self.fixed = {t.name: torch.from_numpy(onnx.numpy_helper.to_array(t).copy()) for t in graph.initializer}
        self.words = {} # of names, which may hold anything
        self.module, self.lines = torch.nn.Module(), []
        self.inputs = [port.name for port in graph.input]
        for name, value in self.fixed.items():
            self.module.register_buffer(self.word(name), value)
        for i, node in enumerate(graph.node):
            how = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            outs = ", ".join(self.word(name) if name else "_" for name in node.output)
            self.lines.append(f"{outs} = {self.call(node, how, i)}")
        outs = "".join(f"{self.word(port.name)}, " for port in graph.output)
        text = "\n    ".join([f"def forward(self, {', '.join(map(self.word, self.inputs))}):", *self.lines, f"return ({outs})"])
        scope = {"torch": torch, "F": torch.nn.functional}
        exec(text, scope)
        self.module.forward = scope["forward"].__get__(self.module)

    def name(self, name):
        return "None" if not name else f"self.{self.word(name)}" if name in self.fixed else self.word(name)

    def word(self, name):
        return self.words.setdefault(name, f"v{len(self.words)}")

    def value(self, name):
        """A constant's, as a list or a number."""
        return self.fixed[name].tolist()

    def pads(self, how):
        pads = how.get("pads", [0, 0])
        half = len(pads) // 2
        if pads[:half] != pads[half:]:
            raise ValueError("torch pads both sides alike")
        return pads[:half]

    def call(self, node, how, i):
        op, x = node.op_type, [self.name(name) for name in node.input]
        if op in POINT:
            return f"torch.{POINT[op]}({', '.join(x)})"
        if op in INFIX:
            return f"{x[0]} {INFIX[op]} {x[1]}"
        if not hasattr(self, "of_" + op.lower()):
            raise ValueError(f"there are no words here for {op} in torch's")
        return getattr(self, "of_" + op.lower())(node, how, x + ["None"] * 5, i)

    def of_conv(self, node, how, x, _):
        rank = self.fixed[node.input[1]].dim() - 2
        return (f"F.conv{rank}d({x[0]}, {x[1]}, {x[2]}, {how.get('strides', 1)}, {self.pads(how)[:rank]}, {how.get('dilations', 1)}, "
                f"{how.get('group', 1)})")

    def of_convtranspose(self, _, how, x, __):
        return f"F.conv_transpose2d({x[0]}, {x[1]}, {x[2]}, {how.get('strides', 1)})"

    def of_batchnormalization(self, _, how, x, __):
        return f"F.batch_norm({x[0]}, {x[3]}, {x[4]}, {x[1]}, {x[2]}, False, 0.1, {how.get('epsilon', 1e-5)})"

    def of_layernormalization(self, node, how, x, _):
        return f"F.layer_norm({x[0]}, {tuple(self.fixed[node.input[1]].shape)}, {x[1]}, {x[2]}, {how.get('epsilon', 1e-5)})"

    def of_maxpool(self, _, how, x, __):
        rank = len(how["kernel_shape"])
        return f"F.max_pool{rank}d({x[0]}, {how['kernel_shape']}, {how.get('strides', 1)}, {self.pads(how)[:rank]})"

    def of_globalaveragepool(self, _, __, x, ___):
        return f"{x[0]}.mean(dim=tuple(range(2, {x[0]}.dim())), keepdim=True)"

    def of_clip(self, node, _, x, __):
        return f"torch.clamp({x[0]}, {self.value(node.input[1])}, {self.value(node.input[2])})"

    def of_hardswish(self, _, __, x, ___):
        return f"F.hardswish({x[0]})"

    def of_hardsigmoid(self, _, how, x, __):
        return f"torch.clamp({x[0]} * {how.get('alpha', 0.2)} + {how.get('beta', 0.5)}, 0, 1)"

    def of_leakyrelu(self, _, how, x, __):
        return f"F.leaky_relu({x[0]}, {how.get('alpha', 0.01)})"

    def of_elu(self, _, how, x, __):
        return f"F.elu({x[0]}, {how.get('alpha', 1.0)})"

    def of_gelu(self, _, how, x, __):
        return f"F.gelu({x[0]})"

    def of_softmax(self, _, how, x, __):
        return f"torch.softmax({x[0]}, {how.get('axis', -1)})"

    def of_logsoftmax(self, _, how, x, __):
        return f"torch.log_softmax({x[0]}, {how.get('axis', -1)})"

    def of_concat(self, node, how, x, _):
        return f"torch.cat(({', '.join(x[:len(node.input)])}), {how['axis']})"

    def of_reshape(self, node, _, x, __):
        return f"{x[0]}.reshape({self.value(node.input[1])})"

    def of_flatten(self, _, how, x, __):
        return f"{x[0]}.flatten({how.get('axis', 1)})"

    def of_transpose(self, _, how, x, __):
        return f"{x[0]}.permute({how['perm']})"

    def of_gemm(self, _, __, x, ___):
        return f"torch.addmm({x[2]}, {x[0]}, {x[1]})"

    def of_resize(self, node, _, x, __):
        return f"F.interpolate({x[0]}, {self.value(node.input[3])[2:]}, mode='nearest')"

    def of_gather(self, _, how, x, __):
        return f"F.embedding({x[1]}, {x[0]})" if not how.get("axis") else f"torch.index_select({x[0]}, {how['axis']}, {x[1]})"

    def of_slice(self, node, _, x, __):
        (start,), (end,), (axis,) = (self.value(name) for name in node.input[1:4])
        return f"{x[0]}.narrow({axis}, {start}, {end - start})"

    def of_pad(self, node, _, x, __):
        pads = self.value(node.input[1])
        half = len(pads) // 2
        return f"F.pad({x[0]}, {[side for d in range(half - 1, -1, -1) for side in (pads[d], pads[half + d])]})"

    def of_cumsum(self, node, _, x, __):
        return f"torch.cumsum({x[0]}, {self.fixed[node.input[1]].item()})"

    def of_reducemean(self, node, _, x, __):
        return f"{x[0]}.mean({self.value(node.input[1])}, keepdim=True)"

    def of_reducesum(self, node, _, x, __):
        return f"{x[0]}.sum({self.value(node.input[1])}, keepdim=True)"

    def recurrent(self, made, node, order, i):
        """Its weights, of which each gate has a block of rows, in torch's order."""
        w, r, b = (self.fixed[name] for name in node.input[1:4])
        hidden = r.shape[2]
        def sorted_rows(x):
            return self.torch.cat([x[gate * hidden:(gate + 1) * hidden] for gate in order])
        with self.torch.no_grad():
            for d, end in zip(range(len(w)), ("", "_reverse")):
                half = len(b[d]) // 2
                for name, value in (("weight_ih", w[d]), ("weight_hh", r[d]), ("bias_ih", b[d][:half]), ("bias_hh", b[d][half:])):
                    getattr(made, f"{name}_l0{end}").copy_(sorted_rows(value))
        self.module.add_module(f"cell{i}", made.eval())
        return len(w), hidden

    def of_lstm(self, node, how, x, i):
        w = self.fixed[node.input[1]]
        made = self.torch.nn.LSTM(w.shape[2], w.shape[1] // 4, bidirectional=len(w) == 2)
        n, hidden = self.recurrent(made, node, (0, 2, 3, 1), i)
        return f"(lambda y, hc: (y.unflatten(2, ({n}, {hidden})).transpose(1, 2), *hc))(*self.cell{i}({x[0]}))"

    def of_gru(self, node, how, x, i):
        if not how.get("linear_before_reset"):
            raise ValueError("torch's GRU resets behind the product")
        w = self.fixed[node.input[1]]
        made = self.torch.nn.GRU(w.shape[2], w.shape[1] // 3, bidirectional=len(w) == 2)
        n, hidden = self.recurrent(made, node, (1, 0, 2), i)
        return f"(lambda y, h: (y.unflatten(2, ({n}, {hidden})).transpose(1, 2), h))(*self.cell{i}({x[0]}))"


def of_torch(model, inputs, threads):
    import torch
    torch.set_num_threads(threads)
    source = Source(model)
    given = [torch.from_numpy(inputs[name].copy()) for name in source.inputs]
    def call():
        with torch.inference_mode():
            return source.module(*given)
    return call, lambda: [value.numpy() for value in call()]


MAKE = {"torch": of_torch, "onnxruntime": of_onnxruntime, "openvino": of_openvino}


def answer(name, order):
    import numpy as np
    inputs = {one["name"]: np.load(one["file"]) for one in order["inputs"]}
    right = [np.fromfile(one["file"], np.float32).reshape(one["shape"]) for one in order["outputs"]]
    with open(order["model"], "rb") as file:
        call, outputs = MAKE[name](file.read(), inputs, order["threads"])
    call()
    found = worst(outputs(), right)
    return {"us": least(call, order["seconds"]), "worst": found}


def main():
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1) # what they have to say is no answer
    peers, missing = {}, {}
    for name, needs in NEEDS.items():
        try:
            peers[name] = [importlib.import_module(need) for need in needs][0].__version__.split("+")[0].split("-")[0]
        except Exception as error: # whatever keeps it from being there
            missing[name] = str(error)[:200]
    print(json.dumps({"peers": peers, "missing": missing}), file=said, flush=True)
    for line in sys.stdin:
        order, answers = json.loads(line), {}
        os.sched_setaffinity(0, order["cpus"])
        for name in peers:
            try:
                answers[name] = answer(name, order)
            except Exception as error: # of whichever kind theirs is: this peer cannot do this
                answers[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(answers), file=said, flush=True)


if __name__ == "__main__":
    main()
