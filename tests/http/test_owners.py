#!/usr/bin/env python3
"""What a token owns and where it ends: sessions, tasks, names that it stores under, shared memory, limits."""
import json
import socket
import time

import numpy as np

import service
import stateful
import tokens

ADD = {"self": [1, 2], "other": 10}
ASYNC = {"Prefer": "respond-async"}
X = np.ones((2, 4), np.float32)


class Owners(tokens.AccessTest):
    @classmethod
    def more_tokens(cls):
        for name in ("ann", "bob"):
            cls.tokens.add(name, "run,read,store", prefix=name + "/")
        cls.tokens.add("boss", "run,admin")
        cls.tokens.add("looker", "run,read")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        put = cls.service.call("PUT", "/v1/models/counter", stateful.counter(), cls.tokens.headers("all"))
        assert put.status == 201, put.body

    def step(self, who, session, path="/v1/models/counter", **parameters):
        body, headers = service.pack({"x": X}, {"session": session, **parameters})
        return self.ask(who, "POST", path, body, headers)

    def sessions(self, who):
        said = self.ask(who, "GET", "/v1/models/counter/sessions").json
        self.assertEqual(said["count"], len(said["sessions"]))
        return sorted((s["token"], s["name"]) for s in said["sessions"])

    def test_sessions(self):
        """A name is each token's own; others' are not there, by any route; who has admin sees them."""
        path = "/v1/models/counter/sessions/"
        for n in range(3):
            self.assertEqual(self.step("ann", "s", session_start=n == 0).status, 200)
        self.problem(self.step("bob", "s"), 404, "no session 's'")
        self.problem(self.step("bob", "s", "/v2/models/counter/infer"), 404)
        for method, body, headers in (("GET", None, None), ("GET", None, {"Accept": "application/x-safetensors"}), ("DELETE", None, None)):
            self.problem(self.ask("bob", method, path + "s", body, headers), 404, "no session 's'")
        self.problem(self.ask("bob", "POST", path[:-1], {"from": "s"}), 404, "no session 's'")
        self.assertEqual(self.step("bob", "s", session_start=True).status, 200) # another one of that name
        self.assertEqual((self.sessions("ann"), self.sessions("bob"), self.sessions("looker")), ([("ann", "s")], [("bob", "s")], []))
        self.assertEqual([self.ask(who, "GET", path + "s").json["step"] for who in ("ann", "bob")], [3, 1])
        self.assertEqual(self.sessions("boss"), [("ann", "s"), ("bob", "s")])
        self.assertIn(self.ask("boss", "GET", path + "s").json["token"], ("ann", "bob"))
        self.assertEqual(self.ask("bob", "DELETE", path + "s").status, 204)
        self.assertEqual(self.ask("ann", "GET", path + "s").json["step"], 3)
        self.assertNotIn("ended", self.problem(self.ask("looker", "GET", path + "s"), 404)["detail"]) # nor that it was
        self.assertEqual(self.ask("ann", "PUT", path + "t", {"from": "s"}).status, 201)
        self.assertEqual(self.ask("boss", "DELETE", path + "t").status, 204)
        self.assertEqual(self.ask("ann", "DELETE", path + "s").status, 204)

    def test_tasks(self):
        reply = self.ask("ann", "POST", "/v1/ops/add", ADD, ASYNC)
        self.assertEqual(reply.status, 202)
        path = reply.headers["Location"]
        self.problem(self.ask("bob", "GET", path + "?wait=1"), 404)
        self.problem(self.ask("bob", "DELETE", path), 404)
        seen = lambda who: [path.rpartition("/")[2] == t["id"] for t in self.ask(who, "GET", "/v1/tasks").json["tasks"]]
        self.assertEqual([any(seen(who)) for who in ("bob", "ann", "boss")], [False, True, True])
        self.assertEqual(self.ask("ann", "GET", path + "?wait=10").json, {"out": [11, 12]})
        self.assertEqual(self.ask("boss", "GET", path).json, {"out": [11, 12]})
        self.assertEqual(self.ask("ann", "DELETE", path).status, 204)

    def forbidden(self, reply, *words):
        self.refused(reply, 403, "insufficient_scope")
        for word in words:
            self.assertIn(word, reply.json["detail"])

    def test_names(self):
        """What is stored or removed, by whichever route, begins with the prefix; a call that stores needs the scope."""
        w = {"shape": [2], "datatype": "FP32", "data": [1, 2]}
        for who, name, right in (("ann", "ann/w", True), ("bob", "ann/w", False), ("bob", "annx", False), ("bob", "bob", False),
                                 ("bob", "bob/w", True), ("all", "free", True), ("bob", "free", False)):
            reply = self.ask(who, "PUT", "/v1/tensors/" + name, w)
            self.assertEqual(reply.status, 201) if right else self.forbidden(reply, name)
        self.assertEqual(self.ask("bob", "GET", "/v1/tensors/ann/w").json["data"], [1, 2]) # what is stored is there to be used
        for path in ("ann/w", "ann/", "free", "an", "b"):
            self.forbidden(self.ask("bob", "DELETE", "/v1/tensors/" + path), "bob/")
        self.forbidden(self.ask("bob", "PUT", "/v1/tensors/ann%2fw", w), "ann/w")
        into = lambda name: {"inputs": [{"name": "self", "shape": [2], "datatype": "FP32", "data": [1, -1]}],
                             "outputs": [{"name": "out", "parameters": {"tensor": name}}]}
        self.forbidden(self.ask("bob", "POST", "/v1/ops/relu", into("ann/w")), "ann/w")
        self.forbidden(self.ask("looker", "POST", "/v1/ops/relu", into("ann/w")), "store")
        self.forbidden(self.ask("looker", "POST", "/v2/models/op.relu/infer", into("x")), "store")
        self.assertEqual(self.ask("bob", "POST", "/v1/ops/relu", into("bob/r")).status, 200)
        task = self.ask("bob", "POST", "/v1/ops/relu", into("bob/t"), ASYNC)
        self.assertEqual(self.ask("bob", "GET", task.headers["Location"] + "?wait=10").status, 200)
        self.assertEqual(self.ask("bob", "GET", "/v1/tensors/bob/t").json["data"], [1, 0])
        place = {"inputs": [{"name": "self", **service.stored("ann/w")}]}
        self.forbidden(self.ask("bob", "POST", "/v1/ops/relu_", place), "ann/w")
        self.forbidden(self.ask("looker", "POST", "/v1/ops/relu_", place), "store")
        file = self.ask("ann", "GET", "/v1/tensors/ann/w", None, {"Accept": "application/x-safetensors"}).body
        kind = {"Content-Type": "application/x-safetensors"}
        self.assertEqual(self.ask("bob", "PUT", "/v1/tensors/bob", file, kind).status, 200) # as bob/w
        self.forbidden(self.ask("bob", "PUT", "/v1/tensors/ann", file, kind), "ann/w")
        for who, name, right in (("all", "m", True), ("bob", "m", False), ("bob", "bobm", False)):
            reply = self.ask(who, "PUT", "/v1/models/" + name, stateful.counter())
            self.assertEqual(reply.status, 201) if right else self.forbidden(reply, name)
        self.forbidden(self.ask("bob", "DELETE", "/v1/models/m"), "m")
        self.forbidden(self.ask("bob", "PUT", "/v1/models/m/settings", {}), "m")
        self.assertEqual(self.ask("all", "DELETE", "/v1/models/m").status, 204)
        self.assertEqual(self.ask("bob", "DELETE", "/v1/tensors/bob/").status, 204)
        self.assertEqual(self.ask("ann", "GET", "/v1/tensors/ann/w").json["data"], [1, 2])

    def test_shared_memory(self):
        """A region is for those who could have registered it."""
        at = {"shared_memory_region": "r", "shared_memory_byte_size": 8}
        call = {"inputs": [{"name": "self", "shape": [2], "datatype": "FP32", "parameters": at}]}
        self.forbidden(self.ask("ann", "POST", "/v1/ops/relu", call), "admin")
        self.problem(self.ask("boss", "POST", "/v1/ops/relu", call), 404, "'r'")
        self.forbidden(self.ask("ann", "PUT", "/v1/tensors/ann/s", {"shape": [2], "datatype": "FP32", "parameters": at}), "admin")


