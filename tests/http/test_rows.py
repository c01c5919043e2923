#!/usr/bin/env python3
"""The commands of tests/rows_in_another_shape.txt, each run on a server of its own: each prints what stands beside it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import service

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import rows


def has_in_order(text, parts):
    """Whether a text has all parts, each behind the one before."""
    for part in parts:
        before, found, text = text.partition(part)
        if not found:
            return False
    return True


class Rows(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with service.Service() as s:
            levels = [level["name"] for level in s.call("GET", "/v1/isa").json["levels"] if level["in_use"]]
        if "AVX2" not in levels:
            raise unittest.SkipTest("skipped: the commands tell of vector kernels, which need AVX2")

    def test_commands(self):
        digits = ROOT / "examples/digits"
        told = re.findall(rf"^{rows.SHAPE.pattern}$", rows.SHAPES.read_text(), re.M)
        self.assertGreater(len(told), 80)
        with tempfile.TemporaryDirectory() as path:
            pathlib.Path(path, "tensord").symlink_to(pathlib.Path(service.BINARY).resolve())
            env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
            for row, _, command, shown in told:
                with self.subTest(row=row), service.Service() as s:
                    s.call("PUT", "/v1/models/digits", (digits / "digits.onnx").read_bytes())
                    for _ in range(2):
                        s.call("POST", "/v1/models/digits", (digits / "seven.json").read_bytes(), {"Content-Type": "application/json"})
                    here = command.replace("localhost:8080", f"127.0.0.1:{s.port}").replace("/tmp/figures", f"{path}/figures")
                    here = here.replace('"cpus":"0"', f'"cpus":"{service.CPUS[0]}"')
                    for _ in range(5): # a team beside which others run rests for some 50 ms, with one thread (docs/pools.md)
                        done = subprocess.run(["sh", "-c", here], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
                        self.assertEqual((done.returncode, done.stderr), (0, ""))
                        if has_in_order(done.stdout, shown.split(" ... ")):
                            break
                        time.sleep(0.5)
                    self.assertTrue(has_in_order(done.stdout, shown.split(" ... ")), f"{shown}\n{done.stdout[:3000]}")

    def test_order(self):
        self.assertTrue(has_in_order("abc", ["a", "c"]))
        self.assertFalse(has_in_order("abc", ["c", "a"]))
        self.assertFalse(has_in_order("abc", ["ab", "b"]))


if __name__ == "__main__":
    service.main()
