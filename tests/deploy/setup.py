#!/usr/bin/env python3
"""deploy/setup.sh where it may install nothing: it says what is missing and what to do about it, in one
sentence and before a tool is missed. It runs in a copy, with no other commands than those given to it."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ("bash", "env", "cat", "dirname", "mkdir", "flock", "touch", "awk")
SCRIPTS = {"apt-get": "echo apt-get was called >&2; exit 1", "dpkg-query": "exit 1", "id": "echo 1000"}
TOOLS = {tool: "echo 12" for tool in ("gcc", "g++", "pkg-config", "meson", "ninja", "python3")}


class Setup(unittest.TestCase):
    def set_up(self, *arguments, scripts=SCRIPTS, **env):
        """The completed process."""
        with tempfile.TemporaryDirectory() as folder:
            bin_, deploy = pathlib.Path(folder, "bin"), pathlib.Path(folder, "deploy")
            bin_.mkdir()
            shutil.copytree(ROOT / "deploy", deploy)
            (deploy.parent / "tests").mkdir()
            shutil.copy(ROOT / "tests/requirements.txt", deploy.parent / "tests")
            (deploy.parent / ".deps/onednn/lib").mkdir(parents=True)
            (deploy.parent / ".deps/onednn/lib/libdnnl.so").touch()
            for name in NEEDED:
                (bin_ / name).symlink_to(shutil.which(name))
            for name, text in scripts.items():
                (bin_ / name).write_text(f"#!/bin/sh\n{text}\n")
                (bin_ / name).chmod(0o755)
            return subprocess.run([bin_ / "bash", deploy / "setup.sh", *arguments], text=True, capture_output=True,
                                  env={**env, "PATH": str(bin_), "LC_ALL": "C"}, timeout=60)

    def test_packages_are_listed(self):
        for level in ("build", "check"):
            ran = self.set_up("packages", level)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""))
            self.assertIn("libmicrohttpd-dev", ran.stdout.split())
            self.assertEqual("mmdebstrap" in ran.stdout.split(), level == "check")

    def test_told_to_install_nothing(self):
        ran = self.set_up("build", TENSORD_NO_INSTALL="1")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("cannot build without gcc g++ pkg-config meson ninja.", ran.stderr)
        self.assertIn("`deploy/setup.sh packages build`", ran.stderr)
        self.assertNotIn("not found", ran.stderr)
        self.assertNotIn("apt-get was called", ran.stderr)
        self.assertIn("Without root", (ROOT / "README.md").read_text())

    def test_enough_is_there(self):
        ran = self.set_up("build", TENSORD_NO_INSTALL="1", scripts=SCRIPTS | TOOLS)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_neither_root_nor_sudo(self):
        ran = self.set_up("build", scripts=SCRIPTS | TOOLS)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("libmicrohttpd-dev", ran.stderr)
        self.assertIn("root or sudo", ran.stderr)
        self.assertNotIn("apt-get was called", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
