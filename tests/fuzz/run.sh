#!/usr/bin/env bash
# tests/fuzz/run.sh SOURCE_DIR BUILD_DIR NAME [ARGUMENT_OF_LIBFUZZER...]: builds fuzz_NAME, has it run all that is kept in
# corpus/NAME, and search on for TENSORD_FUZZ_SECONDS (2), from TENSORD_SEED's seed. What it finds is left in
# BUILD_DIR/fuzz/found, and belongs into corpus/NAME once it is mended.
set -euo pipefail
root=$1 name=$3
build=$(cd "$2" && pwd)
shift 3
if ! command -v clang >/dev/null || ! command -v clang++ >/dev/null; then
    echo "skipped: no clang, which brings libFuzzer"
    exit 77
fi
mkdir -p "$build/fuzz/found"
(
    flock 9
    python3 "$root/tests/fuzz/build.py" "$root" "$build"
    ninja -C "$build" --quiet -f fuzz/build.ninja "fuzz/fuzz_$name"
) 9>"$build/fuzz/lock"
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Its own status for what it finds is 77, by which meson knows a test that is skipped.
run=("$build/fuzz/fuzz_$name" -error_exitcode=1 -timeout=60 -rss_limit_mb=3000 "-artifact_prefix=$build/fuzz/found/$name-")
say() { # what is worth reading of it
    local status=0
    echo "$*"
    "$@" >"$work/output" 2>&1 || status=$?
    grep -av '^#[0-9]*\s\(NEW\|REDUCE\|pulse\)\|NEW_FUNC' "$work/output" | tail -40
    return $status
}
kept=("$root/tests/fuzz/corpus/$name"/*)
say "${run[@]}" "${kept[@]}" | tail -60
mkdir "$work/new"
say "${run[@]}" "-seed=$((${TENSORD_SEED:-1} % 4294967295 + 1))" "-max_total_time=${TENSORD_FUZZ_SECONDS:-2}" -print_final_stats=1 \
    "$@" "$work/new" "$root/tests/fuzz/corpus/$name"
