#!/usr/bin/env python3
"""TLS and those who mean it no good: plain text, half and wrong handshakes. They get nothing, and cost as much."""
import contextlib
import re
import socket
import ssl
import time

import numpy as np

import service
from test_tls import REQUEST, TlsTest


def everything(port, data):
    """What comes back until the connection ends."""
    got = b""
    with socket.create_connection(("127.0.0.1", port), 60) as c, contextlib.suppress(ConnectionError):
        c.sendall(data)
        while piece := c.recv(1000):
            got += piece
    return got


class Hostile(TlsTest):
    def test_plain_text_to_tls(self):
        """It is not answered, but for an alert perhaps, nor taken: neither what it asks nor what it stores."""
        s = self.start()
        body = b'{"shape":[1],"datatype":"FP32","data":[1]}'
        put = b"PUT /v1/tensors/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        for data in (REQUEST, REQUEST * 1000, put, b"\r\n" + REQUEST, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            got = everything(s.port, data)
            self.assertTrue(got == b"" or (got[0] == 21 and len(got) == 7), got[:100])
        self.assertEqual(self.ask(s, path="/v1/tensors/x").status, 404)
        s.stop()
        self.assertNotIn("PUT", s.log)

    def test_tls_to_plain_text(self):
        """What begins a handshake is a wrong request: refused, and its connection closed."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            self.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        path = self.folder / "p"
        s = self.start("--listen", f"unix:{path}") # which is plain
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(60)
            c.connect(str(path))
            c.sendall(outgoing.read())
            c.shutdown(socket.SHUT_WR)
            got = b""
            while piece := c.recv(1000):
                got += piece
        self.assertNotIn(b" 200 ", got)
        self.assertNotEqual(got[:1], b"\x16")
        self.assertEqual(self.ask(s).status, 200)

    def test_handshakes_that_stop(self):
        """They are connections like others: closed after idle-s, and they make way for others."""
        s = self.start("--idle-s", "1", "--connections", "8")
        held = [socket.create_connection(("127.0.0.1", s.port), 60) for _ in range(20)]
        for c in held[:10]:
            c.sendall(b"\x16\x03\x01")
        self.assertEqual(self.ask(s).status, 200)
        for c in held:
            with contextlib.suppress(ConnectionResetError):
                while c.recv(1000):
                    pass
            c.close()

    def test_handshakes_that_wait_cost_nothing(self):
        """The server sleeps meanwhile, though libmicrohttpd wants to be called again at once."""
        s = self.start("--io-spin-us", "0")
        look = s.connect()
        self.addCleanup(look.close)

        def sleeps():
            text = s.call("GET", "/metrics", connection=look).body.decode()
            return float(re.search(r'tensord_io_waits_total\{how="sleep"\} (\d+)', text)[1])
        for data in (b"", b"\x16\x03\x01"):
            with socket.create_connection(("127.0.0.1", s.port), 60) as c:
                c.sendall(data)
                before = sleeps()
                time.sleep(1)
                self.assertLess(sleeps() - before, 3000)

    def test_hostile_bytes(self):
        rng = np.random.default_rng(service.seed())
        s = self.start()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with contextlib.suppress(ssl.SSLWantReadError):
            self.authority.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
        hello = outgoing.read()
        for _ in range(300):
            begin = bytearray(hello[:rng.integers(1, len(hello) + 1)])
            for _ in range(rng.integers(0, 4)):
                begin[rng.integers(len(begin))] = rng.integers(256)
            with socket.create_connection(("127.0.0.1", s.port), 20) as c, contextlib.suppress(OSError):
                c.sendall(begin)
                c.shutdown(socket.SHUT_WR)
                while c.recv(4096):
                    pass
        self.assertEqual(self.ask(s).status, 200)


if __name__ == "__main__":
    service.main()
