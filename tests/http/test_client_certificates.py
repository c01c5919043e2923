#!/usr/bin/env python3
"""Clients' certificates: whose are taken, and for whom."""
import contextlib
import http.client
import socket

import certificates
import service
import tokens
from test_tls import TlsTest


class Clients(TlsTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alice = cls.authority.sign("alice")
        cls.late = cls.authority.sign("late")
        cls.nobody = cls.authority.sign("nobody")
        cls.server_only = cls.authority.sign("alice", "server-only", purpose="serverAuth")
        folder = cls.folder / "other"
        folder.mkdir()
        cls.stranger = certificates.Authority(folder).sign("alice")

    def says(self, reply, status, *words):
        text = f"{reply.status} {reply.body[:300]!r}"
        self.assertEqual(reply.status, status, text)
        for word in words:
            self.assertIn(word, reply.json["detail"])
        self.assertIn("WWW-Authenticate", reply.headers, text)

    def test_without_tokens(self):
        """A certificate that an authority vouches for is all that is asked for; what watches the server needs none."""
        path = self.folder / "u"
        s = self.start("--tls-client-ca", str(self.authority.ca), "--listen", f"unix:{path}", "--listen", "0.0.0.0:0") # and this is not insecure
        for _ in range(2):
            self.assertEqual(self.ask(s, self.alice).status, 200)
            self.assertEqual(self.ask(s, path="/v2/health/ready").status, 200)
            self.assertEqual(self.ask(s, self.stranger, "/v2/health/ready").status, 200)
            self.says(self.ask(s), 401, "certificate", "tls-client-ca")
            self.says(self.ask(s, self.stranger), 401, "no authority of tls-client-ca")
            self.says(self.ask(s, self.server_only), 401, "not made for clients")
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(str(path))
            c.sendall(b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b" 200 ", c.recv(1000))
        self.assertEqual(self.ask(s, self.alice, "/v1/access").json["insecure"], False)

    def test_as_tokens(self):
        """The common name is a token's name, with what it may; a secret that comes as well counts in its place."""
        known = tokens.Tokens(self.folder / "tokens", tokens.RANDOM)
        known.add("alice", "read,run")
        known.add("bob", "read")
        known.add("late", "read", expires="2020-01-01")
        known.write()
        s = self.start("--tls-client-ca", str(self.authority.ca), "--tokens", known.path)
        told = self.ask(s, self.alice, "/v1/access").json
        self.assertEqual((told["name"], told["scopes"]), ("alice", ["read", "run"]))
        bearer = known.headers("bob")
        self.assertEqual(self.ask(s, self.alice, "/v1/access", bearer).json["name"], "bob")
        self.assertEqual(self.ask(s, None, "/v1/access", bearer).json["name"], "bob")
        self.says(self.ask(s), 401, "Bearer", "certificate")
        self.says(self.ask(s, self.nobody), 401, "common name is no token's")
        for several in ("alice/CN=nobody", "nobody/CN=alice", "alice/CN=alice"): # which one is meant nobody knows
            self.says(self.ask(s, self.authority.sign(several, "several")), 401, "common name is no token's")
        self.says(self.ask(s, self.late), 401, "expired")
        self.says(self.ask(s, self.stranger, headers=bearer), 401, "no authority")
        self.says(self.ask(s, self.server_only), 401, "not made for clients")
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=60, context=self.authority.context(self.stranger))
        with contextlib.closing(c): # later on a connection as at first
            for path, status in (("/v2/health/ready", 200), ("/v2/health/ready", 200), ("/v1/isa", 401), ("/v1/isa", 401)):
                self.assertEqual(s.call("GET", path, headers=bearer, connection=c).status, status)
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=60, context=self.authority.context(self.alice))
        with contextlib.closing(c): # a token that goes, goes for connections that are there
            for _ in range(3):
                self.assertEqual(s.call("GET", "/v1/isa", connection=c).status, 200)
            self.says(s.call("PUT", "/v1/pools/p", {"threads": 1}, connection=c), 403, "admin")
            known.remove("alice")
            known.write()
            self.assertTrue(service.eventually(lambda: s.call("GET", "/v1/isa", connection=c).status == 401))

    def test_names(self):
        """A common name counts as a whole: up to 63 letters, without a zero byte."""
        known = tokens.Tokens(self.folder / "tokens", tokens.RANDOM)
        for name in ("alice", "n" * 63):
            known.add(name, "read")
        known.write()
        s = self.start("--tls-client-ca", str(self.authority.ca), "--tokens", known.path)
        self.assertEqual(self.ask(s, self.authority.sign("n" * 63, "long")).status, 200)
        for name, file in (("n" * 64, "longer"), ("alic", "alic"), ("alice2", "alice2"), ("Alice", "capital")):
            self.says(self.ask(s, self.authority.sign(name, file)), 401, "common name is no token's")
        zero = self.authority.resigned(self.authority.sign("alice!evil", "zero"), b"alice!evil", b"alice\0evil")
        self.says(self.ask(s, zero), 401, "common name is no token's")

    def test_times_and_chains(self):
        """None that has expired or is not valid yet, and no chain that is longer than any should be."""
        s = self.start("--tls-client-ca", str(self.authority.ca))
        self.says(self.ask(s, self.authority.sign("alice", "ended", days=-1)), 401, "has expired")
        self.says(self.ask(s, self.authority.sign("alice", "later", begins="20991231235959Z")), 401, "not valid yet")
        for n, status in ((15, 200), (16, 401), (40, 401)):
            chain = self.folder / "chain.pem"
            chain.write_text(self.alice[0].read_text() + n * self.authority.ca.read_text())
            self.assertEqual(self.ask(s, (chain, self.alice[1])).status, status, n)


if __name__ == "__main__":
    service.main()
