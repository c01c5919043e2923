#!/usr/bin/env python3
"""Replies of the running service are what it says of them in /openapi.yaml, and nothing it does not say.

Every operation is called at least once, and most of the errors: the status must be described, so
must be the media type and every header that is ours, and the body must fit its schema, where a
member that the schema does not name counts as wrong. The requests sent are held to theirs too.
"""
import copy
import json
import os
import re
import time

import numpy as np

import models
import service
import stateful

try:
    import jsonschema
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

with service.Service() as told:
    API = told.call("GET", "/openapi.json").json
API["paths"] = {path: item for path, item in API["paths"].items() # operators.py sees to the others
                if item.get("post", {}).get("tags") != ["calls"]}
COMMON = {"Date", "Connection", "Content-Type", "Content-Length", "Allow", # and what info.description says of all
          "X-Request-Id"}


def strict(schema):
    """The schema with objects closed: what it does not name may not be there."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [strict(value) for value in schema]
    return schema


CLOSED = strict(copy.deepcopy(API["components"]))


def validate(schema, value, closed):
    components = CLOSED if closed else API["components"]
    root = {**(strict(schema) if closed else schema), "components": components}
    jsonschema.Draft202012Validator(root).validate(value)


def resolve(node):
    while "$ref" in node:
        target = node["$ref"]
        node = API
        for part in target.removeprefix("#/").split("/"):
            node = node[part]
    return node


def operation(method, path):
    """(operation, its name) of a concrete path; the pattern with the fewest variables wins."""
    path = path.partition("?")[0]
    def fits(pattern):
        any_of = ".+" if pattern.startswith("/v1/tensors/") else "[^/]+" # whose names have slashes
        return re.fullmatch(re.sub(r"\\{\w+\\}", any_of, re.escape(pattern)), path)
    found = sorted((p for p in API["paths"] if fits(p)), key=lambda p: (p.count("{"), -len(p)))
    return API["paths"][found[0]][method.lower()], f"{method} {found[0]}"


class Replies(service.ServiceTest):
    called = set()

    def check(self, method, path, body=None, headers=None, status=200):
        reply = self.service.call(method, path, body, headers)
        self.assertEqual(reply.status, status, reply.body[:300])
        described, name = operation(method, path)
        self.called.add(name)
        response = described["responses"].get(str(status)) or described["responses"].get("4XX")
        self.assertTrue(response, f"{name}: status {status} is not described")
        response = resolve(response)
        for header in reply.headers:
            self.assertIn(header, COMMON | set(response.get("headers", {})), name)
        content = response.get("content")
        if content is None:
            self.assertEqual(reply.body, b"", name)
            return reply
        media = reply.headers["Content-Type"].split(";")[0]
        self.assertIn(media, content, name)
        if "json" in media:
            validate(content[media]["schema"], reply.json, closed=True)
        elif media == "application/octet-stream":
            validate({"$ref": "#/components/schemas/InferReply"}, reply.json, closed=True)
        if isinstance(body, dict) and status < 400:
            sent = resolve(described["requestBody"])["content"]["application/json"]["schema"]
            validate(sent, body, closed=False) # these schemas are closed themselves
        return reply

    def test_what_can_be_read(self):
        for path in ("/v1/isa", "/v1/isa/features", "/v1/isa/veclen?dtype=FP32", "/v1/topology", "/v1/ops", "/v1/ops/add", "/v1/ops/sum.dim_IntList",
                     "/v1/dispatch/ops/silu/state", "/v1/dispatch/ops/silu/table", "/v1/dispatch/keys", "/v1/kernels", "/v1/kernels/add", "/v1/kernels/linear",
                     "/v1/dispatch/keyset?keys=CPU,Tracer", "/v1/dispatch/keyset?bits=0x1", "/v1/dispatch/dangling",
                     "/v1/access", "/v1/tensors", "/v1/models", "/v1/pools", "/v1/pools/default", "/v1/tasks", "/v2", "/v2/health/live", "/v2/health/ready",
                     "/v2/models/op.conv2d", "/v2/models/op.add/ready", "/v2/models/op.add/versions/1",
                     "/v2/models/op.add/versions/1/ready",
                     "/v2/models/op.add/config", "/v2/models/op.add/versions/1/config", "/v2/systemsharedmemory/status", "/v2/cudasharedmemory/status",
                     "/metrics", "/v1/history", "/openapi.yaml", "/openapi.json", "/", "/docs", "/v1", "/web/index.html", "/web/isa.md", "/web/load.svg", "/web/book.json"):
            with self.subTest(path=path):
                self.check("GET", path)
        self.check("GET", "/", headers={"Accept": "application/json"})
        self.check("GET", "/v2", headers={"Accept": "application/json"})
        self.check("GET", "/", headers={"If-None-Match": self.check("GET", "/").headers["ETag"]}, status=304)
        self.check("GET", "/web/nosuch", status=404)
        self.check("GET", "/v1/dispatch/keyset", status=400)
        self.check("GET", "/v1/isa/veclen?dtype=INT8", status=400)
        for path in ("/v1/ops/x", "/v1/kernels/x", "/v1/kernels/x/code", "/v1/kernels/linear/code", "/v1/dispatch/ops/x/state", "/v1/dispatch/ops/x/table", "/v1/tensors/x", "/v1/pools/x",
                     "/v2/models/x", "/v2/models/x/ready", "/v2/models/op.add/versions/2",
                     "/v2/models/op.add/versions/2/ready", "/v2/models/op.add/versions/2/config", "/v1/models/x",
                     "/v1/models/x/plan", "/v1/models/x/source", "/v2/models/x/config", "/v2/systemsharedmemory/region/x/status"):
            with self.subTest(path=path):
                self.check("GET", path, status=404)

    def test_kernels(self):
        x = {"name": "self", "shape": [2, 2], "datatype": "FP32"}
        self.check("POST", "/v1/kernels/mm/tune", {"inputs": [x, {**x, "name": "mat2"}]})
        self.check("POST", "/v1/kernels/mm/tune", {"inputs": [x]}, status=400)
        self.check("POST", "/v1/kernels/x/tune", {"inputs": [x]}, status=404)
        self.check("GET", "/v1/kernels/mm")
        self.check("POST", "/v1/eval", {"expr": "relu(a + 1)", "inputs": [{"name": "a", "shape": [4096], "datatype": "FP32", "data": [1] * 4096}]})
        made = self.check("GET", "/v1/kernels/relu").json["overloads"][0]["loops"]["kept"]
        self.check("GET", "/v1/kernels/relu/code", headers={"Accept": "text/plain"}, status=200 if made else 404)
        self.check("GET", "/v1/kernels/relu/code?loop=512", status=400)
        self.check("GET", "/v1/kernels/relu/code?kernel=ref&datatype=FP32", headers={"Accept": "text/plain"})
        self.check("GET", "/v1/kernels/relu/code?kernel=ref&function=no_such", status=404)

    def test_calls(self):
        x = {"name": "self", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        body = {"inputs": [x, {**x, "name": "other"}], "parameters": {"alpha": 2}}
        for path in ("/v1/ops/add", "/v2/models/op.add/infer", "/v2/models/op.add/versions/1/infer"):
            self.check("POST", path, {**body, "parameters": {"device": "cuda", "trace": True}}, status=501)
            for more in ({}, {"explain": True}, {"trace": True}, {"autocast": "BF16"}, {"device": "refcpu"}, {"meta": True}, {"binary_data_output": True}, {"kernel": "ref"},
                         {"streams": "auto"}, {"streams": 99}, {"streams": 2, "stream_hints": {"inputs": [0, 0], "outputs": {"out": 0}}}):
                with self.subTest(path=path, more=more):
                    self.check("POST", path, {**body, "id": "7", "parameters": {"alpha": 2, **more},
                                              "outputs": [{"name": "out"}]})
            self.check("POST", path, {"inputs": [x]}, status=400)
            self.check("POST", path.replace("add", "nosuch"), body, status=404)
            self.check("POST", path, b"{}", {"Host": "elsewhere.example"}, status=403)
            self.check("POST", path, b"x", {"Content-Type": "text/plain"}, status=415)
            self.check("POST", path, None, {"X-Long": "x" * 40000}, status=431) # in one piece: the server may hang up within
            binary, headers = service.pack({"self": np.ones(3), "other": np.ones(3)}, binary=True)
            self.check("POST", path, binary, headers)
            with self.service.socket() as s:
                s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2**30}\r\n\r\n".encode())
                head, _, said = s.recv(65536).partition(b"\r\n\r\n")
            self.assertIn(b" 413 ", head.split(b"\r\n")[0])
            validate({"$ref": "#/components/schemas/Problem"}, json.loads(said), closed=True)

    def test_sessions(self):
        self.service.call("PUT", "/v1/models/counter", stateful.counter())
        self.service.call("PUT", "/v1/models/cache", stateful.cache())
        self.check("GET", "/v1/models/counter")
        self.check("GET", "/v1/models/cache")
        call = {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        for parameters in ({"session": "s", "session_start": True, "session_step": 0, "session_wait_ms": 9},
                           {"sequence_id": "s", "sequence_start": False, "sequence_end": False}):
            self.check("POST", "/v2/models/counter/infer", {**call, "parameters": parameters})
        self.check("POST", "/v2/models/counter/infer", {**call, "parameters": {"session": "s", "session_step": 9}}, status=409)
        place = "/v1/models/counter/sessions"
        self.check("POST", place, {"ttl_s": 5}, status=201)
        self.check("POST", place, {"from": "nosuch"}, status=404)
        self.check("PUT", place + "/t", {"from": "s"}, status=201)
        self.check("PUT", place + "/t", {})
        self.check("PUT", place + "/t", {"ttl_s": 0}, status=400)
        self.check("PUT", "/v1/models/cache/sessions/c", {}, status=201)
        settings = "/v1/models/cache/settings"
        self.check("GET", settings)
        self.check("PUT", settings, {"sessions": {"max": 1, "ttl_s": 50, "when_full": "refuse"}})
        self.check("PUT", "/v1/models/cache/sessions/d", {}, status=507)
        self.check("PUT", settings, {"sessions": {"max": -1}}, status=400)
        keep = {"state": [{"input": "new", "dim": 1, "keep": 2}], "sticky": [], "derived": {}, "roles": {}}
        self.check("PUT", settings, keep)
        self.check("GET", settings)
        self.check("GET", "/v1/models/cache")
        self.check("PUT", settings, {"sticky": ["nosuch"]}, status=400)
        self.check("PUT", settings, {})
        self.check("GET", settings.replace("cache", "nosuch"), status=404)
        self.check("PUT", "/v1/models/cache?sessions=end", stateful.cache())
        self.check("PUT", "/v1/models/cache?sessions=x", stateful.cache(), status=400)
        self.check("GET", "/v1/models/cache/sessions/c")
        self.check("GET", place + "?limit=1")
        self.check("GET", place + "/s")
        file = self.check("GET", place + "/s", headers={"Accept": "application/x-safetensors"}).body
        self.check("PUT", place + "/r?ttl_s=5&any=1", file, {"Content-Type": "application/x-safetensors"}, status=201)
        self.check("DELETE", place + "/r?wait_ms=1", status=204)
        self.check("DELETE", place + "/r", status=404)
        self.check("GET", place + "/r", status=404)
        self.check("GET", place + "?limit=x", status=400)
        self.service.call("PUT", "/v1/models/counter", stateful.counter(9))
        self.check("GET", place + "/s")
        self.service.call("PUT", "/v1/models/decoder", stateful.decoder())
        self.check("POST", "/v2/models/decoder/generate", {"input_ids": [1, 2], "id": "7", "parameters": {"max_tokens": 3, "logprobs": 1}})
        self.check("POST", "/v2/models/decoder/generate",
                   {"input_ids": [1], "parameters": {"session": "g", "session_start": True, "temperature": 1, "stop": [2]}})
        self.check("POST", "/v2/models/decoder/generate", {"input_ids": []}, status=400)
        self.check("POST", "/v2/models/decoder/generate_stream", {"input_ids": [1], "parameters": {"max_tokens": 2}})
        self.check("POST", "/v2/models/decoder/generate_stream", {"input_ids": []}, status=400)
        self.check("POST", "/v2/models/nosuch/generate", {"input_ids": [1]}, status=404)

    def test_expressions(self):
        path, x = "/v1/eval", {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        self.check("POST", path, {"expr": "x + 2 * y", "x": [1, 2], "y": [[1], [2]], "explain": True})
        for more in ({}, {"explain": True}, {"trace": True}, {"device": "refcpu"}, {"meta": True}, {"binary_data_output": True}):
            self.check("POST", path, {"expr": "relu(x) * x + n", "inputs": [x], "parameters": {"n": 2, **more},
                                      "outputs": [{"name": "out"}]})
        self.check("POST", path, {"expr": "x +", "inputs": [x]}, status=400)
        for headers, status in (({"Host": "elsewhere.example"}, 403), ({"Content-Type": "text/plain"}, 415), ({"X-Long": "x" * 40000}, 431)):
            self.check("POST", path, None if status == 431 else b"{}", headers, status=status)
        self.check("POST", path, {"expr": "x + 1", "inputs": [x], "parameters": {"device": "cuda"}}, status=501)

    def test_schemas(self):
        path = "/v1/dispatch/schema:parse"
        self.check("POST", path, API["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"])
        self.check("POST", path, {"schema": "add(Tnsor x)"}, status=400)
        self.check("GET", path + "?schema=relu(Tensor%20self)%20-%3E%20Tensor")
        self.check("GET", path, status=400)

    def test_examples(self):
        """The requests shown are right ones, and what they get is what is shown."""
        self.check("PUT", "/v1/tensors/mlp/w1", {"shape": [3, 4], "datatype": "FP32", "data": list(range(12))}, status=201)
        infer = API["components"]["requestBodies"]["Infer"]["content"]["application/json"]["examples"]
        shown = API["components"]["responses"]["Infer"]["content"]["application/json"]["example"]
        reply = self.check("POST", "/v1/ops/add", infer["json"]["value"])
        self.assertEqual(reply.json["outputs"], shown["outputs"])
        self.check("POST", "/v1/ops/linear", infer["stored"]["value"])
        wrong = API["components"]["responses"]["BadRequest"]["content"]["application/problem+json"]["example"]
        reply = self.check("POST", "/v1/ops/relu", {"inputs": [
            {"name": "self", "shape": [4], "datatype": "FP32", "data": [1]}]}, status=400)
        self.assertEqual(reply.json, wrong)
        self.assertEqual(self.check("GET", "/v2").json,
                         API["paths"]["/v2"]["get"]["responses"]["200"]["content"]["application/json"]["example"])

    def test_tensors(self):
        example = API["paths"]["/v1/tensors/{name}"]["put"]["requestBody"]["content"]["application/json"]["example"]
        self.check("PUT", "/v1/tensors/a/b", example, status=201)
        self.check("PUT", "/v1/tensors/a/b", example)
        self.check("GET", "/v1/tensors/a/b")
        self.check("POST", "/v1/ops/matmul", {"inputs": [
            {"name": n, "parameters": {"tensor": "a/b"}} for n in ("self", "other")]})
        self.check("GET", "/v1/tensors")
        self.check("PUT", "/v1/tensors/a/b", b"x", {"Content-Type": "text/plain"}, status=415)
        self.check("PUT", "/v1/tensors/a/b", b"x", status=400)
        self.check("DELETE", "/v1/tensors/a/b", status=204)
        self.check("DELETE", "/v1/tensors/a/b", status=404)

    def test_models(self):
        self.check("PUT", "/v1/models/m", models.two(), status=201)
        self.check("PUT", "/v1/models/m", models.two())
        a, b = ({"name": n, "shape": s, "datatype": "FP32", "data": [1, 2]} for n, s in (("a", [1, 2]), ("b", [2])))
        for more in ({}, {"explain": True}, {"eager": True, "explain": True}, {"kernel": "eager"}, {"binary_data_output": True}):
            for path in ("/v2/models/m/infer", "/v2/models/m/versions/1/infer"):
                self.check("POST", path, {"inputs": [a, b], "parameters": more, "id": "7", "model_name": "m"})
        for path in ("/v1/models", "/v1/models/m", "/v1/models/m/plan", "/v1/models/m/source", "/v2/models/m", "/v2/models/m/config", "/v2/models/m/versions/1/config"):
            self.check("GET", path)
        self.check("GET", "/v1/models/m/source?asm=1")
        self.check("GET", "/v1/models/m/source?after=record")
        self.check("GET", "/v1/models/m/source?after=nosuch", status=400)
        for body in (None, {"ready": True}):
            self.check("POST", "/v2/repository/index", body)
        self.check("POST", "/v2/models/m/infer", {"inputs": [a]}, status=400)
        for body in ({"a": [[1, 2]], "b": [3, 4]}, {"a": [[1, 2]], "b": [3, 4], "explain": True}, {"inputs": [a, b], "explain": True}):
            self.check("POST", "/v1/models/m", body)
        self.check("POST", "/v1/models/m", {"a": [[1, 2]]}, status=400)
        one = {"a": [[1, 2]], "b": [3, 4], "parameters": {}}
        self.check("POST", "/v1/models/m", one, status=400, headers={"Accept": "application/x-npy"})
        self.check("POST", "/v1/ops/relu", {"self": [1, 2]}, headers={"Accept": "application/x-npy"})
        for name in ("files/a", "files/b"):
            self.check("PUT", "/v1/tensors/" + name, {"shape": [1], "datatype": "FP32", "data": [1]}, status=201)
        self.check("GET", "/v1/tensors/files/")
        for path, media in (("/v1/tensors/files/a", "application/x-npy"), ("/v1/tensors/files/", "application/x-safetensors")):
            self.check("GET", path, headers={"Accept": media})
        self.check("PUT", "/v1/models/m", b"x", status=400)
        self.check("PUT", "/v1/models/op.m", b"x", status=400)
        self.check("DELETE", "/v1/models/m", status=204)
        self.check("DELETE", "/v1/models/m", status=404)

    def test_pools(self):
        self.check("PUT", "/v1/pools/p", {"cpus": service.CPUS[0], "threads": 1, "streams": 1, "spin_us": 0,
                                          "queue_depth": 5, "pinned": False}, status=201)
        self.check("PUT", "/v1/pools/p", {"cpus": service.CPUS[0]})
        self.check("GET", "/v1/pools/p")
        self.check("POST", "/v1/pools/p/measure")
        self.check("POST", "/v1/pools/nosuch/measure", status=404)
        self.check("PUT", "/v1/pools/p", b"{", status=400)
        self.check("PUT", "/v1/pools/default", {"cpus": service.CPUS[0]}, status=409)
        self.check("DELETE", "/v1/pools/default", status=409)
        self.check("DELETE", "/v1/pools/p", status=204)
        self.check("DELETE", "/v1/pools/p", status=404)

    def test_tasks(self):
        x = {"name": "self", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        for path in ("/v1/ops/relu", "/v2/models/op.relu/infer", "/v2/models/op.relu/versions/1/infer"):
            for more in ({}, {"binary_data_output": True}):
                reply = self.check("POST", path, {"inputs": [x], "parameters": more}, {"Prefer": "respond-async"}, status=202)
                task = reply.headers["Location"]
                while self.service.call("GET", task).status == 202:
                    time.sleep(0.001)
                self.check("GET", task)
                self.check("GET", task + "?wait=1")
                self.check("GET", "/v1/tasks")
                self.check("GET", task + "?wait=x", status=400)
                self.check("DELETE", task, status=204)
                self.check("GET", task, status=404)
                self.check("DELETE", task, status=404)
        task = self.check("POST", "/v1/ops/relu", {"self": [1, 2]}, {"Prefer": "respond-async"}, status=202).headers["Location"]
        self.assertEqual(self.check("GET", task + "?wait=60").json, {"out": [1, 2]}) # in the form of its request
        body, headers = service.pack({"input": np.ones((1, 32, 128, 128), np.float32), # which would take minutes
                                      "weight": np.ones((512, 32, 5, 5), np.float32)}, {"kernel": "ref", "padding": [2, 2]}, binary=True)
        tasks = [self.check("POST", path, body, {**headers, "Prefer": "respond-async"}, status=202).headers["Location"]
                 for path, body, headers in (("/v1/ops/conv2d", body, headers), ("/v1/ops/relu", {"inputs": [x]}, {}))]
        while self.service.call("GET", tasks[0]).json["state"] == "queued":
            time.sleep(0.001)
        self.check("GET", tasks[1] + "?wait=0.001", status=202)
        self.check("DELETE", tasks[0], status=204) # running: stopped soon
        self.check("GET", "/v1/tasks")

    def test_shared_memory(self):
        place = {"key": f"/tensord_replies_{os.getpid()}", "offset": 64, "byte_size": 8192}
        region = "/v2/systemsharedmemory/region/input"
        self.check("POST", region + "/register", place, status=404)
        with open("/dev/shm" + place["key"], "xb") as f:
            f.truncate(64 + 8192)
        self.addCleanup(os.unlink, f.name)
        self.check("POST", region + "/register", {**place, "byte_size": 8193}, status=400)
        self.check("POST", region + "/register", place)
        self.assertEqual(self.check("GET", region + "/status").json, [{"name": "input", **place}])
        infer = API["components"]["requestBodies"]["Infer"]["content"]["application/json"]["examples"]["shared"]["value"]
        for path in ("/v1/ops/relu", "/v2/models/op.relu/infer"):
            self.check("POST", path, infer)
        self.check("PUT", "/v1/tensors/shm", {k: v for k, v in infer["inputs"][0].items() if k != "name"}, status=201)
        self.check("DELETE", "/v1/tensors/shm", status=204)
        self.check("POST", region + "/unregister", b"")
        self.check("POST", "/v2/systemsharedmemory/unregister", b"")
        cuda = "/v2/cudasharedmemory"
        self.check("POST", cuda + "/region/x/unregister", b"")
        self.check("POST", cuda + "/unregister", b"")

    @classmethod
    def tearDownClass(cls):
        every = {f"{method.upper()} {path}" for path, item in API["paths"].items() for method in item
                 if method in ("get", "put", "post", "delete")}
        assert cls.called == every, f"not called: {sorted(every - cls.called)}"


if __name__ == "__main__":
    service.main()
