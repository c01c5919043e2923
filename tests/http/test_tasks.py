#!/usr/bin/env python3
"""Tasks: calls answered 202, waited for, fetched, cancelled, forgotten."""
import os
import random
import re
import signal
import threading
import time
import unittest

import numpy as np

import service
from service import Service, stored

FIRST, LAST = (str(sorted(os.sched_getaffinity(0))[i]) for i in (0, -1))
SIDE = service.slow_side(0.4)
ASYNC = {"Prefer": "respond-async"}
A = np.arange(6, dtype=np.float32).reshape(2, 3)


class Tasks:
    """What the tests do with tasks of self.service."""

    def submit(self, op, inputs, parameters=None, prefer="respond-async", path="/v1/ops/{}", connection=None, **how):
        body, headers = service.pack(inputs, parameters, **how)
        return self.service.call("POST", path.format(op), body, {**headers, "Prefer": prefer}, connection)

    def begin(self, *args, **how):
        """The Location of a task that has been accepted."""
        reply = self.submit(*args, **how)
        self.assertEqual(reply.status, 202, reply.body[:300])
        self.assertRegex(reply.headers["Location"], r"^/v1/tasks/[0-9a-f]{32}$")
        self.assertEqual(reply.headers["Location"].rsplit("/", 1)[1], reply.json["id"])
        self.assertEqual(reply.json["state"], "queued")
        return reply.headers["Location"]

    def end(self, location, wait=60, status=200, connection=None):
        reply = self.service.call("GET", f"{location}?wait={wait}", connection=connection)
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply

    def get(self, location, query=""):
        return self.service.call("GET", location + query)

    def delete(self, location):
        return self.service.call("DELETE", location)

    def list(self):
        return self.service.call("GET", "/v1/tasks").json["tasks"]

    def keep_matrix(self):
        head = b'{"shape":[%d,%d],"datatype":"FP32"}' % (SIDE, SIDE)
        self.service.call("PUT", "/v1/tensors/m", head + np.ones((SIDE, SIDE), np.float32).tobytes(),
                          {"Inference-Header-Content-Length": str(len(head))})

    def slow(self, pool=None, **parameters):
        """A task that takes some tenths of a second."""
        self.keep_matrix()
        where = {"pool": pool} if pool else {}
        return self.begin("matmul", {"self": stored("m"), "other": stored("m")},
                          {"kernel": "ref", "binary_data_output": True, **where, **parameters})

    def hold(self, pool=None):
        """A task that runs for long, or until it is deleted; what is behind it in the pool waits."""
        image, weight = np.ones((1, 32, 128, 128), np.float32), np.ones((512, 32, 5, 5), np.float32)
        where = {"pool": pool} if pool else {}
        task = self.begin("conv2d", {"input": image, "weight": weight},
                          {"kernel": "ref", "padding": [2, 2], **where}, binary=True)
        self.until(lambda: self.running(task), "it does not run")
        return task

    def until(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.005)

    def running(self, location):
        return self.get(location).json.get("state") == "running"

    def metric(self, name):
        text = self.service.call("GET", "/metrics").body.decode()
        return float(re.search("^" + re.escape(name) + r" (\S+)$", text, re.M)[1])


