#!/usr/bin/env python3
"""Two tasks on two pools of one CPU each, together and one after the other: products of matrices in
the server, submitted with `Prefer: respond-async` and waited for. Time of both together as a part of
the time one after the other; 0.5 would be perfect.
"""
import re
import time

import figures
from figures import Connection, Service, call, request, spread, stored


class Tasks:
    def __init__(self, port, size):
        self.connections = {pool: Connection(port) for pool in "ab"}
        self.calls = {pool: call("matmul", {"self": stored("m"), "other": stored("m")}, {"pool": pool},
                                 {"Prefer": "respond-async"},
                                 outputs=[{"name": "out", "parameters": {"tensor": "out-" + pool}}])
                      for pool in "ab"}

    def submit(self, pool):
        status, head, _ = self.connections[pool].exchange(self.calls[pool])
        assert status == 202, head
        return re.search(rb"location: *(\S+)", head, re.I)[1].decode()

    def wait(self, pool, task):
        status, head, _ = self.connections[pool].exchange(request("GET", task + "?wait=60"))
        assert status == 200, head
        self.connections[pool].exchange(request("DELETE", task))

    def serial(self):
        begin = time.perf_counter()
        for pool in "ab":
            self.wait(pool, self.submit(pool))
        return time.perf_counter() - begin

    def together(self):
        begin = time.perf_counter()
        tasks = {pool: self.submit(pool) for pool in "ab"}
        for pool, task in tasks.items():
            self.wait(pool, task)
        return time.perf_counter() - begin


def main():
    arguments = figures.options(__doc__, rounds=15, size=1024)
    figures.machine()
    with Service("--pool", "a=0", "--pool", "b=1") as service:
        n = arguments.size
        service.call("PUT", "/v1/tensors/m", {"shape": [n, n], "datatype": "FP32", "data": [1] * n * n})
        tasks = Tasks(service.port, n)
        tasks.serial()
        turns = [(tasks.serial(), tasks.together()) for _ in range(arguments.rounds)]
    print(f"one after the other {spread([1e3 * s for s, _ in turns], '{:.1f}')} ms, "
          f"together {spread([1e3 * t for _, t in turns], '{:.1f}')} ms, "
          f"part {spread([t / s for s, t in turns])}")


if __name__ == "__main__":
    main()
