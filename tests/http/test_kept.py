#!/usr/bin/env python3
"""What settings have a session keep: contexts, sticky inputs, state and what follows from tokens; held to a client that does it all itself."""
import json
import pathlib
import tempfile

import numpy as np

import models
import service
import stateful
from models import port
from service import Service

KEEP = 4
CONTEXT = {"input": "input", "dim": 1, "keep": KEEP}
FILE = {"Accept": "application/x-safetensors"}


def voice(length=None, rank=2):
    """As a voice detector: output = the sum of the input, its context in front, times the rate, and of stateN = state + 1."""
    node = lambda op, ins, outs, **more: (op, ins, outs, more)
    return models.onnx_file(
        [node("Cast", ["sr"], ["rate"], to=1), node("Mul", ["input", "rate"], ["x"]), node("ReduceSum", ["x", "axis"], ["sum"], keepdims=1),
         node("Add", ["state", "one"], ["stateN"]), node("Add", ["sum", "stateN"], ["output"]), node("Identity", ["input"], ["seen"])],
        [port("input", ["b", length or "n"]), port("state", ["b", 1]), port("sr", [], "INT64")],
        [port("output", ["b", 1]), port("stateN", ["b", 1]), port("seen", ["b", length or "n"])],
        {"axis": np.array([1]), "one": np.ones(1, np.float32)})


def renamed():
    """A decoder whose ports have names of their own."""
    node = lambda op, ins, outs, **more: (op, ins, outs, more)
    return models.onnx_file(
        [node("Cast", ["words"], ["w"], to=1), node("Cast", ["places"], ["p"], to=1), node("Cast", ["seen"], ["s"], to=1),
         node("ReduceSum", ["s", "last"], ["t"], keepdims=1), node("Add", ["w", "p"], ["a"]), node("Add", ["a", "t"], ["x"]),
         node("Unsqueeze", ["x", "axis"], ["y"]), node("Mul", ["y", "table"], ["scores"]), node("Add", ["memory", "one"], ["memo"])],
        [port("words", ["b", "n"], "INT64"), port("places", ["b", "n"], "INT64"), port("seen", ["b", "total"], "INT64"), port("memory", ["b", 1])],
        [port("scores", ["b", "n", 3]), port("memo", ["b", 1])],
        {"last": np.array([1]), "axis": np.array([2]), "table": np.array([0, 0.5, 0.25], np.float32), "one": np.ones(1, np.float32)})


