#!/usr/bin/env python3
"""Wrong requests: each gets the contract's clear error, and the service lives on."""
import json
import re
import time

import numpy as np

import service

MIB = 1 << 20


def tensor(name="self", shape=(2,), datatype="FP32", data=(1, 2), **rest):
    return {"name": name, "shape": list(shape), "datatype": datatype, "data": data, **rest}


def request(*inputs, **rest):
    return {"inputs": list(inputs), **rest}


class Errors(service.ServiceTest):
    def tearDown(self):
        self.alive()

    def refused(self, body, *words, op="relu", status=400, headers=None):
        reply = self.service.call("POST", "/v1/ops/" + op, body, headers)
        with self.subTest(op=op, body=str(body)[:120]):
            return self.problem(reply, status, *words)

    # ---- tensors ----

    def test_shape(self):
        for shape in ([1] * 9, [1] * 100):
            self.refused(request(tensor(shape=shape, data=[1])), "self", "8")
        for shape in ([-1], [2.5], ["2"], [None], [[2]], [1e300]):
            self.refused(request(tensor(shape=shape)), "self", "shape")
        for shape in (None, 2, "2", {}):
            self.refused(request(tensor() | {"shape": shape}), "self", "shape")
        for shape in ([2**31, 2**31, 4], [2**62], [2**40, 2**40, 2**40], [2**63], [1 << 45],
                      [2**40, 0, 2**40]):
            self.refused(request(tensor(shape=shape)), "self")

    def test_datatype(self):
        for name in ("FP31", "fp32", "BYTES", "", 32, None, ["FP32"]):
            self.refused(request(tensor(datatype=name)), "self", "datatype", "FP32", "BOOL")

    def test_wrong_datatype_for_the_operator(self):
        self.refused(request(tensor(datatype="BOOL", data=[True, False])), "BOOL", op="neg")
        self.refused(request(tensor("input", (2, 2), data=[1, 2, 3, 4]),
                             tensor("weight", (2, 2), "FP64", [1, 2, 3, 4])),
                     "weight", "FP64", "FP32", op="linear")
        self.refused(request(tensor("input", (1, 1, 2), "BOOL", [True, False]),
                             tensor("weight", (1, 1, 1, 1), "BOOL", [True])), "BOOL", op="conv2d")

    def test_data_of_another_length(self):
        self.refused(request(tensor(shape=[4])), "self", "4")
        self.refused(request(tensor(shape=[1])), "self", "1")
        self.refused(request(tensor(shape=[0])), "self")
        self.refused(request(tensor(shape=[3], data=[])), "self", "3")
        self.refused(request(tensor(shape=[3], data=[[], [[]]])), "self")

    def test_data_that_is_none(self):
        for data in (["x"], [None], ["nan"], ["Inf"], ["1"], [True]):
            self.refused(request(tensor(shape=[1], data=data)), "self")
        self.refused(request(tensor(shape=[1], data=[{}])), "data")
        for data in (None, 1, "1", {"a": [1]}):
            self.refused(request(tensor(shape=[1], data=data)), "self")

    def test_text_of_numbers(self):
        for text in ("[nan]", "[nan(1)]", "[inf]", "[-NaN]", "[+1]", "[01]", "[1.]", "[.5]", "[0x10]",
                     "[1e]", "[1 2]", "[1,]", "[,1]", "[1", "[1]]", "[--1]", "[1_0]", "[\x001]",
                     "[NaNa]", "[Infinit]", "[truefalse]", "[]1"):
            body = '{"inputs":[{"name":"self","shape":[1],"datatype":"FP32","data":%s}]}' % text
            self.refused(body)

    def test_numbers_beyond_their_type(self):
        for name, data in (("UINT8", [256]), ("UINT8", [-1]), ("INT8", [128]), ("INT16", [32768]),
                           ("INT32", [2**31]), ("INT64", [2**63]), ("INT64", [-2**63 - 1]),
                           ("UINT16", [2**16]), ("UINT32", [-1]), ("UINT64", [2**64]), ("UINT64", [-1]),
                           ("INT32", [1.5]), ("BOOL", [2])):
            self.refused(request(tensor(shape=[1], datatype=name, data=data)), "self")
        for word in ("NaN", "Infinity", "-Infinity"):
            self.refused('{"inputs":[{"name":"self","shape":[1],"datatype":"INT32","data":[%s]}]}' % word,
                         "self")

    # ---- the call ----

    def test_shapes_that_do_not_fit(self):
        self.refused(request(tensor(), tensor("other", (3,), data=[1, 2, 3])), "other", op="add")
        self.refused(request(tensor(shape=(2, 1)), tensor("other", (3, 2), data=[1] * 6)), "other", op="add")
        self.refused(request(tensor(shape=(1, 2)), tensor("other", (3, 1), data=[1] * 3)), op="matmul")
        self.refused(request(tensor("input", (1, 2)), tensor("weight", (1, 3), data=[1] * 3)), "weight", op="linear")
        self.refused(request(tensor(), parameters={"dim": 5}), "dim", op="softmax")
        self.refused(request(tensor("input"), parameters={"normalized_shape": [3]}), "normalized_shape",
                     op="layer_norm")

    def test_arguments(self):
        self.refused(request(tensor("zelf")), "zelf", "self")
        self.refused(request(tensor()), "other", op="add")
        self.refused(request(), "self")
        self.refused(request(tensor(), tensor()), "self")
        self.refused(request(tensor(), parameters={"nosuch": 1}), "nosuch", "self")
        self.refused(request(tensor(), parameters={"self": 1}), "self")
        self.refused(request(tensor(), tensor("alpha", (), data=[1]), tensor("other")), "alpha", op="add")
        self.refused(request(tensor()), "dim", op="softmax")
        for dim in ("0", 0.5, [0], True, None):
            self.refused(request(tensor(), parameters={"dim": dim}), "dim", op="softmax")
        self.refused(request(tensor(), parameters={"approximate": "cube"}), "approximate", "tanh", op="gelu")
        self.refused(request(tensor("input"), tensor("weight"), parameters={"activation": "cubed"}),
                     "activation", "relu", op="linear")
        self.refused(request(tensor(), parameters={"dtype": "FP31"}), "dtype", op="cast")

    def test_a_result_too_large(self):
        self.refused(request(tensor(shape=[8192, 1], data=[1] * 8192),
                             tensor("other", [1, 16384], data=[1] * 16384)), op="add")
        image = tensor("input", (1, 1, 1), data=[1])
        self.refused(request(image, tensor("weight", (1, 1, 1, 1), data=[1]),
                             parameters={"padding": 2**30}), op="conv2d")
        tall, wide = ({"shape": shape, "datatype": "INT8"} for shape in ([2**40, 1], [1, 2**40]))
        self.refused({"args": [tall, wide], "parameters": {"meta": True}}, "too large", op="add")

    def test_windows_that_cannot_be_counted(self):
        """A mean over 2^66 elements, all but one of padding: their number wraps to 0."""
        pool = {"kernel_size": 2**22, "stride": 1, "padding": 2**21}
        for datatype in ("INT64", "FP16", "FP32", "FP64"):
            for kernel in (None, "ref"):
                image = tensor(shape=(1, 1, 1, 1), datatype=datatype, data=[7])
                self.refused(request(image, parameters=pool | ({"kernel": kernel} if kernel else {})),
                             "kernel_size", "2^63", op="avg_pool3d")
                for rest in ({"divisor_override": 7}, {"count_include_pad": False}): # then they need no number
                    reply = self.service.call("POST", "/v1/ops/avg_pool3d", request(
                        image, parameters=pool | rest | {"meta": True}))
                    self.assertEqual(reply.status, 200, reply.body[:300])

    def test_factors_without_index(self):
        """1 / factor is infinite: result 0 is at the first element, all others at the last."""
        for scale in (1e-300, 5e-324, 1e-39):
            for op, first in (("upsample_nearest1d", 1), ("_upsample_nearest_exact1d", 4)):
                for datatype in ("UINT8", "FP32"):
                    for kernel in (None, "ref"):
                        x = tensor(shape=(1, 1, 4), datatype=datatype, data=[1, 2, 3, 4])
                        parameters = {"output_size": [3], "scales": scale} | ({"kernel": kernel} if kernel else {})
                        reply = self.service.call("POST", "/v1/ops/" + op, request(x, parameters=parameters))
                        self.assertEqual(reply.status, 200, reply.body[:300])
                        self.assertEqual(reply.json["outputs"][0]["data"], [first, 4, 4], (op, datatype, kernel))
        x = tensor(shape=(1, 1, 4), data=[1, 2, 3, 4])
        for op in ("upsample_linear1d", "upsample_nearest2d", "upsample_bicubic2d"):
            flat = op.endswith("1d")
            names = ["scales"] if flat else ["scales_h", "scales_w"]
            x["shape"] = [1, 1, 4] if flat else [1, 1, 2, 2]
            parameters = {"output_size": [3] * len(names), **dict.fromkeys(names, 1e-300)}
            parameters |= {} if "nearest" in op else {"align_corners": False}
            reply = self.service.call("POST", "/v1/ops/" + op, request(x, parameters=parameters))
            self.assertEqual(reply.status, 200, reply.body[:300])

    def test_numbers_at_their_limits(self):
        least = -2**63
        self.refused({"parameters": {"high": least, "size": [2]}}, "high", str(least), op="randint")
        reply = self.service.call("POST", "/v1/ops/index_add", {
            "inputs": [tensor(shape=(2,), datatype="INT32"), tensor("index", (1,), "INT64", [1]),
                       tensor("source", (1,), "INT32", [3])], "parameters": {"dim": 0, "alpha": 1e300, "kernel": "ref"}})
        self.assertIn(reply.status, (200, 400), reply.body[:300])

    def test_sizes_without_elements(self):
        """Sizes beside a 0 take no memory, so a client can have any; and stored, hand them on."""
        empty = [tensor(name, shape, "UINT8", []) for name, shape in
                 [("self", (2**31, 1, 0)), ("other", (1, 2**31, 0))]]
        reply = self.service.call("POST", "/v1/ops/add", request(
            *empty, outputs=[{"name": "out", "parameters": {"tensor": "empty"}}]))
        self.assertEqual(reply.status, 200, reply.body)
        x = {"name": "self", **service.stored("empty")}
        self.refused(request(x, parameters={"dim": [2]}), "too large", op="sum")
        guesses = {"int": 2, "bool": True, "float": 1.0, "Scalar": 1, "ScalarType": "INT64", "str": "none",
                   "Generator": 7, "Device": "cpu"}
        for op in self.service.call("GET", "/v1/ops").json["ops"]:
            for axis in range(3):
                shape = [2**31, 2**31, 2**31]
                shape[axis] = 0
                inputs, parameters = [], {}
                for argument in op["arguments"]:
                    kind, size = re.match(r"(\w+)[^[]*(\[\d*\])?", argument["type"]).groups()
                    name = argument["name"]
                    names = [f"{name}.{i}" for i in range(2)] if size else [name]
                    if kind == "Tensor" and axis == 2:
                        inputs += [{"name": name, **service.stored("empty")} for name in names]
                    elif kind == "Tensor":
                        inputs += [tensor(name, shape, "FP32", []) for name in names]
                    elif "default" not in argument:
                        several = [guesses[kind]] * int(size.strip("[]") or 1) if size else guesses[kind]
                        parameters[name] = [axis] if argument["type"].startswith("int[1]") else several
                reply = self.service.call("POST", "/v1/ops/" + op["name"],
                                          request(*inputs, parameters=parameters))
                self.assertIn(reply.status, (200, 400), reply.body)
        self.assertEqual(self.service.call("DELETE", "/v1/tensors/empty").status, 204)

    def test_shared_parameters(self):
        x = tensor()
        self.refused(request(x, parameters={"pool": "nosuch"}), "pool", "nosuch", status=404)
        said = self.refused(request(x, parameters={"kernel": "nosuch"}), "kernel", "nosuch", "ref")
        self.assertEqual(said["detail"].count("simd@DEFAULT"), 1) # whose rows are several, by type
        for wrong in ({"pool": 1}, {"kernel": 1}, {"explain": 1}, {"meta": "yes"}, {"timeout_ms": -1},
                      {"timeout_ms": 1.5}, {"timeout_ms": "1"}, {"priority": -1}, {"timeout": []},
                      {"binary_data_output": 1}, {"triton_enable_empty_final_response": True},
                      {"headers": "x"}):
            self.refused(request(x, parameters=wrong), next(iter(wrong)))

    def test_unknown_names(self):
        self.refused(request(tensor()), "nosuch", op="nosuch", status=404)
        self.refused(request(tensor()), "add.nosuch", op="add.nosuch", status=404)
        for path in ("/v2/models/op.nosuch/infer", "/v2/models/nosuch/infer", "/v2/models/op.relu/versions/9/infer"):
            self.problem(self.service.call("POST", path, request(tensor())), 404)
        self.refused(request({"name": "self", "parameters": {"tensor": "nosuch"}}), "nosuch", status=404)

    # ---- the envelope ----

    def test_bodies_that_are_no_request(self):
        for body in (b"", b"{", b"}", b"[]", b"1", b'"x"', b"null", b"{}}", b"{'inputs':[]}", b"\xff\xfe{}",
                     b'{"inputs":}', b'{"inputs":[}', b'{"inputs":[{]}', b'{"inputs"', b"{\"a\":\"\\ud800\"}",
                     b"nonsense" * 100, b"\x00" * 1000):
            self.refused(body)
        for inputs in (None, 1, {}, "x", [1], [None], [[]], [{}], [{"name": 1}], [{"name": ""}],
                       [{"name": "x" * 1000}]):
            self.refused({"inputs": inputs})
        for rest in ({"parameters": []}, {"parameters": 1}, {"outputs": {}}, {"outputs": [1]},
                     {"outputs": [{}]}, {"id": 7}):
            self.refused(request(tensor(), **rest))
        for output in (["out"], [["out"]], {"name": "out", "parameters": ["x"]}, {"name": "out", "parameters": 1}): # nameless
            self.refused(request(tensor(), outputs=[output]), "outputs", "must be an object")

    def test_outputs(self):
        self.refused(request(tensor(), outputs=[{"name": "nosuch"}]), "nosuch", "out")
        self.refused(request(tensor(), outputs=[{"name": "out", "parameters": {"binary_data": 1}}]),
                     "binary_data")
        twice = [{"name": "out", "parameters": {"tensor": "twice"}}, {"name": "out"}]
        self.refused(request(tensor(), outputs=twice), "out", "twice")
        self.refused(request(tensor(), outputs=twice[::-1]), "out", "twice")

    def test_depth(self):
        """As deep as 32 is read, 33 is refused, and 100,000 costs nothing."""
        def nested(depth):
            return request(tensor(shape=[1], data=json.loads("[" * (depth - 3) + "1" + "]" * (depth - 3))))
        self.assertEqual(self.service.call("POST", "/v1/ops/relu", nested(32)).status, 200)
        self.refused(nested(33), "32")
        self.refused(b"[" * 100000, "32")
        self.refused(b'{"inputs":' * 100000, "32")
        self.refused(b'{"inputs":[{"name":"self","shape":[1],"datatype":"FP32","data":'
                     + b"[" * 100000 + b"1" + b"]" * 100000 + b"}]}")

    def test_many_of_everything(self):
        self.refused(request(*[tensor(f"t{i}") for i in range(1000)]))
        self.refused(request(tensor(), parameters={f"p{i}": i for i in range(1000)}))
        self.refused(request(tensor(), parameters={"dim": list(range(1000))}), "dim", op="sum")
        self.service.call("PUT", "/v1/tensors/last", tensor())
        last = {"name": "self", "parameters": {"tensor": "last"}} # behind as many as there is room for
        for n in (15, 16, 31, 32, 33):
            self.refused(request(*[tensor(f"t{i}") for i in range(n)], last))

    def test_a_tree_of_numbers(self):
        self.refused(b'{"inputs":[],"x":[' + b"0," * 200000 + b"0]}", "131072")

    def test_two_sources_of_data(self):
        self.refused(request(tensor(parameters={"tensor": "x"})), "self", "data")
        self.refused(request(tensor(parameters={"binary_data_size": 8})), "self", "data")
        self.refused(request({"name": "self", "shape": [2], "datatype": "FP32"}), "self", "data")
        self.refused(request(tensor(parameters=[])), "self", "parameters")

    # ---- the binary extension ----

    def binary(self, blob, *words, shape=(4,), size=16, datatype="FP32", length=None, more=b""):
        head = json.dumps(request({"name": "self", "shape": list(shape), "datatype": datatype,
                                   "parameters": {"binary_data_size": size}})).encode()
        headers = {"Content-Type": "application/octet-stream",
                   "Inference-Header-Content-Length": str(len(head) if length is None else length)}
        return self.refused(head + blob + more, *words, headers=headers)

    def test_binary(self):
        good = np.arange(4, dtype=np.float32).tobytes()
        self.binary(good[:-1], "self", "16")
        self.binary(b"", "self", "16")
        self.binary(good, "1", more=b"x")
        self.binary(good, "binary_data_size", size=15)
        self.binary(good, "binary_data_size", size=17)
        self.binary(good, "binary_data_size", size=-16)
        self.binary(good, "binary_data_size", size=2**60)
        self.binary(good, "binary_data_size", size="16")
        self.binary(good, "binary_data_size", shape=(2**40,))
        self.binary(b"\x02" * 4, "BOOL", datatype="BOOL", size=4)
        for length in (-1, "x", "", "1e2", "0x10", "99999", 2**63, 2**64, "1 2", " ", "1,2"):
            self.binary(good, "Inference-Header-Content-Length", length=length)
        for length in (1, 10):
            self.binary(good, length=length)

    def test_blanks_behind_the_header_length(self):
        """No part of the value; libmicrohttpd 0.9 passes them on, 1.0 does not."""
        head = json.dumps(request({"name": "self", "shape": [1], "datatype": "FP32",
                                   "parameters": {"binary_data_size": 4}})).encode()
        for blanks in (" ", " \t "):
            said = self.answer(f"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\n"
                               f"Content-Type: application/octet-stream\r\nContent-Length: {len(head) + 4}\r\n"
                               f"Inference-Header-Content-Length: {len(head)}{blanks}", head + b"\0" * 4)
            self.assertIn(b" 200 ", said.split(b"\r\n")[0], said)

    def test_binary_size_without_the_header(self):
        self.refused(request({"name": "self", "shape": [1], "datatype": "FP32",
                              "parameters": {"binary_data_size": 4}}), "Inference-Header-Content-Length")

    def test_header_length_in_a_chunked_body(self):
        """Its end is known only later; the check is the same."""
        connection = self.service.connect()
        connection.request("POST", "/v1/ops/relu", iter([b"{", b"}"]), {
            "Inference-Header-Content-Length": "999"}, encode_chunked=True)
        self.problem(service.Reply(connection.getresponse()), 400, "Inference-Header-Content-Length")

    # ---- sizes ----

    def answer(self, head, then=b""):
        """The status line to a hand-written request."""
        with self.service.socket() as s:
            s.sendall(head.encode() + b"\r\n\r\n" + then)
            return s.recv(65536)

    def test_a_body_of_257_mib(self):
        """Refused at its head, which is all that is sent."""
        for size in (257 * MIB, 2**40, 2**63, 10**30):
            for method, path in (("POST", "/v1/ops/relu"), ("PUT", "/v1/tensors/x"),
                                 ("POST", "/v2/models/op.relu/infer")):
                said = self.answer(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}")
                self.assertIn(b" 413 " if size < 2**63 else b" 4", said.split(b"\r\n")[0], size)

    def test_a_chunked_body_of_257_mib(self):
        """Refused while it comes. The server keeps at most what it takes."""
        if service.SANITIZED:
            self.skipTest("257 MiB through an instrumented server")
        piece = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
        with self.service.socket(60) as s:
            s.sendall(b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(258):
                    s.sendall(piece)
                s.sendall(b"0\r\n\r\n")
            except OSError:
                pass # it may hang up
            self.assertIn(b" 413 ", s.recv(65536).split(b"\r\n")[0])

    def test_headers_of_33_kib(self):
        for head in ("GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nX: " + "y" * 33 * 1024,
                     "GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n" + "\r\n".join(f"X{i}: " + "y" * 90 for i in range(360)),
                     "GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nX: " + "y" * 300 * 1024,
                     "GET /" + "y" * 300 * 1024 + " HTTP/1.1\r\nHost: localhost"):
            said = self.answer(head)
            self.assertRegex(said.split(b"\r\n")[0], rb" (431|414) ", head[:30])
        said = self.answer("GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " + "y" * 30 * 1024)
        self.assertIn(b" 200 ", said.split(b"\r\n")[0])

    def test_what_is_not_http(self):
        for junk in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET\r\n\r\n", b"\r\n\r\n\r\n",
                     b"GET /v1/isa HTTP/9.9\r\n\r\n", b"A" * 100000, b"GET /v1/isa HTTP/1.1\r\nHost x\r\n\r\n",
                     b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1x\r\n\r\n",
                     b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            with self.service.socket(1) as s:
                try:
                    s.sendall(junk)
                    said = s.recv(65536)
                except (ConnectionError, TimeoutError):
                    continue # hung up on, or still being waited for: both leave the others alone
                self.assertNotIn(b" 200 ", said.split(b"\r\n")[0], junk[:40])
                self.assertNotIn(b" 500 ", said.split(b"\r\n")[0], junk[:40])

    def test_a_client_that_hangs_up(self):
        """In the head, in the body, and while the result is computed."""
        body, headers = service.pack({"self": np.ones((300, 300), np.float32),
                                      "other": np.ones((300, 300), np.float32)}, binary=True)
        head = "POST /v1/ops/matmul HTTP/1.1\r\nHost: localhost\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        whole = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        # libmicrohttpd may see the end of a half-sent body only when the connection has been idle.
        with service.Service("--idle-s", "2") as own:
            for part in (10, len(head), len(head) + 100, len(whole) - 1, len(whole)):
                for _ in range(5):
                    with own.socket() as s:
                        s.sendall(whole[:part])
            end = time.monotonic() + 10
            while (left := self.in_flight(own)) > 1 and time.monotonic() < end:
                time.sleep(0.02)
            self.assertEqual(left, 1, "requests of clients that have gone are still in flight")

    def in_flight(self, own):
        text = own.call("GET", "/metrics").body.decode()
        return int(re.search(r"^tensord_requests_in_flight (\d+)$", text, re.M)[1])


if __name__ == "__main__":
    service.main()
