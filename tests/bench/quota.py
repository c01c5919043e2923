#!/usr/bin/env python3
"""What a CPU quota costs: products of matrices over 2 connections without a pause, and small adds at a
rate beside them, to a server in a control group. With the pool as it is by default there (as many
threads as the quota pays for, not pinned), and as a program makes it that looks at the CPUs only (one
pinned thread on each, HTTP threads that poll). Products a second, latencies, and in how many of the
group's periods of 100 ms it was throttled. Takes root.
"""
import sys
import threading
import time

import figures
from figures import Connection, Crowd, Service, call, np, percentile, stored
from groups import Quota, Unavailable

LAYOUTS = (("default", ()),
           ("one a CPU", ("--pool", "all=0,1:threads=2:pinned=true", "--io-spin-us", "200")))


class Products(threading.Thread):
    def __init__(self, port):
        super().__init__()
        self.port, self.times, self.stopped = port, [], False

    def run(self):
        connection = Connection(self.port)
        data = call("matmul", {"self": stored("m"), "other": stored("m")},
                    outputs=[{"name": "out", "parameters": {"tensor": f"out{id(self)}"}}])
        while not self.stopped:
            begin = time.perf_counter()
            status, head, _ = connection.exchange(data)
            assert status == 200, head
            self.times.append(1e3 * (time.perf_counter() - begin))
        connection.close()


def measure(service, group, arguments):
    n = arguments.size
    service.call("PUT", "/v1/tensors/m", {"shape": [n, n], "datatype": "FP32", "data": [1] * n * n})
    products = [Products(service.port) for _ in range(2)]
    for one in products:
        one.start()
    x = np.ones(256, np.float32)
    crowd = Crowd(service.port, 8)
    before = group.throttled()
    replies = crowd.run(call("add", {"self": x, "other": x}), arguments.seconds, arguments.rate)
    periods, throttled = (b - a for a, b in zip(before, group.throttled()))
    for one in products:
        one.stopped = True
        one.join()
    crowd.close()
    assert all(status == 200 for status, _, _ in replies)
    times, adds = sum((one.times for one in products), []), [1e3 * seconds for _, seconds, _ in replies]
    return (f"{len(times) / arguments.seconds:6.1f} products/s p99 {percentile(times, 99):4.0f} ms, "
            f"add p50 {percentile(adds, 50):6.2f} p99 {percentile(adds, 99):6.1f} ms, "
            f"throttled {throttled} of {periods}")


def main():
    arguments = figures.options(__doc__, seconds=10, rate=100, size=512)
    figures.machine()
    for cpus in (0.5, 1, 1.5, None):
        for layout, options in LAYOUTS:
            try:
                group = Quota(cpus)
            except Unavailable as reason:
                sys.exit(str(reason))
            group.prefer()
            with group, Service(*options, groups=[group]) as service:
                print(f"quota {cpus or 'none':4} {layout:10} {measure(service, group, arguments)}", flush=True)


if __name__ == "__main__":
    main()
