#!/usr/bin/env python3
"""The end: on SIGTERM what is in flight is finished, readiness says 503, and the exit status is 0."""
import signal
import threading
import time
import unittest

import numpy as np

import service
from service import Service, stored

SIDE = service.slow_side(0.6)


def slow_service(*args):
    """A service, and a call to it that runs for some tenths of a second."""
    s = Service(*args)
    head = b'{"shape":[%d,%d],"datatype":"FP32"}' % (SIDE, SIDE)
    s.call("PUT", "/v1/tensors/m", head + np.ones((SIDE, SIDE), np.float32).tobytes(),
           {"Inference-Header-Content-Length": str(len(head))})
    inputs = {"self": stored("m"), "other": stored("m")}
    return s, lambda **how: s.infer("matmul", inputs, {"kernel": "ref", "binary_data_output": True}, **how)


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
        s, call = slow_service()
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(call())) for _ in range(3)]
        probe = s.connect()
        s.call("GET", "/v2/health/ready", connection=probe)
        for t in threads:
            t.start()
        time.sleep(0.2)
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        ready = [s.call("GET", "/v2/health/ready", connection=probe), s.call("GET", "/v2/health/ready"),
                 s.call("GET", "/v2/health/ready")]
        live, work = s.call("GET", "/v2/health/live"), call()
        still = s.process.poll() is None
        for t in threads:
            t.join()
        s.process.wait(60) # stop() would be a second signal
        s.stop()
        self.assertTrue(still, "it did not wait for the calls")
        self.assertEqual([r.status for r in replies], [200] * 3)
        self.assertTrue(all((r.out == SIDE).all() for r in replies))
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
        s, call = slow_service()
        replies, probes = [], []
        work = threading.Thread(target=lambda: replies.append(call()))

        def probe():
            try:
                while True:
                    probes.append(s.call("GET", "/v2/health/ready").status)
            except OSError:
                pass # it has ended

        probing = [threading.Thread(target=probe) for _ in range(4)]
        work.start()
        time.sleep(0.2)
        s.process.send_signal(signal.SIGTERM)
        for t in probing:
            t.start()
        s.process.wait(25) # less than drain_s
        for t in [work, *probing]:
            t.join()
        s.stop()
        self.assertEqual([r.status for r in replies], [200])
        self.assertIn(503, probes)

    def test_a_second_signal(self):
        """It ends at once, whatever is under way."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            s = Service()
            with s.socket() as c:
                c.sendall(b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
                time.sleep(0.2)
                s.process.send_signal(signal.SIGTERM)
                time.sleep(0.3)
                self.assertIsNone(s.process.poll(), "it did not wait for the request")
                begin = time.monotonic()
                s.process.send_signal(sig)
                s.process.wait(20)
                self.assertLess(time.monotonic() - begin, 10)
                s.stop()
                self.assertIn("second signal", s.log)

    def test_at_most_drain_s(self):
        """A client that never ends its request does not keep the service alive."""
        s = Service("--drain-s", "1")
        with s.socket() as c:
            c.sendall(b"POST /v1/ops/relu HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.2)
            begin = time.monotonic()
            s.process.send_signal(signal.SIGTERM)
            s.process.wait(20)
            s.stop()
            self.assertLess(time.monotonic() - begin, 10)

    def test_the_port_is_free_afterwards(self):
        with Service() as s:
            port = s.port
        with Service(port=port) as s:
            self.assertEqual(s.call("GET", "/v1/isa").status, 200)


if __name__ == "__main__":
    service.main()
