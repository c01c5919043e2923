#!/usr/bin/env python3
"""Sessions under load and in trouble: two calls at once, a call that fails on its way, no room, lost clients."""
import contextlib
import json
import re
import threading
import time

import numpy as np

import service
import stateful
from service import Service

ONE = np.ones(1, np.float32)
ROW = np.ones((1, 2), np.float32)
NEVER = np.array(2**62) # turns of a loop


class Calls(stateful.SessionTest):
    def setUp(self):
        self.put("slow", stateful.slow())
        self.put("cell", stateful.cell())
        self.right(self.infer("slow", {"n": np.array(3)}, "s", session_start=True))

    def begun(self, **parameters):
        """A call in session "s" that never ends, under way; what joins it gives its reply."""
        replies = []
        thread = threading.Thread(target=lambda: replies.append(self.infer("slow", {"n": NEVER}, "s", **parameters)))
        thread.start()
        self.assertTrue(service.eventually(lambda: self.see("slow", "s")["busy"]))
        return lambda: (thread.join(), replies[0])[1]

    def is_unchanged(self, step=1, value=3):
        seen = self.see("slow", "s")
        self.assertEqual((seen["step"], seen["state"][0]["data"], seen["busy"]), (step, [value], False))

    # ---- two at once ----

    def test_conflict(self):
        end = self.begun(timeout_ms=4000) # longer than the calls below take on a busy machine
        self.problem(self.infer("slow", {"n": np.array(1)}, "s"), 409, "another call is at it", "session_wait_ms")
        self.problem(self.infer("slow", {"n": np.array(1)}, "s", session_wait_ms=50), 409, "longer than 50 ms")
        self.problem(self.service.call("DELETE", self.path("slow", "s")), 409)
        self.problem(self.service.call("DELETE", self.path("slow", "s") + "?wait_ms=20"), 409, "longer than 20 ms")
        self.problem(self.service.call("PUT", self.path("slow", "s"), {}), 409)
        self.assertEqual(self.service.call("PUT", self.path("slow", "fork"), {"from": "s"}).json["step"], 1) # as it was
        self.right(self.infer("slow", {"n": np.array(1)}, "fork"))
        self.problem(end(), 504, "timeout_ms")
        self.is_unchanged()
        self.assertEqual(self.right(self.infer("slow", {"n": np.array(2)}, "s"))["y"], 5)

    def test_waiting(self):
        """Those that wait come one after the other, and none is lost."""
        end = self.begun(timeout_ms=1000)
        replies = []
        def call(): # Triton's sequences wait by themselves
            replies.append(self.infer("slow", {"n": np.array(1)}, sequence_id="s"))
        threads = [threading.Thread(target=call) for _ in range(10)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        self.assertEqual(end().status, 504)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(int(self.right(r)["y"][0]) for r in replies), list(range(4, 14)))
        self.assertEqual(sorted(r.parameters["session_step"] for r in replies), list(range(2, 12)))
        self.is_unchanged(11, 13)

    def test_too_many_wait(self):
        end = self.begun(timeout_ms=3000)
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(self.infer("slow", {"n": np.array(1)}, "s", session_wait_ms=20000)))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        self.assertTrue(service.eventually(lambda: len(replies) >= 4))
        self.assertEqual(self.service.call("DELETE", self.path("slow", "s") + "?wait_ms=1").status, 409)
        self.assertEqual(end().status, 504)
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(r.status for r in replies), [200] * 16 + [409] * 4)

    def test_delete_that_waits(self):
        end = self.begun(timeout_ms=500)
        gone = self.service.call("DELETE", self.path("slow", "s") + "?wait_ms=20000")
        self.assertEqual((gone.status, end().status), (204, 504))
        self.problem(self.infer("slow", {"n": np.array(1)}, "s"), 404, "it ended")

    def test_model_that_goes(self):
        """A call under way ends as ever, those that wait are told, and nothing is left."""
        end, waited = self.begun(timeout_ms=1000), []
        thread = threading.Thread(target=lambda: waited.append(self.infer("slow", {"n": np.array(1)}, "s", session_wait_ms=9000)))
        thread.start()
        time.sleep(0.2)
        self.assertEqual(self.service.call("DELETE", "/v1/models/slow").status, 204)
        thread.join()
        self.problem(waited[0], 404, "ended while this call waited")
        self.assertEqual(end().status, 504)
        self.put("slow", stateful.slow())
        self.problem(self.infer("slow", {"n": np.array(1)}, "s"), 404, "with its model")

    # ---- a step as a whole or not at all ----

    def test_task_that_is_deleted(self):
        body, headers = service.pack({"n": NEVER}, {"session": "s"})
        reply = self.service.call("POST", "/v2/models/slow/infer", body, {**headers, "Prefer": "respond-async"})
        self.assertEqual(reply.status, 202)
        self.problem(self.infer("slow", {"n": np.array(1)}, "s"), 409)
        self.assertEqual(self.service.call("DELETE", reply.headers["Location"]).status, 204)
        self.assertTrue(service.eventually(lambda: not self.see("slow", "s")["busy"]))
        self.is_unchanged()

    def test_failures(self):
        """Whatever is wrong before the end: the session is as it was, and free at once."""
        x = {"n": np.array(1)}
        for outputs, status in (([{"name": "nosuch"}], 400), ([{"name": "y", "parameters": {"shared_memory_region": "none",
                                 "shared_memory_byte_size": 4}}], 404), ([{"name": "y", "parameters": {"tensor": "/"}}], 400)):
            self.problem(self.infer("slow", x, "s", outputs=outputs), status)
            self.is_unchanged()
        self.problem(self.infer("slow", {"n": np.float32(1)}, "s"), 400)
        self.problem(self.infer("slow", x, "s", pool="nosuch"), 404)
        self.problem(self.infer("slow", x, "s", streams=2), 400)
        self.problem(self.infer("slow", x, "new", session_start=True, outputs=[{"name": "nosuch"}]), 400)
        self.problem(self.service.call("GET", self.path("slow", "new")), 404) # nor is there a new one
        self.is_unchanged()

    def test_lost_clients(self):
        """Who goes away in the middle leaves a session that can be used."""
        body, headers = service.pack({"n": np.array(30_000)}, {"session": "s"})
        head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        for cut in (10, len(head) + 5, None):
            with self.service.socket() as s:
                s.sendall((head + body)[:cut])
        self.assertTrue(service.eventually(lambda: not self.see("slow", "s")["busy"]))
        step = self.see("slow", "s")["step"]
        self.assertIn(step, (1, 2))
        self.assertEqual(self.right(self.infer("slow", {"n": np.array(1)}, "s", session_step=step))["y"], 4 if step == 1 else 30_004)

    def test_stress(self):
        """Many threads at few sessions: each step is applied once, in the order that its number says."""
        done, lock = {}, threading.Lock()
        def run(seed):
            with contextlib.closing(self.service.connect()) as connection:
                for i in range(40):
                    name = f"x{(seed + i) % 3}"
                    reply = self.infer("slow", {"n": np.array(1)}, sequence_id=name, connection=connection)
                    with lock:
                        done.setdefault(name, []).append((reply.parameters["session_step"], float(self.right(reply)["y"][0])))
        for k in range(3):
            self.service.call("PUT", self.path("slow", f"x{k}"), {})
        threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, steps in done.items():
            self.assertEqual(sorted(steps), [(n, float(n)) for n in range(1, len(steps) + 1)])

    # ---- what is told ----

    def test_metrics(self):
        text = lambda: self.service.call("GET", "/metrics").body.decode()
        number = lambda name: int(re.search(rf"^{re.escape(name)} (\d+)$", text(), re.M)[1])
        steps, ended = number("tensord_session_steps_total"), number('tensord_sessions_ended_total{reason="end"}')
        self.put("told", stateful.cell())
        self.right(self.infer("told", {"input": ROW}, "a", session_start=True))
        self.right(self.infer("told", {"input": ROW}, "b", session_start=True))
        self.right(self.infer("told", {"input": ROW}, "b", session_end=True))
        self.assertEqual(number('tensord_sessions{model="told"}'), 1)
        self.assertGreater(number('tensord_session_bytes{model="told"}'), 12)
        self.assertEqual(number("tensord_session_steps_total"), steps + 3)
        self.assertEqual(number('tensord_sessions_ended_total{reason="end"}'), ended + 1)
        self.assertEqual(self.service.call("DELETE", "/v1/models/told").status, 204)
        self.assertNotIn('tensord_sessions{model="told"}', text())


