#!/usr/bin/env bash
# tests/openapi/lint.sh: openapi.yaml passes the linter, without warnings either.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
redocly=.deps/npm/node_modules/.bin/redocly
if [ ! -x "$redocly" ]; then
    echo "skipped: no linter in .deps/npm: run deploy/setup.sh check"
    exit 77
fi
export PATH=$PWD/.deps/venv/bin:$PATH REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
said=$("$redocly" lint --config openapi/redocly.yaml openapi/openapi.yaml 2>&1) || {
    echo "$said"
    exit 1
}
echo "$said"
! grep -qi 'warning' <<<"$said"
