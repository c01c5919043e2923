#!/usr/bin/env bash
# tests/style.sh BUILD_DIR [RULE...]: the rules of the source that a machine can hold people to, or some of them. Each finding
# is one line, `file: what is wrong`; the layers and the owners below are the whole architecture.
# That no two copies of a kernel clash (ISA-18) is the rule symbols: all that is global is a td_ name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(cd "${1:?usage: tests/style.sh BUILD_DIR [RULE...]}" && pwd)
rules=("${@:2}")
[ ${#rules[@]} -gt 0 ] || rules=(format blanks names drawn sizes rooms opening layers foreign symbols numbers headers subjects)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
findings=$work/findings

# A folder, and the folders whose public headers it may include. A folder in api/ is a room: other rooms include its header,
# ROOM/ROOM.h, alone.
may_include=(
    "kernels:"
    "pools:"
    "dispatch:kernels|pools"
    "api:dispatch|kernels|pools"
    "server:api|dispatch|kernels|pools"
)
# The public headers of a folder: those of the rooms in it that others may enter, and its lists.
declare -A public=(
    [kernels]='(kernels|chance|linear|weight|half|level|loops/fused|jit/(code|functions)|onednn/text|view|memo|elementwise|sizes|hash|trap)\.h|[a-z]+\.def'
    [pools]='pools\.h'
    [dispatch]='(dispatch|call/sample|choice/(library|peaks|tune)|graph/cache|model/model)\.h|[a-z]+/[a-z]+\.def'
    [api]='api\.h|[a-z]+\.def|(json/json|files/files)\.h'
)
# A foreign library's header, and the files that own it: to replace a library is to edit these.
owners=(
    "microhttpd\.h:server/http/threads\.h"
    "(cjson/)?cJSON\.h:(api/json/[a-z_]*|dispatch/pt2/[a-z0-9_]*|dispatch/model/expr)\.[ch]"
    "zip\.h:dispatch/(pt2/archive|model/bundle)\.c"
    "hwloc.*\.h:pools/machine/machine\.h"
    "cpuinfo\.h:dispatch/cpu/cpu\.c"
    "(oneapi/dnnl/)?dnnl.*\.h:kernels/onednn/prim\.h"
    "sleef\.h:kernels/functions\.h"
    "xbyak/.*:kernels/jit/emit(\.cc|_lanes\.hh)"
    "protobuf-c/.*|dispatch/onnx\.pb-c\.h:dispatch/onnx/file\.h"
    "uthash\.h:api/names/names\.c"
    "fast_float/.*|dragonbox/.*:api/json/[a-z_]*\.cc"
)
folders=$(printf '%s\n' "${may_include[@]%%:*}")

if ! git rev-parse --git-dir >/dev/null 2>&1; then
    echo "skipped: not a git checkout: no list of files and commits to look at"
    exit 77
fi
mapfile -t sources < <(git ls-files '*.c' '*.h' '*.cc' '*.hh')
mapfile -t layered < <(for f in $folders; do git ls-files "$f/*.c" "$f/*.h" "$f/*.cc" "$f/*.hh"; done)

format() {
    local clang_format=.deps/venv/bin/clang-format # one version for all: each has its own mind
    [ -x "$clang_format" ] || {
        echo "no clang-format in .deps/venv: run deploy/setup.sh check"
        return
    }
    "$clang_format" --dry-run -Werror "${sources[@]}" 2>&1 | grep error: || true
}

blanks() {
    git grep -nIP '\t|[ \r]$' -- ':!LICENSE' ':!tests/fuzz/corpus' | sed 's/^\([^:]*:[0-9]*\):.*/\1: tab or trailing blank/'
}

sizes() {
    wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 400 { print $2 ": " $1 " lines; 400 at most" }'
}

# README.md says of each folder what it does: an operator's families and api/, whose rooms have a header each, aside.
rooms() {
    git ls-files 'dispatch/*.c' 'pools/*.c' 'server/*.c' 'kernels/onednn/*.c' 'kernels/loops/*.c' 'kernels/jit/*.c' 'kernels/ops/*.c' | sed 's/[^/]*$//' |
        sort -u | while read -r folder; do
        grep -q "\`$folder\`" README.md || echo "$folder: README.md does not say what it does"
    done
}

# Every .c says first what it is for.
opening() {
    local f
    for f in "${layered[@]}"; do
        case $f in *.h) continue ;; esac
        [ "$(head -c 2 "$f")" = "/*" ] || echo "$f: no opening comment on what it is for"
    done
}

layers() {
    local rule folder allowed other
    for rule in "${may_include[@]}"; do
        folder=${rule%%:*} allowed=${rule#*:}
        for other in $folders; do
            [ "$other" != "$folder" ] || continue
            local path="$other/[^\"]*"
            [[ ! "|$allowed|" == *"|$other|"* ]] ||
                path="$other/(?!(${public[$other]})\")[^\"]*"
            git grep -nP "^\s*#\s*include\s*\"$path\"" -- "$folder/*.c" "$folder/*.h" "$folder/*.cc" |
                sed "s/:\s*#.*\"\(.*\)\".*/: $folder may not include \1/"
        done
    done
    git grep -nP '^\s*#\s*include\s*"api/([a-z]+)/(?!\1\.h"|[a-z]+\.def")' -- "${layered[@]}" |
        grep -vP '^(api/[a-z]+/)[^:]*:.*"\1' | sed 's/:\s*#.*"\(.*\)".*/: \1 is internal to its room/'
}

foreign() {
    local rule
    for rule in "${owners[@]}"; do
        git grep -nP "^\s*#\s*include\s*[<\"](${rule%:*})[>\"]" -- "${layered[@]}" |
            grep -vE "^(${rule##*:}):" | sed 's/:\s*#.*[<"]\(.*\)[>"].*/: \1 has another owner/'
    done
}

# Weak symbols are the C++ libraries' templates; libthread_db owns the names in the second test;
# GOMP_parallel, GOMP_parallel_start and _end are wrapped on purpose (pools/team.c).
symbols() {
    local archives
    mapfile -t archives < <(for f in $folders; do find "$build/$f" -name '*.a' 2>/dev/null; done)
    [ ${#archives[@]} -gt 0 ] || echo "$build: no libraries to look at; build first"
    [ ${#archives[@]} = 0 ] || nm -A -g --defined-only "${archives[@]}" | awk '
        NF >= 3 && $(NF - 1) !~ /[WVuwv]/ && $NF !~ /^GOMP_parallel(_start|_end)?$/ && ($NF !~ /^td_/ || $NF ~ /^td_(init$|log$|ta_|thr_)/) {
            print $1 " global symbol " $NF " is not a td_ name" }'
}

# Sizes and indices made of what a client sends go through kernels/sizes.h: nothing else knows what becomes of a product
# that does not fit, or makes an integer of a real number that a function gave.
numbers() {
    git grep -nP '__builtin_(add|sub|mul)_overflow' -- kernels dispatch ':!kernels/sizes.h' |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: use td_size_times, _plus or _minus/'
    git grep -nP '\((u?int[0-9]*(_t)?|size_t|(long )*long|unsigned)\)\(?[^()]*\b(floor|ceil|round|trunc|nearbyint|rint|fmod|fabs|fmin|fmax|sqrt|exp2|log2|pow)f?\(' \
        -- "${layered[@]}" | sed 's/^\([^:]*:[0-9]*\):.*/\1: use td_size_of_real or td_index_of_real/'
}

# Headers compile on their own, with the flags of an ordinary file.
headers() {
    local h
    mkdir -p "$work/h"
    for h in "${layered[@]}"; do
        [[ $h == *.h ]] || continue
        echo "#include \"$h\"" >"$work/h/alone.c"
        ${CC:-cc} -std=gnu17 -fsyntax-only -Wall -Wextra -Wno-psabi -Werror -D_GNU_SOURCE \
            -DTD_LEVEL=default -DCPU_CAPABILITY_DEFAULT -isystem .deps/onednn/include \
            -I. -I"$build" "$work/h/alone.c" 2>"$work/h/said" ||
            echo "$h: does not compile alone: $(grep -m1 error: "$work/h/said")"
    done
}

# `folder: Say what it does`, 60 columns, no final period, then a blank line.
subjects() {
    git log -30 --no-merges --format='commit %h%n%B' | awk '
        /^commit [0-9a-f]+$/ { id = $2; line = 0; next }
        { line++ }
        line == 1 && length > 60 { print id ": subject of " length " columns; 60 at most" }
        line == 1 && /\.$/ { print id ": subject ends in a period" }
        line == 1 && !/^[a-z0-9_.\/+-]+(, [a-z0-9_.\/+-]+)*: [A-Z]/ {
            print id ": subject is not `folder: Say what it does`" }
        line == 2 && NF { print id ": second line is not blank" }'
}

# Python says only at run time, and only where it comes by, that a name is nobody's.
names() {
    .deps/venv/bin/python3 -c 'import pyflakes' 2>/dev/null || {
        echo "no pyflakes in .deps/venv: run deploy/setup.sh check"
        return
    }
    git ls-files '*.py' | xargs .deps/venv/bin/python3 -m pyflakes | grep -E 'undefined name|syntax' || true
}

# What a test draws, the tree draws: by service.seed(), never from the module's own generator.
drawn() {
    git grep -nE '(^|[^.[:alnum:]_])random\.(randrange|randint|random|choice|choices|sample|shuffle|uniform)\(|default_rng\(\)' -- 'tests/*.py' |
        sed 's/^\([^:]*:[0-9]*\):.*/\1: draws by no seed: see seed() of tests\/service.py/'
}

for rule in "${rules[@]}"; do
    declare -F "$rule" >/dev/null || { echo "style.sh: no rule '$rule'" >&2; exit 2; }
    { $rule || true; } >"$work/$rule"
    echo "$rule: $(wc -l <"$work/$rule") findings"
    cat "$work/$rule" >>"$findings"
done
cat "$findings"
[ ! -s "$findings" ]
