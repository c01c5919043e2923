"""What the bench scripts share: the service, raw connections, wrk, and figures with their spread.

Each script prints figures of the machine it runs on and judges nothing. They are meant for a quiet
machine: turns alternate between what is compared, and the median stands beside the lowest and the
highest, so that a noisy one is seen as such. TENSORD_BIN names the binary, build/tensord otherwise.
"""
import argparse
import collections
import os
import re
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VENV = os.path.join(ROOT, ".deps", "venv", "bin", "python3")
try:
    import numpy as np
except ImportError:
    if os.path.exists(VENV) and os.path.realpath(sys.prefix) != os.path.dirname(os.path.dirname(VENV)):
        os.execv(VENV, [VENV, *sys.argv])
    raise
sys.path.insert(1, os.path.dirname(HERE))
os.environ.setdefault("TENSORD_BIN", os.path.join(ROOT, "build", "tensord"))
from service import Service, free_port, pack, stored  # noqa: E402,F401

TOOLS = os.path.join(os.path.dirname(os.environ["TENSORD_BIN"]), "tests", "bench")


def options(doc, **numbers):
    """The command line: one whole number an option, as in rounds=5; the script's docstring is help."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in numbers.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default,
                            help=f"[{default}]")
    return parser.parse_args()


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), "?")
    cpus = sorted(os.sched_getaffinity(0))
    print(f"{model}, CPUs {cpus[0]}-{cpus[-1]}, load {os.getloadavg()[0]:.1f}", flush=True)


def spread(values, form="{:.2f}"):
    """median (lowest..highest)"""
    median, low, high = (form.format(v) for v in (statistics.median(values), min(values), max(values)))
    return f"{median} ({low}..{high})"


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))] if values else float("nan")


# ---- requests over plain sockets ----

def request(method, path, body=b"", headers=None):
    """Its bytes."""
    lines = [f"{k}: {v}" for k, v in {"Host": "localhost", **(headers or {}), "Content-Length": len(body)}.items()]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


def call(op, inputs, parameters=None, headers=None, **how):
    """The bytes of an operator's call; how: what pack() takes."""
    body, own = pack(inputs, parameters, **how)
    return request("POST", "/v1/ops/" + op, body, {**own, **(headers or {})})


LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)


class Connection:
    """One keep-alive connection, one request at a time."""

    def __init__(self, port, buffer=1 << 16):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = memoryview(bytearray(buffer))

    def exchange(self, data):
        """Sends a request, reads the reply to its end. (status, first bytes of the reply, all its bytes)"""
        self.socket.sendall(data)
        head = b""
        while b"\r\n\r\n" not in head:
            got = self.socket.recv(len(self.buffer))
            if not got:
                raise ConnectionError("closed by the server")
            head += got
        end = head.index(b"\r\n\r\n") + 4
        length = LENGTH.search(head, 0, end)
        size = end + (int(length[1]) if length else 0)
        left = size - len(head)
        while left > 0:
            left -= self.socket.recv_into(self.buffer)
        return int(head[9:12]), head, size

    def latencies(self, data, seconds):
        """Seconds of each exchange, one after another."""
        found, end = [], time.perf_counter() + seconds
        while (begin := time.perf_counter()) < end:
            status, head, _ = self.exchange(data)
            found.append(time.perf_counter() - begin)
            assert status == 200, head[:300]
        return found

    def close(self):
        self.socket.close()


