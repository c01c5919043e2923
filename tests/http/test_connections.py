#!/usr/bin/env python3
"""HTTP itself: keep-alive, pipelining, bodies in pieces, Expect, many clients at once, limits."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import socket
import threading
import time

import numpy as np

import service

ADD = json.dumps({"inputs": [{"name": n, "shape": [2], "datatype": "FP32", "data": [1, 2]}
                             for n in ("self", "other")]}).encode()


def post(body, *headers, path="/v1/ops/add"):
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def read_replies(s, n):
    """The (status, body) of n replies from a socket, and what came after them."""
    replies, data = [], b""
    while len(replies) < n:
        head, end, rest = data.partition(b"\r\n\r\n")
        size = re.search(rb"\r\nContent-Length: (\d+)", head) if end else None
        if size and len(rest) >= int(size[1]):
            replies.append((int(head.split()[1]), rest[:int(size[1])]))
            data = rest[int(size[1]):]
            continue
        piece = s.recv(65536)
        assert piece, f"closed after {len(replies)} of {n} replies"
        data += piece
    return replies, data


class Connections(service.ServiceTest):
    def test_all_at_once(self):
        """As many as libmicrohttpd takes events for in one go, and around that: all send, then wait."""
        for n in (127, 128, 129, 256, 384):
            sockets = [self.service.socket() for _ in range(n)]
            begin = time.monotonic()
            for turn in range(5):
                for s in sockets:
                    s.sendall(post(ADD))
                for s in sockets:
                    self.assertEqual(read_replies(s, 1)[0][0][0], 200)
            self.assertLess(time.monotonic() - begin, 100 if service.SANITIZED else 10, n)
            for s in sockets:
                s.close()

    def test_closed_in_the_middle(self):
        """Clients that go away within a request leave nothing behind, long before the idle time."""
        def descriptors():
            return len(os.listdir(f"/proc/{self.service.pid}/fd"))
        before, request = descriptors(), post(b" " * 5000)
        big = post(json.dumps({"inputs": [{"name": "self", "shape": [400000], "datatype": "FP32",
                                           "data": [0.123456] * 400000}]}).encode(), path="/v1/ops/relu")
        sockets = [self.service.socket() for _ in range(50)]
        for s in sockets: # known to the server
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read_replies(s, 1)
        with self.service.socket(60) as busy:
            busy.sendall(big) # the end then comes along with the last bytes
            for k, s in enumerate(sockets, 1):
                s.sendall(request[:k * len(request) // 51])
                s.close()
            read_replies(busy, 1)
        end = time.monotonic() + (60 if service.SANITIZED else 5)
        while descriptors() > before and time.monotonic() < end:
            time.sleep(0.05)
        self.assertLessEqual(descriptors(), before)

    def test_clients_that_left_the_queue(self):
        """What they asked for is not computed when its turn comes; what others asked for is."""
        body, headers = service.pack({"input": np.ones((1, 32, 128, 128), np.float32), "weight": np.ones((512, 32, 5, 5), np.float32)},
                                     {"kernel": "ref", "padding": [2, 2], "timeout_ms": 60000}, binary=True)
        slow = self.service.call("POST", "/v1/ops/conv2d", body, {**headers, "Prefer": "respond-async"})
        self.assertEqual(slow.status, 202)
        vector, square = np.ones(1 << 15, np.float32), np.ones((128, 128), np.float32)
        tried = ((("erf", "rsqrt"), {"self": vector}, False), # text that a worker is to read
                 (("mm", "bmm"), {"self": square, "mat2": square}, True)) # what is read already, too much for inline
        left, stay = [], []
        for (name, other), inputs, binary in tried:
            for op, sockets in ((name, left), (name, left), (other, stay)):
                inputs = {k: x[None] if op == "bmm" else x for k, x in inputs.items()}
                body, headers = service.pack(inputs, {"kernel": "ref"}, binary=binary)
                sockets.append(self.service.socket(60))
                sockets[-1].sendall(post(body, *map(": ".join, headers.items()), path="/v1/ops/" + op))
        self.assertTrue(service.eventually(lambda: self.service.call("GET", "/v1/pools/default").json["depth"] == 6))
        for s in left:
            s.close()
        time.sleep(2.5) # which the server sees
        self.assertEqual(self.service.call("DELETE", slow.headers["Location"]).status, 204)
        for s in stay:
            with s:
                self.assertEqual(read_replies(s, 1)[0][0][0], 200)
        said = self.service.call("GET", "/metrics").body.decode()
        for (name, other), *_ in tried:
            self.assertIn(f'op="{other}"', said)
            self.assertNotIn(f'op="{name}"', said)

    def test_half_closed(self):
        """A client that has nothing more to say may close its side; it is answered all the same, also by a worker
        and while others are connected."""
        big = np.ones((300, 300), np.float32)
        body, headers = service.pack({"self": big, "other": big}, binary=True)
        by_worker = post(body, *(f"{k}: {v}" for k, v in headers.items()), path="/v1/ops/matmul")
        live = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for others in (0, 1, 3):
            with contextlib.ExitStack() as stack:
                for _ in range(others):
                    other = stack.enter_context(self.service.socket())
                    other.sendall(live)
                    read_replies(other, 1)
                for request in (post(ADD), by_worker, live) * 10:
                    with self.service.socket() as s:
                        s.sendall(request)
                        s.shutdown(socket.SHUT_WR)
                        self.assertEqual(read_replies(s, 1)[0][0][0], 200, (others, request[:30]))
        n = 700
        body = json.dumps({"inputs": [{"name": name, "shape": [n, n], "datatype": "FP32", "data": [1] * n * n}
                                      for name in ("self", "other")], "parameters": {"kernel": "ref"},
                           "outputs": [{"name": "out", "parameters": {"tensor": "half-closed"}}]}).encode()
        with self.service.socket(60) as s:
            s.sendall(post(body, path="/v1/ops/matmul"))
            s.shutdown(socket.SHUT_WR)
            self.assertEqual(read_replies(s, 1)[0][0][0], 200)
            self.assertEqual(s.recv(1), b"")

    def test_keep_alive(self):
        """One connection for everything: errors, bodies that were not read, empty replies."""
        c = self.service.connect()
        self.service.call("GET", "/v1/isa", connection=c)
        first = c.sock
        for _ in range(200):
            self.assertEqual(self.service.call("POST", "/v1/ops/add", ADD, connection=c).status, 200)
            self.assertEqual(self.service.call("POST", "/v1/ops/nosuch", ADD, connection=c).status, 404)
            self.assertEqual(self.service.call("DELETE", "/v1/isa", connection=c).status, 405)
            self.assertEqual(self.service.call("HEAD", "/v1/isa", connection=c).status, 200)
            self.assertEqual(self.service.call("POST", "/v1/ops/add", b"{", connection=c).status, 400)
        self.assertIs(c.sock, first)
        c.close()

    def test_http_1_0_and_close(self):
        for request in (b"GET /v1/isa HTTP/1.0\r\n\r\n",
                        b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
            with self.service.socket() as s:
                s.sendall(request)
                data = b""
                while piece := s.recv(65536):
                    data += piece
            self.assertIn(b" 200 OK\r\n", data[:20])
            self.assertTrue(data.endswith(b"}\n"))

    def test_pipelining(self):
        """Replies come in the order of the requests, small ones, big ones and wrong ones."""
        big = np.ones((300, 300), np.float32)
        body, headers = service.pack({"self": big, "other": big}, {"binary_data_output": False}, binary=True)
        slow = post(body, *(f"{k}: {v}" for k, v in headers.items()), path="/v1/ops/matmul")
        requests = [post(ADD), slow, b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n\r\n", post(b"{"), post(ADD)] * 4
        with self.service.socket(60) as s:
            s.sendall(b"".join(requests))
            replies, rest = read_replies(s, len(requests))
        self.assertEqual([status for status, _ in replies], [200, 200, 200, 400, 200] * 4)
        self.assertEqual(rest, b"")
        for at in range(0, len(replies), 5):
            self.assertEqual(json.loads(replies[at][1])["outputs"][0]["data"], [2.0, 4.0])
            self.assertEqual(set(json.loads(replies[at + 1][1])["outputs"][0]["data"]), {300.0})
            self.assertIn(b'"current"', replies[at + 2][1])

    def test_a_request_in_small_pieces(self):
        request = post(ADD)
        with self.service.socket() as s:
            for at in range(0, len(request), 7):
                s.sendall(request[at:at + 7])
                time.sleep(0.001)
            self.assertEqual(read_replies(s, 1)[0][0][0], 200)

    def test_chunked(self):
        """A body of unknown length, in JSON and with binary tensors, of many sizes."""
        for n in (1, 300, 100000):
            x = np.arange(n, dtype=np.float32)
            for binary in (False, True):
                body, headers = service.pack({"self": x, "other": x}, binary=binary)
                for piece in (len(body), 1 + len(body) // 3, 4096):
                    pieces = [body[i:i + piece] for i in range(0, len(body), piece)]
                    c = self.service.connect()
                    c.request("POST", "/v1/ops/add", iter(pieces), headers, encode_chunked=True)
                    reply = service.Reply(c.getresponse())
                    self.assertEqual(reply.status, 200, reply.body[:200])
                    np.testing.assert_array_equal(reply.out, x + x)
                    c.close()

    def test_expect(self):
        head, body = post(ADD, "Expect: 100-continue").split(b"\r\n\r\n")
        with self.service.socket() as s:
            s.sendall(head + b"\r\n\r\n")
            self.assertTrue(s.recv(1000).startswith(b"HTTP/1.1 100 Continue"))
            s.sendall(body)
            self.assertEqual(read_replies(s, 1)[0][0][0], 200)
        head = b"POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
        with self.service.socket() as s:
            s.sendall(head % (300 << 20))
            self.assertIn(b" 413 ", s.recv(1000).split(b"\r\n")[0])

    def test_content_types(self):
        """curl's -d says that it is a form; a client may say nothing at all."""
        for name in (None, "application/json", "application/x-www-form-urlencoded"):
            reply = self.service.call("POST", "/v1/ops/add", ADD, {"Content-Type": name} if name else {})
            self.assertEqual(reply.status, 200, name)

    def test_post_without_a_body(self):
        with self.service.socket() as s:
            s.sendall(b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(read_replies(s, 1)[0][0][0], 400)

    def test_eight_clients_at_once(self):
        """Each checks every result of its own: small ones, queued ones and wrong ones in turn."""
        def client(seed):
            rng, c = np.random.default_rng(seed), self.service.connect()
            for i in range(20 if service.SANITIZED else 60):
                shape = [(5,), (64, 48), (3, 700), (300, 300)][i % 4]
                a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
                name = f"{seed}-{i}"
                reply = self.service.infer("add", {"self": a, "other": b}, binary=i % 4 >= 2, id=name, connection=c)
                assert reply.json["id"] == name
                np.testing.assert_array_equal(reply.out, a + b)
                w = rng.standard_normal((20, shape[-1])).astype(np.float32)
                out = self.service.op("linear", {"input": a, "weight": w}, binary=True, connection=c)
                np.testing.assert_allclose(out, a @ w.T, rtol=1e-4, atol=1e-4)
                wrong = self.service.infer("add", {"self": a, "other": w[:, 1:]}, connection=c, binary=True)
                assert wrong.status == 400
            c.close()
            return seed
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            self.assertEqual(list(threads.map(client, range(8))), list(range(8)))

    def test_three_hundred_connections(self):
        connections = [self.service.connect() for _ in range(300)]
        for c in connections:
            self.assertEqual(self.service.call("POST", "/v1/ops/add", ADD, connection=c).status, 200)
        for c in connections:
            self.assertEqual(self.service.call("GET", "/v1/isa", connection=c).status, 200)
            c.close()


class Polls(service.ServiceTest):
    """An HTTP thread polls between requests that follow one another closely enough."""
    spin_us, polls = 1000000, True

    @classmethod
    def setUpClass(cls):
        cls.args = ("--io-spin-us", str(cls.spin_us))
        super().setUpClass()

    def waits(self, how, connection):
        text = self.service.call("GET", "/metrics", connection=connection).body.decode()
        return int(re.search(r'^tensord_io_waits_total{how="%s"} (\d+)$' % how, text, re.M)[1])

    def test_between_requests(self):
        connection = self.service.connect()
        before, polled = self.waits("poll", connection), 0
        for _ in range(100): # where others compute it rests from polling, for a while
            for _ in range(20):
                self.assertEqual(self.service.call("POST", "/v1/ops/add", ADD, connection=connection).status, 200)
            polled = self.waits("poll", connection) - before
            if polled or not self.polls:
                break
            time.sleep(0.1)
        self.assertGreater(polled, 0) if self.polls else self.assertEqual(polled, 0)

    def test_silence(self):
        """Without requests it sleeps, whatever it did before."""
        connection = self.service.connect()
        slept = self.waits("sleep", connection)
        time.sleep(self.spin_us / 1e6 + 0.2)
        before = self.cpu_seconds()
        time.sleep(0.5)
        self.assertLess(self.cpu_seconds() - before, 0.2)
        self.assertGreater(self.waits("sleep", connection), slept)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.service.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Sleeps(Polls):
    spin_us, polls = 0, False


class BigReplies(service.ServiceTest):
    """They go out in pieces, between which small calls have their turns; slowly where clients share the
    HTTP thread's CPU, as here."""
    cpu = min(os.sched_getaffinity(0))
    args = ("--io-cpus", str(cpu), "--pool", f"default={cpu}", "--pool", f"other={cpu}")

    def setUp(self):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cpu})
        self.addCleanup(os.sched_setaffinity, 0, before)

    def test_beside_small_calls(self):
        big, small = np.arange(1 << 18, dtype=np.float32), np.arange(5, dtype=np.float32)

        def client():
            for factor in range(6):
                out = self.service.op("mul", {"self": big, "other": np.float32([factor])}, binary=True)
                np.testing.assert_array_equal(out, big * factor)

        calls = 0
        with concurrent.futures.ThreadPoolExecutor() as pool:
            end = pool.submit(client)
            while not end.done():
                np.testing.assert_array_equal(self.service.op("relu", {"self": small}, binary=True), small)
                calls += 1
            end.result()
        self.assertGreater(calls, 6)

    def test_one_thread_a_cpu(self):
        names = [p.read_text() for p in pathlib.Path(f"/proc/{self.service.pid}/task").glob("*/comm")]
        self.assertEqual(sum(name.startswith("td http") for name in names), 1, names)


