#!/usr/bin/env python3
"""tests/leaks.py BUILD_DIR: no object holds an instruction above its level (ISA-17, ISA-21).

DEFAULT is what every x86-64 CPU has (ISA-4), no SSE3 even.
What is not compiled once per level must be plain x86-64: it runs before detection, or on machines
that have no more. And a level's objects may use what the level has, and nothing of a higher one; what a level is
there for, its kernels do use (ISA-31: BF16 by the hardware's conversion). All is read off the disassembly.
The check is tried on known instructions first.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

# What marks an instruction as one of a feature, by its text.
FEATURES = {
    "sse4": re.compile(r"\s(pabs[bwd]|pshufb|ph(add|sub)\w+|pmaddubsw|pmulhrsw|psign[bwd]|palignr|blendv?p[sd]|pblend\w+|dpp[sd]|extractps|insertps|"
                       r"mpsadbw|packusdw|pcmp(eq|gt)q|p(ext|ins)r[bdq]|p(max|min)(s[bd]|u[wd])|pmov[sz]x\w+|pmuldq|pmulld|ptest|round[ps][sd]|movntdqa|"
                       r"pcmp[ei]str[im]|crc32\w*|popcnt|h(add|sub)p[sd]|addsubp[sd]|lddqu|movddup|movs[hl]dup)\s"),
    "avx": re.compile(r"\sv[a-z]|%ymm"),
    "avx512": re.compile(r"%zmm|%k[0-7]|%[xy]mm(1[6-9]|2\d|3[01])"),
    "vnni": re.compile(r"\svpdp(busd|wssd)"),
    "bf16": re.compile(r"\s(vcvtne2?ps2bf16|vdpbf16ps)"),
    "amx": re.compile(r"%tmm|\s(tile|tdp|ldtilecfg|sttilecfg)"),
    "fp16": re.compile(r"\sv(add|sub|mul|div|max|min|sqrt|fm?n?m?add\d*|rcp|rsqrt|scalef|cmp|getexp)[ps]h\b|\svmov(sh|w)\b"),
}
LEVELS = { # what each may use
    "base": set(),
    "default": set(),
    "avx2": {"sse4", "avx"},
    "avx2_vnni": {"sse4", "avx", "vnni"},
    "avx512": {"sse4", "avx", "avx512"},
    "avx512_vnni": {"sse4", "avx", "avx512", "vnni"},
    "avx512_bf16": {"sse4", "avx", "avx512", "vnni", "bf16"},
    "amx": {"sse4", "avx", "avx512", "vnni", "bf16", "amx"},
    "avx512_fp16": {"sse4", "avx", "avx512", "vnni", "bf16", "amx", "fp16"},
}

USED = { # by which source of a level
    "avx2_vnni": {("int_mm_simd.c", "vnni")},
    "avx512_vnni": {("int_mm_simd.c", "vnni")},
    "avx512_bf16": {("cast_simd.c", "bf16"), ("gemm_bf16.c", "bf16")},
    "amx": {("int_mm_amx.c", "amx"), ("gemm_amx.c", "amx")},
}


def leaks(path, level):
    """One line for the first instruction of each feature that the level lacks, by function; how many
    instructions there are; and what of USED is missing."""
    unused, source = set(USED.get(level, ())), ""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    found, where, lines = {}, "?", 0
    for line in text.splitlines():
        if line.endswith(">:"):
            where = line.split("<")[-1][:-2]
        elif "file format" in line:
            source = line.partition(".o:")[0]
        elif line.startswith(" "):
            lines += 1
            for feature, pattern in FEATURES.items():
                if feature not in LEVELS[level] and feature not in found and pattern.search(line):
                    found[feature] = f"{pathlib.Path(path).name} ({level}): {feature} in {where}: {line.split(':', 1)[1].strip()}"
            unused -= {(name, feature) for name, feature in unused
                       if source.endswith("_" + name) and FEATURES[feature].search(line)}
    return list(found.values()), lines, [f"{level}: {name} uses no {feature}" for name, feature in sorted(unused)]


def level_of(path):
    name = path.name.removesuffix(".a").removeprefix("libkernels_")
    return name if name in LEVELS and "libkernels_" in path.name else "base"


BAD = [ # level, instruction that it may not hold
    ("base", "vpaddd %ymm1, %ymm2, %ymm3"), ("base", "pmulld %xmm1, %xmm2"), ("default", "vaddps %xmm1, %xmm2, %xmm3"),
    ("default", "roundps $1, %xmm1, %xmm2"), ("avx2", "vpaddd %zmm1, %zmm2, %zmm3"), ("avx512", "{vex} vpdpbusd %ymm1, %ymm2, %ymm3"),
    ("avx512_vnni", "vdpbf16ps %zmm1, %zmm2, %zmm3"), ("avx512_bf16", "tdpbssd %tmm1, %tmm2, %tmm3"),
    ("amx", "vaddph %zmm1, %zmm2, %zmm3"), ("avx2_vnni", "vpternlogd $1, %ymm20, %ymm2, %ymm3"),
]


GOOD = [("base", "movw $1, (%rax)"), ("default", "pmaxsw %xmm1, %xmm2"), ("avx512", "kmovw %k1, %eax"), ("avx512_fp16", "vmovw %eax, %xmm1")]


def try_known_ones():
    """What is wrong with the check itself: bad instructions that pass, good ones that do not."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        source, known = pathlib.Path(folder, "known.s"), pathlib.Path(folder, "known.o")
        for right, instructions in ((False, BAD), (True, GOOD)):
            for level, instruction in instructions:
                source.write_text(f".globl f\nf:\n {instruction}\n ret\n")
                subprocess.run(["as", "-o", known, source], check=True)
                if right == bool(leaks(known, level)[0]):
                    wrong.append(f"the check {'refuses' if right else 'lets pass'} at {level}: {instruction}")
    return wrong


def main():
    build = pathlib.Path(sys.argv[1])
    wrong = try_known_ones()
    archives = [path for folder in ("kernels", "pools", "dispatch", "api", "server")
                for path in sorted((build / folder).glob("*.a"))]
    objects = sorted((build / "tensord.p").glob("*.o"))
    total, seen = 0, set()
    for path in archives + objects:
        found, lines, unused = leaks(path, level_of(path))
        wrong += found + unused
        total += lines
        seen.add(level_of(path))
    if not {"base", "default", "avx2"} <= seen or total < 10000:
        wrong.append(f"only {total} instructions seen, of {', '.join(sorted(seen))}")
    print("\n".join(wrong) or f"{total} instructions of {len(archives) + len(objects)} files, levels {', '.join(sorted(seen))}: no leak")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
