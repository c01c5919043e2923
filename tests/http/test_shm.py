#!/usr/bin/env python3
"""Tensors in clients' shared memory: regions, bounds, and owners who take their memory away."""
import http.client
import os
import socket
import tempfile
import threading
import time

import numpy as np

import service
from service import stored

DIRECTORY = "/dev/shm"
if not os.access(DIRECTORY, os.W_OK):
    service.skip("no /dev/shm to write to")

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
SIDE = service.slow_side(0.4)


class Segment:
    """A POSIX shared memory object of so many bytes; key is its name for the server."""
    made = 0

    def __init__(self, size):
        Segment.made += 1
        self.key = f"/tensord_test_{os.getpid()}_{Segment.made}"
        self.path = DIRECTORY + self.key
        with open(self.path, "xb") as f:
            f.truncate(size)

    def write(self, tensor, offset=0):
        with open(self.path, "r+b") as f:
            f.seek(offset)
            f.write(service.elements(tensor))

    def read(self, like, offset=0):
        with open(self.path, "rb") as f:
            f.seek(offset)
            return np.frombuffer(f.read(like.nbytes), like.dtype).reshape(like.shape)

    def shrink(self, size=0):
        os.truncate(self.path, size)

    def unlink(self):
        if os.path.exists(self.path):
            os.unlink(self.path)


def place(region, size, offset=None):
    where = {"shared_memory_region": region, "shared_memory_byte_size": size}
    return {"parameters": where if offset is None else {**where, "shared_memory_offset": offset}}


def shared(region, like, offset=None):
    """An input that lies in a region."""
    return {"shape": list(like.shape), "datatype": service.datatype(like),
            **place(region, len(service.elements(like)), offset)}


def output(region, size, offset=None, name="out"):
    return [{"name": name, **place(region, size, offset)}]


class Shm(service.ServiceTest):
    def segment(self, size):
        segment = Segment(size)
        self.addCleanup(segment.unlink)
        return segment

    def register(self, name, segment, size, offset=0, status=200):
        key = segment.key if isinstance(segment, Segment) else segment
        reply = self.service.call("POST", f"/v2/systemsharedmemory/region/{name}/register",
                                  {"key": key, "offset": offset, "byte_size": size})
        self.assertEqual(reply.status, status, reply.body)
        if status == 200:
            self.assertEqual(reply.body, b"")
            self.addCleanup(self.unregister, name)
        return reply

    def unregister(self, name=None):
        path = f"/region/{name}" if name else ""
        reply = self.service.call("POST", f"/v2/systemsharedmemory{path}/unregister")
        self.assertEqual((reply.status, reply.body), (200, b""))

    def status(self, name=None):
        path = f"/region/{name}" if name else ""
        return self.service.call("GET", f"/v2/systemsharedmemory{path}/status")

    def region(self, name, size):
        segment = self.segment(size)
        self.register(name, segment, size)
        return segment

    def run_op(self, op, inputs, parameters=None, **how):
        reply = self.service.infer(op, inputs, parameters, **how)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def mappings(self, segment):
        with open(f"/proc/{self.service.pid}/maps") as maps:
            return sum(segment.key in line for line in maps)


