#!/usr/bin/env python3
"""The short form of a call: arguments as plain arrays and numbers, results as plain nested arrays."""
import io
import json
import math
import random
import struct

import models
import service

np = service.np


class Brief(service.ServiceTest):
    def post(self, op, status=200, headers=None, /, **arguments):
        reply = self.service.call("POST", "/v1/ops/" + op, arguments, **({"headers": headers} if headers else {}))
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply

    def is_answered(self, op, wanted, /, **arguments):
        text = self.post(op, **arguments).body.decode()
        self.assertEqual(json.loads(text), wanted)

    def test_plain_arrays(self):
        self.is_answered("add", {"out": [[11, 12], [13, 14]]}, self=[[1, 2], [3, 4]], other=10)
        self.is_answered("add", {"out": [[[2], [4]]]}, self=[[[1], [2]]], other=[[[1], [2]]])
        self.is_answered("relu", {"out": 0}, self=-5)
        self.is_answered("relu", {"out": []}, self=[])
        self.is_answered("add", {"out": ["NaN", "Infinity"]}, self=["NaN", "Infinity"], other=1)
        self.is_answered("where", {"out": [1, 4]}, condition=[True, False], self=[1, 2], other=[3, 4])
        self.is_answered("sum", {"out": [3, 7]}, self=[[1, 2], [3, 4]], dim=[1])
        self.is_answered("zeros", {"out": [[0, 0]]}, size=[1, 2])

    def test_number_for_a_tensor(self):
        """Where the overload is named, a number is the tensor that it wants."""
        self.is_answered("masked_fill.Tensor", {"out": [7, 2]}, self=[1, 2], mask=[True, False], value=7)
        self.is_answered("add.Tensor", {"out": [11, 12]}, self=[1, 2], other=10)

    def test_lists_and_several_results(self):
        self.is_answered("cat", {"out": [1, 2, 3]}, tensors=[[1, 2], [3]])
        self.is_answered("split", {"out0": [1, 2], "out1": [3]}, self=[1, 2, 3], split_size=2)
        self.is_answered("topk", {"values": [3, 2], "indices": [0, 2]}, self=[3, 1, 2], k=2)
        self.is_answered("index", {"out": [[2], [4]]}, self=[[1, 2], [3, 4]], indices=[None, [1]])

    def test_types_follow_from_values(self):
        def types(**arguments):
            return self.post("add", meta=True, **arguments).json["out"]["datatype"]
        self.assertEqual(types(self=[1, 2], other=[1, 2]), "INT64")
        self.assertEqual(types(self=[1, 2.0], other=[1, 2]), "FP32")
        self.assertEqual(types(self=[1, 2], other=[1, 2], dtype="FP64"), "FP64")
        self.assertEqual(self.post("zeros", size=[1], dtype="INT8", meta=True).json["out"]["datatype"], "INT8")

        self.assertEqual(types(self=[[], []], other=[]), "FP32")
        self.is_answered("add", {"out": [3, 4]}, self=[True, 2], other=2)
        self.is_answered("add", {"out": [3, 2.5]}, self=[True, 0.5], other=2)

    def test_whole_numbers_as_floats(self):
        """[1,2] is INT64 where that is taken, and FP32 where it is not: a mean, a product with 0.5. Indices stay."""
        self.is_answered("mean", {"out": 1.5}, self=[1, 2])
        self.is_answered("linear", {"out": [[3.5]]}, input=[[1, 2]], weight=[[0.5, 1.5]])
        self.is_answered("matmul", {"out": [2.5]}, self=[[1, 2]], other=[0.5, 1])
        self.is_answered("sum", {"out": 3}, self=[1, 2])
        self.assertEqual(self.post("sum", self=[1, 2], meta=True).json["out"]["datatype"], "INT64")
        self.assertEqual(self.post("mean", self=[1, 2], meta=True).json["out"]["datatype"], "FP32")
        out = self.post("layer_norm", input=[1, 3], normalized_shape=[2], eps=0.0).json["out"]
        self.assertEqual(out, [-1, 1])
        self.is_answered("embedding", {"out": [[3, 4]]}, weight=[[1, 2], [3, 4]], indices=[1])
        self.is_answered("index", {"out": [2]}, self=[1, 2], indices=[[1]])
        table = {"thresholds": [0.5, 0, 0], "links": [[0, 1], [0, 0], [0, 0]], "trees": [[0, 1, 0]], "values": [[0], [1], [2]], "targets": 1}
        for row in ([1], [0.25]): # whose links are INT32 and nothing else
            self.is_answered("tree_ensemble", {"out": [[2 if row == [1] else 1]]}, self=[row], **table)
        self.problem(self.post("tree_ensemble", 400, self=[[1.0]], **{**table, "trees": [[0, 2**31, 0]]}), 400, "trees", "INT32")
        self.is_answered("cat", {"out": [1, 2, 0.5]}, tensors=[[1, 2], [0.5]])
        for words, op, arguments in ((("INT64",), "mean", {"self": [1, 2], "dtype": "INT64"}), (("2", "3"), "linear", {"input": [[1, 2]], "weight": [[0.5, 1, 1]]}),
                                     (("dim", "5"), "softmax", {"self": [1, 2], "dim": 5}), (("INT64",), "bitwise_and", {"self": [1], "other": [0.5]})):
            self.problem(self.post(op, 400, **arguments), 400, *words)
        reply = self.service.infer("mean", {"self": np.array([1, 2])}) # who says a type means it
        self.problem(reply, 400, "INT64")

    def test_other_names(self):
        """What torch and NumPy call arguments, operators and types, where ATen has no such name."""
        self.is_answered("sum", {"out": [[3], [7]]}, x=[[1, 2], [3, 4]], axis=1, keepdims=True)
        self.is_answered("softmax", {"out": [1]}, input=[5.0], axis=0)
        self.is_answered("linear", {"out": [[3]]}, x=[[1, 2]], weight=[[1, 1]])
        self.is_answered("stack", {"out": [[1, 3], [2, 4]]}, arrays=[[1, 2], [3, 4]], axis=1)
        self.is_answered("clip", {"out": [2, 3]}, a=[1, 5], a_min=2, a_max=3)
        self.is_answered("torch.relu", {"out": [0, 2]}, input=[-1, 2])
        self.is_answered("np.power", {"out": [1, 4]}, x1=[1, 2], x2=2)
        self.is_answered("zeros", {"out": [0]}, shape=[1])
        for said, meant in (("torch.float32", "FP32"), ("float16", "FP16"), ("np.int8", "INT8"), ("torch.bfloat16", "BF16"), ("double", "FP64")):
            self.assertEqual(self.post("add", x=[1], y=[2], dtype=said, meta=True).json["out"]["datatype"], meant)
            self.assertEqual(self.post("zeros", size=[1], dtype=said, meta=True).json["out"]["datatype"], meant)
        reply = self.service.call("POST", "/v1/ops/sum", {"inputs": [{"name": "x", "shape": [2], "datatype": "INT64", "data": [1, 2]}], "parameters": {"axis": 0}})
        self.assertEqual(reply.out.tolist(), 3)
        self.assertEqual(self.service.call("GET", "/v1/ops/torch.softmax").json["name"], "softmax")
        for words, op, arguments in ((("self", "twice"), "relu", {"self": [1], "x": [1]}), (("axs",), "sum", {"x": [1], "axs": 0}),
                                     (("float31",), "zeros", {"size": [1], "dtype": "torch.float31"})):
            self.problem(self.post(op, 400, **arguments), 400, *words)
        for name in ("sofmax", "torch.sofmax"):
            self.problem(self.post(name, 404, x=[1.0]), 404, "did you mean 'softmax'")
            self.problem(self.service.call("GET", "/v1/ops/" + name), 404, "did you mean 'softmax'")
        by_protocol = self.service.infer("op.sum", {"x": np.array([1, 2])}, path="/v2/models/{}/infer")
        self.problem(by_protocol, 400, "x")

    def test_to_the_last_bit(self):
        rng = random.Random(3)
        drawn = [x for x in (struct.unpack("d", rng.randbytes(8))[0] for _ in range(300)) if math.isfinite(x)]
        floats = [0.1 + 0.2, 1.7976931348623157e308, 5e-324, 2**60 + 0.5, 1e22, *drawn]
        self.is_answered("add", {"out": floats}, self=floats, other=0, dtype="FP64")
        self.is_answered("add", {"out": [1e19]}, self=[10**19], other=0, dtype="FP64")
        whole = [2**53 - 1, 1 - 2**53, 2**63 - 1, -2**63, *(rng.randrange(-2**63, 2**63) for _ in range(99))]
        self.is_answered("add", {"out": whole}, self=whole, other=0)
        self.is_answered("full", {"out": [2**53 + 1]}, size=[1], fill_value=2**53 + 1)
        self.is_answered("clamp", {"out": [2**60 + 1]}, self=[0], min=2**60 + 1)
        whole = [2**64 - 1, 2**63, *(rng.randrange(2**64) for _ in range(99))]
        self.is_answered("add", {"out": whole}, self=whole, other=0, dtype="UINT64")

    def test_parameters_where_asked_for(self):
        reply = self.post("add", self=[1], other=2, explain=True, kernel="ref").json
        self.assertEqual((reply["out"], reply["parameters"]["kernel"]), ([3], "ref"))
        self.assertIn("explain", reply["parameters"])
        self.assertIn("trace", self.post("add", self=[1], other=2, trace=True).json["parameters"])

    def test_parameters_as_in_the_long_form(self):
        """What stands in parameters counts as if it stood beside the arguments."""
        reply = self.post("add", self=[1], other=2, parameters={"explain": True, "kernel": "ref", "alpha": 3}).json
        self.assertEqual((reply["out"], reply["parameters"]["kernel"]), ([7], "ref"))
        self.assertIn("explain", reply["parameters"])
        self.is_answered("sum", {"out": [3, 7]}, self=[[1, 2], [3, 4]], parameters={"dim": [1]})
        self.assertEqual(self.post("add", self=[1], other=2, parameters={"dtype": "INT8", "meta": True}).json["out"]["datatype"], "INT8")
        self.is_answered("relu", {"out": [0, 2]}, self=[-1, 2], parameters={})
        streams = {"streams": 1, "stream_hints": {"inputs": {"self": 0}}, "explain": True} # of objects in it
        self.assertEqual(self.post("relu", self=[-1, 2], parameters=streams).json["out"], [0, 2])
        reply = self.service.call("POST", "/v1/eval", {"expr": "a + b", "a": [1, 2], "b": 3, "parameters": {"trace": True}}).json
        self.assertEqual(reply["out"], [4, 5])
        self.assertIn("trace", reply["parameters"])
        reply = self.post("zeros", parameters={"size": [2]}).json # the long form, without a tensor
        self.assertEqual(reply["outputs"][0]["data"], [0, 0])

    def test_what_is_wrong(self):
        for words, op, arguments in (
                (("self", "not of one length"), "relu", {"self": [[1], [2, 3]]}), (("self", "not of one shape"), "relu", {"self": [[1], 2]}),
                (("self", "nested deeper than 8"), "relu", {"self": [[[[[[[[[1]]]]]]]]]}),
                (("self", "300", "255"), "add", {"self": [300], "other": 1, "dtype": "UINT8"}),
                (("self", "1.5", "127"), "relu", {"self": [1.5], "dtype": "INT8"}), (("self", "numbers"), "relu", {"self": ["x"]}),
                (("self", "numbers"), "relu", {"self": ["x" * 10000]}), (("self", "numbers"), "relu", {"self": 99 * ["\1" * 9]}),
                *((("self", "INT64"), "relu", {"self": [1, n]}) for n in (2**63, -2**63 - 1, 2**64, 10**400)),
                *((("other", "INT64"), "add", {"self": [1], "other": n}) for n in (2**63, -2**63 - 1)),
                (("self", str(2**64 - 1)), "relu", {"self": [2**64], "dtype": "UINT64"}),
                (("slf", "did you mean 'self'"), "add", {"slf": [1], "other": 1}), (("dtype", "FP32"), "relu", {"self": [1], "dtype": "FP3"}),
                (("alpha", "twice"), "add", {"self": [1], "other": 1, "alpha": 2, "parameters": {"alpha": 3}}),
                (("parameters", "object"), "relu", {"self": [1], "parameters": [1]}),
                (("expain", "explain"), "relu", {"self": [1], "parameters": {"expain": True}}),
                (("input", "did you mean 'inputs'"), "relu", {"input": [{"name": "self"}]})):
            with self.subTest(op=op, arguments=arguments):
                self.problem(self.post(op, 400, **arguments), 400, *words)
        self.problem(self.post("nosuch", 404, self=[1]), 404, "nosuch")
        by_protocol = self.service.call("POST", "/v2/models/op.add/infer", {"self": [1], "other": 1})
        self.problem(by_protocol, 400, "self", "inputs")

    def test_parameters_beside_inputs(self):
        """The long form takes there, too, what all calls share; the protocol's own route does not."""
        body = {"inputs": [{"name": "self", "shape": [2], "datatype": "FP32", "data": [-1, 2]}], "explain": True, "kernel": "ref"}
        reply = self.post("relu", **body).json
        self.assertEqual((reply["outputs"][0]["data"], reply["parameters"]["kernel"]), ([0, 2], "ref"))
        self.assertIn("explain", reply["parameters"])
        self.problem(self.post("relu", 400, inputs=body["inputs"], expain=True), 400, "expain", "did you mean 'explain'")
        self.problem(self.service.call("POST", "/v2/models/op.relu/infer", body), 400, "explain")

    def test_stored_tensors(self):
        """{"tensor": NAME} stands for a stored one, alone and in a list."""
        reply = self.service.call("PUT", "/v1/tensors/brief/w", {"shape": [1, 3], "datatype": "FP16", "data": [1, 2, 3]})
        self.assertEqual(reply.status, 201)
        w = {"tensor": "brief/w"}
        self.is_answered("add", {"out": [[11, 12, 13]]}, self=w, other=10)
        self.assertEqual(self.post("add", self=w, other=10, meta=True).json["out"]["datatype"], "FP16")
        self.is_answered("mm", {"out": [[14]]}, self=w, mat2=[[1], [2], [3]], dtype="FP16")
        self.is_answered("cat", {"out": [[1, 2, 3], [1, 2, 3]]}, tensors=[w, w])
        self.is_answered("index", {"out": [[2]]}, self=w, indices=[None, [1]])
        reply = self.service.call("POST", "/v1/eval", {"expr": "w + b", "w": w, "b": 1})
        self.assertEqual(reply.json, {"out": [[2, 3, 4]]})
        self.problem(self.post("relu", 404, self={"tensor": "brief/nosuch"}), 404, "self", "brief/nosuch", "/v1/tensors")
        self.problem(self.post("sum", 400, self=[[1.0]], dim=w), 400, "dim")
        for wrong in ({"tensor": 1}, {"tensor": "brief/w", "more": 1}, {}):
            self.problem(self.post("relu", 400, self=wrong), 400, "self")

    def test_as_a_task(self):
        reply = self.post("add", 202, {"Prefer": "respond-async"}, self=[1], other=2)
        done = self.service.call("GET", reply.headers["Location"] + "?wait=10")
        self.assertEqual((done.status, done.json), (200, {"out": [3]}), done.body[:300])

