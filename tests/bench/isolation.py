#!/usr/bin/env python3
"""Whether one pool's work disturbs another's: adds of 256 floats on pool b (CPU 0, with its HTTP thread
and their client), alone and while pool a (CPU 1) multiplies matrices of 1024 x 1024 without a pause.
Then the same with both on one pool of both CPUs, which shows the harm that pools keep away. HTTP
threads run nothing themselves here (--io-cpus), so every add passes its pool's queue; the products
stay in the server, so that no reply of 4 MiB crosses the other pool's CPU.
"""
import multiprocessing
import os
import time

import figures
from figures import Connection, Service, call, np, percentile, spread, stored

SIZE = 1024


def multiply(port, pool, ready, stop):
    connection = Connection(port)
    data = call("matmul", {"self": stored("left"), "other": stored("right")}, {"pool": pool},
                outputs=[{"name": "out", "parameters": {"tensor": f"out{os.getpid()}"}}])
    while not stop.is_set():
        status, head, _ = connection.exchange(data)
        assert status == 200, head
        ready.set()


def measure(service, small, heavy, arguments):
    """[(p50, p99) alone], [beside], in us, in turns."""
    x = np.ones(256, np.float32)
    data = call("add", {"self": x, "other": x}, {"pool": small}, binary=True)
    connection, alone, beside = Connection(service.port), [], []
    for _ in range(arguments.rounds):
        for found, load in ((alone, False), (beside, True)):
            ready, stop = multiprocessing.Event(), multiprocessing.Event()
            clients = [multiprocessing.Process(target=multiply, args=(service.port, heavy, ready, stop))
                       for _ in range(2 if load else 0)]
            for process in clients:
                process.start()
            if load:
                ready.wait(30)
            times = connection.latencies(data, arguments.seconds)
            stop.set()
            for process in clients:
                process.join()
            found.append((percentile(times, 50) * 1e6, percentile(times, 99) * 1e6))
            time.sleep(0.1)
    return alone, beside


def show(name, alone, beside):
    for k, what in enumerate(("p50", "p99")):
        print(f"{name:12} {what} alone {spread([a[k] for a in alone], '{:.0f}')} us, "
              f"beside {spread([b[k] for b in beside], '{:.0f}')} us, "
              f"ratio {spread([b[k] / a[k] for a, b in zip(alone, beside)])}", flush=True)


def main():
    arguments = figures.options(__doc__, rounds=4, seconds=2)
    figures.machine()
    ones = {"shape": [SIZE, SIZE], "datatype": "FP32", "data": [1] * SIZE * SIZE}
    layouts = (("two pools", ["--pool", "b=0", "--pool", "a=1", "--io-cpus", "0"], "b", "a"),
               ("one pool", ["--pool", "all=0-1", "--io-cpus", "0"], "all", "all"))
    for name, options, small, heavy in layouts:
        os.sched_setaffinity(0, {0, 1})
        with Service(*options) as service:
            os.sched_setaffinity(0, {0}) # clients
            for tensor in ("left", "right"):
                service.call("PUT", "/v1/tensors/" + tensor, ones)
            show(name, *measure(service, small, heavy, arguments))


if __name__ == "__main__":
    main()