class Room(stateful.SessionTest):
    args = ("--session-bytes", "1M", "--log", "json")

    def test_ten_thousand(self):
        self.put("cell", stateful.cell())
        made = 0
        with contextlib.closing(self.service.connect()) as connection:
            for i in range(10000):
                reply = self.infer("cell", {"input": ROW}, f"n{i}", session_start=True, connection=connection)
                if reply.status != 200:
                    break
                made += 1
            self.problem(reply, 507, "session-bytes")
            longer = self.infer("cell", {"input": ROW}, f"more{made}", session_start=True) # one without contents may fit still
            self.problem(longer, 507, "session-bytes")
            self.assertGreater(made, 1000)
            for i in range(made): # the full ones go on
                self.right(self.infer("cell", {"input": ROW}, f"n{i}", session_step=1, connection=connection))
            listed = self.service.call("GET", self.path("cell") + "?limit=1000").json
            self.assertEqual((listed["count"], len(listed["sessions"])), (made, min(made, 1000)))
            self.assertLessEqual(listed["store"]["bytes"], listed["store"]["limit_bytes"])
            self.assertLessEqual(listed["store"]["bytes"], made * (ROW.shape[0] * 3 * 4 + 512)) # a small state is not lost in its frame
            for i in range(100):
                self.assertEqual(self.service.call("DELETE", self.path("cell", f"n{i}"), connection=connection).status, 204)
            for i in range(50):
                self.right(self.infer("cell", {"input": ROW}, f"m{i}", session_start=True, connection=connection))
        self.assertEqual(self.service.call("DELETE", "/v1/models/cell").status, 204)
        self.put("cell", stateful.cell())
        listed = self.service.call("GET", self.path("cell")).json
        self.assertEqual((listed["count"], listed["store"]["bytes"]), (0, 0))

    def test_growing_beyond(self):
        """A step for which there is no room changes nothing."""
        self.put("cache", stateful.cache())
        rows = np.ones((1, 20000, 2), np.float32)
        for i in range(20):
            reply = self.infer("cache", {"new": rows}, "s", session_start=i == 0, binary=True)
            if reply.status != 200:
                break
        self.problem(reply, 507, "nothing has been changed")
        seen = self.see("cache", "s")
        self.assertEqual((seen["step"], seen["state"][0]["used"]), (i, i * 20000))
        self.right(self.infer("cache", {"new": rows[:, :1]}, "s", session_step=i))
        self.assertEqual(self.service.call("DELETE", self.path("cache", "s")).status, 204)


class Log(stateful.SessionTest):
    def test_fields(self):
        with Service("--log", "json") as own:
            own.call("PUT", "/v1/models/cell", stateful.cell())
            for i in range(2):
                self.right(self.infer("cell", {"input": ROW}, "s", session_start=i == 0, to=own))
        lines = [json.loads(line) for line in own.log.splitlines() if '"session"' in line]
        self.assertEqual([(line["session"], line["step"]) for line in lines], [("s", 1), ("s", 2)])


if __name__ == "__main__":
    service.main()