class Threads(service.ServiceTest):
    args = ("--io-threads", "3")

    def test_spread(self):
        """They share out their pool's CPUs, and each serves."""
        pinned = self.service.call("GET", "/v1/pools/default").json["pinned"] # not so under a quota
        right = (3, min(3, len(os.sched_getaffinity(0))) if pinned else 1)
        end, seen = time.monotonic() + 20, None
        while seen != right and time.monotonic() < end: # the first serves while the others sit down
            time.sleep(0.02)
            tasks = [p for p in pathlib.Path(f"/proc/{self.service.pid}/task").iterdir()
                     if (p / "comm").read_text() == "td http\n"]
            seen = len(tasks), len({tuple(os.sched_getaffinity(int(p.name))) for p in tasks})
        self.assertEqual(seen, right)
        for _ in range(30):
            self.assertEqual(self.service.call("POST", "/v1/ops/add", ADD).status, 200)


class BigMachine(service.ServiceTest):
    """hwloc's description of another machine, of 64 cores."""
    env = {"HWLOC_SYNTHETIC": "node:1 core:64 pu:1", "HWLOC_THISSYSTEM": "0"}
    args = ("--pool", "small=0-7", "--pool", "big=8-40")

    def test_threads_by_cores(self):
        """One for every eight threads of a pool, so one and five."""
        pools = self.service.call("GET", "/v1/pools").json["pools"]
        right = sum(-(-pool["threads"] // 8) for pool in pools)
        if not service.SANITIZED: # a thread sanitizer's build has no teams: each pool has one thread there
            self.assertEqual(right, 6, pools)
        end, n = time.monotonic() + 20, 0
        while n != right and time.monotonic() < end: # the first serves while the others start
            time.sleep(0.02)
            names = [p.read_text() for p in pathlib.Path(f"/proc/{self.service.pid}/task").glob("*/comm")]
            n = names.count("td http\n")
        self.assertEqual(n, right)


class Idle(service.ServiceTest):
    args = ("--idle-s", "1")

    def test_silence_is_cut(self):
        """Before a request, in its head, in its body."""
        begin = time.monotonic()
        sockets = [self.service.socket() for _ in range(3)]
        for s, said in zip(sockets, (b"", b"GET /v1/isa HTTP/1.1\r\nHost", post(ADD)[:-10])):
            with contextlib.suppress(ConnectionError): # it is cut already
                s.sendall(said)
        for s in sockets:
            data = b""
            with s, contextlib.suppress(ConnectionError):
                data = s.recv(1000)
            self.assertTrue(data == b"" or b" 408 " in data, data)
        self.assertLess(time.monotonic() - begin, 20)
        self.alive()


class Limits(service.ServiceTest):
    args = ("--max-body", "2000", "--max-headers", "2000", "--json-depth", "4")

    def test_limits_as_configured(self):
        self.assertEqual(self.service.call("POST", "/v1/ops/add", ADD).status, 200)
        self.problem(self.service.call("POST", "/v1/ops/add", ADD + b" " * 2000), 413, "2000")
        self.problem(self.service.call("GET", "/v1/isa", headers={"X": "y" * 2000}), 431, "2000")
        self.problem(self.service.call("POST", "/v1/ops/add", b'{"a":[[[[1]]]]}'), 400, "4")


class Slow(service.ServiceTest):
    """Clients that hold things up, each within its own limits."""
    args = ("--memory", "100000000", "--idle-s", "300")

    def test_bodies(self):
        """What was announced and does not come takes nothing from others."""
        slow = [self.service.socket() for _ in range(40)]
        over = threading.Event()
        for s, size in zip(slow, [9_000_000] * 11 + [1_000_000] * 9 + [400_000] * 20):
            s.sendall(b"POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)

        def trickle():
            with contextlib.suppress(OSError):
                while not over.wait(0.2):
                    for s in slow:
                        s.sendall(b" " * 400)
        feeder = threading.Thread(target=trickle)
        feeder.start()
        x = np.arange(56_000, dtype=np.float32)
        try:
            statuses = [self.service.infer("add", {"self": x, "other": x}, binary=True).status for _ in range(26)]
        finally:
            over.set()
            feeder.join()
            for s in slow:
                s.close()
        self.assertEqual(statuses, [200] * 26)

    ZEROS = json.dumps({"parameters": {"size": [4_000_000], "binary_data_output": True}}).encode()

    def read_nothing(self, clients):
        """Each leaves a reply of 16 MB unread."""
        for _ in range(clients):
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", self.service.port))
            s.sendall(post(self.ZEROS, path="/v1/ops/zeros"))

    def test_readers(self):
        """A client that does not read a big reply loses it once others want the memory."""
        self.read_nothing(5)

        def zeros():
            return self.service.call("POST", "/v1/ops/zeros", self.ZEROS).status
        self.assertTrue(service.eventually(lambda: zeros() == 503))
        self.assertTrue(service.eventually(lambda: zeros() == 200, 60))

    def test_readers_beside_bodies_that_are_announced(self):
        """So too when what others want is room for a body, which is refused before it comes."""
        self.read_nothing(3)
        head = b"POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n"

        def announce():
            with self.service.socket(60) as s:
                s.sendall(head)
                return int(s.recv(1000).split()[1])
        self.assertTrue(service.eventually(lambda: announce() == 503))
        self.assertTrue(service.eventually(lambda: announce() == 100, 60))

    def test_a_body_in_chunks(self):
        """It holds what has come, not twice that, so one of 45 MB fits into 100."""
        c = self.service.connect()
        c.request("POST", "/v1/ops/relu", iter([b" " * 4_500_000] * 10), encode_chunked=True)
        self.problem(service.Reply(c.getresponse()), 400)
        c.close()


class Few(service.ServiceTest):
    args = ("--connections", "8", "--idle-s", "300")

    def test_idle_ones_make_room(self):
        held = [self.service.socket(60) for _ in range(8)]
        request = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for s in held:
            s.sendall(request)
            self.assertEqual(read_replies(s, 1)[0][0][0], 200)
        with self.service.socket(100) as new:
            new.sendall(request)
            self.assertEqual(read_replies(new, 1)[0][0][0], 200)
        ended = 0
        for s in held:
            s.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                ended += s.recv(1) == b""
            s.close()
        self.assertGreater(ended, 0)

    def test_connections_beyond_the_limit(self):
        """They are closed or wait; those that are there are served, and afterwards all is well."""
        held = [self.service.socket(0.05) for _ in range(20)]
        held[0].settimeout(30)
        served = 0
        for s in held:
            with contextlib.suppress(OSError):
                s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                served += b" 200 " in s.recv(1000)
        for s in held:
            s.close()
        self.assertGreater(served, 0)
        time.sleep(2.5)
        self.alive()


if __name__ == "__main__":
    service.main()