class Life(service.ServiceTest, Tasks):
    args = ("--pool", f"a={LAST}", "--pool", f"b={LAST}:queue_depth=3")

    def test_every_form(self): # RT-14
        """What the task gives is what the call itself would: status, headers, body."""
        for path in ("/v1/ops/{}", "/v2/models/op.{}/infer", "/v2/models/op.{}/versions/1/infer"):
            for binary in (False, True):
                how = {"path": path, "binary": binary, "id": "seven"}
                direct = self.service.infer("add", {"self": A, "other": A}, {"alpha": 3}, **how)
                reply = self.end(self.begin("add", {"self": A, "other": A}, {"alpha": 3}, **how))
                np.testing.assert_array_equal(reply.out, 4 * A)
                for said in (direct.json, reply.json):
                    said.pop("parameters")
                self.assertEqual(reply.json["outputs"], direct.json["outputs"])
                self.assertEqual((reply.json["id"], reply.json["model_name"]), ("seven", direct.json["model_name"]))
                for header in ("Content-Type", "Inference-Header-Content-Length"):
                    self.assertEqual(header in reply.headers, header in direct.headers)
                self.assertEqual(reply.headers["Content-Type"], direct.headers["Content-Type"])

    def test_prefer(self):
        for prefer in ("respond-async", "Respond-Async", "wait=1, respond-async", "respond-async;x=1,y", " respond-async "):
            self.assertEqual(self.submit("relu", {"self": A}, prefer=prefer).status, 202, prefer)
        for prefer in ("", "respond", "respond-asynchronously", "x-respond-async", "wait=1", ",,;"):
            self.assertEqual(self.submit("relu", {"self": A}, prefer=prefer).status, 200, prefer)
        self.assertEqual(self.submit("relu", {"self": A}).headers["Preference-Applied"], "respond-async")
        self.assertEqual(self.service.call("GET", "/v1/ops/relu", headers=ASYNC).status, 200)

    def test_wrong_calls_are_told_at_once(self):
        self.problem(self.submit("nosuch", {"self": A}), 404, "nosuch")
        self.problem(self.submit("relu", {"other": A}), 400, "other")
        self.problem(self.submit("relu", {"self": A}, {"pool": "nosuch"}), 404, "nosuch")
        self.assertEqual(self.submit("relu", {"self": A}, {"meta": True}).status, 200)

    def test_errors_surface_with_the_result(self): # RT-19
        """And can be read as often as any other result."""
        reply = self.submit("relu", {"self": A}, {"kernel": "nosuch"}) # what is known at once is no task
        self.problem(reply, 400, "kernel", "nosuch", "simd")
        first = self.hold("b")
        late = self.begin("relu", {"self": A}, {"pool": "b", "timeout_ms": 1})
        time.sleep(0.01)
        self.delete(first)
        for _ in range(2):
            self.problem(self.end(late, status=504), 504, "timeout_ms")
        self.assertEqual([t["status"] for t in self.list() if t["id"] in late], [504])

    def test_wait(self):
        first = self.hold("a")
        location = self.begin("relu", {"self": A}, {"pool": "a"})
        begin = time.monotonic()
        pending = self.get(location, "?wait=0.05")
        self.assertEqual((pending.status, pending.json["state"]), (202, "queued"))
        self.assertGreaterEqual(time.monotonic() - begin, 0.05)
        for query in ("", "?", "?wait=0", "?&wait=0"):
            self.assertEqual(self.get(location, query).status, 202, query)
        for query in ("?other=wait", "?wai=1", "?x=1&wait=0"):
            self.assertEqual(self.get(location, query).status, 400, query)
        self.delete(first)
        reply = self.end(location)
        np.testing.assert_array_equal(reply.out, A)
        self.assertEqual(self.end(location, 600).body, reply.body) # at once, again
        for wait in ("", "x", "-1", "601", "nan", "1e9", "1x"):
            self.problem(self.get(location, f"?wait={wait}"), 400, "wait")
        self.problem(self.get(location, "?wait"), 400, "wait")

    def test_waiting_takes_no_thread(self):
        """This server has two HTTP threads; far more wait for one task, and all get the result."""
        first, replies = self.hold("a"), []
        location = self.begin("relu", {"self": A}, {"pool": "a"})
        threads = [threading.Thread(target=lambda: replies.append(self.end(location))) for _ in range(30)]
        for t in threads:
            t.start()
        look = self.service.connect()
        self.service.under_way(2 + 30, look)
        look.close()
        quick = self.service.call("GET", "/v2/health/live")
        during = self.get(location).status
        self.delete(first)
        for t in threads:
            t.join()
        self.assertEqual(quick.status, 200)
        self.assertEqual(during, 202)
        self.assertEqual((len(replies), len({reply.body for reply in replies})), (30, 1))
        np.testing.assert_array_equal(replies[0].out, A)

    def test_unknown(self):
        for name in ("x", "0" * 32, "0" * 31, "%2e", "-1", "f" * 3000):
            self.problem(self.get("/v1/tasks/" + name), 404, "task-ttl-s")
            self.problem(self.get("/v1/tasks/" + name, "?wait=10"), 404)
            self.problem(self.delete("/v1/tasks/" + name), 404)

    def test_list(self):
        first = self.hold("a")
        second = self.begin("relu", {"self": np.ones(1000, np.float32)}, {"pool": "a"}, binary=True)
        tasks = {t["id"]: t for t in self.list()}
        one, two = (tasks[location.rsplit("/", 1)[1]] for location in (first, second))
        self.assertEqual((one["state"], two["state"]), ("running", "queued"))
        self.assertEqual((one["operator"], one["pool"]), ("conv2d", "a"))
        self.delete(first)
        self.end(second)
        done = next(t for t in self.list() if t["id"] in second)
        self.assertEqual((done["state"], done["status"]), ("done", 200))
        self.assertGreater(done["bytes"], 4 * 1000)
        self.assertTrue(50_000 < done["left_ms"] <= 60_000)

    def test_cancel(self):
        """A queued task never runs, those who wait for it are told; a running one is stopped."""
        first = self.hold("a")
        queued, replies = self.begin("sigmoid", {"self": A}, {"pool": "a"}), []
        waiter = threading.Thread(target=lambda: replies.append(self.get(queued, "?wait=60")))
        look = self.service.connect()
        self.service.under_way(2, look)
        waiter.start()
        self.service.under_way(2 + 1, look)
        look.close()
        self.assertEqual(self.delete(queued).status, 204)
        waiter.join()
        self.problem(replies[0], 404, "cancelled")
        self.problem(self.get(queued), 404)
        self.problem(self.delete(queued), 404)
        self.assertEqual(self.delete(first).status, 204)
        self.problem(self.get(first), 404)
        self.end(self.begin("relu", {"self": A}, {"pool": "a"})) # what was queued has come out by now
        self.assertNotIn('op="sigmoid"', self.service.call("GET", "/metrics").body.decode())

    def ends_while_it_runs(self, op, inputs, **parameters):
        """It is given 300 ms, once more where a busy machine had it wait so long that it did not begin."""
        for _ in range(10):
            begin = time.monotonic()
            late = self.service.infer(op, inputs, {"kernel": "ref", "timeout_ms": 300, **parameters}, binary=True)
            self.problem(late, 504, "timeout_ms")
            self.assertLess(time.monotonic() - begin, 10)
            if "took" in late.json["detail"]:
                return
        self.fail(f"{op} never began")

    def test_a_running_call_ends_in_time(self):
        """A call that would take minutes is left where its client says so, by DELETE or timeout_ms."""
        rng = np.random.default_rng(1)
        image = rng.random((1, 32, 128, 128), np.float32)
        weight = rng.random((512, 32, 5, 5), np.float32)
        self.ends_while_it_runs("conv2d", {"input": image, "weight": weight}, padding=[2, 2])
        bag = {"weight": np.ones((4, 100000), np.float32), "indices": np.zeros(200000, np.int64), "offsets": np.zeros(1, np.int64)}
        self.ends_while_it_runs("embedding_bag", bag) # one of many numbers, in many columns
        task = self.hold("a")
        begin = time.monotonic()
        self.assertEqual(self.delete(task).status, 204)
        self.service.op("relu", {"self": A}, {"pool": "a", "kernel": "ref"}) # its worker is free again
        self.until(lambda: self.metric('tensord_tasks{state="running"}') == 0, "it still runs")
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_call_that_says_nothing(self):
        """The server's own limit ends it, unless the client has one of its own."""
        image, weight = np.ones((1, 32, 128, 128), np.float32), np.ones((512, 32, 5, 5), np.float32)
        small = {"input": image[:, :, :9, :9], "weight": weight[:9]}
        with Service("--timeout-ms", "300") as s:
            late = s.infer("conv2d", {"input": image, "weight": weight}, {"kernel": "ref", "padding": [2, 2]}, binary=True)
            self.problem(late, 504, "timeout_ms", "300 ms")
            own = s.infer("conv2d", small, {"kernel": "ref", "timeout_ms": 60000}, binary=True)
            self.assertEqual(own.status, 200, own.body[:300])

    def test_full_queue(self): # RT-18
        first = self.hold("b")
        replies = [self.submit("relu", {"self": A}, {"pool": "b"}) for _ in range(5)]
        self.assertEqual([r.status for r in replies], [202] * 3 + [429] * 2)
        self.problem(replies[-1], 429, "b", "full")
        self.assertGreaterEqual(int(replies[-1].headers["Retry-After"]), 0)
        self.assertEqual(len([t for t in self.list() if t["pool"] == "b" and t["state"] == "queued"]), 3)
        self.delete(first)
        for reply in replies[:3]:
            self.end(reply.headers["Location"])

    def test_a_pool_that_goes(self): # RT-18
        """What its queue holds is done, and then there is no such pool."""
        self.service.call("PUT", "/v1/pools/gone", {"cpus": LAST})
        locations = [self.slow("gone") for _ in range(3)]
        self.assertEqual(self.service.call("DELETE", "/v1/pools/gone").status, 204)
        self.problem(self.submit("relu", {"self": A}, {"pool": "gone"}), 404, "gone")
        for location in locations:
            self.assertTrue((self.end(location).out == SIDE).all())

    def test_two_pools_at_a_time(self): # RT-16
        first, second = self.hold("a"), self.hold("b")
        self.assertTrue(self.running(first) and self.running(second), "not at the same time")
        for task in (first, second):
            self.assertEqual(self.delete(task).status, 204)


