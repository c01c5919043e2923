#!/usr/bin/env python3
"""Ten minutes of everything at once against one server, whose memory, file descriptors and threads are
to stay where they were: connections that come and go, some in the middle of a request, some reset; calls
whose results are computed from their number and checked against it; operators in random shapes, and the
nearly right calls of tests/fuzz; models that are put, run in random shapes and deleted; tasks that are
cancelled, waited for or left; pools that come and go, with calls to them. Prints a line every ten seconds,
and at the end how the second half of the time differs from the first. --out NAME writes a sample a second as
NAME.csv and their curves as NAME.svg: what is resident beside what the server has counted.
"""
import collections
import csv
import os
import random
import re
import socket
import statistics
import struct
import sys
import threading
import time

import curves
import figures
from figures import Connection, Service, np, pack, request

sys.path[:0] = [os.path.join(figures.ROOT, "tests"), os.path.join(figures.ROOT, "tests", "fuzz")] # before files of that name here
import making  # noqa: E402
import models  # noqa: E402

COUNTS, STATUSES = collections.Counter(), collections.Counter()
WRONG = []
FULL = (429, 503, 507) # no room, which is no mistake of anybody
COLUMNS = ("seconds", "resident_mib", "counted_mib", "kept_mib", "store_mib", "descriptors", "threads", "turns")
SHAPED = { # operator -> its inputs, whose letters are sizes, and parameters
    "matmul": ({"self": "mk", "other": "kn"}, {}), "bmm": ({"self": "bmk", "mat2": "bkn"}, {}),
    "linear": ({"input": "mk", "weight": "nk"}, {}), "add": ({"self": "mn", "other": "n"}, {}),
    "exp": ({"self": "bmn"}, {}), "softmax": ({"self": "bmn"}, {"dim": -1}), "sum": ({"self": "bmn"}, {"dim": [1]}),
    "sort": ({"self": "mn"}, {}), "cumsum": ({"self": "bmn"}, {"dim": 1}), "transpose": ({"self": "bmn"}, {"dim0": 0, "dim1": 2}),
    "conv1d": ({"input": "bcn", "weight": "mc3"}, {"padding": 1}), "conv2d": ({"input": "bcmn", "weight": "kc33"}, {"padding": [1, 1]}),
    "max_pool2d": ({"self": "bcmn"}, {"kernel_size": [2, 2], "padding": [1, 1]})}


def add(number, size, **parameters):
    """A call that says its number, and what its result begins and ends with."""
    x = np.full(size, number % 9973, np.float32)
    x[-1] = number % 7919
    body, headers = pack({"self": x, "other": x}, {"alpha": 2, **parameters}, binary=True, id=str(number))
    return request("POST", "/v1/ops/add", body, headers), 3 * x


def check(reply, number, want):
    head, body = reply.split(b"\r\n\r\n", 1)
    if not (b'"id":"%d"' % number in body and body.endswith(want.tobytes())):
        WRONG.append((number, head[:60], body[:200]))


