#!/usr/bin/env python3
"""What the service weighs and how fast it is there: ready within 0.3 s, at most 40 MiB resident when
idle, 60 MiB once it has run each operator. Not for an instrumented binary."""
import unittest

import numpy as np

import operators
import service
from service import Service

MIB = 1 << 20


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) * 1024


class Footprint(unittest.TestCase):
    def test_start(self):
        """The quickest of five: the machine may have other things to do."""
        seconds = []
        for _ in range(5):
            with Service() as s:
                seconds.append(s.start_seconds)
        print(f"ready after {min(seconds):.3f} s")
        self.assertLess(min(seconds), 0.3)

    def test_memory(self):
        with Service() as s:
            idle = resident(s.pid)
            rng = np.random.default_rng(1)
            for name, judged in operators.JUDGES.items():
                shapes, parameters = judged.calls[0]
                tensors = operators.draw_all(rng, judged.datatype, shapes)
                self.assertEqual(s.infer(name, tensors, parameters, binary=True).status, 200, name)
            served = resident(s.pid)
        print(f"{idle / MIB:.1f} MiB idle, {served / MIB:.1f} MiB after each operator")
        self.assertLessEqual(idle, 40 * MIB)
        self.assertLessEqual(served, 60 * MIB)


if __name__ == "__main__":
    service.main()
