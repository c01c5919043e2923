#!/usr/bin/env python3
"""Optimizers' steps on stored tensors: what becomes of the parameter and its states, which rows stay as they are, and
what is refused."""
import threading

import numpy as np

import service

INF = float("inf")


class Optimizers(service.ServiceTest):
    def put(self, **arrays):
        for name, array in arrays.items():
            array = np.asarray(array)
            array = array.astype(np.float32) if array.dtype == np.float64 else array
            reply = self.service.call("PUT", "/v1/tensors/" + name, {
                "shape": array.shape, "datatype": service.NAMES[array.dtype], "data": array.ravel().tolist()})
            self.assertIn(reply.status, (200, 201), reply.body)

    def get(self, name):
        found = self.service.call("GET", "/v1/tensors/" + name).json
        return np.asarray(found["data"], np.float32).reshape(found["shape"])

    def step(self, op, status=200, /, **call):
        """In the short form; tensors by their names."""
        for name, value in call.items():
            call[name] = {"tensor": value} if isinstance(value, str) else value.tolist() if isinstance(value, np.ndarray) else value
        reply = self.service.call("POST", "/v1/ops/" + op, call)
        self.assertEqual(reply.status, status, reply.body)
        return reply

    def test_sgd(self): # JIT-37
        """The parameter and its momentum take the step's results, or neither; rows without a gradient are not touched."""
        odd = np.float32([[1, 2], [INF, -0.0], [np.pi, 1e-40], [7, 8]])
        self.put(w=np.arange(8).reshape(4, 2) / 2, b=np.ones((4, 2)))
        self.step("sgd_", self="w", grad=np.ones((4, 2)), lr=0.5)
        np.testing.assert_array_equal(self.get("w"), np.arange(8).reshape(4, 2) / 2 - 0.5)
        self.step("sgd_", self="w", grad=np.ones((2, 2)), momentum_buffer="b", rows=[3, 1], lr=0.5, momentum=0.5)
        np.testing.assert_array_equal(self.get("b"), [[1, 1], [1.5, 1.5], [1, 1], [1.5, 1.5]])
        np.testing.assert_array_equal(self.get("w"), [[-0.5, 0], [-0.25, 0.25], [1.5, 2], [1.75, 2.25]])
        self.step("sgd_", self="w", grad=np.ones((3, 2)), rows=[0, 0, 2], lr=1.0) # those of one row add up
        np.testing.assert_array_equal(self.get("w"), [[-2.5, -2], [-0.25, 0.25], [0.5, 1], [1.75, 2.25]])
        for kernel in ("simd", "ref"): # bit for bit, whatever they are
            out = self.service.infer("sgd", {"self": odd, "grad": np.ones((1, 2), np.float32), "rows": np.array([0])},
                                     {"lr": 1.0, "kernel": kernel}, binary=True).outputs["self"]
            self.assertEqual(out[1:].tobytes(), odd[1:].tobytes())
            self.assertEqual(out[0].tolist(), [0, 1])

    def test_adam(self): # JIT-38
        """Three steps, as PyTorch's Adam and AdamW make them, of all rows and of some."""
        rng = np.random.default_rng(service.seed())
        for op, rows in (("adam", None), ("adamw", None), ("adam", [4, 1]), ("adamw", [4, 1])):
            w, m, v, most = (np.zeros((5, 9)) for _ in range(4))
            w += rng.standard_normal(w.shape).astype(np.float32)
            self.put(w=w, m=m, v=v, most=most)
            before, at = w.copy(), slice(None) if rows is None else rows
            for step in (1, 2, 3):
                grad = rng.standard_normal(w[at].shape).astype(np.float32)
                self.step(op + "_", self="w", grad=grad, exp_avg="m", exp_avg_sq="v", max_exp_avg_sq="most", step=step,
                          lr=0.1, weight_decay=0.25, **({"rows": rows} if rows else {}))
                g = grad + (0.25 * w[at] if op == "adam" else 0)
                w[at] *= 1 - (0.1 * 0.25 if op == "adamw" else 0)
                m[at], v[at] = 0.9 * m[at] + 0.1 * g, 0.999 * v[at] + 0.001 * g * g
                most[at] = np.maximum(most[at], v[at])
                w[at] -= 0.1 / (1 - 0.9**step) * m[at] / (np.sqrt(most[at] / (1 - 0.999**step)) + 1e-8)
            for name, value in {"w": w, "m": m, "v": v, "most": most}.items():
                np.testing.assert_allclose(self.get(name), value, rtol=2e-5, atol=1e-7, err_msg=f"{op} {rows} {name}")
            if rows:
                np.testing.assert_array_equal(self.get("w")[[0, 2, 3]], before[[0, 2, 3]])
                np.testing.assert_array_equal(self.get("v")[[0, 2, 3]], 0)

    def test_a_corrected_rate(self): # JIT-38
        """Step 0 takes lr as it is: JIT's form, which adds a negative rate that is corrected for the step."""
        one = {name: np.full(3, value) for name, value in (("self", 1), ("grad", 2), ("exp_avg", 4), ("exp_avg_sq", 16))}
        out = self.step("adam", **one, step=0, lr=0.5, beta1=0.5, beta2=0.75, eps=0.0).json
        v = 0.75 * 16 + 0.25 * 4
        self.assertEqual((out["exp_avg"], out["exp_avg_sq"]), ([3] * 3, [v] * 3))
        np.testing.assert_allclose(out["self"], [1 - 0.5 * 3 / v**0.5] * 3, rtol=1e-6)

    def test_without_elements(self):
        none = np.zeros((3, 0), np.float32)
        self.assertEqual(self.service.infer("sgd", {"self": none, "grad": none}).outputs["self"].shape, (3, 0))
        rows = np.zeros(0, np.int64)
        for op, more in (("sgd", {}), ("adam", {"exp_avg": none.reshape(0, 3), "exp_avg_sq": none.reshape(0, 3)})):
            inputs = {"self": np.zeros((0, 3), np.float32), "grad": np.zeros((0, 3), np.float32), "rows": rows, **more}
            self.assertEqual(self.service.infer(op, inputs, {"step": 1} if more else {}).status, 200)
        reply = self.service.infer("sgd", {"self": np.zeros((0, 3), np.float32), "grad": np.ones((1, 3), np.float32), "rows": np.array([5])})
        self.problem(reply, 400, "rows", "element 0 is 5", "no rows")
        w = np.arange(6, dtype=np.float32).reshape(2, 3) # and no rows: nothing happens
        out = self.service.infer("sgd", {"self": w, "grad": np.zeros((0, 3), np.float32), "rows": rows}, {"weight_decay": 9.0}).outputs
        np.testing.assert_array_equal(out["self"], w)

    def test_what_is_refused(self):
        w = np.zeros((4, 2))
        adam = {"self": w, "grad": w, "exp_avg": w, "exp_avg_sq": w, "step": 1}
        for op, call, *words in (
                ("sgd", {"self": w, "grad": np.zeros((2, 4))}, "grad", "[2, 4]", "self's, [4, 2], is right"),
                ("sgd", {"self": w, "grad": np.zeros((3, 2)), "rows": [0, 1]}, "grad", "[3, 2]", "as many rows", "[2, 2]"),
                ("sgd", {"self": w, "grad": np.zeros((1, 2)), "rows": [4]}, "rows", "element 0 is 4", "0 to 3"),
                ("sgd", {"self": w, "grad": np.zeros((2, 2)), "rows": [0, -1]}, "rows", "element 1 is -1", "0 to 3"),
                ("sgd", {"self": w, "grad": w, "rows": [[0, 1], [2, 3]]}, "rows", "2 dimensions", "one is right"),
                ("sgd", {"self": w, "grad": w, "rows": [0.5] * 4}, "rows", "FP32", "INT32 or INT64"),
                ("sgd", {"self": 1.0, "grad": [1.0], "rows": [0]}, "self", "no rows"),
                ("sgd", {"self": w, "grad": w, "momentum_buffer": [0.0]}, "momentum_buffer", "[1]", "[4, 2]"),
                ("sgd", {"self": w, "grad": w, "lr": -0.1}, "lr", "-0.1"),
                ("sgd", {"self": w, "grad": w, "momentum": -1e-9}, "momentum", "-1e-09"),
                ("sgd", {"self": w, "grad": w, "weight_decay": -2}, "weight_decay", "-2"),
                ("adam", {**adam, "lr": -0.1}, "lr", "-0.1"),
                ("adamw", {**adam, "weight_decay": -0.1}, "weight_decay", "-0.1"),
                ("adamw", {**adam, "eps": float("nan")}, "eps", "nan"),
                ("adam", {**adam, "beta2": 1.0000001}, "beta2", "is 1.0000001"),
                ("adam", {**adam, "step": -1}, "step", "-1", "1 of the first one"),
                ("adam", {k: v for k, v in adam.items() if k != "step"}, "step"),
                ("adam", {**adam, "beta1": 1.0}, "beta1", "is 1", "from 0 up to"),
                ("adamw", {**adam, "beta2": -0.5}, "beta2", "-0.5"),
                ("adamw", {**adam, "exp_avg_sq": np.zeros((4, 3))}, "exp_avg_sq", "[4, 3]"),
                ("adam", {**adam, "max_exp_avg_sq": [1]}, "max_exp_avg_sq")):
            with self.subTest(op=op, words=words):
                self.problem(self.step(op, 400, **call), 400, *words)

    def test_what_is_refused_in_place(self):
        """Nothing changes then, also of what is there and right."""
        w = np.zeros((4, 2))
        self.put(w=w, b=w, i=np.zeros(3, np.int32))
        grad = np.ones((4, 2))
        for op, call, *words in (
                ("sgd_", {"self": w, "grad": grad}, "self", "stored tensor"),
                ("sgd_", {"self": "w", "grad": grad, "momentum": 0.5}, "momentum_buffer", "must be there", "zeros"),
                ("sgd_", {"self": "w", "grad": grad, "momentum": 0.5, "momentum_buffer": w}, "momentum_buffer", "stored tensor"),
                ("sgd_", {"self": "w", "grad": grad, "momentum": 0.5, "momentum_buffer": "w"}, "momentum_buffer", "another output"),
                ("sgd_", {"self": "i", "grad": [1, 1, 1]}, "INT32"),
                ("sgd_", {"self": "w", "grad": grad, "rows": [0, 1, 2, 9]}, "rows", "element 3 is 9"),
                ("native_layer_norm_", {"input": "w", "normalized_shape": [2], "weight": None, "bias": None, "eps": 1e-5}, "in place")):
            with self.subTest(op=op, words=words):
                self.problem(self.step(op, 400, **call), 400, *words)
        for name in "wb":
            np.testing.assert_array_equal(self.get(name), 0)

    def test_from_many(self):
        """Steps on one parameter at the same time: each is whole, in both tensors, or refused with 409 and not made."""
        self.put(w=np.zeros(40), b=np.zeros(40))
        done = []

        def steps():
            connection = self.service.connect()
            for _ in range(25):
                reply = self.service.call("POST", "/v1/ops/sgd_", {
                    "self": {"tensor": "w"}, "grad": [-1.0] * 40, "momentum_buffer": {"tensor": "b"}, "momentum": 1.0, "lr": 1.0},
                                          connection=connection)
                self.assertIn(reply.status, (200, 409), reply.body)
                done.append(reply.status == 200)
            connection.close()
        threads = [threading.Thread(target=steps) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        n = sum(done) # b counts steps down, w adds up what b was
        self.assertGreater(n, 0)
        np.testing.assert_array_equal(self.get("b"), -n)
        np.testing.assert_array_equal(self.get("w"), n * (n + 1) / 2)


if __name__ == "__main__":
    service.main()
