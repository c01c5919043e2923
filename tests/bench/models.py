#!/usr/bin/env python3
"""Whole ONNX models on tensord, a line of JSON each, as a script for the peers prints them: load, first answer, the
kernels' time of one more, growth of resident memory, and whether the stated samples agree.

  models.py MODELS_DIR SMOKE_JSON [--threads N] [--only NAME,NAME] [--peers COMMAND]

SMOKE_JSON says by rules what goes in, and samples of what comes out. COMMAND, which is given the same directory, file,
threads and one name, runs before and after each model, so that both see the same hour of a shared machine.
"""
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

import figures # finds the tests' service
import numpy as np
import service


def parser(doc, only=""):
    """The command line of scripts about models: MODELS_DIR SMOKE_JSON [--only NAME,NAME], and what they add."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("directory")
    made.add_argument("smoke")
    made.add_argument("--only", default=only)
    return made


def name_of(model):
    return model["file"].rsplit(".", 1)[0]


def chosen(args):
    """What SMOKE_JSON says of the models that the command line names, or of all."""
    with open(args.smoke) as file:
        return [m for m in json.load(file)["models"] if not args.only or name_of(m) in args.only.split(",")]


def bytes_of(args, model):
    with open(os.path.join(args.directory, model["file"]), "rb") as file:
        return file.read()


def numbers(rule, shape):
    """What a rule of SMOKE_JSON makes."""
    k = np.arange(int(np.prod(shape)), dtype=np.int64)
    kind, *of = rule
    if kind == "ramp":
        return of[0] * ((k * 7919 % 1000) / 1000 - 0.5)
    if kind == "ids":
        return of[0] + k * 7919 % of[1]
    if kind == "const":
        return np.full(k.size, of[0])
    height, width = shape[-2:]
    row, column, (period, band) = k // width % height, k % width, of # bars
    inside = (row >= height / 2 - band / 2) & (row < height / 2 + band / 2)
    return np.where((column // period % 2 == 0) & inside & (column >= width / 8) & (column < 7 * width / 8), -1, 1)


def resident(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def body_of(model, **parameters):
    """The request, tensors as bytes behind the JSON both ways, as a client of whole models sends them."""
    return service.pack({one["name"]: np.asarray(numbers(one["rule"], one["shape"])).astype(service.DATATYPES[one["datatype"]]).reshape(one["shape"])
                         for one in model["inputs"]}, parameters, binary=True)


def excess(model, got):
    """The largest difference of a sample, in what it may be."""
    return max((abs(float(got[one["name"]].flat[int(at)]) - wanted) / (1e-4 + 1e-3 * abs(wanted))
                for one in model["outputs"] for at, wanted in one["samples"].items()), default=0.0)


def measure(args, model):
    name, file, threads = name_of(model), bytes_of(args, model), args.threads
    with service.Service("--pool", f"default={','.join(service.CPUS[:threads])}", "--log", "off") as s:
        connection = s.connect(timeout=120)

        def call(method, path, body, headers):
            """The reply, and the ms until its last byte was there. To decode it is the client's time."""
            begin = time.perf_counter()
            reply = s.call(method, path, body, headers, connection)
            ms = (time.perf_counter() - begin) * 1e3
            assert reply.status < 300, (name, reply.status, reply.body[:300])
            return reply, ms

        before = resident(s.process)
        _, load = call("PUT", f"/v1/models/{name}", file, {"Content-Type": "application/octet-stream"})
        request = ("POST", f"/v2/models/{name}/infer", *body_of(model))
        reply, first = call(*request)
        off, times, end = excess(model, reply.outputs), [], time.perf_counter() + 2
        while time.perf_counter() < end or len(times) < 9:
            times.append(call(*request)[0].parameters["compute_us"] / 1e3)
        times = times[3:] # walked, recorded
        return {"model": name, "impl": "tensord", "threads": threads, "load_ms": round(load, 1),
                "first_ms": round(first, 2), "ms_median": round(statistics.median(times), 3),
                "ms_min": round(min(times), 3), "rss_mb": round(resident(s.process) - before, 1), "ok": off <= 1,
                "max_excess": round(off, 3)}


def main():
    line = parser(__doc__)
    line.add_argument("--threads", type=int, default=1)
    line.add_argument("--peers")
    args = line.parse_args()
    for model in chosen(args):
        name = name_of(model)
        if not os.path.exists(os.path.join(args.directory, model["file"])):
            continue
        peers = args.peers and [*shlex.split(args.peers), args.directory, args.smoke, "--threads", str(args.threads), "--only", name]
        for turn in range(2 if peers else 1):
            if peers:
                subprocess.run(peers, check=False, stdout=sys.stdout)
            print(json.dumps(measure(args, model)), flush=True)


if __name__ == "__main__":
    main()
