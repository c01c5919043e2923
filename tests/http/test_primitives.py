#!/usr/bin/env python3
"""The small kernels of which others compose operators (vmul, vscal, vbroadcast, softmax, matmul, embseqpool ...), by the names that
they have here: each row of each of them, of lengths round a vector's, and what its arguments may not be."""
import re

import numpy as np

import service

F32 = np.float32
LENGTHS = [*range(1, 33), 100, 128, 1000]


class Primitives(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rng = np.random.default_rng(service.seed())
        cls.line = cls.service.connect()
        cls.rows = {} # of each overload, those that run here: (kernel@level, types)
        in_use = {level["name"] for level in cls.service.call("GET", "/v1/isa").json["levels"] if level["in_use"]}
        for listed in cls.service.call("GET", "/v1/kernels").json["kernels"]:
            cls.rows[listed["op"]] = {(f"{row['name']}@{row['level']}", d) for row in listed["implementations"] for d in row["dtypes"]
                                      if row["level"] in in_use and not row["absent"]}

    @classmethod
    def tearDownClass(cls):
        cls.line.close()
        super().tearDownClass()

    def draw(self, *shape):
        return self.rng.uniform(-2, 2, shape).astype(F32)

    def each(self, op, inputs, parameters=None, datatype="FP32", least=2):
        """The results by each row that takes the type; a row may refuse a call, and says so."""
        results = []
        for kernel in sorted({k for k, d in self.rows[op] if d == datatype} | {"ref@DEFAULT"}):
            reply = self.service.infer(op, inputs, {**(parameters or {}), "kernel": kernel}, connection=self.line, binary=True)
            if reply.status == 200:
                results.append(list(reply.outputs.values()))
            else:
                self.problem(reply, 400, "kernel")
        self.assertGreaterEqual(len(results), 1 if service.only_reference() else least, op)
        return results

    def alike(self, op, inputs, want, parameters=None, rtol=0.0, atol=0.0):
        for result in self.each(op, inputs, parameters):
            np.testing.assert_allclose(result[0], want, rtol=rtol, atol=atol, err_msg=op)

    def test_of_two(self): # JIT-19
        """vmul, vadd, vsub and vaddrelu; of one array for both, too."""
        for n in LENGTHS:
            x, y = self.draw(n), self.draw(n)
            for op, want in (("mul.Tensor", x * y), ("add.Tensor", x + y), ("sub.Tensor", x - y)):
                self.alike(op, {"self": x, "other": y}, want)
            self.alike("sub.Tensor", {"self": x, "other": x}, x - x)
            for kernel in ({}, {"kernel": "ref"}):
                reply = self.service.infer("", {"x": x, "y": y}, kernel, path="/v1/eval", connection=self.line, expr="relu(x + y)")
                np.testing.assert_array_equal(reply.out, np.maximum(x + y, 0))

    def test_with_a_number(self): # JIT-20
        """vscal and vaddbias."""
        for n in LENGTHS:
            x = self.draw(n)
            self.alike("mul.Scalar", {"self": x}, x * F32(-1.75), {"other": -1.75})
            self.alike("add.Scalar", {"self": x}, x + F32(2.5), {"other": 2.5})

    def test_of_one(self): # JIT-21
        """vrelu, videntity, vsquare and vcopy; relu of NaN and of infinities."""
        for n in LENGTHS:
            x = self.draw(n)
            x[::7] = np.array([np.nan, np.inf, -np.inf, -0.0])[np.arange(len(x[::7])) % 4]
            for op, want in (("relu", np.where(np.isnan(x), x, np.maximum(x, 0))), ("clone", x), ("square", x * x)):
                self.alike(op, {"self": x}, want)

    def test_curves(self): # JIT-22
        """vexp, vsigmoid and vtanh; and those that saturate, which are the same of what is cut off at [-40, 13]."""
        for n in LENGTHS:
            x = self.draw(n) * 20
            wide = x.astype(np.float64)
            for op, want in (("exp", np.exp(wide)), ("sigmoid", 1 / (1 + np.exp(-wide))), ("tanh", np.tanh(wide))):
                self.alike(op, {"self": x}, want, rtol=1e-6)
            cut = np.clip(wide, -40, 13)
            reply = self.service.infer("", {"x": x}, path="/v1/eval", connection=self.line, expr="s = sigmoid(clamp(x, -40, 13)); t = 2 * sigmoid(clamp(2 * x, -40, 13)) - 1")
            np.testing.assert_allclose(reply.outputs["s"], 1 / (1 + np.exp(-cut)), rtol=1e-6)
            np.testing.assert_allclose(reply.outputs["t"], 2 / (1 + np.exp(-np.clip(2 * wide, -40, 13))) - 1, rtol=1e-6, atol=3e-7)
        for op in ("sigmoid", "tanh"): # these go to the end: 1 as soon as the type has nothing below it
            self.alike(op, {"self": F32([14, 16, 30])}, {"sigmoid": F32(1 / (1 + np.exp(-np.array([14., 16, 30])))), "tanh": F32([1, 1, 1])}[op], rtol=5e-7)

    def test_of_many_rows(self): # JIT-23
        """vbroadcast: a row h times."""
        for n in LENGTHS:
            x = self.draw(n)
            for h in (1, 3, 8):
                self.alike("expand", {"self": x}, np.tile(x, (h, 1)), {"size": [h, n]})
                self.alike("repeat", {"self": x}, np.tile(x, (h, 1)), {"repeats": [h, 1]})

    def test_softmax(self): # JIT-25
        """Along any dimension: what lies behind it is taken along."""
        for shape, dim in (((3, 5), 1), ((2, 17), -1), ((4, 9, 1), 1), ((2, 33, 7), 1), ((3, 8, 16), 1), ((50, 2), 0), ((1, 1000), 1), ((3, 1003), 1), ((2, 3, 5, 31), 1)):
            x = self.draw(*shape) * 10
            wide = np.exp(x.astype(np.float64) - x.max(dim, keepdims=True))
            self.alike("softmax.int", {"self": x}, wide / wide.sum(dim, keepdims=True), {"dim": dim}, rtol=2e-6, atol=1e-9)

    def test_layer_norm(self): # JIT-26
        """With its mean and what it divides by; scale and bias may be left out."""
        eps = 9.99999975e-06
        for rows in (1, 2, 10):
            for n in (1, 9, 17, 50):
                x, scale, bias = self.draw(rows, n), self.draw(n), self.draw(n)
                wide = x.astype(np.float64)
                mean, root = wide.mean(1, keepdims=True), 1 / np.sqrt(wide.var(1, keepdims=True) + eps)
                for more in ({}, {"weight": scale}, {"bias": bias}, {"weight": scale, "bias": bias}):
                    want = (wide - mean) * root * more.get("weight", F32(1)) + more.get("bias", F32(0))
                    for out, m, r in self.each("native_layer_norm", {"input": x, **more}, {"normalized_shape": [n], "eps": eps}):
                        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)
                        np.testing.assert_allclose(m, mean, rtol=1e-5, atol=1e-6)
                        np.testing.assert_allclose(r, root, rtol=1e-3)

    def test_matmul(self): # JIT-27
        """[m,k] by [k,n]; of one row and n in whole vectors, too."""
        for m, n, k in ((1, 16, 1), (1, 32, 511), (1, 480, 2), (1, 17, 5), (2, 16, 8), (3, 100, 20), (7, 1, 9), (4, 8, 600)):
            a, b = self.draw(m, k), self.draw(k, n)
            self.alike("mm", {"self": a, "mat2": b}, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-4)

    def test_packed(self): # JIT-28
        """A stored matrix is laid in panels of a level's lanes, once, and its last panel is filled up; results stay."""
        self.needs_kernels()
        for k, n in ((2, 480), (5, 17), (300, 33)):
            a, b = self.draw(40, k), self.draw(n, k)
            self.service.call("PUT", "/v1/tensors/b", {"shape": [n, k], "datatype": "FP32", "data": b.ravel().tolist()})
            for kernel in ("simd", "simd", "ref"):
                reply = self.service.infer("linear", {"input": a, "weight": service.stored("b")}, {"kernel": kernel}, binary=True)
                np.testing.assert_allclose(reply.out, a.astype(np.float64) @ b.T, rtol=1e-5, atol=1e-4)
            forms = [form for form in self.service.call("GET", "/v1/tensors/b").json["packed"] if form["form"].startswith("simd")]
            self.assertEqual(len(forms), 1)
            for form in forms:
                lanes = int(re.search(r"\d+", form["form"])[0])
                self.assertEqual(form["bytes"], 4 * k * lanes * -(-n // lanes), form)
            self.service.call("DELETE", "/v1/tensors/b")

    def test_of_a_table(self): # JIT-30
        """embseqpool: rows of a table summed by indices; one outside of it is refused with where it stands, by every row."""
        for width in (1, 8, 16, 33):
            table, index = self.draw(11, width), self.rng.integers(0, 11, (4, 6))
            bags = {"weight": table, "offsets": np.arange(4) * 6}
            for result in self.each("embedding_bag", {**bags, "indices": index.ravel()}, {"mode": 0}):
                np.testing.assert_allclose(result[0], table[index].astype(np.float64).sum(1), rtol=1e-5, atol=1e-5)
            for wrong in (-1, 11, 2 ** 40):
                index[2, 3] = wrong
                for kernel in sorted({k for k, d in self.rows["embedding_bag"] if d == "FP32"}):
                    reply = self.service.infer("embedding_bag", {**bags, "indices": index.ravel()}, {"mode": 0, "kernel": kernel})
                    self.problem(reply, 400, "indices", str(wrong))

    def test_helpers(self): # JIT-39
        """vaxpy and asum."""
        for n in LENGTHS:
            x, y = self.draw(n), self.draw(n)
            for kernel in ({}, {"kernel": "ref"}):
                reply = self.service.infer("", {"x": x, "y": y}, {"a": 0.75, **kernel}, path="/v1/eval", connection=self.line, expr="axpy = a * x + y; asum = sum(abs(x))")
                np.testing.assert_allclose(reply.outputs["axpy"], F32(0.75) * x + y, rtol=1e-6, atol=1e-6)
                np.testing.assert_allclose(reply.outputs["asum"], np.abs(x).sum(), rtol=1e-5)

    def test_all_three_kinds(self): # JIT-2
        """A reference, rows of our own in vectors, and a library's: a product has each."""
        told = self.service.call("GET", "/v1/kernels/mm").json["overloads"][0]["registered"]
        self.assertEqual(told["ref"], 1)
        self.needs_kernels()
        self.assertGreaterEqual(told["simd"], 3)
        self.assertIn("onednn", told)


if __name__ == "__main__":
    service.main()
