#!/usr/bin/env python3
"""tests/rows.md: which test covers which row of the feature list.

The feature list numbers what the program does. Its rows have ids of six families: ISA (levels of the CPU), DSP (dispatch),
RT (pools and tasks), IND (fusion and vector code), JIT (kernels and generated code), NUM (measurements).

A tag is a row's id ("ISA-10") in a comment in a test or directly before it: a Check test, a method of
a unittest case, or the header of a script that is a test as a whole. Only tests that ./check
runs count: those in meson's list of tests, and those that Check's main adds. A tag anywhere else is an
error. For a row without a test, tests/rows_without_test.txt has the reason, or names what replaces the
test. tests/rows_titles.txt says what each row is about. The last column names the row's mutants (tests/mutants/): changes of the program that break the row, and
that its test must notice; `./check rows` tries them. Without --check, rows.py writes the table; with it, rows.py
fails if the table is stale or a row is missing. tests/rows_in_another_shape.txt says what a user gets for rows that the
project gives in another shape than the list; it stands behind the table, and tests/http/test_rows.py runs its commands. BUILD is a build folder without sanitizers [build/].
"""
import argparse
import ast
import io
import json
import pathlib
import re
import sys
import tokenize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutants"))
import named

TESTS = pathlib.Path(__file__).resolve().parent
TABLE, REASONS, SHAPES = TESTS / "rows.md", TESTS / "rows_without_test.txt", TESTS / "rows_in_another_shape.txt"
TITLES = TESTS / "rows_titles.txt"
FAMILIES = {"ISA": 37, "DSP": 41, "RT": 40, "IND": 49, "JIT": 45, "NUM": 12} # and how many rows each has
TAG = re.compile(r"\b(?:ISA|DSP|RT|IND|JIT|NUM)-\d+\b")
SHAPE = re.compile(r"([A-Z]+-\d+): (\S.*); `([^`]+)` shows `([^`]+)`") # a row, what a user gets, a command, parts of its output
CHECK_TEST = re.compile(r"^START_TEST\((\w+)\).*?^END_TEST", re.DOTALL | re.MULTILINE)


def files_run(build):
    """The script that each of meson's tests starts, and the sources of its programs."""
    info = build / "meson-info"
    if not info.is_dir():
        sys.exit(f"rows: {build} is no build folder; meson setup build")
    targets = {target["id"]: target for target in json.loads((info / "intro-targets.json").read_text())}
    files = {}
    for test in json.loads((info / "intro-tests.json").read_text()):
        of_test = files.setdefault(test["name"], set())
        of_test.update((build / word).resolve() for word in test["cmd"])
        for target in test["depends"]:
            for group in targets[target]["target_sources"]:
                of_test.update(pathlib.Path(source).resolve() for source in group.get("sources", []))
    return files


def is_older(build):
    """Whether the build folder was configured before the list of tests was last changed."""
    configured = (build / "meson-info/intro-tests.json").stat().st_mtime
    return any(path.stat().st_mtime > configured for path in TESTS.rglob("meson.build"))


def in_c(text):
    """(line, row, test or None) of each tag; None: it stands in no test. "": the whole program."""
    tests = [(found.start(), found.end(), found.group(1)) for found in CHECK_TEST.finditer(text)
             if len(re.findall(rf"\b{found.group(1)}\b", text)) > 1] # defined, and added
    for comment in re.finditer(r"/\*.*?\*/", text, re.DOTALL):
        name = "" if not tests and comment.start() == 0 else None
        for begin, end, test in tests:
            if begin < comment.start() < end or not text[comment.end():begin].strip() and comment.end() < begin:
                name = test
        for tag in TAG.finditer(comment.group()):
            at = comment.start() + tag.start()
            yield text.count("\n", 0, at) + 1, tag.group(), name


