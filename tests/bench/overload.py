#!/usr/bin/env python3
"""Four times the load that a pool can bear, from 256 connections: sums over a tensor in the server,
some milliseconds each, on a pool of one CPU with a queue of 32. First the peak, by eight connections
that send as soon as they are answered; then the overload at its rate; then the eight again. What
counts: goodput beside the peak, how long accepted requests take, that the others are told 429 and
when to come again, and that memory stays as it was.
"""
import collections
import os
import time

import figures
from figures import Crowd, Service, call, np, percentile, stored

ELEMENTS = 1 << 24


def show(name, replies, seconds):
    good = [t for status, t, _ in replies if status == 200]
    print(f"{name:10} {len(good) / seconds:7.0f} answered/s, p50 {percentile(good, 50) * 1e3:.1f} ms, "
          f"p99 {percentile(good, 99) * 1e3:.1f} ms", flush=True)
    return len(good) / seconds


def main():
    arguments = figures.options(__doc__, seconds=60, connections=256, times=4.0, queue=32)
    figures.machine()
    with Service("--pool", f"work=1:queue_depth={arguments.queue}", "--io-cpus", "0") as service:
        os.sched_setaffinity(0, {0}) # the clients; CPU 1 is the pool's
        head = b'{"shape":[%d],"datatype":"FP32"}' % ELEMENTS
        service.call("PUT", "/v1/tensors/x", head + np.ones(ELEMENTS, np.float32).tobytes(),
                     {"Content-Type": "application/octet-stream",
                      "Inference-Header-Content-Length": str(len(head))})
        data = call("sum", {"self": stored("x")})
        few, many = Crowd(service.port, 8), Crowd(service.port, arguments.connections)
        few.run(data, 1)
        peak = show("peak", few.run(data, 5), 5)
        before, samples, step = figures.usage(service.pid), [], 0
        statuses, hints, replies = collections.Counter(), 0, []
        begin = time.perf_counter()
        while time.perf_counter() < begin + arguments.seconds:
            step = min(2, arguments.seconds)
            found = many.run(data, step, rate=arguments.times * peak)
            statuses.update(status for status, _, _ in found)
            hints += sum(b"retry-after:" in head.lower() for status, _, head in found if status == 429)
            replies += [(status, t, None) for status, t, _ in found]
            samples.append(figures.usage(service.pid))
        seconds = len(samples) * step
        goodput = show("overload", replies, seconds)
        refused = [t for status, t, _ in replies if status == 429]
        print(f"{'':10} goodput {goodput / peak:.2f} of the peak; offered {arguments.times * peak:.0f}/s, came "
              f"{len(replies) / seconds:.0f}/s; statuses {dict(statuses)}, Retry-After on {hints} of the 429s, "
              f"which take {percentile(refused, 50) * 1e3:.1f} ms (p50)")
        print(f"{'':10} memory before {before[0]:.1f} MiB, then {samples[0][0]:.1f}, at most "
              f"{max(s[0] for s in samples):.1f}, at the end {samples[-1][0]:.1f}; threads {before[2]} and "
              f"{samples[-1][2]}")
        show("afterwards", Crowd(service.port, 8).run(data, 3), 3) # the few were silent for too long


if __name__ == "__main__":
    main()
