"""What mutants.py and prove.py share: a checkout with a build of its own in which sources are changed, and how a test is run there."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def git(*words, folder=ROOT):
    return subprocess.check_output(["git", *words], text=True, cwd=folder)


class Tree:
    """The tree as it stands, edited files and new ones too, in a checkout of HEAD with a release build. What is edited
    later does not reach it."""

    def __init__(self, folder):
        folder = folder.resolve()
        self.folder, self.build = folder, folder / "build"
        if not folder.exists():
            git("worktree", "prune")
            git("worktree", "add", "-q", "--detach", str(folder), "HEAD")
            if (ROOT / ".deps").exists():
                (folder / ".deps").symlink_to((ROOT / ".deps").resolve())
        else:
            git("checkout", "-q", "-f", "--detach", git("rev-parse", "HEAD").strip(), folder=folder)
        self.copy_edited()
        if not (self.build / "build.ninja").exists():
            subprocess.run(["meson", "setup", "--buildtype=release", self.build, folder], check=True, stdout=subprocess.DEVNULL)
        self.ninja(["build.ninja"])
        self.made = {name: target for target in self.introspect("--targets") for name in target["filename"]}
        self.tests = {t["name"]: t for t in self.introspect("--tests")}

    def copy_edited(self):
        here = {name for name in git("ls-files", "-z", "-co", "--exclude-standard").split("\0") if name and (ROOT / name).is_file()}
        there = {name for name in git("ls-files", "-z", "-co", "--exclude-standard", folder=self.folder).split("\0") if name}
        for name in here:
            old, new = self.folder / name, (ROOT / name).read_bytes()
            if not old.is_file() or old.read_bytes() != new:
                old.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, old)
                shutil.copymode(ROOT / name, old)
        for name in there - here:
            (self.folder / name).unlink(missing_ok=True)

    def introspect(self, what):
        return json.loads(subprocess.check_output(["meson", "introspect", self.build, what], text=True))

    def targets(self, names):
        """The files of the build that the tests run."""
        words = (pathlib.Path(self.build, word) for name in names for word in self.tests[name]["cmd"])
        found = {"tensord", *(str(w.relative_to(self.build)) for w in words if str(w) in self.made)}
        return sorted(found)

    def ninja(self, targets):
        return subprocess.run(["ninja", "-C", self.build, "--quiet", *targets],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)

    def steps(self, targets):
        done = subprocess.run(["ninja", "-C", self.build, "-n", *targets], capture_output=True, text=True)
        found = re.findall(r"^\[\d+/(\d+)\]", done.stdout, flags=re.M)
        return int(found[-1]) if found else 0

    def code(self):
        """What the program is, without what says how it was built."""
        return hashlib.sha1((self.build / "tensord").read_bytes()).hexdigest()

    def run(self, command, env, seconds):
        """passed, failed, skipped, timeout, ended (by a signal) or unstarted (the command itself cannot run); and what the
        command said."""
        try:
            done = subprocess.run(["timeout", "-k", "5", str(seconds), *command], cwd=self.build, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds + 20,
                                  text=True, errors="replace", env={**os.environ, "OMP_WAIT_POLICY": "passive", **env})
        except subprocess.TimeoutExpired:
            return "timeout", ""
        code = done.returncode
        known = {0: "passed", 77: "skipped", 124: "timeout", 137: "timeout", 126: "unstarted", 127: "unstarted"}
        return known.get(code, "ended" if code < 0 or code > 128 else "failed"), done.stdout
