#!/usr/bin/env python3
"""tests/fuzz/build.py SOURCE_DIR BUILD_DIR: writes BUILD_DIR/fuzz/build.ninja, which builds every fuzz_NAME.c of this folder.

What meson compiles by gcc for BUILD_DIR is compiled by clang once more, with libFuzzer's counters, AddressSanitizer and UBSan:
kernels' rules, descriptors and references, pools, dispatch, api and the server's HTTP. The vector sources stay gcc's, as they
are in BUILD_DIR (clang has not all of gcc's vectors): fuzzers give them memory that ends at a page that may not be touched.

Of UBSan's group `integer`, signed overflow, division by zero and what an implicit conversion cuts off are on. What wraps by
design is not: unsigned sums and shifts (hashes, ATen's arithmetic), and the sign of what is only reinterpreted."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT, BUILD = (Path(os.path.abspath(arg)) for arg in sys.argv[1:3])
OUT = BUILD / "fuzz"
SANITIZE = ("-fsanitize=fuzzer-no-link,address,undefined,integer,float-cast-overflow "
            "-fno-sanitize=unsigned-integer-overflow,unsigned-shift-base,implicit-integer-sign-change "
            "-fsanitize-recover=undefined,integer,float-cast-overflow")
LIBRARIES = ("kernels/libkernels.a.p/", "pools/", "dispatch/", "api/", "tensord.p/server_")
NOT_OURS = ("server_main.c.o",)
DROPPED = ("-O", "-fopenmp", "-fno-asynchronous", "-fdiagnostics", "-M", "-W", "-o", "-c", "-fno-unswitch", "-fno-mmx")


def flags_of(command):
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in ("-MQ", "-MF", "-o", "-c"):
            next(words)
        elif word.startswith("-") and not word.startswith(DROPPED):
            kept.append(word)
    return " ".join(shlex.quote(word) for word in kept)


def objects():
    """(source, object, flags, is C++) of what is compiled once more."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        out = entry["output"]
        if out.startswith(LIBRARIES) and not out.endswith(NOT_OURS):
            yield entry["file"], "fuzz/" + out, flags_of(entry["command"]), entry["file"].endswith(".cc")


def vector_libraries():
    """In the order that meson links them."""
    return " ".join(sorted(str(path.relative_to(BUILD)) for path in (BUILD / "kernels").glob("libkernels_*.a")))


def libraries():
    config = subprocess.run(["pkg-config", "--libs", "libmicrohttpd", "gnutls", "libcjson", "hwloc", "libcpuinfo", "sleef", "zlib",
                             "libzip", "libprotobuf-c"], stdout=subprocess.PIPE, text=True, check=True)
    own = ROOT / ".deps/onednn/lib"
    onednn = f"-L{own} -Wl,-rpath,{own} -ldnnl" if own.is_dir() else "-ldnnl"
    zydis = any("-DTD_ZYDIS" in flags for _, _, flags, _ in objects())
    return f"{config.stdout.strip()} {onednn}{' -lZydis' * zydis} -lm -lpthread"


def main():
    ccache = "ccache " if subprocess.run(["sh", "-c", "command -v ccache"], stdout=subprocess.DEVNULL).returncode == 0 else ""
    lines = [f"""
# ninja's notes on the files here, of which meson's build would delete what it does not know.
builddir = fuzz
rule cc
  command = {ccache}$clang -w -g -O1 {SANITIZE} $flags -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
  description = $clang $in
rule ar
  command = rm -f $out && ar crsT $out @$out.rsp
  rspfile = $out.rsp
  rspfile_content = $in
rule link
  command = clang++ -fsanitize=fuzzer,address,undefined -Wl,--start-group $in {vector_libraries()} -Wl,--end-group {libraries()} -o $out
"""]
    all_objects, flags = [], {}
    for source, out, how, is_cxx in objects():
        all_objects.append(out)
        if out.startswith("fuzz/tensord.p/"):
            flags["server"] = how
        lines.append(f"build {out}: cc {source}\n  clang = {'clang++' if is_cxx else 'clang'}\n  flags = {how}\n")
    for path in [ROOT / "tests" / name for name in ("sample.c", "sample_layout.c", "sample_place.c")]:
        all_objects.append(f"fuzz/{path.stem}.o")
        lines.append(f"build {all_objects[-1]}: cc {path}\n  clang = clang\n  flags = {flags['server']} -I{ROOT}\n")
    lines.append(f"build fuzz/libfuzzed.a: ar {' '.join(all_objects)}\n")
    for path in sorted((ROOT / "tests/fuzz").glob("fuzz_*.c")):
        name = path.stem
        lines.append(f"build fuzz/{name}.o: cc {path}\n  clang = clang\n  flags = {flags['server']} -I{ROOT}\n")
        lines.append(f"build fuzz/{name}: link fuzz/{name}.o fuzz/libfuzzed.a | {vector_libraries()}\n")
    OUT.mkdir(exist_ok=True)
    text = "\n".join(lines)
    file = OUT / "build.ninja"
    if not file.exists() or file.read_text() != text:
        file.write_text(text)


main()
