#!/usr/bin/env python3
"""unused.py BUILD_DIR: every global function and table of the product has a user in the product.

A symbol that one object defines, that no other object wants (the examples count as users) and whose name stands
nowhere else in the sources is called by tests alone, or by nothing: give it a user, or delete it.
What its own file uses may be global so that a test can reach it. Names that macros paste together, and
what protoc generates, do not stand in the sources and are left out.
"""
import collections
import pathlib
import re
import subprocess
import sys

import circles

FOLDERS = [*circles.FOLDERS, "examples"]
MEANT_FOR_TESTS = {
    "td_registry_check",  # the design asks tests to compute the dispatch tables anew
    "td_onednn_forget",  # tests begin with an empty cache of primitives
}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    files = subprocess.check_output(["git", "ls-files", *FOLDERS], text=True, cwd=circles.ROOT).split()
    words = collections.Counter()
    for file in files:
        if pathlib.Path(file).suffix in (".c", ".cc", ".def"):
            words.update(re.findall(r"\w+", (circles.ROOT / file).read_text()))
    by_file = [(source, *circles.symbols(made)) for source, made in circles.objects(build, FOLDERS)]
    assert len(by_file) > 100, "no objects to look at; build first"
    wanted = {name for _, _, names in by_file for name in names}
    unused = sorted((str(source), name) for source, defined, _ in by_file for name in defined
                    if name not in wanted and words[name] == 1 and name not in MEANT_FOR_TESTS | {"main"})
    for source, name in unused:
        print(f"{source}: {name} has no user but tests")
    sys.exit(bool(unused))


main()
