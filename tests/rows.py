#!/usr/bin/env python3
"""tests/rows.md: which test covers which row of the feature list.

Tests carry the ids of their rows ("ISA-10") in a comment; a tag belongs to the test whose comment or
body it stands in, or to its file. A row without a test has its reason, or the name of what stands for
it, in tests/rows_without_test.txt. Without arguments the table is written; --check fails when it is
stale or a row is missing.
"""
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parent
TABLE, REASONS = TESTS / "rows.md", TESTS / "rows_without_test.txt"
FAMILIES = {"ISA": 37, "DSP": 41, "RT": 40} # and how many rows each has
TAG = re.compile(r"\b(ISA|DSP|RT)-(\d+)\b")
TEST = {".c": re.compile(r"START_TEST\((\w+)\)"), ".py": re.compile(r"\s+def (test_\w+)"),
        ".sh": re.compile(r"^(\w+)\(\) \{"), ".build": re.compile(r"(?!)")}
SKIPPED = {"rows.py", "rows.md", "rows_without_test.txt"}


def tests_of(path):
    """(row, test) of each tag in a file."""
    pattern, name, waiting, found = TEST[path.suffix], None, [], []
    for line in path.read_text().splitlines():
        begins = pattern.match(line)
        if begins:
            name = begins.group(1)
            found += [(row, name) for row in waiting]
            waiting = []
        rows = [f"{family}-{number}" for family, number in TAG.findall(line)]
        if rows and line.lstrip().startswith(("/*", "*")) and path.suffix == ".c" and not line.startswith("    "):
            waiting += rows # the comment before a test
        else:
            found += [(row, name) for row in rows]
        if line.startswith("END_TEST"):
            name = None
    return found + [(row, None) for row in waiting]


def collect():
    rows = {}
    for path in sorted(TESTS.rglob("*")):
        if path.suffix in TEST and path.name not in SKIPPED:
            for row, test in tests_of(path):
                where = str(path.relative_to(TESTS)) + (f" {test}" if test else "")
                if where not in rows.setdefault(row, []):
                    rows[row].append(where)
    return rows


def reasons():
    lines = REASONS.read_text().splitlines() if REASONS.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def render(rows, without):
    lines = ["# Rows and their tests", "",
             "Written by `tests/rows.py` from the tags in the tests; `./check style` compares it.", "",
             "| row | test, or the reason why there is none |", "| --- | --- |"]
    missing = []
    for family, count in FAMILIES.items():
        for number in range(1, count + 1):
            row = f"{family}-{number}"
            said = "<br>".join(f"`{test}`" for test in rows.get(row, [])) or without.get(row)
            if not said:
                missing.append(row)
            lines.append(f"| {row} | {said or 'MISSING'} |")
    return "\n".join(lines) + "\n", missing


def main():
    rows, without = collect(), reasons()
    text, missing = render(rows, without)
    wrong = [f"tests/rows.md: {row} has neither a test nor a reason" for row in missing]
    wrong += [f"tests/rows_without_test.txt: {row} has a test" for row in without if row in rows]
    wrong += [f"tests/rows_without_test.txt: there is no row {row}" for row in without
              if int(row.split("-")[1]) > FAMILIES.get(row.split("-")[0], 0)]
    if "--check" not in sys.argv:
        TABLE.write_text(text)
    elif not TABLE.exists() or TABLE.read_text() != text:
        wrong.append("tests/rows.md: stale; run tests/rows.py")
    print("\n".join(wrong) or "rows: all covered")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
