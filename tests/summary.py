#!/usr/bin/env python3
"""summary.py BROKEN LOG...: the closing lines of ./check, from meson's testlog.json files.

The five slowest tests stand before the last line, so that what makes ./check long is seen when it
begins to. BROKEN build folders that did not compile count as one failure each, and so does a log that
holds no test: a run that tested nothing has not passed.
"""
import json
import pathlib
import sys

failed, passed, skipped = int(sys.argv[1]), 0, 0
took = []
for log in map(pathlib.Path, sys.argv[2:]):
    folder = log.parts[0]
    lines = log.read_text().splitlines() if log.exists() else []
    if not lines:
        print(f"FAILED: {folder}: no test ran")
        failed += 1
    for test in map(json.loads, lines):
        name = f"{folder}: {test['name']}"
        took.append((test["duration"], name))
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed += 1
        elif test["result"] == "SKIP":
            skipped += 1
            said = (test.get("stdout") or "").strip().splitlines()
            reason = next((s for s in reversed(said) if s.startswith("skipped: ")), "")
            print(f"skipped: {name}: {reason.removeprefix('skipped: ') or 'it did not say why'}")
        else:
            failed += 1
            print(f"FAILED: {name}: {test['result'].lower()} after {test['duration']:.1f} s")
for seconds, name in sorted(took, reverse=True)[:5]:
    print(f"slowest: {seconds:6.1f} s  {name}")
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(failed > 0)
