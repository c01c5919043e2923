#!/usr/bin/env python3
"""deploy/healthcheck asks the port that the server has, wherever that is said, and says no where there is none."""
import os
import pathlib
import shlex
import shutil
import socket
import subprocess
import unittest

import certificates
import service

CHECK = str(pathlib.Path(__file__).resolve().parents[2] / "deploy/healthcheck")


def environment():
    return {**service.environment(), "PATH": f"{pathlib.Path(service.BINARY).resolve().parent}:{os.environ['PATH']}"}


class HealthCheck(unittest.TestCase):
    def check(self, *args, **env):
        return subprocess.run([CHECK, *args], env={**environment(), **env}, capture_output=True, text=True, timeout=30)

    def test_by_argument_and_environment(self):
        with service.Service() as s:
            self.assertEqual(self.check(str(s.port)).returncode, 0)
            for address in ("127.0.0.1", "0.0.0.0"):
                self.assertEqual(self.check(TENSORD_LISTEN=f"{address}:{s.port}").returncode, 0)
        self.assertNotEqual(self.check(str(s.port)).returncode, 0)
        done = self.check(TENSORD_LISTEN="unix:/run/socket")
        self.assertEqual((done.returncode, done.stderr), (1, "healthcheck: no port in unix:/run/socket: begin --listen with one\n"))

    def test_over_tls(self):
        """Whoever has signed the certificate, and whether clients are asked for one; no secret is sent."""
        authority, (cert, key) = certificates.here()
        tls = ("--tls-cert", str(cert), "--tls-key", str(key), "--tls-client-ca", str(authority.ca))
        with service.Service(*tls, tls=authority.context()) as s:
            self.assertEqual(self.check(str(s.port), TENSORD_TLS_CERT=str(cert)).returncode, 0)
            self.assertEqual(self.check(str(s.port)).returncode, 1) # in plain text
        with service.Service() as s:
            self.assertEqual(self.check(str(s.port), TENSORD_TLS_CERT=str(cert)).returncode, 1)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            asks = subprocess.Popen([CHECK, str(port)], env={**environment(), "TENSORD_TOKEN": "a secret"}, stderr=subprocess.PIPE)
            with listener.accept()[0] as c:
                asked = c.recv(4096)
                c.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
            self.assertTrue(asked.startswith(b"GET /v2/health/ready HTTP/1.1\r\n"), asked)
            self.assertNotIn(b"secret", asked)
            self.assertIn(b"not ready", asks.communicate(timeout=30)[1])
            self.assertEqual(asks.returncode, 1)
        port = str(service.free_port())
        self.assertEqual(self.as_first_process("--listen", f"127.0.0.1:{port}", "--tls-cert", str(cert), "--tls-key", str(key)), "ready\n")

    def as_first_process(self, *listen, **env):
        """The check's status words, beside a server that is process 1 of its namespace."""
        if not shutil.which("bwrap"):
            self.skipTest("no bwrap here")
        sandbox = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--as-pid-1", "--die-with-parent"]
        if subprocess.run([*sandbox, "true"], capture_output=True).returncode:
            self.skipTest("bwrap may not make a sandbox here")
        asks = f"for try in $(seq 200); do {shlex.quote(CHECK)} 2>/dev/null && echo ready && break; sleep 0.05; done; kill 1"
        serves = shlex.join([service.BINARY, "serve", *listen])
        return subprocess.run([*sandbox, "bash", "-c", f"({asks}) & exec {serves}"], capture_output=True, text=True, timeout=60,
                              env={**environment(), "TENSORD_LISTEN": "127.0.0.1:1", **env}).stdout

    def test_where_process_1_listens(self):
        port = str(service.free_port())
        for listen in (("--listen", f"127.0.0.1:{port}"), (f"--listen=0.0.0.0:{port}", "--insecure", "--listen", "127.0.0.1:0")):
            self.assertEqual(self.as_first_process(*listen), "ready\n", listen)
        self.assertEqual(self.as_first_process(TENSORD_LISTEN=f"127.0.0.1:{port}"), "ready\n")
        if socket.has_ipv6 and not self.check(TENSORD_LISTEN="[::1]:1").stderr.count("assign"):
            self.assertEqual(self.as_first_process("--listen", f"[::]:{port}", "--insecure"), "ready\n")


if __name__ == "__main__":
    service.main()
