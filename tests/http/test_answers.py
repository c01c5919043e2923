#!/usr/bin/env python3
"""Answers as PyTorch gives them where operators are called in unusual ways, and what is said where
there is none."""
import json
import struct

import numpy as np

import service
from service import BF16

INF, NAN = float("inf"), float("nan")


def f32(*values):
    return np.array(values, np.float32)


class Values(service.ServiceTest):
    def gives(self, want, op, inputs, parameters=None):
        """The result's type is want's, its values are close."""
        out = self.service.op(op, inputs, parameters)
        self.assertEqual(service.datatype(out), service.datatype(want), (op, parameters))
        values = [t.values if isinstance(t, BF16) else t for t in (out, want)]
        np.testing.assert_allclose(*values, rtol=1e-2 if isinstance(out, BF16) else 1e-5)

    def raw(self, op, text):
        return self.service.call("POST", f"/v1/ops/{op}", text, {"Content-Type": "application/json"})

    def test_numbers_as_they_are_written(self):
        whole = np.array([1, 2])
        self.gives(f32(3, 4), "add", {"self": whole}, {"other": 2.0})
        self.gives(np.array([3, 4]), "add", {"self": whole}, {"other": 2})
        self.gives(f32(2, 4), "mul", {"self": whole}, {"other": 2e0})
        self.gives(f32(2, 0), "mul", {"self": np.array([True, False])}, {"other": 2.0})
        text = '{"inputs":[{"name":"self","shape":[1],"datatype":"INT64","data":[1]}],"parameters":{"other":%s}}'
        for other, name in (("2e0", "FP32"), ("2E+0", "FP32"), ("-2", "INT64"), ("0.0", "FP32")):
            self.assertEqual(self.raw("add", text % other).json["outputs"][0]["datatype"], name, other)
        for other in (2**53 + 1, 1 - 2**60, 2**63 - 2, -2**63):
            self.assertEqual(self.raw("add", text % other).json["outputs"][0]["data"], [other + 1])
        for other in (2**63, -2**63 - 1, 10**30):
            self.problem(self.raw("add", text % other), 400, "other", "INT64")
        for op, how in (("softmax", {"dim": 0.0}), ("sum", {"dim": [0.0]})):
            self.problem(self.service.infer(op, {"self": f32(1)}, how), 400, "dim")

    def test_masks_are_bool(self):
        ones = np.ones((40, 7), np.float32)
        for mask in (np.ones((40, 7), kind) for kind in (np.float16, np.float32, np.int64, np.uint8)):
            wrong = service.datatype(mask)
            self.problem(self.service.infer("where", {"condition": mask, "self": ones, "other": ones}), 400, "condition", wrong)
            self.problem(self.service.infer("masked_fill", {"self": ones, "mask": mask}, {"value": 2}), 400, "mask", wrong)
        self.gives(ones, "where", {"condition": ones > 0, "self": ones, "other": ones})

    def test_lists_of_results(self):
        """They have names, however many there are; of none, none can be asked for."""
        parts = self.service.infer("unbind", {"self": np.arange(9)}).outputs
        self.assertEqual([(name, int(x)) for name, x in parts.items()], [(f"out{i}", i) for i in range(9)])
        nothing = {"self": np.zeros((0, 3), np.float32)}
        self.assertEqual(self.service.infer("unbind", nothing).outputs, {})
        self.problem(self.service.infer("unbind", nothing, outputs=[{"name": "out0"}]), 400, "out0", "none")

    def test_what_json_has_no_number_for(self):
        """Strings both ways, which every parser reads; bare words are taken too."""
        special = f32(NAN, INF, -INF)
        for how in ({}, {"binary": True, "parameters": {"binary_data_output": False}}):
            body, headers = service.pack({"self": special}, **how)
            reply = self.service.call("POST", "/v1/ops/abs", body, headers)
            strict = json.loads(reply.body, parse_constant=lambda word: self.fail(f"{word} is no JSON"))
            self.assertEqual(strict["outputs"][0]["data"], ["NaN", "Infinity", "Infinity"])
        text = '{"inputs":[{"name":"self","shape":[2],"datatype":"%s","data":%s}],"parameters":{"other":%s}}'
        for name in ("FP16", "BF16", "FP32", "FP64"):
            for data in ('["NaN","-Infinity"]', "[NaN,-Infinity]"):
                for other in ('"-Infinity"', "-Infinity"):
                    reply = self.raw("add", text % (name, data, other))
                    self.assertEqual(reply.json["outputs"][0]["data"], ["NaN", "-Infinity"], reply.body)
        self.problem(self.raw("add", text % ("INT32", '["NaN",1]', "1")), 400, "self", "NaN")
        self.service.call("PUT", "/v1/tensors/special", {"shape": [2], "datatype": "FP32", "data": ["NaN", "Infinity"]})
        self.assertEqual(self.service.call("GET", "/v1/tensors/special").json["data"], ["NaN", "Infinity"])

    def test_optional_arguments(self):
        x = f32(1, 2)
        self.gives(f32(3)[0], "sum.dim_IntList", {"self": x})
        self.gives(f32(3)[0], "sum", {"self": x}, {"dim": None})
        for how in ({}, {"weight": None}, {"weight": None, "bias": None}):
            reply = self.service.infer("native_layer_norm", {"input": x}, {"normalized_shape": [2], "eps": 0.0, **how})
            np.testing.assert_allclose(reply.outputs["out0"], [-1, 1], rtol=1e-5)

    def test_lists_of_one(self):
        image, weight = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 2, 2), np.float32)
        want = self.service.op("conv2d", {"input": image, "weight": weight}, {"stride": 2, "padding": 1, "dilation": 2})
        self.gives(want, "conv2d", {"input": image, "weight": weight}, {"stride": [2], "padding": [1], "dilation": [2]})

    def test_dtype_comes_first(self):
        """Elements are converted, and then added: 7e4 is infinite in FP16."""
        wide = f32(7e4, -7e4)
        for op, how in (("sum", {}), ("sum", {"dim": [0]}), ("softmax", {"dim": 0})):
            out = self.service.op(op, {"self": wide}, {"dtype": "FP16", **how})
            self.assertTrue(np.isnan(out).all() and out.dtype == np.float16, (op, out))
        self.gives(np.array(True), "sum", {"self": np.array([2, -1, -1])}, {"dtype": "BOOL"})
        self.gives(np.array(0, np.int32), "sum", {"self": f32(0.5, 0.7)}, {"dtype": "INT32"})
        self.gives(np.array(1.2), "sum", {"self": np.array([0.5, 0.7])}, {"dtype": "FP64"})
        self.gives(np.array([0.5, 0.5]), "softmax", {"self": np.array([3, 3])}, {"dim": 0, "dtype": "FP64"})

    def test_layer_norm_of_halves(self):
        """The result has the input's type, the statistics that of weight and bias."""
        one, how = f32(1, 1), {"normalized_shape": [2], "eps": 0.0}
        for x in (np.array([1, 3], np.float16), BF16([1, 3])):
            like = type(x)([-1, 1]) if isinstance(x, BF16) else x.dtype.type([-1, 1])
            self.gives(like, "layer_norm", {"input": x, "weight": one, "bias": 0 * one}, how)
            outs = self.service.infer("native_layer_norm", {"input": x, "weight": one}, {**how, "bias": None}).outputs
            self.assertEqual([service.datatype(o) for o in outs.values()], [service.datatype(x), "FP32", "FP32"])
            grads = self.service.infer(
                "native_layer_norm_backward", {"grad_out": x, "input": x, "mean": outs["out1"], "rstd": outs["out2"],
                                               "weight": one},
                {"normalized_shape": [2], "bias": None, "output_mask": [True, True, False]}).outputs
            self.assertEqual([service.datatype(g) for g in grads.values()], [service.datatype(x), "FP32", "FP32"])
            mixed = {"input": x, "weight": one, "bias": np.zeros(2, np.float16)}
            self.problem(self.service.infer("layer_norm", mixed, how), 400, "bias", "FP16", "FP32")
        self.problem(self.service.infer("layer_norm", {"input": np.array([1, 2])}, how), 400, "INT64", "FP32")

    def test_layer_norm_near_the_greatest_number(self):
        for kernel in ("simd", "ref"):
            out = self.service.op("layer_norm", {"input": f32(3e38, 3e38, -3e38, -3e38)},
                                  {"normalized_shape": [4], "kernel": kernel})
            np.testing.assert_allclose(out, [1, 1, -1, -1], rtol=1e-5)

    def test_copies(self):
        self.gives(np.array([1, 0], np.int8), "copy", {"self": np.zeros(2, np.int8), "src": f32(1.9, -0.5)})
        self.gives(np.array([[3, 3], [4, 4]]), "copy", {"self": np.zeros((2, 2), np.int64), "src": np.array([[3], [4]])})
        self.problem(self.service.infer("copy", {"self": f32(0, 0), "src": f32(1, 2, 3)}), 400, "src", "2")
        self.problem(self.service.infer("copy", {"self": f32(0, 0), "src": np.ones((1, 2))}), 400, "src")
        self.gives(np.array([True, False]), "to", {"self": f32(NAN, 0)}, {"dtype": "BOOL", "device": "cpu"})
        self.assertEqual(self.service.infer("to", {"self": f32(1)}, {"dtype": "FP64", "device": "cuda"}).status, 501)
        self.problem(self.service.infer("clone", {"self": f32(1)}, {"memory_format": "upside_down"}), 400, "upside_down", "cpu")
        for train in (True, None):
            self.problem(self.service.infer("native_dropout", {"input": f32(1)}, {"p": 0.5, "train": train}), 400, "train")
        self.problem(self.service.infer("dropout", {"input": f32(1)}, {"p": 2, "train": False}), 400, "p")

    def test_limits_slopes_and_quotients(self):
        whole, real = np.array([-7, 7, 8]), f32(-7, 7, 8)
        self.gives(f32(-7, 0.5, 0.5), "clamp", {"self": whole}, {"max": 0.5})
        self.gives(f32(-7, 2, 2), "clamp", {"self": whole, "max": f32(2)})
        self.problem(self.service.infer("clamp", {"self": real}), 400, "min", "max")
        for mode, want in (("floor", [-4, 3, 4]), ("trunc", [-3, 3, 4])):
            self.gives(np.array(want), "div", {"self": whole}, {"other": 2, "rounding_mode": mode})
            self.gives(f32(*want), "div", {"self": real}, {"other": 2, "rounding_mode": mode})
        self.gives(f32(-3.5, 3.5, 4), "div.Tensor_mode", {"self": whole, "other": np.array(2)}, {"rounding_mode": None})
        for mode in ("", "up"):
            self.problem(self.service.infer("div", {"self": real}, {"other": 2, "rounding_mode": mode}), 400, "rounding_mode", "trunc")
        self.gives(f32(-0.5, 7, 8), "prelu", {"self": real, "weight": f32(1 / 14)})
        self.problem(self.service.infer("prelu", {"self": f32(1, 2, 3), "weight": f32(1, 2)}), 400, "weight")
        self.problem(self.service.infer("rrelu", {"self": real}, {"training": True}), 400, "training")
        where = {"condition": np.array([True, False])}
        self.gives(f32(1, 2.5), "where", where, {"self": True, "other": 2.5})
        self.gives(np.array([1, 3]), "where", where, {"self": 1, "other": 3})
        mask = {"self": np.array([1, 2, 3], np.int8), "mask": np.array([True, False, True])}
        self.gives(np.array([9, 2, 9], np.int8), "masked_fill", {**mask, "value": np.array(9.75)})
        self.problem(self.service.infer("masked_fill", {**mask, "value": f32(1)}), 400, "value")
        top = np.finfo(np.float16).max
        self.gives(np.array([0, top, -top], np.float16), "nan_to_num", {"self": np.array([NAN, INF, -INF], np.float16)})
        self.gives(np.array([-128, 0, 0, -1], np.int8), "bitwise_left_shift",
                   {"self": np.array([1, 1, 1, -1], np.int8), "other": np.array([7, 8, -1, 0], np.int8)})
        self.gives(np.array([-1, 0, 0], np.int8), "bitwise_right_shift", {"self": np.array([-5, 5, 5], np.int8), "other": np.array([9, 3, -1], np.int8)})

    def test_beyond_what_a_type_holds(self):
        for kind in (np.uint8, np.int8, np.int16, np.int32):
            low, high = np.iinfo(kind).min, np.iinfo(kind).max
            ends = np.array([low, 0, high], kind)
            for beyond, want in ((low - 1, ends), (high + 1, np.full(3, 3, kind))):
                self.gives(want, "threshold", {"self": ends}, {"threshold": beyond, "value": 3})
            self.gives(ends, "threshold_backward", {"grad_output": ends, "self": ends}, {"threshold": low - 1})
        self.gives(np.array([2**62 - 3]), "lcm", {"self": np.array([2**62 + 1]), "other": np.array([3])})

    def test_whole_numbers_by_zero(self):
        """As in ATen an error; real numbers have an answer, and so has what divides nothing."""
        ratios = [("div.Tensor_mode", {"rounding_mode": mode}) for mode in ("floor", "trunc")]
        ratios += [(name, {}) for name in ("floor_divide", "remainder.Tensor", "fmod.Tensor")]
        for kind in (np.uint8, np.int8, np.int16, np.int32, np.int64):
            one, zeros = np.ones((3, 5000), kind), np.ones(5000, kind)
            zeros[4999] = 0
            for name, how in ratios:
                with self.subTest(name=name, kind=kind):
                    self.problem(self.service.infer(name, {"self": one, "other": zeros}, how), 400, "other", "0")
                    self.gives(np.ones((0, 5000), kind), name, {"self": one[:0], "other": zeros}, how)
                    real = self.service.op(name, {"self": f32(1), "other": f32(0)}, how)
                    self.assertFalse(np.isfinite(real).any())
            for name in ("floor_divide.Scalar", "remainder.Scalar", "fmod.Scalar"):
                self.problem(self.service.infer(name, {"self": one}, {"other": 0}), 400, "other", "0")
            self.problem(self.service.infer("remainder.Scalar_Tensor", {"other": zeros}, {"self": 1}), 400, "other", "0")
        self.gives(np.float32([np.inf]), "div.Tensor", {"self": np.ones(1, np.int32), "other": np.zeros(1, np.int32)})

    def test_gradients(self):
        whole = {"grad_output": np.array([1, 2, 3]), "self": np.array([1, 0, 3])}
        self.gives(np.array([1, 0, 3]), "threshold_backward", whole, {"threshold": 0.5})
        half = np.array([0.5, 0.5], np.float16)
        for name in ("FP32", "FP16", "BF16"):
            self.gives(np.array([-0.25, 0.25], np.float16), "_softmax_backward_data",
                       {"grad_output": np.array([1, 2], np.float16), "output": half}, {"dim": 0, "input_dtype": name})

    def test_trace_of_streams(self):
        reply = self.service.infer("relu", {"self": np.ones((64, 500), np.float32)}, {"streams": 2, "trace": True})
        times = [float(line.split("us=[")[1].rstrip("]")) for line in reply.parameters["trace"] if "us=[" in line]
        self.assertTrue(times and min(times) > 0, reply.parameters["trace"])


