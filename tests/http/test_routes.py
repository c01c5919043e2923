#!/usr/bin/env python3
"""Every route answers what openapi.yaml says, methods and paths that are not there are refused."""
import gzip
import os
import pathlib
import re

import service

np = service.np

try:
    import yaml
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEVELS = ["DEFAULT", "AVX2", "AVX2_VNNI", "AVX512", "AVX512_VNNI", "AVX512_BF16", "AMX",
          "AVX512_FP16"]


def routes():
    text = (ROOT / "api/routes.def").read_text()
    return re.findall(r'^TD_ROUTE\((\w+), "([^"?]+)', text, re.M)


def concrete(pattern):
    """A path of the pattern whose variables name nothing that is there."""
    return re.sub(r"{(\w+)\*?}", lambda m: "7" if m[1] == "version" else "nosuch", pattern)


class Bodies(service.ServiceTest):
    def test_small_ones(self):
        """What takes no tensor and no model takes 64 KiB, announced or in chunks: an HTTP thread reads it."""
        text = (ROOT / "api/routes.def").read_text()
        small = re.findall(r'^TD_ROUTE\((POST|PUT), "([^"?]+)", \w+, small, \w+\)', text, re.M)
        self.assertIn(("POST", "/v2/repository/index"), small)
        self.assertIn(("PUT", "/v1/pools/{name}"), small)
        for method, pattern in small:
            path = concrete(pattern)
            self.problem(self.service.call(method, path, b" " * 65537), 413, "65537", "65536")
            reply = self.service.call(method, path, b"{" + b" " * 65535)
            self.assertNotEqual(reply.status, 413, path)
            c = self.service.connect()
            c.request(method, path, iter([b" " * 40000] * 2), encode_chunked=True)
            self.problem(service.Reply(c.getresponse()), 413, "65536")
            c.close()
        for method, pattern in re.findall(r'^TD_ROUTE\((POST|PUT), "([^"?]+)", \w+, any, \w+\)', text, re.M):
            reply = self.service.call(method, concrete(pattern), b"{" + b" " * 70000)
            self.assertIn(reply.status, (400, 404), pattern)


class Forms(service.ServiceTest):
    """What a response may be asked for, whichever route it comes from."""

    def test_line_ends(self):
        """A prompt stands on a line of its own behind every JSON; binary tensors begin right behind theirs."""
        for method, pattern in routes():
            body = {"self": [1, 2]} if method == "POST" else None
            reply = self.service.call(method, concrete(pattern).replace("/v1/ops/nosuch", "/v1/ops/relu"), body)
            if reply.body and "json" in reply.headers["Content-Type"]:
                self.assertEqual(reply.body[-2:], b"}\n" if reply.body[:1] == b"{" else b"]\n", (method, pattern))
        reply = self.service.infer("relu", {"self": np.ones(3, np.float32)}, binary=True)
        self.assertEqual((reply.out.tolist(), reply.body[reply.json_length - 1:reply.json_length]), ([1, 1, 1], b"}"))

    def test_pretty(self):
        """?pretty sets the same values anew, for people: short parts on one line, numbers side by side."""
        call = "/v1/ops/add", {"self": [[1, 2], [3, 4]], "other": 10}
        self.assertEqual(self.service.call("POST", call[0] + "?pretty", call[1]).body, b'{"out": [[11, 12], [13, 14]]}\n')
        rows = {"self": [[float(i) for i in range(60)]] * 2, "other": 0.5}
        text = self.service.call("POST", "/v1/ops/add?pretty=1", rows).body.decode()
        self.assertEqual(text.splitlines()[:3], ["{", '  "out": [', "    ["])
        self.assertGreater(len(text.splitlines()), 10)
        self.assertLessEqual(max(map(len, text.splitlines())), 101)
        for path in ("/v1/ops/softmax", "/v1/dispatch/ops/add/state", "/v1", "/v1/ops/nosuch", "/v1/tensors"):
            plain, pretty = (self.service.call("GET", path + query) for query in ("?pretty=false", "?pretty=true"))
            self.assertEqual((pretty.status, pretty.json), (plain.status, plain.json), path)
            self.assertNotIn(b"\n", plain.body[:-1])
            self.assertIn(b'": ', pretty.body)
        strings = {"expr": 'nosuch("a\\",b:{[")'}
        plain, pretty = (self.service.call("POST", "/v1/eval" + query, strings) for query in ("", "?pretty"))
        self.assertEqual((pretty.status, pretty.json), (400, plain.json))
        for path, status, words in (("/v1/pools", 400, ("pretty", "true or false")), ("/nothing", 404, ())):
            reply = self.service.call("GET", path + "?pretty=2") # what is no flag is not obeyed
            self.problem(reply, status, *words)
            self.assertNotIn(b'": ', reply.body)
        self.problem(self.service.call("GET", "/nothing?pretty=%zz"), 404)
        self.problem(self.service.call("GET", "/v1/pools?prety"), 400, "prety")
        reply = self.service.call("GET", "/v1/kernels?pretty") # beyond 128 KiB it stays as it was
        self.assertGreater(len(reply.body), 128 << 10)
        self.assertEqual(reply.body.count(b"\n"), 1)
        self.assertEqual(self.service.call("GET", "/v2/models/op.add/config?pretty").json["backend"], "tensord")

    def test_problem_as_text(self):
        """Who asks for text is told the sentence once."""
        headers = {"Accept": "text/plain"}
        reply = self.service.call("POST", "/v1/ops/softmax", {"self": [1], "dim": 5}, headers)
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (400, "text/plain; charset=utf-8"))
        self.assertEqual(reply.body, b"The request is wrong: dim: dimension 5 is out of range for a tensor of rank 1; from -1 to 0 is right\n")
        reply = self.service.call("GET", "/v1/nosuch", headers=headers)
        self.assertEqual((reply.status, reply.body[:27]), (404, b"There is no such thing: no "))
        for accept in ("*/*", "text/plain, application/json", "application/problem+json, text/plain"):
            self.problem(self.service.call("GET", "/v1/nosuch", headers={"Accept": accept}), 404, "nosuch")
        reply = self.service.call("POST", "/v1/ops/relu", {"self": [1]}, headers)
        self.assertEqual(reply.json, {"out": [1]})


