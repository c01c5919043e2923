#!/usr/bin/env python3
"""Kernels that the processor stops: the call is answered 500, the row is not used again, the server lives.

The real binary runs with trapping.c preloaded, whose arc cosines trap where their first element is 11
to 14. By hand: TRAPPING=build/tests/http/libtrapping.so beside the other variables."""
import concurrent.futures
import os
import re
import unittest

import numpy as np

import models
import service

TRAPPING = os.environ.get("TRAPPING") or service.skip("no TRAPPING: the library to be preloaded")
SIGNALS = {11: "SIGSEGV", 12: "SIGBUS", 13: "SIGILL", 14: "SIGFPE"}
# A sanitizer's runtime wants to be the first library; the preloaded one has nothing that it watches.
ENV = {"LD_PRELOAD": TRAPPING,
       "ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))}
FEW = np.full(5, 0.5, np.float32)
MANY = np.full(400_000, 0.5, np.float32) # for a team


def bad(like, how, at=0):
    x = like.copy()
    x[at:at + 4] = how
    return x


class Traps(unittest.TestCase):
    def serve(self, *args):
        return service.Service("--cpu-capability", "default", *args, env=ENV)

    def rows(self, server, dtype="FP32"):
        """acos's rows of the lowest level for the type, by name."""
        kernels = server.call("GET", "/v1/ops/acos").json["overloads"][0]["kernels"]
        return {row["name"]: row for row in kernels if row["isa"] == "DEFAULT" and dtype in row["dtypes"]}

    def trapped(self, reply, signal, kernel="simd@DEFAULT"):
        self.assertEqual(reply.status, 500, reply.body[:300])
        self.assertEqual(reply.json["type"], "/problems/kernel-trap")
        self.assertIn(f"acos: the kernel {kernel} has failed ({signal})", reply.json["detail"])

    def right(self, reply, x, kernel):
        self.assertEqual(reply.status, 200, reply.body[:300])
        self.assertEqual(reply.parameters["kernel"], kernel)
        np.testing.assert_allclose(reply.out, np.arccos(x.astype(np.float64)), rtol=1e-6)

    def traps(self, server):
        text = server.call("GET", "/metrics").body.decode()
        return {m[1]: int(m[2]) for m in re.finditer(r"^tensord_kernel_traps_total\{(.*)\} (\d+)$", text, re.M)}

    def test_signals(self):
        for how, signal in SIGNALS.items():
            for x, at in ((FEW, 0), (MANY, 0), (MANY, 399_000)): # alone; the caller and another member of a team
                with self.subTest(signal=signal, size=x.size, at=at), self.serve("--pool", "p=0:threads=2") as server:
                    self.right(server.infer("acos", {"self": x}, binary=True), x, "simd")
                    self.assertNotIn("barred", self.rows(server)["simd"])
                    self.trapped(server.infer("acos", {"self": bad(x, how, at)}, binary=True), signal)
                    reply = server.infer("acos", {"self": x}, {"explain": True}, binary=True)
                    self.right(reply, x, "ref")
                    why = f"it has trapped ({signal}) in this process"
                    verdicts = [c["verdict"] for c in reply.parameters["explain"]["candidates"] if c["isa"] == "DEFAULT"]
                    self.assertEqual((verdicts[0], verdicts[-1]), (why, "chosen"))
                    self.assertEqual(self.rows(server)["simd"]["barred"], why)
                    self.assertFalse(self.rows(server)["simd"]["runnable"])
                    kernels = {op["op"]: op for op in server.call("GET", "/v1/kernels").json["kernels"]}
                    self.assertIn(why, [row.get("barred") for row in kernels["acos"]["implementations"]])
                    self.assertFalse([row for row in kernels["asin"]["implementations"] if "barred" in row])
                    self.assertEqual(self.traps(server),
                                     {f'op="acos",kernel="simd",isa="DEFAULT",signal="{signal}"': 1})
                    forced = server.infer("acos", {"self": x}, {"kernel": "simd"})
                    self.assertEqual(forced.status, 400)
                    self.assertIn(why, forced.json["detail"])
                    self.assertNotIn("barred", self.rows(server, "FP64")["simd"]) # which is a row of its own
                self.assertRegex(server.log, rf"acos: the kernel simd@DEFAULT has trapped, {signal} at 0x[0-9a-f]+, "
                                             rf"FP32 \[{x.size}\]; it is not used again")

    def test_plan(self):
        """A plan that has the row, in a loop of its own and in one with others, runs it no more."""
        for nodes in ([("Acos", ["x"], ["y"], {})], [("Acos", ["x"], ["a"], {}), ("Neg", ["a"], ["n"], {}), ("Neg", ["n"], ["y"], {})]):
            with self.subTest(nodes=len(nodes)), self.serve() as server:
                model = models.onnx_file(nodes, [models.port("x", ["n"])], [models.port("y", ["n"])])
                self.assertEqual(server.call("PUT", "/v1/models/arc", model).status, 201)
                run = lambda x: server.infer("arc", {"x": x}, path="/v2/models/{}/infer")
                plans = lambda: server.call("GET", "/v1/models/arc/plan").json["plans"]
                kernel = lambda: [s["kernel"] for p in plans() for s in p["steps"] if s["operator"] == "acos"]

                def planned(name):
                    np.testing.assert_allclose(run(FEW).outputs["y"], np.arccos(FEW), rtol=1e-6)
                    return kernel() and set(kernel()) == {name}
                self.assertTrue(service.eventually(lambda: planned("simd")), plans())
                self.trapped(run(bad(FEW, 11)), "SIGSEGV")
                np.testing.assert_allclose(run(FEW).outputs["y"], np.arccos(FEW), rtol=1e-6)
                self.assertNotIn("simd", kernel())
                self.assertTrue(service.eventually(lambda: planned("ref")), plans())
                self.assertEqual(list(self.traps(server).values()), [1])

    def test_expression(self):
        with self.serve() as server:
            for how, signal in ((11, "SIGSEGV"), (0.5, None)):
                reply = server.infer("", {"x": bad(FEW, how)}, path="/v1/eval", expr="neg(neg(acos(x)))")
                if signal:
                    self.trapped(reply, signal)
                else:
                    np.testing.assert_allclose(reply.out, np.arccos(FEW), rtol=1e-6)

    def test_task_and_streams(self):
        with self.serve("--pool", "p=0:threads=2:streams=2") as server:
            x = MANY.reshape(2, -1)
            y = x.copy()
            y[1, :4] = 13
            self.trapped(server.infer("acos", {"self": y}, {"streams": 2}, binary=True), "SIGILL")
            self.right(server.infer("acos", {"self": x}, {"streams": 2}, binary=True), x, "ref")
            z = bad(MANY.astype(np.float64), 14)
            body, headers = service.pack({"self": z})
            task = server.call("POST", "/v1/ops/acos", body, {**headers, "Prefer": "respond-async"})
            self.assertEqual(task.status, 202)
            self.trapped(server.call("GET", task.headers["Location"] + "?wait=60"), "SIGFPE")
            self.assertEqual(sum(self.traps(server).values()), 2)

    def test_others(self):
        """What others compute meanwhile is right, and everything is given back."""
        with self.serve("--pool", "p=0:threads=2:streams=2") as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
            ask = lambda i: server.infer("acos", {"self": bad(FEW if i % 2 else MANY, 12 if i % 5 == 0 else 0.5)}, binary=True)
            replies = list(pool.map(ask, range(100)))
            self.assertLessEqual({r.status for r in replies}, {200, 500})
            self.assertIn(500, {r.status for r in replies})
            for reply in replies:
                if reply.status == 200 and np.isfinite(reply.out).all():
                    np.testing.assert_allclose(reply.out, np.arccos(np.float32(0.5)), rtol=1e-6)
            self.assertEqual(self.rows(server)["simd"]["barred"], "it has trapped (SIGBUS) in this process")
            self.assertEqual(server.call("GET", "/v2/health/ready").status, 200)

    def test_abort(self):
        server = self.serve("--on-trap", "abort", "--log", "text")
        try:
            with self.assertRaises(OSError):
                server.infer("acos", {"self": bad(FEW, 13)})
            server.process.wait(30)
            log = server.written()
            self.assertNotEqual(server.process.returncode, 0)
            self.assertIn("tensord: acos: the kernel simd@DEFAULT has trapped, SIGILL, and ends the process", log)
        finally:
            server.process.kill()
            server.process.wait()


if __name__ == "__main__":
    unittest.main()