class Sentences(service.ServiceTest):
    def refused(self, body, *words, op="add", status=400):
        self.problem(self.service.call("POST", f"/v1/ops/{op}", body), status, *words)

    def body(self, **parameters):
        return {"inputs": [{"name": "self", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "parameters": parameters}

    def test_no_overload_fits(self): # DSP-23
        self.refused(self.body(dim="x"), "sum.dim_IntList: dim", "int[1]", "text", "sum: dim", op="sum")
        self.refused(self.body(other="x"), "add.Tensor: other: must be Tensor", "add.Scalar: other: must be Scalar")
        self.refused(self.body(), "add.Tensor: other: missing", "add.Scalar: other: missing")

    def test_the_nearest_name(self):
        self.refused(self.body(othr=1), "othr", "'other'", "alpha")
        self.refused(self.body(other=1, timeout_sm=1), "timeout_sm", "'timeout_ms'")
        self.refused(self.body(ketnel="ref"), "ketnel", "'kernel'", op="relu")
        right = self.body(other=1)
        for wrong, near in (("ouputs", "outputs"), ("input", "inputs"), ("paramters", "parameters")):
            self.refused({**right, wrong: []}, "the body", wrong, f"'{near}'")
        for wrong, near in (("shap", "shape"), ("dtatype", "datatype"), ("parameter", "parameters")):
            self.refused({**right, "inputs": [{**right["inputs"][0], wrong: {}}]}, "self", wrong, f"'{near}'")
        parameters = {"parameters": {"requires_gard": True}}
        self.refused({**right, "inputs": [{**right["inputs"][0], **parameters}]}, "self", "'requires_grad'")
        for output in ({"nam": "out"}, {"name": "out", "parameters": {"binary_date": True}}):
            self.refused({**right, "outputs": [output]}, "outputs", "did you mean")
        reply = self.service.call("PUT", "/v1/tensors/x", {"shape": [1], "datatyp": "FP32", "data": [1]})
        self.problem(reply, 400, "datatyp", "'datatype'")

    def test_a_part_without_a_kernel(self):
        reply = self.service.infer("silu", {"self": f32(1)}, {"device": "cuda"})
        self.assertEqual((reply.status, reply.json["operator"]), (501, "silu"), reply.body)
        for word in ("could not run 'silu'", "mul(self, sigmoid(self))", "'sigmoid'"):
            self.assertIn(word, reply.json["detail"])

    def test_text_behind_a_body(self):
        for end in ("x", "}", " 1", ',{"a":1}'):
            reply = self.service.call("POST", "/v1/ops/relu", json.dumps(self.body()) + end)
            said = self.problem(reply, 400, "the JSON is wrong near")["detail"]
            self.assertTrue(said.isascii() and "u0" not in said and "fffd" not in said, said)


def npy(header, data=bytes(4), version=b"\x01\x00"):
    header = header.encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + data


def safetensors(header, data=bytes(4)):
    header = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(header)) + header + data


class Files(service.ServiceTest):
    def put(self, kind, body, status, *words):
        reply = self.service.call("PUT", "/v1/tensors/file", body, {"Content-Type": f"application/x-{kind}"})
        with self.subTest(body=body[:120]):
            if status == 400:
                self.problem(reply, 400, *words)
            else:
                self.assertIn(reply.status, (200, 201), reply.body)

    def test_npy(self):
        right = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
        for header in (right, right + " " * 9 + "\n", "{'shape':(1,),'descr':'<f4','fortran_order':False}",
                       right.replace("(1,)", "()"), right.replace("(1,)", "(1, 1)"), right.replace("(1,)", "(1,1,)")):
            self.put("npy", npy(header), 200)
        for old, new in (("'<f4'", "'<f48'"), ("'<f4'", "'<f4"), ("'<f4'", "'>f4'"), ("'<f4'", ""), ("'<f4'", "<f4"),
                         ("(1,)", "(1 1)"), ("(1,)", "(1)"), ("(1,)", "(1,"), ("(1,)", "1"), ("(1,)", "(,)"),
                         ("(1,)", "(1.0,)"), ("(1,)", "(-1,)"), ("(1,)", "(+1,)"), ("(1,)", "(1,,)"), ("(1,)", ""),
                         ("False", "Fals"), ("False", "0"), ("False", ""), ("False", "TrueFalse"),
                         ("'descr'", "'desc'"), ("'descr'", "descr"), ("{", ""), ("}", ""), ("}", "}x"),
                         (", }", ", 'more': 1}"), (", }", ", 'shape': (1,)}"), (", }", "\0}"),
                         (", 'shape': (1,)", "")):
            self.put("npy", npy(right.replace(old, new)), 400, "npy")
        for data in (bytes(3), bytes(5), b""):
            self.put("npy", npy(right, data), 400, "npy", "data")
        self.put("npy", npy(right, version=b"\x01\x01"), 400, "npy")

    def test_safetensors(self):
        def entry(begin, end, dtype="F32", shape=(1,), **more):
            return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}
        self.put("safetensors", safetensors({"a": entry(0, 4)}), 200)
        self.put("safetensors", safetensors({"b": entry(4, 8), "a": entry(0, 4), "e": entry(4, 4, shape=[0]),
                                             "__metadata__": {"format": "pt"}}, bytes(8)), 200)
        for wrong, data, *words in (
                ({"a": entry(0.5, 4.5)}, bytes(8), "data_offsets"), ({"a": entry(0.0, 4.0)}, bytes(4), "data_offsets"),
                ({"a": entry(0, 4), "b": entry(0, 4)}, bytes(4), "begins at"),
                ({"a": entry(0, 4), "b": entry(2, 6)}, bytes(6), "begins at"),
                ({"a": entry(0, 4), "b": entry(8, 12)}, bytes(12), "begins at"), ({"a": entry(0, 4)}, bytes(5), "behind"),
                ({"a": entry(4, 8)}, bytes(8), "begins at"), ({}, bytes(1), "behind"), ({"a": entry(0, 5)}, bytes(5)),
                ({"a": entry(4, 0)}, bytes(4)), ({"a": entry(0, 4, more=1)}, bytes(4), "more"),
                ({"a": entry(0, 4, shape=[1.0])}, bytes(4), "shape"), ({"a": entry(0, 4, dtype="F31")}, bytes(4), "dtype"),
                ({"a": {"dtype": "F32", "shape": [1]}}, bytes(4)), ({"a": 1}, bytes(4)), ({"a": None}, b""),
                ({"a": {**entry(0, 4), "data_offsets": [0, 4, 4]}}, bytes(4)), ([1], b"", "object")):
            self.put("safetensors", safetensors(wrong, data), 400, *words)
        one = json.dumps(entry(0, 4))
        self.put("safetensors", safetensors('{"a":%s,"a":%s}' % (one, one)), 400, "twice")
        self.put("safetensors", safetensors('{"a":%s}' % one.replace('"shape"', '"dtype":"F32","shape"')), 400, "once")


if __name__ == "__main__":
    service.main()
