#!/usr/bin/env python3
"""Stored tensors: their life, the three formats that they come in, and calls that use them."""
import io
import json
import threading
import time

import numpy as np

import operators
import service
from service import BF16, stored

NPY = {"Content-Type": "application/x-npy"}
SAFETENSORS = {"Content-Type": "application/x-safetensors"}


def npy(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    return file.getvalue()


def safetensors(tensors, **more):
    """A file of that format. tensors: key -> array or BF16."""
    names = {"BOOL": "BOOL", "UINT8": "U8", "INT8": "I8", "INT16": "I16", "INT32": "I32",
             "INT64": "I64", "FP16": "F16", "BF16": "BF16", "FP32": "F32", "FP64": "F64",
             "UINT16": "U16", "UINT32": "U32", "UINT64": "U64"}
    head, blob = {"__metadata__": {"made": "by a test"}}, b""
    for key, value in tensors.items():
        data = service.elements(value)
        head[key] = {"dtype": names[service.datatype(value)], "shape": list(value.shape),
                     "data_offsets": [len(blob), len(blob) + len(data)], **more}
        blob += data
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + blob


class Tensors(service.ServiceTest):
    def put(self, name, body, headers=None):
        return self.service.call("PUT", "/v1/tensors/" + name, body, headers)

    def get(self, name):
        reply = self.service.call("GET", "/v1/tensors/" + name)
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def names(self):
        return {t["name"] for t in self.service.call("GET", "/v1/tensors").json["tensors"]}

    def fetch(self, path, media):
        reply = self.service.call("GET", path, headers={"Accept": media})
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, media), reply.body[:300])
        return reply.body

    def test_known_by_first_bytes(self):
        """What curl -T and --data-binary send without saying what it is."""
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        for headers in (None, {"Content-Type": "application/octet-stream"}, {"Content-Type": "application/x-www-form-urlencoded"}):
            self.assertIn(self.put("first/npy", npy(x), headers).status, (200, 201))
            self.assertEqual(self.get("first/npy")["data"], x.ravel().tolist())
            reply = self.put("first/file", safetensors({"a": x, "b/c": x[0]}), headers)
            self.assertEqual(reply.json, {"name": "first/file", "tensors": ["first/file/a", "first/file/b/c"]})
            self.assertEqual(self.get("first/file/b/c")["data"], [0, 1, 2])
        self.problem(self.put("first/wrong", b"\x93NUMPY" + b"x" * 20), 400, ".npy")
        self.problem(self.put("first/wrong", (3).to_bytes(8, "little") + b"{}}"), 400)

    def test_as_files(self):
        """GET gives back what was put: Accept says in which form."""
        rng = np.random.default_rng(7)
        for name, kind in service.DATATYPES.items():
            for shape in ((), (3,), (0, 2), (2, 3, 4)):
                x = rng.integers(0, 2, shape).astype(kind)
                self.put("as/" + name, npy(np.asarray(x)), NPY)
                got = np.load(io.BytesIO(self.fetch("/v1/tensors/as/" + name, "application/x-npy")))
                self.assertEqual((got.dtype, got.shape, got.tolist()), (np.dtype(kind), shape, x.tolist()))
        held = BF16([1.5, -2])
        self.put("as/half", safetensors({"w": held}), SAFETENSORS)
        refused = self.service.call("GET", "/v1/tensors/as/half/w", headers={"Accept": "application/x-npy"})
        self.problem(refused, 400, "BF16")
        file = self.fetch("/v1/tensors/as/", "application/x-safetensors")
        head = json.loads(file[8:8 + int.from_bytes(file[:8], "little")])
        self.assertEqual(sorted(head), sorted([*service.DATATYPES, "half/w"]))
        self.assertEqual(head["half/w"]["shape"], [2])
        self.assertEqual(self.put("again", file).status, 201)
        self.assertEqual(self.get("again/half/w")["data"], [1.5, -2])
        one = self.fetch("/v1/tensors/as/half/w", "application/x-safetensors")
        self.assertEqual(list(json.loads(one[8:8 + int.from_bytes(one[:8], "little")])), ["w"])
        self.assertEqual(self.service.call("GET", "/v1/tensors/as/FP32", headers={"Accept": "*/*"}).json["datatype"], "FP32")

    def test_prefixes(self):
        """A slash behind a name means all under it, for GET and DELETE."""
        for name in ("pre/a", "pre/b/c", "prefix", "pre"):
            self.put(name, {"shape": [1], "datatype": "FP32", "data": [1]})
        listed = self.service.call("GET", "/v1/tensors/pre/").json
        self.assertEqual([t["name"] for t in listed["tensors"]], ["pre/a", "pre/b/c"])
        self.assertEqual(self.get("pre")["data"], [1])
        self.assertEqual([t["name"] for t in self.get("pre/b")["tensors"]], ["pre/b/c"]) # no such tensor: what is under it
        self.problem(self.service.call("DELETE", "/v1/tensors/pre/b"), 404, "the 1 under it")
        self.assertEqual(self.service.call("DELETE", "/v1/tensors/pre/").status, 204)
        self.assertEqual({"pre", "prefix"} - self.names(), set())
        self.assertEqual({"pre/a", "pre/b/c"} & self.names(), set())
        for method in ("GET", "DELETE"):
            self.problem(self.service.call(method, "/v1/tensors/pre/"), 404, "pre")
        many = safetensors({f"t{i}": np.ones(1, np.float32) for i in range(150)})
        self.put("many", many, SAFETENSORS)
        self.assertEqual(len(self.service.call("GET", "/v1/tensors/many/").json["tensors"]), 150)
        self.assertEqual(self.service.call("DELETE", "/v1/tensors/many/").status, 204)
        self.assertEqual({name for name in self.names() if name.startswith("many/")}, set())

    def test_life(self):
        tensor = {"shape": [2, 2], "datatype": "FP32", "data": [[1, 2], [3, 4]]}
        self.problem(self.service.call("GET", "/v1/tensors/life"), 404, "life")
        reply = self.put("life", tensor)
        self.assertEqual((reply.status, reply.json), (201, {"name": "life"}))
        self.assertEqual(self.put("life", {**tensor, "shape": [4]}).status, 200)
        got = self.get("life")
        self.assertGreater(got.pop("total_bytes"), 16)
        self.assertEqual(got, {"name": "life", "datatype": "FP32", "shape": [4], "bytes": 16,
                               "packed": [], "data": [1.0, 2.0, 3.0, 4.0]})
        self.assertIn("life", self.names())
        listed = self.service.call("GET", "/v1/tensors").json["tensors"]
        self.assertTrue(all("data" not in t for t in listed))
        reply = self.service.call("DELETE", "/v1/tensors/life")
        self.assertEqual((reply.status, reply.body), (204, b""))
        self.problem(self.service.call("DELETE", "/v1/tensors/life"), 404, "life")
        self.assertNotIn("life", self.names())

    def test_every_datatype_in_every_format(self):
        rng = np.random.default_rng(3)
        for name in operators.INTEGERS + operators.FLOATS + ("BOOL",):
            for shape in ((), (0,), (3, 5), (2, 1, 3)):
                x = operators.draw(rng, name, shape)
                value = {"shape": list(shape), "datatype": name}
                forms = {"json": (json.dumps({**value, "data": service.numbers(x)}), None),
                         "safetensors": (safetensors({"x": x}), SAFETENSORS)}
                head = json.dumps(value).encode()
                forms["binary"] = (head + service.elements(x), {
                    "Content-Type": "application/octet-stream",
                    "Inference-Header-Content-Length": str(len(head))})
                if name != "BF16":
                    forms["npy"] = (npy(x), NPY)
                for form, (body, headers) in forms.items():
                    with self.subTest(datatype=name, shape=shape, form=form):
                        self.assertIn(self.put(f"any/{form}", body, headers).status, (200, 201))
                        got = self.get("any/safetensors/x" if form == "safetensors" else f"any/{form}")
                        self.assertEqual((got["datatype"], got["shape"]), (name, list(shape)))
                        back = service.decode(name, shape, got["data"])
                        self.assertEqual(service.elements(back), service.elements(x))

    def test_npy(self):
        x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for version in ((1, 0), (2, 0), (3, 0)):
            self.put("npy", npy(x, version), NPY)
            self.assertEqual(self.get("npy")["data"], x.ravel().tolist())
        for order in (x.transpose(2, 0, 1), np.asfortranarray(x)):
            self.put("npy", npy(order), NPY)
            self.assertEqual(self.get("npy")["shape"], list(order.shape))
            self.assertEqual(self.get("npy")["data"], order.ravel().tolist())

    def test_npy_of_any_length(self):
        """A header that is not padded puts the elements where their type may not lie, which UBSan sees."""
        for dtype in (np.int16, np.float32, np.float64):
            for x in (np.arange(12, dtype=dtype).reshape(3, 4), np.arange(12, dtype=dtype).reshape(3, 4, order="F")):
                for spaces in range(8):
                    text = repr({"descr": x.dtype.str, "fortran_order": np.isfortran(x), "shape": x.shape}).encode() + b" " * spaces
                    body = b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + x.tobytes(order="A")
                    self.put("npy", body, NPY)
                    self.assertEqual(self.get("npy")["data"], x.ravel().tolist())
                    reply = self.service.call("POST", "/v1/ops/clone", body, NPY)
                    self.assertEqual(reply.json["out"], x.tolist())

    def test_npy_that_is_wrong(self):
        good = npy(np.arange(6, dtype=np.float32))
        bad = [b"", b"x", good[:5], good[:9], good[:40], good[:-1], good + b"x", b"\x93NUMPX" + good[6:],
               good.replace(b"<f4", b">f4"), good.replace(b"<f4", b"|O8"), good.replace(b"<f4", b"<c8"),
               good.replace(b"(6,)", b"(7,)"), good.replace(b"(6,)", b"(-6,"), good.replace(b"shape", b"shave"),
               good.replace(b"(6,), ", b"6     "), good[:8] + b"\xff\xff" + good[10:],
               good[:6] + b"\x09" + good[7:], npy(np.zeros((1,) * 9, np.float32)),
               good.replace(b"(6,), }" + b" " * 24, b"(4294967296, 4294967296, 4294967296)}"[:31])]
        for body in bad:
            with self.subTest(body=body[:80]):
                self.problem(self.put("bad", body, NPY), 400)
        self.assertNotIn("bad", self.names())

    def test_safetensors(self):
        rng = np.random.default_rng(4)
        tensors = {"w": operators.draw(rng, "FP32", (3, 4)), "layer.0.bias": BF16([1.5, 2, -3]),
                   "empty": np.zeros((0, 2), np.int64)}
        self.assertEqual(self.put("net", safetensors(tensors), SAFETENSORS).status, 201)
        self.assertEqual(self.put("net", safetensors(tensors), SAFETENSORS).status, 200)
        for key, x in tensors.items():
            got = self.get(f"net/{key}")
            self.assertEqual((got["datatype"], tuple(got["shape"])), (service.datatype(x), x.shape))
            back = service.decode(got["datatype"], got["shape"], got["data"])
            self.assertEqual(service.elements(back), service.elements(x))

    def test_safetensors_that_is_wrong(self):
        x = {"x": np.arange(4, dtype=np.float32)}
        good = safetensors(x)
        bad = [b"", good[:7], good[:20], good[:-1], (2**63).to_bytes(8, "little") + good[8:],
               (2**64 - 1).to_bytes(8, "little") + good[8:], safetensors(x, dtype="F8"),
               safetensors(x, shape=[5]), safetensors(x, shape=[-4]), safetensors(x, data_offsets=[0, 32]),
               safetensors(x, data_offsets=[16, 0]), safetensors(x, data_offsets=[-16, 0]),
               safetensors(x, data_offsets=[0]), safetensors(x, data_offsets="x"), safetensors({"../x": x["x"]}),
               safetensors({"a//b": x["x"]}), (2).to_bytes(8, "little") + b"[]", (4).to_bytes(8, "little") + b"{]}x"]
        for body in bad:
            with self.subTest(body=body[:90]):
                self.problem(self.put("bad", body, SAFETENSORS), 400)

    def test_safetensors_all_or_nothing(self):
        """A file of which anything is wrong leaves the store as it was, new names and old ones."""
        one, two = (np.full(4, v, np.float32) for v in (1, 2))
        self.put("whole", safetensors({"a": one, "c": one}), SAFETENSORS)
        flags = np.array([0, 2], np.uint8).view(np.bool_)
        for tensors in ({"a": two, "b": two, "x//y": two}, {"a": two, "b": two, "flags": flags},
                        {"b": two, "c": two, "..": two}):
            with self.subTest(keys=list(tensors)):
                self.problem(self.put("whole", safetensors(tensors), SAFETENSORS), 400)
                self.assertEqual({n for n in self.names() if n.startswith("whole/")}, {"whole/a", "whole/c"})
                self.assertEqual([self.get("whole/" + key)["data"] for key in "ac"], [[1.0] * 4] * 2)
        self.assertEqual(self.put("whole", safetensors({"a": two, "b": two}), SAFETENSORS).status, 201)
        self.assertEqual([self.get("whole/" + key)["data"] for key in "abc"], [[2.0] * 4, [2.0] * 4, [1.0] * 4])

    def test_many(self):
        """187,000 names: walked one after the other, as they once were, that takes minutes."""
        file = safetensors({f"{i}": np.zeros(0, np.float32) for i in range(18700)})
        with service.Service() as s:
            begin = time.monotonic()
            for i in range(10):
                self.assertEqual(s.call("PUT", f"/v1/tensors/many{i}", file, SAFETENSORS).status, 201)
            done = lambda: s.call("GET", "/v1/pools/default").json["done"]
            before = done()
            self.assertEqual(len(s.call("GET", "/v1/tensors").json["tensors"]), 187000)
            while done() == before: # a worker has written it, and is counted behind its reply
                self.assertLess(time.monotonic() - begin, 60)
            self.assertEqual(s.call("GET", "/v1/tensors/many9/18699").status, 200)
            seconds = time.monotonic() - begin
        print(f"187,000 tensors stored and listed in {seconds:.1f} s")
        self.assertLess(seconds, 60)

    def test_names(self):
        tensor = {"shape": [], "datatype": "FP32", "data": [1]}
        for name in ("a", "A.b_c-9", "a/b/c", "x" * 200, "..a", "%61bc"):
            self.assertEqual(self.put(name, tensor).status, 201, name)
        self.assertIn("abc", self.names())
        for name in ("a//b", "a/../b", "..", "./a", "a%20b", "a%2f..%2fb", "%2e%2e", "ü", "x" * 201, "a%0ab"):
            quoted = name.encode("ascii", "ignore").decode() or "%c3%bc"
            with self.subTest(name=name):
                self.problem(self.put(quoted, tensor), 400 if quoted != "a" else 200)
        self.problem(self.service.call("GET", "/v1/tensors/..%2f..%2fetc%2fpasswd"), 404)

    def test_bodies_that_are_wrong(self):
        for body in (b"", b"{", b"[]", b"1", {}, {"shape": [1]}, {"shape": [1], "datatype": "FP32"},
                     {"shape": [2], "datatype": "FP32", "data": [1]}, {"shape": [1], "datatype": "X", "data": [1]},
                     {"shape": [1] * 9, "datatype": "FP32", "data": [1]},
                     {"shape": [2**50], "datatype": "FP32", "data": [1]}):
            with self.subTest(body=body):
                self.problem(self.put("bad", body), 400)
        head = b'{"shape":[2],"datatype":"FP32"}'
        for blob in (b"", b"1234567", b"123456789"):
            self.problem(self.put("bad", head + blob, {"Inference-Header-Content-Length": str(len(head))}), 400)
        self.assertNotIn("bad", self.names())

    def test_bytes_that_are_no_bool(self):
        x = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
        head = b'{"shape":[4],"datatype":"BOOL"}'
        for body, headers in ((head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}),
                              (npy(x), NPY), (safetensors({"x": x}), SAFETENSORS)):
            with self.subTest(headers=headers):
                said = self.problem(self.put("bad", body, headers), 400, "BOOL", "byte 2 is 2")
                self.assertIn("bad", said["detail"])
        self.assertNotIn("bad", self.names())
        self.assertNotIn("bad/x", self.names())

    def test_media_types(self):
        body = json.dumps({"shape": [1], "datatype": "FP32", "data": [1]})
        for name in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
            self.assertIn(self.put("typed", body, {"Content-Type": name}).status, (200, 201), name)
        for name in ("text/plain", "image/png", "application/jsonx", "application/x-npyx", "x"):
            self.problem(self.put("typed", body, {"Content-Type": name}), 415, "application/x-npy")

    # ---- use ----

    def test_use_and_packed_forms(self):
        rng = np.random.default_rng(6)
        x, w, b = (operators.draw(rng, "FP32", shape) for shape in ((40, 96), (64, 96), (64,)))
        self.put("use/w", npy(w), NPY)
        self.put("use/b", npy(b), NPY)
        want = np.maximum(x @ w.T + b, 0)
        inputs = {"input": x, "weight": stored("use/w"), "bias": stored("use/b")}
        for kernel in (None, "onednn", "ref"):
            for binary in (False, True):
                out = self.service.op("linear", inputs, {"activation": "relu", **({"kernel": kernel} if kernel else {})},
                                      binary=binary)
                np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-4)
        packed = self.get("use/w")["packed"]
        self.assertTrue(packed, "no packed form of a weight that kernels have used")
        for form in packed:
            self.assertGreaterEqual(form["bytes"], w.nbytes)
            self.assertTrue(form["form"])
        self.put("use/w", npy(2 * w), NPY)
        self.assertEqual(self.get("use/w")["packed"], [])
        out = self.service.op("linear", inputs, {"activation": "relu"}, binary=True)
        np.testing.assert_allclose(out, np.maximum(2 * x @ w.T + b, 0), rtol=1e-5, atol=1e-4)

    def test_forms_of_whole_numbers(self):
        """Of a stored matrix of 8 bits its packed form and its columns' sums are kept, under one matrix or several."""
        rng = np.random.default_rng(7)
        w, zero = rng.integers(-128, 128, (96, 64), np.int8), np.uint8(131)
        self.put("use/q", npy(w), NPY)
        for turn, shape in enumerate([(2, 3, 40, 96), (5, 96), (2, 3, 40, 96)]):
            x = rng.integers(0, 256, shape, np.uint8)
            for b_zero in np.int8(-3), rng.integers(-9, 9, 64, np.int8):
                out = self.service.op("matmul_integer", {"A": x, "B": stored("use/q"), "a_zero_point": zero, "b_zero_point": b_zero},
                                      binary=True)
                np.testing.assert_array_equal(out, (x.astype(np.int32) - zero) @ (w.astype(np.int32) - b_zero))
            forms = self.get("use/q")["packed"]
            self.assertEqual(sorted(form["bytes"] >= w.nbytes for form in forms), [False, True], (turn, forms))
            self.assertIn("sums of columns", [form["form"] for form in forms])

    def test_use_as_any_input(self):
        self.put("t", {"shape": [3], "datatype": "INT64", "data": [1, 2, 3]})
        np.testing.assert_array_equal(self.service.op("add", {"self": stored("t"), "other": stored("t")}), [2, 4, 6])
        same = {**stored("t"), "shape": [3], "datatype": "INT64"}
        np.testing.assert_array_equal(self.service.op("neg", {"self": same}), [-1, -2, -3])
        for other in ({"shape": [4]}, {"datatype": "FP32"}, {"shape": [3, 1]}):
            self.problem(self.service.infer("neg", {"self": {**stored("t"), **other}}), 400, "self", "stored")
        self.problem(self.service.infer("neg", {"self": {"parameters": {"tensor": 1}}}), 400, "self", "tensor")

    def test_replaced_and_removed_under_calls(self):
        """Every result belongs to one of the two tensors, whole, whatever others do meanwhile."""
        n = 20000
        one, two = np.full(n, 1, np.float32), np.full(n, 2, np.float32)
        self.put("hot", npy(one), NPY)
        stop, wrong = threading.Event(), []

        def use():
            connection = self.service.connect()
            while not stop.is_set():
                reply = self.service.infer("relu", {"self": stored("hot")}, {"binary_data_output": True},
                                           connection=connection)
                if reply.status == 404:
                    continue
                values = set(np.unique(reply.out))
                if reply.status != 200 or values not in ({1.0}, {2.0}):
                    wrong.append((reply.status, values))
        threads = [threading.Thread(target=use) for _ in range(4)]
        for t in threads:
            t.start()
        for i in range(40):
            self.put("hot", npy(two if i % 2 else one), NPY)
            if i % 5 == 0:
                self.service.call("DELETE", "/v1/tensors/hot")
        stop.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    service.main()