class Limits(tokens.AccessTest):
    args = ("--memory", "256M")

    @classmethod
    def more_tokens(cls):
        cls.tokens.add("slow", "run,read", rate=5)
        cls.tokens.add("small", "run,read,store", flight="1M", store=100000)
        cls.tokens.add("part", "run,store,read", store="1%")
        cls.tokens.add("maker", "admin", pools=2)
        cls.tokens.add("keeper", "run,read,store", memory=100000)

    def over(self, reply, *words):
        said = self.problem(reply, 429, *words)
        self.assertEqual(said["type"], "/problems/limit")
        self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)

    def test_rate(self):
        """Five at once, then five a second, over however many connections, heads that are known too."""
        c = self.service.connect()
        begin, got = time.monotonic(), []
        while time.monotonic() < begin + 2:
            reply = self.ask("slow", "POST", "/v1/ops/add", ADD, connection=c if len(got) % 2 else None)
            got.append(reply.status)
            if reply.status != 200:
                self.over(reply, "5 requests a second")
        took = time.monotonic() - begin
        c.close()
        self.assertEqual(got[:5], [200] * 5)
        self.assertIn(429, got)
        self.assertLessEqual(got.count(200), 5 * took + 6)
        self.assertEqual(self.ask("run", "POST", "/v1/ops/add", ADD).status, 200)
        got = [self.ask("slow", "PUT", "/v1/pools/x", {"threads": 1}).status for _ in range(20)] # which it may not
        self.assertIn(429, got)
        self.assertGreater(self.metric('tensord_access_refused_total{why="limit"}'), 0)

    def test_flight(self):
        body, headers = service.pack({"self": np.zeros(150000, np.float32)}, binary=True)
        self.assertEqual(self.ask("small", "POST", "/v1/ops/sum", body, {**headers}).status, 200)
        def begin(length): # a body that is only announced holds what it may bring
            c = self.service.connect()
            c.putrequest("POST", "/v1/ops/sum")
            for header in {**headers, **self.tokens.headers("small"), "Content-Length": str(length)}.items():
                c.putheader(*header)
            c.endheaders(body[:1000])
            return c
        c = begin(2 << 20)
        self.problem(service.Reply(c.getresponse()), 413, "flight")
        c.close()
        c = begin(len(body))
        seen = lambda: self.ask("small", "GET", "/v1/access").json["used"]["flight_bytes"]
        self.assertTrue(service.eventually(lambda: seen() >= len(body)))
        other = begin(len(body))
        self.over(service.Reply(other.getresponse()), "flight")
        other.close()
        chunks = (body[i:i + 50000] for i in range(0, len(body), 50000))
        other = self.service.connect()
        other.request("POST", "/v1/ops/sum", chunks, {**headers, **self.tokens.headers("small")}, encode_chunked=True)
        self.over(service.Reply(other.getresponse()), "flight")
        other.close()
        self.assertEqual(self.ask("all", "POST", "/v1/ops/sum", body, headers).status, 200)
        c.send(body[1000:])
        self.assertEqual(service.Reply(c.getresponse()).status, 200)
        c.close()
        self.assertTrue(service.eventually(lambda: seen() == 0), seen())

    def test_replies_under_way(self):
        """A reply that its client does not read counts as well."""
        body, headers = service.pack({"self": np.zeros(1, np.float32)}, {"size": [20_000_000]}, binary=True)
        c = self.service.connect()
        c.request("POST", "/v1/ops/expand", body, {**headers, **self.tokens.headers("small")})
        seen = lambda: self.ask("small", "GET", "/v1/access").json["used"]["flight_bytes"]
        self.assertTrue(service.eventually(lambda: seen() >= 80_000_000), seen())
        x, headers = service.pack({"self": np.zeros(100, np.float32)}, binary=True)
        self.over(self.ask("small", "POST", "/v1/ops/sum", x, headers), "flight")
        c.close()
        self.assertTrue(service.eventually(lambda: seen() == 0), seen())

    def test_flight_of_replies(self):
        """Those that nobody reads: once they are more than the token may have, nothing of its begins."""
        x = json.dumps({"shape": [1000000], "datatype": "FP32"}).encode()
        self.assertEqual(self.ask("all", "PUT", "/v1/tensors/long", x + bytes(4000000), {"Inference-Header-Content-Length": str(len(x))}).status, 201)
        unread = []
        for _ in range(20):
            c = self.service.socket(60)
            self.addCleanup(c.close)
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.sendall(f"GET /v1/tensors/long HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-npy\r\nAuthorization: Bearer "
                      f"{self.tokens.secrets['small']}\r\n\r\n".encode())
            unread.append(c)
        got = [int(c.recv(20).split(b" ")[1]) for c in unread]
        self.assertLess(got.count(200), 10)
        self.assertEqual(got.count(200) + got.count(429), 20)
        self.over(self.ask("small", "POST", "/v1/ops/add", ADD), "flight")
        self.assertEqual(self.ask("small", "GET", "/v1/access").status, 200)
        self.assertEqual(self.ask("all", "DELETE", "/v1/tensors/long").status, 204)
        for c in unread:
            c.close()
        self.assertTrue(service.eventually(lambda: self.ask("small", "POST", "/v1/ops/add", ADD).status == 200))

    def test_store(self):
        """What is stored in its name, whoever had the name's tensor before; what is given back is free again."""
        def put(who, name, n):
            return self.ask(who, "PUT", "/v1/tensors/" + name, {"shape": [n], "datatype": "FP32", "data": [0.5] * n})
        self.assertEqual(put("small", "a", 15000).status, 201)
        self.over(put("small", "b", 15000), "store")
        self.problem(self.ask("all", "GET", "/v1/tensors/b"), 404)
        used = self.ask("small", "GET", "/v1/access").json
        self.assertEqual(used["limits"], {"flight_bytes": 1 << 20, "store_bytes": 100000})
        self.assertGreaterEqual(used["used"]["store_bytes"], 60000)
        call = {"inputs": [{"name": "self", "shape": [1], "datatype": "FP32", "data": [1]}], "parameters": {"size": [20000]},
                "outputs": [{"name": "out", "parameters": {"tensor": "c"}}]}
        self.over(self.ask("small", "POST", "/v1/ops/expand", call), "store")
        self.assertEqual(put("all", "b", 15000).status, 201)
        self.assertEqual(self.ask("small", "DELETE", "/v1/tensors/a").status, 204)
        self.assertEqual(self.ask("small", "GET", "/v1/access").json["used"]["store_bytes"], 0)
        self.assertEqual(put("small", "b", 15000).status, 200)
        self.assertEqual(self.ask("all", "DELETE", "/v1/tensors/b").status, 204)
        self.assertEqual(self.ask("small", "GET", "/v1/access").json["used"]["store_bytes"], 0)
        limit = self.ask("part", "GET", "/v1/access").json["limits"]["store_bytes"]
        self.assertEqual(limit, (128 << 20) // 100)
        self.over(put("part", "p", limit // 4 + 1), "store")

    def test_memory(self):
        """Sessions and results of tasks, which are given back with them."""
        used = lambda: self.ask("keeper", "GET", "/v1/access").json["used"]["memory_bytes"]
        self.assertEqual(self.ask("all", "PUT", "/v1/models/counter", stateful.counter()).status, 201)
        big = {"self": [1] * 2000, "other": 10}
        reply = self.ask("keeper", "POST", "/v1/ops/add", big, ASYNC)
        self.assertEqual(reply.status, 202)
        self.assertGreater(used(), 2000)
        self.assertEqual(self.ask("keeper", "GET", reply.headers["Location"] + "?wait=10").status, 200)
        self.over(self.ask("keeper", "POST", "/v1/ops/add", {**big, "self": [1] * 40000}, ASYNC), "memory")
        self.assertEqual(self.ask("keeper", "DELETE", reply.headers["Location"]).status, 204)
        self.assertTrue(service.eventually(lambda: used() == 0), used())
        path, n = "/v1/models/counter/sessions/", 0
        while (reply := self.ask("keeper", "PUT", f"{path}s{n}", {})).status == 201:
            n += 1
        self.over(reply, "memory")
        self.assertGreater(n, 10)
        self.assertEqual(self.ask("all", "PUT", path + "s", {}).status, 201)
        self.assertEqual(self.ask("keeper", "DELETE", path + "s0").status, 204)
        self.assertEqual(self.ask("keeper", "PUT", path + "more", {}).status, 201)
        self.assertEqual(self.ask("all", "DELETE", "/v1/models/counter").status, 204)
        self.assertTrue(service.eventually(lambda: used() == 0), used())

    def test_pools(self):
        cpu = {"cpus": service.CPUS[0], "threads": 1}
        for name, status in (("a", 201), ("a", 200), ("b", 201)):
            self.assertEqual(self.ask("maker", "PUT", "/v1/pools/" + name, cpu).status, status)
        self.over(self.ask("maker", "PUT", "/v1/pools/c", cpu), "2 pools")
        self.problem(self.ask("maker", "PUT", "/v1/pools/a", {"cpus": "x"}), 400)
        self.assertEqual(self.ask("all", "PUT", "/v1/pools/c", cpu).status, 201)
        self.assertEqual(self.ask("all", "DELETE", "/v1/pools/a").status, 204)
        self.problem(self.ask("maker", "PUT", "/v1/pools/d", {"cpus": "x"}), 400)
        self.assertEqual(self.ask("maker", "PUT", "/v1/pools/d", cpu).status, 201)
        for name in "bcd":
            self.assertEqual(self.ask("all", "DELETE", "/v1/pools/" + name).status, 204)

    def test_accounts_stay(self):
        """What a name holds outlives the reading of its file, and its limits are the new ones."""
        put = lambda n: self.ask("part", "PUT", f"/v1/tensors/q{n}", {"shape": [1000], "datatype": "FP32", "data": [1] * 1000})
        self.assertEqual(put(0).status, 201)
        before = self.ask("part", "GET", "/v1/access").json["used"]["store_bytes"]
        line = self.tokens.lines["part"]
        self.tokens.lines["part"] = line.replace("store=1%", "store=6000")
        self.tokens.write()
        self.assertTrue(service.eventually(
            lambda: self.ask("part", "GET", "/v1/access").json["limits"]["store_bytes"] == 6000))
        self.assertEqual(self.ask("part", "GET", "/v1/access").json["used"]["store_bytes"], before)
        self.over(put(1), "store")
        self.tokens.lines["part"] = line
        self.tokens.write()
        self.assertTrue(service.eventually(lambda: put(1).status in (200, 201)))


if __name__ == "__main__":
    service.main()
