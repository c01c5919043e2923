#!/usr/bin/env python3
"""Settings of a model: how many sessions, for how long, and which go; and ?sessions=end."""
import re

import numpy as np

import models
import service
import stateful

X = np.ones((1, 4), np.float32)


class Settings(stateful.SessionTest):
    args = ("--session-bytes", "262144", "--session-ttl-s", "300")

    def setUp(self):
        for name in ("m", "other"):
            self.service.call("DELETE", "/v1/models/" + name)

    def set(self, model, **sessions):
        reply = self.service.call("PUT", f"/v1/models/{model}/settings", {"sessions": sessions})
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply.json["sessions"]

    def make(self, model, name, **order):
        return self.service.call("PUT", self.path(model, name), order).status

    def names(self, model):
        return [s["name"] for s in self.service.call("GET", self.path(model) + "?limit=1000").json["sessions"]]

    def ended(self):
        text = self.service.call("GET", "/metrics").body.decode()
        return int(re.search(r'tensord_sessions_ended_total\{reason="oldest"\} (\d+)', text)[1])

    def test_what_is_set(self):
        self.put("m", stateful.counter())
        said = self.service.call("GET", "/v1/models/m/settings").json
        self.assertEqual(said, {"sessions": {"max": 0, "ttl_s": 300, "when_full": "refuse"}})
        self.assertEqual(self.set("m", max=3, ttl_s=9, when_full="oldest"), {"max": 3, "ttl_s": 9, "when_full": "oldest"})
        self.put("m", stateful.counter(1)) # the name keeps them
        self.assertEqual(self.service.call("GET", "/v1/models/m/settings").json["sessions"]["max"], 3)
        self.assertEqual(self.set("m", max=4), {"max": 4, "ttl_s": 300, "when_full": "refuse"}) # what is not said is as ever
        self.set("m", ttl_s=50)
        self.make("m", "a")
        self.make("m", "b", ttl_s=7)
        for name, most in (("a", 50), ("b", 7)):
            self.assertTrue(most - 5 < self.see("m", name)["expires_s"] <= most)
        self.service.call("DELETE", "/v1/models/m")
        self.put("m", stateful.counter())
        self.assertEqual(self.service.call("GET", "/v1/models/m/settings").json, said)

    def test_max(self):
        self.put("m", stateful.counter())
        self.set("m", max=2)
        self.assertEqual([self.make("m", name) for name in "aba"], [201, 201, 200]) # to begin anew is no further one
        self.problem(self.service.call("PUT", self.path("m", "c"), {}), 507, "m has 2", "max 2")
        self.problem(self.infer("m", {"x": X}, "c", session_start=True), 507, "max 2")
        self.assertEqual(self.service.call("DELETE", self.path("m", "a")).status, 204)
        self.assertEqual(self.make("m", "c"), 201)
        self.assertEqual(self.names("m"), ["b", "c"])

    def test_oldest(self):
        """The one goes that was called least lately, whatever was made first."""
        self.put("m", stateful.counter())
        self.set("m", max=3, when_full="oldest")
        ended = self.ended()
        for name in "abc":
            self.make("m", name)
        for name in "ba":
            self.right(self.infer("m", {"x": X}, name))
        self.assertEqual([self.make("m", name) for name in "de"], [201, 201])
        self.assertEqual(self.names("m"), ["a", "d", "e"])
        np.testing.assert_array_equal(self.right(self.infer("m", {"x": X}, "a"))["y"], 2 * X)
        self.problem(self.infer("m", {"x": X}, "b"), 404, "ended", "when_full")
        self.assertEqual(self.ended(), ended + 2)
        for name in "abcde":
            self.make("m", name)
        self.set("m", max=1, when_full="oldest")
        self.make("m", "f")
        self.assertEqual(self.names("m"), ["f"])

    def test_bytes(self):
        """Room in bytes is made as well, of the model that says so alone."""
        self.put("m", stateful.counter())
        self.put("other", stateful.counter(1))
        self.make("other", "stays")
        n = 0
        while self.make("m", f"s{n}") == 201:
            n += 1
        self.assertEqual(self.make("m", "more"), 507)
        self.set("m", when_full="oldest")
        self.right(self.infer("m", {"x": X}, "more", session_start=True))
        self.assertEqual([name for name in ("s0", "more", f"s{n - 1}") if name not in self.names("m")], ["s0"])
        self.assertEqual(self.names("other"), ["stays"])

    def test_sessions_end(self):
        """A model that is replaced ends those of the file before it, if that is said."""
        self.put("m", stateful.counter())
        self.make("m", "a")
        self.put("m?sessions=end", stateful.counter()) # the same file: nothing happens
        self.put("m?sessions=keep", stateful.counter(5))
        self.make("m", "b")
        self.assertEqual([self.see("m", name).get("model") for name in "ab"], ["replaced", None])
        self.put("m?sessions=end", stateful.counter(5))
        self.assertEqual(self.names("m"), ["b"])
        self.problem(self.infer("m", {"x": X}, "a"), 404, "ended", "with its model")
        self.put("m?sessions=end", models.line())
        self.assertEqual(self.names("m"), [])
        self.problem(self.service.call("PUT", "/v1/models/m?sessions=stop", models.line()), 400, "sessions: must be end")

    def test_what_is_wrong(self):
        self.put("m", stateful.counter())
        self.put("plain", models.line())
        call = lambda model, body: self.service.call("PUT", f"/v1/models/{model}/settings", body)
        self.problem(call("plain", {}), 400, "has no state")
        self.problem(call("nosuch", {}), 404, "nosuch")
        self.problem(self.service.call("GET", "/v1/models/nosuch/settings"), 404, "nosuch")
        for sessions, word in (({"max": -1}, "max"), ({"max": 1.0}, "max"), ({"max": 10**12}, "max"), ({"ttl_s": 0}, "ttl_s"), ({"ttl_s": "1"}, "ttl_s"),
                               ({"when_full": "youngest"}, "when_full"), ({"when_full": None}, "when_full"), ({"most": 1}, "most"), ([], "sessions"), (3, "sessions")):
            with self.subTest(sessions=sessions):
                self.problem(call("m", {"sessions": sessions}), 400, word)
        for body in (b"", b"{", b"[]", {"session": {}}):
            self.problem(call("m", body), 400)
        self.assertEqual(self.service.call("GET", "/v1/models/m/settings").json["sessions"]["max"], 0)


if __name__ == "__main__":
    service.main()
