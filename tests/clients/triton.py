"""NVIDIA's own client talks to us: health, metadata, op.add and a model in JSON, binary and shared memory."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import certificates
from service import Service, ServiceTest, main, skip  # noqa: E402

import numpy as np

import models
import tokens

try:
    import tritonclient.http as triton
    from tritonclient.utils import InferenceServerException, shared_memory
except ImportError:
    skip("no tritonclient: run deploy/setup.sh check")


class Triton(ServiceTest):
    def setUp(self):
        self.client = triton.InferenceServerClient(f"127.0.0.1:{self.service.port}")
        self.addCleanup(self.client.close)

    def add(self, a, b, binary, name="op.add", **how):
        inputs = []
        for key, value in (("self", a), ("other", b)):
            tensor = triton.InferInput(key, list(value.shape), "FP32")
            tensor.set_data_from_numpy(value, binary_data=binary)
            inputs.append(tensor)
        wanted = [triton.InferRequestedOutput("out", binary_data=binary)]
        return self.client.infer(name, inputs, outputs=wanted, **how)

    def test_health(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("op.add"))
        self.assertIn("binary_tensor_data", self.client.get_server_metadata()["extensions"])
        metadata = self.client.get_model_metadata("op.add")
        self.assertEqual([i["name"] for i in metadata["inputs"]], ["self", "other"])
        self.assertEqual([o["name"] for o in metadata["outputs"]], ["out"])

    def test_tls(self):
        authority, (cert, key) = certificates.here()
        with Service("--tls-cert", str(cert), "--tls-key", str(key), tls=authority.context()) as s:
            client = triton.InferenceServerClient(f"localhost:{s.port}", ssl=True, ssl_options={"ca_certs": str(authority.ca)})
            inputs = [triton.InferInput(name, [2, 3], "FP32") for name in ("self", "other")]
            for tensor in inputs:
                tensor.set_data_from_numpy(np.ones((2, 3), np.float32))
            self.assertTrue(client.is_server_ready())
            np.testing.assert_array_equal(client.infer("op.add", inputs).as_numpy("out"), np.full((2, 3), 2))
            client.close()

    def test_token(self):
        """With the token as a header of each call, shared memory too."""
        with tempfile.TemporaryDirectory() as folder:
            known = tokens.Tokens(folder + "/tokens", tokens.RANDOM)
            known.add("user", "read,run")
            known.add("boss", "read,run,admin")
            known.write()
            with Service("--tokens", known.path) as s:
                client = triton.InferenceServerClient(f"127.0.0.1:{s.port}")
                a = np.ones((2, 3), np.float32)
                inputs = [triton.InferInput(name, [2, 3], "FP32") for name in ("self", "other")]
                for tensor in inputs:
                    tensor.set_data_from_numpy(a)
                self.assertTrue(client.is_server_ready() and client.is_model_ready("op.add"))
                with self.assertRaises(InferenceServerException) as caught:
                    client.infer("op.add", inputs)
                self.assertEqual(caught.exception.status(), "401")
                user, boss = (known.headers(name) for name in ("user", "boss"))
                np.testing.assert_array_equal(client.infer("op.add", inputs, headers=user).as_numpy("out"), a + a)
                self.assertEqual(client.get_model_metadata("op.add", headers=user)["name"], "op.add")
                with self.assertRaises(InferenceServerException) as caught:
                    client.get_system_shared_memory_status(headers=user)
                self.assertEqual(caught.exception.status(), "403")
                self.assertEqual(client.get_system_shared_memory_status(headers=boss), [])
                client.close()

    def test_add(self):
        a = np.random.default_rng(1).standard_normal((5, 33)).astype(np.float32)
        b = np.linspace(-1, 1, 33, dtype=np.float32)
        for binary in (True, False):
            with self.subTest(binary=binary):
                result = self.add(a, b, binary, request_id="one")
                np.testing.assert_array_equal(result.as_numpy("out"), a + b)
                self.assertEqual(result.get_response()["id"], "one")
                self.assertEqual(result.get_response()["model_name"], "op.add")

    def test_default_outputs(self):
        a = np.arange(4, dtype=np.float32)
        inputs = [triton.InferInput(n, [4], "FP32") for n in ("self", "other")]
        for tensor in inputs:
            tensor.set_data_from_numpy(a)
        np.testing.assert_array_equal(self.client.infer("op.add", inputs).as_numpy("out"), a + a)

    def test_shared_memory(self):
        """As the client's own examples do it, unregistering everything first and last."""
        a = np.random.default_rng(2).standard_normal((16, 16)).astype(np.float32)
        key = f"/tensord_triton_{os.getpid()}"
        handle = shared_memory.create_shared_memory_region("both", key, 3 * a.nbytes)
        self.addCleanup(shared_memory.destroy_shared_memory_region, handle)
        self.client.unregister_system_shared_memory()
        self.client.unregister_cuda_shared_memory()
        shared_memory.set_shared_memory_region(handle, [a, 2 * a])
        self.client.register_system_shared_memory("both", key, 3 * a.nbytes)
        self.assertEqual(self.client.get_system_shared_memory_status(), [
            {"name": "both", "key": key, "offset": 0, "byte_size": 3 * a.nbytes}])
        inputs = [triton.InferInput(n, [16, 16], "FP32") for n in ("self", "other")]
        for i, tensor in enumerate(inputs):
            tensor.set_shared_memory("both", a.nbytes, offset=i * a.nbytes)
        out = triton.InferRequestedOutput("out", binary_data=False)
        out.set_shared_memory("both", a.nbytes, offset=2 * a.nbytes)
        result = self.client.infer("op.add", inputs, outputs=[out])
        self.assertEqual(result.get_output("out"), {"name": "out", "datatype": "FP32", "shape": [16, 16]})
        np.testing.assert_array_equal(
            shared_memory.get_contents_as_numpy(handle, np.float32, [16, 16], 2 * a.nbytes), 3 * a)
        with self.assertRaisesRegex(InferenceServerException, "within the region"):
            inputs[1].set_shared_memory("both", a.nbytes, offset=2 * a.nbytes + 4)
            self.client.infer("op.add", inputs)
        self.client.unregister_system_shared_memory("both")
        self.assertEqual(self.client.get_system_shared_memory_status(), [])

    def test_model(self):
        reply = self.service.call("PUT", "/v1/models/two", models.two("/in:0", "b"))
        self.assertEqual(reply.status, 201, reply.body)
        metadata = self.client.get_model_metadata("two", "1")
        self.assertEqual([(i["name"], i["datatype"], i["shape"]) for i in metadata["inputs"]],
                         [("/in:0", "FP32", [-1, 2]), ("b", "FP32", [2])])
        config = self.client.get_model_config("two")
        self.assertEqual((config["max_batch_size"], [i["name"] for i in config["input"]]), (0, ["/in:0", "b"]))
        self.assertTrue(self.client.is_model_ready("two") and self.client.is_model_ready("two", "1"))
        self.assertFalse(self.client.is_model_ready("two", "2"))
        self.assertEqual(self.client.get_model_repository_index(), [{"name": "two", "version": "1", "state": "READY"}])
        a, b = np.random.default_rng(3).standard_normal((7, 2)).astype(np.float32), np.array([3, -1], np.float32)
        for binary in (True, False):
            inputs = [triton.InferInput("/in:0", [7, 2], "FP32"), triton.InferInput("b", [2], "FP32")]
            inputs[0].set_data_from_numpy(a, binary_data=binary)
            inputs[1].set_data_from_numpy(b, binary_data=not binary)
            for outputs in (None, [triton.InferRequestedOutput(n, binary_data=binary) for n in ("shape", "sum")]):
                result = self.client.infer("two", inputs, outputs=outputs, model_version="1", request_id="9", priority=1,
                                           timeout=10**7)
                np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
                self.assertEqual(result.as_numpy("shape").tolist(), [7, 2])
                self.assertEqual(result.as_numpy("product") is None, outputs is not None)
                self.assertEqual(result.get_response()["model_name"], "two")
        later = [self.client.async_infer("two", inputs) for _ in range(5)]
        for one in later:
            np.testing.assert_array_equal(one.get_result().as_numpy("product"), a * b)
        with self.assertRaisesRegex(InferenceServerException, "is missing"):
            self.client.infer("two", inputs[:1])
        self.assertEqual(self.service.call("DELETE", "/v1/models/two").status, 204)
        self.assertFalse(self.client.is_model_ready("two"))

    def test_errors_are_understood(self):
        a, b = np.zeros(2, np.float32), np.zeros(3, np.float32)
        with self.assertRaisesRegex(InferenceServerException, "do not broadcast"):
            self.add(a, b, True)
        with self.assertRaisesRegex(InferenceServerException, "no model"):
            self.add(a, a, True, name="nosuch")


if __name__ == "__main__":
    main()
