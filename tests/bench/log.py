#!/usr/bin/env python3
"""What logging costs: requests/s with --log json into a file beside --log off, in turns.

GET /v1/isa and a binary op.add of 256 floats by one thread of wrk over 16 connections: the median
ratio and its spread, both sides' requests/s, CPU time of the server a request, lines a second and
how many requests had none.
"""
import os
import tempfile

import figures
from figures import Service, np, pack, spread

CONNECTIONS = 16


def turn(server, arguments, path, body, headers):
    """(requests/s, CPU us a request) of one side."""
    before = figures.cpu_seconds(server.pid)
    rate, _ = figures.wrk(server.port, path, CONNECTIONS, arguments.seconds, body, headers)
    assert rate, "no reply in all that time"
    return rate, (figures.cpu_seconds(server.pid) - before) / (rate * arguments.seconds) * 1e6


def main():
    arguments = figures.options(__doc__, rounds=9, seconds=2)
    figures.machine()
    x = np.ones(256, np.float32)
    body, headers = pack({"self": x, "other": x}, binary=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        with open(path, "w") as log, Service("--log", "off") as off, \
                Service("--log", "json", stderr=log) as on:
            for name, at, sent in (("GET /v1/isa", "/v1/isa", (None, None)), ("op.add 256", "/v1/ops/add", (body, headers))):
                before, turns = os.path.getsize(path), []
                for i in range(arguments.rounds):
                    sides = [on, off] if i % 2 else [off, on] # neither is always the first
                    took = [turn(server, arguments, at, *sent) for server in sides]
                    turns.append(took[::-1] if i % 2 else took)
                rates = [[side[0] for side in pair] for pair in turns]
                with open(path) as f:
                    f.seek(before)
                    lines = sum(1 for _ in f)
                print(f"{name:12} {spread([b / a for a, b in rates], '{:.3f}')} of the requests/s without: "
                      f"{spread([b for _, b in rates], '{:.0f}')} / {spread([a for a, _ in rates], '{:.0f}')}, CPU "
                      f"{spread([b[1] for _, b in turns], '{:.1f}')} / {spread([a[1] for a, _ in turns], '{:.1f}')} us "
                      f"a request, {lines / arguments.rounds / arguments.seconds:.0f} lines/s", flush=True)


if __name__ == "__main__":
    main()
