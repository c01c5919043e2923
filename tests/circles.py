#!/usr/bin/env python3
"""tests/circles.py BUILD_DIR: no file calls in a circle, nor does any room.

A file uses another when its object wants a symbol that the other's defines; an operator's folder
(kernels/softmax) counts as one, since its descriptor names its kernels and they share its helpers.
Then the same for rooms: folders, those in api/ each as a whole.
"""
import graphlib
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


def circle(uses):
    """The nodes of a circle in a graph, or None."""
    try:
        graphlib.TopologicalSorter(uses).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    by_file = [(source, *symbols(made)) for source, made in objects(build)]
    owner = {name: source for source, defined, _ in by_file for name in defined}
    assert len(owner) > 100, "no objects to look at; build first"
    deep = lambda source: len(source.parts) == 3
    api = lambda source: source.parts[0] == "api"
    rooms = {"files": lambda source: source.parent if deep(source) and not api(source) else source,
             "rooms": lambda source: source.parts[0] if not api(source) else source.parent
             if deep(source) else source}
    for what, room in rooms.items():
        uses = {}
        for source, _, wanted in by_file:
            others = {room(owner[name]) for name in wanted if name in owner}
            uses.setdefault(room(source), set()).update(others - {room(source)})
        found = circle({str(k): {str(v) for v in vs} for k, vs in uses.items()})
        if found:
            sys.exit(f"{what}: " + " is used by ".join(found))
        print(f"{what}: {len(uses)} without a circle")


if __name__ == "__main__":
    main()
