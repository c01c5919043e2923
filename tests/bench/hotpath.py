#!/usr/bin/env python3
"""What a request costs beside bare libmicrohttpd, in turns.

GET /v1/isa and a binary op.add of 256 floats, beside a hello-world, by one thread of wrk: the median
ratio of requests/s and its spread, requests/s of both sides, the difference of the p50, and CPU time
of both servers a request over one connection. A binary op.add of two tensors of 1 MiB, beside an
echo of as many bytes: MB/s, both ways counted. Clients and servers share the machine; with --cpu both
are put on that one, which says what the server costs and leaves out who wakes whom.
"""
import os
import time

import figures
from figures import Connection, Service, Tool, call, np, pack, request, spread

BIG = 1 << 18


def small(arguments, name, path, ours, theirs, body, headers):
    for connections in (1, 16):
        turns = [[figures.wrk(server.port, at, connections, arguments.seconds, body, headers, arguments.pin)
                  for server, at in ((ours, path), (theirs, "/"))] for _ in range(arguments.rounds)]
        print(f"{name:14} c={connections:<3} {spread([a[0] / b[0] for a, b in turns])} of hello's requests/s: "
              f"{spread([a[0] for a, _ in turns], '{:.0f}')} / {spread([b[0] for _, b in turns], '{:.0f}')}, "
              f"p50 {spread([a[1] - b[1] for a, b in turns], '{:+.0f}')} us", flush=True)


def cpu(name, rounds, pairs, count, unit=1e6):
    """pairs: (process id, connection, request) of both sides."""
    costs = []
    for _ in range(rounds):
        turn = []
        for pid, connection, data in pairs:
            before = figures.cpu_seconds(pid)
            for _ in range(count):
                connection.exchange(data)
            turn.append((figures.cpu_seconds(pid) - before) / count * unit)
        costs.append(turn)
    print(f"{name:14} CPU {spread([a for a, _ in costs], '{:.1f}')} us a request beside "
          f"{spread([b for _, b in costs], '{:.1f}')}", flush=True)


def big(arguments, ours, echo):
    x = np.ones(BIG, np.float32)
    add = call("add", {"self": x, "other": x}, binary=True)
    same = request("POST", "/", bytes(3 * x.nbytes // 2))
    sides = [(Connection(ours.port, 1 << 20), add), (Connection(echo.port, 1 << 20), same)]
    rates = []
    for turn in range(arguments.rounds + 1): # the first one warms up
        rates.append([])
        for connection, data in sides:
            moved, begin = 0, time.perf_counter()
            while time.perf_counter() < begin + arguments.seconds / 2:
                moved += len(data) + connection.exchange(data)[2]
            rates[-1].append(moved / (time.perf_counter() - begin) / 1e6)
    del rates[0]
    print(f"op.add 1 MiB   c=1   {spread([a / b for a, b in rates])} of echo's MB/s: "
          f"{spread([a for a, _ in rates], '{:.0f}')} / {spread([b for _, b in rates], '{:.0f}')}", flush=True)
    cpu("op.add 1 MiB", arguments.rounds,
        [(ours.pid, *sides[0]), (echo.process.pid, *sides[1])], 50)


def main():
    arguments = figures.options(__doc__, rounds=5, seconds=2, cpu=-1)
    arguments.pin = arguments.cpu if arguments.cpu >= 0 else None
    figures.machine()
    if arguments.pin is not None:
        os.sched_setaffinity(0, {arguments.pin})
    x = np.ones(256, np.float32)
    body, headers = pack({"self": x, "other": x}, binary=True)
    with Service() as ours, Tool("hello") as hello, Tool("echo") as echo:
        small(arguments, "GET /v1/isa", "/v1/isa", ours, hello, None, None)
        small(arguments, "op.add 256", "/v1/ops/add", ours, hello, body, headers)
        pair = [Connection(ours.port), Connection(hello.port)]
        for name, data in (("GET /v1/isa", request("GET", "/v1/isa")),
                           ("op.add 256", request("POST", "/v1/ops/add", body, headers))):
            cpu(name, arguments.rounds,
                list(zip((ours.pid, hello.process.pid), pair, (data, data))), 2000)
        big(arguments, ours, echo)


if __name__ == "__main__":
    main()
