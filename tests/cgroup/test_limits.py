#!/usr/bin/env python3
"""What a container's limits make of the server, by real control groups: a CPU quota, a cpuset, both
changing while it serves, and the HTTP threads' seats. Skipped where no group can be made.
"""
import os
import re
import threading

import numpy as np

import service
from groups import Cpuset, Quota, Unavailable
from service import Service

CPUS = sorted(os.sched_getaffinity(0))
A, B = CPUS[0], CPUS[-1]
BOTH = f"{A},{B}"
X = {"self": np.arange(8, dtype=np.float32)}

try:
    with Quota(1), Cpuset(BOTH):
        pass
except Unavailable as reason:
    service.skip(reason)
if len(CPUS) < 2:
    service.skip("needs two CPUs")


def pools(server):
    return {pool["name"]: pool for pool in server.call("GET", "/v1/pools").json["pools"]}


def http_threads(server):
    """The affinities of the threads that are neither workers nor the watching one."""
    found = []
    for tid in os.listdir(f"/proc/{server.pid}/task"):
        with open(f"/proc/{server.pid}/task/{tid}/comm") as comm:
            if re.match(r"MHD|td http", comm.read()):
                found.append(os.sched_getaffinity(int(tid)))
    return found


class Limits(service.unittest.TestCase):
    def group(self, group):
        self.addCleanup(group.remove)
        return group

    def serve(self, group, *args):
        server = Service(*args, groups=[group])
        self.addCleanup(server.stop)
        return server

    def test_a_quota_bounds_every_pool(self):
        """No pool has more threads than the quota pays for, and none is pinned, unless asked for."""
        for cpus in (0.6, 1.5):
            server = self.serve(self.group(Quota(cpus)), "--pool", f"main={BOTH}",
                                "--pool", f"asked={BOTH}:threads=2:pinned=true")
            for config in ({"cpus": BOTH}, {}, {"cpus": BOTH, "pin": True}):
                self.assertIn(server.call("PUT", "/v1/pools/put", config).status, (200, 201))
                put = pools(server)["put"]
                self.assertEqual((put["threads"], put["pinned"]), (1, "pin" in config), put)
                self.assertTrue(all(t["ok"] for t in put["thread_list"]), put)
            main, asked = pools(server)["main"], pools(server)["asked"]
            self.assertEqual((main["threads"], main["pinned"]), (1, False), main)
            self.assertIn(f"{cpus:.2f} CPUs", main["warnings"][0])
            self.assertEqual((asked["threads"], asked["pinned"]), (2, True), asked)
            self.assertIn("as asked for", asked["warnings"][0])
            self.assertEqual(server.call("GET", "/v1/topology").json["cgroup"]["quota_cpus"], cpus)

    def test_a_quota_that_changes(self):
        group = self.group(Quota(None))
        server = self.serve(group, "--pool", f"main={BOTH}")
        self.assertEqual((pools(server)["main"]["threads"], pools(server)["main"]["pinned"]), (2, True))
        group.move(1.5)
        self.assertTrue(service.eventually(lambda: pools(server)["main"]["threads"] == 1), pools(server))
        self.assertFalse(pools(server)["main"]["pinned"])
        group.move(None)
        self.assertTrue(service.eventually(lambda: pools(server)["main"]["threads"] == 2), pools(server))

    def test_throttling_is_shown(self):
        group = self.group(Quota(0.1))
        server = self.serve(group)
        side = np.ones((400, 400), np.float32)

        def throttled():
            server.op("matmul", {"self": side, "other": side}, {"kernel": "ref"}, binary=True)
            return server.call("GET", "/v1/topology").json["cgroup"]["nr_throttled"] > 0
        self.assertTrue(service.eventually(throttled))

    def test_a_cpuset_cuts_pools_down(self):
        server = self.serve(self.group(Cpuset(B)), "--pool", f"p={BOTH}")
        pool = pools(server)["p"]
        self.assertEqual((pool["cpus"], pool["requested"], pool["threads"]), (str(B), BOTH, 1))
        self.assertIn(f"may not use {A}", pool["warnings"][0])

    def test_a_cpuset_that_moves(self):
        """Pools, topology and HTTP threads follow, while calls go on without one that fails."""
        group = self.group(Cpuset(B))
        server = self.serve(group, "--pool", f"p={BOTH}", "--pool", f"q={B}")
        statuses, stop = [], threading.Event()
        big = np.ones((300, 300), np.float32)

        def call(pool):
            connection = server.connect()
            while not stop.is_set():
                statuses.append(server.infer("matmul", {"self": big, "other": big}, {"pool": pool}, binary=True,
                                             connection=connection).status)
        threads = [threading.Thread(target=call, args=(pool,)) for pool in "pq"]
        for thread in threads:
            thread.start()

        def at_home(cpus):
            seen = pools(server)
            return (server.call("GET", "/v1/topology").json["allowed"]["cpus"] == cpus and
                    seen["p"]["cpus"] == cpus and
                    all(t["ok"] for pool in seen.values() for t in pool["thread_list"]))

        def seated(*where):
            return sorted(map(sorted, http_threads(server))) == sorted(map(list, where))
        try:
            self.assertTrue(service.eventually(lambda: at_home(str(B)) and seated([B], [B])), http_threads(server))
            group.move(BOTH)
            group.move(A)
            self.assertTrue(service.eventually(lambda: at_home(str(A))), pools(server))
            self.assertTrue(service.eventually(lambda: "none of" in "".join(pools(server)["q"]["warnings"])))
            self.assertEqual(pools(server)["q"]["pinned"], False)
            self.assertTrue(service.eventually(lambda: seated([A], [A])), http_threads(server))
            group.move(BOTH)
            every = f"{A}-{B}" if B == A + 1 else BOTH
            self.assertTrue(service.eventually(lambda: at_home(every)), pools(server))
            self.assertTrue(service.eventually(lambda: not pools(server)["q"]["warnings"])) # it follows p
            self.assertEqual(pools(server)["p"]["threads"], 2)
            self.assertTrue(service.eventually(lambda: seated([A], [B])), http_threads(server))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(set(statuses), {200})
        server.stop()
        self.assertIn("what this process may use has changed", server.log)

    def test_threads_are_put_back(self):
        """Whatever moved them."""
        server = self.serve(self.group(Cpuset(BOTH)), "--pool", f"p={B}")
        worker = pools(server)["p"]["thread_list"][0]["tid"]
        os.sched_setaffinity(worker, {A})
        self.assertTrue(service.eventually(lambda: os.sched_getaffinity(worker) == {B}))


if __name__ == "__main__":
    service.main()
