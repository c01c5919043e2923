#!/usr/bin/env python3
"""What backward operators refuse and leave out: masks, shapes that are another layer's, types."""
import numpy as np

import service

NORM = {"normalized_shape": [4], "output_mask": [True, True, True]}
CONV = {"bias_sizes": [5], "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
        "output_padding": [0, 0], "groups": 1, "output_mask": [True, True, True]}


def zeros(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


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


if __name__ == "__main__":
    service.main()
