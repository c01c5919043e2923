#!/usr/bin/env python3
"""What plans cost and bring. First a decode step whose position decides what is computed: us a call node by node
(eager), by the plan for one position, and with a position that is another in each call; all take turns. Then programs
of thousands of nodes, a chain and one whose values all live to the end: seconds of the first calls, and the server's
CPU time for making the plan, which is behind the second answer.

    plans.py [--rounds N] [--calls N] [--nodes 4000,8000,16000]
"""
import argparse
import importlib.util
import os
import time

import figures  # finds the tests' service
import numpy as np
import service
from figures import spread

SPEC = importlib.util.spec_from_file_location("made_models", os.path.join(figures.ROOT, "tests", "models.py"))
models = importlib.util.module_from_spec(SPEC) # the tests', not the bench script of that name
SPEC.loader.exec_module(models)

WIDTH, LENGTH = 64, 256


def decode(layers=8):
    """One query against the first pos + 1 rows of a cache in each layer."""
    nodes, constants = [("Add", ["pos", "one"], ["end"], {})], {"one": np.array([1]), "zero": np.array([0])}
    value = "x"
    rng = np.random.default_rng(1)
    for i in range(layers):
        constants[f"cache{i}"] = rng.standard_normal((LENGTH, WIDTH), np.float32)
        constants[f"w{i}"] = rng.standard_normal((WIDTH, WIDTH), np.float32) / 8
        nodes += [("MatMul", [value, f"w{i}"], [f"q{i}"], {}), ("Slice", [f"cache{i}", "zero", "end", "zero"], [f"k{i}"], {}),
                  ("Transpose", [f"k{i}"], [f"t{i}"], {"perm": [1, 0]}), ("MatMul", [f"q{i}", f"t{i}"], [f"s{i}"], {}),
                  ("Softmax", [f"s{i}"], [f"p{i}"], {}), ("MatMul", [f"p{i}", f"k{i}"], [f"o{i}"], {}),
                  ("Add", [f"o{i}", value], [f"x{i}"], {})]
        value = f"x{i}"
    return models.onnx_file(nodes, [models.port("x", [1, WIDTH]), models.port("pos", [1], "INT64")],
                            [models.port(value, [1, WIDTH])], constants)


def positions(server, args):
    assert server.call("PUT", "/v1/models/decode", decode()).status == 201
    connection, x = server.connect(), np.ones((1, WIDTH), np.float32)

    def ask(pos, eager=False):
        body, headers = service.pack({"x": x, "pos": np.array([pos])}, {"eager": eager})
        begin = time.perf_counter()
        reply = server.call("POST", "/v2/models/decode/infer", body, headers, connection)
        assert reply.status == 200, reply.body[:300]
        return reply.parameters["compute_us"], (time.perf_counter() - begin) * 1e6

    for _ in range(20):
        ask(100)
    ways = {"node by node": lambda i: ask(i, True), "one position": lambda i: ask(100), "a new position": ask}
    found = {way: [] for way in ways}
    for _ in range(args.rounds):
        for way, go in ways.items():
            found[way].append(np.median([go(1 + i % (LENGTH - 1))[0] for i in range(args.calls)]))
    for way, us in found.items():
        print(f"{way:14} {spread(us, '{:.0f}')} us")
    shown = server.call("GET", "/v1/models/decode/plan").json
    print("plans:", {key: shown.get(key) for key in ("recorded_plans", "evicted_plans", "deciding_inputs")})


def chain(n):
    """Sums, copies, views, products and pointwise calls in turn."""
    constants = {"c": np.ones((8, 8), np.float32) / 8, "d": np.ones(8, np.float32)}
    unit = [("Add", "d"), ("Relu", None), ("Identity", None), ("Transpose", None), ("MatMul", "c"), ("Softmax", None),
            ("Mul", "d"), ("Sigmoid", None)]
    nodes = []
    for i in range(n):
        op, other = unit[i % len(unit)]
        nodes.append((op, [f"v{i}"] + ([other] if other else []), [f"v{i + 1}"], {}))
    return nodes, constants, f"v{n}"


def wide(n):
    """Half of the nodes make values, the other half adds them up when all are there."""
    nodes = [("Softmax", ["v0"], [f"m{i}"], {}) for i in range(n // 2)]
    total = "m0"
    for i in range(1, n // 2):
        nodes.append(("Add", [total, f"m{i}"], [f"t{i}"], {}))
        total = f"t{i}"
    return nodes, {}, total


def grow(server, args):
    for shape in (chain, wide):
        for n in args.nodes:
            nodes, constants, last = shape(n)
            file = models.onnx_file(nodes, [models.port("v0", [8, 8])], [models.port(last, [8, 8])], constants)
            name = f"{shape.__name__}{n}"
            assert server.call("PUT", "/v1/models/" + name, file).status == 201
            body, headers = service.pack({"v0": np.ones((8, 8), np.float32)}, {})
            seconds, cpu = [], []
            for _ in range(5):
                before, begin = figures.cpu_seconds(server.pid), time.perf_counter()
                reply = server.call("POST", f"/v2/models/{name}/infer", body, headers)
                assert reply.status == 200, reply.body[:300]
                seconds.append(time.perf_counter() - begin)
                while True: # until the server rests
                    now = figures.cpu_seconds(server.pid)
                    time.sleep(0.1)
                    if figures.cpu_seconds(server.pid) - now < 0.02:
                        break
                cpu.append(figures.cpu_seconds(server.pid) - before)
            plan = server.call("GET", f"/v1/models/{name}/plan").json["plans"]
            text = ", ".join(f"{s:.3f}" for s in seconds)
            print(f"{name:10} {n} nodes: calls {text} s; CPU of the second {cpu[1]:.2f} s, of the fourth {cpu[3]:.2f} s; "
                  f"{len(plan)} plan, {plan[0]['memory_bytes'] if plan else 0} bytes", flush=True)
            server.call("DELETE", "/v1/models/" + name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--nodes", type=lambda text: [int(n) for n in text.split(",")], default=[4000, 8000, 16000])
    args = parser.parse_args()
    figures.machine()
    with service.Service("--pool", f"default={service.CPUS[0]}", "--log", "off") as server:
        positions(server, args)
        grow(server, args)


if __name__ == "__main__":
    main()
