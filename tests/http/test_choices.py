#!/usr/bin/env python3
"""What tuning and the file of choices make of hostile files, of other requests' time limits, and of words they do not take."""
import json
import os
import tempfile
import threading
import time

import numpy as np

import service

MM = {"inputs": [{"name": "self", "shape": [24, 40], "datatype": "FP32"}, {"name": "mat2", "shape": [40, 72], "datatype": "FP32"}]}


class Choices(service.ServiceTest):
    def setUp(self):
        if len(self.service.call("GET", "/v1/kernels/mm").json["overloads"][0]["candidates"]) == 1:
            self.skipTest("no kernels but the reference are built")
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.file = os.path.join(self.folder, "choices.json")

    def serve(self, *options):
        return service.Service("--choices", self.file, *options)

    def tune(self, s, body=MM):
        return s.call("POST", "/v1/kernels/mm/tune", body)

    def begun(self):
        """What a first call to tune leaves in the file."""
        with self.serve() as s:
            self.assertEqual(self.tune(s).json["stored"], True)
        return self.read()

    def read(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)

    def write(self, said):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.text(said))

    @staticmethod
    def text(said):
        return json.dumps(said, separators=(",", ":"))

    def test_numbers_beyond_bounds(self):
        """Times and rates that no machine has are refused; a rate that was not measured bounds nothing."""
        said = self.begun()
        for us in (1e20, 1e300):
            said["machines"][0]["kinds"][0]["measured"][0]["us"] = us
            self.write(said)
            with self.serve() as s:
                self.assertIn("measured", self.tune(s).json["warning"])
        said["machines"][0]["kinds"] = []
        rates = ("FP32", "FP64", "BF16", "INT8", "L1", "L2", "L3", "memory")
        for rate in (1e20, 0):
            said["machines"][0]["peaks"] = [dict.fromkeys(rates, rate) | {"threads": threads} for threads in (1, 2)]
            self.write(said)
            with self.serve() as s:
                told = s.infer("relu", {"self": np.ones(40960, np.float32)}, {"explain": True}).parameters
                self.assertIn("explain", told)
                self.assertEqual("warning" in self.tune(s).json, rate > 0)

    def test_many_machines(self):
        """The last of the other machines' parts stay, as many as can be read again."""
        said = self.begun()
        kind, other = said["machines"][0]["kinds"][0], said["machines"].pop()
        for cpu in range(2):
            said["machines"].append(other | {"cpu": f"CPU {cpu}", "kinds": [kind]})
        said["machines"][1]["kinds"] = [kind | {"call": "x" * ((4 << 20) - len(self.text(said)))}] # as long as it may be, but for some bytes
        self.write(said)
        with self.serve() as s:
            self.assertEqual(self.tune(s).json["stored"], True)
        self.assertIn("nothing that fits", s.log)
        self.assertEqual([machine["cpu"] for machine in self.read()["machines"]], ["CPU 1", other["cpu"]])
        with self.serve() as s:
            self.assertEqual(s.call("GET", "/v1/kernels/mm").json["overloads"][0]["choices"]["kept"], 1)

    def test_symbolic_link(self):
        os.symlink(os.path.join(self.folder, "real.json"), self.file)
        with open(os.path.join(self.folder, "real.json"), "w", encoding="utf-8") as file:
            file.write('{"machines":[]}')
        self.begun()
        self.assertTrue(os.path.islink(self.file))

    def test_reason_stays(self):
        """A file that cannot be taken is left alone, and the reply says what is wrong with it."""
        os.mkdir(self.file)
        with self.serve() as s:
            for _ in range(2):
                self.assertRegex(self.tune(s).json["warning"], "and stays: .* it is a directory")

    def test_kernel_named(self):
        reply = self.tune(self.service, MM | {"parameters": {"kernel": "ref"}})
        self.assertEqual(reply.status, 400)
        self.assertIn("measures all", reply.json["detail"])

    def test_counts_of_many_operators(self):
        """Of each operator that was tuned, the misses are counted."""
        tuned, body = 0, {"inputs": [{"name": "self", "shape": [64], "datatype": "FP32"}]}
        for op in dict.fromkeys(told["op"] for told in self.service.call("GET", "/v1/ops").json["ops"]):
            if tuned > 90:
                break
            if self.service.call("POST", f"/v1/kernels/{op}/tune", body).status == 200:
                tuned += 1
                overloads = self.service.call("GET", f"/v1/kernels/{op}").json["overloads"]
                self.assertGreater(sum(overload["choices"]["misses"] for overload in overloads), 0, op)
        self.assertGreater(tuned, 64)

    def test_tune_in_another_pool(self):
        """A request that must wait for it keeps its own time limit."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two CPUs")
        first, second = sorted(os.sched_getaffinity(0))[:2]
        with service.Service("--pool", f"a={first}", "--pool", f"b={second}") as s:
            large = {"inputs": [{"name": name, "shape": [1130, 1130], "datatype": "FP64"} for name in ("self", "mat2")], "parameters": {"pool": "a"}}
            tuned = threading.Thread(target=self.tune, args=(s, large))
            tuned.start()
            time.sleep(0.3)
            x = {"self": np.ones((1, 4), np.float32), "mat2": np.ones((4, 1), np.float32)}
            reply = s.infer("mm", x, {"pool": "b", "timeout_ms": 100})
            self.assertTrue(tuned.is_alive() or reply.status == 200)
            self.assertIn(reply.status, (200, 504))
            tuned.join()


if __name__ == "__main__":
    service.main()
