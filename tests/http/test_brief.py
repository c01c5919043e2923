#!/usr/bin/env python3
"""The short form of a call: arguments as plain arrays and numbers, results as plain nested arrays."""
import json
import math
import random
import struct

import service


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

    def test_as_a_task(self):
        reply = self.post("add", 202, {"Prefer": "respond-async"}, self=[1], other=2)
        done = self.service.call("GET", reply.headers["Location"] + "?wait=10")
        self.assertEqual((done.status, done.json), (200, {"out": [3]}), done.body[:300])

    def test_again_and_again(self):
        """The same text twice is not answered from the first call's tensors."""
        for _ in range(3):
            self.is_answered("add", {"out": [5]}, self=[2], other=3)


if __name__ == "__main__":
    service.main()
