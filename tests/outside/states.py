#!/usr/bin/env python3
"""Models with state that other tools wrote, in sessions, held to what these tools computed step by step.

    states.py DIR

DIR has NAME.onnx, NAME.pt2 and NAME.dec.pt2 (after run_decompositions) beside a NAME.npz: for step i the arrays "i.INPUT"
that a client gives and "i.OUTPUT" that it gets; "i.in0" is the first input, "i.out" the first output. Each is run in a
session, in JSON and binary, from where it begins, after a fork, and after a snapshot's way into another server. TENSORD_BIN
names the binary.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
os.environ.setdefault("TENSORD_BIN", str(pathlib.Path(__file__).resolve().parents[2] / "build/tensord"))
import numpy as np  # noqa: E402
from service import Service  # noqa: E402

FOLLOW = ("position_ids", "cache_position", "attention_mask") # of the tokens: left out in a session
FILE = "application/x-safetensors"


def steps_of(path):
    """(what is given, what is wanted), by step and name."""
    arrays, steps = np.load(path), {}
    for key in arrays.files:
        i, _, name = key.partition(".")
        steps.setdefault(int(i), {})[name] = arrays[key]
    return [steps[i] for i in sorted(steps)]


class Model:
    def __init__(self, servers, path):
        self.servers, self.path = servers, path
        replies = [s.call("PUT", "/v1/models/m", path.read_bytes()) for s in servers]
        assert replies[0].status in (200, 201), replies[0].body
        said = replies[0].json
        self.inputs, self.outputs = ([p["name"] for p in said[side]] for side in ("inputs", "outputs"))
        self.states = said.get("state", [])
        self.kept = {s["name"] for s in self.states} if said["format"] == "onnx" else set()
        self.worst = 0

    def step(self, server, session, arrays, **how):
        given, binary = {}, how.pop("binary", False)
        for name, array in arrays.items():
            at = self.inputs[int(name[2:])] if name.startswith("in") and name[2:].isdigit() else name
            if at in self.inputs and at not in self.kept and not (self.states and at in FOLLOW):
                given[at] = array
        reply = server.infer("m", given, {"session": session, **how} if self.states else {}, path="/v2/models/{}/infer", binary=binary)
        assert reply.status == 200, reply.body[:400]
        for name, wanted in arrays.items():
            at = self.outputs[0] if name == "out" else name
            if at in reply.outputs:
                scale = max(1, float(np.abs(wanted).max(initial=0)))
                self.worst = max(self.worst, float(np.abs(reply.outputs[at] - wanted).max(initial=0)) / scale)

    def move(self, i):
        """From the first server to the second."""
        old, new = self.servers
        file = old.call("GET", "/v1/models/m/sessions/b", headers={"Accept": FILE})
        reply = new.call("PUT", "/v1/models/m/sessions/b", file.body, {"Content-Type": FILE})
        assert reply.status == 201 and reply.json["step"] == i, reply.body

    def run(self, steps):
        first, second = self.servers
        half = len(steps) // 2
        for i, arrays in enumerate(steps):
            self.step(first, "a", arrays, binary=i % 2 == 0, session_start=i == 0, session_step=i)
            if i + 1 == half and self.states:
                assert first.call("PUT", "/v1/models/m/sessions/b", {"from": "a"}).status == 201
                self.move(half)
        for i, arrays in enumerate(steps[half:] if self.states else [], half):
            self.step(first, "b", arrays)
            self.step(second, "b", arrays, eager=True)


def main():
    wrong = 0
    folder = pathlib.Path(sys.argv[1])
    with Service("--log", "off") as first, Service("--log", "off") as second:
        for path in sorted([*folder.glob("*.onnx"), *folder.glob("*.pt2")]):
            steps = folder / (path.name.partition(".")[0] + ".npz")
            if not steps.exists():
                continue
            try:
                model = Model((first, second), path)
                model.run(steps_of(steps))
                told = f"{len(model.states)} states, within {model.worst:.1e}"
                wrong += model.worst > 1e-5
            except AssertionError as error:
                told, wrong = str(error)[:300], wrong + 1
            print(f"{path.name:24} {told}", flush=True)
            for server in (first, second):
                server.call("DELETE", "/v1/models/m")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
