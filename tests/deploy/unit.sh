#!/usr/bin/env bash
# tests/deploy/unit.sh TENSORD: systemd accepts the unit, alone and with each recipe, and finds it
# hardened; and what the unit allows is what listening on a Unix socket takes. The unit names the
# installed binary; a copy names the one just built, since verify looks whether it can be executed.
set -euo pipefail
unit=$(dirname "${BASH_SOURCE[0]}")/../../deploy/tensord.service
command -v systemd-analyze >/dev/null || {
    echo "skipped: no systemd-analyze here"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s|^ExecStart=tensord|ExecStart=$1|" "$unit" >"$work/tensord.service"

sed "s|^ExecStart=tensord|ExecStart=$1|" "$unit" >"$work/tensord@.service"
mkdir "$work/tensord.service.d" "$work/tensord@.service.d"
cp "$(dirname "$unit")"/recipes/{latency,models}.conf "$work/tensord.service.d"
cp "$(dirname "$unit")/recipes/node.conf" "$work/tensord@.service.d"

# Some findings (an unknown key, say) are only warnings to verify, not to us.
for name in tensord.service tensord@0.service; do
    said=$(SYSTEMD_UNIT_PATH="$work:" systemd-analyze verify "$work/$name" 2>&1) || { echo "$said"; exit 1; }
    if grep "tensord\(@0\)\?.service\|\.conf" <<<"$said"; then
        exit 1
    fi
done
grep -q '^RestrictAddressFamilies=.*\bAF_UNIX\b' "$work/tensord.service"
grep -q '^RuntimeDirectory=tensord$' "$work/tensord.service"
# Each of these alone leaves the exposure below the threshold.
for line in DynamicUser=yes NoNewPrivileges=yes UMask=0077 ProtectSystem=strict SystemCallFilter=@system-service; do
    grep -qx "$line" "$work/tensord.service" || { echo "$line is missing"; exit 1; }
done
if grep '^CPUAffinity=' "$work/tensord.service"; then # all cores, unless a drop-in says less
    exit 1
fi
# 0 is locked up, 10 is wide open; --threshold takes tenths.
systemd-analyze security --no-pager --offline=true --threshold=20 "$work/tensord.service" | tail -1
