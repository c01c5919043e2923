"""The whole way on real input: a network trained on 1,797 scanned digits, served as operators.

scikit-learn trains a small perceptron on the digits that it ships. Its weights go up as stored
tensors; every image is classified over HTTP by linear + relu, linear, softmax, from 8 connections
at once, on a pool pinned to one core, once in JSON and once in binary. The predictions must be
scikit-learn's, all of them, and the probabilities within 1e-5.
"""
import os
import sys
import unittest

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the training is small; threads would only wait
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from service import CPUS, Service, main, skip, stored  # noqa: E402

import numpy as np

try:
    from sklearn.datasets import load_digits
    from sklearn.neural_network import MLPClassifier
except ImportError:
    skip("no scikit-learn: run deploy/setup.sh check")

CONNECTIONS, BATCH = 8, 32


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        data = load_digits()
        cls.images = (data.data / 16).astype(np.float32)
        cls.model = MLPClassifier((64,), max_iter=60, random_state=1).fit(cls.images, data.target)
        cls.service = Service("--pool", f"digits={CPUS[-1]}")
        cls.addClassCleanup(cls.service.stop)
        for layer, (weight, bias) in enumerate(zip(cls.model.coefs_, cls.model.intercepts_), 1):
            for name, value in (("weight", weight.T), ("bias", bias)):
                value = np.ascontiguousarray(value, np.float32)
                reply = cls.service.call("PUT", f"/v1/tensors/mlp/{layer}/{name}", {
                    "shape": value.shape, "datatype": "FP32", "data": value.ravel().tolist()})
                assert reply.status == 201, reply.body

    def layer(self, connection, x, layer, binary, **parameters):
        reply = self.service.infer(
            "linear", {"input": x, "weight": stored(f"mlp/{layer}/weight"),
                       "bias": stored(f"mlp/{layer}/bias")},
            {"pool": "digits", **parameters}, binary=binary, connection=connection)
        self.assertEqual(reply.status, 200, reply.body[:300])
        self.assertEqual(reply.parameters["pool"], "digits")
        return reply.out

    def classify(self, part, binary):
        """The probabilities of every 8th batch, over one connection."""
        connection, found = self.service.connect(), {}
        for at in range(part * BATCH, len(self.images), CONNECTIONS * BATCH):
            x = self.layer(connection, self.images[at:at + BATCH], 1, binary, activation="relu")
            x = self.layer(connection, x, 2, binary)
            reply = self.service.infer("softmax", {"self": x}, {"dim": -1, "pool": "digits"},
                                       binary=binary, connection=connection)
            self.assertEqual(reply.status, 200, reply.body[:300])
            found[at] = reply.out
        connection.close()
        return found

    def judge(self, binary):
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            parts = pool.map(lambda part: self.classify(part, binary), range(CONNECTIONS))
            batches = {at: batch for part in parts for at, batch in part.items()}
        got = np.concatenate([batches[at] for at in sorted(batches)])
        want = self.model.predict_proba(self.images)
        self.assertEqual(got.shape, (1797, 10))
        self.assertEqual(int((got.argmax(1) != want.argmax(1)).sum()), 0)
        worst = float(np.abs(got - want).max())
        self.assertLess(worst, 1e-5)
        form = "binary" if binary else "JSON"
        print(f"{form}: 1797 of 1797 as scikit-learn, probabilities within {worst:.1e}")

    def test_json(self):
        self.judge(binary=False)

    def test_binary(self):
        self.judge(binary=True)

    def test_pinned(self):
        pool = self.service.call("GET", "/v1/pools/digits").json
        self.assertEqual(pool["cpus"], CPUS[-1])
        self.assertTrue(all(t["cpu"] == int(CPUS[-1]) and t["ok"] for t in pool["thread_list"]), pool)


if __name__ == "__main__":
    main()
