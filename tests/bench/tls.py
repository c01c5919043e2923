#!/usr/bin/env python3
"""What TLS costs: requests/s and the server's CPU time a request beside a server without, in turns; handshakes a second; and bodies
of 100 MB both ways.

GET /v1/isa and a binary op.add of 256 floats by one thread of wrk over 16 connections that stay; handshakes by Python's
ssl, one connection after the other, so that the client's part is in them; a reply of 100 MB is zeros, a body of 100 MB goes
to sum. The certificate is of ECDSA P-256.
"""
import pathlib
import resource
import socket
import ssl
import sys
import time

import figures
from figures import Service, np, pack, spread

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import certificates

CONNECTIONS = 16


def turn(server, scheme, arguments, path, body, headers):
    before = figures.cpu_seconds(server.pid)
    rate, _ = figures.wrk(server.port, path, CONNECTIONS, arguments.seconds, body, headers, scheme=scheme)
    assert rate, "no reply in all that time"
    return rate, (figures.cpu_seconds(server.pid) - before) / (rate * arguments.seconds) * 1e6


def handshakes(server, context, seconds):
    """(a second, of the server's CPU time in us each)."""
    before, n, end = figures.cpu_seconds(server.pid), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            if context:
                context.wrap_socket(plain, server_hostname="localhost").close()
        n += 1
    return n / seconds, (figures.cpu_seconds(server.pid) - before) / n * 1e6


def big(server):
    """MB/s of a body and of a reply."""
    x = np.zeros(25_000_000, np.float32)
    body, headers = pack({"self": x}, binary=True)
    c = server.connect()
    began = time.perf_counter()
    assert server.call("POST", "/v1/ops/sum", body, headers, c).status == 200
    up = time.perf_counter() - began
    began = time.perf_counter()
    body, headers = pack({}, {"size": [25_000_000], "dtype": "FP32"}, binary=True)
    reply = server.call("POST", "/v1/ops/zeros", body, headers, c)
    down = time.perf_counter() - began
    assert reply.status == 200 and len(reply.body) > 1e8, reply.body[:200]
    c.close()
    return 100 / up, 100 / down


def main():
    arguments = figures.options(__doc__, rounds=7, seconds=2)
    figures.machine()
    authority, (cert, key) = certificates.here()
    x = np.ones(256, np.float32)
    body, headers = pack({"self": x, "other": x}, binary=True)
    files = ("--tls-cert", str(cert), "--tls-key", str(key))
    with Service("--log", "off") as off, Service("--log", "off", *files, tls=authority.context()) as on:
        for name, path, sent, own in (("GET /v1/isa", "/v1/isa", None, {}), ("op.add 256", "/v1/ops/add", body, headers)):
            turns = []
            for i in range(arguments.rounds):
                took = {}
                for scheme, side in [("http", off), ("https", on)][::1 - 2 * (i % 2)]:
                    took[scheme] = turn(side, scheme, arguments, path, sent, own)
                turns.append(took)
            print(f"{name:12}: {spread([t['https'][0] / t['http'][0] for t in turns], '{:.3f}')} of the requests/s without, CPU "
                  f"{spread([t['https'][1] for t in turns], '{:.2f}')} / {spread([t['http'][1] for t in turns], '{:.2f}')} us a request", flush=True)
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = authority.context()
            context.maximum_version = context.minimum_version = version
            found = [handshakes(on, context, arguments.seconds) for _ in range(3)]
            print(f"{version.name}: {max(f[0] for f in found):.0f} handshakes a second of one client, CPU "
                  f"{min(f[1] for f in found):.0f} us each", flush=True)
        found = [(big(on), big(off)) for _ in range(3)]
        for k, what in enumerate(("body", "reply")):
            print(f"100 MB {what}: {max(f[0][k] for f in found):.0f} MB/s, {max(f[1][k] for f in found):.0f} without", flush=True)


if __name__ == "__main__":
    main()
