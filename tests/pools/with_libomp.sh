#!/bin/sh
# Runs a test with LLVM's OpenMP runtime in the place of libgomp: it has the GOMP_* entry points and
# the kmp_* functions that threads are then bound with.
for lib in $(ldconfig -p | sed -n 's/.*libomp5*\.so.* => //p') /usr/lib/llvm-*/lib/libomp.so; do
    [ -e "$lib" ] || continue
    LD_PRELOAD=$lib TD_TEST_BACKEND=kmp exec "$@"
done
echo "skipped: no LLVM OpenMP runtime on this machine (package libomp5)"
exit 77
