#!/usr/bin/env python3
"""A text model over lengths that it has not seen: milliseconds of the first answer of each, here and by ONNX Runtime,
which take turns on the same CPUs; their sum and 99th percentile, as a ratio (above 1: tensord is faster). Then both once
more over the same lengths. Inputs are INT64 tensors [1, length], as of minilm.onnx.

    lengths.py MODEL.onnx [--count N] [--least N] [--most N] [--threads N] [--seed N] [--untuned] [--cpu] [--worst N]
"""
import argparse
import os
import time

import figures # finds the tests' service
import numpy as np
import service

try:
    import onnxruntime as ort
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")


def peer(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)[0]


def ours(server, connection):
    def ask(inputs):
        body, headers = service.pack(inputs, {}, binary=True)
        reply = server.call("POST", "/v2/models/text/infer", body, headers, connection)
        assert reply.status == 200, reply.body[:300]
        return next(iter(reply.outputs.values()))
    return ask


def show(what, mine, other):
    p99 = figures.percentile(mine, 99), figures.percentile(other, 99)
    print(f"{what:13} sum {sum(mine) * 1e3:.0f} ms beside {sum(other) * 1e3:.0f}: {sum(other) / sum(mine):.2f}; "
          f"p99 {p99[0] * 1e3:.1f} beside {p99[1] * 1e3:.1f}: {p99[1] / p99[0]:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    for option, default in {"count": 200, "least": 8, "most": 128, "threads": 1, "seed": 1}.items():
        parser.add_argument("--" + option, type=int, default=default)
    parser.add_argument("--untuned", action="store_true", help="with serve --tune off")
    parser.add_argument("--cpu", action="store_true", help="CPU time of each process, for a machine that others use")
    parser.add_argument("--worst", type=int, default=0, help="lists so many of the longest first answers")
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    lengths = rng.integers(args.least, args.most + 1, args.count)
    cpus = sorted(os.sched_getaffinity(0))[:args.threads]
    figures.machine()
    with open(args.model, "rb") as file, service.Service("--pool", "default=" + ",".join(map(str, cpus)), "--log", "off", *(["--tune", "off"] if args.untuned else [])) as server:
        assert server.call("PUT", "/v1/models/text", file.read()).status == 201
        names = [p["name"] for p in server.call("GET", "/v2/models/text").json["inputs"]]
        os.sched_setaffinity(0, cpus) # the peer's threads, and the client's side of ours
        sides = ours(server, server.connect()), peer(args.model, args.threads)
        clocks = (lambda: figures.cpu_seconds(server.pid), time.process_time) if args.cpu else (time.perf_counter, time.perf_counter)
        for what in ("first answers", "once more"):
            took = [], []
            for turn, n in enumerate(lengths):
                ids = (1000 + np.arange(n) * 7919 % 20000).reshape(1, n)
                inputs = {name: ids if "id" in name and "type" not in name else np.full_like(ids, "mask" in name)
                          for name in names}
                results = [None, None]
                for side in (0, 1) if turn % 2 else (1, 0):
                    begin = clocks[side]()
                    results[side] = sides[side](inputs)
                    took[side].append(clocks[side]() - begin)
                assert np.abs(results[0] - results[1]).max() < 1e-2, n
            show(what, *took)
            for turn in sorted(range(len(lengths)), key=lambda i: -took[0][i])[:args.worst]:
                print(f"  call {turn}, {lengths[turn]} words: {took[0][turn] * 1e3:.1f} ms beside {took[1][turn] * 1e3:.1f}")
        shown = server.call("GET", "/v1/models/text/plan").json
        print(f"plans: {len(shown['plans'])}, {shown['constant_bytes'] >> 20} MiB of the model, "
              f"{server.call('GET', '/metrics').body.decode().split(chr(10) + 'tensord_store_bytes ')[1].split()[0]} bytes stored")


if __name__ == "__main__":
    main()
