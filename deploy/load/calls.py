"""The requests of a load test: op.add in JSON, in the binary tensor extension and through shared memory."""
import http.client
import json
import os
import struct
import urllib.parse


class Server:
    """A running tensord, asked a question now and then."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.path.strip("/"):
            raise SystemExit(f"{url}: right is http://HOST:PORT")
        self.host, self.port = parts.hostname, parts.port or 80
        self.url = f"http://{parts.netloc}"

    def ask(self, method, path, body=None):
        """(status, JSON or None)"""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None,
                               {"Content-Type": "application/json"})
            reply = connection.getresponse()
            data = reply.read()
        except OSError as e:
            raise SystemExit(f"{self.url}{path}: {e}") from None
        finally:
            connection.close()
        try:
            return reply.status, json.loads(data)
        except ValueError:
            return reply.status, None


class Call:
    """One request that is sent over and over. body None: a GET."""

    def __init__(self, name, path, body=None, headers=None, moved=0):
        self.name, self.path, self.body, self.headers = name, path, body, headers or {}
        self.moved = moved # bytes of tensors that a call takes and gives

    def bytes(self, host):
        lines = [f"{'GET' if self.body is None else 'POST'} {self.path} HTTP/1.1", f"Host: {host}"]
        lines += [f"{k}: {v}" for k, v in self.headers.items()]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")


def values(n):
    """Numbers between 0 and 1 with as many digits as real ones have."""
    return [struct.unpack("<f", struct.pack("<f", (i * 0.618034) % 1))[0] for i in range(n)]


def add_json(n, parameters):
    data = [float(f"{v:.8g}") for v in values(n)]
    tensors = [{"name": name, "shape": [n], "datatype": "FP32", "data": data} for name in ("self", "other")]
    body = json.dumps({"inputs": tensors, "parameters": parameters}, separators=(",", ":")).encode()
    return Call("JSON", "/v1/ops/add", body, {"Content-Type": "application/json"}, 12 * n)


def add_binary(n, parameters):
    tensors = [{"name": name, "shape": [n], "datatype": "FP32", "parameters": {"binary_data_size": 4 * n}}
               for name in ("self", "other")]
    head = json.dumps({"inputs": tensors, "parameters": {**parameters, "binary_data_output": True}}).encode()
    return Call("binary", "/v1/ops/add", head + 2 * struct.pack(f"<{n}f", *values(n)),
                {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))},
                12 * n)


class SharedMemory:
    """An object in /dev/shm with two inputs and an output, registered as a region; to be closed."""

    def __init__(self, server, n):
        self.server, self.n, self.name = server, n, f"load_{os.getpid()}_{n}"
        self.file = "/dev/shm/" + self.name
        self.problem = None
        try:
            with open(self.file, "xb") as f:
                f.write(2 * struct.pack(f"<{n}f", *values(n)) + bytes(4 * n))
            status, reply = server.ask("POST", f"/v2/systemsharedmemory/region/{self.name}/register",
                                       {"key": "/" + self.name, "offset": 0, "byte_size": 12 * n})
            if status != 200:
                self.problem = f"{status}: {(reply or {}).get('error', 'not registered')}"
        except OSError as e:
            self.problem = str(e)

    def call(self, parameters):
        def place(k):
            return {"shared_memory_region": self.name, "shared_memory_byte_size": 4 * self.n,
                    "shared_memory_offset": 4 * self.n * k}
        tensors = [{"name": name, "shape": [self.n], "datatype": "FP32", "parameters": place(k)}
                   for k, name in enumerate(("self", "other"))]
        body = json.dumps({"inputs": tensors, "outputs": [{"name": "out", "parameters": place(2)}],
                           "parameters": parameters}).encode()
        return Call("shared memory", "/v1/ops/add", body, {"Content-Type": "application/json"}, 12 * self.n)

    def close(self):
        try:
            self.server.ask("POST", f"/v2/systemsharedmemory/region/{self.name}/unregister")
            os.unlink(self.file)
        except OSError:
            pass
