#!/usr/bin/env python3
"""Where a request ends, and who sent it: what two readers could take for different requests is refused
and its connection closed; and so is what a browser sends for somebody else's page."""
import contextlib
import json
import re
import socket
import tempfile

import service
from service import Service

BODY = b'{"inputs":[{"name":"self","shape":[2],"datatype":"FP32","data":[1,2]}]}'
HIDDEN = b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\n\r\n" # what an attacker wants to be taken for a request


def head(*lines, request=b"POST /v1/ops/relu HTTP/1.1", host=b"Host: localhost"):
    return b"\r\n".join([request, *([host] if host else []), *lines, b"", b""])


def length(n=len(BODY)):
    return b"Content-Length: %d" % n


def replies(data):
    """(status, media type, body) of each reply in data, which holds nothing else."""
    found = []
    while data:
        top, end, rest = data.partition(b"\r\n\r\n")
        assert end and top.startswith(b"HTTP/1.1 "), data[:200]
        size = int(re.search(rb"\r\nContent-Length: (\d+)", top)[1])
        kind = re.search(rb"\r\nContent-Type: ([^\r]*)", top)
        found.append((int(top.split()[1]), kind[1].decode() if kind else None, rest[:size]))
        assert len(rest) >= size, data
        data = rest[size:]
    return found


class Raw(service.ServiceTest):
    def exchange(self, *pieces):
        """All that comes back until the server closes."""
        data = b""
        with self.service.socket() as s:
            with contextlib.suppress(ConnectionError): # it is closed before all has been sent: its reply can be read
                for piece in pieces:
                    s.sendall(piece)
            try:
                while piece := s.recv(65536):
                    data += piece
            except TimeoutError:
                self.fail(f"the connection is kept: {pieces} {data!r}")
            except ConnectionError:
                pass # closed with something of ours unread
        return data

    def refused(self, status, request, word="", then=HIDDEN):
        """One reply, a problem, and the connection closed, whatever follows the request."""
        for data in (request, request + then, request + then * 3):
            found = replies(self.exchange(data)) or [(None, data, None)]
            self.assertEqual([(s, kind) for s, kind, _ in found], [(status, "application/problem+json")], data)
            said = json.loads(found[0][2])
            self.assertEqual(said["status"], status)
            self.assertIn(word, said["detail"])

    def served(self, request):
        """One reply and the connection kept."""
        with self.service.socket() as s:
            s.sendall(request + head(request=b"GET /v2/health/live HTTP/1.1"))
            data = b""
            while data.count(b"HTTP/1.1 ") < 2 or not data.endswith(b'{"live":true}\n'):
                piece = s.recv(65536)
                self.assertTrue(piece, data)
                data += piece
        return replies(data)[0]


