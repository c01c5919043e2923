#!/usr/bin/env python3
"""A model and the files of its weights in one body, a form or a zip; and hostile ones, which are refused and end nothing."""
import io
import pathlib
import tempfile
import warnings
import zipfile

import numpy as np
import onnx

import models
import service


def form(files, boundary=b"xYz"):
    """As curl -F sends it, of (name, bytes)."""
    head = b'--%s\r\nContent-Disposition: form-data; name="file%d"; filename="%s"\r\nContent-Type: application/octet-stream\r\n\r\n'
    return b"".join(head % (boundary, i, name.encode()) + data + b"\r\n" for i, (name, data) in enumerate(files)) + b"--%s--\r\n" % boundary


def zipped(files, folder="", how=zipfile.ZIP_STORED):
    room = io.BytesIO()
    with zipfile.ZipFile(room, "w", how) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore") # of names that are there twice
        for name, data in files:
            archive.writestr(folder + name, data)
    return room.getvalue()


def bundles(files):
    return [form(files), zipped(files), zipped(files, "some/folder/", zipfile.ZIP_DEFLATED)]


class Bundles(service.ServiceTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = onnx.load_model_from_string(models.line())
        path = pathlib.Path(folder.name) / "line.onnx"
        onnx.save_model(file, str(path), save_as_external_data=True, location="line.data", size_threshold=0)
        self.model, self.weights = ("line.onnx", path.read_bytes()), ("line.data", path.with_suffix(".data").read_bytes())

    def refused(self, body, *words):
        self.problem(self.service.call("PUT", "/v1/models/bad", body), 400, *words)

    def test_right(self):
        for body in bundles([self.model, self.weights]) + bundles([self.weights, self.model]):
            reply = self.service.call("PUT", "/v1/models/line", body)
            self.assertIn(reply.status, (200, 201), reply.body)
            self.assertEqual(reply.json["format"], "onnx")
            self.assertEqual(self.service.call("POST", "/v1/models/line", {"x": [[1, 2, 3]]}).json, {"y": [[2, 8, 14, 20]]})
        named = form([("any", self.model[1]), ("other", self.weights[1])])
        named = named.replace(b'name="file0"', b'name="model"').replace(b'name="file1"', b"name=line.data") # fields, not files, have the names
        self.assertEqual(self.service.call("PUT", "/v1/models/line", named, {"Content-Type": "multipart/form-data; boundary=xYz"}).status, 200)

    def test_wrong(self):
        for word, files in {"has not been sent": [self.model], "ends before": [self.model, ("line.data", self.weights[1][:-1])],
                            "neither an ONNX": [("line.onnx", b"nothing"), self.weights],
                            "not 2": [self.model, ("b.onnx", self.model[1]), self.weights]}.items():
            for body in bundles(files):
                with self.subTest(word):
                    self.refused(body, word)
        for word, body in zip(("is there twice", "already exists", "already exists"), bundles([self.model, self.weights, self.weights])):
            self.refused(body, word)
        for name in "../line.data", "a/../../line.data", "/line.data", "a\\b":
            self.refused(zipped([self.model, (name, b"")]), "no name of a file")
        self.refused(form([("a", b"b")]), "field 'model'")
        self.refused(zipped([self.model, ("x" * 300, b"")]), "too long a name")
        self.refused(zipped([self.model, ("line.data", b"\0" * (40 << 20))], how=zipfile.ZIP_DEFLATED), "64 times as large")
        right = form([self.model, self.weights])
        for body in right[:-9], b"--xYz\r\nContent-Type: a\r\n" + b"x" * 99, right.replace(b"\r\n\r\n", b"\r\n"), form([("a", b"")] * 1025):
            self.refused(body, "the form")

    def test_changed(self):
        rng = np.random.default_rng(service.seed())
        for body in bundles([self.model, self.weights]):
            for _ in range(100):
                changed = np.frombuffer(body, np.uint8).copy()
                changed[rng.integers(0, len(body), 4)] = rng.integers(0, 256, 4)
                reply = self.service.call("PUT", "/v1/models/bad", changed.tobytes()[:int(rng.integers(30, len(body) + 1))])
                self.assertIn(reply.status, (200, 201, 400))
        self.alive()


if __name__ == "__main__":
    service.main()
