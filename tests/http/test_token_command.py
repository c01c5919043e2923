#!/usr/bin/env python3
"""tensord token: makes, lists and removes tokens, and a server that runs knows them."""
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile

import service


class TokenCommand(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.file = pathlib.Path(folder.name) / "tokens"
        cls.first = cls.run_token("add", "first", "--scopes", "read").stdout.strip()
        cls.service = service.Service("--tokens", str(cls.file))
        cls.addClassCleanup(cls.service.stop)

    @classmethod
    def run_token(cls, *words, **env):
        return service.run("token", *words, *([] if env else ["--file", str(cls.file)]), env=env)

    def status(self, secret, path="/v1/pools"):
        return self.service.call("GET", path, headers={"Authorization": "Bearer " + secret}).status

    def test_a_token_s_life(self):
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.status(self.first), 200)
        done = self.run_token("add", "second", "--scopes", "read,run", "--prefix", "s/", "--rate", "9", "--expires", "2999-12-31")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        secret = done.stdout.strip()
        self.assertRegex(secret, r"^tensord_[\w-]{43}$")
        text = self.file.read_text()
        self.assertNotIn(secret, text)
        self.assertIn(f"second  {hashlib.sha256(secret.encode()).hexdigest()}  read,run  prefix=s/  expires=2999-12-31  rate=9\n", text)
        self.assertTrue(service.eventually(lambda: self.status(secret) == 200))
        listed = self.run_token("list").stdout
        self.assertRegex(listed, r"(?m)^second +read,run +prefix=s/ expires=2999-12-31 rate=9$")
        self.assertIsNone(re.search(r"[0-9a-f]{64}", listed))
        self.assertEqual(self.run_token("remove", "second").returncode, 0)
        self.assertTrue(service.eventually(lambda: self.status(secret) == 401))
        self.assertEqual(self.status(self.first), 200)
        self.assertEqual(self.run_token("remove", "second").returncode, 1)

    def test_wrong(self):
        """What is wrong changes nothing, and leaves nothing behind."""
        before, inode = self.file.read_text(), self.file.stat().st_ino
        for words, said in ((("add", "first", "--scopes", "read"), "of that name"), (("add", "x", "--scopes", "raed"), "'raed'"),
                            (("add", "x"), "--scopes"), (("add", "--scopes", "read"), "name"), (("add", "x y", "--scopes", "read"), "blank"),
                            (("add", "x", "--scopes", "read\nroot 0 admin"), "blank"), (("add", "x/y", "--scopes", "read"), "name"),
                            (("add", "x", "--scopes", "read", "--rate", "fast"), "rate"), (("add", "x", "--scopes", "read", "--colour", "red"), "--colour"),
                            (("add", "x", "--scopes", "read", "--prefix", "a#"), "blank"), (("add", "x", "y", "--scopes", "read"), "too many"),
                            (("add", "x", "--scopes"), "--scopes"), (("change", "x"), "change"), ((), "add, list or remove")):
            done = self.run_token(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertIn(said, done.stderr)
        self.assertEqual((self.file.read_text(), self.file.stat().st_ino), (before, inode))
        self.assertEqual(os.listdir(self.file.parent), ["tokens"])
        self.assertIn("--file", service.run("token", "list").stderr)
        self.assertEqual(service.run("token", "list", "--file", "/nosuch/tokens").returncode, 1)
        self.assertEqual(self.run_token("list", TENSORD_TOKENS=str(self.file)).returncode, 0)

    def test_as_root(self):
        """A file of the server's user stays that user's."""
        if os.geteuid():
            self.skipTest("only root may give files away")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokens")
            for name in ("a", "b"):
                done = service.run("token", "add", name, "--scopes", "run", "--file", str(path))
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                os.chown(path, 1234, -1)
            self.assertEqual(len(service.run("token", "list", "--file", str(path)).stdout.splitlines()), 2)
            self.assertEqual(service.run("token", "remove", "a", "--file", str(path)).returncode, 0)
            self.assertEqual((path.stat().st_uid, path.stat().st_mode & 0o777), (1234, 0o600))
            os.chown(path, 0, 1234) # or root's, which a group may read
            path.chmod(0o640)
            self.assertEqual(service.run("token", "add", "c", "--scopes", "run", "--file", str(path)).returncode, 0)
            self.assertEqual((path.stat().st_uid, path.stat().st_gid, path.stat().st_mode & 0o777), (0, 1234, 0o640))

    def test_several_at_once(self):
        """None of them is lost."""
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/tokens"
            adding = [subprocess.Popen([service.BINARY, "token", "add", f"t{n}", "--scopes", "run", "--file", path], stdout=subprocess.PIPE)
                      for n in range(16)]
            secrets = [p.communicate(timeout=60)[0] for p in adding]
            self.assertEqual(([p.returncode for p in adding], len(set(secrets))), ([0] * 16, 16))
            listed = service.run("token", "list", "--file", path).stdout
            self.assertEqual(sorted(line.split()[0] for line in listed.splitlines()), sorted(f"t{n}" for n in range(16)))

    def test_top(self):
        where = f"127.0.0.1:{self.service.port}"
        done = service.run("top", where)
        self.assertEqual(done.returncode, 1)
        self.assertIn("denied", done.stderr)
        done = service.run("top", where, env={"TENSORD_TOKEN": self.first})
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    service.main()