class Crowd:
    """Many connections driven by one thread. run() sends data over and over: as fast as replies come,
    or at a rate, in which case requests that find no free connection are put off, not dropped."""

    def __init__(self, port, connections):
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for s in self.sockets:
            s.setblocking(False)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.by_fd = {s.fileno(): s for s in self.sockets}
        self.poll = select.epoll()
        for fd in self.by_fd:
            self.poll.register(fd, select.EPOLLIN)

    def run(self, data, seconds, rate=None):
        """[(status, seconds, head)] of the replies that came in that time. data: small enough to be
        sent at once, and replies to be received so."""
        replies, sent, parts = [], {}, {}
        free = collections.deque(self.by_fd) # in turns: the server closes those that are silent for long
        begin = time.perf_counter()
        end, begun = begin + seconds, 0
        while sent or time.perf_counter() < end:
            now = time.perf_counter()
            due = len(free) if rate is None else int((now - begin) * rate) - begun
            while now < end and due > 0 and free:
                fd = free.popleft()
                self.by_fd[fd].send(data)
                sent[fd], parts[fd] = now, b""
                begun += 1
                due -= 1
            wait = 0.2 if now >= end or not rate else max(0, (begun + 1) / rate - (now - begin)) if free else 0.2
            for fd, _ in self.poll.poll(wait):
                parts[fd] += self.by_fd[fd].recv(1 << 16)
                if self.whole(parts[fd]):
                    done = time.perf_counter()
                    if done <= end:
                        replies.append((int(parts[fd][9:12]), done - sent[fd], parts[fd]))
                    del sent[fd]
                    free.append(fd)
            if now > end + 10:
                raise TimeoutError(f"{len(sent)} replies did not come")
        return replies

    @staticmethod
    def whole(part):
        end = part.find(b"\r\n\r\n")
        length = LENGTH.search(part, 0, end + 2) if end >= 0 else None
        return end >= 0 and len(part) >= end + 4 + (int(length[1]) if length else 0)

    def close(self):
        self.poll.close()
        for s in self.sockets:
            s.close()


# ---- wrk ----

SCRIPT = """local f = io.open("{body}", "rb")
wrk.body = f:read("*a")
f:close()
wrk.method = "POST"
{headers}
"""


def wrk(port, path, connections, seconds=2, body=None, headers=None, cpu=None, scheme="http"):
    """(requests/s, p50 in us) by one thread of wrk, on a CPU if one is named. 200s only."""
    if not shutil.which("wrk"):
        sys.exit("wrk is not there: apt install wrk")
    with tempfile.TemporaryDirectory() as directory:
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency"]
        if body is not None:
            at = os.path.join(directory, "body")
            with open(at, "wb") as f:
                f.write(body)
            script = os.path.join(directory, "post.lua")
            with open(script, "w") as f:
                lines = [f'wrk.headers["{k}"] = "{v}"' for k, v in headers.items()]
                f.write(SCRIPT.format(body=at, headers="\n".join(lines)))
            command += ["-s", script]
        else:
            command += [word for k, v in (headers or {}).items() for word in ("-H", f"{k}: {v}")]
        if cpu is not None:
            command = ["taskset", "-c", str(cpu), *command]
        out = subprocess.run([*command, f"{scheme}://127.0.0.1:{port}{path}"], capture_output=True, text=True,
                             check=True).stdout
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    p50 = re.search(r"50%\s+([\d.]+)(us|ms|s)", out)
    scale = {"us": 1, "ms": 1e3, "s": 1e6}[p50[2]]
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1]), float(p50[1]) * scale


class Tool:
    """hello or echo, on a port of its own."""

    def __init__(self, name):
        self.port = free_port()
        self.process = subprocess.Popen([os.path.join(TOOLS, name), str(self.port)])
        for _ in range(200):
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


# ---- the server's process ----

def cpu_seconds(pid):
    """CPU time of all its threads, to the nanosecond: what a busy machine disturbs least."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as f:
                total += int(f.read().split()[0])
        except OSError:
            pass
    return total / 1e9


def usage(pid):
    """(resident MiB, file descriptors, threads)"""
    with open(f"/proc/{pid}/statm") as f:
        pages = int(f.read().split()[1])
    return (pages * os.sysconf("SC_PAGE_SIZE") / 2 ** 20, len(os.listdir(f"/proc/{pid}/fd")),
            len(os.listdir(f"/proc/{pid}/task")))