class Regions(Shm):
    def test_life(self):
        self.assertIn("system_shared_memory", self.service.call("GET", "/v2").json["extensions"])
        self.assertEqual(self.status().json, [])
        one, two = self.segment(8192), self.segment(100)
        self.register("one", one, 4096, 100)
        self.register("two", two, 100)
        said = {"name": "one", "key": one.key, "offset": 100, "byte_size": 4096}
        self.assertEqual(self.status("one").json, [said])
        self.assertEqual([r["name"] for r in self.status().json], ["one", "two"])
        self.problem(self.register("one", two, 10, status=400), 400, "one", "already")
        self.assertEqual(self.status("one").json, [said])
        self.unregister("one")
        self.problem(self.status("one"), 404, "one")
        self.unregister("one") # unknown is fine
        self.assertEqual([r["name"] for r in self.status().json], ["two"])
        self.unregister()
        self.assertEqual(self.status().json, [])
        self.assertEqual(self.mappings(one) + self.mappings(two), 0)
        two.unlink()
        self.problem(self.register("two", two, 10, status=404), 404, "key", two.key)

    def test_wrong_registrations(self):
        s = self.segment(4096)
        path = "/v2/systemsharedmemory/region/wrong/register"
        right = {"key": s.key, "offset": 0, "byte_size": 4096}
        for key in ("", "/", "x", s.key[1:], "//" + s.key[1:], "/a/b", "/..", "/.", "/" + "x" * 255, 5, None, [s.key]):
            with self.subTest(key=key):
                self.problem(self.service.call("POST", path, {**right, "key": key}), 400, "key")
        for what in ({"byte_size": 0}, {"byte_size": -1}, {"byte_size": 4097}, {"byte_size": 1.5}, {"byte_size": "8"},
                     {"byte_size": 2**53}, {"byte_size": 1e300}, {"byte_size": None}, {"offset": -1}, {"offset": 1},
                     {"offset": 4096}, {"offset": 2**53, "byte_size": 2**53}, {"offset": "0"}):
            with self.subTest(what=what):
                self.problem(self.service.call("POST", path, {**right, **what}), 400, "byte")
        self.problem(self.service.call("POST", path, {"key": s.key}), 400, "byte_size")
        for body in (b"", b"{", b"[]", b"1"):
            self.problem(self.service.call("POST", path, body), 400)
        for name in ("x" * 129, "a%20b", "%c3%bc", "a%2fb"):
            with self.subTest(name=name):
                reply = self.service.call("POST", f"/v2/systemsharedmemory/region/{name}/register", right)
                self.problem(reply, 400, "name")
        fifo = f"/tensord_test_fifo_{os.getpid()}"
        os.mkfifo(DIRECTORY + fifo)
        self.addCleanup(os.unlink, DIRECTORY + fifo)
        self.problem(self.service.call("POST", path, {**right, "key": fifo}), 400, "no shared memory")
        self.assertEqual(self.status().json, [])

    def test_as_many_as_there_may_be(self):
        s = self.segment(4096)
        statuses = []
        for i in range(300):
            reply = self.service.call("POST", f"/v2/systemsharedmemory/region/many{i}/register",
                                      {"key": s.key, "byte_size": 4096})
            statuses.append(reply.status)
        self.assertEqual(set(statuses), {200, 503})
        self.assertEqual(len(self.status().json), statuses.count(200))
        self.unregister()
        self.register("after", s, 4096)


