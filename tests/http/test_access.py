#!/usr/bin/env python3
"""Tokens: each route of the list with each kind of token, heads that come again, files that change."""
import os
import pathlib
import re
import signal
import tempfile
import threading
import time

import service
import tokens

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCOPES, RANDOM = tokens.SCOPES, tokens.RANDOM
ADD = {"self": [1, 2], "other": 10}
ROOT_RUNS = os.geteuid() == 0


def routes():
    """(method, path whose variables name nothing that is there, scope), as the list has them."""
    text = (ROOT / "api/routes.def").read_text()
    found = re.findall(r'^TD_ROUTE\((\w+), "([^"?]+)[^"]*", \w+, \w+, (\w+)\)', text, re.M)
    assert len(found) == text.count("\nTD_ROUTE("), "a route is not understood"
    return [(m, re.sub(r"{(\w+)\*?}", lambda v: "7" if v[1] == "version" else "nosuch", p), s) for m, p, s in found]


class Matrix(tokens.AccessTest):
    def cell(self, method, path, scope, who):
        headers = {None: {}, "wrong": {"Authorization": "Bearer " + "x" * 43}}.get(who) or \
            (self.tokens.headers(who) if who in self.tokens.secrets else {})
        reply = self.service.call(method, path, b"{}" if method in ("POST", "PUT") else None, headers)
        if scope == "open" or (who in (*SCOPES, "all") and scope in ("any", who)) or who == "all":
            self.assertNotIn(reply.status, (401, 403), (method, path, who, reply.body[:200]))
        elif who in SCOPES:
            self.assertIn(f'scope="{scope}"', self.refused(reply, 403, "insufficient_scope"))
        else:
            self.refused(reply, 401, "invalid_token" if who else None)

    def test_every_cell(self):
        n = 0
        for method, path, scope in routes():
            for how in [method] + ["HEAD"] * (method == "GET"):
                for who in (None, "wrong", "late", *SCOPES, "all"):
                    with self.subTest(method=how, path=path, who=who):
                        self.cell(how, path, scope, who)
                        n += 1
        print(f"{n} cells of {len(routes())} routes")
        self.assertGreater(n, 600)

    def test_description(self):
        """openapi.json says of each route what it asks for."""
        api = self.service.call("GET", "/openapi.json").json
        named = {(m.upper(), re.sub(r"{\w+}", "{}", p)): o for p, item in api["paths"].items() for m, o in item.items()
                 if m in ("get", "post", "put", "delete")}
        text = (ROOT / "api/routes.def").read_text()
        for method, path, scope in re.findall(r'^TD_ROUTE\((\w+), "([^"?]+)[^"]*", \w+, \w+, (\w+)\)', text, re.M):
            said = named[method, re.sub(r"{\w+\*?}", "{}", path)]
            wanted = [] if scope == "open" else [{}, {"token": [] if scope == "any" else [scope]}]
            self.assertEqual(said.get("security"), wanted, (method, path))

    def test_counts(self):
        """/metrics has how many were refused, by the reason."""
        name = 'tensord_access_refused_total{why="%s"}'
        for who, why in ((None, "missing"), ("wrong", "unknown"), ("late", "expired"), ("run", "scope")):
            before = {w: self.metric(name % w) for w in ("missing", "unknown", "expired", "scope", "limit")}
            headers = self.tokens.headers(who) if who in self.tokens.secrets else {"Authorization": "Bearer x"} if who else {}
            self.assertGreaterEqual(self.service.call("GET", "/v1/pools", headers=headers).status, 401)
            self.assertEqual({w: self.metric(name % w) for w in before}, {**before, why: before[why] + 1})

    def test_what_is_no_route(self):
        self.problem(self.service.call("GET", "/v1/nosuch"), 404)
        self.problem(self.service.call("PUT", "/v1/ops"), 405)

    def test_who_am_i(self):
        said = self.ask("run", "GET", "/v1/access").json
        self.assertEqual((said["tokens"], said["name"], said["scopes"]), (True, "run", ["run"]))
        said = self.ask("all", "GET", "/v1/access").json
        self.assertEqual((said["scopes"], said["expires"]), (list(SCOPES), "2999-01-31T00:00:00Z"))
        with service.Service() as free:
            said = free.call("GET", "/v1/access", headers=self.tokens.headers("late")).json
            self.assertEqual(sorted(said.pop("sandbox")), ["files", "system_calls"])
            self.assertEqual(said, {"tokens": False, "insecure": False, "scopes": list(SCOPES)})


