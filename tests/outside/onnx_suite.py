#!/usr/bin/env python3
"""ONNX's own suites, and real models, as whole files through the importer: passed, refused, failed per group.

The onnx package makes the node tests when asked and has the others (pytorch-*, simple, light) stored. A case
passes when its results are the expected ones, is refused where the program says in a sentence what is
missing, and fails when the results are others, or the program ends: none may.

    onnx_suite.py RUN_MODEL [-v] [--eager] [--group GROUP] [--models DIR] [NAME...]

RUN_MODEL is the program of tests/model/run_model.c. -v says why each case was refused; NAME is a part of a
case's name; --models DIR takes real models instead: those that DIR/smoke.json lists, judged by ONNX Runtime on
inputs made by its rules.
"""
import argparse
import collections
import json
import pathlib
import sys
import warnings

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
import runner
import service
from runner import Ended, Refused

try:
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

STORED = ("pytorch-converted", "pytorch-operator", "simple", "light")
# Passed of each group at least; what is refused has no such type or operator here.
LEAST = {"node": 1613, "pytorch-converted": 82, "pytorch-operator": 35, "simple": 15, "light": 9}
NOISY = dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), 1e-6) # absolute: NumPy's FP32 rounding is in them
# What is left out: operators that draw chance, train, are a preview, or are of texts and sequences.
APART = ("_training_", "training", "sequence", "string", "optional", "_seq", "_opt", "flexattention", "bernoulli", "momentum", "adagrad", "adam", "ai_onnx_ml",
         "image_decoder", "regex", "strnorm", "StringNormalizer")


# ---- cases ----

Case = collections.namedtuple("Case", "group name model data rtol atol")


def array(value):
    if isinstance(value, (list, dict)) or value is None:
        raise Refused("a sequence, a map or an optional")
    value = numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)
    if value.dtype.name != "bfloat16" and value.dtype not in service.NAMES:
        raise Refused(f"type {value.dtype.name}")
    return value


def node_cases():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            yield Case("node", case.name, case.model.SerializeToString(), case.data_sets, case.rtol,
                       NOISY.get(case.name, case.atol))


