#!/usr/bin/env python3
"""install.py BUILD_DIR: what `meson install` puts under a prefix runs without the clone it came from.

Installed into a folder elsewhere, its libraries are looked up in a sandbox where the repository is an
empty folder. The unit and the licences go along."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
MESON = shutil.which("meson") or str(ROOT / ".deps/venv/bin/meson")


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.folder.name],
                       check=True, stdout=subprocess.DEVNULL)
        prefix = subprocess.run([MESON, "introspect", "--buildoptions", BUILD], check=True, capture_output=True)
        prefix = next(o["value"] for o in json.loads(prefix.stdout) if o["name"] == "prefix")
        cls.prefix = pathlib.Path(cls.folder.name + prefix)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def away(self, *command):
        """The command where the clone is not."""
        if not shutil.which("bwrap"):
            self.skipTest("no bwrap here")
        away = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", str(ROOT)]
        if subprocess.run([*away, "true"], capture_output=True).returncode:
            self.skipTest("bwrap may not make a sandbox here")
        env = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        return subprocess.run([*away, "--chdir", "/", *command], capture_output=True, text=True, env=env)

    def test_libraries(self):
        libraries = subprocess.run(["ldd", self.prefix / "bin/tensord"], check=True, text=True, capture_output=True).stdout
        self.assertNotIn("not found", libraries)
        self.assertNotIn(str(ROOT), libraries)
        dnnl = pathlib.Path(re.search(r"libdnnl\.so\.3 => (\S+)", libraries)[1]).resolve()
        if (ROOT / ".deps/onednn").exists():
            self.assertEqual(dnnl, (self.prefix / "lib/tensord/libdnnl.so.3").resolve())

    def test_runs_with_the_clone_away(self):
        ran = self.away(str(self.prefix / "bin/tensord"), "isa", "--json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertTrue(json.loads(ran.stdout)["current"])

    def test_words_of_shells_and_man(self):
        for path, args in (("share/bash-completion/completions/tensord", ("completion", "bash")),
                           ("share/zsh/site-functions/_tensord", ("completion", "zsh")),
                           ("share/fish/vendor_completions.d/tensord.fish", ("completion", "fish")), ("share/man/man1/tensord.1", ("man",))):
            said = subprocess.run([self.prefix / "bin/tensord", *args], check=True, text=True, capture_output=True).stdout
            self.assertEqual((self.prefix / path).read_text(), said)

    def test_what_goes_along(self):
        self.assertTrue(os.access(self.prefix / "lib/tensord/healthcheck", os.X_OK))
        self.assertTrue((self.prefix / "lib/systemd/system/tensord.service").exists())
        self.assertTrue((self.prefix / "share/doc/tensord/LICENSE").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
