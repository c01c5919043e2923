#!/usr/bin/env python3
"""Generation by token ids, held to a client that feeds each token and draws the next one itself."""
import collections
import contextlib
import json
import threading

import numpy as np

import models
import service
import stateful

V = stateful.VOCABULARY


def log_softmax(x):
    x = np.asarray(x, np.float64)
    return x - x.max() - np.log(np.exp(x - x.max()).sum())


class Generate(stateful.SessionTest):
    args = ("--tune", "off") # measurements may choose another kernel between two generations, which may round differently

    def setUp(self):
        self.put("decoder", stateful.decoder())

    def generate(self, ids, model="decoder", **parameters):
        return self.service.call("POST", f"/v2/models/{model}/generate", {"input_ids": ids, "parameters": parameters})

    def done(self, ids, **parameters):
        reply = self.generate(ids, **parameters)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply.json

    def by_hand(self, ids, n, penalty=1, name="hand"):
        """The likeliest tokens and their logprobs, one call each."""
        tokens, logprobs, seen = [], [], set(ids)
        for i in range(n):
            feed = ids if not i else tokens[-1:]
            got = self.right(self.infer("decoder", {"input_ids": np.array([feed])}, name, session_start=i == 0))["logits"][0, -1]
            weighed = np.array([(x / penalty if x > 0 else x * penalty) if t in seen else x for t, x in enumerate(got.astype(float))])
            tokens.append(int(weighed.argmax()))
            logprobs.append(log_softmax(got)[tokens[-1]])
            seen.add(tokens[-1])
        return tokens, logprobs

    def test_likeliest(self):
        for ids in ([1], [1, 2, 3], [stateful.RANDOM.randrange(V) for _ in range(9)]):
            for penalty in (1, 2.5):
                wanted, logprobs = self.by_hand(ids, 12, penalty)
                got = self.done(ids, max_tokens=12, logprobs=1, repetition_penalty=penalty)
                self.assertEqual((got["tokens"], got["finish_reason"], got["model_name"]), (wanted, "length", "decoder"))
                np.testing.assert_allclose(got["logprobs"], logprobs, 1e-4, 1e-5)
        self.assertEqual(len(self.done([1])["tokens"]), 64)
        wanted, _ = self.by_hand([1], 12)
        for how in ({"top_k": 1}, {"top_p": 1e-9}, {"top_p": 0}, {"temperature": 1e-6}):
            got = self.done([1], max_tokens=12, **{"temperature": 1, **how})
            self.assertEqual(got["tokens"], wanted, how)

    def test_stop_and_full(self):
        tokens, _ = self.by_hand([1, 2, 3], 10)
        stop = tokens[4]
        got = self.done([1, 2, 3], max_tokens=10, stop=[99, stop])
        self.assertEqual((got["finish_reason"], got["tokens"]), ("stop", tokens[:tokens.index(stop)]))
        got = self.done([1, 2, 3], max_tokens=1000, session="f", session_start=True) # the model has 64 places
        self.assertEqual((got["finish_reason"], len(got["tokens"])), ("full", 62))
        self.assertEqual(self.see("decoder", "f")["state"][0]["used"], 64) # as it was before the last
        self.problem(self.generate([1], session="f"), 400)
        self.assertEqual(self.see("decoder", "f")["step"], got["session_step"])

    def test_sessions(self):
        """What goes on from a session is what one generation would have been."""
        wanted = self.done([1, 2, 3], max_tokens=9)["tokens"]
        one = self.done([1, 2, 3], max_tokens=4, session="s", session_start=True)
        self.assertEqual((one["session"], one["session_step"]), ("s", 4))
        two = self.done(one["tokens"][-1:], max_tokens=5, session="s")
        self.assertEqual(one["tokens"] + two["tokens"], wanted)
        self.problem(self.generate([1], session="nobody"), 404, "nobody")
        self.assertEqual(self.see("decoder", "s")["busy"], False)

    def test_chance(self):
        draw = lambda seed, **how: self.done([4], max_tokens=1, temperature=1.5, seed=seed, **how)["tokens"][0]
        logits = self.right(self.infer("decoder", {"input_ids": np.array([[4]])}, "c", session_start=True))["logits"][0, -1]
        share = np.exp(log_softmax(logits / 1.5))
        first = stateful.RANDOM.randrange(10**9)
        counted = collections.Counter(draw(first + i) for i in range(2000))
        for token in range(V):
            self.assertLess(abs(counted[token] / 2000 - share[token]), 5 * (share[token] / 2000) ** 0.5 + 0.002)
        best = np.argsort(-logits, kind="stable")
        self.assertEqual({draw(first + i, top_k=3) for i in range(200)} - set(best[:3].tolist()), set())
        kept = int(np.searchsorted(np.cumsum(share[best]), 0.7)) + 1
        self.assertEqual({draw(first + i, top_p=0.7) for i in range(200)} - set(best[:kept].tolist()), set())
        again = [self.done([4], max_tokens=20, temperature=1.5, seed=11)["tokens"] for _ in range(2)]
        self.assertEqual(*again)
        self.assertGreater(len({str(self.done([4], max_tokens=20, temperature=1.5)["tokens"]) for _ in range(5)}), 1)

    def test_at_once(self):
        """Generations take turns, and none sees another."""
        wanted = {i: self.done([i], max_tokens=20)["tokens"] for i in range(8)}
        got = {}
        threads = [threading.Thread(target=lambda i=i: got.update({i: self.done([i], max_tokens=20)["tokens"]})) for i in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(got, wanted)

    # ---- as events ----

    def events(self, ids, **parameters):
        reply = self.service.call("POST", "/v2/models/decoder/generate_stream", {"input_ids": ids, "parameters": parameters})
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "text/event-stream"))
        return [json.loads(event.removeprefix("data: ")) for event in reply.body.decode().split("\n\n")[:-1]]

    def test_events(self):
        wanted = self.done([1, 2, 3], max_tokens=10, logprobs=1)
        *tokens, end = self.events([1, 2, 3], max_tokens=10)
        self.assertEqual([(e["index"], e["token"], e["logprob"]) for e in tokens],
                         list(zip(range(10), wanted["tokens"], wanted["logprobs"])))
        self.assertEqual((end["tokens"], end["finish_reason"]), (wanted["tokens"], "length"))
        self.assertEqual([e["finish_reason"] for e in self.events([1], stop=list(range(V)))], ["stop"])
        *tokens, end = self.events([1, 2, 3], max_tokens=1000, session="v", session_start=True)
        self.assertEqual((len(tokens), end["finish_reason"], end["session_step"]), (62, "full", 62))
        self.assertFalse(self.see("decoder", "v")["busy"])
        for body in (b"", {"input_ids": []}, {"input_ids": [1], "parameters": {"session": "nobody"}}, {"input_ids": [V]}):
            reply = self.service.call("POST", "/v2/models/decoder/generate_stream", body) # nothing has begun: a problem
            self.assertEqual(reply.headers["Content-Type"], "application/problem+json")

    def request(self, body):
        text = json.dumps(body).encode()
        return b"POST /v2/models/long/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)

    def test_readers_that_go(self):
        """A generation whose client has gone ends soon, in whatever moment that was."""
        self.put("long", stateful.decoder(100_000))
        for cut in (0, 1, 500, 5000, 50000):
            with self.service.socket() as s:
                s.sendall(self.request({"input_ids": [1], "parameters": {"max_tokens": 90000, "session": "g", "session_start": True}}))
                left = cut
                while left > 0:
                    left -= len(s.recv(left))
            gone = lambda: (self.service.call("GET", self.path("long", "g")).json or {}).get("busy") is not True
            self.assertTrue(service.eventually(gone), cut)
            self.service.call("DELETE", self.path("long", "g"))
        with contextlib.closing(self.service.connect()) as look:
            self.service.under_way(0, look)
        self.alive()

    def test_slow_reader(self):
        """What is not read yet waits; each event comes whole, in order."""
        self.put("long", stateful.decoder(100_000))
        with self.service.socket(60) as s:
            s.sendall(self.request({"input_ids": [1], "parameters": {"max_tokens": 3000}}).replace(b"HTTP/1.1", b"HTTP/1.0"))
            data = b""
            while part := s.recv(700):
                data += part
        events = [json.loads(e.removeprefix("data: ")) for e in data.decode().partition("\r\n\r\n")[2].split("\n\n")[:-1]]
        self.assertEqual([e["index"] for e in events[:-1]], list(range(3000)))
        self.assertEqual([e["token"] for e in events[:-1]], events[-1]["tokens"])

    def test_time_is_over(self):
        self.put("long", stateful.decoder(100_000))
        reply = self.service.call("POST", "/v2/models/long/generate_stream",
                                  {"input_ids": [1], "parameters": {"max_tokens": 90000, "timeout_ms": 300}})
        self.assertIn("timeout_ms", json.loads(reply.body.decode().split("data: ")[-1])["error"])
        self.problem(self.service.call("POST", "/v2/models/long/generate", {"input_ids": [1], "parameters": {
            "max_tokens": 90000, "timeout_ms": 300}}), 504, "tokens had come")

    def test_end_of_the_server(self):
        """What is on its way is brought to its end; a second SIGTERM ends it at once."""
        with service.Service() as own:
            own.call("PUT", "/v1/models/decoder", stateful.decoder(5000))
            got = []
            thread = threading.Thread(target=lambda: got.append(own.call("POST", "/v2/models/decoder/generate_stream",
                                                                         {"input_ids": [1], "parameters": {"max_tokens": 1500}})))
            thread.start()
            with contextlib.closing(own.connect()) as look:
                own.under_way(2, look) # the request, and the generation
        thread.join()
        self.assertEqual(json.loads(got[0].body.decode().split("data: ")[-1])["finish_reason"], "length")

    def test_what_is_wrong(self):
        self.put("plain", models.line())
        self.problem(self.generate([1], model="plain"), 400, "generates no tokens")
        self.problem(self.generate([1], model="nosuch"), 404, "nosuch")
        for ids in ([], [1.5], [-1], ["a"], "abc", None, [2**40], [[1]]):
            self.problem(self.generate(ids), 400, "input_ids")
        self.problem(self.generate([V + 5]), 400) # a token that the model has not
        for wrong in ({"max_tokens": 0}, {"max_tokens": 10**9}, {"temperature": -1}, {"temperature": "x"}, {"top_p": 2}, {"top_k": -1},
                      {"repetition_penalty": 0}, {"seed": -1}, {"stop": 1}, {"logprobs": 9}, {"session": 1}, {"session_start": True},
                      {"session": "a/b"}, {"max_token": 5}, {"timeout_ms": -1}):
            self.problem(self.generate([1], **wrong), 400, next(iter(wrong)).split("_")[0])
        self.problem(self.generate([1], pool="nosuch"), 404, "nosuch")
        for body in (b"", b"{", b"[]", {"parameters": {}}, {"input_ids": [1], "more": 1}, {"input_ids": [1], "parameters": []}):
            self.problem(self.service.call("POST", "/v2/models/decoder/generate", body), 400)
        self.alive()


if __name__ == "__main__":
    service.main()
