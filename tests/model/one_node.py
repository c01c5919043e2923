"""Archives of one node, made by hand, held to NumPy: what the tests of functions that torch.export leaves as they are
share. A file of them sets RUN, a Runner."""
import unittest

import numpy as np

import service
from archives import Model
from runner import Refused

RUN = None


class OneNode(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(service.seed())

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def model(self, target, inputs, outs=1, **how):
        """One node; inputs by the argument's name, a list of arrays for a list."""
        m, given = Model(), {}
        for name, value in inputs.items():
            for i, array in enumerate(value if isinstance(value, list) else [value]):
                kind = {"f": "float32", "i": "int64"}[array.dtype.kind]
                port = m.user(f"{name}{i}", kind, sizes=list(array.shape))
                given.setdefault(name, []).append(port) if isinstance(value, list) else given.update({name: port})
        m.outputs = [m.call(target, "y", **given, **how)] if outs == 1 else list(m.call(target, [f"y{i}" for i in range(outs)], **given, **how))
        return m

    def run_node(self, target, inputs, outs, mode="plan", /, **how):
        flat = [a for value in inputs.values() for a in (value if isinstance(value, list) else [value])]
        return RUN.run(self.model(target, inputs, outs, **how).bytes(), flat, how=mode)

    def same(self, target, inputs, *wanted, **how):
        for mode in "eager", "plan":
            for got, want in zip(self.run_node(target, inputs, len(wanted), mode, **how), wanted, strict=True):
                with self.subTest(target, **{k: str(v) for k, v in how.items()}):
                    self.assertEqual(got.shape, np.shape(want))
                    np.testing.assert_allclose(got, want, 2e-5, 2e-5)

    def refused(self, word, target, inputs, **how):
        with self.assertRaises(Refused) as caught:
            RUN.run(self.model(target, inputs, **how).bytes(), [a for a in inputs.values()])
        self.assertIn(word, str(caught.exception))
