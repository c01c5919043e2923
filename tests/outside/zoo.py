#!/usr/bin/env python3
"""Whole architectures as PyTorch's archives and as ONNX files, against PyTorch's answers beside them.

    zoo.py RUN_MODEL FOLDER...

RUN_MODEL is tests/model/run_model of a build. A folder has model.pt2 (or others, or .onnx files) and, as NumPy's files,
in0, in1, ... and out0, out1, ... for one batch, b2_in0, ... and b2_out0, ... for another; a model whose batch was
fixed at export may refuse that. Each is run as planned, eight times, by when weights rest, and eagerly, and agrees when |difference| <=
1e-4 * max(1, standard deviation of the answer) + 1e-3 * |answer|. Says per file what came out; exits with 1
unless all passed.
"""
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
from runner import Ended, Refused, Runner


def arrays(folder, what):
    number = lambda path: int(re.search(r"(\d+)\.npy$", path.name)[1])
    return [np.load(path) for path in sorted(folder.glob(what + "[0-9]*.npy"), key=number)]


def excess(got, wanted):
    """The largest difference, in what it may be."""
    if got.shape != wanted.shape:
        return np.inf
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if not b.size:
        return 0
    finite = b[np.isfinite(b)]
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) / (1e-4 * max(1, finite.std() if finite.size else 1) + 1e-3 * np.abs(b))
    off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, off)
    return np.inf if np.isnan(off).any() else off.max()


def judge(run, path):
    """"passed", "refused" or "failed", and what is to be said of it."""
    worst, ran = 0, []
    for batch in "", "b2_":
        inputs, wanted = arrays(path.parent, batch + "in"), arrays(path.parent, batch + "out")
        for how, runs in ("plan", 8), ("eager", 1):
            if not inputs:
                continue
            try:
                got = run.run(path, inputs, threads=2, how=how, runs=runs, seconds=300)
            except Refused as refused:
                if batch and "must have the shape" in str(refused) and ran:
                    continue # exported for one batch
                return "refused", str(refused)
            except Ended as ended:
                return "failed", "the process ended: %s" % ended
            if len(got) != len(wanted):
                return "failed", "%d outputs, %d wanted" % (len(got), len(wanted))
            worst = max([worst, *map(excess, got, wanted)])
            ran.append(batch + how)
    return "passed" if worst <= 1 else "failed", "%.2g of the tolerance, %s" % (worst, " ".join(ran))


def main():
    run, counts = Runner(sys.argv[1]), {}
    for folder in map(pathlib.Path, sys.argv[2:]):
        for path in sorted([*folder.glob("*.pt2"), *folder.glob("*.onnx")]):
            result, why = judge(run, path)
            counts[result] = counts.get(result, 0) + 1
            print("%-8s %s/%s: %s" % (result, folder.name, path.name, why), flush=True)
    run.close()
    if len(sys.argv) > 3:
        print(counts)
    return set(counts) != {"passed"}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())
