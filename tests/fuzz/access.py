#!/usr/bin/env python3
"""access.py --seconds N --seed N: what a hostile client sends to a service that asks for tokens, best a sanitized one.

Heads with Authorization of every form, several requests in one piece on connections that stay, with tokens that are
added, changed and removed meanwhile, half-sent bodies, names and sessions of others. Each answer must be one that the
token at hand may get: never a 2xx where none is known, never another's session, and the server must live on.
"""
import argparse
import collections
import pathlib
import random
import re
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import service
import stateful
import tokens

FORMS = ("Bearer {}", "bearer {}", "BEARER  {}", "Bearer {} ", "Bearer\t{}", "Bearer {0} {0}", "Basic {}", "{}", "", "Bearer", "Bearer {}=", "Bearer \0{}",
         "Bearer {}\0", "Bearer " + "x" * 3000, "Bearer " + "x" * 40000, "Bearer {}\r\nAuthorization: Bearer {}", "Bearer x\r\nAuthorization: Bearer {}",
         "Bearer {}\r\n Bearer x", "Bearer {}\r\nX: " + "y" * 600, "Digest {}", "Bearer\r\n {}", "B\xe9arer {}", "Bearer,{}")
RIGHT = {0, 1, 2, 3, 18} # of these, forms that are taken
LINES = ("GET /v1/pools", "GET /v1/access", "POST /v1/ops/add", "PUT /v1/tensors/own/w", "DELETE /v1/tensors/own/w", "PUT /v1/tensors/other/w",
         "GET /v1/models/counter/sessions/hers", "DELETE /v1/models/counter/sessions/hers", "GET /v1/models/counter/sessions", "GET /v1/tasks",
         "PUT /v1/pools/x", "GET /metrics", "POST /v2/systemsharedmemory/unregister", "POST /v1/models/counter", "GET /v1/tensors//own/w",
         "PUT /v1/models/m", "GET /v2/health/live")
BODIES = {"POST /v1/ops/add": b'{"self":[1,2],"other":10}', "PUT /v1/tensors/own/w": b'{"shape":[2],"datatype":"FP32","data":[1,2]}',
          "PUT /v1/tensors/other/w": b'{"shape":[2],"datatype":"FP32","data":[1,2]}', "PUT /v1/pools/x": b'{"threads":1}',
          "POST /v1/models/counter": b'{"x":[[1,1,1,1]],"session":"hers"}', "PUT /v1/models/m": b"nothing"}


def request(rng, line, form, secret, last):
    body = BODIES.get(line, b"") if not line.startswith(("GET", "DELETE")) else b""
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\n" + (f"Authorization: {form.format(secret, secret)}\r\n" if form is not None else "")
    if body or not line.startswith("GET"):
        head += f"Content-Length: {len(body)}\r\n"
    if last:
        head += "Connection: close\r\n"
    return (head + "\r\n").encode("latin-1") + body


class Attack:
    def __init__(self, s, known, rng):
        self.s, self.known, self.rng, self.n, self.wrong, self.statuses = s, known, rng, 0, [], collections.Counter()

    def turn(self, rng):
        """Some requests in one piece, of which the last has the form; those before are right and close nothing."""
        name = rng.choice(("mallory", "gone", "late"))
        secret, k, line = self.known.secrets[name], rng.randrange(len(FORMS) + 1), rng.choice(LINES)
        form = FORMS[k] if k < len(FORMS) else None
        before = [request(rng, "POST /v1/ops/add", "Bearer {}", self.known.secrets["mallory"], False)] * rng.randrange(4)
        data = b"".join(before) + request(rng, line, form, secret, True)
        if rng.random() < 0.1:
            data = data[:1 + rng.randrange(len(data))]
        got = b""
        try:
            with self.s.socket(20) as c:
                for at in range(0, len(data), step := rng.choice((len(data), 97, 1 + len(data) // 2))):
                    c.sendall(data[at:at + step])
                c.shutdown(socket.SHUT_WR)
                while piece := c.recv(65536):
                    got += piece
        except OSError:
            pass
        statuses = [int(x) for x in re.findall(rb"HTTP/1\.[01] (\d+) ", got)]
        self.n += 1
        self.statuses.update(statuses)
        if len(statuses) > len(before):
            self.judge(name, k, line, statuses[len(before)], got)

    def judge(self, name, k, line, status, got):
        good = k in RIGHT and name == "mallory"
        if status >= 500 and status != 503:
            self.wrong.append((name, k, line, status))
        if line.endswith("/live"):
            return
        if not good and name != "gone" and status < 400: # gone is there, or not
            self.wrong.append((name, k, line, status))
        if good and any(word in line for word in ("other/w", "pools/x", "unregister", "models/m")) and status != 403:
            self.wrong.append((name, k, line, status))
        if "hers" in line or line.startswith("POST /v1/models/counter"):
            if status < 400 or b'"step"' in got:
                self.wrong.append((name, k, line, status))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        known = tokens.Tokens(folder + "/tokens", rng)
        known.add("alice", "read,run,store,admin")
        known.add("mallory", "read,run,store", prefix="own/", flight="10M", store="10M")
        known.add("late", "read,run,store,admin", expires="2020-01-01")
        known.add("gone", "read,run,store", prefix="own/")
        known.write()
        with service.Service("--log", "text", "--session-ttl-s", str(int(asked.seconds) + 3600), "--tokens", known.path, stderr=open(folder + "/log", "w+")) as s:
            alice = known.headers("alice")
            assert s.call("PUT", "/v1/models/counter", stateful.counter(), alice).status == 201
            first = s.call("POST", "/v1/models/counter", {"x": [[1] * 4], "session": "hers", "session_start": True}, alice)
            assert first.status == 200, first.body
            attack, end, lines = Attack(s, known, rng), time.monotonic() + asked.seconds, dict(known.lines)
            def work(seed):
                mine = random.Random(seed)
                while time.monotonic() < end:
                    attack.turn(mine)
            workers = [threading.Thread(target=work, args=(rng.random(),)) for _ in range(4)]
            for w in workers:
                w.start()
            while time.monotonic() < end:
                known.lines = {k: v for k, v in lines.items() if k != "gone" or rng.random() < 0.5}
                known.write(*(["wrong"] if rng.random() < 0.2 else []))
                s.process.send_signal(signal.SIGHUP)
                time.sleep(0.02)
            for w in workers:
                w.join()
            print(f"{attack.n} connections, answers: {dict(sorted(attack.statuses.items()))}", flush=True)
            known.lines = lines
            known.write()
            s.process.send_signal(signal.SIGHUP)
            assert service.eventually(lambda: s.call("GET", "/v1/access", headers=alice).status == 200)
            state = s.call("GET", "/v1/models/counter/sessions/hers", headers=alice).json
            assert state.get("step") == 1, state
        log = pathlib.Path(folder, "log").read_text(errors="replace")
        assert "Sanitizer" not in log and "runtime error" not in log, log
        assert not any(secret in log for secret in known.secrets.values()), "a secret is in the log"
    assert not attack.wrong, attack.wrong[:10]
    print(f"{attack.n} connections, seed {asked.seed}: nothing that should not be")


if __name__ == "__main__":
    main()
