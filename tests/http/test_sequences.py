#!/usr/bin/env python3
"""Cells by their gates, and sequences of different lengths: held to other operators, and to all that could be, tried out;
and what is refused."""
import itertools

import numpy as np

import cells
import service


def drawn(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


class Cells(service.ServiceTest):
    def infer(self, op, tensors, parameters=None):
        reply = self.service.infer(op, {name: t for name, t in tensors.items() if t is not None}, parameters, binary=True)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.outputs

    def test_as_lstm(self): # JIT-31
        """With its usual curves, what lstm makes in one step of the same products, whose gates are i, f, c and o."""
        rng = np.random.default_rng(service.seed())
        x, h, c, w, u, b = drawn(rng, 1, 3, 5), drawn(rng, 1, 3, 4), drawn(rng, 1, 3, 4), drawn(rng, 16, 5), drawn(rng, 16, 4), drawn(rng, 16)
        whole = self.infer("lstm.input", {"input": x, "hx.0": h, "hx.1": c, "params.0": w, "params.1": u, "params.2": b, "params.3": 0 * b},
                           {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False, "batch_first": False})
        i, f, new, o = np.split(x[0] @ w.T + h[0] @ u.T + b, 4, axis=1)
        gates = np.concatenate([new, i, f, o], axis=1)
        step = self.infer("lstm_gates", {"gates": gates, "c": c[0]})
        np.testing.assert_allclose(step["h"], whole["out1"][0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(step["c"], whole["out2"][0], rtol=1e-4, atol=1e-6)

    def each(self, op, formula, curves, tensors):
        for names in itertools.product(cells.CURVES, repeat=len(curves)):
            how = dict(zip(curves, names))
            exact = formula(**{name: None if t is None else t.astype(np.float64) for name, t in tensors.items() if t is not None}, **how)
            for kernel in ("simd", "ref"):
                got = self.infer(op, tensors, {**how, "kernel": kernel})
                for name, value in (exact if isinstance(exact, dict) else {"out": exact}).items():
                    np.testing.assert_allclose(got[name], value, rtol=2e-6, atol=2e-6, err_msg=f"{op} {how} {kernel} {name}")

    def test_curves_of_lstm(self): # JIT-31 JIT-32 JIT-34
        """All 64 triples, with a step before and without one, with peepholes and without."""
        rng = np.random.default_rng(3)
        gates, c, holes = drawn(rng, 2, 3, 36), drawn(rng, 2, 3, 9), drawn(rng, 3, 9)
        for before, peephole in itertools.product((c, None), (holes, None)):
            self.each("lstm_gates", cells.lstm_gates, ("act_gate", "act_cand", "act_cell"), {"gates": gates, "c": before, "peephole": peephole})

    def test_first_step(self): # JIT-32
        """Without a step before it is the one after zeros, of which peepholes see nothing but the new state."""
        rng = np.random.default_rng(4)
        gates, holes = drawn(rng, 5, 12), drawn(rng, 3, 3)
        first = self.infer("lstm_gates", {"gates": gates, "peephole": holes})
        after = self.infer("lstm_gates", {"gates": gates, "peephole": holes, "c": np.zeros((5, 3), np.float32)})
        for name in ("h", "c"):
            np.testing.assert_array_equal(first[name], after[name])

    def test_curves_of_gru(self): # JIT-33 JIT-34
        rng = np.random.default_rng(5)
        gates, h = drawn(rng, 4, 27), drawn(rng, 4, 9)
        self.each("gru_reset", cells.gru_reset, ("act_gate",), {"gates": gates, "h": h})
        for before in (h, None):
            self.each("gru_update", cells.gru_update, ("act_gate", "act_cand"), {"gates": gates, "h": before})

    def test_gru_step(self): # JIT-33
        """A step by its parts: the state's product is made of what the first part lets through."""
        rng = np.random.default_rng(service.seed())
        gates, h, w = drawn(rng, 3, 15), drawn(rng, 3, 5), drawn(rng, 5, 5)
        text = ("_r = gru_reset(gates, h); _s = gates[:, 10:] + _r @ w; "
                "out = gru_update(cat([gates[:, :10], _s], 1), h)")
        reply = self.service.infer("", {"gates": gates, "h": h, "w": w}, path="/v1/eval", expr=text)
        self.assertEqual(reply.status, 200, reply.body)
        sigmoid = cells.CURVES["sigmoid"]
        update, reset = sigmoid(gates[:, :5]), sigmoid(gates[:, 5:10])
        new = np.tanh(gates[:, 10:] + (reset * h) @ w)
        np.testing.assert_allclose(reply.out, update * new + (1 - update) * h, rtol=1e-4, atol=1e-6)

    def test_what_is_refused(self): # JIT-34
        gates, d = np.zeros((2, 12), np.float32), np.zeros((2, 3), np.float32)
        for op, tensors, how, *words in (
                ("lstm_gates", {"gates": gates}, {"act_gate": "elu"}, "act_gate", "'elu'", "sigmoid, tanh, relu or identity"),
                ("lstm_gates", {"gates": gates}, {"act_cand": ""}, "act_cand"),
                ("lstm_gates", {"gates": gates}, {"act_cell": "sigmoid" * 50}, "act_cell"),
                ("gru_update", {"gates": gates}, {"act_cand": "gelu"}, "act_cand", "'gelu'"),
                ("gru_reset", {"gates": gates, "h": np.zeros((2, 4), np.float32)}, {"act_gate": 1}, "act_gate"),
                ("lstm_gates", {"gates": gates[:, :10]}, {}, "gates", "10", "4 gates"),
                ("lstm_gates", {"gates": np.float32(1)}, {}, "gates", "4 gates"),
                ("lstm_gates", {"gates": gates, "c": d.T}, {}, "c", "[3, 2]", "[2, 3], is right"),
                ("lstm_gates", {"gates": gates, "c": d, "peephole": np.zeros(9, np.float32)}, {}, "peephole", "[3, 3], is right"),
                ("lstm_gates", {"gates": gates, "c": d.astype(np.float64)}, {}, "c", "FP64", "FP32"),
                ("gru_reset", {"gates": gates, "h": d}, {}, "h", "[2, 4], is right"),
                ("gru_reset", {"gates": gates}, {}, "h")):
            with self.subTest(op=op, words=words):
                self.problem(self.service.infer(op, tensors, how), 400, *words)

    def test_without_elements(self):
        none = self.infer("lstm_gates", {"gates": np.zeros((2, 0), np.float32), "c": np.zeros((2, 0), np.float32)})
        self.assertEqual((none["h"].shape, none["c"].shape), ((2, 0), (2, 0)))
        self.assertEqual(self.infer("gru_update", {"gates": np.zeros((0, 9), np.float32)})["out"].shape, (0, 3))


class Sequences(service.ServiceTest):
    def infer(self, op, tensors, parameters=None):
        reply = self.service.infer(op, tensors, parameters)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.outputs

    def test_seq_pool(self): # JIT-29
        """Rows of different numbers, of none as well; each mode in both kernels."""
        rng = np.random.default_rng(service.seed())
        x, lengths = drawn(rng, 9, 20), [4, 0, 1, 4]
        parts = [x[:4], x[4:4], x[4:5], x[5:]]
        for mode, kernel in itertools.product(("sum", "mean", "avg", "sqrt"), ("simd", "ref")):
            by = {"sum": [1] * 4, "sqrt": [2, 1, 1, 2]}.get(mode, [4, 1, 1, 4])
            out = self.infer("seq_pool", {"self": x, "lengths": np.array(lengths)}, {"mode": mode, "kernel": kernel})["out"]
            np.testing.assert_allclose(out, [part.sum(0) / n for part, n in zip(parts, by)], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(self.infer("seq_pool", {"self": x})["out"], [x.sum(0)], rtol=1e-5, atol=1e-6)
        none = self.infer("seq_pool", {"self": x[:0], "lengths": np.zeros(2, np.int32)}, {"mode": "mean"})["out"]
        np.testing.assert_array_equal(none, np.zeros((2, 20)))

    def test_crf_decode(self): # JIT-35
        """The best of all paths, each tried; sums of small whole numbers are exact, and the first of equal ones is taken."""
        rng = np.random.default_rng(service.seed())
        for tags, steps, kernel in itertools.product((1, 2, 3, 5), (1, 2, 5), ("simd", "ref")):
            x, w = rng.integers(-9, 10, (steps, tags)), rng.integers(-9, 10, (tags + 2, tags))
            out = self.infer("crf_decode", {"emissions": x.astype(np.float32), "transitions": w.astype(np.float32)}, {"kernel": kernel})

            def score(path):
                return (w[0, path[0]] + w[1, path[-1]] + sum(x[k, i] for k, i in enumerate(path)) +
                        sum(w[2 + a, b] for a, b in zip(path, path[1:])))
            best = max(map(score, itertools.product(range(tags), repeat=steps)))
            self.assertEqual((out["scores"].tolist(), score(out["path"].tolist())), ([best], best))

    def test_crf_decode_of_several(self): # JIT-35
        """Each sequence as if it were alone; of none the score is 0."""
        rng = np.random.default_rng(6)
        x, w, lengths = drawn(rng, 40, 23), drawn(rng, 25, 23), [7, 0, 1, 32]
        out = self.infer("crf_decode", {"emissions": x, "transitions": w, "lengths": np.array(lengths, np.int32)})
        ends = np.cumsum(lengths)
        for i, (end, length) in enumerate(zip(ends, lengths)):
            if length:
                one = self.infer("crf_decode", {"emissions": x[end - length:end], "transitions": w}, {"kernel": "ref"})
                self.assertEqual(one["path"].tolist(), out["path"][end - length:end].tolist())
                self.assertEqual(one["scores"][0], out["scores"][i])
        self.assertEqual(out["scores"][1], 0)

    def test_what_is_no_number(self):
        """NaN is the greatest, as it is to max; where all is minus infinity the first tag is taken."""
        w = np.zeros((12, 10), np.float32)
        x = np.zeros((3, 10), np.float32)
        x[1, 4] = np.nan
        for kernel in ("simd", "ref"):
            out = self.infer("crf_decode", {"emissions": x, "transitions": w}, {"kernel": kernel})
            self.assertEqual(out["path"].tolist(), [0, 4, 0])
            self.assertTrue(np.isnan(out["scores"][0]))
            out = self.infer("crf_decode", {"emissions": np.full((2, 10), -np.inf, np.float32), "transitions": w}, {"kernel": kernel})
            self.assertEqual((out["path"].tolist(), out["scores"].tolist()), ([0, 0], [-np.inf]))

    def test_what_is_refused(self):
        x, w = np.zeros((4, 3), np.float32), np.zeros((5, 3), np.float32)
        whole = {"emissions": x, "transitions": w}
        for op, tensors, how, *words in (
                ("seq_pool", {"self": x, "lengths": np.array([1, 2])}, {}, "lengths", "add up to 3", "4"),
                ("seq_pool", {"self": x, "lengths": np.array([1, 4])}, {}, "lengths", "element 1 is 4", "the 3 steps"),
                ("seq_pool", {"self": x, "lengths": np.array([5, -1])}, {}, "lengths", "element 0 is 5"),
                ("seq_pool", {"self": x, "lengths": np.array([2**62] * 4)}, {}, "lengths", "element 0"),
                ("seq_pool", {"self": x, "lengths": np.array([-1, 5])}, {}, "lengths", "element 0 is -1"),
                ("seq_pool", {"self": x, "lengths": np.array([], np.int64)}, {}, "lengths", "add up to 0", "4"),
                ("seq_pool", {"self": x[:, :0], "lengths": np.array([9])}, {}, "lengths", "element 0 is 9"),
                ("crf_decode", {**whole, "lengths": np.array([], np.int64)}, {}, "lengths", "add up to 0", "4"),
                ("seq_pool", {"self": x, "lengths": np.array([[4]])}, {}, "lengths", "2 dimensions"),
                ("seq_pool", {"self": x, "lengths": np.array([4.0])}, {}, "lengths", "FP64", "INT64"),
                ("seq_pool", {"self": np.float32(3)}, {}, "self", "no dimensions"),
                ("seq_pool", {"self": x}, {"mode": "max"}, "mode", "'max'", "sum, mean (or avg) or sqrt"),
                ("crf_decode", {**whole, "transitions": w[:4]}, {}, "transitions", "[4, 3]", "[5, 3], is right"),
                ("crf_decode", {**whole, "emissions": x[0]}, {}, "emissions", "1 dimensions"),
                ("crf_decode", {"emissions": x[:, :0], "transitions": w[:2, :0]}, {}, "emissions", "one or more tags"),
                ("crf_decode", {**whole, "transitions": w.astype(np.float64)}, {}, "transitions", "FP64"),
                ("crf_decode", {**whole, "lengths": np.array([1, 1])}, {}, "lengths", "add up to 2")):
            with self.subTest(op=op, words=words):
                self.problem(self.service.infer(op, tensors, how), 400, *words)


if __name__ == "__main__":
    service.main()
