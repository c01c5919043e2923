#!/usr/bin/env python3
"""examples/: the Python client as pip installs it, on the sample model, which is what its script makes."""
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "examples/python")]

import numpy as np

import certificates
import models
import service
import tokens
from tensord import Client, Error

DIGITS = ROOT / "examples/digits"


class Examples(service.ServiceTest):
    def setUp(self):
        self.client = Client(f"http://127.0.0.1:{self.service.port}")
        self.addCleanup(self.client.connection.close)

    def put(self, name, file):
        self.assertIn(self.service.call("PUT", f"/v1/models/{name}", file).status, (200, 201))
        return self.client(name)

    def test_one_output(self):
        line = self.put("line", models.line())
        for x in (np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((5, 3)), np.zeros((0, 3), np.float16), np.eye(3)[::2]):
            y = line(x)
            self.assertEqual((y.dtype, y.shape), (np.float32, (len(x), 4)))
            np.testing.assert_array_equal(y, models.line_of(x.astype(np.float32)))
        y += 1 # it is the caller's own
        np.testing.assert_array_equal(line(x=[[1, 2, 3]]), [[2, 8, 14, 20]])

    def test_tls(self):
        authority, (cert, key) = certificates.here()
        with service.Service("--tls-cert", str(cert), "--tls-key", str(key), tls=authority.context()) as s, tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "line.onnx")
            file.write_bytes(models.line())
            client = Client(f"https://localhost:{s.port}", context=authority.context())
            np.testing.assert_array_equal(client.put("line", file)(x=[[1, 2, 3]]), [[2, 8, 14, 20]])
            client.connection.close()

    def test_token(self):
        """Where the server asks for tokens: without one, with one, and one that may not."""
        with tempfile.TemporaryDirectory() as folder:
            known = tokens.Tokens(folder + "/tokens", tokens.RANDOM)
            for name, scopes in (("user", "read,run,store"), ("looker", "read")):
                known.add(name, scopes)
            known.write()
            file = pathlib.Path(folder, "line.onnx")
            file.write_bytes(models.line())
            with service.Service("--tokens", known.path) as s:
                line = Client(f"http://127.0.0.1:{s.port}", token=known.secrets["user"]).put("line", file)
                np.testing.assert_array_equal(line([[1, 2, 3]]), models.line_of(np.array([[1, 2, 3]], np.float32)))
                for token, status in ((None, 401), ("x", 401), (known.secrets["looker"], 403)):
                    client = Client(f"http://127.0.0.1:{s.port}", token=token)
                    with self.assertRaises(Error) as caught:
                        client("line")([[1, 2, 3]])
                    self.assertEqual(caught.exception.status, status)
                    client.connection.close()
                line.client.connection.close()

    def test_several_outputs(self):
        two = self.put("two", models.two())
        a, b = np.arange(4.0).reshape(2, 2), np.array([2.0, 3.0])
        for reply in (two(a, b), two(a, b=b), two(b=b, a=a)):
            self.assertEqual({name: value.tolist() for name, value in reply.items()},
                             {"sum": (a + b).tolist(), "product": (a * b).tolist(), "shape": [2, 2]})
            self.assertEqual(reply["shape"].dtype, np.int64)

    def test_types(self):
        for datatype, kind in (("INT64", np.int64), ("BOOL", np.bool_), ("FP16", np.float16)):
            same = self.put("same", models.identity(datatype=datatype))
            x = np.array([0, 1, 1]).astype(kind)
            y = same(x)
            self.assertEqual((y.dtype, y.tolist()), (x.dtype, x.tolist()))
        self.put("half", json.dumps({"inputs": [{"name": "x", "datatype": "BF16", "shape": [-1]}], "expr": "y = relu(x)"}).encode())
        x = np.array([1.00390625, 3.1415927, -2, np.inf, np.nan], np.float32)
        y = self.client("half")(x)
        np.testing.assert_array_equal(y, np.maximum(service.BF16(x).values, 0))

    def test_errors(self):
        line = self.put("line", models.line())
        for call, status, words in ((lambda: line(np.ones((2, 5))), 400, "x: must have the shape"),
                                    (lambda: line(nosuch=[[1, 2, 3]]), 400, "no 'nosuch'"),
                                    (lambda: line([[1, 2, 3]], parameters={"pool": "nosuch"}), 404, "no pool 'nosuch'"),
                                    (lambda: self.client("nosuch"), 404, "no model 'nosuch'"),
                                    (lambda: self.client.put("bad", __file__), 400, "")):
            with self.assertRaises(Error) as raised:
                call()
            self.assertEqual(raised.exception.status, status)
            self.assertIn(words, str(raised.exception))
        for call in (lambda: line(1, 2), lambda: line([[1, 2, 3]], x=[[1, 2, 3]]), lambda: line(np.ones((1, 3), complex))):
            self.assertRaises(TypeError, call)
        np.testing.assert_array_equal(line([[1, 2, 3]]), [[2, 8, 14, 20]]) # the connection is well

    def test_a_connection_that_the_server_has_closed(self):
        with service.Service("--idle-s", "1") as s:
            client = Client(f"127.0.0.1:{s.port}")
            digits = client.put("digits", DIGITS / "digits.onnx")
            threading.Event().wait(2.5)
            self.assertEqual(digits(json.loads((DIGITS / "seven.json").read_text())["image"])["digit"].tolist(), [7])
        self.assertRaises(OSError, lambda: client("digits"))
        client.connection.close()

    def test_install(self):
        """pip makes a package of it that is the file."""
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "source")
            source.mkdir()
            for name in ("pyproject.toml", "tensord.py"):
                (source / name).write_bytes((ROOT / "examples/python" / name).read_bytes())
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check",
                                   "--target", f"{folder}/there", source], capture_output=True, text=True, timeout=300)
            if "No matching distribution" in done.stderr:
                self.skipTest("no setuptools from PyPI")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(pathlib.Path(folder, "there/tensord.py").read_bytes(), (source / "tensord.py").read_bytes())

    def test_the_sample_is_what_its_script_makes(self):
        """And right about 9 of 10 pictures that it has not seen, as the server computes it."""
        try:
            from sklearn.datasets import load_digits
        except ImportError:
            self.skipTest("no scikit-learn: run deploy/setup.sh check")
        import onnx
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder, "made.onnx")
            said = subprocess.run([sys.executable, DIGITS / "train.py", made], check=True, capture_output=True, text=True).stdout
            ours, theirs = ({w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(path).graph.initializer}
                            for path in (DIGITS / "digits.onnx", made))
            self.assertEqual(ours.keys(), theirs.keys())
            for name, array in ours.items(): # another processor adds in another order
                np.testing.assert_allclose(array, theirs[name], atol=0.01, err_msg=name)
        data = load_digits()
        reply = self.client.put("digits", DIGITS / "digits.onnx")(data.images[1500:])
        right = int((reply["digit"] == data.target[1500:]).sum())
        self.assertIn(f"{right} of 297 pictures", said)
        self.assertGreater(right, 0.9 * 297)
        np.testing.assert_allclose(reply["share"].sum(1), 1, atol=1e-5)
        self.assertLess((DIGITS / "digits.onnx").stat().st_size, 10_000)


if __name__ == "__main__":
    service.main()
