#!/usr/bin/env python3
"""Sessions: what a model remembers between calls, held to a client that carries it itself, in bits."""
import contextlib
import hashlib
import json
import pathlib
import tempfile

import numpy as np
import onnx

import models
import service
from models import archives, port
import stateful
from service import Service

FILE = {"Accept": "application/x-safetensors"}


X = np.ones((2, 4), np.float32)


class Sessions(stateful.SessionTest):
    args = ("--tune", "off") # kernels that round differently may be the fastest in two servers

    # ---- what is state ----

    def test_pairs(self):
        """Ports by their names, as exporters give them."""
        right = [("state", "stateN"), ("h", "hn"), ("h0", "hn"), ("past_key_values.11.value", "present.11.value"),
                 ("past_0", "present_0"), ("cached_key_0", "new_cached_key_0"), ("h", "next_h"), ("h_in", "h_out"),
                 ("cache_last_channel", "cache_last_channel_next"), ("prevState", "state"), ("past_key_values_0_key", "present_0_key")]
        for before, after in right + [("x", "y"), ("in", "out"), ("a", "an_other"), ("mask", "y_mask")]:
            with self.subTest(before=before):
                said = self.put("pair", models.identity(before, after))
                pairs = [(s["name"], s["output"], s["from"]) for s in said.get("state", [])]
                self.assertEqual(pairs, [(before, after, "pair")] if (before, after) in right else [])
        node = lambda a, b: ("Identity", [a], [b], {})
        family = models.onnx_file([node("past_0", "present_0"), node("past_1", "y")], [port("past_0", [1]), port("past_1", [1])],
                                  [port("present_0", [1]), port("y", [1])])
        said = self.put("pair", family) # one of a family alone is no state
        self.assertEqual(said["state"], [])
        self.assertIn("some have no such output", json.dumps(said["unpaired"]))
        other = models.onnx_file([("Cast", ["h"], ["hn"], {"to": 7})], [port("h", [1])], [port("hn", [1], "INT64")])
        self.assertIn("another type", json.dumps(self.put("pair", other)["unpaired"]))
        said = self.put("pair", stateful.cache())
        self.assertEqual([s["grows"] for s in said["state"]], [1])
        said = self.put("pair", stateful.counter())
        self.assertEqual(said["state"], [{"name": "cell.h", "datatype": "FP32", "shape": [4], "bytes": 16, "kind": "state", "from": "buffer"}])
        self.assertEqual([i["name"] for i in said["inputs"]], ["x"])

    # ---- steps ----

    def carried(self, inputs):
        """What a client gets that carries the state itself."""
        state, got = np.zeros((1, 3), np.float32), []
        for x in inputs:
            out = self.right(self.infer("cell", {"input": x, "state": state}))
            state = out["stateN"]
            got.append(out["output"])
        return got, state

    def test_steps(self):
        self.put("cell", stateful.cell())
        inputs = [self.draw(1, 2) for _ in range(20)]
        wanted, state = self.carried(inputs)
        for i, x in enumerate(inputs):
            how = i % 4
            if how == 2: # as a task
                body, headers = service.pack({"input": x}, {"session": "s"})
                reply = self.service.call("POST", "/v2/models/cell/infer", body, {**headers, "Prefer": "respond-async"})
                self.assertEqual(reply.status, 202)
                reply = self.service.call("GET", reply.headers["Location"] + "?wait=20")
                got = self.right(reply)["output"]
            elif how == 3: # in the short form
                reply = self.service.call("POST", "/v1/models/cell", {"input": x.tolist(), "session": "s"})
                self.assertEqual(list(reply.json), ["output"])
                got = np.array(reply.json["output"], np.float32)
            else:
                reply = self.infer("cell", {"input": x}, "s", session_start=i == 0, session_step=i, binary=how == 1)
                got = self.right(reply)["output"]
                self.assertEqual((reply.parameters["session"], reply.parameters["session_step"]), ("s", i + 1))
                self.assertEqual(list(reply.outputs), ["output"])
            np.testing.assert_array_equal(got, wanted[i])
        seen = self.see("cell", "s")
        self.assertEqual((seen["step"], seen["busy"], seen["state"][0]["shape"]), (20, False, [1, 3]))
        np.testing.assert_array_equal(np.array(seen["state"][0]["data"], np.float32), state.ravel())
        reply = self.infer("cell", {"input": inputs[0]}, "s", outputs=[{"name": "stateN"}, {"name": "output"}]) # asked for by its name
        self.assertEqual(sorted(reply.outputs), ["output", "stateN"])
        reply = self.infer("cell", {"input": self.draw(3, 2)}, "rows", session_start=True) # sizes follow the first call's
        self.assertEqual(self.right(reply)["output"].shape, (3, 1))

    def test_interleaved(self):
        self.put("cell", stateful.cell())
        inputs = {f"i{k}": [self.draw(1, 2) for _ in range(8)] for k in range(64)}
        wanted = {name: self.carried(xs)[0] for name, xs in inputs.items()}
        order = [name for name in inputs for _ in range(8)]
        stateful.RANDOM.shuffle(order)
        at = dict.fromkeys(inputs, 0)
        with contextlib.closing(self.service.connect()) as connection:
            for name in order:
                i = at[name]
                got = self.right(self.infer("cell", {"input": inputs[name][i]}, name, session_start=i == 0, connection=connection))
                np.testing.assert_array_equal(got["output"], wanted[name][i])
                at[name] += 1

    def test_growing(self):
        self.put("cache", stateful.cache())
        for rows in ("a", "b"):
            all_rows = np.zeros((1, 0, 2), np.float32)
            for i in range(12):
                new = self.draw(1, 1 + i % 3, 2)
                all_rows = np.concatenate([all_rows, new], 1)
                got = self.right(self.infer("cache", {"new": new}, rows, session_start=i == 0))
                np.testing.assert_allclose(got["sum"], all_rows.sum(1), 1e-5, 1e-5)
            self.assertEqual(self.see("cache", rows)["state"][0]["used"], all_rows.shape[1])

    def test_large(self):
        """Two blocks that change places: what a fork, or a file under way, has of one stays."""
        file = models.onnx_file([("Add", ["h", "x"], ["hn"], {}), ("ReduceMax", ["hn"], ["y"], {"keepdims": 0})],
                                [port("h", [1, 70000]), port("x", [1])], [port("hn", [1, 70000]), port("y", [])])
        self.put("large", file)
        value, one = {"s": 0}, np.ones(1, np.float32)
        step = lambda name, **how: self.right(self.infer("large", {"x": one}, name, binary=True, **how))
        step("s", session_start=True)
        value["s"] = 1
        for i in range(40):
            name = stateful.RANDOM.choice(sorted(value))
            if len(value) < 5 and i % 4 == 0:
                value[f"f{i}"] = value[name]
                self.assertEqual(self.service.call("PUT", self.path("large", f"f{i}"), {"from": name}).status, 201)
                continue
            value[name] += 1
            got = step(name, outputs=[{"name": "hn"}])
            np.testing.assert_array_equal(got["hn"], np.full((1, 70000), value[name], np.float32))
        for name, wanted in value.items():
            got = self.service.call("GET", self.path("large", name), headers=FILE).body
            np.testing.assert_array_equal(np.frombuffer(got[-280000:], np.float32), wanted)
        self.assertLess(self.see("large", "s")["bytes"], 2 * 280000 + 1000)
        self.assertEqual(self.service.call("DELETE", "/v1/models/large").status, 204)

    def test_derived(self):
        """position_ids and attention_mask follow from the tokens that the session has seen."""
        self.put("decoder", stateful.decoder())
        past, position = np.zeros((1, 0, 4), np.float32), 0
        for i, n in enumerate((3, 1, 1, 2, 1)):
            ids = np.array([[stateful.RANDOM.randrange(stateful.VOCABULARY) for _ in range(n)]])
            wanted = self.right(self.infer("decoder", {
                "input_ids": ids, "attention_mask": np.ones((1, position + n), np.int64),
                "position_ids": np.arange(position, position + n)[None], "past_key_values.0.key": past}))
            past, position = wanted["present.0.key"], position + n
            got = self.right(self.infer("decoder", {"input_ids": ids}, "s", session_start=i == 0))
            np.testing.assert_allclose(got["logits"], wanted["logits"], 1e-5, 1e-6)
        file = self.service.call("GET", self.path("decoder", "s"), headers=FILE)
        reply = self.service.call("PUT", self.path("decoder", "t"), file.body, {"Content-Type": "application/x-safetensors"})
        self.assertEqual(reply.status, 201)
        ids = np.array([[5]])
        one, two = (self.right(self.infer("decoder", {"input_ids": ids}, name))["logits"] for name in "st")
        np.testing.assert_array_equal(one, two)
        self.problem(self.infer("decoder", {}, "s"), 400, "'input_ids' is missing")
        self.problem(self.infer("decoder", {"input_ids": ids}), 400, "is missing")

    def test_buffers(self):
        self.put("counter", stateful.counter(5))
        self.problem(self.infer("counter", {"x": X}), 400, "'cell.h'", '"session_start":true')
        for _ in range(2): # each from where the file begins
            np.testing.assert_array_equal(self.right(self.infer("counter", {"x": X}, ""))["y"], X * 6)
        for i in range(3):
            np.testing.assert_array_equal(self.right(self.infer("counter", {"x": X}, "s", session_start=i == 0))["y"], X * (6 + i))
        got = self.right(self.infer("counter", {"x": X}, "s", session_start=True, eager=True, # begun anew
                                    outputs=[{"name": "cell.h"}]))
        np.testing.assert_array_equal(got["cell.h"], np.full(4, 6, np.float32))
        self.problem(self.infer("counter", {"x": X}, "s", streams=2), 400, "not cut")
        self.problem(self.infer("counter", {"x": X, "cell.h": X[0]}, "s"), 400)

    def test_without_a_server(self):
        """tensord run computes once, from where the model begins."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "counter.pt2").write_bytes(stateful.counter(5))
        np.save(folder / "x.npy", X)
        done = service.run("run", str(folder / "counter.pt2"), "--input", f"x={folder}/x.npy", "--output-dir", str(folder))
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_array_equal(np.load(folder / "y.npy"), X * 6)

    def test_digests(self):
        """Of files of all lengths that a last block can have."""
        model = onnx.load_from_string(stateful.cell())
        for n in range(64):
            model.doc_string = "x" * (n + 1)
            file = model.SerializeToString()
            self.put("digest", file)
            self.assertEqual(self.service.call("PUT", self.path("digest", f"d{n}"), {}).status, 201)
            got = self.service.call("GET", self.path("digest", f"d{n}"), headers=FILE).body
            self.assertIn(hashlib.sha256(file).hexdigest().encode(), got)

    def test_input_that_is_written(self):
        """The caller's tensor after the call, where a session goes on from it; given anew, that counts."""
        m = archives.Model()
        x = m.user("x", sizes=["s0", 4])
        m.call("mul_.Tensor", "w", self=x, other=2)
        m.outputs = [m.call("add.Tensor", "y", self=x, other=1)]
        self.assertEqual(self.put("doubling", m.bytes())["state"][0]["from"], "input")
        np.testing.assert_array_equal(self.right(self.infer("doubling", {"x": X}))["y"], X * 2 + 1)
        self.problem(self.infer("doubling", {}, "s", session_start=True), 400, "'x' is missing")
        for factor, inputs in ((2, {"x": X}), (4, {}), (8, {}), (2, {"x": X})):
            got = self.right(self.infer("doubling", inputs, "s", session_start=factor == 2))
            np.testing.assert_array_equal(got["y"], X * factor + 1)

    # ---- their life ----

    def test_fork_and_snapshot(self):
        self.put("cell", stateful.cell())
        inputs = [self.draw(1, 2) for _ in range(10)]
        wanted, _ = self.carried(inputs)
        for i in range(5):
            self.right(self.infer("cell", {"input": inputs[i]}, "t", session_start=i == 0))
        reply = self.service.call("PUT", self.path("cell", "fork"), {"from": "t"})
        self.assertEqual((reply.status, reply.json["step"]), (201, 5))
        file = self.service.call("GET", self.path("cell", "t"), headers=FILE)
        self.assertEqual(file.headers["Content-Type"], "application/x-safetensors")
        head = json.loads(file.body[8:8 + int.from_bytes(file.body[:8], "little")])
        self.assertEqual(head["__metadata__"], {"model": hashlib.sha256(stateful.cell()).hexdigest(), "step": "5"})
        self.right(self.infer("cell", {"input": inputs[0]}, "t")) # which the others do not see
        with Service(*self.args) as other:
            self.assertEqual(other.call("PUT", "/v1/models/cell", stateful.cell()).status, 201)
            headers = {"Content-Type": "application/x-safetensors"}
            self.assertEqual(other.call("PUT", self.path("cell", "moved") + "?ttl_s=9", file.body, headers).json["step"], 5)
            for i in range(5, 10):
                for name, to in (("fork", None), ("moved", other)):
                    got = self.right(self.infer("cell", {"input": inputs[i]}, name, session_step=i, to=to))
                    np.testing.assert_array_equal(got["output"], wanted[i])
        reply = self.service.call("PUT", self.path("cell", "t"), {})
        self.assertEqual((reply.status, reply.json["step"]), (200, 0))
        self.problem(self.service.call("PUT", self.path("cell", "x"), {"from": "nobody"}), 404, "nobody")

    def test_wrong_snapshots(self):
        self.put("cell", stateful.cell())
        self.put("counter", stateful.counter())
        self.right(self.infer("counter", {"x": X}, "s", session_start=True))
        self.right(self.infer("cell", {"input": X[:1, :2]}, "s", session_start=True))
        headers = {"Content-Type": "application/x-safetensors"}
        file = {m: self.service.call("GET", self.path(m, "s"), headers=FILE).body for m in ("cell", "counter")}

        def restore(model, body, query=""):
            return self.service.call("PUT", self.path(model, "r") + query, body, headers)
        self.problem(restore("cell", file["counter"]), 400, "cell.h", "no state")
        self.put("counter", stateful.counter(1)) # another file with the same states
        self.problem(restore("counter", file["counter"]), 409, "?any=1")
        self.problem(restore("counter", file["counter"], "?any=false"), 409, "?any=1")
        self.problem(restore("counter", file["counter"], "?any=yes"), 400, "any", "true or false")
        self.assertEqual(restore("counter", file["counter"], "?any=1").status, 201)
        head = file["cell"].replace(b"[1,3]", b"[3,1]")
        self.problem(restore("cell", head), 400, "must have the shape [?, 3], but has [3, 1]")
        for body in (b"", b"x", file["cell"][:-4], file["cell"][:30], file["cell"].replace(b"F32", b"I32"), b"\xff" * 16):
            self.problem(restore("cell", body), 400)
        self.problem(self.service.call("GET", self.path("cell", "r")), 404)

    def test_replaced_and_deleted(self):
        self.put("gone", stateful.counter(1))
        self.right(self.infer("gone", {"x": X}, "s", session_start=True))
        self.put("gone", stateful.counter(1)) # the same file
        self.assertNotIn("model", self.see("gone", "s"))
        self.put("gone", stateful.counter(10))
        self.assertEqual(self.see("gone", "s")["model"], "replaced")
        self.assertEqual(self.service.call("GET", "/v1/models/gone").json["sessions"], 0) # none goes on with this one
        np.testing.assert_array_equal(self.right(self.infer("gone", {"x": X}, "s"))["y"], X * 3) # on the old one
        np.testing.assert_array_equal(self.right(self.infer("gone", {"x": X}, "s", session_start=True))["y"], X * 11)
        self.assertNotIn("model", self.see("gone", "s"))
        self.assertEqual(self.service.call("GET", "/v1/models/gone").json["sessions"], 1)
        self.assertEqual(self.service.call("DELETE", "/v1/models/gone").status, 204)
        self.problem(self.infer("gone", {"x": X}, "s"), 404, "no model")
        self.put("gone", stateful.counter(1))
        self.problem(self.infer("gone", {"x": X}, "s"), 404, "ended", "with its model")

    def test_end(self):
        self.put("cell", stateful.cell())
        self.right(self.infer("cell", {"input": X[:1, :2]}, "e", session_start=True, session_end=True))
        self.problem(self.service.call("GET", self.path("cell", "e")), 404, "it ended 0 s ago")
        reply = self.service.call("POST", self.path("cell"), {"ttl_s": 7})
        name = reply.json["name"]
        self.assertEqual((reply.status, reply.headers["Location"], len(name)), (201, self.path("cell", name), 32))
        self.assertLess(reply.json["expires_s"], 7.001)
        self.right(self.infer("cell", {"input": X[:1, :2]}, name))
        self.assertEqual(self.service.call("DELETE", self.path("cell", name)).status, 204)
        self.problem(self.service.call("DELETE", self.path("cell", name)), 404)

    def test_expiry(self):
        self.put("cell", stateful.cell())
        for name in "ab":
            self.assertEqual(self.service.call("PUT", self.path("cell", name), {"ttl_s": 1}).status, 201)
        self.assertTrue(service.eventually(lambda: self.service.call("GET", self.path("cell", "a")).status == 404))
        self.problem(self.infer("cell", {"input": X[:1, :2]}, "a"), 404, "expired", "idle for 1 s")
        self.assertEqual(self.service.call("PUT", self.path("cell", "a"), {}).status, 201)

    def test_list(self):
        self.put("listed", stateful.cell())
        names = sorted(f"n{stateful.RANDOM.randrange(10**6)}" for _ in range(30))
        for name in names:
            self.service.call("PUT", self.path("listed", name), {})
        found, after = [], ""
        while True:
            page = self.service.call("GET", self.path("listed") + f"?limit=7&after={after}").json
            self.assertEqual(page["count"], len(set(names)))
            if not page["sessions"]:
                break
            found += [s["name"] for s in page["sessions"]]
            after = found[-1]
        self.assertEqual(found, sorted(set(names)))
        self.assertEqual(self.service.call("GET", "/v1/models/listed").json["sessions"], len(set(names)))
        self.assertEqual(self.service.call("DELETE", self.path("listed", names[0])).status, 204)
        self.assertEqual(self.service.call("GET", "/v1/models/listed").json["sessions"], len(set(names)) - 1)
        self.problem(self.service.call("GET", self.path("listed") + "?limit=0"), 400, "limit")
        self.problem(self.service.call("GET", self.path("nosuch")), 404, "nosuch")

    def test_sequences(self):
        """Triton's words."""
        self.put("cell", stateful.cell())
        call = lambda **parameters: self.infer("cell", {"input": X[:1, :2]}, **parameters)
        self.problem(call(sequence_id=9), 400, "must specify the START flag on the first request of the sequence")
        self.right(call(sequence_id=9, sequence_start=True))
        self.assertEqual(call(sequence_id="9").parameters["session_step"], 2)
        self.right(call(sequence_id=9, sequence_end=True))
        self.problem(call(sequence_id=9), 400, "START")
        for none in (0, ""):
            self.problem(call(sequence_id=none), 400, "'state' is missing")
        self.assertIn("sequence", self.service.call("GET", "/v2").json["extensions"])

    def test_what_is_wrong(self):
        self.put("cell", stateful.cell())
        self.put("plain", models.line())
        x = {"input": X[:1, :2]}
        self.problem(self.infer("cell", x, "nobody"), 404, "no session 'nobody'", "session_start")
        self.problem(self.infer("plain", {"x": X[:, :3]}, "s", session_start=True), 400, "has no state")
        self.problem(self.service.call("PUT", self.path("plain", "s"), {}), 400, "has no state")
        self.right(self.infer("cell", x, "s", session_start=True))
        self.problem(self.infer("cell", {**x, "state": X[:1, :3]}, "s"), 400, "leave it out")
        self.problem(self.infer("cell", x, session_start=True), 400, "is not named")
        self.problem(self.infer("cell", x, "s", session_step=7), 409, "has made 1 steps, not 7")
        self.problem(self.infer("cell", {"input": X[:1, :3]}, "s"), 400)
        for name in ("a/b", "..", "ü", "x" * 201, 5, None, []):
            self.problem(self.infer("cell", x, **{"session": name}), 400)
        for wrong in ({"session_step": -1}, {"session_step": 1.5}, {"session_wait_ms": 1e12}, {"session_start": 1}, {"sequence_id": 3}):
            self.problem(self.infer("cell", x, "s", **wrong), 400)
        for body in ({"ttl_s": 0}, {"ttl_s": 10**9}, {"ttl_s": "x"}, {"ttl_s": 1e3}, {"form": "s"}, [], {"from": 1}, b"{"):
            self.problem(self.service.call("PUT", self.path("cell", "w"), body), 400)
        self.problem(self.service.call("PUT", self.path("cell", "%2e%2e"), {}), 400)
        self.assertEqual(self.see("cell", "s")["step"], 1)


if __name__ == "__main__":
    service.main()
