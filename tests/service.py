"""The service as the tests see it: the real binary on a free port, and tensors over HTTP.

TENSORD_BIN names the binary (meson sets it). TENSORD_SANITIZED=1 says that it is an instrumented
one: what is timed or weighed then has no meaning, and everything takes longer. TENSORD_OVER_TLS=1
has each service speak TLS: most tests must then pass as they do without.
"""
import contextlib
import functools
import http.client
import itertools
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy: run deploy/setup.sh check, and then .deps/venv/bin/python")
    sys.exit(77)

import certificates

BINARY = os.environ.get("TENSORD_BIN", "build/tensord")
CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))] # this process's; 0 need not be one
OVER_TLS = os.environ.get("TENSORD_OVER_TLS") == "1"
SANITIZED = os.environ.get("TENSORD_SANITIZED") == "1"

DATATYPES = {"BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "INT16": np.int16,
             "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32,
             "FP64": np.float64, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64}
NAMES = {np.dtype(kind): name for name, kind in DATATYPES.items()}


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def seed():
    """Of what a test draws: the tree's, which ./check sets, or one drawn here. It is printed, and TENSORD_SEED repeats it."""
    drawn = int(os.environ.get("TENSORD_SEED") or random.SystemRandom().randrange(1 << 30))
    print(f"TENSORD_SEED={drawn}", flush=True)
    return drawn


def main():
    """unittest's, for a file that meson runs."""
    unittest.main(module="__main__", verbosity=2, argv=sys.argv)


# ---- tensors ----

class BF16:
    """BF16 values, which NumPy does not have: float32 ones of which only the upper half counts."""

    def __init__(self, values):
        bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        nan = np.isnan(np.asarray(values, np.float32))
        rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        self.bits = np.where(nan, np.uint16(0x7FC0), rounded).astype(np.uint16)

    @classmethod
    def of_bits(cls, bits):
        new = cls.__new__(cls)
        new.bits = np.asarray(bits, np.uint16)
        return new

    @property
    def values(self):
        return (self.bits.astype(np.uint32) << 16).view(np.float32)

    @property
    def shape(self):
        return self.bits.shape


def datatype(tensor):
    return "BF16" if isinstance(tensor, BF16) else "BYTES" if tensor.dtype.kind in "UO" else NAMES[tensor.dtype]


def elements(tensor):
    """The tensor's bytes; of a text its length comes first."""
    if datatype(tensor) == "BYTES":
        texts = [text.encode() for text in tensor.ravel().tolist()]
        return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    return (tensor.bits if isinstance(tensor, BF16) else tensor).tobytes()


def numbers(tensor):
    """The tensor's elements as JSON has them: a flat list."""
    return (tensor.values if isinstance(tensor, BF16) else tensor).ravel().tolist()


def decode(name, shape, data):
    """A tensor of JSON numbers or of bytes."""
    if name == "BF16":
        if isinstance(data, bytes):
            return BF16.of_bits(np.frombuffer(data, np.uint16).reshape(shape))
        return BF16(np.array(data, np.float32).reshape(shape))
    if name == "BYTES":
        return np.array(data, object).reshape(shape)
    kind = DATATYPES[name]
    if isinstance(data, bytes):
        return np.frombuffer(data, kind).reshape(shape)
    return np.array(data, kind).reshape(shape)


def stored(name):
    """An input that is a stored tensor."""
    return {"parameters": {"tensor": name}}


def pack(inputs, parameters=None, outputs=None, binary=False, **rest):
    """The body and the headers of a call. inputs: name -> array, BF16 or stored(...)."""
    tensors, blobs = [], b""
    for name, value in inputs.items():
        if isinstance(value, dict):
            tensors.append({"name": name, **value})
            continue
        tensor = {"name": name, "shape": list(value.shape), "datatype": datatype(value)}
        if binary:
            blob = elements(value)
            tensor["parameters"] = {"binary_data_size": len(blob)}
            blobs += blob
        else:
            tensor["data"] = numbers(value)
        tensors.append(tensor)
    parameters = dict(parameters or {})
    if binary:
        parameters.setdefault("binary_data_output", True)
    request = {**rest, "inputs": tensors}
    if parameters:
        request["parameters"] = parameters
    if outputs is not None:
        request["outputs"] = outputs
    head = json.dumps(request).encode()
    if not binary:
        return head, {"Content-Type": "application/json"}
    return head + blobs, {"Content-Type": "application/octet-stream",
                          "Inference-Header-Content-Length": str(len(head))}


