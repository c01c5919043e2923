"""Files of tokens for tests: secrets that are drawn, lines that are written whole."""
import hashlib
import os
import pathlib
import random
import re
import tempfile

import service

SCOPES = ("read", "run", "store", "admin")
RANDOM = random.Random(service.seed())


class Tokens:
    """A file of tokens; secrets by name."""

    def __init__(self, path, random):
        self.path, self.random, self.secrets, self.lines = str(path), random, {}, {}

    def add(self, name, scopes, **keys):
        """A token, which the next write has; its secret."""
        secret = "".join(self.random.choice("abcdefghijkmnpqrstuvwxyzABCDEFGH23456789-_") for _ in range(43))
        self.secrets[name] = secret
        words = [name, hashlib.sha256(secret.encode()).hexdigest(), scopes, *(f"{k}={v}" for k, v in keys.items())]
        self.lines[name] = " ".join(words)
        return secret

    def remove(self, name):
        del self.lines[name]

    def write(self, text=None, mode=0o600):
        """In one step, as whoever replaces a file that is read should."""
        new = self.path + ".new"
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as f:
            f.write("# of a test\n" + "\n".join(self.lines.values()) + "\n" if text is None else text)
        os.chmod(new, mode)
        os.replace(new, self.path)

    def headers(self, name, scheme="Bearer"):
        return {"Authorization": f"{scheme} {self.secrets[name]}"}


class AccessTest(service.ServiceTest):
    """A service with tokens of each scope, of all, and an expired one."""

    args = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tokens = Tokens(pathlib.Path(folder.name) / "tokens", RANDOM)
        for scope in SCOPES:
            cls.tokens.add(scope, scope)
        cls.tokens.add("all", ",".join(SCOPES), expires="2999-01-31")
        cls.tokens.add("late", ",".join(SCOPES), expires="2020-01-31T12:00:00Z")
        cls.more_tokens()
        cls.tokens.write()
        cls.service = service.Service("--tokens", cls.tokens.path, *cls.args)
        cls.addClassCleanup(cls.end)

    @classmethod
    def more_tokens(cls):
        pass

    @classmethod
    def end(cls):
        """No secret, nor a hash of one, stands in the log, in what it measures, or where anybody sees processes."""
        seen = cls.service.call("GET", "/metrics", headers=cls.tokens.headers("all")).body.decode()
        for name in ("cmdline", "environ"):
            seen += pathlib.Path(f"/proc/{cls.service.pid}/{name}").read_bytes().decode(errors="replace")
        cls.service.stop()
        seen += cls.service.log
        for secret in cls.tokens.secrets.values():
            assert secret not in seen, "a secret is told"
        for line in cls.tokens.lines.values():
            assert line.split()[1] not in seen, "a hash is told"

    def ask(self, name, method, path, body=None, headers=None, connection=None):
        return self.service.call(method, path, body, {**(headers or {}), **self.tokens.headers(name)}, connection)

    def refused(self, reply, status, error=None):
        said = reply.json if reply.body else {}
        self.assertEqual(reply.status, status, reply.body[:300])
        challenge = reply.headers["WWW-Authenticate"]
        self.assertTrue(challenge.startswith('Bearer realm="tensord"'), challenge)
        if error:
            self.assertIn(f'error="{error}"', challenge)
        else:
            self.assertNotIn("error", challenge)
        if said:
            self.assertEqual(said["type"], "/problems/" + ("unauthorized" if status == 401 else "insufficient-scope"))
        return challenge

    def metric(self, name):
        text = self.ask("all", "GET", "/metrics").body.decode()
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])
