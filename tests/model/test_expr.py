#!/usr/bin/env python3
"""Models in JSON: inputs, constants and an expression; what they give, and the sentences for wrong ones.

    test_expr.py RUN_MODEL
"""
import json
import random
import sys
import unittest

import numpy as np

from runner import Refused, Runner

W = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
LINE = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
        "constants": [{"name": "w", "datatype": "FP32", "shape": [2, 3], "data": W.ravel().tolist()},
                      {"name": "n", "datatype": "INT64", "shape": [2], "data": [1, -1]}],
        "expr": "_h = linear(x, w) + n; y = relu(_h); total = sum(y)"}


def changed(**what):
    return json.dumps({**LINE, **what}).encode()


class Expr(unittest.TestCase):
    runner = Runner(sys.argv[1])

    def test_right(self):
        for rows in (1, 4):
            x = np.linspace(-2, 2, 3 * rows, dtype=np.float32).reshape(rows, 3)
            y = np.maximum(x @ W.T + [1, -1], 0)
            for how in ("plan", "eager"):
                got = self.runner.run(b" \n" + changed(), [x], how=how)
                np.testing.assert_allclose(got[0], y, rtol=1e-5)
                np.testing.assert_allclose(got[1], y.sum(), rtol=1e-5)
        one = self.runner.run(changed(constants=[], expr="x * 2"), [x])
        np.testing.assert_array_equal(one[0], x * 2)

    def test_exact(self):
        """INT64 constants to the last digit."""
        whole = [2**53 + 1, -2**53 - 1, 2**63 - 1, -2**63, 10**15, -10**14 + 1]
        model = changed(constants=[{"name": "c", "datatype": "INT64", "shape": [6], "data": whole}], expr="bitwise_xor(c, 5)")
        self.assertEqual([int(v) ^ 5 for v in self.runner.run(model, [np.zeros((1, 3), np.float32)])[0]], whole)
        with self.assertRaises(Refused) as refused:
            self.runner.run(model.replace(b"-9223372036854775808", b"-9223372036854775809"), [np.zeros((1, 3), np.float32)])
        self.assertIn("data has what is no INT64", str(refused.exception))

    def test_many(self):
        names = [f"x{i}" for i in range(64)]
        got = self.runner.run(changed(inputs=[{**LINE["inputs"][0], "name": name} for name in names], constants=[],
                                      expr=" + ".join(names)), [np.full((1, 3), i, np.float32) for i in range(64)])
        np.testing.assert_array_equal(got[0], np.full((1, 3), 64 * 63 / 2))

    def test_wrong(self):
        x = np.zeros((1, 3), np.float32)
        for body, sentence in [
                (changed(expr="relu(z)"), "expr: column 6: there is no input 'z'"),
                (changed(expr="_a = x"), "there is no result"),
                (changed(expr=3), "an expression"),
                (changed(inputs=[{"name": "x", "datatype": "FP32"}]), "inputs: x: shape must be a list"),
                (changed(inputs=[{"name": "x", "datatype": "FP31", "shape": []}]), "datatype must be one of"),
                (changed(inputs=LINE["inputs"] * 2), "x: is the name of two"),
                (changed(inputs=[{**LINE["inputs"][0], "name": f"x{i}"} for i in range(65)]), "more than 64"),
                (changed(constants=[{**LINE["constants"][0], "data": [1]}]), "as many numbers as its shape says"),
                (changed(constants=[{**LINE["constants"][1], "data": [1, 0.5]}]), "what is no INT64"),
                (changed(constants=[{**LINE["constants"][0], "shape": [2**40, 2**40, 0]}]), "as many numbers"),
                (changed()[:-5], "")]:
            with self.subTest(sentence=sentence), self.assertRaises(Refused) as refused:
                self.runner.run(body, [x])
            self.assertIn(sentence, str(refused.exception))

    def test_hostile(self):
        draw, text, refused = random.Random(1), changed(), 0
        for _ in range(300):
            wrong = bytearray(text)
            for _ in range(draw.randint(1, 3)):
                at = draw.randrange(len(wrong))
                wrong[at:at + draw.randint(0, 3)] = draw.choice([b"", b'"', b"[", b"}", b"-", b"9" * 9, b"\xff", b"relu("])
            try:
                self.runner.run(bytes(wrong), [np.zeros((1, 3), np.float32)], runs=1)
            except Refused:
                refused += 1
        self.assertGreater(refused, 100)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
