#!/usr/bin/env python3
"""Pools: made, listed, replaced, removed; and that calls run where they are sent."""
import calendar
import os
import threading
import time

import numpy as np

import service
from service import stored

CPUS = sorted(os.sched_getaffinity(0))
LAST = str(CPUS[-1])
X = {"self": np.arange(8, dtype=np.float32)}
ENDLESS = {"input": np.ones((1, 32, 128, 128), np.float32), "weight": np.ones((512, 32, 5, 5), np.float32)}


def cpus_of_thread(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/status") as status:
        allowed = next(line for line in status if line.startswith("Cpus_allowed_list"))
    return allowed.split()[1]


class Held(service.ServiceTest):
    def hold(self, pool):
        """A task that keeps the pool's worker for minutes."""
        body, headers = service.pack(ENDLESS, {"pool": pool, "kernel": "ref", "padding": [2, 2]}, binary=True)
        reply = self.service.call("POST", "/v1/ops/conv2d", body, {**headers, "Prefer": "respond-async"})
        self.assertEqual(reply.status, 202, reply.body)
        return reply.headers["Location"]

    def release(self, task):
        self.assertEqual(self.service.call("DELETE", task).status, 204)


class Pools(Held):
    args = ("--pool", f"a={CPUS[0]}", "--pool", f"b={LAST}:queue_depth=4:spin_us=20")

    def put(self, name, config, status=201):
        reply = self.service.call("PUT", "/v1/pools/" + name, config)
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def get(self, name):
        return self.service.call("GET", "/v1/pools/" + name).json

    def test_list(self):
        seen = self.service.call("GET", "/v1/pools").json
        names = [pool["name"] for pool in seen["pools"]]
        self.assertEqual(names[:2], ["a", "b"])
        b = seen["pools"][1]
        self.assertEqual((b["cpus"], b["requested"], b["threads"]), (LAST, LAST, 1))
        self.assertEqual((b["queue_depth"], b["spin_us"], b["pinned"]), (4, 20, True))

    def test_threads_are_where_they_say(self):
        for name in ("a", "b"):
            pool = self.get(name)
            for thread in pool["thread_list"]:
                self.assertTrue(thread["ok"])
                self.assertEqual(cpus_of_thread(self.service.pid, thread["tid"]), str(thread["cpu"]))
                self.assertEqual(str(thread["cpu"]), pool["cpus"])

    def test_memory_is_where_it_says(self): # RT-7
        """Bound to the node of the pool's CPUs, and a block read back from there."""
        nodes = {pu["cpu"]: max(pu["numa_node"], 0) for pu in self.service.call("GET", "/v1/topology").json["pus"]}
        for name, cpu in (("a", CPUS[0]), ("b", CPUS[-1])):
            memory = self.get(name)["membind"]
            self.assertEqual([(m["worker"], m["numa_node"]) for m in memory], [(0, nodes[cpu])])
            if memory[0]["found"] < 0:
                print("the kernel does not say where memory lies (move_pages is forbidden?)")
            else:
                self.assertEqual((memory[0]["found"], memory[0]["ok"]), (nodes[cpu], True))

    def test_routing(self):
        """The first pool is the default; every form of call takes the parameter."""
        self.assertEqual(self.service.infer("relu", X).parameters["pool"], "a")
        for name in ("a", "b"):
            for path in ("/v1/ops/{}", "/v2/models/op.{}/infer"):
                reply = self.service.infer("relu", X, {"pool": name}, path=path)
                self.assertEqual(reply.parameters["pool"], name)

    def test_live_figures(self):
        """Big enough for the queue, so that the pool's worker does it."""
        big = np.ones((500, 500), np.float32)
        before = self.get("b")
        for _ in range(5):
            self.service.op("matmul", {"self": big, "other": big}, {"pool": "b"}, binary=True)
        after = self.get("b")
        for _ in range(100): # counted when the worker is through, which is after the reply
            if after["done"] - before["done"] >= 5:
                break
            time.sleep(0.05)
            after = self.get("b")
        self.assertGreaterEqual(after["done"] - before["done"], 5)
        self.assertGreater(after["busy_us"], before["busy_us"])
        self.assertEqual((after["depth"], after["rejected"]), (0, before["rejected"]))

    def test_life(self):
        self.problem(self.service.call("GET", "/v1/pools/life"), 404, "life")
        made = self.put("life", {"cpus": LAST, "threads": 1, "queue_depth": 9, "spin_us": 5})
        self.assertEqual((made["name"], made["cpus"], made["queue_depth"]), ("life", LAST, 9))
        self.assertEqual(made["warnings"], self.put("life", {"cpus": LAST}, 200)["warnings"])
        self.assertEqual(self.get("life")["queue_depth"], 1024)
        self.assertEqual(self.service.infer("relu", X, {"pool": "life"}).parameters["pool"], "life")
        reply = self.service.call("DELETE", "/v1/pools/life")
        self.assertEqual((reply.status, reply.body), (204, b""))
        self.problem(self.service.call("DELETE", "/v1/pools/life"), 404, "life")
        self.problem(self.service.infer("relu", X, {"pool": "life"}), 404, "life")

    def test_forms_of_configuration(self):
        node = self.put("form", {"numa_node": 0})
        self.assertEqual(node["numa_node"], 0)
        every = f"{CPUS[0]}-{CPUS[-1]}" if len(CPUS) > 1 else LAST
        warned = self.put("form", {"cpus": LAST, "numa_node": 0}, 200)
        self.assertEqual((warned["cpus"], len(warned["warnings"])), (LAST, 1))
        self.assertEqual(self.get("form")["warnings"], warned["warnings"]) # and as long as the pool is there
        whole = self.put("form", {"cpus": every, "pinned": False}, 200)
        self.assertEqual((whole["threads"], whole["pinned"]), (CPUS[-1] - CPUS[0] + 1, False))
        self.service.call("DELETE", "/v1/pools/form")

    def test_configurations_that_are_wrong(self):
        for config in (b"", b"{", [], {"cpus": 1}, {"cpus": ""}, {"cpus": "x"}, {"cpus": "1-"},
                       {"cpus": "3-1"}, {"cpus": "9999"}, {"cpus": "0" * 5000}, {"threads": 0},
                       {"threads": "2"}, {"threads": 1.5}, {"threads": 10**6}, {"streams": 0},
                       {"queue_depth": 0}, {"queue_depth": -1}, {"queue_depth": 2**31}, {"spin_us": -1},
                       {"spin_us": 2**31}, {"pinned": 1}, {"numa_node": 99}, {"numa_node": -1},
                       {"nosuch": 1}):
            if isinstance(config, dict) and "numa_node" not in config:
                config = {"cpus": LAST, **config}
            with self.subTest(config=config):
                self.problem(self.service.call("PUT", "/v1/pools/wrong", config), 400)
        for name in ("x" * 100, "a b", "a%2fb", "a%22b", "%c3%bc"):
            with self.subTest(name=name):
                reply = self.service.call("PUT", "/v1/pools/" + name.replace(" ", "%20"), {"cpus": LAST})
                self.problem(reply, 400)
        self.assertEqual({p["name"] for p in self.service.call("GET", "/v1/pools").json["pools"]} & {"wrong"}, set())

    def test_the_default_stays(self):
        self.problem(self.service.call("DELETE", "/v1/pools/a"), 409, "default")
        self.problem(self.service.call("PUT", "/v1/pools/a", {"cpus": LAST}), 409, "default")
        self.assertEqual(self.get("a")["cpus"], str(CPUS[0]))

    def test_a_wrong_replacement_leaves_the_old_one(self):
        self.put("keep", {"cpus": LAST, "queue_depth": 7})
        self.problem(self.service.call("PUT", "/v1/pools/keep", {"cpus": "9999"}), 400)
        self.assertEqual(self.get("keep")["queue_depth"], 7)
        self.service.call("DELETE", "/v1/pools/keep")

    def test_a_full_queue(self):
        """429 with Retry-After, and what was taken is answered."""
        self.service.call("PUT", "/v1/tensors/m", *self.tensor(service.slow_side(0.5)))
        inputs = {"self": stored("m"), "other": stored("m")}
        body, headers = service.pack(inputs, {"pool": "b", "binary_data_output": True, "kernel": "ref"})
        statuses, lock = [], threading.Lock()

        def call():
            reply = self.service.call("POST", "/v1/ops/matmul", body, headers)
            if reply.status == 429:
                self.problem(reply, 429, "b", "full")
                self.assertGreaterEqual(int(reply.headers["Retry-After"]), 0)
            with lock:
                statuses.append(reply.status)
        threads = [threading.Thread(target=call) for _ in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(set(statuses), {200, 429}, statuses)
        self.assertGreaterEqual(statuses.count(200), 4)
        self.assertEqual(self.get("b")["rejected"], statuses.count(429))

    def tensor(self, side):
        head = b'{"shape":[%d,%d],"datatype":"FP32"}' % (side, side)
        return head + np.ones((side, side), np.float32).tobytes(), {
            "Inference-Header-Content-Length": str(len(head))}

    def test_a_timeout_in_the_queue(self):
        """A call that waits too long gives 504; one without a limit behind it is still run."""
        self.put("late", {"cpus": LAST})
        replies, threads = {}, []
        slow = np.ones((200, 200), np.float32)

        def call(name, **parameters):
            replies[name] = self.service.infer("matmul", {"self": slow, "other": slow},
                                               {"pool": "late", "kernel": "ref", **parameters}, binary=True)
        task = self.hold("late")
        self.assertTrue(service.eventually(lambda: self.get("late")["running"]))
        for depth, (name, parameters) in enumerate((("late", {"timeout_ms": 1}), ("last", {})), 1):
            threads.append(threading.Thread(target=call, args=(name,), kwargs=parameters))
            threads[-1].start()
            self.assertTrue(service.eventually(lambda: self.get("late")["depth"] == depth))
        self.release(task)
        for t in threads:
            t.join()
        self.assertEqual(replies["last"].status, 200)
        self.problem(replies["late"], 504, "timeout_ms")
        self.assertEqual(self.get("late")["late"], 1)
        self.service.call("DELETE", "/v1/pools/late")

    def test_made_and_removed_at_once(self):
        """Who makes a pool is told of that one, also where it is removed before the answer is written."""
        end, statuses = time.monotonic() + 1.5, []

        def keep(method, body=None):
            while time.monotonic() < end:
                statuses.append((method, self.service.call(method, "/v1/pools/brief", body).status))

        threads = [threading.Thread(target=keep, args=args) for args in (("PUT", {"cpus": LAST, "threads": 1}), ("DELETE",), ("DELETE",))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.service.call("DELETE", "/v1/pools/brief")
        self.assertEqual({status for method, status in statuses if method == "PUT"} - {200, 201}, set())

    def test_removed_under_load(self):
        """A pool that goes away answers everything that it had taken, or says that it stops."""
        statuses, lock = [], threading.Lock()
        big = np.ones((200, 200), np.float32)

        def call():
            connection = self.service.connect()
            for _ in range(15):
                reply = self.service.infer("matmul", {"self": big, "other": big}, {"pool": "gone"}, binary=True,
                                           connection=connection)
                if reply.status == 200 and not (reply.out == 200).all():
                    reply.status = "a wrong result"
                with lock:
                    statuses.append(reply.status)
        for _ in range(3):
            self.put("gone", {"cpus": LAST})
            threads = [threading.Thread(target=call) for _ in range(4)]
            for t in threads:
                t.start()
            time.sleep(0.02)
            self.assertEqual(self.service.call("DELETE", "/v1/pools/gone").status, 204)
            for t in threads:
                t.join()
        self.assertLessEqual(set(statuses), {200, 404, 503}, set(statuses))
        self.assertEqual(len(statuses), 180)


class StartUp(service.ServiceTest):
    """Pools of the command line go and are replaced as any other; HTTP threads hold none of them."""
    args = ("--pool", f"a={CPUS[0]}", "--pool", f"b={LAST}")

    def worker(self):
        return self.service.call("GET", "/v1/pools/b").json["thread_list"][0]["tid"]

    def gone(self, tid):
        end = time.monotonic() + 30
        while os.path.exists(f"/proc/{self.service.pid}/task/{tid}"):
            self.assertLess(time.monotonic(), end, "the removed pool's worker is still there")
            time.sleep(0.02)

    def test_replaced_and_removed(self):
        connections = [self.service.connect() for _ in range(8)] # some with either HTTP thread
        self.addCleanup(lambda: [c.close() for c in connections])

        def call(status):
            for connection in connections:
                self.assertEqual(self.service.infer("relu", X, {"pool": "b"}, connection=connection).status, status)
        call(200)
        first = self.worker()
        self.assertEqual(self.service.call("PUT", "/v1/pools/b", {"cpus": LAST, "queue_depth": 3}).status, 200)
        self.gone(first)
        call(200)
        second = self.worker()
        self.assertEqual(self.service.call("DELETE", "/v1/pools/b").status, 204)
        self.gone(second)
        call(404)
        for connection in connections: # an HTTP thread whose pool is gone has others to hand over to
            reply = self.service.call("POST", "/v1/ops/relu", {"args": [{"shape": ["N"], "datatype": "FP32"}], "parameters": {"meta": True}},
                                      connection=connection)
            self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(self.service.call("PUT", "/v1/pools/b", {"cpus": LAST}).status, 201)
        call(200)


class Unpinned(service.ServiceTest):
    """Without --pool there is one pool, called default, on all CPUs allowed."""

    def test_default(self):
        pools = self.service.call("GET", "/v1/pools").json["pools"]
        topology = self.service.call("GET", "/v1/topology").json
        self.assertEqual([pool["name"] for pool in pools], ["default"])
        self.assertEqual(pools[0]["threads"], topology["default_threads"])
        self.assertEqual(pools[0]["pinned"], topology["pin_by_default"])


class Hung(Held):
    """A worker that does not come back, here from a computation that is only long."""
    args = ("--pool", f"a={CPUS[0]}", "--pool", f"b={LAST}", "--watchdog-s", "1", "--timeout-ms", "0")

    def ready(self):
        reply = self.service.call("GET", "/v2/health/ready")
        return reply.status, reply.json

    def until(self, status):
        end = time.monotonic() + 120
        while self.ready()[0] != status:
            self.assertLess(time.monotonic(), end, f"never {status}")
            time.sleep(0.05)

    def test_watchdog(self):
        """503 that names pool, worker, operator and since when; 200 when it goes on."""
        begin = time.time()
        task = self.hold("b")
        self.until(503)
        said = self.ready()[1]
        self.assertIn("pool b: worker 0 has been in conv2d", said["error"])
        hung = said["hung"]
        self.assertEqual([(h["pool"], h["worker"], h["operator"]) for h in hung], [("b", 0, "conv2d")])
        since = calendar.timegm(time.strptime(hung[0]["since"], "%Y-%m-%dT%H:%M:%SZ"))
        self.assertTrue(begin - 2 <= since <= time.time(), hung)
        self.assertGreaterEqual(hung[0]["seconds"], 1)
        metrics = self.service.call("GET", "/metrics").body.decode()
        self.assertIn('tensord_pool_hung_workers{pool="b"} 1\n', metrics)
        self.assertIn('tensord_pool_hung_workers{pool="a"} 0\n', metrics)
        self.assertEqual(self.service.call("GET", "/v2/health/live").status, 200)
        self.assertEqual(self.service.infer("relu", X, {"pool": "a"}).status, 200)
        self.release(task)
        self.until(200)
        self.assertNotIn("hung", self.ready()[1])


class Long(Held):
    """A worker that computes for longer than the watchdog waits, within its call's time."""
    args = ("--pool", f"a={CPUS[0]}", "--pool", f"b={LAST}", "--watchdog-s", "1")

    def test_stays_ready(self):
        task = self.hold("b")
        time.sleep(2.5)
        reply = self.service.call("GET", "/v2/health/ready")
        self.assertEqual((reply.status, reply.json), (200, {"live": True, "ready": True}))
        self.release(task)


class NothingBound(service.ServiceTest):
    """What there is without binding threads, and that it says so."""
    args = ("--pin-backend", "none")

    def test_pools(self): # RT-12
        seen = self.service.call("GET", "/v1/pools").json
        self.assertEqual((seen["runtime_ext"]["enabled"], seen["runtime_ext"]["backend"]), (False, "none"))
        pool = seen["pools"][0]
        self.assertFalse(pool["pinned"])
        self.assertTrue(all(t["cpu"] == -1 and t["tid"] for t in pool["thread_list"]), pool)

    def test_what_needs_binding(self): # RT-12
        """Pools, tasks and streams are 501 with the reason; plain calls are served."""
        self.assertEqual(self.service.infer("relu", X).status, 200)
        self.problem(self.service.call("PUT", "/v1/pools/more", {"cpus": LAST}), 501, "pin backend none")
        body, headers = service.pack(X)
        self.problem(self.service.call("POST", "/v1/ops/relu", body, {**headers, "Prefer": "respond-async"}), 501,
                     "tasks", "pin backend none")
        self.problem(self.service.infer("relu", X, {"streams": 2}), 501, "streams", "pin backend none")
        self.assertEqual(self.service.call("GET", "/v1/topology").status, 200)


class TwoNodes(service.ServiceTest):
    """hwloc's description of another machine: two NUMA nodes of one CPU each."""
    env = {"HWLOC_SYNTHETIC": "node:2 core:1 pu:1", "HWLOC_THISSYSTEM": "0"}
    args = ("--pool", "a=0", "--pool", "b=1")

    def forms(self):
        return sorted(f["form"] for f in self.service.call("GET", "/v1/tensors/w").json["packed"])

    def test_replicas(self): # RT-7
        """A pool reads stored tensors from its own node, also a stream's part and a converted weight."""
        self.assertEqual(self.service.call("GET", "/v1/topology").json["numa_nodes"], 2)
        rng = np.random.default_rng(7)
        x, w = rng.standard_normal((64, 96), np.float32), rng.standard_normal((80, 96), np.float32)
        inputs = {"input": x, "weight": service.stored("w")}
        self.service.call("PUT", "/v1/tensors/w", {"shape": [80, 96], "datatype": "FP32", "data": w.ravel().tolist()})
        self.assertEqual(self.forms(), [])
        for node, pool in enumerate("ab"): # on a machine that is made up, a node is chosen but not bound
            self.assertEqual(self.service.call("GET", "/v1/pools/" + pool).json["membind"],
                             [{"worker": 0, "numa_node": node, "found": -1, "ok": False}])
        seen = set()
        for _ in range(40): # it comes to whichever HTTP thread takes the connection, and lies on that one's node
            self.service.call("PUT", "/v1/tensors/w", {"shape": [80, 96], "datatype": "FP32", "data": w.ravel().tolist()})
            for pool in "abab":
                np.testing.assert_allclose(self.service.op("linear", inputs, {"pool": pool}, binary=True), x @ w.T, rtol=1e-4, atol=1e-4)
            found = [form for form in self.forms() if form.startswith("node ")]
            self.assertIn(found, (["node 0"], ["node 1"])) # on the other one it lies itself
            seen.update(found)
            if len(seen) == 2:
                break
        np.testing.assert_allclose(self.service.op("linear", inputs, {"pool": "b", "streams": 2}, binary=True), x @ w.T,
                                   rtol=1e-4, atol=1e-4)
        self.service.op("linear", inputs, {"pool": "b", "autocast": "BF16"}, binary=True)
        self.service.call("PUT", "/v1/tensors/w", {"shape": [1], "datatype": "FP32", "data": [3]})
        self.assertEqual(self.service.op("mul", {"self": service.stored("w"), "other": service.stored("w")}, {"pool": "b"}), 9)


if __name__ == "__main__":
    service.main()