class Reply:
    """A response, read to its end."""

    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body[:self.json_length])

    @property
    def json_length(self):
        return int(self.headers.get("Inference-Header-Content-Length", len(self.body)))

    @property
    def parameters(self):
        return self.json["parameters"]

    @property
    def outputs(self):
        """name -> tensor, whether it came in JSON or binary."""
        found, at = {}, self.json_length
        for tensor in self.json["outputs"]:
            data = tensor.get("data")
            if data is None:
                size = tensor["parameters"]["binary_data_size"]
                data, at = self.body[at:at + size], at + size
            found[tensor["name"]] = decode(tensor["datatype"], tensor["shape"], data)
        assert at == len(self.body), f"{len(self.body) - at} bytes too many in the reply"
        return found

    @property
    def out(self):
        return self.outputs["out"]


# ---- the process ----

_ports = itertools.count(os.getpid() * 131)


def free_port():
    """Below those that connections get, and another one for each process and call."""
    for n in _ports:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", 20000 + n % 12000))
            return s.getsockname()[1]


def eventually(what, seconds=30):
    """Waits until what() is true."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def run(*args, env=None, timeout=60):
    """A command of the binary that ends by itself."""
    return subprocess.run([BINARY, *args], env={**environment(), **(env or {})}, text=True,
                          capture_output=True, timeout=timeout)


@functools.cache
def only_reference():
    """Whether the binary has references alone (-Dkernels=ref)."""
    return json.loads(run("isa", "--json").stdout)["onednn"]["version"] == "none"


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(("TENSORD_", "ATEN_"))}


class Service:
    """`tensord serve ARGS`, ready, in control groups if any are given (groups.py). stop() wants a good
    end, and no word of a sanitizer. tls: the ssl.SSLContext by which it is asked, if it speaks TLS."""

    def __init__(self, *args, env=None, port=None, groups=(), stderr=None, tls=None):
        self.port = port or free_port()
        self.tls = tls
        if OVER_TLS and not tls:
            authority, (cert, key) = certificates.here()
            args = (*args, "--tls-cert", str(cert), "--tls-key", str(key))
            self.tls = authority.context()
        self.log, self.file = "", None if stderr else tempfile.TemporaryFile()
        begin = time.monotonic()
        self.process = subprocess.Popen(
            [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", *args], text=True,
            env={**environment(), **(env or {})}, stdout=subprocess.DEVNULL, stderr=stderr or self.file,
            preexec_fn=(lambda: [group.join() for group in groups]) if groups else None)
        while time.monotonic() < begin + 30:
            try:
                if self.call("GET", "/v2/health/ready").status == 200:
                    self.start_seconds = time.monotonic() - begin
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
            time.sleep(0.005)
        self.process.kill()
        self.process.wait()
        raise RuntimeError("the service did not become ready: " + self.written())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("SIGTERM did not end it:\n" + self.written()) from None
        finally:
            self.log = self.written()
            if self.file:
                self.file.close()
        assert self.process.returncode == 0, f"exit {self.process.returncode}:\n{self.log[-6000:]}"
        assert "Sanitizer" not in self.log and "runtime error" not in self.log, self.log

    def written(self):
        """What it has said so far on standard error: a file, which never fills up as a pipe does that nobody reads."""
        if not self.file or self.file.closed:
            return self.log
        return os.pread(self.file.fileno(), os.fstat(self.file.fileno()).st_size, 0).decode(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def connect(self, timeout=60):
        if self.tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def socket(self, timeout=10):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout)
        if not self.tls:
            return plain
        made = self.tls.wrap_socket(plain, server_hostname="127.0.0.1")
        made.shutdown = lambda how: socket.socket.shutdown(made, how) # it may still be read, which ssl's forgets
        return made

    def call(self, method, path, body=None, headers=None, connection=None):
        """One request, on a connection of its own unless one is given. A dict goes as JSON."""
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers = {"Content-Type": "application/json", **(headers or {})}
        own = connection or self.connect()
        try:
            own.request(method, path, body, headers or {})
            return Reply(own.getresponse())
        finally:
            if not connection:
                own.close()

    def infer(self, op, inputs, parameters=None, path="/v1/ops/{}", connection=None, **how):
        """Runs an operator; the reply whatever its status. how: what pack() takes."""
        body, headers = pack(inputs, parameters, **how)
        return self.call("POST", path.format(op), body, headers, connection)

    def in_flight(self, connection):
        """Other requests, and tasks. Looks by one connection do not count each other."""
        text = self.call("GET", "/metrics", connection=connection).body.decode()
        return int(re.search(r"^tensord_requests_in_flight (\d+)$", text, re.M)[1]) - 1

    def under_way(self, n, connection):
        """Waits until n requests and tasks are in flight."""
        assert eventually(lambda: self.in_flight(connection) == n), f"not {n} but {self.in_flight(connection)}"

    def half(self, op, inputs):
        """A call, under way alone, that gets its end from the function that is given, which gives the reply."""
        body, headers = pack(inputs)
        own, look, end = self.connect(), self.connect(), threading.Event()
        left = [b" " * 4096] * 500
        self.under_way(0, look)
        own.putrequest("POST", "/v1/ops/" + op)
        for header in {**headers, "Content-Length": str(len(body) + len(b"".join(left)))}.items():
            own.putheader(*header)
        own.endheaders(body)
        self.under_way(1, look)
        look.close()

        def feed(): # a body that does not move for 10 s is cut off
            with contextlib.suppress(OSError):
                while len(left) > 1 and not end.wait(0.5):
                    own.send(left.pop())
        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()

        def finish():
            end.set()
            feeder.join()
            try:
                own.send(b"".join(left))
                return Reply(own.getresponse())
            finally:
                own.close()
        return finish

    def half_head(self, method, path, body=b"", headers=None):
        """A request of which the first bytes have come: it is under way, also while the server drains. The
        function that is given sends the rest and gives the reply."""
        lines = {"Host": "localhost", "Content-Length": str(len(body)), **(headers or {})}
        data = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
        data = data.encode() + (body if isinstance(body, bytes) else body.encode())
        own = self.socket(60)
        own.sendall(data[:3])

        def finish():
            own.sendall(data[3:])
            response = http.client.HTTPResponse(own, method=method)
            response.begin()
            with own:
                return Reply(response)
        return finish

    def is_closed(self):
        """Waits until new connections are refused, as they are once the server drains."""
        def look():
            try:
                self.socket().close()
            except ConnectionRefusedError:
                return True
            return False
        return eventually(look)

    def op(self, op, inputs, parameters=None, **how):
        """Runs an operator that is right, and gives its only result."""
        reply = self.infer(op, inputs, parameters, **how)
        assert reply.status == 200, f"{op}: {reply.status} {reply.body[:300]!r}"
        return reply.out


@functools.cache
def reference_rate():
    """How many products and sums a second the reference's matmul makes in this binary, on this machine."""
    m = np.ones((160, 160), np.float32)
    with Service() as s:
        took = min(s.infer("matmul", {"self": m, "other": m}, {"kernel": "ref"}, binary=True).parameters["compute_us"]
                   for _ in range(20))
    return m.shape[0] ** 3 / (took * 1e-6)


def slow_side(seconds):
    """The side of square matrices whose product by the reference takes about this long."""
    return math.ceil((seconds * reference_rate()) ** (1 / 3))


class ServiceTest(unittest.TestCase):
    """Tests that share one service, started with args."""

    args, env, tls = (), None, None

    @classmethod
    def setUpClass(cls):
        cls.service = Service(*cls.args, env=cls.env, tls=cls.tls)
        cls.addClassCleanup(cls.service.stop)

    def problem(self, reply, status, *words):
        """The reply is the contract's error, and its detail has the words."""
        text = f"{reply.status} {reply.body[:300]!r}"
        self.assertEqual(reply.status, status, text)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json", text)
        said = reply.json
        self.assertEqual(sorted(said), ["detail", "error", "status", "title", "type"], text)
        self.assertEqual(said["status"], status)
        self.assertEqual(said["error"], said["detail"])
        self.assertGreater(len(said["detail"]), 10)
        for word in words:
            self.assertIn(word, said["detail"])
        return said

    def needs_kernels(self):
        if only_reference():
            self.skipTest("the build has references alone")

    def alive(self):
        self.assertIsNone(self.service.process.poll(), "the service has died")
        self.assertEqual(self.service.call("GET", "/v2/health/ready").status, 200)
