#!/usr/bin/env bash
# tests/fuzz/run.sh SOURCE_DIR BUILD_DIR NAME DRAGONBOX_DIR: builds fuzz_NAME with clang's libFuzzer,
# AddressSanitizer and UBSan and runs it 20,000 times from its corpus.
set -euo pipefail
root=$1 name=$3 dragonbox=$4
build=$(cd "$2" && pwd)
if ! command -v clang >/dev/null || ! command -v clang++ >/dev/null; then
    echo "skipped: no clang, which brings libFuzzer"
    exit 77
fi
work=$build/tests/fuzz/$name
flags=(-g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -D_GNU_SOURCE
    -I"$root" -I"$build" -isystem "$dragonbox")
sources=("$root/tests/fuzz/fuzz_$name.c" "$root"/api/json/{json,cache,kept,marks,tensor,unique}.c
    "$root/pools/budget.c")
rm -rf "$work"
mkdir -p "$work/found"
cd "$work"
clang -std=gnu17 "${flags[@]}" -c "${sources[@]}"
clang -std=gnu17 -O1 -I"$root" -I"$build" -c "$root/kernels/kernels.c"
clang++ -std=c++17 -fno-exceptions -fno-rtti "${flags[@]}" -c "$root/api/json/numbers.cc"
clang++ "${flags[@]}" ./*.o -lcjson -lm -o "fuzz_$name"
echo "$work/fuzz_$name -seed=1 -runs=20000 found $root/tests/fuzz/corpus/$name"
"./fuzz_$name" -seed=1 -runs=20000 -max_len=4096 -print_final_stats=1 found \
    "$root/tests/fuzz/corpus/$name" 2>&1 | tail -20
