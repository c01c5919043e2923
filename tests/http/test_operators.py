#!/usr/bin/env python3
"""Every operator of GET /v1/ops over HTTP, each datatype and each call of its judge."""
import unittest

import numpy as np

import operators
import pointwise
import service


class Operators(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.connection = cls.service.connect()
        cls.addClassCleanup(cls.connection.close)
        cls.quick = cls.service.connect(10)
        cls.addClassCleanup(cls.quick.close)
        cls.ops = cls.service.call("GET", "/v1/ops").json["ops"]

    def test_every_operator_has_a_judge(self):
        self.assertEqual(sorted(op["name"] for op in self.ops), sorted(operators.JUDGES))

    def try_call(self, op, datatype, call, binary, kernel=None):
        shapes, parameters = call
        rng = np.random.default_rng(len(shapes) + 7)
        tensors = operators.draw_all(rng, datatype, shapes)
        forced = {"kernel": kernel} if kernel else {}
        reply = self.service.infer(op["name"], tensors, {**parameters, **forced}, binary=binary,
                                   connection=self.connection)
        if kernel and reply.status == 400:
            self.problem(reply, 400, "kernel", kernel)
            return False
        self.assertEqual(reply.status, 200, reply.body[:300])
        self.assertEqual(reply.parameters["kernel"], kernel or reply.parameters["kernel"])
        wrong = operators.judge(operators.JUDGES[op["name"]], tensors, parameters, reply.outputs,
                                datatype, op["ulp"])
        self.assertIsNone(wrong)
        return True

    def test_every_datatype_and_call(self):
        for op in self.ops:
            for datatype in op["dtypes"]:
                for i, call in enumerate(operators.JUDGES[op["name"]].calls):
                    with self.subTest(op=op["name"], datatype=datatype, call=call):
                        self.try_call(op, datatype, call, binary=i % 2 == 0)

    def test_every_activation_of_linear(self):
        op = next(op for op in self.ops if op["name"] == "linear")
        for call in operators.ACTIVATED:
            for datatype in operators.FLOATS:
                with self.subTest(datatype=datatype, call=call):
                    self.try_call(op, datatype, call, binary=True)

    def test_every_kernel_that_can_be_forced(self): # JIT-1, JIT-8
        """Each takes some of its operator's calls; what it takes is right."""
        for op in self.ops:
            judge = operators.JUDGES[op["name"]]
            for kernel in {k["name"] for k in op["kernels"] if k["runnable"]}:
                with self.subTest(op=op["name"], kernel=kernel):
                    takes = {d for k in op["kernels"] if k["name"] == kernel and k["runnable"]
                             for d in k["dtypes"]}
                    datatype = judge.datatype if judge.datatype in takes else min(takes)
                    taken = [self.try_call(op, datatype, call, binary=True, kernel=kernel)
                             for call in judge.calls]
                    self.assertIn(True, taken)
                    self.assertTrue(all(taken) or kernel != "ref")

    def test_nothing_to_compute(self):
        """Tensors without elements take no time, whatever their other sizes, on any kernel."""
        rng = np.random.default_rng(3)
        taken = set()
        big = 2**16 if service.SANITIZED else 2**20 # of which a result may well have elements, and more of n
        for op in self.ops:
            calls = operators.JUDGES[op["name"]].calls
            for _ in range(15 if service.SANITIZED else 50):
                shapes, parameters = calls[rng.integers(len(calls))]
                sizes = {n: int(rng.choice([0, 0, n, big, 2**40])) for s in shapes.values() for n in s}
                datatype = str(rng.choice(sorted({"FP32", "FP64", "INT64", "INT8"} & {*op["dtypes"]} or op["dtypes"])))
                parameters = {**parameters, **({"kernel": "ref"} if rng.integers(2) else {})}
                if "normalized_shape" in parameters:
                    parameters["normalized_shape"] = [sizes[n] for n in parameters["normalized_shape"]]
                body = {"parameters": parameters, "inputs": [
                    {"name": name, "shape": [sizes[n] for n in shape], "data": [],
                     "datatype": "BOOL" if name in pointwise.MASKS else datatype} for name, shape in shapes.items()]}
                with self.subTest(op=op["name"], body=body):
                    reply = self.service.call("POST", "/v1/ops/" + op["name"], body, connection=self.quick)
                    self.assertIn(reply.status, (200, 400), reply.body[:300])
                    taken |= {op["name"]} if reply.status == 200 else set()
        self.assertGreater(len(taken), len(self.ops) / 2)
        many = 2**20
        for shape, weight, out in (([1, 0, many, many], [1, 0, many, many], [0]), ([many, 0, many, 4], [0, 0, 2, 2], []),
                                   ([2**40, 0, 4, 4], [0, 0, 2, 2], []), ([0, 0, many, many], [2, 0, many, 1], [])):
            for datatype in ("FP32", "FP64"):
                with self.subTest(shape=shape, weight=weight, datatype=datatype):
                    reply = self.service.call("POST", "/v1/ops/conv2d", {"inputs": [
                        {"name": "input", "shape": shape, "data": [], "datatype": datatype},
                        {"name": "weight", "shape": weight, "data": [], "datatype": datatype}]}, connection=self.quick)
                    self.assertEqual((reply.status, reply.json["outputs"][0]["data"]), (200, out), reply.body[:300])
        reply = self.service.call("POST", "/v1/ops/conv_transpose1d", {"parameters": {"dilation": 3}, "inputs": [ # a wide result
            {"name": "input", "shape": [0, big], "data": [], "datatype": "FP64"},
            {"name": "weight", "shape": [0, 1, big], "data": [], "datatype": "FP64"}]}, connection=self.quick)
        self.assertEqual(reply.status, 200, reply.body[:300])



@unittest.skipIf(service.SANITIZED, "skipped: levels differ in vector rows, which have no sanitizer; build/ compares them")
class Levels(unittest.TestCase):
    """The same vectors at every level that runs here, forced by the environment: each level against
    the exact result, against the reference, and against the level below it."""

    def results(self, level, ops):
        """{(operator, datatype, call): result} under the cap; kernel ref where level is None."""
        found = {}
        with service.Service(env={"TENSORD_CPU_CAPABILITY": (level or "default").lower()}) as s:
            connection = s.connect()
            for op in ops:
                judge = operators.JUDGES[op["name"]]
                for datatype in op["dtypes"]:
                    for i, (shapes, parameters) in enumerate(judge.calls):
                        rng = np.random.default_rng(i)
                        tensors = operators.draw_all(rng, datatype, shapes)
                        forced = {} if level else {"kernel": "ref"}
                        reply = s.infer(op["name"], tensors, {**parameters, **forced}, binary=True, connection=connection)
                        self.assertEqual(reply.status, 200, reply.body[:300])
                        found[op["name"], datatype, i] = tensors, parameters, reply.outputs
            connection.close()
        return found

    def test_level_by_level(self): # ISA-37
        with service.Service() as s:
            ops = s.call("GET", "/v1/ops").json["ops"]
            levels = s.call("GET", "/v1/isa").json["levels"]
        for level in levels:
            if not level["runnable"]:
                print(f"not run: {level['name']}: this machine lacks {', '.join(level['missing']) or 'nothing; not built'}")
        ulp = {op["name"]: op["ulp"] for op in ops}
        below, n, known = self.results(None, ops), 0, {}
        for level in (level["name"] for level in levels if level["runnable"]):
            here = self.results(level, ops)
            for key, (tensors, parameters, out) in here.items():
                name, datatype, _ = key
                judge = operators.JUDGES[name]
                with self.subTest(level=level, op=name, datatype=datatype, parameters=parameters):
                    if key not in known:
                        known[key] = operators.exact_and_scale(judge, tensors, parameters)
                    self.assertIsNone(operators.judge(judge, tensors, parameters, out, datatype, ulp[name], known[key]))
                    other = {key: operators.wide(one) for key, one in below[key][2].items()}
                    self.assertIsNone(operators.compare_all(out, judge.result(datatype, parameters), other, known[key][1],
                                                            2 * ulp[name] + 2))
                    n += 1
            below = here
        print(f"{n} results compared")


if __name__ == "__main__":
    service.main()
