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


# What each level's probe is to ask for: a compiler may take the flag and lack one of them (AVX512_BF16's short
# vectors came later than its long ones). FP16 is built with AMX's flags.
INTRINSICS = {"avx2": ["_mm256_abs_epi16", "_mm256_extract_epi64"], "avx2_vnni": ["_mm256_dpbusds_avx_epi32"],
              "avx512": ["_mm512_cmp_epi8_mask"], "avx512_vnni": ["_mm512_dpbusds_epi32"],
              "avx512_bf16": ["_mm512_cvtneps_pbh", "_mm_cvtneps_pbh"], "amx": ["_tile_dpbusd"],
              "avx512_fp16": ["_tile_dpbusd", "_mm512_cvtxps_ph"]}
HALF = """#!/bin/sh
# A compiler that takes all flags and has half of AVX512_BF16's intrinsics.
exec %s -include %s "$@"
"""
LACKS = "#include <immintrin.h>\n#pragma GCC poison %s\n"


def warning(level):
    return f"please upgrade gcc to {MINIMUMS[level]}+ to support CPU ISA {level.upper()}"


def set_up(folder, script):
    """(what set-up by a compiler prints, what it settles, the rules): all empty but the first where it fails."""
    compiler, build = pathlib.Path(folder, "cc"), pathlib.Path(folder, "build")
    compiler.write_text(script)
    compiler.chmod(0o755)
    done = subprocess.run(["meson", "setup", build, ROOT], text=True, env={**os.environ, "CC": str(compiler)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        return done.stdout[-400:], "", ""
    return done.stdout, (build / "kernels/isa_config.h").read_text(), (build / "build.ninja").read_text()


def left_out(which, levels, said, built, rules):
    """What is wrong with a set-up that should do without levels: there is a word on what has them, and all others are there."""
    if not built:
        return [f"{which}: set-up fails: {said}"]
    wrong = []
    for level in MINIMUMS:
        gone = level in levels
        if (f"define TD_HAS_{level} {int(not gone)}\n" not in built) or (f"libkernels_{level}.a" in rules) == gone:
            wrong.append(f"{which}: {level} is {'not ' * (not gone)}there")
        if (warning(level) in said) != gone:
            wrong.append(f"{which}: {'no ' * gone}warning of {level}")
    return wrong


def refused(compiler):
    """What is wrong with a set-up by a compiler that refuses flags."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = left_out("an older compiler", ("amx", "avx512_fp16"), *set_up(folder, OLD % compiler))
        # And what names the levels compiles without them.
        build = pathlib.Path(folder, "build")
        one = subprocess.run(["ninja", "-C", build, "kernels/libkernels.a.p/levels.c.o", "dispatch/libdispatch.a.p/cpu_cpu.c.o"],
                             capture_output=True, text=True)
        names = subprocess.run(["nm", build / "kernels/libkernels.a.p/levels.c.o"], capture_output=True, text=True).stdout
        if one.returncode or "td_level_amx" in names or "td_level_avx512_bf16" not in names:
            wrong.append("an older compiler: levels.c: " + (one.stdout[-300:] or names))
        return wrong


def lacking(compiler):
    """What is wrong with a set-up by a compiler that takes a level's flags and lacks an intrinsic of it."""
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "lacks.h")
        header.write_text(LACKS % "_mm_cvtneps_pbh")
        return left_out("half a compiler", ("avx512_bf16",), *set_up(folder, HALF % (compiler, header)))


def asked_for(log):
    """What is wrong with the probes: each compiles, where its compiler has all, and not without any one of its intrinsics."""
    wrong = []
    for probe in re.finditer(r'^Checking if "level (\w+)" compiles: YES', log, re.M):
        level, said = probe[1], log[log.rindex("ommand line:", 0, probe.start()):probe.start()] # also "Cached command line:"
        command, code = re.match(r"ommand line:(.*)\n\nCode:\n((?:.*\n)*?)(?:Cached )?compiler stdout:", said, re.I).groups()
        command = [word for word in command.split() if "testfile" not in word and not word.endswith("output.obj") and word not in ("-o", "-c")]
        for lacks in ["nothing", *INTRINSICS.get(level, ())]:
            done = subprocess.run([*command, "-fsyntax-only", "-x", "c", "-"], input=LACKS % lacks + code, capture_output=True, text=True)
            if (done.returncode == 0) != (lacks == "nothing"):
                wrong.append(f"the probe of {level} {'fails' if done.returncode else 'does not ask for ' + lacks}: {done.stderr[-300:]}")
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
    compiler = shutil.which(os.environ.get("CC", "cc").split()[-1])
    wrong += asked_for(log) + refused(compiler) + lacking(compiler)
    print("\n".join(wrong) or f"{len(levels)} levels probed: {probed}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
