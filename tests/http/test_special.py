#!/usr/bin/env python3
"""Functions of statistics and physics at their edges, as PyTorch answers, and where its digits end, as mpmath does."""
import math

import numpy as np

import service

NAN, INF = math.nan, math.inf


class Special(service.ServiceTest):
    def is_near(self, op, inputs, wanted, units=8):
        for dtype, unit in ((np.float64, 2.0**-52), (np.float32, 2.0**-23)):
            for kernel in "simd", "ref":
                tensors = {name: np.array(x, dtype) for name, x in inputs.items()}
                np.testing.assert_allclose(self.service.op(op, tensors, {"kernel": kernel}, binary=True), wanted, units * unit, 0, True, f"{op} {dtype}")

    def test_incomplete_gamma(self):
        for a, x, lower in ((0, 0, NAN), (0, 1, 1), (0, INF, 1), (0, NAN, NAN), (1, 0, 0), (NAN, 0, 0), (INF, 1, 0), (INF, NAN, 0), (INF, INF, NAN),
                            (1, INF, 1), (NAN, INF, 1), (-1, 1, NAN), (1, -1, NAN), (-INF, 1, NAN), (NAN, 1, NAN), (1, NAN, NAN)):
            for op, wanted in (("igamma", lower), ("special_gammainc", lower), ("igammac", 1 - lower), ("special_gammaincc", 1 - lower)):
                self.is_near(op, {"self": [a], "other": [x]}, [wanted])
        for a, x, lower, upper in ((0.5, 0.25, 0.52049987781304654, 0.47950012218695346), (2**-20, 2**-4, 0.9999978476446161, 2.1523553838981662e-6),
                                   (3, 20, 0.99999954448504944, 4.5551495055892128e-7), (150, 150, 0.51085822974935968, 0.48914177025064032),
                                   (1024, 900, 2.753930176335945e-5, 0.99997246069823664), (65536, 66048, 0.97703937896567296, 0.022960621034327037)):
            self.is_near("igamma", {"self": [a], "other": [x]}, [lower], 4)
            self.is_near("igammac", {"self": [a], "other": [x]}, [upper], 4)
        shapes = {"self": np.ones((3, 1), np.float16), "other": np.zeros((1, 4), np.float16)}
        got = self.service.op("igammac", shapes, binary=True)
        self.assertEqual((got.shape, got.dtype), ((3, 4), np.float16))
        self.problem(self.service.infer("igamma", {"self": np.array([1]), "other": np.array([2])}), 400, "INT64")
        self.problem(self.service.infer("igamma", {"self": np.ones(3, np.float32), "other": np.ones(2, np.float32)}), 400, "other")
        self.assertEqual(self.service.op("igamma", {"self": np.ones((0, 3)), "other": np.ones(3)}, binary=True).shape, (0, 3))


if __name__ == "__main__":
    service.main()
