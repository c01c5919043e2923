#!/usr/bin/env python3
"""ONNX files with functions of their own, judged by ONNX Runtime; wrong ones by their sentence.

    test_onnx_functions.py RUN_MODEL
"""
import pathlib
import sys
import unittest

import numpy as np

try:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError:
    print("skipped: no onnx or no onnxruntime: run deploy/setup.sh check")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runner import Refused, Runner

NODE, OWN = helper.make_node, "own"
X = np.float32([[1, -2, 3], [-4, 5, -6]])


def ref(node, name, of, kind):
    """Has an attribute be the function's."""
    attribute = onnx.AttributeProto(name=name, ref_attr_name=of, type=kind)
    node.attribute.append(attribute)
    return node


def function(name, inputs, outputs, nodes, version=17, **how):
    return helper.make_function(OWN, name, inputs, outputs, nodes, [helper.make_opsetid("", version), helper.make_opsetid(OWN, 1)], **how)


def model(nodes, functions, results=("y",)):
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])], [helper.make_empty_tensor_value_info(r) for r in results]
    return helper.make_model(helper.make_graph(nodes, "g", *ports), functions=functions, ir_version=9,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(OWN, 1)])


def shifted():
    """leaky(x) + 2, with a tensor and a narrow one that each call reads, and an attribute with a default."""
    leaky = ref(NODE("LeakyRelu", ["a"], ["h"]), "alpha", "slope", onnx.AttributeProto.FLOAT)
    nodes = [leaky, NODE("Constant", [], ["two"], value=helper.make_tensor("t", TensorProto.FLOAT, [1], [2])),
             NODE("Constant", [], ["no"], value=helper.make_tensor("n", TensorProto.BOOL, [1], [0])),
             NODE("Add", ["h", "two"], ["s"]), NODE("Where", ["no", "a", "s"], ["b"])]
    return function("shifted", ["a"], ["b"], nodes, attribute_protos=[helper.make_attribute("slope", 0.5)])


class Functions(unittest.TestCase):
    def same(self, file):
        wanted = onnxruntime.InferenceSession(file.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": X})
        for got, want in zip(RUN.run(file.SerializeToString(), [X]), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)

    def refused(self, word, file):
        with self.assertRaises(Refused) as caught:
            RUN.run(file.SerializeToString(), [X])
        self.assertIn(word, str(caught.exception))

    def test_calls(self):
        """Twice, with names that the graph has, too; with the default and without."""
        calls = [NODE("shifted", ["x"], ["h"], domain=OWN), NODE("shifted", ["h"], ["y"], domain=OWN, slope=0.25)]
        self.same(model(calls, [shifted()]))

    def test_nested(self):
        """An attribute goes through, an inner graph sees the function's values, and an input is left out."""
        inner = ref(NODE("shifted", ["a"], ["h"], domain=OWN), "slope", "outer_slope", onnx.AttributeProto.FLOAT)
        then = helper.make_graph([NODE("Add", ["h", "h"], ["t"])], "then", [], [helper.make_empty_tensor_value_info("t")])
        other = helper.make_graph([NODE("shifted", ["h"], ["e"], domain=OWN)], "other", [], [helper.make_empty_tensor_value_info("e")])
        nodes = [inner, NODE("Clip", ["h", "low", "high"], ["c"]), NODE("ReduceSum", ["c"], ["sum"], keepdims=0),
                 NODE("Constant", [], ["zero"], value_float=0.0), NODE("Greater", ["sum", "zero"], ["up"]),
                 NODE("If", ["up"], ["b"], then_branch=then, else_branch=other)]
        outer = function("outer", ["a", "low", "high"], ["b", "c"], nodes, attributes=["outer_slope"])
        call = NODE("outer", ["x", "", "most"], ["y", "z"], domain=OWN, outer_slope=0.1)
        most = NODE("Constant", [], ["most"], value_float=4.0)
        self.same(model([most, call], [shifted(), outer], ["y", "z"]))

    def test_own_operator_set(self):
        """The function's sets are its own: Softmax meant something else before the thirteenth."""
        old = function("old", ["a"], ["b"], [NODE("Unsqueeze", ["a"], ["u"], axes=[0]), NODE("Softmax", ["u"], ["b"], axis=1)], version=11)
        y, = RUN.run(model([NODE("old", ["x"], ["y"], domain=OWN)], [old]).SerializeToString(), [X])
        np.testing.assert_allclose(y.sum(), 1, rtol=1e-6)

    def test_wrong(self):
        loops = function("loops", ["a"], ["b"], [NODE("loops", ["a"], ["b"], domain=OWN)])
        self.refused("more than 32 deep", model([NODE("loops", ["x"], ["y"], domain=OWN)], [loops]))
        many = [function("f0", ["a"], ["b"], [NODE("Neg", ["a"], ["b"])])] + [
            function(f"f{i}", ["a"], ["b"], [NODE(f"f{i - 1}", ["a"], ["c"], domain=OWN), NODE(f"f{i - 1}", ["c"], ["b"], domain=OWN)]) for i in range(1, 31)]
        self.refused("more than 1048576 nodes", model([NODE("f30", ["x"], ["y"], domain=OWN)], many))
        self.refused("1 inputs and 1 outputs, not 2", model([NODE("shifted", ["x", "x"], ["y"], domain=OWN)], [shifted()]))
        twice = function("twice", ["a"], ["b"], [NODE("Neg", ["a"], ["h"]), NODE("Neg", ["a"], ["h"]), NODE("Neg", ["h"], ["b"])])
        self.refused("'h' is made twice", model([NODE("twice", ["x"], ["y"], domain=OWN)], [twice]))
        unseen = function("unseen", ["a"], ["b"], [NODE("Add", ["a", "x"], ["b"])]) # of the graph's
        self.refused("'x', which nothing makes", model([NODE("unseen", ["x"], ["y"], domain=OWN)], [unseen]))
        self.refused("'nothing', which nothing makes", model([NODE("shifted", ["nothing"], ["y"], domain=OWN)], [shifted()]))


RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    RUN.main()