class TwoPools(service.ServiceTest, Tasks):
    """On CPUs of their own, each with a worker."""
    args = ("--pool", f"a={FIRST}", "--pool", f"b={LAST}", "--io-cpus", FIRST)

    @unittest.skipIf(FIRST == LAST, "skipped: one CPU")
    def test_each_on_its_own_cpu(self): # RT-16
        """Both run in one look at the list; how much sooner they end so, tests/bench/overlap.py measures."""
        self.assertEqual([self.service.call("GET", "/v1/pools/" + pool).json["cpus"] for pool in "ab"], [FIRST, LAST])
        tasks = [self.hold(pool) for pool in "ab"]
        self.assertEqual([t["state"] for t in self.list()], ["running"] * 2, "not at the same time")
        for task in tasks:
            self.assertEqual(self.delete(task).status, 204)


class Arguments(service.ServiceTest, Tasks):
    def test_each_task_has_its_own(self): # RT-21
        """100 tasks under way, each with data of its own, from connections that are long closed."""
        rng = np.random.default_rng(1)
        tensors = [rng.standard_normal((64, 64)).astype(np.float32) for _ in range(100)]
        locations = [self.begin("add", {"self": x, "other": x}, {"alpha": i}, binary=True)
                     for i, x in enumerate(tensors)]
        for i, (x, location) in enumerate(zip(tensors, locations)):
            np.testing.assert_allclose(self.end(location).out, x + np.float32(i) * x, rtol=1e-5, atol=1e-5)

    def test_one_input_many_tasks(self): # RT-22
        """A stored tensor that is replaced and deleted under them stays what it was for each."""
        weight = np.ones((50, 40), np.float32)
        x = np.arange(80, dtype=np.float32).reshape(2, 40)
        locations = []
        for i in range(20):
            self.service.call("PUT", "/v1/tensors/w", {"shape": [50, 40], "datatype": "FP32",
                                                       "data": (i * weight).ravel().tolist()})
            locations.append(self.begin("linear", {"input": x, "weight": stored("w")}, {"bias": None}))
        self.service.call("DELETE", "/v1/tensors/w")
        for i, location in enumerate(locations):
            np.testing.assert_allclose(self.end(location).out, i * (x @ weight.T), rtol=1e-6)

    def test_one_task_many_readers(self): # RT-22
        location, replies = self.begin("relu", {"self": A}, binary=True), []
        threads = [threading.Thread(target=lambda: replies.append(self.end(location).body)) for _ in range(20)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((len(replies), len(set(replies))), (20, 1))

    def test_shared_memory(self):
        """The region is the task's until it is done, whoever unregisters it."""
        key = f"/tensord_tasks_{os.getpid()}"
        with open("/dev/shm" + key, "xb") as f:
            f.write(A.tobytes() + bytes(A.nbytes))
        self.addCleanup(os.unlink, f.name)
        path = "/v2/systemsharedmemory/region/r/"
        self.assertEqual(self.service.call("POST", path + "register", {"key": key, "byte_size": 48}).status, 200)

        def place(at):
            return {"parameters": {"shared_memory_region": "r", "shared_memory_byte_size": 24, "shared_memory_offset": at}}
        slow = self.slow()
        location = self.begin("neg", {"self": {"shape": [2, 3], "datatype": "FP32", **place(0)}},
                              outputs=[{"name": "out", **place(24)}])
        self.service.call("POST", path + "unregister", b"")
        self.assertEqual(self.end(location).json["outputs"], [{"name": "out", "datatype": "FP32", "shape": [2, 3]}])
        with open(f.name, "rb") as f:
            np.testing.assert_array_equal(np.frombuffer(f.read()[24:], np.float32).reshape(2, 3), -A)
        self.end(slow)

    def test_a_task_without_a_waiter_blocks_nobody(self): # RT-23
        """Clients wait, workers never do: with one worker, waiting for many tasks still ends."""
        locations = [self.begin("relu", {"self": A}, {"pool": "default"}) for _ in range(50)]
        for location in reversed(locations):
            self.end(location)

    def test_all_at_once(self):
        """Submitted, waited for, listed, cancelled and forgotten by eight clients at random."""
        def client(seed):
            rng, mine, connection = random.Random(seed), [], self.service.connect()
            try:
                for i in range(60 if service.SANITIZED else 150):
                    what = rng.randrange(5)
                    if what < 2 or not mine:
                        x = np.full(1000, seed * 1000 + i, np.float32)
                        mine.append((self.begin("neg", {"self": x}, binary=True, connection=connection), -x))
                    elif what == 2:
                        location, right = mine.pop(rng.randrange(len(mine)))
                        np.testing.assert_array_equal(self.end(location, connection=connection).out, right)
                    elif what == 3:
                        location, _ = mine.pop(rng.randrange(len(mine)))
                        reply = self.service.call("DELETE", location, connection=connection)
                        self.assertEqual(reply.status, 204)
                    else:
                        self.service.call("GET", "/v1/tasks", connection=connection)
                for location, right in mine:
                    np.testing.assert_array_equal(self.end(location, connection=connection).out, right)
                    self.service.call("DELETE", location, connection=connection)
            except Exception as error: # pylint: disable=broad-except
                errors.append(error)
            finally:
                connection.close()
        errors = []
        threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.alive()


class Limits(service.ServiceTest, Tasks):
    args = ("--task-ttl-s", "5", "--tasks", "3", "--task-bytes", "700000")

    def setUp(self):
        for task in self.list():
            self.delete("/v1/tasks/" + task["id"])
        self.until(lambda: self.metric("tensord_task_memory_bytes") == 0, "tasks are left")

    def test_results_run_out(self):
        before = self.metric('tensord_tasks_total{event="expired"}')
        begin = time.monotonic()
        location = self.begin("relu", {"self": A})
        body = self.end(location).body
        self.assertEqual(self.end(location).body, body)
        self.until(lambda: self.get(location).status == 404, "it is kept for ever")
        self.assertGreater(time.monotonic() - begin, 4.8)
        self.assertEqual(self.metric('tensord_tasks_total{event="expired"}'), before + 1)
        self.assertEqual(self.list(), [])

    def test_number(self):
        locations = [self.begin("relu", {"self": A}) for _ in range(3)]
        refused = self.submit("relu", {"self": A})
        self.problem(refused, 429, "3", "DELETE")
        self.assertEqual(refused.headers["Retry-After"], "1")
        self.end(locations[0])
        self.assertEqual(self.delete(locations[0]).status, 204)
        self.begin("relu", {"self": A})
        self.assertEqual(self.service.infer("relu", {"self": A}).status, 200) # others are not held up

    def test_bytes(self):
        """A task counts for the largest result it may have, then for the result."""
        x = np.ones(100_000, np.float32)
        first = self.begin("relu", {"self": x}, binary=True)
        self.end(first)
        self.assertTrue(400_000 <= self.metric("tensord_task_memory_bytes") < 401_000)
        self.problem(self.submit("relu", {"self": x}, binary=True), 429, "700000")
        self.delete(first)
        self.until(lambda: self.metric("tensord_task_memory_bytes") == 0, "bytes of a task that is gone")
        self.end(self.begin("relu", {"self": x}, binary=True))
        self.problem(self.submit("relu", {"self": np.ones(200_000, np.float32)}, binary=True), 413, "task-bytes")


class Metrics(service.ServiceTest, Tasks):
    def test_metrics(self):
        first, queued = self.hold(), self.begin("relu", {"self": A})
        self.assertEqual([self.metric('tensord_tasks{state="%s"}' % s) for s in ("queued", "running", "done")], [1, 1, 0])
        self.delete(queued)
        self.delete(first)
        self.end(self.begin("relu", {"self": A}))
        self.assertEqual([self.metric('tensord_tasks{state="%s"}' % s) for s in ("queued", "running", "done")], [0, 0, 1])
        self.assertEqual([self.metric('tensord_tasks_total{event="%s"}' % e)
                          for e in ("accepted", "done", "cancelled", "expired", "refused")], [3, 1, 2, 0, 0])


class Drain(unittest.TestCase, Tasks):
    def test_tasks_are_finished(self):
        """SIGTERM: what was accepted is done, those who wait get it, nothing new begins."""
        self.service = Service("--drain-s", "300", "--idle-s", "300")
        finish = self.service.half("relu", {"self": A}) # until which the process stays
        locations = [self.slow() for _ in range(3)]
        replies = []
        threads = [threading.Thread(target=lambda l=l: replies.append(self.end(l))) for l in locations]
        body, headers = service.pack({"self": A})
        late = self.service.half_head("POST", "/v1/ops/relu", body, {**headers, "Prefer": "respond-async"})
        for t in threads:
            t.start()
        time.sleep(0.1)
        self.service.process.send_signal(signal.SIGTERM)
        self.assertTrue(self.service.is_closed(), "it goes on")
        refused = late()
        for t in threads:
            t.join()
        finish()
        self.service.process.wait(60) # stop() would be a second signal
        self.service.stop()
        self.assertEqual(refused.status, 503)
        self.assertIn("draining", refused.json["detail"])
        self.assertTrue(all((r.out == SIDE).all() for r in replies))
        self.assertEqual(len(replies), 3)
        self.assertNotIn("cut off", self.service.log)

    def test_with_nobody_waiting(self):
        self.service = Service()
        location = self.slow()
        self.until(lambda: self.get(location).json.get("state") != "queued", "it does not run")
        self.slow()
        self.service.stop()
        self.assertNotIn("cut off", self.service.log)

    def test_at_most_drain_s(self):
        self.service = Service("--drain-s", "0")
        self.hold()
        self.service.stop()
        self.assertIn("cut off", self.service.log)


if __name__ == "__main__":
    service.main()
