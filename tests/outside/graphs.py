#!/usr/bin/env python3
"""Random small ONNX graphs against ONNX Runtime, which runs them as they are written: what importing, passes, fusion, layouts and
threads do to chains of layers may change no answer.

    graphs.py RUN_MODEL [--seconds N] [--kind FP32|FP16|QDQ] [--only N] [--save FILE]

RUN_MODEL is tests/model/run_model of a build. The number of a graph and TENSORD_SEED make it again; --only takes that one, and --save
writes it. Each runs planned by one thread and by two, eagerly, and with a first dimension that is unknown when it is loaded. FP16 is judged by the
same graph in FP32; what rounding alone may change as much is not judged. In QDQ all sums of products are exact, so that no rounding to 8 bits may differ.
"""
import argparse
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
from runner import Ended, Refused, Runner

import service

try:
    import onnx
    import onnxruntime
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")
import drawn_graph
import graph_layers

UNITS = {"FP32": 2e-5, "FP16": 1.5e-2, "QDQ": 1e-6} # of the largest number of the result; a step of 8 bits is more
SMALL = 0.05 # the least that counts as the largest: Gelu adds 1 to -0.9999999
WAYS = [{"threads": 1}, {"threads": 2}, {"threads": 2, "how": "eager"}, {"threads": 1, "batch": "n"}]


def inputs_of(g, rng):
    return [g.numbers(g.shape(n)) if rng.random() < 0.9 else 8 * g.numbers(g.shape(n)) for n in g.inputs]


def answers(model, names, inputs):
    """ONNX Runtime's results, or None where it does not take the graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        return session.run(None, dict(zip(names, inputs)))
    except Exception: # of ONNX Runtime's own, which have no name in common
        return None


def judged(g, outputs, inputs):
    """What is right. A result is None that rounding behind each node alone takes as far as a quarter of what may differ: large
    numbers overflow in FP16, Softmax makes much of their last digit, a norm of what is nearly constant of all digits."""
    def of(nodes, constants):
        return answers(g.model(outputs, onnx.TensorProto.FLOAT, nodes, constants), g.inputs, inputs)
    wanted = of(g.nodes, g.constants)
    if not wanted or g.kind == "QDQ":
        return wanted
    rounded = of(*g.rounded()) or wanted
    return [None if difference(a, b, g.kind, 0.25) else b for a, b in zip(rounded, wanted)]


def difference(got, wanted, kind, part=1):
    """What differs more than that part of what it may, in a few words, or ""."""
    if got.shape != wanted.shape:
        return f"shape {got.shape}, not {wanted.shape}"
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    most = part * UNITS[kind] * max(finite.max(initial=0), SMALL)
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, np.abs(a - b))
    if kind == "FP16": # beyond which it has no numbers
        off = np.where(np.abs(b) > 30000, 0, off)
    worst = np.nanmax(off, initial=0)
    if worst <= most and not np.isnan(off).any():
        return ""
    at = np.unravel_index(np.argmax(np.where(np.isnan(off), np.inf, off)), off.shape)
    wrong = np.count_nonzero(~(off <= most))
    return f"{wrong} of {off.size} differ, most at {tuple(map(int, at))}: {a[at]:.7g}, not {b[at]:.7g} of {finite.max(initial=0):.4g}"


def tried(run, g, outputs, inputs, wanted):
    """What is wrong with the program's answers, in a sentence, or "". It may not refuse what is judged."""
    given = [x.astype(np.float16) if g.kind == "FP16" else x for x in inputs]
    for way in WAYS:
        way = dict(way)
        model = g.model(outputs, batch=way.pop("batch", None))
        try:
            got = run.run(model, given, **way)
        except Refused as refused:
            return f"refused: {refused}"
        except Ended as ended:
            return f"the process ended: {ended}"
        for name, a, b in zip(outputs, got, wanted):
            said = "" if b is None else difference(a, b, g.kind)
            if said:
                return f"{name} with {way}: {said}"
    return ""


def first_wrong(run, g, inputs):
    """The shortest beginning of the graph whose answer is wrong: its last result."""
    for n, node in enumerate(g.nodes, 1):
        out = [node.output[0]]
        wanted = judged(g, out, inputs)
        said = tried(run, g, out, inputs, wanted) if wanted else ""
        if said:
            return n, said
    return len(g.nodes), "only with all outputs"


def show(g, n):
    for node in g.nodes[:n]:
        about = " ".join(f"{a.name}={onnx.helper.get_attribute_value(a)}" for a in node.attribute)
        print(f"    {node.output[0]} = {node.op_type}({', '.join(f'{i}{list(g.shapes[i])}' if i else '' for i in node.input)}) {about}"
              f" -> {list(g.shapes[node.output[0]])}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("--seconds", type=float, default=25)
    p.add_argument("--kind", choices=drawn_graph.KINDS)
    p.add_argument("--only", type=int)
    p.add_argument("--save")
    args = p.parse_args()
    seed, end = service.seed(), time.monotonic() + args.seconds
    run, counts = Runner(args.program), {"right": 0, "not judged": 0, "wrong": 0}
    number = args.only or 0
    while time.monotonic() < end:
        rng = np.random.default_rng([seed, number])
        kind = rng.choice(list(drawn_graph.KINDS), p=[0.55, 0.15, 0.3])
        g, outputs = graph_layers.draw(rng, kind)
        inputs = inputs_of(g, rng)
        if not args.kind or kind == args.kind:
            wanted = judged(g, outputs, inputs)
            said = tried(run, g, outputs, inputs, wanted) if wanted else ""
            counts["not judged" if not wanted else "wrong" if said else "right"] += 1
            if said:
                n, first = first_wrong(run, g, inputs)
                print(f"graph {number}, {kind}, outputs {outputs}: {said}\n  node {n}: {first}")
                show(g, n)
            if args.save:
                pathlib.Path(args.save).write_bytes(g.model(outputs))
        number += 1
        if args.only is not None:
            break
    print("; ".join(f"{n} {what}" for what, n in counts.items()))
    ended = run.close()
    print(ended, end="")
    return bool(counts["wrong"] or ended or counts["right"] < counts["not judged"])


if __name__ == "__main__":
    sys.exit(main())
