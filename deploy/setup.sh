#!/usr/bin/env bash
# deploy/setup.sh build|check: installs what a fresh Debian 12 or 13 or Ubuntu 24.04 lacks to build
# tensord ("build") or to test it as well ("check"). The distribution's packages come first; what it
# does not have goes into .deps/, where `rm -rf .deps` takes it away again: oneDNN 3.2 in
# .deps/onednn, the tests' Python and node in .deps/venv, the OpenAPI linter and what drives a browser in .deps/npm,
# Prometheus' checker in .deps/prometheus.
#
# deploy/setup.sh packages build|check: prints the packages' names and does nothing, for whoever may
# install them where you may not.
#
# Root (or sudo) is used for apt-get alone; without either, what is missing is named, and meson,
# ninja and PyYAML come from PyPI. Every step looks first at what is there, so a second call changes nothing;
# .deps/LEVEL.stamp, newer than this file and than dpkg's database, even spares the looking.
# TENSORD_NO_INSTALL=1: says what is missing, installs nothing, goes on if that is enough to build.
set -euo pipefail

list=
[ "${1:-}" != packages ] || { list=1; shift; }
level=${1:-}
case $level in build | check) ;; *) echo "usage: deploy/setup.sh [packages] build|check" >&2; exit 2 ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps=$root/.deps
stamp=$deps/$level.stamp

packages=(
    # tools
    ca-certificates ccache gcc g++ libc6-dev meson ninja-build pkg-config python3-venv python3-yaml
    # libraries
    check libcjson-dev libcpuinfo-dev libdragonbox-dev libfast-float-dev libgnutls28-dev libhwloc-dev
    libmicrohttpd-dev libprotobuf-c-dev libsleef-dev libsubunit-dev libxbyak-dev libzip-dev libzydis-dev
    protobuf-c-compiler uthash-dev zlib1g-dev
)
check_packages=(
    git curl openssl wrk # tests/style.sh, tests/http, tests/bench
    fish groff-base zsh # tests/http: completion, the manual
    clang libclang-rt-dev libomp-dev # tests/fuzz, tests/pools
    bubblewrap mmdebstrap systemd # tests/deploy
)
onednn_wheels='
onednn-cpu-gomp==2023.2.0 --hash=sha256:2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
onednn-devel-cpu-gomp==2023.2.0 --hash=sha256:9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284
'
build_wheels='meson==1.7.2 ninja==1.11.1.4 PyYAML==6.0.3' # where the distribution's cannot be installed
npm_packages=(
    @redocly/cli@2.77.0 # tests/openapi: the linter
    axe-core@4.14.1 playwright-core@1.65.1 # tests/web
)

say() {
    echo "setup: $*" >&2
}

die() {
    say "$*"
    exit 1
}

# Says what is about to be installed; false when the user wants nothing to be.
may_install() {
    if [ -n "${TENSORD_NO_INSTALL:-}" ]; then
        say "missing: $* (TENSORD_NO_INSTALL is set: going on without)"
        skipped=1
        return 1
    fi
    say "installing $*"
}

# Runs a command whose output matters only when it fails.
quietly() {
    "$@" >"$deps/setup.log" 2>&1 </dev/null || { cat "$deps/setup.log" >&2; return 1; }
}