class Kept(stateful.SessionTest):
    def setUp(self):
        for name in ("v", "w", "plain"):
            self.service.call("DELETE", "/v1/models/" + name)

    def settle(self, model, settings, status=200):
        reply = self.service.call("PUT", f"/v1/models/{model}/settings", settings)
        self.assertEqual(reply.status, status, reply.body[:400])
        return reply.json

    def refused(self, model, settings, *words):
        before = [self.service.call("GET", f"/v1/models/{model}{more}").body for more in ("", "/settings")]
        self.problem(self.service.call("PUT", f"/v1/models/{model}/settings", settings), 400, *words)
        self.assertEqual([self.service.call("GET", f"/v1/models/{model}{more}").body for more in ("", "/settings")], before)

    def described(self, model):
        return self.service.call("GET", "/v1/models/" + model).json

    def voiced(self, **more):
        self.put("v", voice())
        return self.settle("v", {"state": [CONTEXT], "sticky": ["sr"], **more})

    def step(self, chunk, session="s", status=200, **more):
        inputs = {"input": chunk, **{k: more.pop(k) for k in ("sr",) if k in more}}
        reply = self.infer("v", inputs, session, **more)
        self.assertEqual(reply.status, status, reply.body[:400])
        return reply.outputs if status == 200 else reply

    # ---- contexts ----

    def test_context(self):
        """The server puts the end of the chunk before in front, zeros at first; as a client that carries it."""
        said = self.voiced()
        self.assertEqual({k: said[k] for k in ("state", "sticky")}, {"state": [CONTEXT], "sticky": ["sr"]})
        kept, state = np.zeros((2, KEEP), np.float32), np.zeros((2, 1), np.float32)
        rate = np.array(3, np.int64)
        for i in range(6):
            chunk = self.draw(2, (9, 2, 9, 1, 0, 30)[i]) # shorter than what is kept, too
            whole = np.concatenate([kept, chunk], 1)
            kept = whole[:, -KEEP:]
            more = {"session_start": True, "sr": rate} if not i else {}
            out = self.step(chunk, binary=i % 2 == 1, **more)
            np.testing.assert_array_equal(out["seen"], whole)
            state += 1
            np.testing.assert_allclose(out["output"], (whole * 3).sum(1, keepdims=True) + state, rtol=1e-5, atol=1e-5)
        states = {s["name"]: s for s in self.see("v", "s")["state"]}
        self.assertEqual({name: (s["kind"], s["shape"]) for name, s in states.items()},
                         {"input": ("context", [2, KEEP]), "state": ("state", [2, 1]), "sr": ("sticky", [])})
        np.testing.assert_array_equal(np.float32(states["input"]["data"]), kept.ravel())
        # without a session the file answers as ever
        self.problem(self.infer("v", {"input": chunk}), 400, "is missing")
        out = self.right(self.infer("v", {"input": chunk, "state": state, "sr": rate}))
        np.testing.assert_array_equal(out["seen"], chunk)

    def test_fixed_size(self):
        """Of a file that says 12, the client sends 8; a negative dimension counts from the end."""
        self.put("v", voice(12))
        self.settle("v", {"state": [{"input": "input", "dim": -1, "keep": KEEP}], "sticky": ["sr"]})
        self.assertEqual(self.described("v")["state"][0], {"name": "input", "datatype": "FP32", "shape": [-1, KEEP], "kind": "context",
                                                           "from": "settings", "dim": 1, "keep": KEEP})
        chunk = self.draw(1, 8)
        self.assertEqual(self.step(chunk, session_start=True, sr=np.array(1, np.int64))["seen"].shape, (1, 12))
        for size in (12, 4):
            self.problem(self.step(self.draw(1, size), status=400), 400, "input", "8 are right")
        np.testing.assert_array_equal(self.step(chunk)["seen"], np.concatenate([chunk[:, -KEEP:], chunk], 1))

    def test_atomic(self):
        """What is refused leaves the context as it was."""
        self.voiced()
        rate = np.array(1, np.int64)
        first, second = self.draw(1, 6), self.draw(1, 7)
        self.problem(self.step(first, status=400, session_start=True), 400, "'sr' is missing", "not had it")
        self.assertEqual(self.service.call("GET", self.path("v", "s")).status, 404) # nothing began
        self.step(first, session_start=True, sr=rate)
        for inputs, *words in (({"input": self.draw(3, 6)}, "input", "dimension 0", "kept"), ({"input": self.draw(6)}, "shape"),
                               ({"input": first.astype(np.float64)}, "FP32"), ({}, "'input' is missing"), ({"input": first, "state": first[:, :1]}, "leave it out"),
                               ({"input": first, "sr": np.ones(2, np.int64)}, "sr", "shape")):
            with self.subTest(words=words):
                self.problem(self.infer("v", inputs, "s"), 400, *words)
        self.problem(self.infer("v", {"input": second}, "s", session_step=7), 409)
        self.assertEqual(self.see("v", "s")["step"], 1)
        np.testing.assert_array_equal(self.step(second)["seen"], np.concatenate([first[:, -KEEP:], second], 1))

    def test_fork_and_restore(self):
        self.voiced()
        first, second = self.draw(1, 6), self.draw(1, 7)
        self.step(first, session_start=True, sr=np.array(2, np.int64))
        self.service.call("PUT", self.path("v", "fork"), {"from": "s"})
        snapshot = self.service.call("GET", self.path("v", "s"), headers=FILE)
        right = self.step(second)
        self.assertEqual(self.service.call("PUT", self.path("v", "back"), snapshot.body, {"Content-Type": FILE["Accept"]}).status, 201)
        for name in ("fork", "back"):
            got = self.step(second, name)
            for key, value in right.items():
                np.testing.assert_array_equal(got[key], value)
        with Service("--listen", "127.0.0.1:0") as other:
            other.call("PUT", "/v1/models/v", voice())
            load = lambda more="": other.call("PUT", self.path("v", "s") + more, snapshot.body, {"Content-Type": FILE["Accept"]})
            self.problem(load(), 400, "is no state of the model") # whose settings say nothing
            other.call("PUT", "/v1/models/v/settings", {"state": [{**CONTEXT, "keep": KEEP + 1}], "sticky": ["sr"]})
            self.problem(load(), 400, "input", "shape")
            other.call("PUT", "/v1/models/v/settings", {"state": [CONTEXT], "sticky": ["sr"]})
            self.assertEqual(load().status, 201)
            got = self.right(self.infer("v", {"input": second}, "s", to=other))
            np.testing.assert_array_equal(got["seen"], right["seen"])
        fresh = self.service.call("PUT", self.path("v", "fresh"), {})
        self.assertEqual(fresh.status, 201)
        snapshot = self.service.call("GET", self.path("v", "fresh"), headers=FILE)
        self.assertEqual(self.service.call("PUT", self.path("v", "fresh2"), snapshot.body, {"Content-Type": FILE["Accept"]}).status, 201)

    def test_sticky_again(self):
        self.voiced()
        chunk = np.ones((1, 6), np.float32)
        rates = [self.step(chunk, session_start=True, sr=np.array(2, np.int64)), self.step(chunk), self.step(chunk, sr=np.array(5, np.int64)), self.step(chunk)]
        self.assertEqual([float(r["output"][0, 0]) for r in rates], [12 + 1, 20 + 2, 50 + 3, 50 + 4])

    # ---- state ----

    def test_pairs_by_settings(self):
        plain = models.onnx_file([("Add", ["a", "x"], ["b"], {}), ("Identity", ["b"], ["y"], {})], [port("x", [2]), port("a", [2])],
                                 [port("y", [2]), port("b", [2])])
        said = self.put("v", plain)
        self.assertNotIn("state", said)
        x = np.array([1, 2], np.float32)
        self.problem(self.infer("v", {"x": x}, "s", session_start=True), 400, "has no state", "settings")
        self.settle("v", {"state": [{"input": "a", "output": "b"}]})
        self.assertEqual(self.described("v")["state"], [{"name": "a", "datatype": "FP32", "shape": [2], "kind": "state", "from": "settings", "output": "b"}])
        got = [self.right(self.infer("v", {"x": x}, "s", session_start=not i)) for i in range(3)]
        np.testing.assert_array_equal([g["y"] for g in got], [x, 2 * x, 3 * x])
        self.assertEqual(list(got[0]), ["y"])
        self.service.call("PUT", "/v1/tensors/first", {"shape": [2], "datatype": "FP32", "data": [10, 20]})
        self.settle("v", {"state": [{"input": "a", "output": "b", "initial": {"tensor": "first"}}]})
        self.service.call("DELETE", "/v1/tensors/first") # is had already
        np.testing.assert_array_equal(self.right(self.infer("v", {"x": x}, "t", session_start=True))["y"], [11, 22])
        np.testing.assert_array_equal(self.right(self.infer("v", {"x": x}, "s"))["y"], 4 * x) # goes on as it began
        self.settle("v", {})
        self.assertNotIn("state", self.described("v"))
        np.testing.assert_array_equal(self.right(self.infer("v", {"x": x}, "t"))["y"], [12, 24])

    def test_against_names(self):
        """Settings turn off what the names say: one pair, or all state."""
        self.put("v", voice())
        self.settle("v", {"state": [{"input": "state", "output": None}, CONTEXT]})
        self.assertEqual([s["name"] for s in self.described("v")["state"]], ["input"])
        self.settle("v", {"state": "none"})
        said = self.described("v")
        self.assertEqual([s["name"] for s in said.get("state", [])], [])
        self.put("w", stateful.counter())
        x = np.ones((1, 4), np.float32)
        self.settle("w", {"state": "none"})
        for _ in range(2): # each call begins where the file does
            np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}))["y"], x)
        self.service.call("PUT", "/v1/tensors/first", {"shape": [4], "datatype": "FP32", "data": [5, 5, 5, 5]})
        self.settle("w", {"state": [{"input": "cell.h", "initial": {"tensor": "first"}}]})
        np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}, ""))["y"], 6 * x)
        np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}, "s", session_start=True))["y"], 6 * x)
        self.put("w", stateful.counter(3)) # another file: the settings are the name's
        np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}, "t", session_start=True))["y"], 6 * x)
        self.settle("w", {"state": [{"input": "cell.h", "initial": "zeros"}]})
        np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}, ""))["y"], x)
        self.settle("w", {})
        np.testing.assert_array_equal(self.right(self.infer("w", {"x": x}, ""))["y"], 4 * x)

    # ---- tokens ----

    def test_derived_and_roles(self):
        self.put("v", renamed())
        roles = {"token": "words", "logits": "scores"}
        settings = {"state": [{"input": "memory", "output": "memo"}], "derived": {"places": "position", "seen": "mask"}, "roles": roles}
        self.problem(self.service.call("POST", "/v2/models/v/generate", {"input_ids": [1]}), 400, "generates no tokens", "settings")
        self.settle("v", settings)
        self.assertEqual(self.described("v")["derived"], [{"name": "places", "as": "position", "from": "settings"}, {"name": "seen", "as": "mask", "from": "settings"}])
        self.assertEqual({k: v for k, v in self.service.call("GET", "/v1/models/v/settings").json.items() if k != "sessions"}, settings)
        seen = 0
        for words in ([1, 2, 3], [4], [5, 6]):
            got = self.right(self.infer("v", {"words": np.array([words])}, "s", session_start=not seen))["scores"]
            places = np.arange(seen, seen + len(words))
            seen += len(words)
            np.testing.assert_array_equal(got[0], np.outer(np.array(words) + places + seen, [0, 0.5, 0.25]))
        said = self.service.call("POST", "/v2/models/v/generate", {"input_ids": [1, 2], "parameters": {"max_tokens": 3}})
        self.assertEqual((said.status, said.json["tokens"]), (200, [1, 1, 1]))
        self.settle("v", {**settings, "derived": {"places": "position", "seen": "none"}})
        self.problem(self.infer("v", {"words": np.array([[1]])}, "t", session_start=True), 400, "'seen' is missing")

    def test_lengths(self):
        """last and length, beside input_ids as its name is."""
        node = lambda op, ins, outs, **more: (op, ins, outs, more)
        file = models.onnx_file([node("Cast", ["input_ids"], ["f"], to=1), node("Add", ["h", "one"], ["hn"]), node("Identity", ["a"], ["ya"]),
                                 node("Identity", ["b"], ["yb"]), node("Identity", ["f"], ["y"])],
                                [port("input_ids", ["n"], "INT64"), port("h", [1]), port("a", [1], "INT32"), port("b", [], "INT64")],
                                [port("y", ["n"]), port("hn", [1]), port("ya", [1], "INT32"), port("yb", [], "INT64")], {"one": np.ones(1, np.float32)})
        self.put("v", file)
        self.settle("v", {"derived": {"a": "last", "b": "length"}})
        for n, start in ((3, True), (2, False)):
            got = self.right(self.infer("v", {"input_ids": np.arange(n)}, "s", session_start=start))
            self.assertEqual((got["ya"].tolist(), got["yb"].tolist()), ([2], 3) if start else ([4], 5))

    # ---- what is wrong ----

    def test_what_is_wrong(self):
        self.put("v", voice())
        state = lambda *entries: {"state": list(entries)}
        for settings, *words in (
                ({"state": "all"}, "state: must be a list", "none"), ({"state": {}}, "state: must be a list"), (state(3), "state[0]: must be an object"),
                (state({}), "state[0].input"), (state({"input": 3, "output": "x"}), "state[0].input: must be the name"),
                (state({"input": "inptu", "dim": 1, "keep": 4}), "state[0].input", "no input 'inptu'", "'input'"), (state({"input": "sr"}), "say its output"),
                (state(CONTEXT, {"input": "state", "output": "outptu"}), "state[1].output", "no output", "'output'"),
                (state({"input": "sr", "output": "output"}), "another type"),
                (state({"input": "input", "output": "seen", "keep": 3}), "one is right"), (state(CONTEXT, CONTEXT), "said twice"),
                (state({"input": "input", "keep": 4}), "state[0].dim: is missing"), (state({"input": "input", "dim": 1}), "state[0].keep: is missing"),
                (state({**CONTEXT, "dim": 2}), "state[0].dim", "-2 to 1"), (state({**CONTEXT, "dim": -3}), "state[0].dim"), (state({**CONTEXT, "dim": "1"}), "state[0].dim"),
                (state({**CONTEXT, "keep": 0}), "state[0].keep"), (state({**CONTEXT, "keep": -64}), "state[0].keep"), (state({**CONTEXT, "keep": 4.0}), "state[0].keep"),
                (state({**CONTEXT, "keep": 10**30}), "state[0].keep"), (state({**CONTEXT, "keep": 2**31 - 1}), "state[0].keep", "session-bytes"),
                (state({**CONTEXT, "kept": 1}), "kept", "keep"), (state({"input": "sr", "dim": 0, "keep": 1}), "no dimensions"),
                (state({"input": "state", "output": "stateN", "initial": {"tensor": "nosuch"}}), "state[0].initial", "no stored tensor 'nosuch'"),
                (state({"input": "state", "output": "stateN", "initial": "ones"}), "state[0].initial"), (state({"input": "state", "output": "stateN", "initial": {}}), "state[0].initial"),
                (state({"input": "state", "output": None, "initial": "zeros"}), "no state"),
                (state({"input": "state", "output": "stateN"}, {"input": "input", "output": "stateN"}), "state[1].output"),
                ({"sticky": "sr"}, "sticky: must be a list"), ({"sticky": ["rs"]}, "sticky[0]", "no input 'rs'"), ({"sticky": [1]}, "sticky[0]"), ({"sticky": ["sr", "sr"]}, "sticky[1]"),
                ({"sticky": ["state"]}, "sticky[0]", "state"), ({"derived": []}, "derived: must be an object"), ({"derived": {"sr": "position"}}, "roles.token"),
                ({"derived": {"rs": "mask"}}, "derived", "no input 'rs'"), ({"derived": {"sr": "place"}}, "derived.sr", "position"),
                ({"derived": {"input": "mask"}, "roles": {"token": "sr"}}, "INT64 or INT32"), ({"derived": {"state": "mask"}, "roles": {"token": "sr"}}, "is state"),
                ({"roles": []}, "roles"), ({"roles": {"tokens": "sr"}}, "roles", "token"), ({"roles": {"token": "input"}}, "roles.token", "INT64"),
                ({"roles": {"logits": "input"}}, "roles.logits", "no output"), ({"states": []}, "state"), (state(CONTEXT) | {"sessions": {"max": -1}}, "sessions.max")):
            with self.subTest(settings=settings):
                self.refused("v", settings, *words)
        self.put("w", voice(12))
        self.refused("w", state({"input": "state", "output": "seen"}), "state[0].output", "sizes")
        self.refused("w", state({**CONTEXT, "keep": 12}), "state[0].keep", "some must be new")
        self.put("plain", models.line())
        self.refused("plain", {"sessions": {}}, "has no state")
        self.refused("plain", {"roles": {}}, "no state", "dim")
        self.put("w", stateful.counter())
        self.refused("w", state({"input": "cell.h", "output": "y"}), "initial alone")
        self.refused("w", state({"input": "cell.h", "dim": 0, "keep": 1}), "initial alone")
        self.service.call("PUT", "/v1/tensors/first", {"shape": [3], "datatype": "FP32", "data": [5, 5, 5]})
        self.refused("w", state({"input": "cell.h", "initial": {"tensor": "first"}}), "state[0].initial", "does not fit", "[4]")

    def test_another_file(self):
        """A file that the settings do not fit is refused, and the old one stays."""
        self.voiced()
        reply = self.service.call("PUT", "/v1/models/v", stateful.cell())
        self.problem(reply, 400, "settings do not fit", "state[0].keep", "{}")
        self.assertEqual([i["name"] for i in self.described("v")["inputs"]], ["input", "state", "sr"])
        self.put("v", voice(12)) # fits
        self.assertEqual(self.described("v")["state"][0]["kind"], "context")
        self.settle("v", {})
        self.put("v", stateful.cell())

    def test_many(self):
        """Sessions of a model keep what they began with when its settings change; one count is of the file."""
        self.voiced()
        chunk, rate = np.ones((1, 6), np.float32), np.array(1, np.int64)
        self.step(chunk, "a", session_start=True, sr=rate)
        self.settle("v", {"state": [{**CONTEXT, "keep": 2}], "sticky": ["sr"]})
        self.step(chunk, "b", session_start=True, sr=rate)
        self.assertEqual([self.step(chunk, name)["seen"].shape[1] for name in "ab"], [6 + KEEP, 8])
        self.assertEqual(self.described("v")["sessions"], 2)
        for name in "ab":
            self.service.call("DELETE", self.path("v", name))
        self.assertEqual(self.described("v")["sessions"], 0)

    # ---- beside the file ----

    def test_file_beside(self):
        with tempfile.TemporaryDirectory() as d:
            d = pathlib.Path(d)
            settings = {"state": [CONTEXT], "sticky": ["sr"], "sessions": {"max": 7, "ttl_s": 60, "when_full": "refuse"}}
            for name in ("v", "bad", "json"):
                (d / f"{name}.onnx").write_bytes(voice())
            (d / "v.settings.json").write_text(json.dumps(settings))
            (d / "bad.settings.json").write_text(json.dumps({"sticky": ["rs"]}))
            (d / "json.settings.json").write_text("{")
            (d / "w" / "3").mkdir(parents=True)
            (d / "w" / "3" / "model.onnx").write_bytes(voice())
            (d / "w" / "3" / "model.settings.json").write_text(json.dumps({"sticky": ["sr"]}))
            with Service("--listen", "127.0.0.1:0", "--models", str(d)) as other:
                self.assertEqual(sorted(m["name"] for m in other.call("GET", "/v1/models").json["models"]), ["v", "w"])
                self.assertEqual(other.call("GET", "/v1/models/v/settings").json, settings)
                self.assertEqual([s["kind"] for s in other.call("GET", "/v1/models/w").json["state"]], ["state", "sticky"])
                got = self.right(self.infer("v", {"input": np.ones((1, 6), np.float32), "sr": np.array(1, np.int64)}, "s", to=other, session_start=True))
                self.assertEqual(got["seen"].shape, (1, 6 + KEEP))


if __name__ == "__main__":
    service.main()