def in_python(text):
    tree = ast.parse(text)
    cases = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    tests = [node for case in cases for node in case.body
             if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    lines = text.splitlines()
    places = {} # of lines
    for node in tests:
        begin = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
        while lines[begin - 2].lstrip().startswith("#"):
            begin -= 1
        places.update(dict.fromkeys(range(begin, node.end_lineno + 1), node.name))
    if not tests: # the docstring is the script's header
        places.update(dict.fromkeys(range(1, tree.body[0].end_lineno + 1), ""))
    said = [(token.start[0], token.string) for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT]
    for node in [tree, *cases, *tests]:
        if ast.get_docstring(node, clean=False):
            begin, end = node.body[0].lineno, node.body[0].end_lineno
            said += [(line, lines[line - 1]) for line in range(begin, end + 1)]
    for line, what in said:
        for row in TAG.findall(what):
            yield line, row, places.get(line)


def in_shell(text):
    header = True
    for number, line in enumerate(text.splitlines(), 1):
        header = header and line.startswith("#")
        for row in TAG.findall(line.partition("#")[2]):
            yield number, row, "" if header else None


READERS = {".c": in_c, ".h": in_c, ".py": in_python, ".sh": in_shell}


TRIED = [ # a reader, a text, and the tests of its tags
    (in_c, "/* RT-1 */\n/* RT-2 */\nSTART_TEST(a)\n/* RT-3 */\nEND_TEST\nSTART_TEST(b)/* RT-4 */\nEND_TEST\nadd(a);\n",
     [None, "a", "a", None]), # nobody adds b
    (in_c, "/* RT-1 */\nint main(void)\n/* RT-2 */\n", ["", None]),
    (in_python, '"""RT-1"""\nclass A:\n    # RT-2\n    def test_a(self):\n        """RT-3"""\n        x = "RT-9"\n# RT-4\n',
     ["test_a", None, None, "test_a"]),
    (in_python, '"""RT-1"""\nx = 1 # RT-2\n', [None, ""]),
    (in_shell, "# RT-1\ntrue # RT-2\n", ["", None]),
]

TRIED_SHAPES = [ # lines of tests/rows_in_another_shape.txt, and how many are wrong
    ("# of all\nRT-1: so; `c` shows `d`\nRT-2: so; not so; `c` shows `d`", 0), ("RT-1: so", 1), ("RT-1: ; `c` shows `d`", 1),
    ("RT-1: so; `` shows `d`", 1), ("RT-1: so; `c`", 1), ("RT-1: so; `c` shows `d` d", 1),
    ("RT-2: so; `c` shows `d`\nRT-1: so; `c` shows `d`", 1), ("RT-1: so; `c` shows `d`\nRT-1: so; `c` shows `d`", 1),
    ("RT-3: so; `c` shows `d`\nRT-4: so; `c` shows `d`\n", 2), ("\n", 1)]


def collect(build):
    """The tests of each row, and what is wrong with tags."""
    run, rows, wrong = set().union(*files_run(build).values()), {}, []
    for path in sorted(TESTS.rglob("*")):
        if path.suffix not in READERS or path == pathlib.Path(__file__).resolve():
            continue
        where = str(path.relative_to(TESTS))
        for line, row, test in READERS[path.suffix](path.read_text()):
            if test is None or path not in run:
                wrong.append(f"tests/{where}:{line}: {row} stands in no test that ./check runs")
            else:
                rows.setdefault(row, set()).add(f"{where} {test}".strip())
    return rows, wrong


def by_row(path):
    """{row: text} of a file of lines `ROW: text`."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def other_shapes(text, rows, all_rows):
    """[(row, what a user gets, command, parts of its output)], and what is wrong with the lines."""
    shapes, wrong, last = [], [], -1
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("#"):
            found, where = SHAPE.fullmatch(line), f"tests/{SHAPES.name}:{number}: "
            if not found:
                wrong.append(where + "is no `ROW: text; command in backquotes shows parts of its output in backquotes`")
            elif found[1] not in all_rows:
                wrong.append(where + f"there is no row {found[1]}")
            elif found[1] not in rows:
                wrong.append(where + f"{found[1]} has no test")
            elif all_rows.index(found[1]) <= last:
                wrong.append(where + f"{found[1]} is here twice, or not in the table's order")
            else:
                shapes.append(found.groups())
                last = all_rows.index(found[1])
    return shapes, wrong


def render(rows, without, all_rows, mutants, shapes, titles):
    names = {}
    for mutant in mutants:
        names.setdefault(mutant.row, []).append(f"`{mutant.name}`")
    bare = [row for row in all_rows if row in rows and row not in names]
    lines = ["# Rows and their tests", "",
             "A row is a feature of another system which the project took on, or a measurement. ISA-N are levels of the CPU and RT-N pools",
             "and tasks, after IPEX; DSP-N are dispatch, after PyTorch; IND-N are fusion and vector code, after Inductor; JIT-N are kernels",
             "and generated code, after Paddle; NUM-N are measurements. The table says which test covers each row. A mutant is a small",
             "change of the program that breaks the row (`tests/mutants/`); the row's test must fail with it, which `./check rows`",
             "tries. `tests/rows.py` writes the table from the tags in the tests, and `./check style` compares it.", "",
             f"{len(rows)} rows have a test, and {len(rows) - len(bare)} of these have a mutant. Tested rows without a mutant: {', '.join(bare) or 'none'}.", "",
             "| row | feature | test, or the reason why there is none | mutant |", "| --- | --- | --- | --- |"]
    for row in all_rows:
        said = "<br>".join(f"`{test}`" for test in sorted(rows.get(row, []))) or without.get(row)
        lines.append(f"| {row} | {titles.get(row)} | {said or 'MISSING'} | {'<br>'.join(names.get(row, [])) or ('none' if row in rows else '')} |")
    lines += ["", "## Rows in another shape", "",
              "The other systems often have a feature in a way of their own. These rows do what theirs are for in another way: the line says",
              "what a user gets instead, and a command that shows it, with parts of what it prints. `tests/http/test_rows.py` runs each on",
              "a server as `tensord serve` starts it, with the model `digits` put and asked twice as README.md has it, in the project's folder.",
              f"Behind \"not here\" stands what a user does not get. There are {len(shapes)} such rows.", ""]
    lines += [f"- **{row}, {titles.get(row)}**: {said}. `{command}` shows `{shown}`" for row, said, command, shown in shapes]
    return "\n".join(lines) + "\n"


def claimed():
    """The tests of each row that has some, as the table has them."""
    cells = (line.split(" | ") for line in TABLE.read_text().splitlines() if TAG.match(line[2:]))
    return {cell[0][2:]: re.findall("`([^`]+)`", cell[2]) for cell in cells if cell[2].startswith("`")}


def main():
    for reader, text, tests in TRIED:
        assert [test for _, _, test in reader(text)] == tests, (text, list(reader(text)))
    for text, bad in TRIED_SHAPES:
        assert len(other_shapes(text, {"RT-1", "RT-2"}, ["RT-1", "RT-2", "RT-3"])[1]) == bad, text
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=TESTS.parent / "build")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    all_rows = [f"{family}-{number}" for family, count in FAMILIES.items() for number in range(1, count + 1)]
    (rows, wrong), without, titles = collect(arguments.build), by_row(REASONS), by_row(TITLES)
    try:
        mutants = named.read()
    except named.Wrong as error:
        sys.exit(f"rows: {error}")
    shapes, wrong_shapes = other_shapes(SHAPES.read_text(), rows, all_rows)
    text = render(rows, without, all_rows, mutants, shapes, titles)
    wrong += wrong_shapes
    wrong += named.stale(mutants, rows)
    wrong += [f"tests/rows.md: {row} has neither a test nor a reason"
              for row in all_rows if row not in rows and row not in without]
    wrong += [f"tests/rows_without_test.txt: {row} has a test" for row in without if row in rows]
    wrong += [f"there is no row {row}" for row in [*rows, *without, *titles] if row not in all_rows]
    wrong += [f"tests/rows_titles.txt: {row} has no title" for row in all_rows if row not in titles]
    if wrong and is_older(arguments.build):
        wrong.append(f"rows: {arguments.build} was configured before a meson.build was changed: build it, and look again")
    if not arguments.check:
        TABLE.write_text(text)
    elif not TABLE.exists() or TABLE.read_text() != text:
        wrong.append("tests/rows.md: stale; run tests/rows.py")
    print("\n".join(wrong) or "rows: all covered")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
