#!/usr/bin/env python3
"""What backward operators refuse and leave out: masks, shapes that are another layer's, types. And
what calls record for a backward where an input requires a gradient."""
import ast

import numpy as np

import service

NORM = {"normalized_shape": [4], "output_mask": [True, True, True]}
CONV = {"bias_sizes": [5], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
        "output_padding": [0, 0], "groups": 1, "output_mask": [True, True, True]}


def zeros(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def described(array, parameters):
    parameters = parameters if array.dtype == np.float64 else {}
    return {"shape": list(array.shape), "datatype": service.NAMES[array.dtype], "data": array.ravel().tolist(), "parameters": parameters}


class Gradients(service.ServiceTest):
    linear = zeros(self=(3, 4), grad_output=(3, 2), weight=(2, 4))
    norm = zeros(grad_out=(3, 4), input=(3, 4), mean=(3, 1), rstd=(3, 1), weight=4, bias=4)
    conv = zeros(grad_output=(2, 5, 6, 7), input=(2, 3, 6, 7), weight=(5, 3, 3, 3))

    def refused(self, op, tensors, parameters, *words):
        with self.subTest(op=op, words=words):
            self.problem(self.service.infer(op, tensors, parameters), 400, *words)

    def test_masks(self):
        full = {"out0": (3, 4), "out1": (2, 4), "out2": (2,)}
        for mask in ([True, True, True], [False, True, False], [False, False, False], True, False):
            for binary in (False, True):
                reply = self.service.infer("linear_backward", self.linear, {"output_mask": mask}, binary=binary)
                wanted = mask if isinstance(mask, list) else [mask] * 3
                self.assertEqual({name: out.shape for name, out in reply.outputs.items()},
                                 {name: shape if yes else (0,)
                                  for (name, shape), yes in zip(full.items(), wanted)})

    def test_what_is_no_mask(self):
        for mask, *words in (([1, 0, 1], "output_mask", "bool[3]"), ([True, False], "3 bools", "2"),
                             ([True, 1, False], "output_mask", "bools only"), ([], "output_mask", "bool[3]"),
                             ("all", "output_mask", "bool[3]"), (None, "output_mask", "bool[3]"),
                             (1, "output_mask", "bool[3]")):
            self.refused("linear_backward", self.linear, {"output_mask": mask}, *words)
        self.refused("linear_backward", self.linear, {}, "output_mask", "missing")
        self.refused("conv2d", zeros(input=(1, 3, 6, 7), weight=(5, 3, 3, 3)), {"stride": [True, True]},
                     "stride", "int[2]")

    def test_shapes(self):
        for op, second in (("sigmoid_backward", "output"), ("silu_backward", "self")):
            self.refused(op, zeros(grad_output=(2, 3), **{second: (3,)}), {}, f"{second}: ", "[3]", "[2, 3]")
        soft = zeros(grad_output=(2, 3), output=(2, 3))
        self.refused("_softmax_backward_data", soft, {"dim": 2, "input_dtype": "FP32"}, "dim", "from -2 to 1")
        self.refused("_softmax_backward_data", soft, {"dim": 0, "input_dtype": "INT32"}, "input_dtype", "FP32")
        for name, shape, *words in (("self", (), "single number"), ("weight", (4,), "rank 1"),
                                    ("weight", (2, 5), "5 columns", "4"), ("grad_output", (3, 5), "[3, 2]")):
            self.refused("linear_backward", {**self.linear, **zeros(**{name: shape})}, {"output_mask": True},
                         *words)

    def test_layer_norm(self):
        for name, shape, *words in (("grad_out", (4, 3), "[3, 4]"), ("mean", (4,), "3"), ("rstd", (), "3"),
                                    ("weight", (3, 4), "[4]"), ("bias", (3,), "normalized_shape")):
            self.refused("native_layer_norm_backward", {**self.norm, **zeros(**{name: shape})}, NORM, name, *words)
        bare = {k: v for k, v in self.norm.items() if k not in ("weight", "bias")}
        none = {"weight": None, "bias": None}
        self.refused("native_layer_norm_backward", bare, {**NORM, **none}, "output_mask", "weight")
        self.refused("native_layer_norm_backward", bare, NORM, "output_mask", "weight")
        self.refused("native_layer_norm_backward", self.norm, {**NORM, "normalized_shape": [3]}, "normalized_shape")
        mask = {"output_mask": [True, False, False]}
        reply = self.service.infer("native_layer_norm_backward", bare, {**NORM, **none, **mask})
        self.assertEqual(reply.status, 200, reply.body)

    def test_groups_without_elements(self):
        """Their mean is 0 and the rest NaN, and no weight that is not there is read."""
        for channels, size in ((0, 5), (4, 0)):
            for kernel in ("simd", "ref"):
                with self.subTest(channels=channels, kernel=kernel):
                    reply = self.service.infer(
                        "native_group_norm", {"input": np.zeros((3, channels, size), np.float32),
                                              "weight": np.zeros(channels, np.float32)},
                        {"N": 3, "C": channels, "HxW": size, "group": 2, "eps": 1e-5, "kernel": kernel})
                    self.assertEqual(reply.status, 200, reply.body[:300])
                    self.assertEqual(reply.outputs["out1"].tolist(), [[0, 0]] * 3)
                    self.assertTrue(np.isnan(reply.outputs["out2"]).all())

    def test_rows_without_elements(self):
        reply = self.service.infer("native_layer_norm", zeros(input=(2, 0)), {
            "normalized_shape": [0], "weight": None, "bias": None, "eps": 0.1}, binary=True)
        self.assertTrue((reply.outputs["out1"] == 0).all() and np.isnan(reply.outputs["out2"]).all())

    def test_convolution(self):
        for how, *words in (({"transposed": True}, "transposed", "false is right"),
                            ({"output_padding": [0, 1]}, "output_padding"), ({"stride": [0, 1]}, "stride"),
                            ({"stride": [1, 2]}, "grad_output", "[2, 5, 6, 4]"), ({"groups": 2}, "groups"),
                            ({"padding": [1, 1, 1]}, "padding", "3 numbers"), ({"bias_sizes": [3]}, "bias_sizes", "[5]"),
                            ({"bias_sizes": [0]}, "bias_sizes", "[5]"), ({"stride": 1}, "stride", "int[]")):
            self.refused("convolution_backward", self.conv, {**CONV, **how}, *words)
        for how in ({"bias_sizes": None}, {"stride": [1]}, {"bias_sizes": [0], "output_mask": [True, True, False]}):
            reply = self.service.infer("convolution_backward", self.conv, {**CONV, **how})
            self.assertEqual(reply.status, 200, reply.body)

    def test_types(self):
        half = {name: tensor.astype(np.float16) for name, tensor in self.linear.items()}
        mask = {"output_mask": True}
        for name in ("grad_output", "weight"):
            self.refused("linear_backward", {**self.linear, name: half[name]}, mask, name, "FP16", "FP32")
        whole = {"grad_output": np.arange(4), "self": np.array([-1, 0, 1, 2])}
        out = self.service.op("threshold_backward", whole, {"threshold": 0})
        self.assertEqual((out.dtype, out.tolist()), (np.int64, [0, 0, 2, 3]))
        np.testing.assert_array_equal(self.service.op("threshold_backward", whole, {"threshold": 1.9}), [0, 0, 0, 3])
        self.refused("gelu_backward", zeros(grad_output=3, self=3), {"approximate": "erf"}, "approximate", "'tanh'")


class Records(service.ServiceTest):
    def value(self, node, known):
        """A formula's value, operator by operator over HTTP; formulas are Python's expressions too."""
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.List):
            return [self.value(item, known) for item in node.elts]
        if isinstance(node, ast.Subscript):
            return self.results(node.value, known)[node.slice.value]
        return self.results(node, known)[0] if isinstance(node, ast.Call) else ast.literal_eval(node)

    def results(self, call, known):
        op = ast.unparse(call.func)
        names = [p["name"] for p in self.service.call("GET", "/v1/ops/" + op).json["overloads"][0]["arguments"]]
        values = {name: self.value(arg, known) for name, arg in zip(names, call.args)}
        reply = self.service.infer(op, {k: v for k, v in values.items() if isinstance(v, np.ndarray)},
                                   {k: v for k, v in values.items() if not isinstance(v, np.ndarray)}, binary=True)
        self.assertEqual(reply.status, 200, reply.body)
        return list(reply.outputs.values())

    def try_gradients(self, op, tensors, parameters):
        """What grad_fn records of a call, its formulas on what it says was to be kept, against differences of the
        operator at one element after the other; False where nothing is recorded."""
        def call(tensors, **how):
            return self.service.call("POST", "/v1/ops/" + op, {
                "inputs": [{**described(value, how), "name": name} for name, value in tensors.items()], "parameters": parameters})

        def first(tensors):
            out = call(tensors).json["outputs"][0]
            return np.reshape(out["data"], out["shape"])
        made = call(tensors, requires_grad=True)
        if made.status != 200 or "grad_fn" not in made.json["parameters"]:
            return False
        recorded = made.json["parameters"]["grad_fn"]
        results = [np.reshape(np.float64(out["data"]), out["shape"]) for out in made.json["outputs"]]
        overload = self.service.call("GET", "/v1/ops/" + recorded["operator"]).json["overloads"][0]
        defaults = {p["name"]: self.default(p) for p in overload["arguments"]}
        kept = {**defaults, **parameters, **tensors, "result": results[0]}
        kept |= {f"result{i}": result for i, result in enumerate(results[1:], 1)}
        grad = np.random.default_rng(9).standard_normal(results[0].shape)
        known, h = {"grad": grad, **{name: kept[name] for name in recorded["saved"]}}, 1e-5
        for name in [name for name in recorded["gradients"] if name in tensors and tensors[name].dtype == np.float64]:
            formula, slope = recorded["gradients"][name], np.zeros_like(tensors[name])
            with self.subTest(op=op, argument=name, formula=formula, parameters=parameters):
                for at in np.ndindex(slope.shape):
                    ends = [tensors[name].copy(), tensors[name].copy()]
                    ends[0][at] += h
                    ends[1][at] -= h
                    up, down = (first({**tensors, name: end}) for end in ends)
                    slope[at] = (grad * (up - down)).sum() / (2 * h)
                got = self.value(ast.parse(formula, mode="eval").body, known)
                extra = tuple(range(got.ndim - slope.ndim)) # where it was broadcast, it is the sum
                got = got.sum(axis=extra) if extra else got
                axes = tuple(i for i, n in enumerate(slope.shape) if n < got.shape[i])
                np.testing.assert_allclose(got.sum(axis=axes, keepdims=True), slope, rtol=1e-6, atol=1e-7)
                self.assertEqual(got.sum(axis=axes, keepdims=True).shape, slope.shape)
        return True

    @staticmethod
    def default(argument):
        """1 of an int[2] stands for both."""
        try:
            value = ast.literal_eval(argument.get("default") or "None")
        except ValueError: # a word, such as contiguous_format
            return None
        many = argument["type"].startswith("int[") and isinstance(value, int)
        return [value] * int(argument["type"][4:-1]) if many else value

    def test_gradients_by_what_was_recorded(self): # DSP-12, DSP-28
        """Every operator of tensors and numbers alone."""
        tried = {}
        for op in self.service.call("GET", "/v1/ops").json["ops"]:
            arguments = op["arguments"]
            if "FP64" not in op["dtypes"] or any(p["type"] not in ("Tensor", "Scalar", "str") for p in arguments):
                continue
            scalars = {p["name"]: 1.5 for p in arguments if p["type"] == "Scalar" and "default" not in p}
            for low, high in ((-0.9, -0.3), (0.3, 0.9), (1.1, 2)):
                rng = np.random.default_rng(9)
                x = {p["name"]: rng.uniform(low, high, 6) for p in arguments if p["type"] == "Tensor"}
                reply = self.service.infer(op["name"], x, scalars, binary=True)
                if reply.status == 200 and np.isfinite(reply.out).all():
                    tried[op["name"]] = self.try_gradients(op["name"], x, scalars)
        self.assertGreater(sum(tried.values()), 55)

    def test_gradients_of_shapes(self): # DSP-12, DSP-28
        rng = np.random.default_rng(4)
        x = lambda *shape: rng.standard_normal(shape)
        for op, tensors, parameters in (
                ("softmax.int", {"self": x(3, 4)}, {"dim": 0}), ("log_softmax.int", {"self": x(3, 4)}, {"dim": -1}),
                ("_softmax", {"self": x(3, 4)}, {"dim": -1, "half_to_float": False}),
                ("_log_softmax", {"self": x(3, 4)}, {"dim": 0, "half_to_float": False}),
                ("add", {"self": x(2, 3), "other": x(3)}, {"alpha": 0.5}), ("mul", {"self": x(2, 1), "other": x(2, 3)}, {}),
                ("elu", {"self": x(9)}, {"alpha": 0.7, "scale": 1.3, "input_scale": 0.9}), ("hardswish", {"self": 3 * x(9)}, {}),
                ("clamp", {"self": x(9)}, {"min": -0.3}), ("hardtanh", {"self": x(9)}, {}), ("softplus", {"self": x(9)}, {"beta": 2}),
                ("pow.Tensor_Scalar", {"self": x(5)}, {"exponent": 2}), ("gelu", {"self": x(5)}, {"approximate": "tanh"}),
                ("sum", {"self": x(2, 3)}, {}), ("mean", {"self": x(2, 3)}, {}), ("cumsum", {"self": x(3, 4)}, {"dim": 0}),
                ("layer_norm", {"input": x(3, 4), "weight": x(4), "bias": x(4)}, {"normalized_shape": [4]}),
                ("layer_norm", {"input": x(2, 2, 3)}, {"normalized_shape": [2, 3]}),
                ("native_layer_norm", {"input": x(3, 4), "weight": x(4), "bias": x(4)}, {"normalized_shape": [4], "eps": 1e-3}),
                ("mm", {"self": x(2, 3), "mat2": x(3, 4)}, {}), ("bmm", {"self": x(2, 2, 3), "mat2": x(2, 3, 2)}, {}),
                ("mv", {"self": x(2, 3), "vec": x(3)}, {}), ("dot", {"self": x(3), "tensor": x(3)}, {}),
                ("outer", {"self": x(2), "vec2": x(3)}, {}), ("matmul", {"self": x(2, 2, 3), "other": x(3, 2)}, {}),
                ("addmm", {"self": x(2), "mat1": x(3, 4), "mat2": x(4, 2)}, {"beta": 0.5, "alpha": 2}),
                ("baddbmm", {"self": x(2, 3, 2), "batch1": x(2, 3, 4), "batch2": x(2, 4, 2)}, {"beta": 0.5, "alpha": 2}),
                ("addmv", {"self": x(3), "mat": x(3, 4), "vec": x(4)}, {"beta": 0.5, "alpha": 2}),
                ("linear", {"input": x(2, 3), "weight": x(4, 3), "bias": x(4)}, {}), ("linear", {"input": x(3), "weight": x(4, 3)}, {}),
                ("conv2d", {"input": x(1, 2, 4, 3), "weight": x(2, 1, 2, 2), "bias": x(2)}, {"groups": 2, "stride": [2, 1], "padding": [1, 0]}),
                ("convolution", {"input": x(1, 2, 3, 3), "weight": x(2, 2, 2, 2)},
                 {"bias": None, "stride": [1, 1], "padding": [1, 1], "dilation": [2, 1], "transposed": False, "output_padding": [0, 0], "groups": 1}),
                ("avg_pool2d", {"self": x(1, 1, 4, 5)}, {"kernel_size": [2, 2], "stride": [1, 2]}),
                ("_adaptive_avg_pool2d", {"self": x(1, 1, 4, 5)}, {"output_size": [2, 2]}),
                ("view", {"self": x(2, 3)}, {"size": [3, 2]}), ("flatten", {"self": x(2, 1, 3)}, {}), ("unsqueeze", {"self": x(3)}, {"dim": 0}),
                ("expand", {"self": x(2, 1)}, {"size": [3, 2, 2]}), ("t", {"self": x(2, 3)}, {}), ("flip", {"self": x(2, 3)}, {"dims": [1]}),
                ("transpose.int", {"self": x(2, 3, 2)}, {"dim0": 0, "dim1": -2}), ("tril", {"self": x(3, 3)}, {}),
                ("squeeze.dim", {"self": x(2, 1)}, {"dim": 1}), ("select.int", {"self": x(2, 3)}, {"dim": 1, "index": -1}),
                ("gather", {"self": x(3, 2), "index": np.array([[2, 0], [2, 1]])}, {"dim": 0}),
                ("index_select", {"self": x(3, 2), "index": np.array([2, 0, 2])}, {"dim": 0}),
                ("where", {"condition": x(3) > 0, "self": x(2, 3), "other": x(3)}, {}),
                ("masked_fill", {"self": x(2, 3), "mask": x(3) > 0}, {"value": 7}),
                ("slice.Tensor", {"self": x(5)}, {"start": 1, "step": 2})):
            self.assertTrue(self.try_gradients(op, tensors, parameters), op)

    def test_what_is_not_recorded(self): # DSP-28
        """Calls that an operator's formulas are not for."""
        x = lambda *shape: np.ones(shape)
        images = {"input": x(1, 2, 3, 3), "weight": x(2, 2, 2, 2)}
        how = {"bias": None, "stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "output_padding": [0, 0], "groups": 1}
        for op, tensors, parameters in (("matmul", {"self": x(3), "other": x(3)}, {}),
                                        ("linear", {"input": x(2, 3), "weight": x(4, 3)}, {"activation": "relu"}),
                                        ("convolution", images, {**how, "transposed": True})):
            reply = self.service.call("POST", "/v1/ops/" + op, {
                "inputs": [{**described(v, {"requires_grad": True}), "name": k} for k, v in tensors.items()], "parameters": parameters})
            self.assertEqual(reply.status, 200, reply.body)
            self.assertNotIn("grad_fn", reply.json["parameters"])


if __name__ == "__main__":
    service.main()
