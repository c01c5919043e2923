#!/usr/bin/env python3
"""tests/probes.py BUILD_DIR TENSORD (ISA-5, ISA-6): set-up tried to compile each level's intrinsics, and what the
binary says it holds is what that gave. A level that failed was warned of, with what it takes."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
MINIMUMS = {"default": "any", "avx2": "any", "avx2_vnni": "11.2", "avx512": "9.2", "avx512_vnni": "9.2",
            "avx512_bf16": "10.3", "amx": "11.2", "avx512_fp16": "12.1"}
OLD = """#!/bin/sh
# A compiler of before AMX and FP16's vectors: it does not know their flags.
for word; do
    case $word in -mamx-* | -mavx512fp16) echo "error: unrecognized command-line option '$word'" >&2; exit 1 ;; esac
done
exec %s "$@"
"""


def warning(level):
    return f"please upgrade gcc to {MINIMUMS[level]}+ to support CPU ISA {level.upper()}"


def refused():
    """What is wrong with a set-up by a compiler that refuses flags: the levels are left out, with a
    word on what has them, and all others are there."""
    with tempfile.TemporaryDirectory() as folder:
        old, build = pathlib.Path(folder, "old-cc"), pathlib.Path(folder, "build")
        old.write_text(OLD % shutil.which(os.environ.get("CC", "cc").split()[-1]))
        old.chmod(0o755)
        done = subprocess.run(["meson", "setup", build, ROOT], text=True, env={**os.environ, "CC": str(old)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            return ["an older compiler: set-up fails: " + done.stdout[-400:]]
        built = (build / "kernels/isa_config.h").read_text()
        rules = (build / "build.ninja").read_text()
        wrong = []
        for level in MINIMUMS:
            gone = level in ("amx", "avx512_fp16")
            if (f"define TD_HAS_{level} {int(not gone)}\n" not in built) or (f"libkernels_{level}.a" in rules) == gone:
                wrong.append(f"an older compiler: {level} is {'not ' * (not gone)}there")
            if (warning(level) in done.stdout) != gone:
                wrong.append(f"an older compiler: {'no ' * gone}warning of {level}")
        # And what names the levels compiles without them.
        one = subprocess.run(["ninja", "-C", build, "kernels/libkernels.a.p/levels.c.o", "dispatch/libdispatch.a.p/cpu.c.o"],
                             capture_output=True, text=True)
        names = subprocess.run(["nm", build / "kernels/libkernels.a.p/levels.c.o"], capture_output=True, text=True).stdout
        if one.returncode or "td_level_amx" in names or "td_level_avx512_bf16" not in names:
            wrong.append("an older compiler: levels.c: " + (one.stdout[-300:] or names))
        return wrong


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
        if probed.get(name) == "NO" and warning(name) not in log:
            wrong.append(f"{name}: no warning")
    table = dict(re.findall(r"^  \['(\w+)'.*?, '([\d.]+|any)'\],$", (ROOT / "kernels/meson.build").read_text(), re.M | re.S))
    if table != MINIMUMS:
        wrong.append(f"compiler minimums: {table}")
    wrong += refused()
    print("\n".join(wrong) or f"{len(levels)} levels probed: {probed}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
