#!/usr/bin/env python3
"""container_steps.py WORK_DIR: executes deploy/Containerfile without a container engine.

Every FROM starts from a copy of a minimal Debian root (one mmdebstrap for all stages), every RUN
is a bubblewrap sandbox on it, and the last stage's entrypoint then serves as the image's user on a
read-only root without a network, until the image's own health check says it is ready and it has
answered a request.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from roots import ROOT, Stage, debian, enter_namespace, host_sources, skip

CONTAINERFILE = ROOT / "deploy" / "Containerfile"


def steps(text):
    """The instructions as (name, argument), comments gone and continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            name, _, argument = line.strip().partition(" ")
            yield name.upper(), argument.strip()


def build(work):
    """The last stage, every step of the file executed."""
    stages, last, bases = {}, None, {}
    for name, argument in steps(CONTAINERFILE.read_text()):
        started = time.monotonic()
        if name == "FROM":
            image, _, alias = argument.partition(" AS ")
            suite = re.fullmatch(r"debian:(\w+)-slim", image)[1]
            if suite not in bases:
                bases[suite] = work / suite
                debian(suite, bases[suite])
            root = work / f"stage{len(stages)}"
            subprocess.run(["cp", "-a", "--reflink=auto", bases[suite], root], check=True)
            last = stages[alias or str(len(stages))] = Stage(root)
        elif name == "RUN":
            last.run(argument)
        elif name == "COPY":
            last.copy(argument, stages)
        elif name == "WORKDIR":
            last.workdir = argument
            (last.root / argument.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "ENV":
            last.env.update(word.split("=", 1) for word in shlex.split(argument))
        elif name == "USER":
            last.user = argument
        elif name == "ENTRYPOINT":
            last.entrypoint = json.loads(argument)
        elif name == "CMD":
            last.cmd = json.loads(argument)
        elif name == "HEALTHCHECK":
            last.healthcheck = json.loads(argument[argument.index("CMD") + 3:])
        elif name != "EXPOSE":
            sys.exit(f"{CONTAINERFILE}: {name}: add it to this test")
        print(f"{time.monotonic() - started:6.1f} s  {name} {argument}", flush=True)
    return last


def main():
    enter_namespace()
    suites = re.findall(r"^FROM debian:(\w+)-slim", CONTAINERFILE.read_text(), re.M)
    for suite in suites:
        if not host_sources(suite):
            skip(f"apt here has no source for Debian {suite}, the image's base")
    with tempfile.TemporaryDirectory(dir=sys.argv[1], prefix="container-") as work:
        build(pathlib.Path(work)).serve()


main()
