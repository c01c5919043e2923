#!/usr/bin/env python3
"""Every operator of GET /v1/ops over HTTP, each datatype and each call of its judge."""
import numpy as np

import operators
import service


class Operators(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.connection = cls.service.connect()
        cls.addClassCleanup(cls.connection.close)
        cls.ops = cls.service.call("GET", "/v1/ops").json["ops"]

    def test_every_operator_has_a_judge(self):
        self.assertEqual(sorted(op["name"] for op in self.ops), sorted(operators.JUDGES))

    def try_call(self, op, datatype, call, binary, kernel=None):
        shapes, parameters = call
        rng = np.random.default_rng(len(shapes) + 7)
        tensors = {name: operators.draw(rng, datatype, shape) for name, shape in shapes.items()}
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

    def test_every_kernel_that_can_be_forced(self):
        """Each takes some of its operator's calls; what it takes is right."""
        for op in self.ops:
            for kernel in {k["name"] for k in op["kernels"] if k["runnable"]}:
                with self.subTest(op=op["name"], kernel=kernel):
                    datatype = operators.JUDGES[op["name"]].datatype
                    taken = [self.try_call(op, datatype, call, binary=True, kernel=kernel)
                             for call in operators.JUDGES[op["name"]].calls]
                    self.assertIn(True, taken)
                    self.assertTrue(all(taken) or kernel != "ref")


if __name__ == "__main__":
    service.main()
