#!/usr/bin/env python3
"""What one address may have: connections, bodies under way, bytes of them; others have as much as ever."""
import contextlib
import socket
import ssl
import time

import numpy as np

import service

BODY, HEADERS = service.pack({"self": np.zeros(50000, np.float32)}, binary=True)
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Peers(service.ServiceTest):
    def setUp(self):
        self.open = contextlib.ExitStack()
        self.addCleanup(self.open.close)

    def connect(self, of=1):
        """A connection from 127.0.0.`of`."""
        c = socket.create_connection(("127.0.0.1", self.service.port), 20, (f"127.0.0.{of}", 0))
        if self.service.tls: # one that is refused fails at the first byte, as without it
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) # or the first request waits for an acknowledgement
            c = self.service.tls.wrap_socket(c, server_hostname="127.0.0.1", do_handshake_on_connect=False, suppress_ragged_eofs=False)
        return self.open.enter_context(c)

    def answered(self, c):
        try:
            c.sendall(LIVE)
            got = b""
            while not got.endswith(b"}\n") and (piece := c.recv(4096)): # TLS sends head and body apart
                got += piece
            return got.startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def fill(self, n):
        """So many connections, once those of before are seen to have gone."""
        mine = []
        def one():
            c = self.connect()
            mine.extend([c] * self.answered(c))
            return len(mine) == n
        self.assertTrue(service.eventually(one))
        return mine

    def begin(self, of=1, sent=90000):
        """A body of which so many bytes have come."""
        c = self.connect(of)
        lines = "".join(f"{k}: {v}\r\n" for k, v in {**HEADERS, "Content-Length": str(len(BODY))}.items())
        c.sendall(f"POST /v1/ops/sum HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode() + BODY[:sent])
        return c

    def end(self, c, sent=90000):
        c.sendall(BODY[sent:])
        return int(c.recv(65536).split(b" ")[1])


class Connections(Peers):
    args = ("--peer-connections", "6", "--io-threads", "1")

    def test_full(self):
        mine = self.fill(6)
        self.assertTrue(all(map(self.answered, mine)))
        self.assertFalse(self.answered(self.connect())) # none of them has been idle for a second
        self.assertTrue(self.answered(self.connect(2)))
        self.assertTrue(all(map(self.answered, mine)))
        time.sleep(1.2)
        for c in mine[1:]:
            self.assertTrue(self.answered(c))
        self.assertTrue(self.answered(self.connect())) # for which the one goes that was idle
        self.assertEqual(mine[0].recv(100), b"")
        self.assertTrue(all(map(self.answered, mine[1:])))

    def test_slow_ones_first(self):
        """A body that comes slowly is left alone, but where its address has all that it may."""
        self.fill(1)[0].close()
        slow = self.begin(sent=1000)
        other = self.begin(of=3, sent=1000)
        mine = self.fill(5)
        begin, at = time.monotonic(), 1000
        cut = False
        while time.monotonic() < begin + 8 and not cut:
            try:
                for c in (slow, other):
                    c.sendall(BODY[at:at + 1000])
                at += 1000
                slow.setblocking(False)
                cut = not slow.recv(1)
            except (BlockingIOError, ssl.SSLWantReadError):
                pass
            except OSError:
                cut = True
            slow.settimeout(20)
            for c in mine:
                self.assertTrue(self.answered(c))
            time.sleep(0.2)
        self.assertTrue(cut)
        self.assertEqual(self.end(other, at), 200)


class Bodies(Peers):
    args = ("--peer-bodies", "2")

    def test_bodies(self):
        mine = [self.begin(), self.begin()]
        time.sleep(0.2)
        with contextlib.closing(self.service.connect()) as c:
            c.request("POST", "/v1/ops/sum", BODY, HEADERS)
            reply = service.Reply(c.getresponse())
        self.assertEqual(self.problem(reply, 429, "peer-bodies")["type"], "/problems/limit")
        self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        self.assertEqual(self.service.call("POST", "/v1/ops/add", {"self": [1], "other": 2}).status, 200) # a small one
        self.assertEqual(self.end(self.begin(2)), 200)
        self.assertEqual([self.end(c) for c in mine], [200, 200])
        self.assertTrue(service.eventually(lambda: self.service.call("POST", "/v1/ops/sum", BODY, HEADERS).status == 200))


class Bytes(Peers):
    args = ("--peer-bytes", "600000")

    def test_bytes(self):
        mine = [self.begin(), self.begin()] # 256 KiB are taken at a time
        time.sleep(0.2)
        self.problem(self.service.call("POST", "/v1/ops/sum", BODY, HEADERS), 429, "peer-bytes")
        self.assertEqual(self.end(self.begin(2)), 200)
        self.assertEqual([self.end(c) for c in mine], [200, 200])


class Replies(Peers):
    """Those that nobody reads count too; once they are more than an address may have, it is given no other."""
    args = ("--peer-bytes", "600000")

    def test_replies(self):
        ask = b'{"size":[1000000],"parameters":{"binary_data_output":true}}'
        unread = [self.connect() for _ in range(30)]
        for c in unread:
            c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            c.sendall(b"POST /v1/ops/ones HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ask) + ask)
        got = [int(c.recv(20).split(b" ")[1]) for c in unread]
        self.assertLess(got.count(200), 10)
        self.assertEqual(got.count(200) + got.count(429), 30)
        self.problem(self.service.call("GET", "/v1/isa"), 429, "peer-bytes")
        self.assertEqual(self.service.call("GET", "/v2/health/ready").status, 200)
        self.assertEqual(self.end(self.begin(2)), 200)
        self.open.close()
        self.assertTrue(service.eventually(lambda: self.service.call("GET", "/v1/isa").status == 200))


class Default(Peers):
    def test_many(self):
        """Without these options one address may have nearly all connections."""
        mine = [self.connect() for _ in range(300)]
        self.assertTrue(all(map(self.answered, mine)))


if __name__ == "__main__":
    service.main()