class Tensors(Shm):
    def test_in_and_out(self):
        """Both routes; the result is in the region and only its shape in the reply."""
        s = self.region("r", 4096)
        s.write(A)
        s.write(B, 1000)
        inputs = {"self": shared("r", A), "other": shared("r", B, 1000)}
        for path in ("/v1/ops/{}", "/v2/models/op.{}/infer"):
            for form in ({}, {"binary": True}):
                s.write(np.full_like(A, 99), 2000)
                reply = self.run_op("add", inputs, {"alpha": 2}, path=path, outputs=output("r", 500, 2000), **form)
                self.assertEqual(reply.json["outputs"], [{"name": "out", "datatype": "FP32", "shape": [3, 4]}])
                np.testing.assert_array_equal(s.read(A, 2000), A + 2 * B)
                self.assertEqual(set(s.read(np.zeros(452, np.uint8), 2048).tolist()), {0}) # no byte more
            np.testing.assert_array_equal(self.run_op("add", inputs, path=path).out, A + B)
            np.testing.assert_array_equal(self.run_op("add", inputs, path=path, binary=True).out, A + B)

    def test_with_other_sources(self):
        """In the body, in JSON, stored and shared, in one call; binary_data false is what clients send."""
        s = self.region("mix", 4096)
        s.write(A)
        self.service.call("PUT", "/v1/tensors/bias", {"shape": [2], "datatype": "FP32", "data": [1, 2]})
        weight = np.ones((2, 4), np.float32)
        wanted = [{"name": "out", "parameters": {**place("mix", 24, 512)["parameters"], "binary_data": False}}]
        self.run_op("linear", {"input": shared("mix", A), "weight": weight, "bias": stored("bias")},
                    binary=True, outputs=wanted)
        np.testing.assert_array_equal(s.read(np.zeros((3, 2), np.float32), 512), A @ weight.T + [1, 2])
        reply = self.service.call("PUT", "/v1/tensors/kept", {"name": "kept", **shared("mix", A)})
        self.assertEqual(reply.status, 201, reply.body)
        s.write(B)
        np.testing.assert_array_equal(self.run_op("relu", {"self": stored("kept")}).out, A)

    def test_two_regions_and_types(self):
        """Every datatype; the regions' offsets count too."""
        one, two = self.segment(8192), self.segment(8192)
        self.register("one", one, 2000, 4096)
        self.register("two", two, 2000, 100)
        for name, kind in service.DATATYPES.items():
            with self.subTest(datatype=name):
                x = np.array([1, 0, 1, 1, 0], kind)
                one.write(x, 4096 + 64)
                self.run_op("add", {"self": shared("one", x, 64), "other": x}, outputs=output("two", x.nbytes, 4 + 8))
                np.testing.assert_array_equal(two.read(x, 100 + 12), x + x)

    def test_unaligned(self):
        s = self.region("odd", 4096)
        wide = A.astype(np.float64)
        for at in (1, 2, 3, 4, 7):
            s.write(A, at)
            s.write(wide, 1000 + at)
            self.run_op("mul", {"self": shared("odd", A, at), "other": shared("odd", wide, 1000 + at)},
                        outputs=output("odd", wide.nbytes, 2000 + at))
            np.testing.assert_array_equal(s.read(wide, 2000 + at), wide * wide)

    def test_bools_are_judged(self):
        s = self.region("bool", 64)
        s.write(np.array([1, 0, 2], np.uint8))
        x = np.zeros(3, bool)
        self.problem(self.service.infer("add", {"self": shared("bool", x), "other": x}), 400, "BOOL")

    def test_promoted(self):
        s = self.region("p", 4096)
        x = np.arange(6, dtype=np.int32)
        s.write(x)
        self.run_op("add", {"self": shared("p", x), "other": np.full(6, 0.5, np.float32)}, outputs=output("p", 24, 64))
        np.testing.assert_array_equal(s.read(np.zeros(6, np.float32), 64), x + np.float32(0.5))

    def test_empty_tensors(self):
        s = self.region("empty", 64)
        x = np.zeros((0, 3), np.float32)
        for at in (0, 64):
            self.run_op("relu", {"self": shared("empty", x, at)}, outputs=output("empty", 0, at))
        self.problem(self.service.infer("relu", {"self": shared("empty", x, 65)}), 400, "within")
        del s

    def test_bounds(self):
        self.region("b", 100)
        x = np.zeros(10, np.float32)
        for at in (61, 100, 2**53, 2**40):
            with self.subTest(at=at):
                self.problem(self.service.infer("relu", {"self": shared("b", x, at)}), 400, "self", "within")
                reply = self.service.infer("relu", {"self": x}, outputs=output("b", 40, at))
                self.problem(reply, 400, "out", "within")
        for size in (39, 41, 0, -40, 1.5, "40", 1e300, None):
            with self.subTest(size=size):
                wrong = shared("b", x)
                wrong["parameters"]["shared_memory_byte_size"] = size
                self.problem(self.service.infer("relu", {"self": wrong}), 400, "self", "byte_size")
        reply = self.service.infer("relu", {"self": x}, outputs=output("b", 39))
        self.problem(reply, 400, "out", "39", "40")
        for wrong in ({"shared_memory_region": "b"}, {"shared_memory_region": 5, "shared_memory_byte_size": 40},
                      {**place("b", 40)["parameters"], "shared_memory_offset": -1}):
            self.problem(self.service.infer("relu", {"self": {
                "shape": [10], "datatype": "FP32", "parameters": wrong}}), 400, "self", "shared_memory")
        self.problem(self.service.infer("relu", {"self": shared("nosuch", x)}), 404, "self", "nosuch")
        self.problem(self.service.infer("relu", {"self": x}, outputs=output("nosuch", 40)), 404, "out", "nosuch")
        two = {**shared("b", x), "data": [0] * 10}
        self.problem(self.service.infer("relu", {"self": two}), 400, "exactly one")
        both = [{"name": "out", "parameters": {**place("b", 40)["parameters"], "binary_data": True}}]
        self.problem(self.service.infer("relu", {"self": x}, outputs=both), 400, "out", "binary_data")
        self.problem(self.service.infer("relu", {"self": x}, outputs=output("b", 40) * 2), 400, "twice")

    def test_overlap(self): # DSP-35
        """Exactly in place is fine for any operator and seen by no reader; partly is refused."""
        s = self.segment(8192)
        self.register("o", s, 8192)
        self.register("again", s, 7168, 1024) # the same memory under another name
        x = np.arange(1024, dtype=np.float32)
        for op, right in (("neg", -x), ("sigmoid", 1 / (1 + np.exp(-x)))):
            s.write(x)
            self.run_op(op, {"self": shared("o", x)}, outputs=output("o", 4096))
            np.testing.assert_allclose(s.read(x), right, rtol=1e-6)
        m = np.arange(1024, dtype=np.float32).reshape(32, 32) % 7
        s.write(m)
        self.run_op("matmul", {"self": shared("o", m), "other": shared("o", m)}, outputs=output("o", 4096))
        np.testing.assert_array_equal(s.read(m), m @ m)
        for region, at in (("o", 4), ("o", 4092), ("again", 0), ("again", 3068)):
            with self.subTest(region=region, at=at):
                reply = self.service.infer("neg", {"self": shared("o", x)}, outputs=output(region, 4096, at))
                self.problem(reply, 400, "out", "overlaps", "self")
        for region, at in (("o", 4096), ("again", 3072)):
            x = np.arange(256, dtype=np.float32)
            s.write(x)
            self.run_op("neg", {"self": shared("o", x)}, outputs=output(region, 1024, at))
            np.testing.assert_array_equal(s.read(x, 4096), -x)


