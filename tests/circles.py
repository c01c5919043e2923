#!/usr/bin/env python3
"""tests/circles.py BUILD_DIR: no file calls in a circle, nor does any room.

A file uses another when its object wants a symbol that the other's defines. Two kinds of folder count
as one file: an operator's in kernels/ (its descriptor names its kernels, and they share its helpers)
and a room of api/ with what folders it has. A room is a folder, without the files of folders in it.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("kernels", "pools", "dispatch", "api", "server")


def objects(build, folders=FOLDERS):
    """(source, object) of all that is built from the sources of these folders, tests apart."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        made = build / entry["output"]
        if source.is_relative_to(ROOT) and made.exists():
            source = source.relative_to(ROOT)
            if source.parts[0] in folders and "tests" not in pathlib.Path(entry["output"]).parts:
                yield source, made


def symbols(made):
    """What an object defines and what it wants, weak symbols apart."""
    defined, wanted = set(), set()
    for line in subprocess.check_output(["nm", "-g", made], text=True).splitlines():
        *_, kind, name = line.split()
        if kind == "U":
            wanted.add(name)
        elif kind not in "VWvw":
            defined.add(name)
    return defined, wanted


def circles(uses):
    """The sets of nodes that all reach one another (Tarjan's algorithm)."""
    number, least, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = least[node] = len(number)
        stack.append(node)
        for other in uses.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                least[node] = min(least[node], least[other])
        if least[node] == number[node]:
            members = set(stack[stack.index(node):])
            del stack[stack.index(node):]
            if len(members) > 1:
                found.append(members)

    for node in uses:
        if node not in number:
            visit(node)
    return found


def way(uses, members):
    """One circle among members that reach one another, as a list whose first node is also its last."""
    first = min(members)
    before, ends = {}, [first]
    for node in ends: # breadth first, so it is a shortest one
        for other in sorted(uses[node] & members):
            if other not in before:
                before[other] = node
                ends.append(other)
    nodes = [first, before[first]]
    while nodes[-1] != first:
        nodes.append(before[nodes[-1]])
    return nodes[::-1]


def main():
    sys.setrecursionlimit(10000)
    build = pathlib.Path(sys.argv[1]).resolve()
    by_file = [(source, *symbols(made)) for source, made in objects(build)]
    owner = {name: source for source, defined, _ in by_file for name in defined}
    assert len(owner) > 100, "no objects to look at; build first"
    whole = lambda source: len(source.parts) > 2 and source.parts[0] in ("kernels", "api")
    room_of = {"files": lambda source: "/".join(source.parts[:2]) if whole(source) else str(source),
               "rooms": lambda source: "/".join(source.parts[:-1][:2 if source.parts[0] == "api" else None])}
    failed = False
    for what, room in room_of.items():
        uses = {}
        for source, _, wanted in by_file:
            others = {room(owner[name]) for name in wanted if name in owner}
            uses.setdefault(room(source), set()).update(others - {room(source)})
        found = circles(uses)
        failed |= bool(found)
        print(*(f"{what}: a circle: {' uses '.join(way(uses, members))}\n" for members in found), sep="", end="")
        print(f"{what}: {len(uses)}, {len(found)} circles")
    sys.exit(failed)


if __name__ == "__main__":
    main()
