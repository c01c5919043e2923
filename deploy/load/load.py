#!/usr/bin/env python3
"""Puts load on a running tensord and writes a report with a picture: load.py [--url URL] [--out DIR].

Small calls (GET /v1/isa, an add of 256 floats) go through wrk; big ones (an add of 1 MiB tensors)
through a generator of our own. Tensors travel as JSON, binary and in shared memory, over 1 to 256
connections. Nothing but Python and wrk is needed. The server is left as it was found.
"""
import argparse
import os
import platform
import shlex
import shutil
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import report  # noqa: E402
from calls import Call, Server, SharedMemory, add_binary, add_json  # noqa: E402
from generators import own, wrk  # noqa: E402

SMALL = 256 # elements


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="[%(default)s]")
    parser.add_argument("--out", default="load-report", help="folder of the report [%(default)s]")
    parser.add_argument("--connections", default="1,4,16,64,256", help="[%(default)s]")
    parser.add_argument("--seconds", type=float, default=3, help="a point; wrk takes whole ones [%(default)s]")
    parser.add_argument("--mib", type=float, default=1, help="of a big tensor [%(default)s]")
    parser.add_argument("--memory-mib", type=int, default=1024,
                        help="that big calls under way may have in the server; more connections are left out "
                             "[%(default)s]")
    parser.add_argument("--pool", default="", help="of the calls [the default one]")
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 1) // 2),
                        help="of the clients [%(default)s]")
    arguments = parser.parse_args()
    arguments.connections = sorted({int(c) for c in arguments.connections.split(",")})
    if not shutil.which("wrk"):
        parser.error("wrk is not there; it is a package of that name (apt install wrk)")
    return arguments


def cpu_model():
    try:
        with open("/proc/cpuinfo") as f:
            return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def facts(server, arguments):
    """What the figures depend on."""
    status, isa = server.ask("GET", "/v1/isa")
    if status != 200:
        raise SystemExit(f"{server.url}/v1/isa: {status}")
    pools = server.ask("GET", "/v1/pools")[1]["pools"]
    said = ", ".join(f"{p['name']} on CPUs {p['cpus']}" for p in pools)
    version = server.ask("GET", "/v2")[1]["version"]
    lines = [f"server: tensord {version} at {server.url}, {isa['cpu']['model']}, level {isa['current']}; pools: {said}",
             f"client: {cpu_model()}, {os.cpu_count()} CPUs, {arguments.threads} "
             f"{'thread' if arguments.threads == 1 else 'threads'} of load, load average "
             f"{os.getloadavg()[0]:.1f} before"]
    return {"command": " ".join(map(shlex.quote, ["load.py", *sys.argv[1:]])), "lines": lines}


def measure(title, generator, server, calls, arguments, most):
    """{name: points}; most(call): how many connections it may have."""
    series = {}
    for call in calls:
        generator(server, call, min(4, arguments.connections[-1]), 0.5, 1) # what the first calls have to learn
        series[call.name] = []
        for connections in arguments.connections:
            if connections > most(call):
                continue
            point = generator(server, call, connections, arguments.seconds, arguments.threads)
            series[call.name].append(point)
            print(f"{title} {call.name:14} c={connections:<4} {point.rate:10,.1f}/s  p50 "
                  f"{report.duration(point.microseconds[50]):>8}  p99 {report.duration(point.microseconds[99]):>8}"
                  + (f"  {point.errors} errors" if point.errors else ""), flush=True)
    return series


def main():
    arguments = options()
    server = Server(arguments.url)
    parameters = {"pool": arguments.pool} if arguments.pool else {}
    known, notes, begin = facts(server, arguments), [], time.time()
    series, moved = {}, 0
    for title, n, generator in (("small", SMALL, wrk), ("big", round(arguments.mib * 2 ** 18), own)):
        calls = [Call("GET /v1/isa", "/v1/isa")] if title == "small" else []
        calls += [add_json(n, parameters), add_binary(n, parameters)]
        shared = SharedMemory(server, n)
        try:
            if shared.problem:
                notes.append(f"no {title} calls through shared memory: {shared.problem}")
            else:
                calls.append(shared.call(parameters))
            room = arguments.memory_mib * 2 ** 20
            series[title] = measure(title, generator, server, calls, arguments, lambda call: (
                room // (len(call.body or b"") + call.moved) if generator is own else sys.maxsize))
        finally:
            shared.close()
        moved = calls[-1].moved
    left_out = [f"{name} from {arguments.connections[len(points)]} connections on"
                for name, points in series["big"].items() if len(points) < len(arguments.connections)]
    if left_out:
        notes.append(f"left out, as calls under way would have more than {arguments.memory_mib} MiB (--memory-mib): "
                     "big calls by " + ", ".join(left_out))
    sizes = SMALL, f"{arguments.mib:g}"
    report.write(arguments.out, known, series["small"], series["big"], moved, sizes, notes)
    print(f"{arguments.out}/report.md, load.svg and figures.json after {time.time() - begin:.0f} s")


if __name__ == "__main__":
    main()
