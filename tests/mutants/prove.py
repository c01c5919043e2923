#!/usr/bin/env python3
"""prove.py [ROW...]: does each row's test notice that the row is broken? `./check rows` runs it.

Applies the named mutants (named.py) one at a time in a copy of the tree (build-mutants/rows), builds what the mutant's test
needs and runs only that test, which must have passed there without the mutant. It selects a Check test by TENSORD_TEST
(tests/run_tests.h), and a method of a unittest case by its name. The verdicts: `noticed`, the test itself failed or ended by a
signal, twice, or took more than LONGER times as long as before and more than LEAST_SECONDS; `ALIVE`, it passed or was skipped; `WRONG`,
the mutant does not build, its test does not pass without it, or something else failed than the test that is named. -v shows how the tests failed. The exit status is 1 if a mutant is ALIVE or WRONG; rows without a mutant are listed
and counted. Only one run at a time may use a copy; --copy NAME uses another one.
"""
import argparse
import ast
import fcntl
import functools
import pathlib
import re
import sys
import time

from tree import ROOT, Tree

sys.path.insert(0, str(ROOT / "tests"))
import rows as table
import named

LONGER, LEAST_SECONDS, MOST_SECONDS = 8, 60, 900


def case_of(path, method):
    """CASE.METHOD of a file of unittest's."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and any(getattr(part, "name", "") == method for part in node.body):
            return f"{node.name}.{method}"
    raise named.Wrong(f"{path} has no {method}")


def is_its_own(test, said):
    """Whether the output of a test that failed says that the test itself did, and not what it needs: a module, a folder, a
    command, a server."""
    where, _, method = test.partition(" ")
    if where.endswith(".c"):
        return not method or bool(re.search(rf"[:.]{method}:", said))
    lacks = r"^(ImportError|ModuleNotFoundError|FileNotFoundError|SyntaxError)\b|^\S+: (line )?\d+: \S+: (command )?not found$"
    if not method:
        return not re.search(lacks, said, re.M)
    shown = re.findall(rf"^(FAIL|ERROR): {method} \(__main__\.(.*?)(?=^={{9}}|\Z)", said, re.M | re.S)
    return any(word == "FAIL" or not re.search(lacks, text, re.M) for word, text in shown)


TRIED = [ # a test, an output, whether it is its own failure
    ("kernels/test_a.c test_b", "0%: Checks: 1, Failures: 1, Errors: 0\na.c:5:F:core:test_b:0: no\n", True),
    ("kernels/test_a.c test_b", "0%: Checks: 1, Failures: 0, Errors: 1\na.c:5:E:core:test_c:0: no\n", False),
    ("kernels/test_a.c test_b", "", False), ("kernels/test_a.c", "1 cell differs\n", True),
    ("http/test_a.py test_b", "FAIL: test_b (__main__.A.test_b)\n", True),
    ("http/test_a.py test_b", "FAIL: test_bc (__main__.A.test_bc)\n", False),
    ("http/test_a.py test_b", "ERROR: test_b (unittest.loader._FailedTest.test_b)\n", False),
    ("http/test_a.py test_b", "ERROR: setUpClass (__main__.A)\n", False),
    ("http/test_a.py test_b", "FAIL: test_b (__main__.A.test_b)\nImportError: x\nAssertionError: y\n", True),
    ("http/test_a.py test_b", "ERROR: test_b (__main__.A.test_b)\nKeyError: 'outputs'\n", True),
    ("http/test_a.py test_b", "ERROR: test_b (__main__.A.test_b)\nFileNotFoundError: no curl\n", False),
    ("http/test_a.py test_b", "ERROR: test_b (__main__.A.test_b)\nKeyError: 0\n=========\nERROR: test_c\nImportError: x\n", True),
    ("a.py", "3 differ\n", True), ("a.sh", "pool 'mine': not found\n", True),
    ("a.sh", "a.sh: line 1: x: command not found\n", False), ("a.sh", "a.sh: 1: x: not found\n", False),
    ("http/test_a.py test_b", "ModuleNotFoundError: No module named 'numpy'\n", False),
]
assert all(is_its_own(test, said) == own for test, said, own in TRIED), TRIED


class Prover:
    def __init__(self, tree):
        self.tree, self.took = tree, {}
        self.sources = table.files_run(tree.build)
        self.files = {target["id"]: target["filename"] for target in tree.made.values()}

    @functools.cache
    def command(self, test, meson, arguments):
        """(command, environment, files to build) of a test."""
        where, _, method = test.partition(" ")
        path = self.tree.folder / "tests" / where
        suite = path.stem.removeprefix("test_")
        for name, found in self.tree.tests.items():
            words = [str(word) for word in found["cmd"]]
            named_so = name == meson or not meson and (where.endswith((".py", ".sh")) or arguments or words[1:] in ([], [suite]))
            if path.resolve() not in self.sources[name] or not named_so:
                continue
            env, last = dict(found["env"]), []
            if method and path.suffix == ".py":
                last = [case_of(path, method)]
            elif method:
                env["TENSORD_TEST"] = method
            if arguments:
                first = next(i for i, word in enumerate(words) if (self.tree.build / word).resolve() == path.resolve()) if path.suffix != ".c" else 0
                words = words[:first + 1] + list(arguments)
            build = [made for target in found["depends"] for made in self.files[target]] or [str(self.tree.build / "tensord")]
            return words + last, env, tuple(str(pathlib.Path(made).relative_to(self.tree.build)) for made in build)
        raise named.Wrong(f"no test of meson's runs {test} {meson}")

    def build(self, by):
        """What is wrong with building what the test needs, or ""."""
        done = self.tree.ninja(self.command(by.test, by.meson, tuple(by.arguments))[2])
        said = [line for line in done.stdout.splitlines() if "error" in line] or done.stdout.splitlines()[-1:]
        return f"it does not build: {said[0] if said else '?'}" if done.returncode else ""

    def run(self, by, seconds):
        command, env, _ = self.command(by.test, by.meson, tuple(by.arguments))
        state, said = self.tree.run(command, env, seconds)
        if state == "passed" and "TENSORD_TEST" in env and not re.search(r"^100%: Checks: [1-9]", said, re.M):
            state = "not there" # a name that none has
        if state == "unstarted" or state == "failed" and not is_its_own(by.test, said):
            raise named.Wrong(f"{by.test} did not fail, but what ran before it: {said.strip().splitlines()[-1:]}")
        return state, said

    def before(self, by):
        """Seconds that the test takes on what is not changed. Raises where it does not pass."""
        key = (by.test, by.meson, tuple(by.arguments))
        if key not in self.took:
            if wrong := self.build(by):
                raise named.Wrong(f"without the mutant {wrong}")
            begin = time.monotonic()
            state, said = self.run(by, MOST_SECONDS)
            self.took[key] = time.monotonic() - begin if state == "passed" else None
            if state == "skipped":
                raise named.Wrong(f"{by.test} is skipped here: {said.strip().splitlines()[-1:]}")
        if self.took[key] is None:
            raise named.Wrong(f"{by.test} does not pass without the mutant")
        return self.took[key]

    def prove(self, mutant):
        """(verdict, what the tests said)"""
        limits = [int(max(LEAST_SECONDS, LONGER * self.before(by))) for by in mutant.by]
        text, heard = named.apply(mutant, self.tree.folder), ""
        try:
            for by, seconds in zip(mutant.by, limits):
                if wrong := self.build(by):
                    raise named.Wrong(wrong)
                state, said = self.run(by, seconds)
                if state in ("passed", "skipped", "not there"):
                    return "ALIVE", f"{by.test} {state}"
                if state != "timeout" and (again := self.run(by, seconds)[0]) not in ("failed", "ended", "timeout"):
                    raise named.Wrong(f"{by.test} {state} once, and then {again}")
                heard += said if state != "timeout" else f"no end within {seconds} s\n"
            return "noticed", heard
        finally:
            (self.tree.folder / mutant.file).write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="these alone: ISA-1, or ISA for the family, or a mutant's name")
    parser.add_argument("--copy", default="rows", metavar="NAME", help="of the tree, in build-mutants/")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    claimed = table.claimed()
    mutants = [m for m in named.read()
               if not args.rows or {m.row, m.row.split("-")[0], m.name} & set(args.rows)]
    wrong = named.stale(mutants, claimed)
    if wrong or args.rows and not mutants:
        sys.exit("\n".join(wrong or [f"rows: {' '.join(args.rows)}: no mutant of that row or name"]))
    copy = ROOT / "build-mutants" / args.copy
    copy.parent.mkdir(exist_ok=True)
    lock = open(f"{copy}.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"rows: another run has {copy}")
    begin, verdicts = time.monotonic(), {}
    prover = Prover(Tree(copy))
    for mutant in sorted(mutants, key=lambda m: (m.by[0].test.split()[0], m.file)):
        since = time.monotonic()
        try:
            verdict, said = prover.prove(mutant)
        except named.Wrong as error:
            verdict, said = "WRONG", str(error)
        verdicts.setdefault(verdict, []).append(mutant)
        print(f"{verdict:7} {time.monotonic() - since:6.1f} s  {mutant.row} {mutant.name} by {', '.join(by.test for by in mutant.by)}"
              f"{'; it does not end' * ('no end within' in said)}", flush=True)
        if args.verbose or verdict != "noticed":
            print("".join(f"    {line}\n" for line in said.strip().splitlines()[-(25 if args.verbose else 3):]), end="", flush=True)
    bare = [] if args.rows else [row for row in claimed if row not in {m.row for m in mutants}]
    print(f"rows without a mutant: {' '.join(bare) or 'none'}" if not args.rows else "", end="\n" * (not args.rows))
    print(f"{len(mutants)} mutants of {len({m.row for m in mutants})} rows: " + ", ".join(
        f"{len(verdicts.get(v, []))} {v.lower()}" for v in ("noticed", "ALIVE", "WRONG")) +
        f"; {len(bare)} rows without; {time.monotonic() - begin:.0f} s")
    return any(verdicts.get(v) for v in ("ALIVE", "WRONG"))


if __name__ == "__main__":
    sys.exit(main())
