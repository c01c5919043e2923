#!/usr/bin/env python3
"""What dispatch costs: nanoseconds, as `tensord bench --dispatch` measures them, and beside them
the instructions of a call, counted by callgrind (which no other load on the machine disturbs).

python3 tests/bench/dispatch.py [BINARY]
"""
import json
import re
import subprocess
import sys

BINARY = sys.argv[1] if len(sys.argv) > 1 else "build/tensord"
FEW, MANY = 200, 2200
DIFFERENCES = {"boxed_over_unboxed": ("boxed", "unboxed"), "redispatch": ("bind_redispatch", "bind"),
               "fallthrough": ("bind_fallthrough", "bind")}


def cpu():
    return re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read()).group(1)


def count(item, repeat):
    """Instructions of a whole run, start included."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--trace-children=yes", "--callgrind-out-file=/dev/null", BINARY, "bench",
                           "--dispatch", "--item", item, "--repeat", str(repeat)],
                          capture_output=True, text=True, timeout=300, env={"TENSORD_CPU_CAPABILITY": "avx2"})
    found = re.findall(r"Collected : (\d+)", done.stderr)
    return int(found[-1]) if found else None


def main():
    print(cpu())
    done = subprocess.run([BINARY, "bench", "--dispatch", "--json"], capture_output=True, text=True, check=True, timeout=300)
    print(f"{'item':18} {'ns min':>9} {'ns median':>9} {'instructions':>12}")
    counts = {}
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in sorted(rows, key=lambda row: row["item"] in DIFFERENCES):
        name = row["item"]
        if name in DIFFERENCES:
            more, less = DIFFERENCES[name]
            counts[name] = counts[more] - counts[less]
        elif not name.startswith("select_cold"):
            few, many = count(name, FEW), count(name, MANY)
            counts[name] = (many - few) / (MANY - FEW)
        instructions = f"{counts[name]:12.0f}" if name in counts else f"{'-':>12}"
        print(f"{row['item']:18} {row['ns_min']:9.1f} {row['ns_median']:9.1f} {instructions}")


if __name__ == "__main__":
    main()
