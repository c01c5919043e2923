"""Two ways to put load on a server, with one kind of answer (Point): wrk where the client must not be
what limits, and a generator of our own for bodies of megabytes, which wrk would send from a script and
read in pieces of 8 KB."""
import concurrent.futures
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import time

PERCENTILES = (50, 90, 99, 99.9, 100)


class Point:
    """A call at a number of connections: what came of it."""

    def __init__(self, connections, seconds, requests, errors, microseconds):
        self.connections, self.seconds = connections, seconds
        self.requests, self.errors = requests, errors
        self.microseconds = microseconds # {percentile: us}; 100 is the maximum

    @property
    def rate(self):
        return self.requests / self.seconds


SCRIPT = """
local f = BODY and io.open(BODY, "rb")
if f then
    wrk.method, wrk.body = "POST", f:read("*a")
    f:close()
end
HEADERS
function done(summary, latency, requests)
    local e, p = summary.errors, {}
    for _, at in ipairs({PERCENTILES}) do
        p[#p + 1] = string.format('"%s":%.0f', at, latency:percentile(math.min(at, 99.999)))
    end
    io.write(string.format('\\n{"requests":%d,"us":%d,"errors":%d,"latency":{%s,"100":%d}}\\n',
        summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
        table.concat(p, ","), latency.max))
end
"""


def wrk(server, call, connections, seconds, threads):
    with tempfile.TemporaryDirectory() as directory:
        body = os.path.join(directory, "body")
        if call.body is not None:
            with open(body, "wb") as f:
                f.write(call.body)
        script = (SCRIPT.replace("BODY", json.dumps(body) if call.body is not None else "nil")
                  .replace("HEADERS", "\n".join(f'wrk.headers["{k}"] = "{v}"' for k, v in call.headers.items()))
                  .replace("PERCENTILES", ", ".join(str(p) for p in PERCENTILES if p < 100)))
        at = os.path.join(directory, "load.lua")
        with open(at, "w") as f:
            f.write(script)
        ran = subprocess.run(["wrk", f"-t{min(threads, connections)}", f"-c{connections}", f"-d{max(1, round(seconds))}",
                              "--timeout", "30", "-s", at, server.url + call.path], capture_output=True, text=True)
    found = re.search(r'^\{"requests".*$', ran.stdout, re.M)
    if not found:
        raise SystemExit(f"wrk: {ran.stderr.strip() or ran.stdout.strip()}")
    said = json.loads(found[0])
    return Point(connections, said["us"] / 1e6, said["requests"] - min(said["errors"], said["requests"]),
                 said["errors"], {float(p): us for p, us in said["latency"].items()})


# ---- our own ----

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
PIECE = 1 << 20


class Client:
    """A connection that sends the same bytes whenever it has been answered."""

    def __init__(self, address, data):
        self.socket = socket.create_connection(address, timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.data = data

    def begin(self):
        self.begun, self.sent, self.head, self.left = time.perf_counter(), 0, b"", None
        self.send()

    def send(self):
        try:
            while self.sent < len(self.data):
                self.sent += self.socket.send(self.data[self.sent:self.sent + PIECE])
        except BlockingIOError:
            pass

    @property
    def wants(self):
        return select.EPOLLIN | (select.EPOLLOUT if self.sent < len(self.data) else 0)

    def receive(self, buffer):
        """True once the reply is whole."""
        try:
            while self.left is None or self.left > 0:
                got = self.socket.recv_into(buffer)
                if not got:
                    raise ConnectionError("closed by the server")
                if self.left is not None:
                    self.left -= got
                    continue
                self.head += bytes(buffer[:got])
                end = self.head.find(b"\r\n\r\n")
                if end >= 0:
                    length = LENGTH.search(self.head, 0, end + 2)
                    self.left = end + 4 + (int(length[1]) if length else 0) - len(self.head)
                    self.status = int(self.head[9:12])
        except BlockingIOError:
            return False
        return True


def drive(address, data, connections, seconds):
    """One process's share. (requests, errors, seconds, [seconds of each])"""
    buffer, poll, data = memoryview(bytearray(PIECE)), select.epoll(), memoryview(data)
    clients = {}
    for _ in range(connections):
        client = Client(address, data)
        clients[client.socket.fileno()] = client
    begin = time.perf_counter()
    end, times, errors = begin + seconds, [], 0
    for fd, client in clients.items():
        client.begin()
        poll.register(fd, client.wants)
    while clients:
        ready = poll.poll(30)
        if not ready:
            raise SystemExit(f"{len(clients)} replies did not come within 30 s")
        for fd, events in ready:
            client = clients[fd]
            try:
                if events & select.EPOLLOUT:
                    client.send()
                whole = events & ~select.EPOLLOUT and client.receive(buffer)
            except OSError:
                whole, client.status = True, 0
            now = time.perf_counter()
            if whole and client.status == 200:
                times.append(now - client.begun)
            elif whole:
                errors += 1
            if whole and (now >= end or not client.status):
                poll.unregister(fd)
                clients.pop(fd).socket.close()
                continue
            if whole:
                client.begin()
            poll.modify(fd, client.wants)
    return len(times), errors, time.perf_counter() - begin, times


def own(server, call, connections, seconds, threads):
    address, data = (server.host, server.port), call.bytes(server.host)
    shares = [connections // threads + (k < connections % threads) for k in range(min(threads, connections))]
    if len(shares) == 1:
        parts = [drive(address, data, connections, seconds)]
    else:
        with concurrent.futures.ProcessPoolExecutor(len(shares)) as pool:
            parts = list(pool.map(drive, *zip(*[(address, data, n, seconds) for n in shares])))
    times = sorted(t for part in parts for t in part[3])
    at = {p: 1e6 * times[min(len(times) - 1, int(len(times) * p / 100))] if times else 0 for p in PERCENTILES}
    return Point(connections, max(part[2] for part in parts), len(times), sum(part[1] for part in parts), at)