def stored_cases(kind):
    def values(folder, which):
        found = sorted(folder.glob(f"{which}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
        return [onnx.TensorProto.FromString(path.read_bytes()) for path in found]
    for case in load_model_tests(kind=kind):
        folder = pathlib.Path(case.model_dir)
        if not (folder / "model.onnx").exists():
            continue
        sets = [(values(data, "input"), values(data, "output")) for data in sorted(folder.glob("test_data_set_*"))]
        yield Case(kind, case.name, folder / "model.onnx", sets, case.rtol, case.atol)


def light_cases():
    """Networks whose weights are all 0.02, given i/n: for import, shapes and memory."""
    for path in sorted((pathlib.Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx")):
        want = onnx.TensorProto.FromString(path.with_name(path.stem + "_output_0.pb").read_bytes())
        graph = onnx.load(path).graph
        constant = {t.name for t in graph.initializer}
        shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in graph.input if i.name not in constant]
        inputs = [(np.arange(np.prod(s), dtype=np.float64) / np.prod(s)).astype(np.float32).reshape(s) for s in shapes]
        yield Case("light", path.stem, path, [(inputs, [want])], 2e-3, 1e-7)


def made(rule, shape, dtype):
    """An input by a rule of smoke.json."""
    count = int(np.prod(shape))
    i = np.arange(count, dtype=np.int64)
    kind, *numbers = rule
    if kind == "ramp":
        value = numbers[0] * ((i * 7919 % 1000) / 1000 - 0.5)
    elif kind == "ids":
        value = numbers[0] + i * 7919 % numbers[1]
    elif kind == "bars":
        (period, band), (height, width) = numbers, shape[-2:]
        row, column = (i // width) % height, i % width
        dark = (column // period % 2 == 0) & (abs(row + 0.5 - height / 2) < band / 2) & (
            (column >= width / 8) & (column < 7 * width / 8))
        value = np.where(dark, -1, 1)
    else:
        value = np.full(count, numbers[0])
    return np.asarray(value).reshape(shape).astype(dtype)


def real_cases(folder):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    for entry in json.loads((folder / "smoke.json").read_text())["models"]:
        path = folder / entry["file"]
        if not path.exists():
            continue
        inputs = {i["name"]: made(i["rule"], i["shape"], service.DATATYPES[i["datatype"]]) for i in entry["inputs"]}
        session = onnxruntime.InferenceSession(str(path), options)
        inputs = [inputs[i.name] for i in session.get_inputs()]
        outputs = session.run(None, {i.name: v for i, v in zip(session.get_inputs(), inputs)})
        yield Case("real", path.stem, path, [(inputs, outputs)], 1e-3, 1e-4)


def difference(got, kind, want, case):
    """What is wrong with a result; None when nothing is."""
    want = array(want)
    name = "BF16" if want.dtype.name == "bfloat16" else service.NAMES[want.dtype]
    if kind != name or list(got.shape) != list(want.shape):
        return f"{kind}{list(got.shape)} in place of {name}{list(want.shape)}"
    rtol = max(case.rtol, {"BF16": 2**-6, "FP16": 2**-9}.get(kind, 0)) # two units in the last place of what is short
    if kind == "BF16":
        want = want.astype(np.float32)
    if np.allclose(got, want, rtol, case.atol, equal_nan=True):
        return None
    if case.name == "minilm_q": # one rounding to 8 bits may fall otherwise
        a, b = got.reshape(-1, got.shape[-1]), want.reshape(-1, want.shape[-1])
        if ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min() > 0.99:
            return None
    return f"{np.ravel(got)[:6]} in place of {np.ravel(want)[:6]}"


def judge(models, case, how):
    """("passed" | "refused" | "failed", why)."""
    try:
        for inputs, outputs in case.data:
            got = models.run(case.model, [array(value) for value in inputs], 1, how, 8) # weights rest by then
            if len(got) != len(outputs):
                return "failed", f"{len(got)} results in place of {len(outputs)}"
            wrong = [w for w in (difference(g, models.kind(i), w, case) for i, (g, w) in enumerate(zip(got, outputs))) if w]
            if wrong:
                return "failed", "; ".join(wrong)
    except Refused as refused:
        return "refused", str(refused)
    except Ended as ended:
        return "failed", f"the program ended: {ended}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("-v", action="store_true", dest="verbose")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--group", action="append")
    parser.add_argument("--models", type=pathlib.Path)
    args = parser.parse_intermixed_args()
    models, kind_of_run = runner.Runner(args.program), "eager" if args.eager else "plan"
    groups = args.group or (["real"] if args.models else ["node", *STORED])
    counts, reasons, failures = collections.defaultdict(collections.Counter), collections.Counter(), 0
    for group in groups:
        cases = (node_cases() if group == "node" else light_cases() if group == "light" else
                 real_cases(args.models) if group == "real" else stored_cases(group))
        for case in cases:
            if args.names and not any(name in case.name for name in args.names):
                continue
            how, why = judge(models, case, kind_of_run)
            counts[group][how] += 1
            apart = group == "node" and how == "refused" and any(word in case.name for word in APART)
            counts[group]["apart"] += apart
            if how == "refused" and not apart:
                reasons[why.split("): ", 1)[-1]] += 1
            failures += how == "failed"
            if how == "failed" or (args.verbose and how == "refused") or group == "real":
                print(f"{group} {case.name}: {how} {why}", flush=True)
    models.close()
    for why, times in reasons.most_common(1000 if args.verbose else 25):
        print(f"refused {times:3}: {why}")
    for group, each in counts.items():
        print(f"{group}: {each['passed']} passed, {each['refused']} refused ({each['apart']} of texts, sequences, training, previews), "
              f"{each['failed']} failed")
    short = [] if args.names else [g for g, each in counts.items() if each["passed"] < LEAST.get(g, 0)]
    if short:
        print(f"fewer passed than before: {', '.join(short)}")
    sys.exit(bool(failures or short))


if __name__ == "__main__":
    main()
