#!/usr/bin/env python3
"""tests/probes.py BUILD_DIR TENSORD (ISA-5, ISA-6): set-up tried to compile each level's intrinsics, and what the
binary says it holds is what that gave. A level that failed was warned of, with what it takes."""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    build, binary = pathlib.Path(sys.argv[1]), sys.argv[2]
    log = (build / "meson-logs/meson-log.txt").read_text()
    probed = dict(re.findall(r'Checking if "level (\w+)" compiles: (YES|NO)', log))
    environment = {k: v for k, v in os.environ.items() if k != "TENSORD_CPU_CAPABILITY"}
    levels = json.loads(subprocess.run([binary, "isa", "--json"], capture_output=True, check=True, env=environment).stdout)["levels"]
    wrong = []
    for level in levels:
        name = level["name"].lower()
        if (probed.get(name) == "YES") != level["binary"]:
            wrong.append(f"{name}: probe {probed.get(name, 'missing')}, binary {level['binary']}")
        if probed.get(name) == "NO" and f"cannot build the ISA level {level['name']}" not in log:
            wrong.append(f"{name}: no warning")
    table = dict(re.findall(r'TD_ISA\((\w+), \w+, \w+, "([^"]+)"\)', (ROOT / "kernels/isa.def").read_text()))
    wanted = {"default": "any", "avx2": "any", "avx2_vnni": "11.2", "avx512": "9.2", "avx512_vnni": "9.2",
              "avx512_bf16": "10.3", "amx": "11.2", "avx512_fp16": "12.1"}
    if table != wanted:
        wrong.append(f"compiler minimums: {table}")
    print("\n".join(wrong) or f"{len(levels)} levels probed: {probed}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
