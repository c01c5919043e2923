#!/usr/bin/env python3
"""Adds tensors of 1 MiB through the socket and through shared memory, one connection; prints both
rates, the best of five turns each. Run it as tests/bench/shm.py; TENSORD_BIN names the binary."""
import json
import os
import pathlib
import sys
import time

sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])
import numpy as np  # noqa: E402

import service  # noqa: E402

N, SECONDS, TURNS = 1 << 18, 1, 5


def exchange(s, request, buffer):
    """Sends a request and reads the reply to its end."""
    s.sendall(request)
    got = s.recv_into(buffer)
    head = bytes(buffer[:got]).split(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 200"), head[:300]
    length = int(head.lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
    left = len(head) + 4 + length - got
    while left > 0:
        left -= s.recv_into(buffer)


def rate(s, request, buffer):
    end, n = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        exchange(s, request, buffer)
        n += 1
    return n / SECONDS


def post(body, headers):
    lines = [f"{k}: {v}" for k, v in {**headers, "Host": "localhost", "Content-Length": len(body)}.items()]
    return "\r\n".join(["POST /v1/ops/add HTTP/1.1", *lines, "", ""]).encode() + body


def main():
    x = np.arange(N, dtype=np.float32)
    key = f"/tensord_bench_{os.getpid()}"
    with open("/dev/shm" + key, "wb") as f:
        f.write(x.tobytes() * 2 + bytes(x.nbytes))

    def place(offset):
        return {"parameters": {"shared_memory_region": "bench", "shared_memory_byte_size": x.nbytes,
                               "shared_memory_offset": offset}}
    with service.Service() as server:
        server.call("POST", "/v2/systemsharedmemory/region/bench/register", {"key": key, "byte_size": 3 * x.nbytes})
        os.unlink("/dev/shm" + key)
        what = {"shape": [N], "datatype": "FP32"}
        requests = {
            "socket": post(*service.pack({"self": x, "other": x}, binary=True)),
            "shared memory": post(json.dumps({
                "inputs": [{"name": "self", **what, **place(0)}, {"name": "other", **what, **place(x.nbytes)}],
                "outputs": [{"name": "out", **place(2 * x.nbytes)}]}).encode(), {})}
        best, buffer = dict.fromkeys(requests, 0), memoryview(bytearray(1 << 20))
        with server.socket() as s:
            for _ in range(TURNS):
                for name, request in requests.items():
                    best[name] = max(best[name], rate(s, request, buffer))
    for name, value in best.items():
        print(f"{name:14} {value:8.0f} requests/s")
    print(f"{best['shared memory'] / best['socket']:.1f} times as many")


main()