class Client(threading.Thread):
    """Does one kind of thing over and over until the time is up."""

    def __init__(self, kind, port, stop, seed, ops):
        super().__init__(daemon=True)
        self.kind, self.port, self.stop, self.random = kind, port, stop, random.Random(seed)
        self.number = seed * 10_000_000
        if kind == "nearly":
            self.regions = making.Regions(f"soak{seed}")
            self.maker = making.Maker(self.random, ops, ["CPU", "Tracer", "AutogradCPU"], self.regions, f"soak{seed}")

    def run(self):
        while not self.stop.is_set():
            try:
                getattr(self, self.kind)()
            except Exception as e: # noqa: BLE001 whatever it is, it is to be told at the end
                WRONG.append((self.kind, repr(e)))
                time.sleep(0.1)
            COUNTS[self.kind] += 1

    def some_shape(self):
        """A call of an operator in sizes that have not been before."""
        op = self.random.choice(sorted(SHAPED))
        inputs, parameters = SHAPED[op]
        sizes = {c: self.random.randrange(1, 90 if c in "mkn" else 5) for c in "bcmkn"} | {"3": 3}
        kind = self.random.choice((np.float32, np.float32, np.float64))
        return op, *pack({name: np.ones([sizes[c] for c in letters], kind) for name, letters in inputs.items()}, parameters,
                         binary=self.random.random() < 0.7)

    def shapes(self):
        connection = Connection(self.port)
        for _ in range(50):
            op, body, headers = self.some_shape()
            status, head = self.exchange(connection, request("POST", "/v1/ops/" + op, body, headers))
            STATUSES[status] += 1
            if status != 200 and status not in FULL:
                WRONG.append((op, status, head[:400]))
        connection.close()

    def nearly(self):
        """Calls that are nearly right, each on a connection of its own; what they answer is judged by tests/fuzz."""
        call = self.maker.call()
        body, headers = call.body(self.random)
        try:
            connection = Connection(self.port)
            status, head = self.exchange(connection, request("POST", call.path, body, headers))
            STATUSES[status] += 1
            if status == 500:
                WRONG.append((call.path, status, head[:400], body[:400]))
            connection.close()
        except ConnectionError as e:
            STATUSES[type(e).__name__] += 1

    def models(self):
        """One is put, run in some shapes, replaced or not, and deleted."""
        connection, name = Connection(self.port), f"soak{self.random.randrange(20)}of{self.number}"
        factor = self.random.randrange(1, 9)
        status, head = self.exchange(connection, request("PUT", "/v1/models/" + name, models.line(factor)))
        for _ in range(self.random.randrange(8) if status in (200, 201) else 0):
            x = np.full((self.random.randrange(1, 300), 3), self.random.randrange(9), np.float32)
            body, headers = pack({"x": x}, binary=True)
            connection.socket.sendall(request("POST", f"/v2/models/{name}/infer", body, headers))
            reply = b""
            while not figures.Crowd.whole(reply):
                reply += connection.socket.recv(1 << 16)
            STATUSES[int(reply[9:12])] += 1
            if int(reply[9:12]) not in FULL and not reply.endswith(models.line_of(x, factor).tobytes()):
                WRONG.append((name, reply[:300]))
        if status not in (200, 201, *FULL):
            WRONG.append((name, status, head[:300]))
        elif status < 400 and self.exchange(connection, request("DELETE", "/v1/models/" + name))[0] != 204:
            WRONG.append((name, "was not deleted"))
        connection.close()

    def killed(self):
        """A client that ends like a killed one: with a reset, in the middle of a body of some MB or of its reply."""
        connection, size = Connection(self.port), self.random.randrange(1, 1 << 20)
        data, _ = add(self.number, size)
        how = self.random.randrange(3)
        connection.socket.settimeout(5)
        try:
            connection.socket.sendall(data if how else data[:self.random.randrange(1, len(data))])
            if how == 2:
                connection.socket.recv(self.random.randrange(1, 1 << 16))
        except OSError:
            pass # refused before all was sent
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def exchange(self, connection, data):
        return connection.exchange(data)[:2]

    def calls(self):
        """A hundred on one connection, each checked; replies of up to 60 KB come in one piece or more."""
        connection = Connection(self.port)
        for _ in range(100):
            self.number += 1
            data, want = add(self.number, self.random.choice((1, 16, 256, 3000)))
            connection.socket.sendall(data)
            reply = b""
            while not figures.Crowd.whole(reply):
                reply += connection.socket.recv(1 << 16)
            check(reply, self.number, want)
        connection.close()

    def churn(self):
        """A connection for one call, for a part of one, for a reply that is not read, or for nothing."""
        self.number += 1
        data, want = add(self.number, 2000)
        connection, how = Connection(self.port), self.random.randrange(4)
        if how == 0:
            connection.socket.sendall(data[:self.random.randrange(1, len(data))])
        elif how == 1:
            connection.socket.sendall(data)
        elif how == 2:
            status, head = self.exchange(connection, data)
            if status not in (200, *FULL):
                WRONG.append((status, head[:200]))
        connection.close()

    def tasks(self):
        connection, ids = Connection(self.port), []
        for _ in range(20):
            self.number += 1
            body, headers = pack({"self": np.full((300, 300), 1, np.float32),
                                  "other": np.full((300, 300), 2, np.float32)}, binary=True)
            status, head = self.exchange(connection, request(
                "POST", "/v1/ops/matmul", body, {**headers, "Prefer": "respond-async"}))
            if status == 202:
                ids.append(head.lower().split(b"location: ")[1].split(b"\r\n")[0].decode())
            elif status not in FULL:
                WRONG.append((status, head[:300]))
        for at in ids:
            how = self.random.randrange(3)
            if how == 0 and self.exchange(connection, request("GET", at + "?wait=30"))[0] not in (200, 404): # expired
                WRONG.append(("task", at))
            if how < 2 and self.exchange(connection, request("DELETE", at))[0] not in (204, 404, 409):
                WRONG.append(("task's DELETE", at))
        connection.close()

    def pools(self):
        connection, name = Connection(self.port), f"soak{self.number}"
        self.number += 1
        status, head = self.exchange(connection, request("PUT", "/v1/pools/" + name, b'{"cpus":"0","threads":1}'))
        if status not in (200, 201, *FULL):
            WRONG.append((status, head[:300]))
        data, _ = add(self.number, 256, pool=name)
        for _ in range(10):
            status, head = self.exchange(connection, data)
            if status not in (200, *FULL):
                WRONG.append((status, head[:300]))
        status, head = self.exchange(connection, request("DELETE", "/v1/pools/" + name))
        if status not in (200, 204):
            WRONG.append((status, head[:300]))
        connection.close()
        time.sleep(0.05)


