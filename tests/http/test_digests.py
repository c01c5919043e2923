#!/usr/bin/env python3
"""The digest of a large model's file, which a thread makes after the load has been answered; who asks sooner gets it all the same."""
import hashlib
import os
import pathlib
import re
import time

import numpy as np
import onnx

import service
import stateful
from service import Service

FILE = {"Accept": "application/x-safetensors"}
X = {"input": np.ones((1, 2), np.float32)}


def large(seed, size=3 << 20):
    model = onnx.load_from_string(stateful.cell())
    model.doc_string = np.random.default_rng(seed).bytes(size // 2).hex()
    return model.SerializeToString()


class Digests(stateful.SessionTest):
    args = ("--tune", "off", "--pool", f"default={max(os.sched_getaffinity(0))}") # which is bound

    def snapshot(self, model, session):
        return self.service.call("GET", self.path(model, session), headers=FILE).body

    def test_at_once(self):
        """When the thread has not begun, is in its midst, or is done."""
        for i, pause in enumerate((0, 0, 0, 0.001, 0.003, 0.006, 0.01, 0.1)):
            for before in (0, 3):
                for n in range(before):
                    self.put(f"before{n}", large(100 + n))
                file = large(i)
                self.put("asked", file)
                self.assertEqual(self.service.call("PUT", self.path("asked", f"s{i}{before}"), {}).status, 201)
                time.sleep(pause)
                for _ in range(2):
                    self.assertIn(hashlib.sha256(file).hexdigest().encode(), self.snapshot("asked", f"s{i}{before}"))
                for n in range(before):
                    self.assertEqual(self.service.call("DELETE", f"/v1/models/before{n}").status, 204)

    def test_replaced(self):
        """The same bytes let sessions go on, others end them, though neither file has been hashed when they are compared."""
        for how in ("end", "keep"):
            self.put("changing", large(1))
            self.right(self.infer("changing", X, "s", session_start=True))
            self.put("changing?sessions=" + how, large(1))
            self.assertNotIn("model", self.see("changing", "s"))
            self.put("changing?sessions=" + how, large(2))
            if how == "end":
                self.problem(self.service.call("GET", self.path("changing", "s")), 404, "ended")
        self.assertEqual(self.see("changing", "s")["model"], "replaced")
        old = self.snapshot("changing", "s")
        self.assertIn(hashlib.sha256(large(1)).hexdigest().encode(), old)
        reply = self.service.call("PUT", self.path("changing", "t"), old, {"Content-Type": FILE["Accept"]})
        self.problem(reply, 409, hashlib.sha256(large(2)).hexdigest(), "?any=1")

    def test_in_passing(self):
        """Files that are replaced or deleted before they are hashed leave no bytes behind; nor does a server that ends then."""
        with Service(*self.args) as other:
            def held():
                metrics = other.call("GET", "/metrics").body.decode()
                return {name: int(re.search(rf"^tensord_{name}_bytes (\d+)$", metrics, re.M)[1]) for name in ("store", "memory", "memory_kept")}
            files, before = [large(i) for i in range(4)], held()
            for _ in range(3):
                for i in range(24):
                    self.assertLess(other.call("PUT", f"/v1/models/m{i % 5}", files[i % 4]).status, 300)
                for i in range(5):
                    self.assertEqual(other.call("DELETE", f"/v1/models/m{i}").status, 204)
            now = lambda: {name: n - before[name] for name, n in held().items()}
            self.assertTrue(service.eventually(lambda: now()["store"] == 0 and now()["memory"] - now()["memory_kept"] < 1 << 20), now())
            for i in range(8):
                other.call("PUT", f"/v1/models/m{i}", files[i % 4])
            bare = lambda: now()["memory"] - now()["memory_kept"] - now()["store"]
            self.assertTrue(service.eventually(lambda: bare() < 1 << 20), now()) # nobody has asked, and they are done
            for i in range(8):
                other.call("PUT", f"/v1/models/m{i}", files[i % 4])

    def test_beside_others(self):
        """On every CPU of the process, whatever thread has begun it, and where nobody else wants to."""
        self.put("small", stateful.cell()) # which needs none
        for n in range(2):
            self.put("first", large(n))
        tasks = pathlib.Path(f"/proc/{self.service.pid}/task").iterdir()
        mine, = [int(task.name) for task in tasks if (task / "comm").read_text() == "td digests\n"]
        self.assertTrue(service.eventually(lambda: os.getpriority(os.PRIO_PROCESS, mine) == 10))
        self.assertEqual(os.sched_getaffinity(mine), os.sched_getaffinity(0))


if __name__ == "__main__":
    service.main()
