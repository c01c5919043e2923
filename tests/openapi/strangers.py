#!/usr/bin/env python3
"""strangers.py [--seed N] [--seconds N]: what schemathesis makes up from the description, sent to the running service.

Of every operation its examples, the edges of its schemas, and requests at random, right and wrong ones: no reply
is a 5xx, each is one that the description has, with its type, headers and schema, and what the schemas exclude is
refused. What they include may be refused as well: whether shapes go together no schema can say. Operators, each of
which operators.py has run on its examples, and all other routes have half of the time each.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import service

PROGRAM = pathlib.Path(sys.executable).parent / "schemathesis"
HALVES = (("other routes", ["--exclude-tag", "calls", "--exclude-path", "/openapi.yaml"]), # it reads a part of it and stumbles
          ("operators", ["--include-tag", "calls", "--phases", "coverage,fuzzing"]))

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=20260101)
parser.add_argument("--seconds", type=int, default=120)
asked = parser.parse_args()
if not PROGRAM.exists():
    service.skip("no schemathesis in .deps/venv: run deploy/setup.sh check")

wrong = []
with tempfile.TemporaryDirectory() as folder, service.Service() as s:
    for name, which in HALVES:
        done = subprocess.run([PROGRAM, "run", f"http://127.0.0.1:{s.port}/openapi.json", "--seed", str(asked.seed),
                               "--max-time", str(asked.seconds // 2), "--exclude-checks", "positive_data_acceptance",
                               "--continue-on-failure", "--no-shrink", "--warnings", "off", "--no-color", *which],
                              cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(f"== {name}, seed {asked.seed}\n{done.stdout[-6000:]}")
        sent = re.search(r"(\d+) generated", done.stdout)
        if done.returncode or "Traceback" in done.stdout or not sent or int(sent[1]) < 100:
            wrong.append(f"{name}: exit {done.returncode}, {sent[1] if sent else 'no'} requests")
    if s.call("GET", "/v2/health/ready").status != 200:
        wrong.append("the service is not ready any more")
print("\n".join(wrong))
sys.exit(bool(wrong))
