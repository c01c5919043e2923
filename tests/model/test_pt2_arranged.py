#!/usr/bin/env python3
"""Functions of complex values, of sizes and of places that torch.export leaves as they are, in archives made by hand: against NumPy.

    test_pt2_arranged.py RUN_MODEL
"""
import math
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import one_node
from archives import Model
from one_node import OneNode
from runner import Refused, Runner


class Arranged(OneNode):
    # ---- complex values ----

    def chain(self, inputs, calls, wanted, tolerance=1e-4):
        """Calls one after the other: (target, arguments), in which 0 is the input before them and -1 the last result."""
        m = Model()
        ports = [m.user(f"x{i}", sizes=list(x.shape)) for i, x in enumerate(inputs)]
        for k, (target, how) in enumerate(calls):
            of = lambda v: ports[v[0]] if isinstance(v, tuple) else v
            ports.append(m.call(target, f"y{k}", **{name: of(v) for name, v in how.items()}))
        m.outputs = [ports[-1]]
        for mode in "eager", "plan":
            got, = one_node.RUN.run(m.bytes(), list(inputs), how=mode)
            self.assertEqual(got.shape, np.shape(wanted), calls)
            np.testing.assert_allclose(got, wanted, tolerance, tolerance, err_msg=str(calls))

    def test_fourier(self):
        x = self.normal(3, 6, 8)
        back = lambda n=8: [("fft_rfft.default", {"self": (0,)}), ("fft_irfft.default", {"self": (-1,), **({"n": n} if n != 8 else {})})]
        self.chain([x], back(), x)
        for n in 5, 6, 7, 9, 12:
            self.chain([x], back(n), np.fft.irfft(np.fft.rfft(x), n))
        for norm in "backward", "ortho", "forward":
            self.chain([x], [("fft_fft.default", {"self": (0,), "norm": norm}), ("view_as_real.default", {"self": (-1,)})],
                       np.stack([np.fft.fft(x, norm=norm).real, np.fft.fft(x, norm=norm).imag], -1))
            self.chain([x], [("fft_rfft2.default", {"self": (0,), "norm": norm}), ("fft_irfft2.default", {"self": (-1,), "norm": norm})], x)
            self.chain([x], [("fft_rfftn.default", {"self": (0,), "dim": [0, 2], "norm": norm}), ("abs.default", {"self": (-1,)})],
                       abs(np.fft.rfftn(x, axes=(0, 2), norm=norm)))
        self.chain([x], [("fft_fft.default", {"self": (0,), "n": 11, "dim": 1}), ("abs.default", {"self": (-1,)})], abs(np.fft.fft(x, 11, 1)))
        self.chain([x], [("fft_fft.default", {"self": (0,), "n": 3}), ("imag.default", {"self": (-1,)})], np.fft.fft(x, 3).imag)
        self.chain([x], [("fft_rfft.default", {"self": (0,)}), ("fft_hfft.default", {"self": (-1,)})], np.fft.hfft(np.fft.rfft(x)), 1e-3)
        self.chain([x], [("fft_ihfft.default", {"self": (0,)}), ("imag.default", {"self": (-1,)})], np.fft.ihfft(x).imag)
        self.chain([x], [("_fft_r2c.default", {"self": (0,), "dim": [1, 2], "normalization": 1, "onesided": True}),
                         ("_fft_c2r.default", {"self": (-1,), "dim": [1, 2], "normalization": 1, "last_dim_size": 8})], x)
        self.chain([x], [("_fft_r2c.default", {"self": (0,), "dim": [2], "normalization": 0, "onesided": False}),
                         ("_fft_c2c.default", {"self": (-1,), "dim": [2], "normalization": 2, "forward": False}), ("real.default", {"self": (-1,)})], x)
        self.chain([x], [("fft_fftshift.default", {"self": (0,), "dim": [0]})], np.fft.fftshift(x, 0))
        self.chain([x], [("fft_ifftshift.default", {"self": (0,)})], np.fft.ifftshift(x))
        for how, word in (({"norm": "both"}, "norm"), ({"n": 20000}, "20000"), ({"dim": 3}, "dimension")):
            self.refused(word, "fft_fft.default", {"self": x}, **how)
        self.refused("0 elements", "_fft_c2r.default", {"self": x}, dim=[2], normalization=0, last_dim_size=0)
        self.refused("one size", "fft_fft2.default", {"self": x}, s=[4, 4, 4], dim=[0, 1])

    def test_frames_and_back(self):
        x, window = self.normal(2, 64), np.hanning(18)[1:-1].astype(np.float32)
        there = ("stft.default", {"self": (0,), "window": (1,), "n_fft": 16, "hop_length": 4, "return_complex": True})
        back = ("istft.default", {"self": (-1,), "window": (1,), "n_fft": 16, "hop_length": 4, "center": False})
        self.chain([x, window], [there, back], x)
        self.chain([x, window], [there, ("istft.default", {**back[1], "length": 40})], x[:, :40])
        self.chain([x, window], [there, ("istft.default", {**back[1], "center": True})], x[:, 8:-8])
        whole = lambda f: (f, {**(there if f == "stft.default" else back)[1], "normalized": True})
        self.chain([x, window], [whole("stft.default"), whole("istft.default")], x)
        short = window[2:14]
        padded = np.pad(short, 2)
        frames = np.stack([x[:, i:i + 16] for i in range(0, 49, 4)], 1) * padded / 4
        self.chain([x, short], [("stft.default", {**there[1], "win_length": 12, "normalized": True}), ("abs.default", {"self": (-1,)})],
                   abs(np.fft.rfft(frames)).transpose(0, 2, 1))
        for more, word in (({"length": 65}, "length"), ({"hop_length": 40}, "hop_length"), ({"win_length": 8}, "window")):
            with self.assertRaises((Refused, AssertionError)) as caught:
                self.chain([x, window], [there, ("istft.default", {**back[1], **more})], x)
            self.assertIn(word, str(caught.exception))

    def test_parts(self):
        """Operators of the table for complex values: part by part, products and quotients spelled out."""
        a, b, c = self.normal(3, 4), self.normal(3, 4), self.normal(3, 4)
        z, w = a + 1j * b, c + 1j * a
        make = [("complex.default", {"real": (0,), "imag": (1,)}), ("complex.default", {"real": (2,), "imag": (0,)})]
        for target, how, wanted in (
                ("mul.Tensor", {"self": (3,), "other": (4,)}, z * w), ("mul.Tensor", {"self": (3,), "other": (2,)}, z * c), ("mul.Tensor", {"self": (2,), "other": (3,)}, c * z),
                ("mul.Tensor", {"self": (3,), "other": 2.5}, 2.5 * z), ("add.Tensor", {"self": (3,), "other": (4,), "alpha": 2}, z + 2 * w),
                ("sub.Tensor", {"self": (2,), "other": (3,)}, c - z), ("div.Tensor", {"self": (3,), "other": (4,)}, z / w), ("exp.default", {"self": (3,)}, np.exp(z)),
                ("reciprocal.default", {"self": (3,)}, 1 / z), ("neg.default", {"self": (3,)}, -z), ("permute.default", {"self": (3,), "dims": [1, 0]}, z.T),
                ("sum.dim_IntList", {"self": (3,), "dim": [1]}, z.sum(1)), ("reshape.default", {"self": (3,), "shape": [2, 6]}, z.reshape(2, 6)),
                ("slice.Tensor", {"self": (3,), "dim": 1, "start": 1, "end": 3}, z[:, 1:3]), ("_conj.default", {"self": (3,)}, z.conj())):
            self.chain([a, b, c], make + [(target, how), ("view_as_real.default", {"self": (-1,)})], np.stack([wanted.real, wanted.imag], -1))
        self.chain([a, b, c], make + [("angle.default", {"self": (3,)})], np.angle(z))
        self.chain([a, b, c], [("angle.default", {"self": (0,)})], np.angle(a))
        self.chain([abs(a), b], [("polar.default", {"abs": (0,), "angle": (1,)}), ("imag.default", {"self": (-1,)})], abs(a) * np.sin(b))
        m = Model()
        x = m.user("x", sizes=[3, 4])
        m.outputs = [m.call("relu.default", "y", self=m.call("complex.default", "z", real=x, imag=x))]
        with self.assertRaises(Refused) as caught:
            one_node.RUN.run(m.bytes(), [a])
        self.assertIn("not done for complex", str(caught.exception))

    # ---- places ----

    def test_diagonals(self):
        x, square = self.normal(2, 3), self.normal(4, 4)
        for offset in -2, -1, 0, 1, 2:
            self.same("diag.default", {"self": x[0]}, np.diag(x[0], offset), diagonal=offset)
            self.same("diag.default", {"self": square}, np.diag(square, offset), diagonal=offset)
            wanted = np.stack([np.diag(row, offset) for row in x])
            self.same("diag_embed.default", {"self": x}, wanted, offset=offset)
            self.same("diag_embed.default", {"self": x}, np.moveaxis(wanted, (1, 2), (0, 2)), offset=offset, dim1=0, dim2=2)
        self.same("trace.default", {"self": square}, np.trace(square))
        self.refused("too far", "diag_embed.default", {"self": x}, offset=-2**62)

    def test_pieces(self):
        x = self.normal(7, 5, 3)
        for n in 1, 3, 9:
            self.same("tensor_split.sections", {"self": x}, *np.array_split(x, n), sections=n)
        self.same("tensor_split.indices", {"self": x}, *np.split(x, [1, 4], 1), indices=[1, -1], dim=1)
        self.same("hsplit.array", {"self": x}, *np.hsplit(x, [2]), indices=[2])
        self.same("vsplit.int", {"self": x[:6]}, *np.vsplit(x[:6], 2), sections=2)
        self.same("dsplit.int", {"self": x}, *np.dsplit(x, 3), sections=3)
        self.refused("no such dimension", "dsplit.int", {"self": x[0]}, sections=2)
        self.refused("sections", "tensor_split.sections", {"self": x}, sections=0)

    def test_places(self):
        """nonzero(as_tuple=True), and where() of a condition alone."""
        x = self.normal(4, 5, 3) * (self.normal(4, 5, 3) > 0)
        for given in x, x[:, 0], x[0, :, 0]:
            self.same("nonzero_numpy.default", {"self": given}, *np.nonzero(given))
            self.same("where.default", {"condition": given}, *np.nonzero(given))
        for n, wanted in (("1", np.atleast_1d), ("2", np.atleast_2d), ("3", np.atleast_3d)):
            for value in x[0, 0, 0], x[0, 0], x[0], x:
                self.same(f"atleast_{n}d.default", {"self": np.asarray(value)}, wanted(value))
        self.same("column_stack.default", {"tensors": [x[0, 0], x[0, :3].T]}, np.column_stack([x[0, 0], x[0, :3].T]))

    def test_where_values_say(self):
        x, t = self.normal(3, 4), np.array([3, 0, 2])
        self.same("nonzero_static.default", {"self": t}, np.array([[0], [2], [-1], [-1]]), size=4)
        self.same("nonzero_static.default", {"self": t}, np.array([[0]]), size=1)
        self.same("repeat_interleave.self_Tensor", {"self": x, "repeats": t}, np.repeat(x, t, 0), dim=0, output_size=5)
        self.same("repeat_interleave.Tensor", {"repeats": t}, np.repeat(np.arange(3), t), output_size=5)
        self.same("narrow.Tensor", {"self": x, "start": np.array(1)}, x[1:3], dim=0, length=2)
        self.same("isin.Tensor_Scalar", {"elements": t}, t == 2, test_element=2)
        self.same("isin.Scalar_Tensor", {"test_elements": t}, False, element=2, invert=True)
        runs = np.array([1, 1, 2, 2, 2, 3, 1])
        self.same("unique_consecutive.default", {"self": runs}, np.array([1, 2, 3, 1]), np.array([0, 0, 1, 1, 1, 2, 3]), np.array([2, 3, 1, 1]),
                  return_inverse=True, return_counts=True)
        for how, wanted in (("amax", np.maximum), ("prod", np.multiply)):
            made, source = x.copy(), self.normal(3, 4)
            for row, one in zip([0, 2, 0], source):
                made[row] = wanted(made[row], one)
            self.same("index_reduce.default", {"self": x, "index": np.array([0, 2, 0]), "source": source}, made, dim=0, reduce=how)
        image, places = self.normal(1, 2, 2, 2), np.array([[[[0, 3], [8, 10]], [[1, 2], [13, 15]]]])
        wanted = np.zeros((1, 2, 16), np.float32)
        np.put_along_axis(wanted, places.reshape(1, 2, 4), image.reshape(1, 2, 4), 2)
        self.same("max_unpool2d.default", {"self": image, "indices": places}, wanted.reshape(1, 2, 4, 4), output_size=[4, 4])

    # ---- numbers ----

    def test_numbers(self):
        y, x = self.normal(3, 4, 5), np.sort(self.normal(4))
        halves = (y[:, 1:] + y[:, :-1]) / 2
        self.same("trapezoid.x", {"y": y, "x": x}, (halves * np.diff(x)[:, None]).sum(1), dim=1)
        self.same("trapezoid.x", {"y": y, "x": abs(y).cumsum(1)}, (halves * np.diff(abs(y).cumsum(1), axis=1)).sum(1), dim=1)
        self.same("cumulative_trapezoid.x", {"y": y, "x": x}, (halves * np.diff(x)[:, None]).cumsum(1), dim=1)
        self.same("cumulative_trapezoid.dx", {"y": y}, halves.cumsum(1) * 0.5, dx=0.5, dim=1)
        p = abs(self.normal(5)) + 2
        self.same("mvlgamma.default", {"self": p}, math.log(math.pi) * 1.5 + sum(np.vectorize(math.lgamma)(p - j / 2) for j in range(3)), p=3)
        a, b = self.normal(3, 5), self.normal(3, 5)
        self.same("cross.default", {"self": a, "other": b}, np.cross(a, b, axis=0))
        self.same("addr.default", {"self": self.normal(2, 3) * 0 + 1, "vec1": a[0, :2], "vec2": b[0, :3]}, 2 + 0.5 * np.outer(a[0, :2], b[0, :3]), beta=2, alpha=0.5)
        self.same("ldexp.Tensor", {"self": a[0], "other": np.arange(-2, 3)}, np.ldexp(a[0], np.arange(-2, 3)))
        self.same("float_power.Tensor_Scalar", {"self": p}, p.astype(np.float64) ** 1.5, exponent=1.5)
        self.same("linalg_vander.default", {"x": a[0]}, np.vander(a[0], increasing=True))
        hole = np.where(a > 0.7, np.nan, a).astype(np.float32)
        hole[0] = np.nan
        order = np.argsort(hole, 1, kind="stable")
        k = np.maximum((~np.isnan(hole)).sum(1) - 1, 0) // 2
        at = np.take_along_axis(order, k[:, None], 1)
        self.same("nanmedian.dim", {"self": hole}, np.take_along_axis(hole, at, 1)[:, 0], at[:, 0], dim=1)
        mask = np.array([[0.0, -np.inf, 1.0], [-np.inf] * 3], np.float32)
        self.same("_safe_softmax.default", {"self": mask}, np.array([[1, 0, math.e], [0, 0, 0]]) / (1 + math.e), dim=-1)
        w, c = self.normal(2, 5, 4), self.normal(3, 4)
        bias = self.normal(2)
        self.same("bilinear.default", {"input1": a, "input2": c, "weight": w, "bias": bias}, np.einsum("ni,oij,nj->no", a, w, c) + bias)
        self.same("bilinear.default", {"input1": a, "input2": c, "weight": w}, np.einsum("ni,oij,nj->no", a, w, c), bias=None)
        self.same("_trilinear.default", {"i1": a, "i2": w, "i3": c}, np.einsum("ni,oij,nj->no", a, w, c), expand1=[1, 3], expand2=[0], expand3=[1, 2], sumdim=[2, 3])
        factor = np.tril(self.normal(3, 3)) + 2 * np.eye(3, dtype=np.float32)
        self.same("cholesky_inverse.default", {"self": factor}, np.linalg.inv((factor @ factor.T).astype(np.float64)))
        u, s, v = self.run_node("svd.default", {"self": a}, 3)
        np.testing.assert_allclose(u * s @ v.T, a, 1e-4, 1e-4)
        self.assertEqual((u.shape, v.shape), ((3, 3), (5, 3)))
        t, kernel = self.normal(6, 2, 3), self.normal(2, 3, 4)
        wanted = np.stack([np.einsum("kbi,kio->bo", t[i:i + 2], kernel) for i in range(5)])
        self.same("conv_tbc.default", {"self": t, "weight": kernel, "bias": bias[:1].repeat(4)}, wanted + bias[0])

    def test_made_of_sizes(self):
        def window(target, wanted, **how):
            m = Model()
            m.outputs = [m.call("mul.Tensor", "y", self=m.user("x", sizes=[len(wanted)]), other=m.call(target, "w", **how, device=None, pin_memory=False))]
            got, = one_node.RUN.run(m.bytes(), [np.ones(len(wanted), np.float32)])
            np.testing.assert_allclose(got, wanted, 1e-5, 1e-6)
        for n in 1, 7, 8:
            window("hann_window.default", np.hanning(n + 1)[:-1] if n > 1 else [1], window_length=n)
            window("hann_window.periodic", np.hanning(n), window_length=n, periodic=False)
            window("hamming_window.periodic", np.hamming(n), window_length=n, periodic=False)
            window("blackman_window.periodic", np.blackman(n), window_length=n, periodic=False)
            window("kaiser_window.beta", np.kaiser(n, 7.5), window_length=n, periodic=False, beta=7.5)
        window("hamming_window.periodic_alpha", [0.5, 0.5 - 0.46 * math.cos(2 * math.pi / 3), 0.5 - 0.46 * math.cos(4 * math.pi / 3)][:3] - np.array([0.46, 0, 0]),
               window_length=3, periodic=True, alpha=0.5)
        theta = self.normal(2, 2, 3)
        for corners in False, True:
            axis = lambda n: np.linspace(-1, 1, n) if corners else (np.arange(n) * 2 + 1) / n - 1
            y, x = np.meshgrid(axis(4), axis(5), indexing="ij")
            self.same("affine_grid_generator.default", {"theta": theta}, np.einsum("hwk,nik->nhwi", np.stack([x, y, np.ones_like(x)], -1), theta),
                      size=[2, 3, 4, 5], align_corners=corners)
        theta = self.normal(1, 3, 4)
        z, y, x = np.meshgrid(*((np.arange(n) * 2 + 1) / n - 1 for n in (2, 3, 4)), indexing="ij")
        self.same("affine_grid_generator.default", {"theta": theta}, np.einsum("dhwk,nik->ndhwi", np.stack([x, y, z, np.ones_like(x)], -1), theta),
                  size=[1, 1, 2, 3, 4], align_corners=False)


RUN = one_node.RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    RUN.main()