class OwnersWithBadManners(Shm):
    """What a client does to its own memory harms its own call only."""

    def product(self, s, side=SIDE, region="slow", **how):
        """matmul by the reference, its operands and result in the region; slow."""
        m = np.ones((side, side), np.float32)
        inputs = {"self": shared(region, m), "other": shared(region, m, m.nbytes)}
        return self.service.infer("matmul", inputs, {"kernel": "ref"},
                                  outputs=output(region, m.nbytes, 2 * m.nbytes), **how)

    def slow_region(self, side=SIDE):
        s = self.region("slow", 3 * 4 * side * side)
        s.write(np.ones(2 * side * side, np.float32))
        return s

    def running(self):
        return self.service.call("GET", "/v1/pools/default").json["running"]

    def during(self, act):
        """A region of its own, and the reply of a product in it during which act(region) happened."""
        for _ in range(10): # either side may stall until the product is done
            self.unregister("slow")
            s, replies = self.slow_region(), []
            caller = threading.Thread(target=lambda: replies.append(self.product(s)))
            caller.start()
            while caller.is_alive() and not self.running():
                time.sleep(0.002)
            act(s)
            within = self.running()
            caller.join()
            self.alive()
            if within or replies[0].status != 200:
                return s, replies[0]
        self.fail("it came too late each time")

    def test_shrunk_before(self):
        s = self.region("shrunk", 3 * 4096)
        x = np.arange(1024, dtype=np.float32)
        s.write(x)
        for left in (8192, 4096, 100, 0):
            s.shrink(left)
            for _ in range(3):
                reply = self.service.infer("neg", {"self": shared("shrunk", x, 4096)}, outputs=output("shrunk", 4096, 8192))
                self.problem(reply, 400, "shrunk", str(left))
        self.problem(self.service.infer("neg", {"self": shared("shrunk", x)}), 400, "self")
        s.shrink(3 * 4096) # grown again, it is zeros and usable
        np.testing.assert_array_equal(self.run_op("neg", {"self": shared("shrunk", x)}).out, 0 * x)
        self.alive()

    def test_shrunk_during_a_call(self):
        s, reply = self.during(Segment.shrink)
        self.problem(reply, 400, "taken away")
        self.problem(self.product(s, 10), 400, "taken away") # until it is registered anew
        s.shrink(3 * 4 * SIDE * SIDE)
        self.problem(self.product(s, 10), 400, "taken away")
        self.unregister("slow")
        self.register("slow", s, 1200)
        self.assertEqual(self.product(s, 10).status, 200)

    def test_unlinked_during_a_call(self):
        s, reply = self.during(Segment.unlink)
        self.assertEqual(reply.status, 200)
        self.assertEqual(self.product(s, 10).status, 200) # the mapping stays

    def test_unregistered_during_a_call(self):
        """The call keeps the mapping to its end; a new region of the name is another one."""
        seen = []

        def act(s):
            self.unregister("slow")
            seen.append((self.status().json, self.mappings(s)))
        s, reply = self.during(act)
        self.assertEqual((reply.status, seen[-1]), (200, ([], 1)))
        m = np.zeros((SIDE, SIDE), np.float32)
        self.assertTrue((s.read(m, 2 * m.nbytes) == SIDE).all())
        deadline = time.monotonic() + 10
        while self.mappings(s) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.mappings(s), 0)

    def test_rewritten_during_a_call(self):
        noise = np.random.default_rng(1).bytes(4 * 2 * SIDE * SIDE)
        self.assertEqual(self.during(lambda s: s.write(np.frombuffer(noise, np.uint8)))[1].status, 200)

    def test_shrunk_and_grown_all_the_time(self):
        """Small and big calls, shared inputs and outputs, against an owner who truncates at random."""
        n = 1 << 16
        s = self.region("wild", 8 * n)
        x = np.ones(n, np.float32)
        stop, seen = threading.Event(), {"200": 0, "taken away": 0, "shrunk": 0, "404": 0}

        def truncate():
            rng = np.random.default_rng(3)
            while not stop.is_set():
                s.shrink(int(rng.integers(0, 8 * n)))
                s.shrink(8 * n)
                time.sleep(rng.random() / 200)

        def call():
            connection = self.service.connect()
            while not stop.is_set():
                reply = self.service.infer("add", {"self": shared("wild", x), "other": shared("wild", x)},
                                           outputs=output("wild", 4 * n, 4 * n), connection=connection)
                what = str(reply.status)
                if reply.status == 400:
                    what = "taken away" if "taken away" in reply.json["detail"] else "shrunk"
                seen[what] += 1
                if what in ("taken away", "404"): # registering fails while it is too short
                    self.service.call("POST", "/v2/systemsharedmemory/region/wild/unregister")
                    self.service.call("POST", "/v2/systemsharedmemory/region/wild/register",
                                      {"key": s.key, "byte_size": 8 * n})
            connection.close()
        threads = [threading.Thread(target=f) for f in (truncate, call, call, call)]
        for t in threads:
            t.start()
        begin = time.monotonic()
        while time.monotonic() < begin + (60 if not seen["200"] or not seen["shrunk"] + seen["taken away"] else 3):
            time.sleep(0.1)
        stop.set()
        for t in threads:
            t.join()
        self.alive()
        print(seen)
        self.assertTrue(seen["200"] and seen["shrunk"] + seen["taken away"])


