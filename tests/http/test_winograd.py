#!/usr/bin/env python3
"""Convolutions of 3x3 by fewer multiplications: asked for by name, switched off, and what explain and a model's plan say of their
rounding."""
import numpy as np

import models
import service

F32 = np.float32


class Winograd(service.ServiceTest):
    def explained(self, s, weight, **parameters):
        """A convolution of 32 channels on the server s, and what is said of each of its kernels."""
        reply = s.infer("conv2d", {"input": self.image, "weight": weight}, {"padding": [1, 1], "explain": True, **parameters}, binary=True)
        return reply, [c for c in reply.parameters["explain"]["candidates"] if c["kernel"] == "winograd"]

    def setUp(self):
        rng = np.random.default_rng(service.seed())
        self.image = rng.standard_normal((2, 32, 20, 22)).astype(F32)
        self.weight = rng.standard_normal((40, 32, 3, 3)).astype(F32)
        self.needs_kernels()
        _, rows = self.explained(self.service, self.weight)
        if all("level" in row["verdict"] for row in rows):
            self.skipTest(f"no level with this kernel may be used here: {rows}")

    def test_by_name(self):
        """The same numbers as the sum, nearly, from stored weights and others; it says what its rounding may be."""
        plain, _ = self.explained(self.service, self.weight, kernel="ref")
        self.service.call("PUT", "/v1/tensors/w3", {"shape": [40, 32, 3, 3], "datatype": "FP32", "data": self.weight.ravel().tolist()})
        for weight, least, most in ((self.weight, 16, 16), (service.stored("w3"), 2, 8)):
            reply, rows = self.explained(self.service, weight, kernel="winograd")
            self.assertEqual(reply.parameters["kernel"], "winograd")
            np.testing.assert_allclose(reply.out, plain.out, rtol=1e-4, atol=1e-3)
            roundings = [row["rounding"] for row in rows if "rounding" in row]
            self.assertEqual(len(roundings), 1, rows)
            self.assertTrue(least <= roundings[0] <= most, roundings)

    def test_switched_off(self):
        with service.Service("--winograd", "off") as s:
            _, rows = self.explained(s, self.weight)
            self.assertEqual({row["verdict"] for row in rows if "level" not in row["verdict"]}, {"--winograd is off"})
            overloads = s.call("GET", "/v1/kernels/conv2d").json["overloads"]
            listed = [row["runnable"] for overload in overloads for row in overload["candidates"] if row["kernel"] == "winograd"]
            self.assertTrue(listed)
            self.assertNotIn(True, listed)

    def test_of_a_plan(self):
        """A step says what its rounding may be where its kernel is this one, and there alone; the model's answer is the sum's."""
        rng = np.random.default_rng(service.seed())
        image = rng.standard_normal((1, 32, 56, 56)).astype(F32)
        file = models.onnx_file([("Conv", ["x", "w"], ["out"], {"pads": [1, 1, 1, 1]})], [models.port("x", (1, 32, 56, 56))],
                                [models.port("out", (1, 40, 56, 56))], {"w": self.weight})
        self.assertEqual(self.service.call("PUT", "/v1/models/wino", file, {"Content-Type": "application/octet-stream"}).status, 201)
        for _ in range(2):
            got = self.service.infer("wino", {"x": image}, path="/v2/models/{}/infer", binary=True).out
        want = self.service.infer("conv2d", {"input": image, "weight": self.weight}, {"padding": [1, 1], "kernel": "ref"}, binary=True).out
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
        steps = self.service.call("GET", "/v1/models/wino/plan").json["plans"][0]["steps"]
        self.assertTrue(steps)
        for step in steps:
            self.assertEqual("rounding" in step, step["kernel"] == "winograd", step)
            self.assertTrue(1 <= step.get("rounding", 1) <= 16, step)


if __name__ == "__main__":
    service.main()