apt() {
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@"
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
    local missing=() p
    if ! command -v apt-get >/dev/null; then
        say "no apt-get here; needed, by Debian's names: $*"
        return
    fi
    for p; do
        is_installed "$p" || missing+=("$p")
    done
    if [ ${#missing[@]} = 0 ] || ! may_install "${missing[*]}"; then
        return
    fi
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || {
            say "that takes root or sudo, and there is neither: going on without"
            skipped=1
            return
        }
        as_root=(sudo)
    fi
    # An empty or an old package list fails here; a fresh one answers both.
    apt install --no-install-recommends "${missing[@]}" >"$deps/setup.log" 2>&1 </dev/null && return
    quietly apt update
    quietly apt install --no-install-recommends "${missing[@]}"
}

venv() {
    [ -x "$deps/venv/bin/pip" ] || quietly /usr/bin/python3 -m venv "$deps/venv" ||
        die "python3 -m venv is needed for .deps/venv (Debian: python3-venv)"
}

# True where the distribution's own oneDNN speaks the C API v3 we need.
has_onednn() {
    local header=/usr/include/oneapi/dnnl/dnnl_version.h
    [ -e "$header" ] && awk '
        /define DNNL_VERSION_MAJOR/ { major = $3 }
        /define DNNL_VERSION_MINOR/ { minor = $3 }
        END { exit !(major > 3 || (major == 3 && minor >= 2)) }' "$header"
}

install_onednn() {
    local dir=$deps/onednn new=$deps/onednn.new
    if has_onednn || [ -e "$dir/lib/libdnnl.so" ]; then
        return
    fi
    may_install "oneDNN 3.2 into .deps/onednn" || return 0
    venv
    rm -rf "$new" "$dir"
    quietly "$deps/venv/bin/python" -m pip install --no-deps --require-hashes --no-compile \
        --prefix "$new" --requirement <(echo "$onednn_wheels")
    # Wheels cannot hold links: the library came three times.
    ln -sf libdnnl.so.3.2 "$new/lib/libdnnl.so.3"
    ln -sf libdnnl.so.3 "$new/lib/libdnnl.so"
    mv "$new" "$dir"
}

# The requirements' copy in the venv is written last: it says what is really there.
install_python() {
    local wanted=$root/tests/requirements.txt got=$deps/venv/requirements.txt
    cmp -s "$wanted" "$got" && return
    may_install "tests/requirements.txt into .deps/venv" || return 0
    venv
    quietly "$deps/venv/bin/python" -m pip install --no-compile --requirement "$wanted"
    cp "$wanted" "$got"
}

# Debian's node is too old for these: the one in the venv (a wheel) runs them.
install_npm_packages() {
    local node=$deps/venv/bin p missing=()
    for p in "${npm_packages[@]}"; do
        grep -qs "\"version\": \"${p##*@}\"" "$deps/npm/node_modules/${p%@*}/package.json" ||
            missing+=("$p")
    done
    if [ ${#missing[@]} = 0 ] || ! may_install "${missing[*]} into .deps/npm"; then
        return 0
    fi
    PATH=$node:$PATH quietly "$node/npm" install --prefix "$deps/npm" --no-audit --no-fund \
        --ignore-scripts --save-exact "${missing[@]}"
}

# The checker of metrics and alert rules alone: its package would start a server.
install_promtool() {
    local dir=$deps/prometheus
    if [ -e "$dir/usr/bin/promtool" ] || ! command -v apt-get >/dev/null ||
        ! may_install "promtool into .deps/prometheus"; then
        return 0
    fi
    mkdir -p "$dir"
    (cd "$dir" && quietly apt-get download prometheus &&
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool) ||
        say "cannot have Debian's package prometheus: tests/deploy/monitoring.py will say so"
    rm -f "$dir"/*.deb
}

# meson, ninja and PyYAML, which need no root: ./run and ./check look into .deps/venv/bin as well.
install_build_tools() {
    PATH=$PATH:$deps/venv/bin
    if command -v meson >/dev/null && command -v ninja >/dev/null &&
        { python3 -c 'import yaml' || "$deps/venv/bin/python" -c 'import yaml'; } 2>/dev/null; then
        return
    fi
    may_install "$build_wheels into .deps/venv" || return 0
    venv
    # shellcheck disable=SC2086 # the wheels are words
    quietly "$deps/venv/bin/python" -m pip install --no-compile $build_wheels
}

# Without these nothing can be built: better said here than by the first that is missed.
check_tools() {
    local missing=() tool version
    for tool in gcc g++ pkg-config meson ninja; do
        command -v "$tool" >/dev/null || missing+=("$tool")
    done
    [ ${#missing[@]} = 0 ] || die "cannot build without ${missing[*]}. Have root install what" \
        "\`deploy/setup.sh packages $level\` prints, or see \"Without root\" in README.md"
    version=$(gcc -dumpversion)
    [ "${version%%.*}" -ge 12 ] || say "gcc is $version; tensord needs 12 or newer"
}

# For tests/web; Ubuntu has it as a snap alone.
# shellcheck source=/dev/null
[ "$(. /etc/os-release && echo "$ID")" != debian ] || check_packages+=(chromium)
[ "$level" = build ] || packages+=("${check_packages[@]}")
if [ -n "$list" ]; then
    echo "${packages[*]}"
    exit
fi
if [ "$stamp" -nt "$0" ] && [ "$stamp" -nt "$root/tests/requirements.txt" ] &&
    [ "$stamp" -nt /var/lib/dpkg/status ] && { [ -e "$deps/onednn" ] || has_onednn; } &&
    { [ "$level" = build ] || [ -e "$deps/venv/requirements.txt" ] && [ -e "$deps/npm" ]; }; then
    exit 0
fi
mkdir -p "$deps"
exec 9>"$deps/lock"
flock 9 # two set-ups at once would write the same folders
skipped=
install_packages "${packages[@]}"
install_build_tools
check_tools
install_onednn
if [ "$level" = check ]; then
    install_python
    install_npm_packages
    install_promtool
fi
[ -n "$skipped" ] || touch "$stamp"
