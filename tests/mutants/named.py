"""The named mutants: small changes of the program, each of which breaks one row of the feature list. Every row that has a
test has at least one. FAMILY.txt in this folder, and FAMILY_WHAT.txt where there are many of something, have them as entries
of the following form; prove.py applies them, and rows.py checks that they still fit the sources.

    ISA-N sentinel_unnamed: The number behind the last level has no name of its own.
    in dispatch/cpu/cpu.c
     a line that stays, to say which of several is meant
    -a line that goes
    +a line that comes
    by dispatch/test_cpu.c test_names

The first line has the row, the mutant's name and what it does. The lines of the change are whole lines of the file, and occur
there together exactly once. `by` names a test that rows.md has for the row, and that must fail with the change; there may be
several. ` (NAME)` after the test selects meson's test of that name, if meson runs the file in several ways. ` -- ARGUMENTS` at
the end replaces the arguments of the test program. Lines that begin with # are comments.
"""
import pathlib
import re
import typing

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HEAD = re.compile(r"([A-Z]+-\d+) (\w+): (.+)")
BY = re.compile(r"by (.+?)(?: \((.+)\))?(?: -- (.+))?")


class By(typing.NamedTuple):
    test: str # as rows.md names it
    meson: str # or ""
    arguments: list


class Mutant(typing.NamedTuple):
    place: str # of the entry
    row: str
    name: str
    what: str
    file: str
    before: str
    after: str
    by: list


class Wrong(Exception):
    """An entry that cannot be read."""


def parse(text, place):
    """The mutants of a file's text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{place}:{number}"
        mutant = found[-1] if found else None
        if head := HEAD.fullmatch(line):
            found.append(Mutant(where, *head.groups(), "", "", "", []))
        elif not line or line[0] == "#":
            continue
        elif not mutant:
            raise Wrong(f"{where}: a line of no mutant")
        elif line.startswith("in ") and not mutant.file:
            found[-1] = mutant._replace(file=line[3:])
        elif line[0] in " -+" and mutant.file and not mutant.by:
            found[-1] = mutant._replace(before=mutant.before + (line[1:] + "\n" if line[0] in " -" else ""),
                                        after=mutant.after + (line[1:] + "\n" if line[0] in " +" else ""))
        elif (by := BY.fullmatch(line)) and mutant.before:
            mutant.by.append(By(by[1], by[2] or "", (by[3] or "").split()))
        else:
            raise Wrong(f"{where}: not understood: {line}")
    for mutant in found:
        if not mutant.by or mutant.before == mutant.after:
            raise Wrong(f"{mutant.place}: {mutant.name} lacks " + ("a test" if not mutant.by else "a change"))
    return found


def read():
    """All of them, those of one file together, in the order of rows.md."""
    return [mutant for path in sorted(HERE.glob("*.txt")) for mutant in parse(path.read_text(), path.relative_to(ROOT))]


def times_in(text, lines):
    """How often lines stand in a text, as whole ones."""
    return ("\n" + text).count("\n" + lines)


def apply(mutant, folder):
    """Changes the file below folder; gives back what it was. The lines stand there once."""
    path = folder / mutant.file
    text = path.read_text()
    assert times_in(text, mutant.before) == 1, mutant.place
    path.write_text(("\n" + text).replace("\n" + mutant.before, "\n" + mutant.after)[1:])
    return text


def stale(mutants, rows):
    """One line for each thing that does not fit. rows: the tests of each row."""
    wrong, names = [], set()
    for mutant in mutants:
        say = f"{mutant.place}: {mutant.row} {mutant.name}: "
        path = ROOT / mutant.file
        if mutant.row not in rows:
            wrong.append(say + "no test names the row")
        if mutant.name in names:
            wrong.append(say + "another mutant has the name")
        names.add(mutant.name)
        if mutant.file.startswith("tests/") or not path.is_file():
            wrong.append(say + f"{mutant.file} is not a file of the program")
        elif (times := times_in(path.read_text(), mutant.before)) != 1:
            wrong.append(say + f"its lines stand {times} times in {mutant.file}: fit them to what stands there now, "
                         f"and see the test fail by `./check rows {mutant.row}`")
        for by in mutant.by:
            if by.test not in rows.get(mutant.row, []):
                wrong.append(say + f"rows.md has no test '{by.test}' for the row")
    return wrong


TRIED = parse("# x\nA-1 b: C d.\nin e/f.c\n g\n-h\n+i\n+\nby j k (l m) -- --op n\nby o\n", "t")
assert TRIED == [Mutant("t:2", "A-1", "b", "C d.", "e/f.c", "g\nh\n", "g\ni\n\n",
                        [By("j k", "l m", ["--op", "n"]), By("o", "", [])])], TRIED
assert [times_in("a\nb\nab\n", lines) for lines in ("b\n", "a\nb\n", "b\nb\n")] == [1, 1, 0]
