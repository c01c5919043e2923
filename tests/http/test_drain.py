#!/usr/bin/env python3
"""The end: on SIGTERM what is in flight is finished, readiness says 503, and the exit status is 0."""
import collections
import os
import signal
import socket
import tempfile
import threading
import time
import unittest

import numpy as np

import service
from service import Service

SIDE = service.slow_side(0.6)

X = {"self": np.array([-1, 2], np.float32)}
LONG = ("--drain-s", "300", "--idle-s", "300")
KEEP, ANEW = 48, 16 # clients that keep their connection, and such that open one for each request

ADD = b'{"self":[1,2],"other":[3,4]}'
REQUEST = b"POST /v1/ops/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(ADD), ADD)


def read_reply(sock):
    """Status and head of one reply; None: the connection has ended without any."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return None if not data else (0, data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().split(b"content-length:")[1].split()[0])
    while len(body) < size:
        piece = sock.recv(65536)
        if not piece:
            return 0, head
        body += piece
    return int(head.split()[1]), head


def loop(connect, keep, counts, go_on):
    """Sends requests until the server takes no connections, and counts what became of each."""
    sock = None
    while go_on():
        if not sock:
            try:
                sock = connect()
            except (ConnectionRefusedError, FileNotFoundError):
                counts["refused"] += 1
                return
            except OSError as error:
                counts[f"lost: connect: {error}"] += 1
                return
        try:
            sock.sendall(REQUEST)
            reply = read_reply(sock)
        except OSError as error:
            counts[f"lost: {error}"] += 1
            return
        if not reply or reply[0] != 200:
            counts[f"lost: {reply}"] += 1
            return
        counts["answered"] += 1
        if not keep or b"connection: close" in reply[1].lower():
            sock.close()
            sock = None


class Drain(unittest.TestCase):
    def lose_none(self, args, connect_to, rounds, each):
        """SIGTERM while clients of both kinds loop, over and over: each request that could be sent is answered."""
        answered = 0
        for _ in range(rounds):
            s = Service("--drain-s", "120", *args)
            stopped = threading.Event()
            counts_of = [collections.Counter() for _ in range(KEEP + ANEW)]
            clients = [threading.Thread(target=loop, args=(connect_to(s), i < KEEP, counts_of[i], lambda: not stopped.is_set()))
                       for i in range(len(counts_of))]
            for t in clients:
                t.start()
            seen = service.eventually(lambda: sum(c["answered"] for c in counts_of) > each, 120)
            s.process.send_signal(signal.SIGTERM)
            s.process.wait(150)
            stopped.set()
            for t in clients:
                t.join()
            s.stop()
            counts = sum(counts_of, collections.Counter())
            self.assertTrue(seen)
            self.assertEqual({k: n for k, n in counts.items() if k.startswith("lost")}, {})
            self.assertEqual(counts["refused"], len(clients), "each goes on until it is told")
            answered += counts["answered"]
        return answered

    def test_none_is_lost(self):
        """Of 10,000 requests under load; what cannot connect any more has lost nothing."""
        few = service.SANITIZED
        n = self.lose_none((), lambda s: s.socket, 2 if few else 5, 200 if few else 2000)
        self.assertGreater(n, 400 if few else 10000)

    def test_none_is_lost_of_several_threads(self):
        self.lose_none(("--io-threads", "3"), lambda s: s.socket, 2, 500)

    def test_none_is_lost_of_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")

            def connect():
                sock = socket.socket(socket.AF_UNIX)
                try:
                    sock.settimeout(10)
                    sock.connect(path)
                except OSError:
                    sock.close()
                    raise
                return sock
            self.lose_none(("--listen", "unix:" + path), lambda s: connect, 3, 500)

    def test_what_stands_in_the_queue(self):
        """Connections that are not accepted yet, as there are as many as may be, are answered as well."""
        s = Service("--connections", "1", *LONG)
        first = s.socket()
        first.sendall(REQUEST)
        self.assertEqual(read_reply(first)[0], 200)
        others = [s.socket(60) for _ in range(10)]
        for sock in others:
            sock.sendall(REQUEST)
        s.process.send_signal(signal.SIGTERM)
        for sock in others:
            status, head = read_reply(sock)
            self.assertEqual(status, 200)
            self.assertIn(b"connection: close", head.lower())
            sock.close()
        self.assertEqual(first.recv(1), b"")
        first.close()
        s.process.wait(60)
        s.stop()

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
        """Nobody new is let in. On open connections ready is 503, questions and calls are answered, each the
        connection's last; nothing is kept any more; the calls end well."""
        s = Service(*LONG)
        m, replies = np.ones((SIDE, SIDE), np.float32), []
        slow = threading.Thread(target=lambda: replies.append(
            s.infer("matmul", {"self": m, "other": m}, {"kernel": "ref"}, binary=True)))
        finish = s.half("relu", X)
        look = s.connect()
        s.under_way(1, look)
        slow.start()
        begun = service.eventually(lambda: replies or s.in_flight(look) == 2)
        halves = [s.half_head(*request) for request in (
            ("GET", "/v2/health/ready"), ("GET", "/v2/health/ready"), ("GET", "/v2/health/live"),
            ("POST", "/v1/ops/relu", service.pack(X)[0]),
            ("PUT", "/v1/tensors/x", b'{"shape":[1],"datatype":"FP32","data":[1]}'))]
        s.process.send_signal(signal.SIGTERM)
        begun = begun and s.is_closed()
        asked = [half() for half in halves]
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
        for one in asked:
            self.assertEqual(one.headers["Connection"], "close")
        for one in asked[:2]:
            self.assertEqual((one.status, one.json["ready"]), (503, False))
            self.assertGreaterEqual(int(one.headers["Retry-After"]), 0)
        self.assertEqual([one.status for one in asked[2:]], [200, 200, 503])
        self.assertIn("draining", asked[4].json["detail"])
        self.assertGreaterEqual(int(asked[4].headers["Retry-After"]), 0)

    def test_a_second_signal(self):
        """It ends at once, whatever is under way."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            s = Service()
            finish = s.half("relu", X)
            s.process.send_signal(signal.SIGTERM)
            self.assertTrue(s.is_closed())
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
