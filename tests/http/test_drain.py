#!/usr/bin/env python3
"""The end: on SIGTERM what is in flight is finished, readiness says 503, and the exit status is 0."""
import signal
import threading
import time
import unittest

import numpy as np

import service
from service import Service

SIDE = service.slow_side(0.6)

X = {"self": np.array([-1, 2], np.float32)}
LONG = ("--drain-s", "300", "--idle-s", "300")


def not_ready(s):
    return service.eventually(lambda: s.call("GET", "/v2/health/ready").status == 503)


class Drain(unittest.TestCase):
    def test_idle(self):
        for sig in (signal.SIGTERM, signal.SIGINT):
            s = Service()
            kept = s.connect() # an open connection does not hold it up
            s.call("GET", "/v1/isa", connection=kept)
            begin = time.monotonic()
            s.process.send_signal(sig)
            s.process.wait(20)
            s.stop()
            self.assertLess(time.monotonic() - begin, 10)

    def test_hangup_is_ignored(self):
        s = Service()
        s.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        self.assertEqual(s.call("GET", "/v2/health/ready").status, 200)
        s.stop()

    def test_in_flight_is_finished(self):
        """Ready turns 503, on a connection that is open and on new ones; other questions are answered,
        no new work is taken, and the calls end well."""
        s = Service(*LONG)
        m, replies = np.ones((SIDE, SIDE), np.float32), []
        slow = threading.Thread(target=lambda: replies.append(
            s.infer("matmul", {"self": m, "other": m}, {"kernel": "ref"}, binary=True)))
        finish = s.half("relu", X)
        probe, look = s.connect(), s.connect()
        s.call("GET", "/v2/health/ready", connection=probe)
        s.under_way(1, look)
        slow.start()
        begun = service.eventually(lambda: replies or s.in_flight(look) == 2)
        s.process.send_signal(signal.SIGTERM)
        begun = begun and not_ready(s)
        ready = [s.call("GET", "/v2/health/ready", connection=probe), s.call("GET", "/v2/health/ready"),
                 s.call("GET", "/v2/health/ready")]
        live, work = s.call("GET", "/v2/health/live"), s.infer("relu", X)
        slow.join()
        still = s.process.poll() is None
        reply = finish()
        s.process.wait(60) # stop() would be a second signal
        s.stop()
        self.assertTrue(begun)
        self.assertTrue(still, "it did not wait for the calls")
        self.assertEqual([r.status for r in (reply, *replies)], [200] * 2)
        self.assertEqual(reply.out.tolist(), [0, 2])
        self.assertTrue((replies[0].out == SIDE).all())
        for reply in ready:
            self.assertEqual((reply.status, reply.json["ready"]), (503, False))
            self.assertEqual(reply.headers["Connection"], "close")
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 0)
        self.assertEqual(live.status, 200)
        self.assertEqual(work.status, 503)
        self.assertIn("draining", work.json["detail"])
        self.assertGreaterEqual(int(work.headers["Retry-After"]), 0)

    def test_probes_without_a_pause(self):
        """They are answered while it drains, and do not keep it from ending."""
        s = Service(*LONG)
        finish, probes = s.half("relu", X), []

        def probe():
            try:
                while True:
                    probes.append(s.call("GET", "/v2/health/ready").status)
            except OSError:
                pass # it has ended

        probing = [threading.Thread(target=probe) for _ in range(4)]
        s.process.send_signal(signal.SIGTERM)
        for t in probing:
            t.start()
        seen = service.eventually(lambda: 503 in probes)
        reply = finish()
        s.process.wait(60) # less than drain_s
        for t in probing:
            t.join()
        s.stop()
        self.assertTrue(seen)
        self.assertEqual(reply.status, 200)

    def test_a_second_signal(self):
        """It ends at once, whatever is under way."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            s = Service()
            finish = s.half("relu", X)
            s.process.send_signal(signal.SIGTERM)
            self.assertTrue(not_ready(s))
            self.assertIsNone(s.process.poll(), "it did not wait for the request")
            begin = time.monotonic()
            s.process.send_signal(sig)
            s.process.wait(20)
            self.assertLess(time.monotonic() - begin, 10)
            self.assertRaises(OSError, finish)
            s.stop()
            self.assertIn("second signal", s.log)

    def test_at_most_drain_s(self):
        """A client that never ends its request does not keep the service alive."""
        s = Service("--drain-s", "1")
        finish = s.half("relu", X)
        begin = time.monotonic()
        s.process.send_signal(signal.SIGTERM)
        s.process.wait(20)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertRaises(OSError, finish)
        s.stop()
        self.assertIn("cut off", s.log)

    def test_the_port_is_free_afterwards(self):
        with Service() as s:
            port = s.port
        with Service(port=port) as s:
            self.assertEqual(s.call("GET", "/v1/isa").status, 200)


if __name__ == "__main__":
    service.main()
