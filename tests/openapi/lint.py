#!/usr/bin/env python3
"""The description that is served, operators and all, passes the linter, without warnings either."""
import os
import pathlib
import subprocess
import sys
import tempfile

import service

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINTER = ROOT / ".deps/npm/node_modules/.bin/redocly"
if not LINTER.exists():
    service.skip("no linter in .deps/npm: run deploy/setup.sh check")

with tempfile.TemporaryDirectory() as folder:
    served = pathlib.Path(folder) / "openapi.yaml"
    with service.Service() as s:
        served.write_bytes(s.call("GET", "/openapi.yaml").body)
    env = {**os.environ, "PATH": f"{ROOT}/.deps/venv/bin:{os.environ['PATH']}", "REDOCLY_TELEMETRY": "off",
           "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}
    done = subprocess.run([LINTER, "lint", "--config", ROOT / "openapi/redocly.yaml", served], env=env, cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(done.stdout)
sys.exit(done.returncode or "warning" in done.stdout.lower())
