#!/usr/bin/env python3
"""Operators drawn by a seed: types, ranks, sizes from 1 to 10 million elements, odd and even, axes, broadcasts, layouts
and windows as models have them. tensord's kernel (`tensord bench`) and the rivals take turns on the same CPUs; each
one's time is the least of all turns. Prints how the best rival's time by ours is distributed (1.00 and more is as fast),
what each mechanism stands at, and the cases at the bottom with theirs.

--python names the Pythons that have rivals (pip install torch onnx onnxruntime). --rivals says which of them take part.
--others 1 draws other types, operators and several dimensions in place of what models have most: PyTorch has all of
these, the others only what they share with the first kind.
--only keeps the cases whose mechanism begins so, --cases FILE leaves all that were drawn in a file for operators.py.
"""
import collections
import json
import math
import os
import random
import sys
import tempfile

import figures
import operators
import rivals

LONE = ["relu", "sigmoid", "tanh", "exp", "erf", "gelu", "silu", "sqrt", "log", "abs", "neg", "hardswish", "sin"]
PAIR = ["add", "mul", "sub", "div", "maximum"]
REAL = ["float32"] * 8 + ["bfloat16", "float16"]
MOST = 10_000_000
SMALL = 20 # us


class Draw(random.Random):
    def size(self, low, high):
        """As likely small as large; odd as even, and often what models have."""
        n = round(math.exp(self.uniform(math.log(low), math.log(high))))
        kind = self.random()
        return max(low, min(high, n // 16 * 16 if kind < 0.35 and n > 16 else n // 64 * 64 if kind < 0.5 and n > 64 else n))

    def shape(self, rank, most=MOST, low=1):
        """Of about as many elements as all numbers up to most are likely, in logarithms."""
        left = self.size(low, most)
        sizes = []
        for d in range(rank - 1):
            n = self.size(1, max(1, min(left, 4096)))
            sizes.append(n)
            left = max(1, left // n)
        sizes.append(left)
        self.shuffle(sizes)
        return sizes

    def image(self, low=1, high=512):
        side = self.choice([7, 8, 13, 14, 20, 28, 32, 40, 56, 64, 80, 112, 128, 160])
        channels = self.choice([c for c in (3, 8, 16, 24, 32, 40, 48, 64, 96, 128, 144, 256, 384, 512) if low <= c <= high])
        wide = side if self.random() < 0.6 else self.choice([side + 1, side * 2, side + 5])
        while channels > 3 and channels * side * wide > 2_000_000:
            channels //= 2
        return [self.choice([1, 1, 1, 2]) if channels * side * wide < 500_000 else 1, channels, side, wide]


def numel(shape):
    return math.prod(shape)


# ---- one of each kind: (mechanism, case) ----

def lone(d):
    op = d.choice(LONE)
    return f"function {op}", {"op": op, "shapes": [d.shape(d.randint(1, 4))], "dtype": d.choice(REAL)}


def same(d):
    shape = d.shape(d.randint(1, 4))
    return "pair, same shape", {"op": d.choice(PAIR), "shapes": [shape, shape], "dtype": d.choice(REAL + ["int64", "int32"])}


def broadcast(d):
    how = d.choice(["row", "column", "column", "channel", "channel", "outer", "number", "number", "middle"])
    if how == "channel":
        shape = d.image()
        other = [shape[1], 1, 1]
    elif how == "outer":
        n, m = d.shape(2, 4_000_000)
        shape, other = [n, 1], [1, m]
    else:
        rank = d.randint(2, 4) if how != "middle" else 3
        shape = d.shape(rank, low=64)
        other = {"row": shape[-1:], "column": shape[:-1] + [1], "number": [], "middle": [shape[0], 1, shape[2]] if rank == 3 else []}[how]
    shapes = [shape, other] if d.random() < 0.7 or how == "outer" else [other, shape]
    op = d.choice(PAIR)
    return f"broadcast of {'a ' if how != 'outer' else ''}{how}", {"op": op, "shapes": shapes, "dtype": d.choice(REAL)}


def turned(d):
    n, m = d.shape(2, 4_000_000, 256)
    if d.random() < 0.5:
        return "layout: plus a transpose", {"op": "turned", "shapes": [[n, m], [m, n]], "perm": [1, 0]}
    c, h, w = d.image()[1:]
    return "layout: plus NHWC", {"op": "turned", "shapes": [[1, c, h, w], [1, h, w, c]], "perm": [0, 3, 1, 2]}


def transpose(d):
    how = d.choice(["matrix", "matrix", "heads", "image"])
    if how == "matrix":
        return "transpose of a matrix", {"op": "transpose", "shapes": [d.shape(2, 4_000_000, 64)], "perm": [1, 0]}
    if how == "heads":
        return "transpose of heads", {"op": "transpose", "perm": [0, 2, 1, 3],
                                      "shapes": [[d.randint(1, 4), d.size(1, 512), d.choice([4, 6, 8, 12, 16]), d.choice([32, 64, 80, 96])]]}
    return "transpose of an image", {"op": "transpose", "shapes": [d.image()], "perm": d.choice([[0, 2, 3, 1], [0, 3, 1, 2], [0, 2, 1, 3]])}


def length_word(n):
    return "short" if n < 64 else "long" if n > 8192 else "middling"


def rows(d, low=2):
    """[rows, length], short and long."""
    n = d.choice([d.size(low, 64), d.size(64, 1024), d.size(1024, 50_000)])
    return [d.size(1, max(1, min(100_000, 2_000_000 // n))), n]


def softmax(d):
    shape = rows(d)
    if d.random() < 0.25:
        shape = [d.randint(1, 4), d.size(2, 512), d.size(4, 1024)]
        return "softmax along the middle", {"op": "softmax", "shapes": [shape], "axis": 1}
    return f"softmax of {length_word(shape[1])} rows", {"op": "softmax", "shapes": [shape], "axis": -1, "dtype": d.choice(REAL)}


def norm(d):
    if d.random() < 0.25:
        shape = d.image()
        return "norm of channels", {"op": "batch_norm", "shapes": [shape] + [shape[1:2]] * 4}
    shape = rows(d, 8)
    if d.random() < 0.7:
        return f"layer_norm of {length_word(shape[1])} rows", {"op": "layer_norm", "shapes": [shape, shape[1:], shape[1:]], "axis": -1}
    return f"rms_norm of {length_word(shape[1])} rows", {"op": "rms_norm", "shapes": [shape, shape[1:]], "axis": -1}


def reduction(d):
    op = d.choice(["sum", "sum", "max", "mean", "argmax"])
    how = d.choice(["last", "last", "first", "middle"])
    if how == "last":
        shape, axis = rows(d), -1
        return f"{op} of {length_word(shape[1])} rows", {"op": op, "shapes": [shape], "axis": axis, "dtype": d.choice(REAL) if op != "argmax" else "float32"}
    shape = [d.size(2, 4096), d.size(1, 1024)] if how == "first" else [d.randint(1, 16), d.size(2, 512), d.size(1, 512)]
    return f"{op} along the {how}", {"op": op, "shapes": [shape], "axis": 0 if how == "first" else 1}


def pool(d):
    op = d.choice(["max_pool", "max_pool", "avg_pool"])
    kernel, stride, pad = d.choice([(3, 2, 1), (2, 2, 0), (3, 1, 1), (3, 2, 0), (5, 1, 2)])
    return f"{op} {kernel}x{kernel} s{stride}", {"op": op, "shapes": [d.image(16, 256)], "kernel": kernel, "stride": stride, "pad": pad}


def convolution(d):
    shape = d.image(8, 256)
    how = d.choice(["depthwise", "depthwise", "1x1", "3x3"])
    kernel = {"depthwise": d.choice([3, 3, 5]), "1x1": 1, "3x3": 3}[how]
    stride = d.choice([1, 2]) if how == "depthwise" or d.random() < 0.3 else 1
    out = shape[1] if how == "depthwise" else d.choice([8, 16, 24, 32, 48, 64, 128])
    weight = [out, 1 if how == "depthwise" else shape[1], kernel, kernel]
    return f"conv {how} s{stride}", {"op": "conv", "shapes": [shape, weight, [out]], "stride": stride, "pad": kernel // 2}


def product(d):
    if d.random() < 0.5:
        n, k, m = d.choice([1, 1, d.size(2, 32), d.size(32, 512)]), d.choice([64, 128, 256, 384, 512, 768, 1024, 2048]), d.choice([64, 100, 256, 384, 768, 1000, 3072])
        return f"linear of {'one row' if n == 1 else 'few rows' if n < 32 else 'many rows'}", {"op": "linear", "shapes": [[n, k], [m, k], [m]]}
    b, n, k, m = d.randint(1, 16), d.size(1, 256), d.size(8, 512), d.size(1, 256)
    return "matmul in batches", {"op": "matmul", "shapes": [[b, n, k], [b, k, m]]}


def attention(d):
    b, h, n, k = d.choice([1, 1, 4]), d.choice([4, 6, 8, 12]), d.size(8, 400), d.choice([32, 64])
    return f"attention of {'odd' if n % 2 else 'even'} length", {"op": "attention", "shapes": [[b, h, n, k]] * 3}


def move(d):
    how = d.choice(["concat", "gather", "pad", "upsample", "cast"])
    if how == "concat":
        rank = d.randint(2, 4)
        a = d.shape(rank, 4_000_000)
        axis, b = d.randrange(rank), list(a)
        b[axis] = d.size(1, 2 * a[axis])
        return "concat", {"op": "concat", "shapes": [a, b], "axis": axis}
    if how == "gather":
        return "gather", {"op": "gather", "shapes": [[d.size(64, 30_000), d.size(1, 300)], [d.size(1, 4096)]], "axis": 0}
    if how == "cast":
        a, b = d.sample(["float32", "float16", "bfloat16", "int32", "int64", "uint8"], 2)
        return "cast", {"op": "cast", "shapes": [d.shape(2)], "dtype": a, "to": b}
    shape = d.image(3, 128)
    if how == "pad":
        return "pad", {"op": "pad", "shapes": [shape], "pads": d.choice([[1, 1, 1, 1], [0, 1, 0, 1], [2, 2, 2, 2]])}
    return "upsample", {"op": "upsample", "shapes": [[shape[0], shape[1], shape[2] // 2 + 1, shape[3] // 2 + 1]]}


# ---- as tensord and PyTorch call them alike: tensors, then parameters by name; others have none of these ----

TYPES = ["float32", "bfloat16", "float16", "float64", "int32", "int64", "int8", "uint8"]
FLOATS = TYPES[:4]


def case_of(op, shapes, dtype="float32", parameters=None, **more):
    return {"op": op, "shapes": shapes, "dtype": dtype, "parameters": parameters or {}, "aten": op, **more}


def typed(d):
    how = d.choice(["pair", "pair", "broadcast", "broadcast", "compare", "one", "cast"])
    dtype = d.choice(TYPES[1:])
    if how == "cast":
        a, b = d.sample(TYPES + ["bool"], 2)
        return "cast", {"op": "cast", "shapes": [d.shape(2)], "dtype": a, "to": b}
    if how == "one":
        return f"{how} of other types", case_of(d.choice(["neg", "abs", "relu"]), [d.shape(2)], dtype)
    shape = d.shape(2, 2_000_000)
    other = shape if how != "broadcast" else d.choice([[shape[0], 1], shape[1:]])
    return f"{how} of other types", case_of(d.choice(["eq", "lt", "ge"] if how == "compare" else ["add", "mul", "sub", "maximum"]), [shape, other], dtype)


def moved(d):
    """Moves in other sizes of elements."""
    how = d.choice(["transpose", "permute", "flip", "roll", "repeat", "pixel_shuffle", "pad", "tril"])
    dtype, n = d.choice(TYPES), d.shape(2, 2_000_000)
    if how in ("transpose", "permute"):
        shape = n if how == "transpose" else [d.randint(1, 4), d.size(2, 64), d.size(2, 64), d.size(2, 64)]
        dims = [1, 0] if how == "transpose" else d.sample([0, 1, 2, 3], 4)
        return f"{how} of {dtype}", {"op": "transpose", "shapes": [shape], "dtype": dtype, "perm": dims}
    if how == "pixel_shuffle":
        return how, case_of(how, [[1, d.choice([4, 16, 64]), d.size(8, 64), d.size(8, 64)]], dtype, {"upscale_factor": 2})
    if how == "pad":
        return "pad of other types", case_of("constant_pad_nd", [d.image(3, 64)], dtype, {"pad": [d.randint(0, 3) for _ in range(4)]})
    parameters = {"flip": {"dims": [d.randint(0, 1)]}, "roll": {"shifts": [3], "dims": [1]}, "repeat": {"repeats": [d.randint(1, 3), d.randint(1, 3)]}, "tril": {}}[how]
    return how, case_of(how, [n if how != "repeat" else d.shape(2, 500_000)], dtype, parameters)


def reduced(d):
    """Reductions of other types, and over several dimensions."""
    op, dtype = d.choice(["sum", "amax", "amin", "mean", "prod", "logsumexp", "var", "linalg_vector_norm"]), d.choice(TYPES)
    if op in ("mean", "var", "logsumexp", "linalg_vector_norm"):
        dtype = d.choice(FLOATS)
    if d.random() < 0.3 and op != "prod":
        shape, dims = d.image(), d.choice([[2, 3], [0, 2, 3], [1, 2]])
    else:
        shape = [d.size(2, 64), d.size(2, 512), d.size(2, 128)]
        dims = [d.randint(0, 2)]
    parameters = {"dim": dims[0] if op == "prod" else dims}
    return f"{op} of other types", case_of(op, [shape], dtype, {"ord": 2, **parameters} if op == "linalg_vector_norm" else parameters)


def ordered(d):
    """Scans, sorting, what is picked out."""
    op, dtype = d.choice(["cumsum", "cumsum", "cumprod", "cummax", "logcumsumexp", "sort", "argsort", "topk", "argmax"]), d.choice(TYPES)
    dtype = d.choice(FLOATS) if op == "logcumsumexp" else dtype
    shape = [d.size(1, 512), d.size(16, 2048)]
    dim = d.choice([-1, -1, 0]) if op not in ("topk", "argsort", "sort") else -1
    return op, case_of(op, [shape], dtype, {"k": d.randint(1, 10)} if op == "topk" else {"dim": dim})


def pointed(d):
    """What indices point at: of bench's, which go to 63."""
    how, dtype, n = d.choice(["gather", "scatter_add", "index_add", "embedding"]), d.choice(FLOATS + ["int32", "int64"]), d.size(64, 1000)
    if how == "embedding":
        return how, case_of(how, [[n, d.size(8, 512)], [d.size(1, 16), d.size(1, 128)]], [dtype, "int64"])
    if how == "index_add":
        width, m = d.size(1, 256), d.size(1, 1000)
        return how, case_of(how, [[n, width], [m], [m, width]], [dtype, "int64", dtype], {"dim": 0}, first=1)
    if how == "gather":
        rows, m = d.size(1, 500), d.size(1, 300)
        return how, case_of(how, [[rows, n], [rows, m]], [dtype, "int64"], {"dim": 1}, first=1)
    width, m = d.size(1, 256), d.size(1, 500)
    return how, case_of(how, [[n, width], [m, width], [m, width]], [dtype, "int64", dtype], {"dim": 0}, first=1)


def layered(d):
    """Norms, activations, pools and sizes of images, in every floating-point type."""
    how, dtype, image = d.choice(["log_softmax", "glu", "global pool", "pool", "bilinear", "pool1d", "lone"]), d.choice(FLOATS), d.image(16, 256)
    if how in ("log_softmax", "glu"):
        n = d.size(1, 500), 2 * d.size(4, 1000)
        return f"{how} of any type", case_of(how, [list(n)], dtype, {"dim": 1})
    if how == "global pool":
        return how, case_of("adaptive_avg_pool2d", [image], dtype, {"output_size": [1, 1]})
    if how == "pool":
        kernel, stride = d.choice([(3, 2), (2, 2), (3, 1)])
        return f"{how} of any type", case_of(d.choice(["max_pool2d", "avg_pool2d"]), [image], dtype, {"kernel_size": [kernel, kernel], "stride": [stride, stride], "padding": [kernel // 2, kernel // 2]})
    if how == "bilinear":
        return how, case_of("upsample_bilinear2d", [[1, image[1], image[2] // 2 + 1, image[3] // 2 + 1]], dtype, {"output_size": image[2:], "align_corners": False})
    if how == "pool1d":
        return how, case_of("max_pool1d", [[d.randint(1, 8), d.size(8, 128), d.size(16, 2000)]], dtype, {"kernel_size": [3], "stride": [2], "padding": [1]})
    return "other functions", case_of(d.choice(["rsqrt", "expm1", "log1p", "softplus", "elu", "mish", "tan", "atan", "round", "sign"]), [d.shape(2, 500_000)], dtype)


OTHERS = [typed] * 3 + [moved] * 3 + [reduced] * 2 + [ordered] * 2 + [pointed, layered, layered]
KINDS = [lone] * 3 + [same] * 2 + [broadcast] * 4 + [turned, transpose, transpose] + [softmax] * 2 + [norm] * 2 + [reduction] * 3 + \
    [pool] * 2 + [convolution] * 3 + [product] * 2 + [attention] + [move] * 2


def draw(seed, count, kinds=KINDS):
    """As many cases: {"id", "mechanism", "op", "shapes", ...}."""
    d, cases = Draw(seed), []
    while len(cases) < count:
        mechanism, case = d.choice(kinds)(d)
        if max(map(numel, case["shapes"])) <= MOST:
            cases.append({"id": f"{len(cases)}_{case['op']}", "mechanism": mechanism, **case})
    return cases


# ---- what came of it ----

def words(case):
    known = ("id", "mechanism", "op", "shapes", "dtype", "aten", "first")
    rest = ", ".join(f"{k} {v}" for k, v in case.items() if k not in known)
    return f"{case['op']} {' '.join('x'.join(map(str, s)) or '()' for s in case['shapes'])} {case.get('dtype', '')} {rest}".strip()


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def summary(found):
    """found: [(ratio, case, times)]. In small calls much of a rival's time is what it takes to call it."""
    print()
    for what, part in (("all", found), (f"of {SMALL} us and more", [f for f in found if f[0] * f[2]["tensord"] >= SMALL])):
        ratios = sorted(ratio for ratio, _, _ in part)
        share = {limit: 100 * sum(r < limit for r in ratios) / max(1, len(ratios)) for limit in (0.95, 0.8, 0.5)}
        print(f"{what}: {len(ratios)} cases, geometric mean {geometric(ratios):.2f}; " + ", ".join(f"{v:.0f} % below {k}" for k, v in share.items())
              + "; tenths " + " ".join(f"{r:.2f}" for r in ratios[len(ratios) // 10::max(1, len(ratios) // 10)]))
    kinds = collections.defaultdict(list)
    for ratio, case, _ in found:
        kinds[case["mechanism"]].append(ratio)
    print("\n| mechanism | cases | geometric mean | least |\n| --- | --- | --- | --- |")
    for kind in sorted(kinds, key=lambda k: geometric(kinds[k])):
        print(f"| {kind} | {len(kinds[kind])} | {geometric(kinds[kind]):.2f} | {min(kinds[kind]):.2f} |")
    print("\n| ratio | mechanism | case | us |\n| --- | --- | --- | --- |")
    for ratio, case, times in sorted(found, key=lambda f: f[0])[:20]:
        print(f"| {ratio:.2f} | {case['mechanism']} | {words(case)} | " + ", ".join(f"{who} {us:.1f}" for who, us in times.items()) + " |")


def main():
    options = figures.options(__doc__, seed=1, count=300, rounds=3, threads=1, cpus="", only="", cases="", others=0, python=sys.executable, rivals="torch,onnxruntime")
    figures.machine()
    cpus = {int(c) for c in options.cpus.split(",")} if options.cpus else set(sorted(os.sched_getaffinity(0))[:options.threads])
    os.sched_setaffinity(0, cpus) # what is started from here stays on them
    cases = [case for case in draw(options.seed, options.count, OTHERS if options.others else KINDS) if case["mechanism"].startswith(tuple(options.only.split(",")))]
    for rival in set(rivals.NEEDS) - set(options.rivals.split(",")):
        del rivals.NEEDS[rival]
    found = []
    with tempfile.TemporaryDirectory() as directory:
        theirs, own = options.cases or os.path.join(directory, "theirs.json"), os.path.join(directory, "ours.json")
        for path, form in ((theirs, lambda c: c), (own, operators.ours)):
            with open(path, "w") as f:
                json.dump({"cases": list(map(form, cases))}, f)
        workers = operators.start(options.python.split(","), theirs, options.threads)
        print(f"seed {options.seed}, CPUs {sorted(cpus)}, beside {', '.join(workers) or 'nobody'}", flush=True)
        for case in cases:
            best = operators.time_case(case, workers, own, options.threads, options.rounds)
            others = min((us for who, us in best.items() if who != "tensord"), default=float("nan"))
            if math.isfinite(others) and math.isfinite(best["tensord"]):
                found.append((others / best["tensord"], case, best))
            print(f"{others / best['tensord']:.2f} {case['id']} {case['mechanism']}: {words(case)}: "
                  + ", ".join(f"{who} {us:.1f}" for who, us in best.items()), flush=True)
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    if found:
        summary(found)


if __name__ == "__main__":
    main()
