#!/usr/bin/env python3
"""What PyTorch's archives say must hold: sizes that are expressions, ranges, guards and assertions; and that their
integers are exact.

    test_pt2_guards.py RUN_MODEL
"""
import sys
import unittest

import numpy as np

from archives import Bool, Graph, Model, Name, Number, Type
from runner import Refused, Runner

S = "Symbol('%s', positive=True, integer=True)"
FLOATS = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def of(*sizes):
    """A model of inputs x0, x1, ... with these sizes."""
    m = Model()
    xs = [m.user("x%d" % i, sizes=list(s)) for i, s in enumerate(sizes)]
    m.outputs = [m.call("sum.default", "y%d" % i, self=x) for i, x in enumerate(xs)]
    return m


class Case(unittest.TestCase):
    def refused(self, model, words, inputs=(FLOATS,)):
        with self.assertRaises(Refused) as caught:
            RUN.run(model.bytes(), list(inputs))
        self.assertIn(words, str(caught.exception))

    def held(self, model, right, cases):
        """Whether each of the cases of sizes is taken exactly where it is right."""
        path = RUN.path / "held.pt2"
        path.write_bytes(model.bytes())
        for sizes in cases:
            inputs = [np.ones(s, np.float32) if isinstance(s, tuple) else np.array(s) for s in sizes]
            try:
                RUN.run(path, inputs, runs=1)
                self.assertTrue(right(*sizes), sizes)
            except Refused as why:
                self.assertFalse(right(*sizes), "%s: %s" % (sizes, why))


