#!/usr/bin/env python3
"""PyTorch's archives that write buffers, constants and inputs: those whose answers depend on what a call would have to
remember take that as a state, which step by step gives what PyTorch's module would; what cannot be kept is refused.

    test_pt2_state.py RUN_MODEL
"""
import sys
import unittest

import numpy as np

import archives
from archives import Graph, Model, Name
from runner import Refused, Runner

FLOATS = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
ZEROS = np.zeros(4, np.float32)


def begin(kind="buffer", array=ZEROS):
    m = Model()
    return m, m.user("x", sizes=["s0", 4]), m.weight("cell.h", array, kind=kind)


def mutated(m, new, name="cell.h", kind="buffer"):
    m.ends = [{kind + "_mutation": {"arg": {"name": new}, kind + "_name": name}},
              *({"user_output": {"arg": archives.argument(o)}} for o in m.outputs)]
    return m


def trained(m, x):
    stats = [m.weight("bn." + n, ZEROS + i, kind="buffer") for i, n in enumerate(("mean", "var"))]
    return stats, m.call("batch_norm.default", "bn", input=x, weight=None, bias=None, running_mean=stats[0], running_var=stats[1],
                         training=True, momentum=0.1, eps=1e-5, cudnn_enabled=False)


class State(unittest.TestCase):
    def refused(self, model, *words):
        with self.assertRaises(Refused) as caught:
            RUN.run(model.bytes(), [FLOATS])
        for word in words:
            self.assertIn(word, str(caught.exception))

    def steps(self, model, *wanted, inputs=(FLOATS,)):
        """The first output of each call, where each goes on from what the one before left."""
        for n, w in enumerate(wanted, 1):
            got = RUN.run(model.bytes(), list(inputs), how="steps", runs=n)
            np.testing.assert_allclose(got[0], w, 1e-5, 1e-5)

    def right(self, model, *wanted, inputs=(FLOATS,)):
        for how in "eager", "plan":
            got = RUN.run(model.bytes(), list(inputs), how=how)
            self.assertEqual(len(got), len(wanted))
            for g, w in zip(got, wanted):
                np.testing.assert_allclose(g, w, 1e-5, 1e-5)

    def test_written_in_place(self):
        m, x, h = begin() # a counter that is read
        m.call("add_.Scalar", "w", self=h, other=1)
        m.outputs = [m.call("mul.Tensor", "y", self=x, other=h)]
        self.steps(m, FLOATS, FLOATS * 2, FLOATS * 3)
        m, x, h = begin() # read before it is overwritten
        y = m.call("add.Tensor", "y", self=x, other=h)
        m.call("copy_.default", "w", self=h, src=m.call("sum.dim_IntList", "s", self=y, dim=[0]))
        m.outputs = [y]
        self.steps(m, FLOATS, FLOATS + FLOATS.sum(0), FLOATS + FLOATS.sum(0) * 4)
        m, x, h = begin("tensor_constant", np.zeros((3, 4), np.float32)) # one row of it, through a view
        row = m.call("select.int", "row", self=h, dim=0, index=1)
        m.call("add_.Tensor", "w", self=row, other=m.call("sum.dim_IntList", "s", self=x, dim=[0]))
        m.outputs = [m.call("relu.default", "y", self=h)]
        rows = np.zeros((3, 4), np.float32)
        rows[1] = FLOATS.sum(0)
        self.steps(m, np.maximum(rows, 0), np.maximum(rows * 2, 0))
        m, x, h = begin("parameter")
        m.call("index_copy_.default", "w", self=h, dim=0, index=m.weight("i", np.array([1]), kind="buffer"),
               source=m.call("sum.default", "s", self=m.call("add.Tensor", "a", self=x, other=h)))
        m.outputs = [h]
        total = FLOATS.sum()
        self.steps(m, [0, total, 0, 0], [0, total * 4, 0, 0])

    def test_seen_by_a_state(self):
        """A counter that only another state's new value depends on."""
        m, x, h = begin()
        n = m.weight("n", np.ones(4, np.float32), kind="buffer")
        y = m.call("add.Tensor", "y", self=x, other=h)
        m.call("add_.Tensor", "w", self=h, other=n)
        m.call("mul_.Scalar", "v", self=n, other=2)
        m.outputs = [y]
        self.steps(m, FLOATS, FLOATS + 1, FLOATS + 3, FLOATS + 7)

    def test_seen_elsewhere(self):
        m, x, h = begin() # by a condition alone
        m.call("add_.Scalar", "w", self=h, other=1)
        a, b = Graph(), Graph()
        a.outputs = [a.call("neg.default", "n", self=a.input("u"))]
        b.outputs = [b.call("relu.default", "r", self=b.input("v"))]
        seen = m.call("any.default", "c", self=m.call("gt.Scalar", "g", self=h, other=1))
        m.outputs = [m.call("torch.ops.higher_order.cond", "y", seen, a, b, [x])]
        self.steps(m, np.maximum(FLOATS, 0), -FLOATS)
        m, x, h = begin() # under another name: of the same bytes
        tied = m.weight("other", file="weight_0", layout=m.stored["weights"]["cell.h"]["tensor_meta"], kind="buffer")
        m.call("copy_.default", "w", self=h, src=m.call("sum.dim_IntList", "s", self=x, dim=[0]))
        m.outputs = [m.call("add.Tensor", "y", self=m.call("add.Tensor", "z", self=x, other=tied), other=h)]
        self.refused(m, "node 'w' writes the buffer 'cell.h'", "another tensor of the archive has the same bytes")

    def test_signature(self):
        for kind in "buffer", "parameter":
            m, x, h = begin(kind)
            new = m.call("add.Tensor", "w", self=h, other=1)
            m.outputs = [m.call("mul.Tensor", "y", self=x, other=new)]
            self.steps(mutated(m, new, kind=kind), FLOATS, FLOATS * 2)
        m, x, h = begin() # that it is the same is no write
        m.outputs = [m.call("add.Tensor", "y", self=x, other=h)]
        self.right(mutated(m, h), FLOATS)
        m, x, h = begin()
        m.outputs = [m.call("neg.default", "y", self=x)]
        self.refused(mutated(m, Name("y"), name="none"), "changes the buffer 'none', which is no input")
        self.refused(mutated(m, Name("ghost")), "'ghost', which nothing makes")

    def test_no_state(self):
        m, x, h = begin() # a counter that no output depends on
        m.call("copy_.default", "w", self=h, src=m.call("add_.Scalar", "a", self=h, other=1))
        m.outputs = [m.call("neg.default", "y", self=x)]
        self.right(m, -FLOATS)
        m, x, h = begin()
        m.outputs = [m.call("neg.default", "y", self=x)]
        self.right(mutated(m, m.call("add.Tensor", "new", self=h, other=1)), -FLOATS)
        sums = FLOATS.sum(0)
        for whole in ({}, {"start": 0, "end": 2**63 - 1}, {"start": None, "end": None, "step": 1}):
            m, x, h = begin("tensor_constant") # overwritten before it is read, also by a view of all of it
            view = m.call("slice.Tensor", "v", self=h, dim=0, **whole) if whole else h
            m.call("copy_.default", "w", self=view, src=m.call("sum.dim_IntList", "s", self=x, dim=[0]))
            m.outputs = [m.call("add.Tensor", "y", self=h, other=1)]
            self.right(m, sums + 1)
        m, x, h = begin() # but not by one of a part
        part = m.call("slice.Tensor", "v", self=h, dim=0, start=0, end=3)
        m.call("zero_.default", "w", self=part)
        m.outputs = [m.call("add.Tensor", "y", self=x, other=h)]
        self.steps(m, FLOATS + [0, 0, 0, 0], FLOATS)

    def test_statistics(self):
        m = Model() # in training these are written and not read
        x = m.user("x", sizes=["s0", 4])
        _, y = trained(m, x)
        m.outputs = [y]
        self.right(m, (FLOATS - FLOATS.mean(0)) / np.sqrt(FLOATS.var(0) + 1e-5))
        m = Model()
        stats, y = trained(m, m.user("x", sizes=["s0", 4]))
        m.outputs = [m.call("add.Tensor", "y", self=y, other=stats[0])]
        self.refused(m, "node 'y' (torch.ops.aten.add.Tensor): reads running statistics after node 'bn'")
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        before = m.call("add.Tensor", "y", self=x, other=m.weight("bn.mean", ZEROS, kind="buffer"))
        y = m.call("batch_norm.default", "bn", input=before, weight=None, bias=None, running_mean=Name("p_bn_mean"),
                   running_var=m.weight("bn.var", ZEROS, kind="buffer"), training=True, momentum=0.1, eps=1e-5,
                   cudnn_enabled=False)
        m.outputs = [y]
        self.refused(m, "node 'bn' writes the buffer 'bn.mean'")

    def test_inner_graphs(self):
        """What a graph within writes into its inputs."""
        g = Graph()
        u = g.input("u", sizes=["s0", 4])
        g.call("add_.Scalar", "w", self=u, other=1)
        g.outputs = [g.call("neg.default", "n", self=u)]
        m = Model()
        x = m.call("relu.default", "r", self=m.user("x", sizes=["s0", 4]))
        m.outputs = [m.call("torch.ops.higher_order.wrap_with_set_grad_enabled", "y", False, g, x), x]
        self.refused(m, "node 'w' of its inner graph writes into the input 'u'")

    def test_users_input(self):
        """The caller's own tensor stays as it is; the answers are those of PyTorch. What becomes of it is a state."""
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        m.call("mul_.Tensor", "w", self=x, other=2)
        m.outputs = [m.call("add.Tensor", "y", self=x, other=1)]
        self.right(m, FLOATS * 2 + 1)
        m.ends = [{"user_input_mutation": {"arg": {"name": "w"}, "user_input_name": "x"}},
                  {"user_output": {"arg": archives.argument(Name("y"))}}]
        self.right(m, FLOATS * 2 + 1)
        self.steps(m, FLOATS * 2 + 1, FLOATS * 4 + 1)
        m.ends[0]["user_input_mutation"]["user_input_name"] = "none"
        self.refused(m, "changes the input 'none', which it has not")


if __name__ == "__main__":
    RUN = Runner(sys.argv.pop(1))
    right = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(RUN.close() or not right)
