#!/bin/sh
# Puts completions and the manual page under the prefix; `meson install` calls it.
set -eu
put() {
    mkdir -p "$MESON_INSTALL_DESTDIR_PREFIX/$(dirname "$1")"
    "$program" $2 >"$MESON_INSTALL_DESTDIR_PREFIX/$1"
}
program=$MESON_BUILD_ROOT/tensord
put share/bash-completion/completions/tensord 'completion bash'
put share/zsh/site-functions/_tensord 'completion zsh'
put share/fish/vendor_completions.d/tensord.fish 'completion fish'
put share/man/man1/tensord.1 man
