#!/usr/bin/env python3
"""Every case of a bench file: tensord's kernel (`tensord bench`; convolutions without the activation that rivals
apply) beside PyTorch, Inductor, ONNX Runtime and OpenVINO, each in a process of its own, taking turns of 0.1 s; the
least of all turns, in microseconds, and the best rival's time by ours: 1.00 and more is as fast as any of them.

--python names the Pythons that have rivals (--python /venv/bin/python,/other/bin/python); without a file, the cases
of the table in README. On a busy machine --rounds of 20 and more, and one thread.
"""
import json
import os
import subprocess
import sys
import tempfile

import figures
import numpy as np
import rivals

CASES = [{"id": "add_256", "op": "add", "shapes": [[256], [256]]}, {"id": "add_1m", "op": "add", "shapes": [[1 << 20], [1 << 20]]},
         {"id": "softmax_1536x128", "op": "softmax", "shapes": [[1536, 128]], "axis": -1},
         {"id": "layernorm_128x768", "op": "layer_norm", "shapes": [[128, 768], [768], [768]], "axis": -1},
         {"id": "linear_128x768x3072", "op": "linear", "shapes": [[128, 768], [3072, 768], [3072]]}]
HERE = os.path.dirname(os.path.abspath(__file__))


def ours(case):
    """The case in our words; None where it is no single call."""
    op, shapes = case["op"], case["shapes"]
    conv = {"stride": case.get("stride"), "padding": case.get("pad")}
    words = {"rms_norm": ("rms_norm", {"normalized_shape": shapes[0][-1:]}), "gather": ("index_select", {"dim": 0}),
             "attention": ("scaled_dot_product_attention", {}), "max_pool": ("max_pool2d", {"kernel_size": case.get("kernel"), **conv}),
             "avg_pool": ("avg_pool2d", {"kernel_size": case.get("kernel"), **conv}), "mean": ("mean", {"dim": case.get("axis")}),
             "conv": ("conv2d", {**conv, "groups": shapes[0][1] // shapes[1][1]} if op == "conv" else conv), "conv_relu": ("conv2d", conv),
             "batch_norm": ("batch_norm", {"training": False, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": False}),
             "pad": ("constant_pad_nd", {"pad": case.get("pads")}),
             "upsample": ("upsample_nearest2d", {"output_size": [2 * n for n in shapes[0][2:]]}),
             "dwconv_relu6": ("conv2d", {**conv, "groups": (shapes[0] + [1, 1])[1]})}
    if op == "linear_add":
        return None
    if "aten" in case:
        return {k: v for k, v in case.items() if k not in ("aten", "first", "mechanism")}
    name, parameters = words.get(op, (op, case.get("parameters", {})))
    kept = () if op in words else ("axis", "perm", "to", "eps")
    expr = f"cat([a, b], {case['axis']})" if op == "concat" else f"a + permute(b, {case['perm']})" if op == "turned" else case.get("expr")
    return {"id": case["id"], "op": name, "shapes": shapes, "dtype": [rivals.type_of(case, i) for i in range(len(shapes))],
            "parameters": parameters, **{k: case[k] for k in kept if k in case}, **({"expr": expr} if expr else {})}


def time_ours(case, path, threads):
    """In microseconds; NaN where it is no single call."""
    if not ours(case):
        return float("nan")
    done = subprocess.run([os.environ["TENSORD_BIN"], "bench", "--json", "--kernel", "best", "--threads", str(threads),
                           "--cases", path, "--op", case["id"]], capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if not rows:
        print(f"tensord: {case['id']}: {done.stderr.strip()}", file=sys.stderr)
    return rows[0]["us_min"] if rows else float("inf")


def start(pythons, path, threads):
    """A process for each rival, in the first Python that has it."""
    workers = {}
    for rival, needs in rivals.NEEDS.items():
        for python in pythons:
            if rival not in workers and not subprocess.run([python, "-c", f"import {needs}"], capture_output=True).returncode:
                workers[rival] = subprocess.Popen([python, os.path.join(HERE, "rivals.py"), rival, str(threads), path], text=True, stdin=subprocess.PIPE,
                                                  stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return workers


def time_case(case, workers, path, threads, rounds):
    best = {}
    for _ in range(rounds):
        turn = {"tensord": time_ours(case, path, threads)}
        for worker in workers.values():
            worker.stdin.write(f"{case['id']} 0.1\n")
            worker.stdin.flush()
            turn.update(json.loads(worker.stdout.readline()))
        best = {who: np.fmin(us, best.get(who, us)) for who, us in turn.items()}
    return best


def main():
    options = figures.options(__doc__, rounds=10, threads=1, cases="", only="", python=sys.executable)
    figures.machine()
    cases = CASES
    if options.cases:
        with open(options.cases) as f:
            cases = json.load(f)["cases"]
    with tempfile.TemporaryDirectory() as directory:
        theirs, own = os.path.join(directory, "theirs.json"), os.path.join(directory, "ours.json")
        for path, form in ((theirs, lambda c: c), (own, ours)):
            with open(path, "w") as f:
                json.dump({"cases": [made for made in map(form, cases) if made]}, f)
        workers = start(options.python.split(","), theirs, options.threads)
        print("| case | tensord | " + " | ".join(workers) + " | best of them by ours |\n|" + " --- |" * (len(workers) + 3))
        for case in cases:
            if options.only and not case["id"].startswith(tuple(options.only.split(","))):
                continue
            best = time_case(case, workers, own, options.threads, options.rounds)
            others = [us for who, us in best.items() if who != "tensord"]
            print(f"| {case['id']} | " + " | ".join(f"{best[who]:.1f}" if who in best else "" for who in ["tensord", *workers])
                  + f" | {min(others, default=float('nan')) / best['tensord']:.2f} |", flush=True)
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()


if __name__ == "__main__":
    main()
