#!/usr/bin/env python3
"""A build with nothing but the reference (-Dkernels=ref) of a copy of the tree: no vectors, no generated code, no oneDNN. It passes
what the tests ask of operators, expressions, models and kernels that are looked at.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import service
from recipe import copy_tree

FILES = {"operators": ["Operators"], "primitives": [], "post_ops": [], "together": [], "vectors": [], "eval": [], "kernels": [], "isa": [], "models": []}


class Reference(unittest.TestCase):
    def test_passes(self): # JIT-17
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder) / "tensord"
            copy_tree(tree)
            (tree / ".deps").symlink_to(ROOT / ".deps")
            for command in (["meson", "setup", "--buildtype=release", "-Dwerror=true", "-Dkernels=ref", "build"], ["ninja", "-C", "build", "tensord"]):
                done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-2000:])
            service.BINARY = str(tree / "build/tensord")
            self.assertNotIn("dnnl", subprocess.run(["ldd", service.BINARY], capture_output=True, text=True).stdout)
            with service.Service() as s:
                for kernel in s.call("GET", "/v1/kernels").json["kernels"]:
                    self.assertEqual([row["name"] for row in kernel["implementations"]], ["ref"], kernel["op"])
            env = {**os.environ, "TENSORD_BIN": service.BINARY, "PYTHONPATH": str(ROOT / "tests"), "PYTHONDONTWRITEBYTECODE": "1"}
            for name, cases in FILES.items():
                done = subprocess.run([sys.executable, ROOT / f"tests/http/test_{name}.py", *cases], env=env, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-3000:])


if __name__ == "__main__":
    service.main()
