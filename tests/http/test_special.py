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
                                   (1024, 900, 2.753930176335945e-5, 0.99997246069823664), (65536, 66048, 0.97703937896567296, 0.022960621034327037),
                                   (1000, 960, 0.10175682018645264, 0.89824317981354736), (1000, 1200, 0.99999999871183939, 1.2881606086281433e-9),
                                   (200, 260.125, 0.99995393809885186, 4.6061901148140524e-5), (2**-10, 1.0625, 0.9998066762029638, 0.00019332379703620152)):
            self.is_near("igamma", {"self": [a], "other": [x]}, [lower], 4)
            self.is_near("igammac", {"self": [a], "other": [x]}, [upper], 4)
        shapes = {"self": np.ones((3, 1), np.float16), "other": np.zeros((1, 4), np.float16)}
        got = self.service.op("igammac", shapes, binary=True)
        self.assertEqual((got.shape, got.dtype), ((3, 4), np.float16))
        self.problem(self.service.infer("igamma", {"self": np.array([1]), "other": np.array([2])}), 400, "INT64")
        self.problem(self.service.infer("igamma", {"self": np.ones(3, np.float32), "other": np.ones(2, np.float32)}), 400, "other")
        self.assertEqual(self.service.op("igamma", {"self": np.ones((0, 3)), "other": np.ones(3)}, binary=True).shape, (0, 3))

    def test_bessel(self):
        x = [2**-10, 0.75, 1, 1.25, 2.40625, 3.875, 24.5] # among them some beside roots
        for name, wanted in (
                ("bessel_j0", [0.99999976158143511, 0.86424227516664862, 0.76519768655796655, 0.64590608527128526, -0.00073927648221700193, -0.40238340341141576, 0.023697433734067902]),
                ("bessel_j1", [0.0004882811917923414, 0.34924360217486219, 0.44005058574493352, 0.51062326031988047, 0.51883964794242364, -0.017334251778686323, -0.15897841181932808]),
                ("bessel_y0", [-4.4865150767109739, -0.1371727693857724, 0.088256964215676958, 0.25821685159454078, 0.50977755288000946, 0.033595841205480705, -0.15942871774975043]),
                ("bessel_y1", [-651.90099301063115, -1.0375945507692854, -0.78121282130028872, -0.58436403661500817, 0.10341189729362668, 0.40973690983923331, -0.026954655331885411]),
                ("modified_bessel_i0", [1.0000002384185933, 1.1456467780440013, 1.2660658777520083, 1.4304687177218297, 3.0636608598244553, 10.148645137937804, 3538383451.2172415]),
                ("modified_bessel_i1", [0.00048828130820766323, 0.40199246158092221, 0.56515910399248503, 0.75528141834074719, 2.3112326949775321, 8.7129994229325326, 3465402511.4814852]),
                ("modified_bessel_k0", [7.0474052399084523, 0.61058242211646412, 0.42102443824070833, 0.29760308908410592, 0.069696108321479946, 0.012837377243263955, 5.7688561825292189e-12]),
                ("modified_bessel_k1", [1023.9963147439891, 0.94958046696214023, 0.60190723019723457, 0.40212407978419541, 0.083070712772593931, 0.014407091156427649, 5.8854327447569323e-12]),
                ("scaled_modified_bessel_k0", [7.0542908331469061, 1.2926029977639617, 1.144463079806895, 1.0387368461035981, 0.77308923479833998, 0.61853947456120498, 0.25194428924816337]),
                ("scaled_modified_bessel_k1", [1024.9967995835829, 2.0102618643339222, 1.6361534862632582, 1.4035509499005901, 0.92144418559629617, 0.69417252644251136, 0.25703555832892222])):
            op = "special_" + name
            argument = "x" if name.startswith("scaled") else "self"
            self.is_near(op, {argument: x}, wanted, 16)
            edge = {"j": [0, 0], "y": [-INF, 0], "i": [0, INF], "k": [INF, 0]}[name[-2]]
            edge[0] = 1 if name[-2:] in ("j0", "i0") else edge[0]
            self.is_near(op, {argument: [0, INF, NAN]}, [*edge, NAN])
            below = {"j": 0, "i": INF if name[-1] == "0" else -INF}.get(name[-2], NAN)
            self.is_near(op, {argument: [-INF]}, [below])
            self.assertEqual(self.service.op(op, {argument: np.array([[3]], np.int8)}, binary=True).dtype, np.float32)
            self.assertEqual(self.service.op(op, {argument: np.ones((2, 0), np.float16)}, binary=True).shape, (2, 0))


if __name__ == "__main__":
    service.main()
