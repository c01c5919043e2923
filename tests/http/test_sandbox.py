#!/usr/bin/env python3
"""What the process can reach: told where people look, and so that all that the server does goes on; that nothing else does is
tests/server/test_sandbox.c's. All other tests of tests/http run in the sandbox as well."""
import ctypes
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile

import numpy as np

import certificates
import models
import service
import tokens
from service import Service


def events(log, event):
    return [line for line in log.splitlines() if f'"event":"{event}"' in line]


class Sandbox(service.ServiceTest):
    def told(self, s):
        """By /v1/access, /metrics and the log."""
        said = s.call("GET", "/v1/access").json["sandbox"]
        text = s.call("GET", "/metrics").body.decode()
        for part, yes in said.items():
            self.assertIn(f'tensord_sandbox{{part="{part}"}} {int(yes)}\n', text)
        s.stop()
        line, = events(s.log, "sandbox")
        self.assertEqual(("by Landlock" in line, "by seccomp" in line), (said["files"], said["system_calls"]))
        return said

    def test_what_is_told(self):
        on, off = self.told(Service()), self.told(Service("--sandbox", "off"))
        self.assertEqual(off, {"files": False, "system_calls": False})
        landlock_create_ruleset, version = 444, 1
        self.assertEqual(on["files"], ctypes.CDLL(None).syscall(landlock_create_ruleset, None, ctypes.c_size_t(0), version) >= 1)
        with open("/proc/self/status") as f:
            has_seccomp = "\nSeccomp:" in f.read()
        if service.SANITIZED:
            self.assertFalse(on["system_calls"])
        elif has_seccomp:
            self.assertTrue(on["system_calls"])

    def test_every_thread(self):
        """Those that were there before, and those that come later."""
        with Service() as s:
            if not s.call("GET", "/v1/access").json["sandbox"]["system_calls"]:
                self.skipTest("no seccomp here, or a sanitizer is built in")
            s.call("PUT", "/v1/pools/later", {"threads": 1, "pinned": False})
            seen, names = 0, []
            for task in pathlib.Path(f"/proc/{s.pid}/task").iterdir():
                text = (task / "status").read_text()
                self.assertIn("\nSeccomp:\t2\n", text, task)
                self.assertIn("\nNoNewPrivs:\t1\n", text, task)
                seen += 1
                names.append((task / "comm").read_text())
            self.assertGreater(seen, 3)
            self.assertTrue(any("later" in name for name in names), names) # which another thread has written

    def gdb(self, s, *commands):
        """What a debugger does in its place."""
        if service.SANITIZED:
            s.stop()
            self.skipTest("a sanitizer has an open of its own, and reports what a debugger leaves in memory")
        gdb = shutil.which("gdb")
        if not gdb:
            s.stop()
            self.skipTest("no gdb here")
        done = subprocess.run([gdb, "-batch", "-p", str(s.pid), *(word for command in commands for word in ("-ex", command))],
                              capture_output=True, text=True, timeout=60)
        if "ptrace" in done.stderr:
            s.stop()
            self.skipTest("gdb may not attach here")
        if "write extended state" in done.stderr:
            s.stop()
            self.skipTest("gdb cannot write the registers of this CPU, whose AMX tiles it does not know")
        return done

    def test_files_for_every_thread(self):
        """None of them opens what the first one may not: all came after the rules."""
        s = Service()
        if not s.call("GET", "/v1/access").json["sandbox"]["files"]:
            s.stop()
            self.skipTest("no Landlock here")
        threads = len(os.listdir(f"/proc/{s.pid}/task"))
        done = self.gdb(s, "set scheduler-locking on", *(f'thread apply all call (int)open("/etc/{name}", 0)' for name in ("passwd", "hosts")))
        got = re.findall(r"^\$\d+ = (-?\d+)$", done.stdout, re.M)
        self.assertEqual(got[:threads], ["-1"] * threads, done.stdout + done.stderr)
        self.assertTrue(len(got) == 2 * threads and "-1" not in got[threads:], got)
        s.stop()

    def test_files_that_are_read_again(self):
        """Tokens that replace others, wherever the folder is."""
        with tempfile.TemporaryDirectory() as folder:
            known = tokens.Tokens(pathlib.Path(folder) / "tokens", tokens.RANDOM)
            known.add("first", "read")
            known.write()
            with Service("--tokens", known.path) as s:
                known.add("second", "read")
                known.write()
                s.process.send_signal(signal.SIGHUP)
                self.assertTrue(service.eventually(lambda: s.call("GET", "/v1/isa", headers=known.headers("second")).status == 200))

    def test_files_behind_links(self):
        """As clusters mount secrets, whose folder is a link that is replaced; and as a link to a file elsewhere."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            known = tokens.Tokens(pathlib.Path(elsewhere) / "tokens", tokens.RANDOM)

            def write(n):
                known.add(f"t{n}", "read")
                known.write()
                made = pathlib.Path(folder, f"..{n}")
                made.mkdir()
                shutil.copy(known.path, made)
                pathlib.Path(folder, "..new").symlink_to(made.name)
                pathlib.Path(folder, "..new").rename(pathlib.Path(folder, "..data"))
            write(0)
            mounted, linked = pathlib.Path(folder, "tokens"), pathlib.Path(folder, "linked")
            mounted.symlink_to("..data/tokens")
            linked.symlink_to(known.path)
            with Service("--tokens", str(mounted)) as a, Service("--tokens", str(linked)) as b:
                write(1)
                for s in (a, b):
                    self.assertTrue(service.eventually(lambda: s.call("GET", "/v1/isa", headers=known.headers("t1")).status == 200))

    def test_models_behind_links(self):
        """As volumes of clusters have them: a link to a folder elsewhere, and one to a file."""
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            for name in ("a.onnx", "b.onnx"):
                pathlib.Path(elsewhere, name).write_bytes(models.line())
            pathlib.Path(folder, "a.onnx").symlink_to(pathlib.Path(elsewhere, "a.onnx"))
            pathlib.Path(folder, "line/1").mkdir(parents=True)
            pathlib.Path(folder, "line/1/model.onnx").symlink_to(pathlib.Path(elsewhere, "b.onnx"))
            with Service("--models", folder, "--bad-models", "stop") as s:
                for name in ("a", "line"):
                    self.assertEqual(s.call("GET", f"/v1/models/{name}").status, 200)
                s.stop()
                said = re.findall(r'"event":"(\w+)"', s.log)
                self.assertLess(said.index("sandbox"), said.index("model")) # files that others made are read within it

    def test_a_call_that_is_none_of_its(self):
        """Which a debugger makes in its place: the process ends, and the log says why."""
        s = Service()
        if not s.call("GET", "/v1/access").json["sandbox"]["system_calls"]:
            s.stop()
            self.skipTest("no seccomp here, or a sanitizer is built in")
        done = self.gdb(s, "handle SIGSYS nostop pass", "call (int)fork()")
        s.process.wait(20)
        self.assertEqual(-s.process.returncode, signal.SIGSYS, done.stderr)
        self.assertIn("is none of a server's", s.written())

    def test_secrets_are_nowhere(self):
        """Not in the log, in answers, in /metrics, among arguments, in the environment; and others do not read its memory."""
        with tempfile.TemporaryDirectory() as folder:
            known = tokens.Tokens(pathlib.Path(folder) / "tokens", tokens.RANDOM)
            known.add("all", "read,run,store,admin")
            known.write()
            s = Service("--tokens", known.path)
            said = b""
            for method, path, body in (("GET", "/v1/access", None), ("GET", "/metrics", None), ("GET", "/v1/isa", None), ("GET", "/v1/nosuch", None),
                                       ("POST", "/v1/ops/add", {"self": [1], "other": 2}), ("POST", "/v1/ops/add", b"{"), ("PUT", "/v1/pools/x", {"a": 1})):
                for secret in (known.secrets["all"], known.secrets["all"][:-1] + "*"):
                    reply = s.call(method, path, body, {"Authorization": f"Bearer {secret}"})
                    said += reply.body + str(reply.headers).encode()
            for file in ("cmdline", "environ", "comm"):
                said += pathlib.Path(f"/proc/{s.pid}/{file}").read_bytes()
            self.assertEqual(os.stat(f"/proc/{s.pid}/status").st_uid, 0) # not dumpable: its files are root's
            s.stop()
            said += s.log.encode()
            secret, line = known.secrets["all"], known.lines["all"]
            for word in (secret, secret[:16], line.split()[1]):
                self.assertNotIn(word.encode(), said)

    def test_no_core_with_secrets(self):
        """Where there are tokens or a key; else as the system has it."""
        before = resource.getrlimit(resource.RLIMIT_CORE)
        if not before[1]:
            self.skipTest("no core is dumped here at all")
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before)
        known = tokens.Tokens(pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "tokens", tokens.RANDOM)
        known.add("a", "read")
        known.write()
        authority, (cert, key) = certificates.here()
        for args, dumps in ((("--tokens", known.path), False), (("--tls-cert", str(cert), "--tls-key", str(key)), False), ((), True)):
            if dumps and service.SANITIZED: # which dumps no core of its own accord
                continue
            with Service(*args, tls=authority.context() if str(key) in args else None) as s:
                limits = pathlib.Path(f"/proc/{s.pid}/limits").read_text()
                self.assertEqual(re.search(r"Max core file size +(\S+)", limits)[1] != "0", dumps, args)

    def test_read_only_as_nobody(self):
        """A root that is read-only, no capability, a user without rights: what deploy/ asks for."""
        if not shutil.which("bwrap"):
            self.skipTest("no bwrap here")
        nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", "-all", "--no-new-privs"] \
            if os.getuid() == 0 else []
        inside = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--unshare-pid", "--die-with-parent"]
        binary = str(pathlib.Path(service.BINARY).resolve())
        if subprocess.run([*inside, *nobody, binary, "isa"], capture_output=True).returncode:
            self.skipTest("bwrap may not make a sandbox here, or nobody may not read the build")
        port = service.free_port()
        process = subprocess.Popen([*inside, *nobody, binary, "serve", "--listen", f"127.0.0.1:{port}"], env=service.environment(),
                                   stderr=subprocess.PIPE, text=True)
        try:
            s = Service.__new__(Service)
            s.port, s.tls, s.process, s.log, s.file = port, None, process, "", None

            def ready():
                try:
                    return s.call("GET", "/v2/health/ready").status == 200
                except OSError:
                    return False
            self.assertTrue(service.eventually(ready))
            np.testing.assert_array_equal(s.op("add", {"self": np.ones(3, np.float32), "other": np.ones(3, np.float32)}, binary=True), [2, 2, 2])
            self.assertEqual(s.call("PUT", "/v1/models/line", models.line()).status, 201)
        finally:
            process.kill()
            process.communicate(timeout=60)


if __name__ == "__main__":
    service.main()