class Heads(tokens.AccessTest):
    """What is made of Authorization, once and again on a connection."""

    def raw(self, *lines, method="GET", path="/v1/pools"):
        head = "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", "")).encode("latin-1")
        with self.service.socket() as c:
            c.sendall(head)
            return int(c.recv(65536).split(b" ")[1])

    def test_forms(self):
        secret = self.tokens.secrets["read"]
        for form in (f"Bearer {secret}", f"bearer {secret}", f"BEARER   {secret}  "):
            self.assertEqual(self.raw("Authorization: " + form), 200, form)
        self.assertEqual(self.raw("authorization:Bearer " + secret), 200)
        for form in ("", "Bearer", "Bearer ", secret, f"Basic {secret}", f"Bearer\t{secret}", f"Bearer {secret} {secret}", f"Bearer,{secret}",
                     f"Bearer {secret}x", f"Bearer {secret[:-1]}", f"Bearer {secret[:-1]}\xe9", f'Bearer "{secret}"',
                     "Bearer " + "y" * 20000, "Bearer " + secret.swapcase(), f"Bearerx {secret}"):
            self.assertEqual(self.raw("Authorization: " + form), 401, form[:60])
        self.assertEqual(self.raw(f"Authorization: Bearer {secret}\0"), 400)
        self.assertEqual(self.raw(*[f"Authorization: Bearer {secret}"] * 2), 400)
        self.assertEqual(self.raw(*["Authorization: Bearer " + "z" * 40] * 100), 400)
        self.assertEqual(self.raw(f"Authorization: Bearer {secret}", "Authorization: Bearer nosuch"), 400)
        self.assertEqual(self.raw("X-Authorization: Bearer " + secret), 401)
        self.assertEqual(self.raw("Content-Length: 100000", method="POST", path="/v1/ops/add"), 401) # before the body comes
        for lines in ([], ["Content-Length: x"], ["Host: localhost"], ["A b: c"]): # before a host; the log is looked at in the end
            self.assertGreaterEqual(self.raw(*lines, path=f"http://me:{secret}@localhost/v1/pools"), 400)
        self.alive()

    def test_again(self):
        """A head that came before is only known as long as its token is what it was."""
        name = "again"
        self.tokens.add(name, "run")
        self.tokens.write()
        self.service.process.send_signal(signal.SIGHUP)
        self.assertTrue(service.eventually(lambda: self.ask(name, "GET", "/v1/access").status == 200))
        c = self.service.connect()
        for _ in range(5):
            self.assertEqual(self.ask(name, "POST", "/v1/ops/add", ADD, connection=c).json, {"out": [11, 12]})
        self.tokens.remove(name)
        self.tokens.write() # nobody is told: it is seen within a second or so
        self.assertTrue(service.eventually(
            lambda: self.ask(name, "POST", "/v1/ops/add", ADD, connection=c).status == 401))
        for _ in range(3):
            self.refused(self.ask(name, "POST", "/v1/ops/add", ADD, connection=c), 401, "invalid_token")
        self.assertEqual(self.ask("run", "POST", "/v1/ops/add", ADD, connection=c).status, 200)
        c.close()
        self.tokens.secrets.pop(name)

    def test_expiry_of_a_head_that_is_known(self):
        name, end = "soon", time.time() + 2.5
        self.tokens.add(name, "run", expires=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end + 1)))
        self.tokens.write()
        self.service.process.send_signal(signal.SIGHUP)
        c = self.service.connect()
        self.assertTrue(service.eventually(lambda: self.ask(name, "POST", "/v1/ops/add", ADD, connection=c).status == 200, 2))
        self.assertTrue(service.eventually(lambda: self.ask(name, "POST", "/v1/ops/add", ADD, connection=c).status == 401))
        self.assertGreater(time.time(), end - 0.5)
        c.close()
        self.tokens.remove(name)
        self.tokens.write()

    def test_pipelined(self):
        """Requests of several tokens behind one another, in one piece: each has its own answer."""
        def head(line, secret=None):
            return (line + " HTTP/1.1\r\nHost: localhost\r\n" + (f"Authorization: Bearer {secret}\r\n" if secret else "") + "\r\n").encode()
        def answers(line, who):
            with self.service.socket() as c:
                c.sendall(b"".join(head(line, self.tokens.secrets.get(name, name)) for name in who) +
                          head("GET /v2/health/live").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                got = b""
                while piece := c.recv(65536):
                    got += piece
            return [int(s) for s in re.findall(rb"^HTTP/1.1 (\d+)", got, re.M)][:-1]
        right = {"read": 200, "run": 403, "store": 403, "late": 401, None: 401, "nosuch" + "x" * 37: 401}
        for _ in range(20):
            who = RANDOM.choices(list(right), k=30)
            self.assertEqual(answers("GET /v1/pools", who), [right[name] for name in who])
        self.alive()

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/socket"
            with service.Service("--tokens", self.tokens.path, "--listen", "unix:" + path) as s:
                import http.client, socket
                for headers, status in (({}, 401), (self.tokens.headers("read"), 200)):
                    c = http.client.HTTPConnection("localhost")
                    c.sock = socket.socket(socket.AF_UNIX)
                    c.sock.connect(path)
                    self.assertEqual(s.call("GET", "/v1/pools", headers=headers, connection=c).status, status)
                    c.close()


class Reach(service.ServiceTest):
    """Where other machines may come: with tokens, or with a word that nobody says by accident."""

    def test_refused(self):
        for how in (["0.0.0.0:0"], ["[::]:0"], ["127.0.0.1:0", "--listen", "0.0.0.0:0"]):
            done = service.run("serve", "--listen", *how)
            self.assertEqual((done.returncode, "ready" in done.stderr), (2, False), how)
            for word in ("--tokens", "--insecure", "no token"):
                self.assertIn(word, done.stderr)
        self.assertEqual(service.run("serve", "--insecure=maybe").returncode, 2)

    def test_insecure(self):
        with service.Service("--listen", "0.0.0.0:0", "--insecure") as s:
            self.assertIn("\ntensord_insecure 1\n", s.call("GET", "/metrics").body.decode())
            self.assertTrue(s.call("GET", "/v1/access").json["insecure"])
            s.stop()
            self.assertIn('"insecure"', s.log)
            self.assertIn("no token is asked for", s.log)
        with service.Service("--insecure") as s: # of loopback alone: nobody else comes
            self.assertIn("\ntensord_insecure 0\n", s.call("GET", "/metrics").body.decode())
            s.stop()
            self.assertNotIn("no token is asked for", s.log)

    def test_with_tokens(self):
        with tempfile.TemporaryDirectory() as folder:
            of = tokens.Tokens(folder + "/t", RANDOM)
            of.add("a", "read")
            of.write()
            with service.Service("--listen", "0.0.0.0:0", "--insecure", env={"TENSORD_TOKENS": of.path}) as s:
                self.assertIn("\ntensord_insecure 0\n", s.call("GET", "/metrics", headers=of.headers("a")).body.decode())
                self.assertEqual(s.call("GET", "/metrics").status, 401)


class Pages(service.ServiceTest):
    def test_preflight_and_log(self):
        """A page of an allowed origin may ask whether it may send a token; the log has the token's name."""
        with tempfile.TemporaryDirectory() as folder:
            of = tokens.Tokens(folder + "/t", RANDOM)
            of.add("ann", "read")
            of.write()
            with service.Service("--log", "json", "--tokens", of.path, "--allow-origin", "https://page.example") as s:
                page = {"Origin": "https://page.example"}
                asked = s.call("OPTIONS", "/v1/pools", headers={**page, "Access-Control-Request-Method": "GET",
                                                               "Access-Control-Request-Headers": "authorization"})
                self.assertEqual(asked.status, 204)
                self.assertIn("Authorization", asked.headers["Access-Control-Allow-Headers"].split(", ")) # * is all but that
                self.assertEqual(s.call("OPTIONS", "/v1/pools", headers=page).status, 405)
                self.assertEqual(s.call("GET", "/v1/pools", headers={**page, **of.headers("ann")}).status, 200)
                self.assertEqual(s.call("GET", "/v1/pools", headers=page).status, 401)
                s.stop()
                self.assertIn('"token":"ann"', s.log)
                self.assertNotIn(of.secrets["ann"], s.log)


class Files(tokens.AccessTest):
    args = ("--log", "json")

    def starts(self, text, mode=0o600, owner=-1):
        path = pathlib.Path(self.tokens.path).with_name("other")
        tokens.Tokens(path, RANDOM).write(text, mode)
        os.chown(path, owner, -1)
        done = service.run("serve", "--listen", "127.0.0.1:0", "--tokens", str(path))
        path.unlink()
        return done

    def test_wrong_files(self):
        """The server does not start, and says which line is wrong, and not what stands there."""
        h = "0123456789abcdef" * 4
        for text, words in (("x", "line 1"), (f"\n\na {h} read\na {h[::-1]} run\n", "line 4: a: there is a token"),
                            (f"a {h} read\nb {h} run\n", "line 2: b: has the secret of a"), ("a hunter2 read\n", "64 hex digits"),
                            (f"a {h}\n", "scopes are missing"), (f"a {h} read,wirte\n", "'wirte'"), (f"a {h} read,\n", "scopes"),
                            (f"a/b {h} read\n", "name"), (f"{'a' * 64} {h} read\n", "name"), (f"a {h} read rate=0\n", "rate"),
                            (f"a {h} read rate=1x\n", "rate"), (f"a {h} read store=5Q\n", "store"), (f"a {h} read flight=101%\n", "flight"),
                            (f"a {h} read flight=99999999999G\n", "flight"), (f"a {h} read expires=tomorrow\n", "expires"),
                            (f"a {h} read prefix=\n", "prefix"), (f"a {h} read prefix=a*\n", "prefix"), (f"a {h} read more\n", "key=value"),
                            (f"a {h} read colour=red\n", "colour"), (f"a {h} read\0\n", "zero byte")):
            done = self.starts(text)
            self.assertEqual(done.returncode, 2, text)
            self.assertIn(words, done.stderr)
            self.assertNotIn("hunter2", done.stderr)
        self.assertIn("more than 4096 tokens", self.starts("".join(f"t{n} {n:064x} read\n" for n in range(4097))).stderr)
        self.assertIn("1 MiB", self.starts("#" * (1 << 20) + "\n").stderr)
        done = service.run("serve", "--listen", "127.0.0.1:0", "--tokens", "/nosuch/tokens")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nosuch/tokens", done.stderr)
        pipe = str(pathlib.Path(self.tokens.path).with_name("pipe"))
        os.mkfifo(pipe)
        for path in ("/", "/dev/null", pipe):
            self.assertIn("no file", service.run("serve", "--listen", "127.0.0.1:0", "--tokens", path).stderr)

    def test_whose_file(self):
        """Others may neither read nor write it; but the group of root's may read it."""
        line = "a " + "0123456789abcdef" * 4 + " read\n"
        for mode in (0o604, 0o602, 0o620, 0o610, *([] if ROOT_RUNS else [0o640])):
            self.assertIn("chmod 600", self.starts(line, mode).stderr, mode)
        if ROOT_RUNS:
            self.assertIn("another user's", self.starts(line, owner=1234).stderr)
            with tempfile.TemporaryDirectory() as folder:
                of = tokens.Tokens(folder + "/t", RANDOM)
                of.add("a", "read")
                of.write(mode=0o640)
                with service.Service("--tokens", of.path) as s:
                    self.assertEqual(s.call("GET", "/v1/pools", headers=of.headers("a")).status, 200)

    def test_what_is_seen_of_a_change(self):
        """By whatever it shows; on SIGHUP the file is read in any case; and the log says what is wrong with it."""
        with tempfile.TemporaryDirectory() as folder:
            of = tokens.Tokens(folder + "/t", RANDOM)
            of.add("a", "read")
            of.write()
            path = pathlib.Path(of.path)
            with service.Service("--log", "json", "--tokens", of.path) as s:
                def read(result):
                    text = s.call("GET", "/metrics", headers=of.headers("a")).body.decode()
                    found = re.search(rf'^tensord_tokens_read_total{{result="{result}"}} (\d+)$', text, re.M)
                    return int(found[1]) if found else None
                def change(how):
                    seen = path.stat()
                    of.add("a", "read") # another secret
                    text = path.read_text().splitlines()[0] + "\n" + of.lines["a"] + "\n"
                    how(text, seen)
                    self.assertTrue(service.eventually(lambda: s.call("GET", "/v1/pools", headers=of.headers("a")).status == 200), how.__name__)
                def in_place(text, seen):
                    path.write_text(text)
                def longer(text, seen):
                    path.write_text(text + "# more\n")
                    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
                def another_file(text, seen):
                    of.write(text)
                    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
                for how in (in_place, another_file, longer): # the first two as long as before
                    change(how)
                taken = read("taken")
                s.process.send_signal(signal.SIGHUP)
                self.assertTrue(service.eventually(lambda: read("taken") == taken + 1))
                if ROOT_RUNS:
                    os.chown(path, 1234, -1)
                    self.assertTrue(service.eventually(lambda: read("refused") == 1))
                    os.chown(path, 0, -1)
                    self.assertTrue(service.eventually(lambda: read("taken") == taken + 2))
                refused = read("refused")
                of.write("wrong\n")
                self.assertTrue(service.eventually(lambda: read("refused") == refused + 1))
                s.stop()
                said = [line for line in s.log.splitlines() if '"event":"tokens"' in line]
                self.assertTrue(any("1 tokens of before still hold" in line and "line 1" in line for line in said), said)

    def test_changes_under_load(self):
        """While the file changes again and again, with wrong ones between, nobody with a token that stays is refused."""
        taken, refused = (self.metric(f'tensord_tokens_read_total{{result="{r}"}}') for r in ("taken", "refused"))
        stop, bad, done = threading.Event(), [], [0] * 3
        def work(i):
            c = self.service.connect()
            while not stop.is_set():
                reply = self.ask("run", "POST", "/v1/ops/add", ADD, {"X-Request-Id": f"r{done[i]}"} if i else None, connection=c)
                done[i] += 1
                if reply.status != 200:
                    bad.append(reply.body)
            c.close()
        workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for w in workers:
            w.start()
        try:
            for n in range(8):
                self.tokens.write("not a file of tokens\n" if n % 2 else None)
                self.service.process.send_signal(signal.SIGHUP)
                time.sleep(0.05)
        finally:
            self.tokens.write()
            self.service.process.send_signal(signal.SIGHUP)
            self.assertTrue(service.eventually(lambda: self.metric('tensord_tokens_read_total{result="taken"}') > taken))
            stop.set()
            for w in workers:
                w.join()
        self.assertEqual(bad, [])
        self.assertGreater(min(done), 0)
        self.assertGreater(self.metric('tensord_tokens_read_total{result="refused"}'), refused)
        self.assertEqual(self.metric("tensord_tokens"), len(self.tokens.lines))
        # rights that let others read it, and no file at all, are refused as well
        before = self.metric('tensord_tokens_read_total{result="refused"}')
        pathlib.Path(self.tokens.path).chmod(0o644)
        self.assertTrue(service.eventually(lambda: self.metric('tensord_tokens_read_total{result="refused"}') > before))
        before = self.metric('tensord_tokens_read_total{result="refused"}')
        pathlib.Path(self.tokens.path).unlink()
        self.assertTrue(service.eventually(lambda: self.metric('tensord_tokens_read_total{result="refused"}') > before))
        self.assertEqual(self.ask("read", "GET", "/v1/pools").status, 200)
        self.tokens.write()


if __name__ == "__main__":
    service.main()