class Samples:
    """A row a second: what /proc and /metrics say."""

    def __init__(self, service):
        self.service, self.rows, self.begin = service, [], time.monotonic()

    def take(self):
        text = self.service.call("GET", "/metrics").body.decode()
        counted = [int(re.search(rf"^tensord_{name}_bytes (\d+)$", text, re.M)[1]) / 2 ** 20
                   for name in ("memory", "memory_kept", "store")]
        resident, descriptors, threads = figures.usage(self.service.pid)
        self.rows.append((round(time.monotonic() - self.begin, 2), resident, *counted, descriptors, threads,
                          sum(COUNTS.values())))
        return self.rows[-1]

    def column(self, name):
        return [row[COLUMNS.index(name)] for row in self.rows]

    def write(self, name, limit):
        with open(name + ".csv", "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(COLUMNS)
            out.writerows([round(v, 2) for v in row] for row in self.rows)
        x = self.column("seconds")
        with open(name + ".svg", "w") as f:
            f.write(curves.svg("Memory of the server under load and faults", "seconds", "MiB", x, {
                "resident": self.column("resident_mib"), "counted": self.column("counted_mib"),
                "kept": self.column("kept_mib"), "store": self.column("store_mib"), "--memory": [limit / 2 ** 20] * len(x)}))


def main():
    arguments = figures.options(__doc__, seconds=600, seed=1, memory=200_000_000, out="")
    figures.machine()
    kinds = ("calls", "calls", "churn", "churn", "shapes", "shapes", "nearly", "models", "models", "killed", "tasks", "pools")
    with Service("--task-ttl-s", "5", "--memory", str(arguments.memory), "--log", "off") as service:
        ops = service.call("GET", "/v1/ops").json["ops"]
        stop, samples = threading.Event(), Samples(service)
        clients = [Client(kind, service.port, stop, arguments.seed * 100 + k, ops) for k, kind in enumerate(kinds)]
        for client in clients:
            client.start()
        begin, shown, told = time.monotonic(), 0, 0
        while (age := time.monotonic() - begin) < arguments.seconds:
            time.sleep(1)
            now = samples.take()
            if age >= shown:
                shown += 10
                print(f"{age:5.0f} s  {now[1]:6.1f} MiB, counted {now[2]:5.1f}, {now[5]:3d} descriptors, {now[6]:3d} threads  "
                      f"{dict(COUNTS)} {dict(STATUSES)}, wrong: {len(WRONG)}", flush=True)
                for one in WRONG[told:told + 5]:
                    print("  ", one, flush=True)
                told = len(WRONG)
                if arguments.out:
                    samples.write(arguments.out, arguments.memory)
        stop.set()
        for client in clients:
            client.join(60)
            if client.kind == "nearly":
                client.regions.close()
        time.sleep(6) # tasks expire
        rest = samples.take()
    if arguments.out:
        samples.write(arguments.out, arguments.memory)
    half = len(samples.rows) // 2
    for name in COLUMNS[1:-1]:
        first, second = samples.column(name)[half // 4:half], samples.column(name)[half:-1]
        print(f"{name:12} first half {figures.spread(first, '{:.1f}')}, second {figures.spread(second, '{:.1f}')}, "
              f"at rest {rest[COLUMNS.index(name)]:.1f}; median changed by {statistics.median(second) - statistics.median(first):+.1f}")
    print(f"{sum(COUNTS.values())} turns, {len(WRONG)} wrong" + "".join(f"\n  {w}" for w in WRONG[:3]))


if __name__ == "__main__":
    main()