class Sizes(Case):
    def pairs(self):
        return [((a,), (b,)) for a in range(1, 9) for b in range(1, 9)]

    def test_expressions(self):
        s = S % "s0"
        for text, right in (("Add(%s, Integer(1))" % s, lambda a: a + 1),
                            ("Add(Integer(-1), Mul(Integer(2), %s))" % s, lambda a: 2 * a - 1),
                            ("FloorDiv(%s, Integer(2))" % s, lambda a: a // 2),
                            ("Mul(%s, %s)" % (s, s), lambda a: a * a),
                            ("Pow(%s, Integer(2))" % s, lambda a: a * a),
                            ("Max(Integer(3), Mod(%s, Integer(5)))" % s, lambda a: max(3, a % 5)),
                            ("FloorDiv(Integer(8), Add(%s, Integer(-2)))" % s, lambda a: a != 2 and 8 // (a - 2))):
            self.held(of(["s0"], [text]), lambda x, y: right(x[0]) == y[0], self.pairs())
            self.held(of([text], ["s0"]), lambda x, y: right(y[0]) == x[0], self.pairs())

    def test_open_symbols(self):
        m = of(["Add(Mul(Integer(3), %s), Integer(1))" % (S % "s0")], ["Mul(%s, %s)" % (S % "s0", S % "s1")], [(2, "s1")])
        m.ranges = {"s1": {"min_val": 2, "max_val": 3}}
        self.held(m, lambda x, y, z: (x[0] - 1) % 3 == 0 and z[0] % 2 == 0 and z[0] < 7 and
                  y[0] == (x[0] - 1) // 3 * z[0] // 2,
                  [((a,), (b,), (c,)) for a in (4, 5, 7) for b in (2, 3, 4, 6, 8) for c in (2, 4, 5, 6, 8)])
        self.refused(of(["Mul(%s, %s)" % (S % "s0", S % "s1")]), "'x0' has a size in dimension 0 that cannot be read: Mul(")
        for text in "Gamma(%s)", "Add(%s", "Add(%s))", "Symbol(", "Integer(%s, Integer(2))", "(" * 60 + "%s" + ")" * 60, "L[0](":
            self.refused(of(["s0"], [text.replace("%s", S % "s0") + "()" * ("(" not in text)]), "that cannot be read")

    def test_many(self):
        """More sizes than were judged once, of which the last is wrong."""
        right = lambda *sizes: all(s[i] == sizes[0][i] for s in sizes[:-1] for i in range(8)) and sizes[-1][0] == sizes[0][1]
        same = (2, 3, 1, 1, 1, 1, 1, 1)
        sizes = [["s%d" % d for d in range(8)]] * 40 + [["s1"]]
        self.held(of(*sizes), right, [[same] * 40 + [(3,)], [same] * 40 + [(2,)], [same] * 39 + [same[::-1], (3,)]])
        self.refused(of(*(["s%d" % (8 * i + d) for d in range(8)] for i in range(33))), "more than 256 different sizes")

    def test_guards(self):
        size = lambda i, d=0: "L['x%d'].size()[%d]" % (i, d)
        for text, right in (
                ("(A % 2) == 0", lambda a, b: a % 2 == 0), ("A > B", lambda a, b: a > b), ("A != B", lambda a, b: a != b),
                ("(A // 2) != 1 and not B == 3", lambda a, b: a // 2 != 1 and b != 3),
                ("-A + 2*B**2 - 1 >= 7 or A == 1", lambda a, b: -a + 2 * b**2 - 1 >= 7 or a == 1),
                ("8 % (A - 2) == 0", lambda a, b: a != 2 and 8 % (a - 2) == 0),
                ("A == 2 or 8 % (A - 2) == 0", lambda a, b: a == 2 or 8 % (a - 2) == 0),
                ("A == (B if B > 3 else 4)", lambda a, b: a == (b if b > 3 else 4)),
                ("max(A, B, 3) == 3 or math.ceil(A / 2) == B", lambda a, b: max(a, b, 3) == 3 or -(-a // 2) == b),
                ("L['x0'].stride()[0] == 1 and L['x1'].storage_offset() == 0", lambda a, b: True),
                ("A < 4.5", lambda a, b: a < 4.5)):
            m = of(["s0"], ["s1"])
            m.guards = [text.replace("A", size(0)).replace("B", size(1))]
            self.held(m, lambda x, y: right(x[0], y[0]), self.pairs())
        m.guards = ["(%s %% 2) == 0" % size(0)]
        self.refused(m, "was exported for inputs of which this is true: (L['x0'].size()[0] % 2) == 0",
                     [np.ones(3, np.float32)] * 2)
        for bad in ("A ==", "A < B < 3", "Z.size()[0] > 1", "L['z'].size()[0] > 1", "len(L['x0']) > 1", "(A" * 60 + ")" * 60,
                    "Symbol('s0') > 1", "99999999999999999999 > A", "L['x0", 7):
            m.guards = [bad.replace("A", size(0)).replace("B", size(1)) if isinstance(bad, str) else bad]
            self.refused(m, "the model's guard cannot be read", [np.ones(3, np.float32)] * 2)

    def test_names(self):
        """Paths of inputs: in lists, dicts and **kwargs; strides; a number."""
        m = Model()
        xs = [m.user(n, sizes=["s%d" % i, 4]) for i, n in enumerate(("args_0", "d_key_y", "a"))]
        k = m.number("k")
        m.outputs = [m.call("sum.default", "sum%d" % i, self=x) for i, x in enumerate(xs)]
        m.guards = ["L['args'][0].size()[0] % 2 == 0", "L['d']['Key']['y'].stride()[0] == 4", "L['kw']['a'].size()[0] < L['k']"]
        m.ranges = {"n_k": {"min_val": 3, "max_val": 9}}
        self.held(m, lambda x, y, z, n: x[0] % 2 == 0 and z[0] < n and 3 <= n < 10,
                  [((a, 4), (2, 4), (c, 4), n) for a in (1, 2) for c in (1, 2, 3, 4) for n in (-1, 2, 3, 4, 9, 10)])
        self.refused(m, "k must be from 3 to 9, but is 2", [np.ones((2, 4), np.float32)] * 3 + [np.array(2)])


class Assertions(Case):
    def number(self):
        m = Model()
        m.outputs = [m.call("neg.default", "y", self=m.user("x", sizes=["s0", 4]))]
        return m, m.call("item.default", Number("n"), self=m.user("k", "int64"))

    def test_scalar(self):
        m, n = self.number()
        holds = m.call("_operator.lt", Bool("lt"), n, 3)
        m.call("_assert_scalar.default", [], self=holds, assert_msg="k must be below 3")
        np.testing.assert_array_equal(RUN.run(m.bytes(), [FLOATS, np.array(2)])[0], -FLOATS)
        self.refused(m, "(_assert_scalar): the model's assertion fails: k must be below 3", [FLOATS, np.array(9)])

    def test_plans(self):
        """Values that came before do not speak for the next ones, whatever plans there are."""
        m, n = self.number()
        m.call("_assert_scalar.default", [], self=m.call("_operator.lt", Bool("lt"), n, 3), assert_msg="below")
        self.held(m, lambda x, k: k < 3, [((3, 4), k) for k in (2, 2, 2, 9, 2, 9, 9, 1)])

    def test_tensor(self):
        for target in "_assert_async.default", "_assert_async.msg":
            m = Model()
            x = m.user("x", sizes=["s0", 4])
            message = {"assert_msg": "all above 0"} if target.endswith("msg") else {}
            m.call(target, [], self=m.call("all.default", "a", self=m.call("gt.Scalar", "gt", self=x, other=0)), **message)
            m.outputs = [m.call("neg.default", "y", self=x)]
            for how in "eager", "plan":
                RUN.run(m.bytes(), [abs(FLOATS) + 1], how=how)
            self.refused(m, "the model's assertion fails" + (": all above 0" if message else ""))

    def test_ranges(self):
        for target, bounds, right in (("sym_constrain_range", {"min": 2, "max": 4}, lambda k: 2 <= k <= 4),
                                      ("sym_constrain_range", {"max": 4}, lambda k: k <= 4),
                                      ("sym_constrain_range_for_size", {"max": 4}, lambda k: 0 <= k <= 4),
                                      ("sym_constrain_range_for_size", {"min": None, "max": None}, lambda k: k >= 0)):
            m, n = self.number()
            m.call(target + ".default", [], size=n, **bounds)
            self.held(m, lambda x, k: right(k), [((3, 4), k) for k in range(-2, 6)])
        self.refused(m, "the model's assertion fails: -7 must be from 0 to", [FLOATS, np.array(-7)])

    def test_metadata(self):
        def asserting(**what):
            m = Model()
            x = m.user("x", sizes=["s0", 4])
            m.call("_assert_tensor_metadata.default", [], a=x, **what)
            m.outputs = [m.call("neg.default", "y", self=x)]
            return m
        for right in {"dtype": Type(7)}, {"size": [3, 4], "stride": None, "dtype": None}, {"dtype": Type(10)}:
            RUN.run(asserting(**right).bytes(), [FLOATS])
        self.refused(asserting(dtype=Type(8)), "the tensor must be FP64, but is FP32")
        for size in [4, 4], [3], [3, 4, 1]:
            self.refused(asserting(size=size), "the tensor has other sizes")

    def test_inner(self):
        """In a graph within, where that is run."""
        a, b = Graph(), Graph()
        u = a.input("u")
        a.call("_assert_scalar.default", [], self=False, assert_msg="not here")
        a.outputs, b.outputs = [a.call("neg.default", "n", self=u)], [b.call("relu.default", "r", self=b.input("v"))]
        m = Model()
        x = m.user("x", sizes=["s0", 4])
        c = m.call("any.default", "c", self=m.call("gt.Scalar", "g", self=x, other=5.5))
        m.outputs = [m.call("torch.ops.higher_order.cond", "y", c, a, b, [x])]
        RUN.run(m.bytes(), [FLOATS])
        self.refused(m, "not here", [FLOATS + 1])


class Exact(Case):
    def test_integers(self):
        """To the last digit, wherever they stand."""
        for n in 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 10**15 + 1, 1234567890123456789:
            m = Model()
            x = m.user("x", "int64", ["s0"])
            m.outputs = [m.call("bitwise_xor.Scalar", "y", self=x, other=n),
                         m.call("full.default", "f", size=[2], fill_value=n, dtype=Type(5)),
                         m.call("_operator.add", Number("s"), m.call("item.default", Number("i"), self=m.user("k", "int64")), n)]
            y, f, s = RUN.run(m.bytes(), [np.array([0, 5]), np.array(0)])
            self.assertEqual([*y, *f, s], [n, n ^ 5, n, n, n])
        for n in 2**63, -(2**63) - 1, 10**30:
            m = Model()
            m.outputs = [m.call("mul.Tensor", "y", self=m.user("x", sizes=["s0", 4]), other=n)]
            self.refused(m, "has an argument that cannot be read (as_int)")

    def test_guards(self):
        m = Model()
        k = m.number("k")
        m.outputs = [m.call("_operator.add", Number("y"), k, 1)]
        m.ranges = {"n_k": {"min_val": -(2**63), "max_val": 2**53 + 1}}
        m.guards = ["L['k'] != -9007199254740993"]
        self.held(m, lambda n: n <= 2**53 + 1 and n != -(2**53) - 1, [(sign * 2**53 + i,) for sign in (1, -1) for i in range(-2, 4)])


if __name__ == "__main__":
    RUN = Runner(sys.argv.pop(1))
    right = unittest.main(exit=False).result.wasSuccessful()
    sys.exit(RUN.close() or not right)
