#!/usr/bin/env python3
"""What tokens cost: requests/s and the server's CPU time a request with --tokens, beside a server without that is sent the
same header, and beside one that is sent none, in turns.

GET /v1/isa and a binary op.add of 256 floats by one thread of wrk over 16 connections, with one token among 100: the median
ratio of each to the server without, and its spread. A head of more than 512 bytes is never known again: its secret is
hashed each time.
"""
import pathlib
import random
import sys
import tempfile

import figures
from figures import Service, np, pack, spread

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import tokens

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
        known = tokens.Tokens(folder + "/tokens", random.Random(1))
        for n in range(100):
            known.add(f"t{n}", "read,run")
        known.write()
        token, long = known.headers("t57"), {"X-Long": "x" * 500}
        with Service("--log", "off") as off, Service("--log", "off", "--tokens", known.path) as on:
            for name, path, sent, own in (("GET /v1/isa", "/v1/isa", None, {}), ("op.add 256", "/v1/ops/add", body, headers),
                                          ("long head", "/v1/ops/add", body, {**headers, **long})):
                sides = [(off, own), (off, {**own, **token}), (on, {**own, **token})]
                turns = []
                for i in range(arguments.rounds):
                    order = [(i + k) % 3 for k in range(3)] # none is always the first
                    took = {k: turn(sides[k][0], arguments, path, sent, sides[k][1]) for k in order}
                    turns.append([took[k] for k in range(3)])
                for k, what in ((1, "the header alone"), (2, "tokens")):
                    print(f"{name:12} {what:16}: {spread([t[k][0] / t[0][0] for t in turns], '{:.3f}')} of the requests/s without, "
                          f"CPU {spread([t[k][1] for t in turns], '{:.2f}')} / {spread([t[0][1] for t in turns], '{:.2f}')} us a request",
                          flush=True)


if __name__ == "__main__":
    main()
