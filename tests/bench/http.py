#!/usr/bin/env python3
"""http.py BUILD_DIR [ROUNDS]: requests/s beside a libmicrohttpd hello-world, by wrk -t1, in turns.

GET /v1/isa, and a binary op.add of 256 floats, at 1 and at 16 connections. Each line: the median
ratio, the lowest and highest one, and the medians of both sides. Server and wrk share the machine.
"""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
build, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
os.environ["TENSORD_BIN"] = os.path.join(build, "tensord")
from service import Service, free_port, pack  # noqa: E402

import numpy as np

SCRIPT = """local f = io.open("{body}", "rb")
wrk.body = f:read("*a")
f:close()
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/octet-stream"
wrk.headers["Inference-Header-Content-Length"] = "{length}"
"""


def wrk(port, path, connections, script):
    out = subprocess.run(["wrk", "-t1", f"-c{connections}", "-d2", "--latency",
                          *(["-s", script] if script else []), f"http://127.0.0.1:{port}{path}"],
                         capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in out, out
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])


def main(directory):
    ones = np.ones(256, np.float32)
    body, headers = pack({"self": ones, "other": ones}, binary=True)
    with open(os.path.join(directory, "body"), "wb") as f:
        f.write(body)
    script = os.path.join(directory, "add.lua")
    with open(script, "w") as f:
        f.write(SCRIPT.format(body=f.name.replace("add.lua", "body"),
                              length=headers["Inference-Header-Content-Length"]))
    port = free_port()
    hello = subprocess.Popen([os.path.join(build, "tests", "bench", "hello"), str(port)])
    try:
        with Service() as service:
            time.sleep(0.2)
            print(next(line for line in open("/proc/cpuinfo") if "model name" in line).strip())
            for name, path, lua in (("GET /v1/isa", "/v1/isa", None),
                                    ("op.add 256", "/v1/ops/add", script)):
                for connections in (1, 16):
                    pairs = [(wrk(service.port, path, connections, lua),
                              wrk(port, "/", connections, lua)) for _ in range(rounds)]
                    ratios = sorted(ours / theirs for ours, theirs in pairs)
                    ours, theirs = (statistics.median(side) for side in zip(*pairs))
                    print(f"{name:12} c={connections:<3} {statistics.median(ratios):.2f} "
                          f"({ratios[0]:.2f}..{ratios[-1]:.2f})  {ours:8.0f} / {theirs:.0f} req/s")
    finally:
        hello.terminate()
        hello.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(directory)