class Routes(service.ServiceTest):
    def test_isa(self):
        isa = self.service.call("GET", "/v1/isa").json
        self.assertEqual([level["name"] for level in isa["levels"]], LEVELS)
        by_name = {level["name"]: level for level in isa["levels"]}
        self.assertTrue(by_name[isa["current"]]["cpu"] and by_name[isa["current"]]["binary"])
        self.assertIsNone(isa["requested"])
        flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[1].split()
        for level, flag in (("AVX2", "avx2"), ("AVX2_VNNI", "avx_vnni"), ("AVX512", "avx512vl"),
                            ("AVX512_VNNI", "avx512_vnni"), ("AVX512_BF16", "avx512_bf16")):
            self.assertEqual(by_name[level]["cpu"], flag in flags, level)
        for feature, flag in (("avx2", "avx2"), ("fma", "fma"), ("avx512_f", "avx512f")):
            self.assertEqual(isa["features"][feature], flag in flags, feature)
        for level in isa["levels"]:
            self.assertEqual(level["cpu"], not level["missing"], level)
        self.assertEqual(isa["features"], self.service.call("GET", "/v1/isa/features").json["features"])
        self.assertRegex(isa["onednn"]["version"], r"^3\.\d+\.\d+$")

    def test_topology(self):
        seen = self.service.call("GET", "/v1/topology").json
        allowed = os.sched_getaffinity(self.service.pid)
        self.assertEqual(seen["allowed"]["count"], len(allowed))
        self.assertEqual({pu["cpu"] for pu in seen["pus"] if pu["allowed"]}, allowed)
        self.assertGreaterEqual(len(seen["pus"]), len(allowed))
        self.assertTrue(all(0 < pu["busy_s"] < 1e9 for pu in seen["pus"] if pu["allowed"]))
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.assertEqual(seen["system_memory"], pages) # not beside memory: the nodes may say otherwise
        self.assertGreater(seen["memory"], 0)
        self.assertTrue(any(cache["level"] == 1 for cache in seen["caches"]))
        self.assertIn("thread", seen["decision"])

    def test_ops(self):
        ops = self.service.call("GET", "/v1/ops").json["ops"]
        names = [op["name"] for op in ops]
        self.assertEqual(len(names), len(set(names)))
        for name in ("add.Tensor", "mul.Tensor", "relu", "sigmoid", "tanh", "exp", "gelu", "sum",
                     "softmax.int", "layer_norm", "matmul", "linear", "conv2d", "transpose.int",
                     "cast"):
            self.assertIn(name, names)
        for op in ops:
            self.assertTrue(op["schema"].startswith(op["name"] + "("), op["schema"])
            self.assertEqual(op["kernels"][-1]["name"], "ref")
            self.assertTrue(op["kernels"][-1]["runnable"])
            one = self.service.call("GET", "/v1/ops/" + op["name"]).json["overloads"]
            self.assertEqual([o["name"] for o in one][:1], [op["name"]])
            self.assertTrue(one[0]["samples"] and all("=" in sample for sample in one[0]["samples"]))
            all_of_it = self.service.call("GET", "/v1/ops/" + op["op"]).json["overloads"]
            self.assertCountEqual([o["name"] for o in all_of_it], [n["name"] for n in ops if n["op"] == op["op"]])

    def test_softmax_schema(self):
        softmax = self.service.call("GET", "/v1/ops/softmax").json["overloads"][0]
        self.assertEqual(softmax["schema"],
                         "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")

    def test_v2(self):
        server = self.service.call("GET", "/v2").json
        self.assertEqual(server["name"], "tensord")
        self.assertIn("binary_tensor_data", server["extensions"])
        self.assertEqual(self.service.call("GET", "/v2/").json, server)
        self.assertEqual(self.service.call("GET", "/v2/health/live").json["live"], True)
        self.assertEqual(self.service.call("GET", "/v2/health/ready").json["ready"], True)
        for form in ("/v2/models/op.linear", "/v2/models/op.linear/versions/1"):
            model = self.service.call("GET", form).json
            self.assertEqual([i["name"] for i in model["inputs"]], ["input", "weight", "bias"])
            self.assertEqual([o["name"] for o in model["outputs"]], ["out"])
            self.assertEqual(model["versions"], ["1"])
            self.assertEqual(self.service.call("GET", form + "/ready").json,
                             {"name": "op.linear", "ready": True})
        for op in self.service.call("GET", "/v1/ops").json["ops"]:
            self.assertEqual(self.service.call("GET", "/v2/models/op." + op["name"]).status, 200)

    def test_openapi(self):
        reply = self.service.call("GET", "/openapi.yaml")
        self.assertEqual(reply.headers["Content-Type"], "application/yaml")
        written = (ROOT / "openapi/openapi.yaml").read_bytes().partition(b"\ncomponents:\n")
        self.assertTrue(reply.body.startswith(written[0]))
        self.assertIn(b"".join(written[1:]), reply.body)
        as_json = self.service.call("GET", "/openapi.json")
        self.assertEqual(as_json.headers["Content-Type"], "application/json")
        self.assertEqual(as_json.json, yaml.load(reply.body, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

    def test_lists(self):
        """/, /v1 and /v2 list every route of theirs to whoever asks for JSON."""
        wanted = {}
        for method, path in routes():
            wanted.setdefault(path, []).append(method)
        for path in ("/", "/v1", "/v2"):
            said = self.service.call("GET", path, headers={"Accept": "text/plain, application/json;q=0.9"}).json
            self.assertEqual({r["path"]: r["methods"] for r in said["routes"]},
                             {p: methods for p, methods in wanted.items() if p.startswith(path)})

    def test_nearest_route(self):
        for path, near in (("/v1/pool", "/v1/pools"), ("/v1/op/add", "/v1/ops/{op}"), ("/v1/tensor/a/b", "/v1/tensors/{name*}"),
                           ("/v1/evaluate", "/v1/eval"), ("/v1/evaluates", "/v1/eval"),
                           ("/metric", "/metrics"), ("/isa", "/v1/isa"), ("/health/live", "/v2/health/live"), ("/openapi", "/openapi.yaml"),
                           ("/v2/models/op.add/versions/1/infr", "/v2/models/{model}/versions/{version}/infer")):
            with self.subTest(path=path):
                self.problem(self.service.call("GET", path), 404, f"nearest is {near};")
        self.assertNotIn("nearest", self.problem(self.service.call("GET", "/quite/another/thing"), 404)["detail"])

    def test_page(self):
        """The page goes compressed to who takes that, and not again to who has it; it runs no foreign code."""
        plain = self.service.call("GET", "/")
        self.assertTrue(plain.body.startswith(b"<!doctype html>"))
        self.assertEqual(plain.headers["Content-Type"], "text/html; charset=utf-8")
        for word in ("default-src 'none'", "script-src 'self'", "style-src 'self'"):
            self.assertIn(word, plain.headers["Content-Security-Policy"])
        self.assertNotIn("unsafe", plain.headers["Content-Security-Policy"])
        for browser in ("gzip, deflate, br", "br;q=1.0, gzip;q=0.8", "GZIP"):
            packed = self.service.call("GET", "/", headers={"Accept-Encoding": browser, "Accept": "text/html,*/*;q=0.8"})
            self.assertEqual(packed.headers["Content-Encoding"], "gzip")
            self.assertEqual(gzip.decompress(packed.body), plain.body)
        for other in ("identity", "gzip;q=0", "gzip; q=0.0, br", "xgzip"):
            self.assertEqual(self.service.call("GET", "/", headers={"Accept-Encoding": other}).body, plain.body)
        again = self.service.call("GET", "/", headers={"If-None-Match": f'W/"x", {plain.headers["ETag"]}'})
        self.assertEqual((again.status, again.body), (304, b""))
        self.assertEqual(self.service.call("GET", "/", headers={"If-None-Match": 'W/"x"'}).status, 200)
        self.problem(self.service.call("GET", "/web/openapi.json"), 404, "openapi.json")

    def test_wrong_methods(self):
        """405 with all right methods in Allow, on every path, for methods known and unknown."""
        for path in {path for _, path in routes()}:
            right = {method for method, p in routes() if p == path}
            if "GET" in right:
                right.add("HEAD")
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"):
                if method in right:
                    continue
                with self.subTest(method=method, path=path):
                    reply = self.service.call(method, concrete(path))
                    self.problem(reply, 405, *right)
                    self.assertEqual(set(reply.headers["Allow"].split(", ")), right)

    def test_head(self):
        """The status and headers of GET and no body, on every route that can be read."""
        for method, path in routes():
            path = concrete(path)
            if method != "GET":
                continue
            with self.subTest(path=path):
                get, head = self.service.call("GET", path), self.service.call("HEAD", path)
                self.assertEqual((head.status, head.body), (get.status, b""))
                self.assertEqual(head.headers["Content-Type"], get.headers["Content-Type"])
                self.assertGreater(int(head.headers["Content-Length"]), 0)

    def test_what_is_not_there(self):
        for path in ("/v1/nosuch", "/v1/isa/nosuch", "/v1/ops/add/more", "/v3", "//v1/isa",
                     "/v1//isa", "/V1/isa", "/v1/ops/" + "x" * 3000 + "/"  + "y", "/v1/isa%00",
                     "/%76%31/isa", "*"):
            with self.subTest(path=path[:40]):
                self.problem(self.service.call("GET", path), 404)
        for path in ("/v1/ops/nosuch", "/v1/ops/add.nosuch", "/v1/tensors/nosuch", "/v1/pools/nosuch",
                     "/v2/models/nosuch", "/v2/models/op.nosuch/ready", "/v2/models/op.add/versions/2",
                     "/v2/models/add"):
            with self.subTest(path=path):
                self.problem(self.service.call("GET", path), 404, path.split("/")[3].split(".")[0])
        for path in ("/v1/ops/%", "/v1/ops/%4", "/v1/ops/%zz", "/v1/ops/add%00x"):
            with self.subTest(path=path):
                self.problem(self.service.call("GET", path), 400, "escape")

    def test_query_and_escapes(self):
        self.problem(self.service.call("GET", "/v1/isa?verbose=1&x=%zz"), 400, "verbose")
        self.problem(self.service.call("GET", "/v1/kernels/relu/code?kernel=simd&loop=0&kernel=ref"), 400, "'kernel' is given twice")
        self.problem(self.service.call("GET", "/v1/kernels/relu/code?kernels=1&kernel=ref"), 400, "'kernels' is no parameter")
        self.assertEqual(self.service.call("GET", "/v1/ops/%61dd").json["overloads"][0]["op"], "add")
        self.problem(self.service.call("GET", "/v1/ops/add%2fTensor"), 404)


if __name__ == "__main__":
    service.main()
