#!/usr/bin/env python3
"""TLS: what is spoken, and what becomes of new certificates. That all else is as without TLS, other files show with
TENSORD_OVER_TLS=1 (tests/http/meson.build)."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np

import certificates
import service
from service import Service

REQUEST = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def serial(port, authority):
    """Of the certificate that a new connection is shown."""
    with socket.create_connection(("127.0.0.1", port), 20) as plain, authority.context().wrap_socket(plain, server_hostname="localhost") as s:
        return s.getpeercert()["serialNumber"]


def refused(service_, context):
    """Why no connection comes about; None where one does, and is answered."""
    try:
        with socket.create_connection(("127.0.0.1", service_.port), 20) as plain, context.wrap_socket(plain, server_hostname="localhost") as s:
            s.sendall(REQUEST)
            return None if s.recv(100).startswith(b"HTTP/1.1 200") else "no answer"
    except (ssl.SSLError, ConnectionResetError) as e:
        return str(e)


class TlsTest(unittest.TestCase):
    args = ()

    @classmethod
    def setUpClass(cls):
        cls.authority, cls.own = certificates.here()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def start(self, *args, own=None, client=None, **how):
        cert, key = own or self.own
        s = Service("--tls-cert", str(cert), "--tls-key", str(key), *args, tls=self.authority.context(client), **how)
        self.addCleanup(s.stop)
        return s

    def ask(self, s, client=None, path="/v1/isa", headers=None):
        """The reply to one who shows that certificate."""
        c = http.client.HTTPSConnection("127.0.0.1", s.port, timeout=60, context=self.authority.context(client))
        with contextlib.closing(c):
            return s.call("GET", path, headers=headers, connection=c)


class Speech(TlsTest):
    def test_what_is_spoken(self):
        """TLS 1.2 and 1.3, with keys that are agreed on anew; nothing older, nothing weaker, no plain text."""
        s = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.authority.context()
            context.minimum_version = context.maximum_version = version
            self.assertIsNone(refused(s, context), version)
        for ciphers, version in (("AES128-SHA:AES256-SHA:AES128-GCM-SHA256:@SECLEVEL=0", ssl.TLSVersion.TLSv1_2),
                                 ("ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0", ssl.TLSVersion.TLSv1_2),
                                 ("ALL:@SECLEVEL=0", ssl.TLSVersion.TLSv1_1), ("ALL:@SECLEVEL=0", ssl.TLSVersion.TLSv1)):
            context = self.authority.context()
            context.set_ciphers(ciphers)
            with self.subTest(ciphers=ciphers, version=version):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    context.minimum_version = context.maximum_version = version
                self.assertIsNotNone(refused(s, context))
        for name in ("AES256-GCM-SHA384", "AES128-GCM-SHA256", "CHACHA20-POLY1305"):
            context = self.authority.context()
            context.set_ciphers(f"ECDHE-ECDSA-{name}")
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            self.assertIsNone(refused(s, context), name)
        self.hashes(s, "ECDSA")
        other = ssl.create_default_context() # who does not trust the authority
        self.assertIn("CERTIFICATE_VERIFY_FAILED", refused(s, other))
        s.stop()
        self.assertIn(f'"ready on https://127.0.0.1:{s.port}"', s.log)

    def openssl(self, s):
        return ["openssl", "s_client", "-connect", f"127.0.0.1:{s.port}", "-CAfile", str(self.authority.ca), "-tls1_2"]

    def hashes(self, s, kind):
        """It signs with SHA-256, and not for a client that knows SHA-1 alone."""
        for name, status in (("SHA1", 1), ("SHA256", 0)):
            done = subprocess.run([*self.openssl(s), "-cipher", "ALL:@SECLEVEL=0", "-sigalgs", f"{kind}+{name}"], input=b"", capture_output=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)

    def test_each_session_is_new(self):
        """None is resumed, and none is negotiated anew."""
        s = self.start()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context, session = self.authority.context(), None
            context.minimum_version = context.maximum_version = version
            for _ in range(3):
                with socket.create_connection(("127.0.0.1", s.port), 20) as plain, \
                        context.wrap_socket(plain, server_hostname="localhost", session=session) as c:
                    c.sendall(REQUEST)
                    self.assertIn(b" 200 ", c.recv(100))
                    self.assertFalse(c.session_reused)
                    session = c.session
        with subprocess.Popen(self.openssl(s), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
            got = b""
            while b"Extended master secret" not in got:
                got += p.stdout.read1()
            p.stdin.write(b"R\n") # its word for that
            p.stdin.flush()
            self.assertEqual(p.wait(60), 1) # the server closes
            self.assertIn(b"RENEGOTIATING", p.stdout.read())

    def test_top(self):
        s = self.start()
        where, known = f"localhost:{s.port}", {"TENSORD_CA": str(self.authority.ca)}
        done = service.run("top", f"https://{where}", env=known)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"at https://{where}", done.stdout)
        for args, env, words in ((f"https://{where}", {}, "no server at"), (where, {}, "no server at"),
                                 (f"https://{where}", {"TENSORD_CA": "/nowhere"}, "no server at")):
            done = service.run("top", args, env=env)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(words, done.stderr)

    def test_rsa(self):
        s = self.start(own=self.authority.server("rsa", kind="rsa"))
        self.assertEqual(self.ask(s).status, 200)
        context = self.authority.context()
        context.set_ciphers("AES128-GCM-SHA256:AES256-GCM-SHA384:@SECLEVEL=0") # with keys that the certificate's own encrypts
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.assertIsNotNone(refused(s, context))
        self.hashes(s, "RSA")

    def test_big_bodies(self):
        s = self.start()
        x = np.arange(25_000_000, dtype=np.float32)
        self.assertTrue((s.infer("neg", {"self": x}, binary=True).out == -x).all())

    def test_many_on_one_connection(self):
        """Pipelined, in pieces, and refused ones."""
        s = self.start()
        with s.socket(60) as c:
            c.sendall(REQUEST * 50)
            got = b""
            while got.count(b"HTTP/1.1 200") < 50 or not got.endswith(b"}\n"):
                got += c.recv(1 << 16)
            for byte in REQUEST:
                c.sendall(bytes([byte]))
            self.assertIn(b" 200 ", c.recv(1000))
            c.sendall(b"GET / HTTP/1.1\r\nHost localhost\r\n\r\n") # which libmicrohttpd refuses by itself
            got = b""
            while piece := c.recv(1 << 16):
                got += piece
            head, _, body = got.partition(b"\r\n\r\n")
            self.assertIn(b"400 Bad Request", head)
            self.assertEqual(json.loads(body)["type"], "/problems/invalid-request")

    def test_unix_sockets_are_plain(self):
        path = self.folder / "s"
        self.start("--listen", f"unix:{path}")
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(str(path))
            c.sendall(REQUEST)
            self.assertIn(b" 200 ", c.recv(1000))

    def test_draining(self):
        """Those who are at it get an answer each, the last with the word that it is."""
        s = self.start()
        asked, lost, stop = [0] * 12, [], threading.Event()

        def go(i):
            c = s.connect()
            with contextlib.closing(c):
                while True:
                    try:
                        reply = s.call("POST", "/v1/ops/add", {"self": [1, 2], "other": 3}, connection=c)
                    except OSError as e:
                        if stop.is_set() and isinstance(e, (http.client.RemoteDisconnected, ConnectionRefusedError)) and not asked[i]:
                            return
                        lost.append((i, repr(e)))
                        return
                    asked[i] += reply.status == 200
                    if reply.headers.get("Connection") == "close":
                        return
        threads = [threading.Thread(target=go, args=(i,)) for i in range(len(asked))]
        for t in threads:
            t.start()
        self.assertTrue(service.eventually(lambda: min(asked) > 5))
        stop.set()
        s.stop()
        for t in threads:
            t.join()
        self.assertEqual(lost, [])


class Files(TlsTest):
    def problem(self, *args):
        done = service.run("serve", "--listen", "127.0.0.1:0", *map(str, args))
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_what_is_wrong(self):
        cert, key = self.own
        other = self.authority.server("other")
        shown = self.folder / "shown.key"
        shutil.copy(key, shown)
        shown.chmod(0o644)
        text = self.folder / "text"
        text.write_text("no certificate")
        text.chmod(0o600)
        ended, later = self.authority.server("ended", days=-1), self.authority.server("later", begins="20991231235959Z")
        for args, words in ((("--tls-cert", cert), ("tls-key: is missing", "together")), (("--tls-key", key), ("tls-cert: is missing",)),
                            (("--tls-client-ca", self.authority.ca), ("is missing",)),
                            (("--tls-cert", cert, "--tls-key", other[1]), ("tls-key", "not the key of the certificate")),
                            (("--tls-cert", cert, "--tls-key", shown), ("tls-key", "others may read", "chmod 600")),
                            (("--tls-cert", cert, "--tls-key", self.folder / "none"), ("tls-key", "No such file")),
                            (("--tls-cert", text, "--tls-key", key), ("tls-cert", "text")), (("--tls-cert", cert, "--tls-key", text), ("tls-key",)),
                            (("--tls-cert", cert, "--tls-key", self.folder), ("tls-key", "is no file")),
                            (("--tls-cert", ended[0], "--tls-key", ended[1]), ("tls-cert", "has expired")),
                            (("--tls-cert", later[0], "--tls-key", later[1]), ("tls-cert", "not valid yet")),
                            (("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", text), ("tls-client-ca", "text"))):
            with self.subTest(args=args):
                said = self.problem(*args)
                for word in words:
                    self.assertIn(word, said)
        if os.geteuid() == 0:
            shown.chmod(0o600)
            os.chown(shown, 1234, -1)
            self.assertIn("another user's", self.problem("--tls-cert", cert, "--tls-key", shown))
            os.chown(shown, 0, -1)
            shown.chmod(0o640) # as clusters mount secrets
            self.assertEqual(self.ask(self.start(own=(cert, shown))).status, 200)

    def test_a_new_certificate_under_load(self):
        """No connection and no request is lost; new connections have the new one, and files that are wrong change nothing."""
        cert, key = self.folder / "c.pem", self.folder / "c.key"

        def put(pair):
            for file, to in zip(pair, (cert, key)):
                made = self.folder / "new"
                shutil.copy(file, made)
                made.chmod(0o600)
                made.replace(to)
        put(self.own)
        log = self.enterContext(open(self.folder / "log", "w"))
        s = self.start(own=(cert, key), stderr=log)
        counts, failed, stop = [0] * 4, [], threading.Event()

        def go(i):
            kept = s.connect() if i < 2 else None
            while not stop.is_set():
                try:
                    reply = s.call("POST", "/v1/ops/add", {"self": [1, 2], "other": 3}, connection=kept)
                    counts[i] += 1
                    if reply.status != 200:
                        failed.append(reply.status)
                except OSError as e:
                    failed.append(repr(e))
        threads = [threading.Thread(target=go, args=(i,)) for i in range(len(counts))]
        for t in threads:
            t.start()
        try:
            seen = {serial(s.port, self.authority)}
            for i in range(3):
                put(self.authority.server(f"next{i}", days=3 + i))
                if i % 2:
                    s.process.send_signal(1) # SIGHUP; else it is seen within a second
                self.assertTrue(service.eventually(lambda: serial(s.port, self.authority) not in seen))
                seen.add(serial(s.port, self.authority))
            put((self.own[0], self.authority.server("another")[1])) # which are not each other's
            s.process.send_signal(1)
            time.sleep(1.5)
            self.assertIn(serial(s.port, self.authority), seen)
            before = list(counts)
            self.assertTrue(service.eventually(lambda: all(b > a for a, b in zip(before, counts))))
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(failed, [])
        ends = [float(line.split()[1]) for line in s.call("GET", "/metrics").body.decode().splitlines()
                if line.startswith("tensord_tls_certificate_ends_seconds ")]
        self.assertEqual(len(ends), 1)
        self.assertAlmostEqual(ends[0], time.time() + 5 * 86400, delta=7200)
        put(self.authority.server("last"))
        s.process.send_signal(1)
        self.assertTrue(service.eventually(lambda: serial(s.port, self.authority) not in seen))
        text = pathlib.Path(log.name)
        lines = lambda: [json.loads(line)["message"] for line in text.read_text().splitlines() if '"event":"tls"' in line]
        s.process.send_signal(1) # the same files, which are read all the same
        self.assertTrue(service.eventually(lambda: lines()[-1] == lines()[-2]))
        s.stop()
        said = lines()
        self.assertTrue(any("the certificate of before stays: tls-key" in line and "not the key of the certificate" in line for line in said), said)

    def test_new_authorities(self):
        """They hold for new connections."""
        ca, folder = self.folder / "ca.pem", self.folder / "second"
        folder.mkdir()
        second = certificates.Authority(folder)
        alice = second.sign("alice")
        shutil.copy(self.authority.ca, ca)
        s = self.start("--tls-client-ca", str(ca))
        self.assertEqual(self.ask(s, alice).status, 401)
        ca.write_text(self.authority.ca.read_text() + second.ca.read_text())
        self.assertTrue(service.eventually(lambda: self.ask(s, alice).status == 200))


if __name__ == "__main__":
    service.main()
