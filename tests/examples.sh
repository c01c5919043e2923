#!/bin/sh
# RT-24: the example program, which computes a softmax on a pool without HTTP, is right: by itself, on one
# CPU, and not on one that is not there.
set -e
"$1"
"$1" "$(taskset -cp $$ | sed 's/.*[-, ]//')"
if "$1" 65000 2>/dev/null; then
    echo "CPU 65000 was taken"
    exit 1
fi