def connect(port):
    """To a listener other than the first, which may begin a moment after that."""
    connection, deadline = http.client.HTTPConnection("127.0.0.1", port), time.monotonic() + 20
    while True:
        try:
            connection.connect()
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


class Listeners(service.ServiceTest):
    """By default only clients of the same machine may name their memory, whatever others register."""

    socket_path = tempfile.mktemp(prefix="tensord_test_")
    wide = service.free_port()
    args = ("--listen", f"0.0.0.0:{wide}", "--insecure", "--listen", "unix:" + socket_path)

    def ask(self, where, method, path, body=None):
        connection = connect(self.wide if where == "wide" else self.service.port)
        if where == "unix":
            connection.close()
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(self.socket_path)
        self.addCleanup(connection.close)
        return self.service.call(method, path, body, connection=connection)

    def register(self, where, name, segment):
        return self.ask(where, "POST", f"/v2/systemsharedmemory/region/{name}/register",
                        {"key": segment.key, "byte_size": 64})

    def test_who_may(self):
        s = Segment(64)
        self.addCleanup(s.unlink)
        for where in ("loopback", "unix"):
            self.assertIn("system_shared_memory", self.ask(where, "GET", "/v2").json["extensions"])
            self.assertEqual(self.register(where, where, s).status, 200)
        self.assertNotIn("system_shared_memory", self.ask("wide", "GET", "/v2").json["extensions"])
        self.problem(self.register("wide", "wide", s), 400, "--client-shared-memory")
        self.assertEqual(self.ask("wide", "GET", "/v2/systemsharedmemory/status").json, [])
        self.problem(self.ask("wide", "GET", "/v2/systemsharedmemory/region/unix/status"), 404)
        self.assertEqual(self.ask("wide", "POST", "/v2/systemsharedmemory/unregister").status, 200)
        x = {"name": "self", **shared("unix", np.zeros(4, np.float32))}
        self.problem(self.ask("wide", "POST", "/v1/ops/relu", {"inputs": [x]}), 404, "unix")
        for where in ("loopback", "unix"):
            self.assertEqual(self.ask(where, "POST", "/v1/ops/relu", {"inputs": [x]}).status, 200)
            self.assertEqual(len(self.ask(where, "GET", "/v2/systemsharedmemory/status").json), 2)

    def test_on_and_off(self):
        s = Segment(64)
        self.addCleanup(s.unlink)
        for mode, status in (("on", 200), ("off", 400)):
            port = service.free_port()
            with service.Service("--listen", f"0.0.0.0:{port}", "--insecure", "--client-shared-memory", mode) as one:
                for at in (port, one.port):
                    connection = connect(at)
                    reply = one.call("POST", f"/v2/systemsharedmemory/region/r{at}/register",
                                     {"key": s.key, "byte_size": 64}, connection=connection)
                    connection.close()
                    self.assertEqual(reply.status, status)
        wrong = service.run("serve", "--client-shared-memory", "maybe")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("auto|on|off", wrong.stderr)