class Models(service.ServiceTest):
    """POST /v1/models/{name}: inputs by the names that the file gives them, in the types that it wants."""

    def put(self, name, file):
        self.assertEqual(self.service.call("PUT", "/v1/models/" + name, file).status, 201)

    def post(self, name, /, **body):
        return self.service.call("POST", "/v1/models/" + name, body)

    def test_short(self):
        self.put("line", models.line())
        self.assertEqual(self.post("line", x=[[1, 2, 3]]).json, {"y": [[2, 8, 14, 20]]})
        reply = self.post("line", x=[[1, 2, 3], [0.5, 0, 8]], explain=True, parameters={"pool": "default", "eager": True}).json
        self.assertEqual(reply["y"], models.line_of(np.array([[1, 2, 3], [0.5, 0, 8]], np.float32)).tolist())
        self.assertEqual((reply["parameters"]["kernel"], reply["parameters"]["explain"]["nodes"]), ("eager", 3))
        reply = self.service.call("POST", "/v1/models/line", {"x": [[1, 2, 3]]}, {"Prefer": "respond-async"})
        done = self.service.call("GET", reply.headers["Location"] + "?wait=10")
        self.assertEqual((reply.status, done.json), (202, {"y": [[2, 8, 14, 20]]}))
        self.assertEqual(self.service.call("PUT", "/v1/tensors/row", {"shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}).status, 201)
        self.assertEqual(self.post("line", x={"tensor": "row"}).json, {"y": [[2, 8, 14, 20]]})
        streams = self.post("line", x=[[1, 2, 3]] * 4, streams=1, concat_output=False)
        self.assertEqual(streams.json["y[0]"], [[2, 8, 14, 20]] * 4)

    def test_several(self):
        self.put("two", models.two('a"b', "dtype")) # names may be anything, a parameter's too
        reply = self.post("two", **{'a"b': [[1, 2], [3, 4]], "dtype": [0.5, 1.5]})
        self.assertEqual(reply.json, {"sum": [[1.5, 3.5], [3.5, 5.5]], "product": [[0.5, 3], [1.5, 6]], "shape": [2, 2]})
        self.put("quoted", models.identity(out='y"\n', datatype="INT64"))
        self.assertEqual(self.post("quoted", x=[2**53 + 1]).json, {'y"\n': [2**53 + 1]})
        self.problem(self.post("quoted", x=[1.5]), 400, "x", "1.5")
        self.put("many", models.identity(shape=()))
        self.assertEqual(self.post("many", x=3).json, {"y": 3})

    def test_long(self):
        self.put("long", models.line())
        x = {"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [1, 2, 3]}
        reply = self.post("long", inputs=[x], explain=True)
        self.assertEqual((reply.outputs["y"].tolist(), "explain" in reply.parameters), ([[2, 8, 14, 20]], True))
        self.problem(self.service.call("POST", "/v2/models/long/infer", {"x": [[1, 2, 3]]}), 400, "x", "inputs")

    def test_what_is_wrong(self):
        self.put("wrong", models.line())
        for words, body in ((("'z'", "x FP32 [-1,3]"), {"z": 1}), (("expain", "explain"), {"x": [[1, 2, 3]], "expain": True}),
                            (("x", "[?, 3]"), {"x": [1, 2, 3]}), (("'x' is missing",), {"explain": True, "pool": "default"}),
                            (("dtype",), {"x": [[1, 2, 3]], "dtype": "FP16"}), (("x", "not of one length"), {"x": [[1, 2, 3], [1]]}),
                            (("x",), {"x": "text"}), (("meta",), {"x": [[1, 2, 3]], "meta": True})):
            with self.subTest(body=body):
                self.problem(self.post("wrong", **body), 400, *words)
        self.problem(self.post("wrng", x=[[1, 2, 3]]), 404, "nearest is wrong")
        self.problem(self.service.call("POST", "/v1/models/wrong", b"[1]"), 400, "object")


class Files(service.ServiceTest):
    """A .npy as a call's body, and as its reply; parameters in the query."""

    def post(self, path, body, headers=None, status=200):
        reply = self.service.call("POST", path, body, headers)
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply

    def npy(self, array):
        file = io.BytesIO()
        np.save(file, array)
        return file.getvalue()

    def test_in(self):
        x = np.array([[1, 2, 3], [-1, 5, 0.5]], np.float32)
        for headers in (None, {"Content-Type": "application/x-npy"}, {"Content-Type": "application/octet-stream"}):
            self.assertEqual(self.post("/v1/ops/relu", self.npy(x), headers).json, {"out": np.maximum(x, 0).tolist()})
            reply = self.post("/v1/ops/sum?axis=1&keepdims=true", self.npy(np.asfortranarray(x)), headers)
            self.assertEqual(reply.json, {"out": [[6], [4.5]]})
        self.service.call("PUT", "/v1/models/line", models.line())
        reply = self.post("/v1/models/line?explain", self.npy(x))
        self.assertEqual(reply.json["y"], models.line_of(x).tolist())
        self.assertIn("explain", reply.json["parameters"])
        self.service.call("PUT", "/v1/models/two", models.two())
        for words, path, body in ((("two", "a FP32"), "/v1/models/two", self.npy(x)), (("shape", "[2, 2]"), "/v1/models/line", self.npy(x[:, :2])),
                                  (("cat",), "/v1/ops/cat", self.npy(x)), ((".npy",), "/v1/ops/relu", self.npy(x)[:-1]), (("dim",), "/v1/ops/softmax", self.npy(x))):
            self.problem(self.post(path, body, status=400), 400, *words)
        self.problem(self.post("/v1/ops/relu", b"x", {"Content-Type": "application/x-npy"}, 400), 400, ".npy")
        self.problem(self.post("/v1/ops/nosuch", self.npy(x), status=404), 404, "nosuch")
        self.post("/v2/models/op.relu/infer", self.npy(x), {"Content-Type": "application/x-npy"}, 415)
        self.post("/v1/eval", self.npy(x), {"Content-Type": "application/x-npy"}, 415)

    def test_out(self):
        accept = {"Accept": "application/x-npy"}

        def load(path, body):
            reply = self.post(path, body, {**accept, **({} if isinstance(body, bytes) else {"Content-Type": "application/json"})})
            self.assertEqual((reply.headers["Content-Type"], reply.headers["Inference-Header-Content-Length"]), ("application/x-npy", None))
            return np.load(io.BytesIO(reply.body))
        rng = np.random.default_rng(8)
        for shape in ((), (7,), (0, 3), (5, 300, 40)):
            for kind in (np.float32, np.float64, np.int8, np.bool_):
                x = rng.integers(0, 2, shape).astype(kind)
                got = load("/v1/ops/clone", self.npy(x))
                self.assertEqual((got.dtype, got.shape), (x.dtype, x.shape))
                np.testing.assert_array_equal(got, x)
        for _ in range(3): # not what an earlier request with the same text had
            self.assertEqual(self.post("/v1/ops/add", {"inputs": [{"name": n, "shape": [1], "datatype": "FP32", "data": [2]} for n in ("self", "other")]}).out.tolist(), [4])
            self.assertEqual(load("/v1/ops/add", {"inputs": [{"name": n, "shape": [1], "datatype": "FP32", "data": [2]} for n in ("self", "other")]}).tolist(), [4])
        self.assertEqual(load("/v1/ops/nonzero", {"self": [1, 0, 2]}).tolist(), [[0], [2]])
        self.assertEqual(load("/v1/eval", {"expr": "a * 2", "a": [1, 2]}).tolist(), [2, 4])
        self.service.call("PUT", "/v1/models/npy", models.line())
        x = np.array([[1, 2, 3]], np.float32)
        for _ in range(4):
            np.testing.assert_array_equal(load("/v1/models/npy", self.npy(x)), models.line_of(x))
        self.problem(self.post("/v1/ops/topk", {"self": [1, 2], "k": 1}, accept, 400), 400, "gives 2", "outputs")
        one = {"inputs": [{"name": "self", "shape": [2], "datatype": "FP32", "data": [1, 2]}], "parameters": {"k": 1}, "outputs": [{"name": "indices"}]}
        self.assertEqual(load("/v1/ops/topk", one).tolist(), [1])
        self.problem(self.post("/v1/ops/add", {"self": [1], "other": 1, "dtype": "BF16"}, accept, 400), 400, "BF16")
        reply = self.service.call("POST", "/v1/ops/relu", self.npy(x), {**accept, "Prefer": "respond-async"})
        done = self.service.call("GET", reply.headers["Location"] + "?wait=10")
        np.testing.assert_array_equal(np.load(io.BytesIO(done.body)), x)

    def test_query(self):
        reply = self.post("/v1/ops/add?alpha=3&kernel=ref&explain=true&pretty", {"self": [1], "other": [2]}).json
        self.assertEqual((reply["out"], reply["parameters"]["kernel"]), ([7], "ref"))
        self.assertEqual(self.post("/v1/eval?n=2", {"expr": "a * n", "a": [1, 2]}).json, {"out": [2, 4]})
        self.assertEqual(self.post("/v1/ops/sum?dim=[0,1]", {"self": [[1, 2], [3, 4]]}).json, {"out": 10})
        self.assertEqual(self.post("/v1/ops/gelu?approximate=tanh", {"self": [0.0]}).json, {"out": [0]})
        long = {"inputs": [{"name": "self", "shape": [1], "datatype": "FP32", "data": [3]}]}
        for alpha in (1, 2, 1): # the same text, another query
            self.assertEqual(self.post(f"/v1/ops/mul?other={alpha}", long).out.tolist(), [3 * alpha])
        for words, path in ((("explin", "explain"), "/v1/ops/relu?explin=1"), (("explain",), "/v1/ops/relu?explain=2"), (("escape",), "/v1/ops/relu?pool=%zz"),
                            (("pretty",), "/v1/ops/relu?pretty=x"), (("other", "twice"), "/v1/ops/add?other=1&other=2")):
            self.problem(self.post(path, {"self": [1]}, status=400), 400, *words)
        self.problem(self.post("/v1/ops/relu?pool=nosuch", {"self": [1]}, status=404), 404, "nosuch")
        self.problem(self.service.call("POST", "/v2/models/op.relu/infer?explain=true", long), 400, "explain")


class Again(service.ServiceTest):
    post, is_answered = Brief.post, Brief.is_answered

    def test_again_and_again(self):
        """The same text twice is not answered from the first call's tensors."""
        for _ in range(3):
            self.is_answered("add", {"out": [5]}, self=[2], other=3)


class Called(service.ServiceTest):
    """Outputs of a .pt2 have the names that the module gives them; without any, the graph's."""

    LEAF = {"type": None, "context": None, "children_spec": []}

    @staticmethod
    def tree(kind, keys, *children):
        context = {"dict_context": keys} if kind.endswith("defaultdict") else json.dumps(keys)
        return {"type": kind, "context": context, "children_spec": list(children)}

    def named(self, gives, *ends):
        m = models.archives.Model()
        x = m.user("x", sizes=[2])
        made = [m.call("add.Tensor", "sum%d" % i, self=x, other=i) for i in range(sum(e is None for e in ends))]
        left = iter(made)
        m.gives = gives
        m.ends = [{"user_output": {"arg": models.archives.argument(next(left)) if e is None else e}} for e in ends]
        reply = self.service.call("PUT", "/v1/models/called", m.bytes())
        self.assertEqual(reply.status // 100, 2, reply.body)
        answer = self.service.call("POST", "/v1/models/called", {"x": [1, 2]}).json
        self.assertEqual([v for v in answer.values() if v != 7], [[1 + i, 2 + i] for i in range(len(made))])
        return list(answer)

    def test_names(self):
        leaf, tree = self.LEAF, self.tree
        dictionary = tree("builtins.dict", ["a"], leaf)
        pair = tree("builtins.tuple", None, leaf, leaf)
        none, seven = {"as_none": True}, {"as_int": 7}
        for gives, ends, wanted in [
                (tree("builtins.dict", ["logits", "b"], leaf, leaf), (None, None), ["logits", "b"]),
                (tree("transformers.Output", ["logits", "states"], leaf, pair), (None,) * 3, ["logits", "states.0", "states.1"]),
                (tree("builtins.dict", ["a", "more"], leaf, dictionary), (None, None), ["a", "more.a"]),
                (tree("collections.defaultdict", ["k"], leaf), (None,), ["k"]),
                (tree("builtins.dict", ["none", "b", 3], leaf, leaf, leaf), (none, None, seven), ["b", "3"]),
                (tree("builtins.tuple", None, leaf, dictionary), (None, None), ["sum0", "a"]),
                (tree("builtins.tuple", None, tree("builtins.dict", ["a.2"], leaf), dictionary, dictionary), (None,) * 3,
                 ["a.2", "a", "a.3"]), # each has one
                (pair, (None, None), ["sum0", "sum1"]),
                (leaf, (None,), ["sum0"]),
                (None, (None,), ["sum0"])]:
            self.assertEqual(self.named(gives, *ends), wanted)

    def test_trees_of_others(self):
        """What fits no graph, or is no tree at all, names nothing."""
        leaf, tree = self.LEAF, self.tree
        for gives in [tree("builtins.dict", ["a", "b"], leaf, leaf), tree("builtins.dict", ["a"]), {"type": 1}, [], "x", 7,
                      {"type": "d", "context": "[\"a\"", "children_spec": [leaf]}, tree("d", ["a", "b"], leaf),
                      tree("d", ["a" * 300], leaf), tree("d", [""], leaf), tree("d", [1.5], leaf), tree("d", {"a": 1}, leaf)]:
            self.assertEqual(self.named(gives, None), ["sum0"], gives)

    def test_a_file_without_put(self):
        reply = self.service.call("POST", "/v1/models/nowhere", {"x": [1]})
        self.assertEqual(reply.status, 404)
        self.assertIn("PUT /v1/models/NAME with a file", reply.json["error"])


if __name__ == "__main__":
    service.main()
