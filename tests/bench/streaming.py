#!/usr/bin/env python3
"""Pointwise operators on 1M elements against memory: the time of each in every type, by the time in which a plain copy
(of one operand) or addition (of more) moves as many bytes. `beyond` marks what is over 1.3 where FP32 is not.

Both are the least of all rounds of one thread, taken in turns, so that a busy machine disturbs little.
"""
import json
import os
import re
import subprocess
import tempfile

import figures

N = 1 << 20
LIMIT = 1.3
REALS = ["FP32", "BF16", "FP16", "FP64"]
WHOLE = ["INT32", "INT64"]
ONE = {**{op: REALS for op in ("exp", "sigmoid", "tanh", "erf", "gelu", "silu", "sqrt", "log")},
       **{op: REALS + WHOLE for op in ("neg", "abs", "relu")}, "logical_not": REALS + WHOLE + ["BOOL"]}
TWO = {**{op: REALS + WHOLE for op in ("add", "mul", "maximum")}, **{op: REALS + WHOLE + ["BOOL"] for op in ("eq", "lt", "where")}}
CASTS = [(a, b) for a in REALS + WHOLE + ["BOOL"] for b in REALS + WHOLE + ["BOOL"] if a != b]


def size_of(dtype):
    return 1 if dtype == "BOOL" else int(re.search(r"\d+", dtype).group()) // 8


def case(name, op, types, out, **more):
    shapes = [[N]] * len(types)
    return {"id": name, "op": op, "shapes": shapes, "dtype": types, **more}, (len(types) > 1, N * (sum(map(size_of, types)) + size_of(out)))


def cases():
    for op, types in ONE.items():
        yield from (case(f"{op} {t}", op, [t], "BOOL" if op == "logical_not" else t) for t in types)
    for op, types in TWO.items():
        first = ["BOOL"] if op == "where" else []
        yield from (case(f"{op} {t}", op, first + [t, t], "BOOL" if op in ("eq", "lt") else t) for t in types)
    yield from (case(f"{a} to {b}", "_to_copy", [a], b, to=b) for a, b in CASTS)


def plain(adds, size):
    """What moves as many bytes: of an addition in FP32 thirds are, of a copy halves."""
    n = size // (12 if adds else 8)
    return {"id": f"plain {adds} {size}", "op": "add" if adds else "clone", "shapes": [[n]] * (2 if adds else 1)}


def least(listed, rounds):
    found = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"cases": listed}, file)
        file.flush()
        for _ in range(rounds):
            done = subprocess.run([os.environ["TENSORD_BIN"], "bench", "--json", "--kernel", "best", "--cases", file.name],
                                  capture_output=True, text=True, check=True)
            for row in map(json.loads, done.stdout.splitlines()):
                found[row["id"]] = min(row["us_min"], found.get(row["id"], row["us_min"]))
    return found


def main():
    asked = figures.options(__doc__, rounds=3, op="")
    chosen = [c for c in cases() if not asked.op or asked.op in c[0]["id"]]
    moved = sorted({m for _, m in chosen})
    took = least([c for c, _ in chosen] + [plain(*m) for m in moved], asked.rounds)
    ratio = {c["id"]: took[c["id"]] / took[plain(*m)["id"]] for c, m in chosen if c["id"] in took}
    figures.machine()
    print(f"{'case':20} {'us':>8} {'ns/byte':>8} {'by plain':>8}")
    for c, m in chosen:
        name = c["id"]
        beyond = ratio[name] > LIMIT and ratio.get(name.split()[0] + " FP32", 1) <= LIMIT
        print(f"{name:20} {took[name]:8.1f} {took[name] * 1e3 / m[1]:8.4f} {ratio[name]:8.2f}{'  beyond' * beyond}")


if __name__ == "__main__":
    main()
