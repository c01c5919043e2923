#!/usr/bin/env python3
"""A line of the log for each request, its id and its trace come back, and nobody ever waits for the log's reader."""
import calendar
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np

import service
from service import Service

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
CALL = {"self": [1, 2], "other": 3}


def ended(s):
    """All that it said, once it has stopped."""
    s.stop()
    return s.log.splitlines()


def requests(lines):
    """The lines of requests, in JSON."""
    return [line for line in map(json.loads, lines) if "event" not in line]


def raw(s, data):
    """The replies' bytes to requests' bytes, after which the server closes."""
    with s.socket(60) as c:
        c.sendall(data)
        got = b""
        while part := c.recv(1 << 16):
            got += part
    return got


class Lines(unittest.TestCase):
    def log_of(self, *calls, args=("--log", "json")):
        """What it said of the calls, and their replies."""
        with Service(*args) as s:
            replies = [call(s) for call in calls]
            lines = ended(s)
        return [line for line in requests(lines) if line.get("route") != "/v2/health/ready"], replies

    def test_each_field(self):
        lines, (add, health, gone) = self.log_of(
            lambda s: s.infer("add", {"self": np.ones(4, np.float32), "other": np.ones(4, np.float32)},
                              {"kernel": "ref"}, binary=True),
            lambda s: s.call("GET", "/v1/isa?", headers={"X-Request-Id": "mine", "traceparent": TRACE}),
            lambda s: s.call("DELETE", "/v1/tensors/none"))
        self.assertEqual(len(lines), 3)
        line = lines[0]
        self.assertRegex(line["time"], f"^{TIME}$")
        self.assertLess(abs(time.time() - calendar.timegm(time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S"))), 600)
        self.assertEqual(line["id"], add.headers["X-Request-Id"])
        self.assertRegex(line["client"], r"^127\.0\.0\.1:\d+$")
        self.assertEqual([line[k] for k in ("method", "route", "op", "status", "pool", "kernel", "isa", "compute_type")],
                         ["POST", "/v1/ops/{op}", "add.Tensor", 200, "default", "ref", "DEFAULT", "FP32"])
        self.assertEqual(line["out"], len(add.body))
        self.assertGreater(line["in"], 32)
        self.assertGreater(line["us"], line["compute_us"])
        self.assertGreater(line["compute_us"], 0)
        self.assertGreaterEqual(line["queue_us"], 0)
        self.assertNotIn("explain", line)
        self.assertEqual([lines[1][k] for k in ("id", "traceparent", "out")], ["mine", TRACE, len(health.body)])
        self.assertEqual([lines[2][k] for k in ("method", "route", "status", "problem")],
                         ["DELETE", "/v1/tensors/{name*}", 404, "not-found"])
        self.assertEqual(lines[2]["id"], gone.headers["X-Request-Id"])

    def test_a_worker_and_a_task(self):
        side = service.slow_side(0.05)
        m = np.ones((side, side), np.float32)
        lines, (call, task) = self.log_of(
            lambda s: s.infer("matmul", {"self": m, "other": m}, {"kernel": "ref"}, binary=True),
            lambda s: s.call("POST", "/v1/eval", {"expr": "a*2", "a": [1, 2]}, {"Prefer": "respond-async"}))
        self.assertEqual((call.status, task.status), (200, 202))
        self.assertEqual([lines[0][k] for k in ("op", "kernel", "in")], ["matmul", "ref", lines[0]["in"]])
        self.assertGreater(lines[0]["in"], 2 * m.nbytes)
        self.assertEqual(lines[1]["status"], 202)
        self.assertNotIn("kernel", lines[1])

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            with Service("--log", "json", "--listen", "unix:" + path) as s:
                with socket.socket(socket.AF_UNIX) as c:
                    c.connect(path)
                    c.sendall(b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    while c.recv(1 << 16):
                        pass
                lines = requests(ended(s))
        self.assertEqual([line["client"] for line in lines if line["route"] == "/v1/isa"], ["unix"])

    def test_an_expression(self):
        lines, _ = self.log_of(lambda s: s.call("POST", "/v1/eval", {"expr": "relu(a*2)+3", "a": [1.5, 2]}),
                               lambda s: s.call("POST", "/v1/eval", {"expr": "nosuch(a)", "a": [1.5]}))
        self.assertEqual([(line["op"], line["status"]) for line in lines],
                         [("relu(a*2)+3", 200), ("nosuch(a)", lines[1]["status"])])
        self.assertGreaterEqual(lines[1]["status"], 400)

    def test_its_own_lines(self):
        with Service("--log", "json", "--task-ttl-s", "7") as s:
            lines = [json.loads(line) for line in ended(s)]
        said = {}
        for line in lines:
            if "event" in line:
                said.setdefault(line["event"], line["message"])
                self.assertRegex(line["time"], TIME)
        self.assertIn(f"--listen 127.0.0.1:{s.port} --task-ttl-s 7 --log json", said["start"])
        self.assertEqual(said["ready"], f"ready on http://127.0.0.1:{s.port}")
        self.assertIn("SIGTERM", said["stop"])
        for event, word in (("threads", "thread"), ("isa", "level"), ("memory", "bytes"), ("pool", "default")):
            self.assertIn(word, said[event])

    def test_text(self):
        with Service("--log", "text") as s:
            s.call("POST", "/v1/ops/add", CALL, {"X-Request-Id": "a=b c" [:3]})
            lines = ended(s)
        line = next(line for line in lines if "/v1/ops" in line)
        self.assertRegex(line, f"^{TIME} id=\"a=b\" client=127.0.0.1:\\d+ method=POST route=/v1/ops/{{op}} status=200 "
                         r"in=\d+ out=14 us=[\d.]+ op=add\.Scalar queue_us=[\d.]+ compute_us=[\d.]+ pool=default "
                         r"kernel=\w+ isa=\w+ compute_type=\w+$")
        self.assertTrue(any(line.endswith(f" tensord: ready on http://127.0.0.1:{s.port}") for line in lines))

    def test_off(self):
        with Service("--log", "off") as s:
            reply = s.call("POST", "/v1/ops/add", CALL, {"traceparent": TRACE})
            self.assertTrue(reply.headers["X-Request-Id"])
            self.assertEqual(reply.headers["traceparent"], TRACE)
            lines = ended(s)
        self.assertFalse([line for line in lines if " status=" in line], lines)
        self.assertTrue(any("ready on" in line for line in lines))

    def test_json_where_nobody_says(self):
        with Service() as s:
            lines = ended(s)
        self.assertTrue(all(isinstance(json.loads(line), dict) for line in lines))

    def test_text_on_a_terminal(self):
        ours, theirs = os.openpty()
        process = subprocess.Popen([service.BINARY, "serve", "--listen", "127.0.0.1:0"], stderr=theirs,
                                   env=service.environment())
        os.close(theirs)
        said = b""
        while b"ready on" not in said:
            said += os.read(ours, 4096)
        process.terminate()
        self.assertEqual(process.wait(60), 0)
        os.close(ours)
        self.assertRegex(said.decode(), f"{TIME} tensord: ready on http")

    def test_slow(self):
        side = service.slow_side(0.05)
        m = np.ones((side, side), np.float32)
        call = lambda s: s.infer("matmul", {"self": m, "other": m}, {"kernel": "ref"}, binary=True)  # noqa: E731
        lines, _ = self.log_of(call, *10 * [lambda s: s.call("POST", "/v1/ops/add", CALL)],
                               args=("--log", "json", "--log-slow-ms", "20"))
        explain = lines[0]["explain"]
        self.assertEqual((explain["operator"], explain["key"]), ("matmul", "CPU"))
        self.assertIn("ref", [c["kernel"] for c in explain["candidates"]])
        if not service.SANITIZED:
            self.assertTrue(any("explain" not in line for line in lines[1:]))
        lines, _ = self.log_of(call, args=("--log", "json", "--log-slow-ms", "0"))
        self.assertNotIn("explain", lines[0])

    def test_no_tensors(self):
        lines, _ = self.log_of(lambda s: s.call("POST", "/v1/ops/add", {"self": [16777213, 2], "other": 15728641}),
                               lambda s: s.call("POST", "/v1/ops/add", {"self": [16777213, "x98765432"]}),
                               args=("--log", "json", "--log-slow-ms", "1"))
        self.assertEqual([line["status"] for line in lines], [200, 400])
        self.assertNotRegex(json.dumps(lines), "16777213|15728641|x98765432")


class Ids(service.ServiceTest):
    args = ("--log", "json")

    def echoed(self, path="/v1/isa", **headers):
        return self.service.call("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}).headers

    def test_taken(self):
        for path in ("/v1/isa", "/v2/health/live", "/nope", "/v1/tensors/none", "/docs", "/v1/isa?x=1"):
            for own in ("7", "a" * 128, "req-1/2:3;4", '"quoted\\"'):
                self.assertEqual(self.echoed(path, X_Request_Id=own)["X-Request-Id"], own)

    def test_made(self):
        """Where none came, and where it cannot be one; each is another, whatever the connection."""
        with_none = [self.echoed(path)["X-Request-Id"] for path in ("/v1/isa", "/nope", "/v1/ops") for _ in range(50)]
        connection = self.service.connect()
        for _ in range(300):
            with_none.append(self.service.call("GET", "/v1/isa", connection=connection).headers["X-Request-Id"])
        connection.close()
        self.assertEqual(len(set(with_none)), len(with_none))
        for one in with_none:
            self.assertRegex(one, "^[0-9a-f]{16}$")
        for wrong in ("", "a" * 129, "a b", "t\tb", "caf\xe9"):
            self.assertRegex(self.echoed(X_Request_Id=wrong)["X-Request-Id"], "^[0-9a-f]{16}$")

    def test_one_connection(self):
        """Heads that repeat, and such that nearly do."""
        connection = self.service.connect()
        for own in ("one", "one", "two", None, None, "one", "three"):
            for path in ("/v1/isa", "/v2/health/live"):
                got = self.service.call("GET", path, headers={"X-Request-Id": own} if own else {}, connection=connection)
                if own:
                    self.assertEqual(got.headers["X-Request-Id"], own)
                else:
                    self.assertRegex(got.headers["X-Request-Id"], "^[0-9a-f]{16}$")
        connection.close()

    def test_all_at_once(self):
        """Many requests in one piece: each reply has the id of its own request."""
        head = "GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n"
        data = b"".join((head + (f"X-Request-Id: n{i}\r\n" if i % 3 else "") + "\r\n").encode() for i in range(60))
        data = data[:-2] + b"Connection: close\r\n\r\n"
        got = re.findall(rb"\r\nX-Request-Id: (\S+)\r\n", raw(self.service, data))
        self.assertEqual(len(got), 60)
        self.assertEqual([one for i, one in enumerate(got) if i % 3], [b"n%d" % i for i in range(60) if i % 3])
        self.assertEqual(len(set(got)), 60)

    def test_many_connections(self):
        """The kept reply of a thread has each time the id of the request that the log names so."""
        with tempfile.TemporaryFile("w+") as f, Service("--log", "json", stderr=f) as s:
            got = {}
            def ask():
                with s.socket(60) as c:
                    name = "127.0.0.1:%d" % c.getsockname()[1]
                    for i in range(30):
                        c.sendall(b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
                        while got.setdefault(name, b"").count(b"X-Request-Id") < 2 * i + 2:
                            got[name] += c.recv(1 << 16)
            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            s.stop()
            f.seek(0)
            lines = requests(f.read().splitlines())
        self.assertEqual(len(got), 8)
        for name, text in got.items():
            ids = re.findall(rb"\r\nX-Request-Id: (\S+)\r\n", text)
            self.assertEqual([line["id"] for line in lines if line["client"] == name], [i.decode() for i in ids])
            self.assertEqual(len(ids), 60)

    def test_refused_heads(self):
        """Also what libmicrohttpd refuses before we see it."""
        for data in (b"GET / HTTP/1.1\r\nHost: localhost\r\nbad\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x01b\r\n\r\n",
                     b"POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"):
            for _ in range(50): # while other connections come and go, the library's own words may stand
                got = raw(self.service, data)
                self.assertRegex(got, rb"^HTTP/1.1 400 ")
                if b"problem+json" in got:
                    break
                time.sleep(0.1)
            self.assertRegex(got, rb"\r\nX-Request-Id: [0-9a-f]{16}\r\n")

    def test_trace(self):
        self.assertEqual(self.echoed(traceparent=TRACE)["traceparent"], TRACE)
        self.assertEqual(self.echoed("/nope", traceparent=TRACE)["traceparent"], TRACE)
        for wrong in ("", TRACE[:-1], TRACE + "0", TRACE.upper(), "ff" + TRACE[2:], TRACE.replace("-", "_"),
                      "00-" + "0" * 32 + TRACE[35:], TRACE[:36] + "0" * 16 + "-01", TRACE[:3] + "g" + TRACE[4:], "x" * 4000):
            self.assertIsNone(self.echoed(traceparent=wrong)["traceparent"], wrong)


class Hostile(unittest.TestCase):
    def test_nothing_leaves_its_place(self):
        evil = "x\n{\"time\":\"now\"}\r\x1b[31m\x7f\u202e\u2028\x85\" op=\\"
        quoted = "".join(f"%{b:02x}" for b in evil.encode())
        for form in ("json", "text"):
            with Service("--log", form) as s:
                s.call("POST", "/v1/ops/" + quoted, {})
                s.call("POST", "/v1/eval", {"expr": evil, "a": [1]})
                s.call("GET", "/v2/models/" + quoted)
                s.call("POST", "/v1/ops/%ff%fe", {})
                raw(s, b"GET /\xff\xc3(\x80 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                raw(s, b"B|{}~ /" + b"%0a" * 900 + b" HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: \x80\r\nConnection: close\r\n\r\n")
                raw(s, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\r\n X-Request-Id: b\r\n\r\n")
                s.stop()
                lines = s.log.split("\n")[:-1]
            for line in lines:
                self.assertTrue(line.isascii() and line.isprintable(), line)
                self.assertRegex(line, f"^{{\"time\":\"{TIME}\"" if form == "json" else f"^{TIME} ")
            if form == "json":
                said = [line for line in requests(lines) if line.get("route") != "/v2/health/ready"]
                self.assertIn(len(said), (6, 7)) # so with the last, which libmicrohttpd may have answered
                self.assertEqual([said[0]["op"], said[1]["op"]], [evil, evil])
                self.assertLessEqual(max(map(len, lines)), 4000)


class Readers(unittest.TestCase):
    """Of standard error that do not read."""

    def served(self, stderr, n=3000, **how):
        """Starts it with that, and sends n requests which are all answered soon."""
        port = service.free_port()
        process = subprocess.Popen([service.BINARY, "serve", "--listen", f"127.0.0.1:{port}", "--log", "json"],
                                   env=service.environment(), stderr=stderr, **how)
        self.addCleanup(process.kill)
        for _ in range(500):
            try:
                c = socket.create_connection(("127.0.0.1", port), 30)
                break
            except OSError:
                time.sleep(0.01)
        ask = b"GET /nope HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + b"i" * 100 + b"\r\n\r\n"
        begin = time.monotonic()
        self.addCleanup(c.close)
        for _ in range(n // 100):
            c.sendall(100 * ask)
            got = b""
            while got.count(b"HTTP/1.1 404") < 100:
                part = c.recv(1 << 16)
                self.assertTrue(part)
                got += part
            time.sleep(0.01)
        took = time.monotonic() - begin
        c.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while part := c.recv(1 << 16):
            text += part
        return process, took, text.decode()

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)

    def lost(self, text):
        return sum(map(int, re.findall(r'^tensord_log_dropped_total\{.*\} (\d+)$', text, re.M)))

    def test_a_pipe_that_is_full(self):
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        process, took, text = self.served(theirs)
        os.close(theirs)
        self.assertLess(took, 20)
        self.assertGreater(self.lost(text), 0)
        self.end(process)
        os.close(ours)

    def test_a_pipe_that_is_closed(self):
        ours, theirs = os.pipe()
        os.close(ours)
        process, took, _ = self.served(theirs, 300)
        os.close(theirs)
        self.assertLess(took, 20)
        self.end(process)

    def test_no_standard_error_at_all(self):
        """What is opened in its place later, such as a client's connection, gets no line."""
        process, took, text = self.served(None, 300, close_fds=False, preexec_fn=lambda: os.close(2))
        self.assertNotIn('"time"', text)
        for fd in ("0", "1", "2"):
            self.assertNotIn("socket", os.readlink(f"/proc/{process.pid}/fd/{fd}"))
        self.end(process)

    def test_what_is_left_out_is_counted(self):
        n = 4000
        with tempfile.TemporaryFile("w+") as f:
            process, took, text = self.served(f, n)
            self.end(process)
            f.seek(0)
            lines = requests(f.read().splitlines())
        said = [line for line in lines if line.get("path") == "/nope"]
        skipped = sum(line.get("skipped", 0) for line in lines)
        self.assertGreater(len(said), 1000)
        self.assertLess(len(said), 1300 + 1000 * took)
        self.assertLessEqual(len(said) + skipped, n + 1)
        self.assertGreater(len(said) + skipped, n - 300) # those since the last line are told by the next
        if took < 1:
            self.assertGreater(skipped, 0)
            self.assertGreater(self.lost(text), 0)


if __name__ == "__main__":
    service.main()
