#!/usr/bin/env python3
"""Generated loops beside the compiled rows: `tensord bench` of expressions with TENSORD_JIT on and off, in turns; the
least of all turns, in microseconds, and the rows' time by the loops'.

On a quiet machine, on one thread: chrt -f 10 taskset -c 0 tests/bench/loops.py [BINARY]
"""
import json
import os
import subprocess
import sys
import tempfile

WIDE = [128, 3072]
CASES = [("chain", "relu(a*b+c)*sigmoid(a)", [WIDE, WIDE, WIDE]),
         ("chain, c a row", "relu(a*b+c)*sigmoid(a)", [WIDE, WIDE, WIDE[1:]]),
         ("chain, c a column", "relu(a*b+c)*sigmoid(a)", [WIDE, WIDE, [128, 1]]),
         ("column broadcast", "a * b + 1", [[777, 1533], [777, 1]]),
         ("scale and shift by column", "a * b + c", [[777, 1533], [777, 1], [777, 1]]),
         ("gelu of a sum", "gelu(a + b)", [WIDE, WIDE[1:]]),
         ("silu times", "silu(a) * b", [WIDE, WIDE]),
         ("plain sum of three", "a + b + c", [WIDE, WIDE, WIDE]),
         ("rows of 64", "relu(a*b+c)*sigmoid(a)", [[6144, 64], [6144, 64], [64]]),
         ("small", "relu(a*b+c)*sigmoid(a)", [[4096], [4096], [4096]])]


def times(binary, file, jit):
    done = subprocess.run([binary, "bench", "--cases", file, "--json", "--kernel", "best"], check=True, capture_output=True,
                          text=True, env={**os.environ, "TENSORD_JIT": jit}).stdout
    return {row["id"]: row for row in map(json.loads, done.splitlines())}


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else "build/tensord"
    least = {}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"cases": [{"id": name, "op": "mine", "expr": expr, "shapes": shapes} for name, expr, shapes in CASES]}, file)
        file.flush()
        for _ in range(5):
            for jit in ("on", "off"):
                for name, row in times(binary, file.name, jit).items():
                    us = row.get("us_min", row["us_median"])
                    least[name, jit] = min(us, least.get((name, jit), us))
    for name, _, _ in CASES:
        on, off = least[name, "on"], least[name, "off"]
        print(f"{name:28} generated {on:8.1f} us   rows {off:8.1f} us   {off / on:5.2f}")


if __name__ == "__main__":
    main()
