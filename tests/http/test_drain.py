#!/usr/bin/env python3
"""The end: on SIGTERM what is in flight is finished, readiness says 503, and the exit status is 0."""
import signal
import threading
import time
import unittest

import numpy as np

import service
from service import Service, stored

SIDE = 400 if service.SANITIZED else 800


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
            self.assertLess(time.monotonic() - begin, 10 if service.SANITIZED else 2)

    def test_in_flight_is_finished(self):
        """Ready turns 503 on a connection that is open; new ones are not taken; the call ends well."""
        s, call = slow_service()
        replies, seen = [], []
        threads = [threading.Thread(target=lambda: replies.append(call())) for _ in range(3)]
        probe = s.connect()
        s.call("GET", "/v2/health/ready", connection=probe)
        for t in threads:
            t.start()
        time.sleep(0.2)
        s.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        refused = False
        try:
            seen.append(s.call("GET", "/v2/health/ready", connection=probe))
        except OSError:
            pass # it may close what is idle
        try:
            s.call("GET", "/v1/isa")
        except OSError:
            refused = True
        still = s.process.poll() is None
        for t in threads:
            t.join()
        s.stop()
        self.assertTrue(still, "it did not wait for the calls")
        self.assertTrue(refused, "a new connection was taken")
        self.assertEqual([r.status for r in replies], [200] * 3)
        self.assertTrue(all((r.out == SIDE).all() for r in replies))
        for reply in seen:
            self.assertEqual((reply.status, reply.json["ready"]), (503, False))
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 0)
        self.assertTrue(seen, "the open connection was not answered")

    def test_at_most_drain_s(self):
        """A client that never ends its request does not keep the service alive."""
        s = Service("--drain-s", "1")
        with s.socket() as c:
            c.sendall(b"POST /v1/ops/relu HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            time.sleep(0.2)
            begin = time.monotonic()
            s.process.send_signal(signal.SIGTERM)
            s.process.wait(20)
            s.stop()
            self.assertLess(time.monotonic() - begin, 10 if service.SANITIZED else 4)

    def test_the_port_is_free_afterwards(self):
        with Service() as s:
            port = s.port
        with Service(port=port) as s:
            self.assertEqual(s.call("GET", "/v1/isa").status, 200)


if __name__ == "__main__":
    service.main()
