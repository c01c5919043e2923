#!/usr/bin/env python3
"""Ten minutes of everything at once against one server, whose memory, file descriptors and threads are
to stay where they were: connections that come and go, some in the middle of a request; calls whose
results are computed from their number and checked against it; tasks that are cancelled, waited for or
left; pools that come and go, with calls to them. Prints a line every ten seconds, and at the end how
the second half of the time differs from the first.
"""
import collections
import random
import statistics
import threading
import time

import figures
from figures import Connection, Service, np, pack, request

COUNTS = collections.Counter()
WRONG = []


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

    def __init__(self, kind, port, stop, seed):
        super().__init__(daemon=True)
        self.kind, self.port, self.stop, self.random = kind, port, stop, random.Random(seed)
        self.number = seed * 10_000_000

    def run(self):
        while not self.stop.is_set():
            try:
                getattr(self, self.kind)()
            except Exception as e: # noqa: BLE001 whatever it is, it is to be told at the end
                WRONG.append((self.kind, repr(e)))
                time.sleep(0.1)
            COUNTS[self.kind] += 1

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
            if status != 200:
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
            elif status != 429:
                WRONG.append((status, head[:300]))
        for at in ids:
            how = self.random.randrange(3)
            if how == 0 and self.exchange(connection, request("GET", at + "?wait=30"))[0] != 200:
                WRONG.append(("task", at))
            if how < 2 and self.exchange(connection, request("DELETE", at))[0] not in (204, 409):
                WRONG.append(("task's DELETE", at))
        connection.close()

    def pools(self):
        connection, name = Connection(self.port), f"soak{self.number}"
        self.number += 1
        status, head = self.exchange(connection, request("PUT", "/v1/pools/" + name, b'{"cpus":"0","threads":1}'))
        if status not in (200, 201):
            WRONG.append((status, head[:300]))
        data, _ = add(self.number, 256, pool=name)
        for _ in range(10):
            status, head = self.exchange(connection, data)
            if status != 200:
                WRONG.append((status, head[:300]))
        status, head = self.exchange(connection, request("DELETE", "/v1/pools/" + name))
        if status not in (200, 204):
            WRONG.append((status, head[:300]))
        connection.close()
        time.sleep(0.05)


def main():
    arguments = figures.options(__doc__, seconds=600)
    figures.machine()
    with Service("--task-ttl-s", "5") as service:
        stop, samples = threading.Event(), []
        clients = [Client(kind, service.port, stop, seed) for seed, kind in
                   enumerate(("calls", "calls", "churn", "churn", "tasks", "pools"), 1)]
        for client in clients:
            client.start()
        begin, shown = time.monotonic(), 0
        while (age := time.monotonic() - begin) < arguments.seconds:
            time.sleep(1)
            samples.append(figures.usage(service.pid))
            if age >= shown:
                shown += 10
                print(f"{age:5.0f} s  {samples[-1][0]:6.1f} MiB, {samples[-1][1]:3d} descriptors, "
                      f"{samples[-1][2]:3d} threads  {dict(COUNTS)}, wrong: {len(WRONG)}", flush=True)
        stop.set()
        for client in clients:
            client.join(60)
        time.sleep(6) # tasks expire
        rest = figures.usage(service.pid)
    half = len(samples) // 2
    for k, what in enumerate(("MiB", "descriptors", "threads")):
        first, second = ([s[k] for s in part] for part in (samples[half // 4:half], samples[half:]))
        print(f"{what:12} first half {figures.spread(first, '{:.1f}')}, second {figures.spread(second, '{:.1f}')}, "
              f"at rest {rest[k]:.1f}; median changed by {statistics.median(second) - statistics.median(first):+.1f}")
    print(f"{sum(COUNTS.values())} turns, {len(WRONG)} wrong" + "".join(f"\n  {w}" for w in WRONG[:10]))


if __name__ == "__main__":
    main()