class Pages(Shm):
    """Pages of a sparse object that the server makes by touching them are part of --memory."""

    MIB = 1 << 20
    args = ("--memory", str(64 << 20))

    def held(self):
        lines = dict(line.rsplit(" ", 1) for line in self.service.call("GET", "/metrics").body.decode().splitlines())
        return float(lines["tensord_memory_bytes"]) - float(lines["tensord_memory_kept_bytes"])

    def neg(self, name, mib, at, to):
        size = mib * self.MIB
        return self.service.infer("neg", {"self": {"shape": [size // 4], "datatype": "FP32", **place(name, size, at * self.MIB)}},
                                  outputs=output(name, size, to * self.MIB))

    def test_sparse(self):
        before = self.held()
        self.region("sparse", 256 * self.MIB)
        self.problem(self.neg("sparse", 40, 0, 40), 503, "shared memory", "--memory")
        self.assertLess(self.held(), before + self.MIB)
        for _ in range(3):
            self.assertEqual(self.neg("sparse", 16, 0, 16).status, 200)
            self.assertGreaterEqual(self.held(), before + 32 * self.MIB)
            self.assertLess(self.held(), before + 33 * self.MIB)
        self.problem(self.neg("sparse", 16, 32, 48), 503, "shared memory")
        self.assertEqual(self.neg("sparse", 2, 14, 31).status, 200) # half there
        self.unregister("sparse")
        self.assertLess(self.held(), before + self.MIB)

    def test_written(self):
        """What the client has written is its own."""
        before, size = self.held(), 160 * self.MIB
        segment = self.region("written", size)
        with open(segment.path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        reply = self.neg("written", 60, 0, 80)
        self.assertEqual(reply.status, 200, reply.body[:300])
        self.assertLess(self.held(), before + self.MIB)

    def test_what_is_not_touched(self):
        """A call that is refused gives back what it took."""
        before = self.held()
        self.region("refused", 64 * self.MIB)
        reply = self.service.infer("neg", {"self": {"shape": [4 * self.MIB], "datatype": "FP32", **place("refused", 16 * self.MIB)}},
                                   outputs=output("refused", 5, 32 * self.MIB))
        self.problem(reply, 400, "shared_memory_byte_size")
        self.assertLess(self.held(), before + self.MIB)


if __name__ == "__main__":
    service.main()