class Framing(Raw):
    def test_lengths(self):
        for other in (0, 5, len(BODY)):
            self.refused(400, head(length(), length(other)) + BODY, "Content-Length")
        self.refused(400, head(length(0), length()) + BODY, "Content-Length")
        for wrong in (b"-1", b"+5", b"1x", b"0x10", b"5, 5", b"5 5", b""):
            self.refused(400, head(b"Content-Length: " + wrong))
        self.refused(413, head(b"Content-Length: 99999999999999999999999"))

    def test_length_beside_chunks(self):
        chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        for lines in ((length(4), b"Transfer-Encoding: chunked"), (b"Transfer-Encoding: chunked", length(4)),
                      (length(len(chunks)), b"transfer-encoding: Chunked")):
            self.refused(400, head(*lines) + chunks, "Transfer-Encoding")
        self.assertEqual(self.served(head(b"Transfer-Encoding: chunked") + chunks)[0], 200)

    def test_codings(self):
        for coding in (b"gzip, chunked", b"chunked, gzip", b"identity", b"xchunked", b"chunked, chunked"):
            self.refused(501, head(b"Transfer-Encoding: " + coding) + b"0\r\n\r\n", "Transfer-Encoding")
        self.refused(400, head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip") + b"0\r\n\r\n")
        self.refused(400, head(b"Transfer-Encoding: chunked", request=b"POST /v1/ops/relu HTTP/1.0") +
                     b"0\r\n\r\n", "HTTP/1.0")
        for coding in (b"br", b"gzip", b"gzip, br"):
            kept = self.served(head(b"Content-Encoding: " + coding, length()) + BODY)
            self.assertEqual(kept[:2], (415, "application/problem+json"))
            self.assertIn("Content-Encoding", json.loads(kept[2])["detail"])
        self.assertEqual(self.served(head(b"Content-Encoding: identity", length()) + BODY)[0], 200)

    def test_names_and_values(self):
        for line in (b"Foo : x", b"Foo\t: x", b"Fo o: x", b": x", b"F\x00o: x", b"F(o): x", b"Foo: a\x00b",
                     b"Foo: a\x00", b"Foo: \x00", b"Foo: a\rb", b"Foo: \x01", b"Foo: \x7f", b" Foo: x",
                     b"Foo: a\r\n b", b"Foo: a\r\n\tContent-Length: 3", b"Foo: a\nBar: b"):
            self.refused(400, head(line, length()) + BODY)
            self.refused(400, head(length(), line) + BODY)
            self.refused(400, head(line, request=b"GET /v1/isa HTTP/1.1"))
        for data in (head(b"Foo", length()) + BODY, head(length(), b"Foo") + BODY):
            self.refused(400, data)
        long = head(*(b"X-%d: %s" % (i, b"y" * 90) for i in range(150)), b"Foo:bar", b"Foo:", b"Foo:  \t x \t", length())
        self.assertEqual(self.served(long + BODY)[0], 200)

    def test_beside_others_that_wait(self):
        """What libmicrohttpd refuses by itself is a problem also while other connections are open."""
        with self.service.socket() as new, self.service.socket() as used:
            used.sendall(head(length()) + BODY + head(request=b"GET /v1/isa HTTP/1.1"))
            data = b""
            while data.count(b"HTTP/1.1 200") < 2 or not data.endswith(b"}\n"):
                data += used.recv(65536)
            for status, request in ((400, head(b"Foo", length()) + BODY),
                                    (505, head(request=b"GET /v1/isa HTTP/2.0")),
                                    (400, head(request=b"GET /v1/isa\x00HTTP/1.1")),
                                    (431, head(request=b"GET /" + b"x" * 70000 + b" HTTP/1.1"))):
                self.refused(status, request)
            for s in (new, used): # they are not meant
                s.sendall(head(request=b"GET /v2/health/live HTTP/1.1"))
                self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200"))

    def test_request_lines(self):
        for line in (b"GET /v1/isa\x00 HTTP/1.1", b"GET /v1/\x00isa HTTP/1.1", b"GET\x00 /v1/isa HTTP/1.1",
                     b"GET  /v1/isa HTTP/1.1", b"GET /v1/isa  HTTP/1.1", b"GET /v1/isa x HTTP/1.1",
                     b"GET /v1\t/isa HTTP/1.1", b"GET\t/v1/isa HTTP/1.1", b"GET /v1/isa?a=\x00 HTTP/1.1",
                     b"GET /v1/isa?a= b HTTP/1.1", b"G(T /v1/isa HTTP/1.1"):
            data = self.exchange(head(request=line) + HIDDEN)
            self.assertIn([s for s, _, _ in replies(data)], ([400], []), line)
        self.assertEqual(self.served(head(request=b"GET /v1/isa HTTP/1.1"))[0], 200)

    def test_pieces(self):
        """A head that comes in several pieces is judged no differently."""
        for request, status in ((head(length(), length(3)) + BODY, 400), (head(b"Foo: a\rb"), 400),
                                (head(b"Connection: close", length()) + BODY, 200)):
            self.assertEqual([s for s, _, _ in replies(self.exchange(*(request[i:i + 9] for i in range(0, len(request), 9))))],
                             [status])

    def test_chunks(self):
        for chunks in (b"zz\r\nabc", b"-1\r\n", b"5\r\nabcdefgh\r\n", b"\r\n\r\n"):
            self.refused(400, head(b"Transfer-Encoding: chunked") + chunks)
        self.refused(413, head(b"Transfer-Encoding: chunked") + b"f" * 17 + b"\r\n")

    def test_too_long(self):
        for lines in ((b"X: " + b"y" * 33000,), (b"X: " + b"y" * 300000,), [b"X%d: y" % i for i in range(9000)]):
            found = replies(self.exchange(head(*lines, request=b"GET /v1/isa HTTP/1.1")))
            self.assertEqual([(s, kind) for s, kind, _ in found], [(431, "application/problem+json")])

    def test_too_many_parameters(self):
        """A query with more of them than there is room for leaves nothing behind."""
        request = head(request=b"GET /v1/tasks?" + b"&" * 30000 + b" HTTP/1.1")
        before = self.resident()
        for _ in range(1000):
            self.exchange(request)
        if not service.SANITIZED: # which keeps what was freed, and says itself what was not
            self.assertLess(self.resident() - before, 16 << 20)
        self.alive()

    def resident(self):
        with open(f"/proc/{self.service.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def test_others_are_left_alone(self):
        """While clients are in the middle of a head, another one's error is only its own."""
        waiting = [self.service.socket() for _ in range(3)]
        request = head(request=b"GET /v1/isa HTTP/1.1")
        for s in waiting:
            s.sendall(request[:30])
        self.refused(400, head(b"Content-Length: -1"))
        for wrong in (b"nonsense\r\n\r\n", b"GET / HTTP/7.7\r\n\r\n", head(b"Foo"), head(b"X: " + b"y" * 300000)):
            self.assertLessEqual(self.exchange(wrong).count(b"HTTP/1.1 "), 1)
        for s in waiting:
            s.sendall(request[30:])
            self.assertIn(b"HTTP/1.1 200", s.recv(65536))
            s.close()

    def test_absolute(self):
        for request, status in ((b"http://localhost/v1/isa", 200), (b"HTTP://127.0.0.1:8080/v1/isa", 200),
                                (b"http://localhost/v1/isa/veclen?dtype=float", 200),
                                (b"http://evil.example/v1/isa", 403), (b"http://u@localhost/v1/isa", 400),
                                (b"http://localhost", 200), (b"ftp://localhost/v1/isa", 404)):
            self.assertEqual(self.served(head(request=b"GET %s HTTP/1.1" % request))[0], status, request)

    def test_hosts(self):
        get = b"GET /v1/isa HTTP/1.1"
        self.refused(400, head(request=get, host=None), "Host")
        self.refused(400, head(b"Host: localhost", request=get), "Host")
        self.assertEqual(self.served(head(request=get, host=b"Host: a b"))[0], 400)

    def test_queries(self):
        """A parameter that the route does not have is said, not ignored."""
        self.problem(self.service.call("POST", "/v1/ops/relu?trace=1", BODY), 400, "trace")
        self.problem(self.service.call("POST", "/v1/ops/relu?tracing=true", BODY), 400, "tracing")
        self.problem(self.service.call("GET", "/v1/isa?x"), 400, "x")
        self.problem(self.service.call("GET", "/v1/dispatch/keyset?key=CPU"), 400, "key", "keys")
        self.assertEqual(self.service.call("GET", "/v1/dispatch/keyset?keys=CPU").status, 200)
        self.assertEqual(self.service.call("GET", "/v1/isa?").status, 200)


def call(s, body=BODY, path="/v1/ops/relu", **headers):
    return s.call("POST", path, body, {k.replace("_", "-"): v for k, v in headers.items()})


class Repeats(Raw):
    """Apart, as heads that break off are taken for one another."""

    def after(self, first, request):
        """The status of the last request alone, or behind others on its connection; None: no reply."""
        with self.service.socket() as s:
            for one in first:
                s.sendall(one)
                data = b""
                while not data.endswith(b"}\n"):
                    data += s.recv(65536)
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            try:
                data = s.recv(65536)
            except ConnectionError:
                return None
        return int(data.split()[1]) if data else None

    def test_twins(self):
        """A head with zero bytes where its lines and names end, which libmicrohttpd writes there itself, is not
        the one that came before, and what follows it is no request."""
        hidden = head(request=b"GET /v2/health/live HTTP/1.1")
        right = head(b"Accept: */*", length(), b"X-Last: y")
        twins = [right.replace(b"\r\nContent-Length:", b"\0\0Content-Length\0"),
                 right.replace(b"\r\nContent-Length:", b"\0\nContent-Length\0"),
                 right.replace(b"\r\nAccept:", b"\0\0Accept\0").replace(b"\r\nContent-Length:", b"\0\0Content-Length\0"),
                 right.replace(b"\r\nContent-Length:", b"\0\0Content-Length\0").replace(b"\r\nX-Last:", b"\0\0X-Last\0"),
                 right.replace(b"\r\nHost:", b"\0\0Host\0"),
                 right.replace(b"\r\nContent-Length: %d" % len(BODY), b"\0\0Content-Length\0 %d" % len(BODY))]
        for twin in twins:
            self.assertEqual(len(twin), len(right))
            for first in ([], [right + BODY] * 2):
                with self.service.socket() as s:
                    for one in first:
                        s.sendall(one)
                        data = b""
                        while not data.endswith(b"}\n"):
                            data += s.recv(65536)
                    s.sendall(twin + hidden)
                    data = b""
                    try:
                        while piece := s.recv(65536):
                            data += piece
                    except ConnectionError:
                        pass
                self.assertNotIn(b'"live"', data, twin)
                self.assertNotIn(b" 200 ", data, twin)

    def test_heads_that_came_before(self):
        """What the last head was, or what it nearly was, makes no difference to a request: each byte replaced."""
        get, post = head(request=b"GET /v2/health/live HTTP/1.1"), head(length(), b"Content-Type: application/json") + BODY
        self.assertEqual((self.after([get, get], get), self.after([post, get, post, post], post)), (200, 200))
        other = post.replace(b"/relu", b"/sqrt")
        self.assertEqual(replies(self.exchange(post + post + other + head(b"Connection: close", request=b"GET /v2 HTTP/1.1")))[2][2][:20],
                         b'{"model_name":"sqrt"')
        statuses = set()
        for right in (get, post):
            end = right.index(b"\r\n\r\n") + 4
            for at in range(end):
                for byte in (b" ", b"\0", b"\n", b"x", b":")[at % 3::3]:
                    wrong = right[:at] + byte + right[at + 1:]
                    alone = self.after([], wrong)
                    self.assertEqual(self.after([right, right], wrong), alone, wrong)
                    statuses.add(alone)
        self.assertLessEqual({200, 400, 403, 404, 415}, statuses)


class Browsers(service.ServiceTest):
    def test_hosts(self):
        """A name that was made to mean 127.0.0.1 is still a stranger's."""
        for host in ("localhost", "localhost:1", "LOCALHOST", "127.0.0.1", "127.1.2.3:80", "[::1]:8080"):
            self.assertEqual(call(self.service, Host=host).status, 200, host)
        for host in ("evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "0.0.0.0"):
            self.problem(call(self.service, Host=host), 403, "Host", host)
            self.problem(self.service.call("GET", "/v2/health/ready", headers={"Host": host}), 403, "Host")

    def test_origins(self):
        here = f"localhost:{self.service.port}"
        self.assertEqual(call(self.service, Host=here, Origin=f"http://{here}").status, 200)
        for origin in ("http://evil.example", "null", "http://localhost:1", "file://", ""):
            self.problem(call(self.service, Host=here, Origin=origin), 403, "Origin")
            self.problem(self.service.call("GET", "/v1/isa", headers={"Host": here, "Origin": origin}), 403)

    def test_media_types(self):
        for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON",
                     "application/x-www-form-urlencoded"):
            self.assertEqual(call(self.service, Content_Type=kind).status, 200, kind)
        self.assertEqual(call(self.service).status, 200)
        for kind in ("text/plain", "multipart/form-data; boundary=x", "application/jsonx", "text/html"):
            self.problem(call(self.service, Content_Type=kind), 415, "Content-Type", kind.partition(";")[0])
            self.problem(call(self.service, path="/v2/systemsharedmemory/unregister", Content_Type=kind), 415)

    def test_allowed(self):
        page = "https://page.example"
        with Service("--allow-host", "api.example", "--allow-origin", page) as s:
            self.assertEqual(call(s, Host="api.example:8080").status, 200)
            self.assertEqual(call(s, Host="evil.example").status, 403)
            reply = call(s, Origin=page)
            self.assertEqual((reply.status, reply.headers["Access-Control-Allow-Origin"], reply.headers["Vary"]),
                             (200, page, "Origin"))
            self.assertEqual(call(s, Origin="http://page.example").status, 403)
            asked = s.call("OPTIONS", "/v1/ops/relu", headers={
                "Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"})
            self.assertEqual((asked.status, asked.headers["Access-Control-Allow-Origin"]), (204, page))
            self.assertIn("POST", asked.headers["Access-Control-Allow-Methods"])
        with Service("--allow-host", "*", "--allow-origin", "*") as s:
            self.assertEqual(call(s, Host="any.example", Origin="null").status, 200)

    def test_other_networks(self):
        """As behind a container's bridge: addresses and names of the own network, and no page's."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            try:
                s.connect(("192.0.2.1", 9)) # which sends nothing
                here = s.getsockname()[0]
            except OSError:
                here = "127.0.0.1"
        if here.startswith("127."):
            self.skipTest("no network but loopback")
        port = service.free_port()

        def ask(host, method="GET", path="/v2/health/live"):
            with socket.create_connection((here, port), 10) as s:
                s.sendall(head(b"Connection: close", request=f"{method} {path} HTTP/1.1".encode(), host=b"Host: " + host))
                return replies(b"".join(iter(lambda: s.recv(65536), b"")))[0]
        with Service("--listen", f"0.0.0.0:{port}", "--insecure", "--allow-host", "api.example"):
            for host in (b"%s:%d" % (here.encode(), port), b"localhost:1", b"tensord", b"tensord.default.svc",
                         b"tensord.default.svc.cluster.local:80", b"api.example", socket.gethostname().encode()):
                self.assertEqual(ask(host)[0], 200, host)
                self.assertEqual(ask(host)[0], 200, host)
            for host in (b"evil.example", b"rebind.dev:8080", b"api.example.evil.dev"):
                status, _, body = ask(host)
                self.assertEqual(status, 403, host)
                self.assertIn("--allow-host", json.loads(body)["detail"])

    def test_forwarded_is_not_local(self):
        """Behind a proxy on this machine the client may be anywhere: no shared memory for it."""
        for headers in ({"Forwarded": "for=192.0.2.1"}, {"X-Forwarded-For": "192.0.2.1"}):
            extensions = self.service.call("GET", "/v2", headers=headers).json["extensions"]
            self.assertNotIn("system_shared_memory", extensions)
        self.assertIn("system_shared_memory", self.service.call("GET", "/v2").json["extensions"])

    def test_unix_sockets(self):
        """No browser comes there: any Host will do."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = folder.name + "/s"
        with Service("--listen", "unix:" + path) as s, socket.socket(socket.AF_UNIX) as c:
            c.connect(path)
            c.sendall(head(b"Connection: close", request=b"GET /v1/isa HTTP/1.1", host=b"Host: docker"))
            self.assertIn(b" 200 ", c.recv(65536))
            self.assertEqual(s.call("GET", "/v1/isa").status, 200)


if __name__ == "__main__":
    service.main()
