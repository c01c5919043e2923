#!/usr/bin/env python3
"""Random requests to the real service: calls that are nearly right (making.py), and between them
tensors that come and go, memory that its owner takes away, tasks, pools and bytes turned over.

What must hold: the service lives, and answers in time; a reply is what was asked for or a problem
with a sentence; right calls in between get exactly the right numbers; the shapes of a result are
those that the same call gives under meta; what is resident stays below --memory at any time, and below
what the service has counted, but for OWN; all of it is given back; and SIGTERM ends it without a leak.

    TENSORD_BIN=build/tensord PYTHONPATH=tests .deps/venv/bin/python tests/fuzz/requests.py \\
        [--seconds 10] [--seed 1] [--clients 2] [--limits small] [--memory BYTES]

--seed 0 draws one. Each client's requests follow from the seed; how they meet does not.
"""
import argparse
import collections
import http.client
import json
import math
import os
import random
import re
import threading
import time

import numpy as np

import making
import service

STATUSES = {400, 404, 405, 409, 413, 415, 429, 431, 501, 503, 504, 507} # of problems, but never 500
LAST = str(sorted(os.sched_getaffinity(0))[-1])
POOLS = ("--pool", f"default={LAST}", "--pool", f"few={LAST}:queue_depth=2")
LIMITS = {"small": ("--max-body", str(1 << 20), "--tasks", "32", "--task-bytes", str(4 << 20), "--task-ttl-s", "1",
                    "--idle-s", "5", "--memory", str(256 << 20), "--store-bytes", str(32 << 20)), "default": ()}
OWN = (2 << 30) if service.SANITIZED else (256 << 20) # bytes that are not counted; a sanitizer keeps what was freed
PATIENCE = 120 if service.SANITIZED else 30
PATHS = ("/v1/isa", "/v1/ops", "/v1/ops/add", "/v1/tensors", "/v1/tensors/all/0", "/v1/pools", "/v1/pools/few", "/v1/tasks",
         "/v1/dispatch/ops/silu/table", "/v1/dispatch/ops/nosuch/state", "/v1/dispatch/keyset?keys=CPU,Tracer",
         "/v1/dispatch/keyset?bits=0x7fffffff", "/v2", "/v2/models/op.add", "/v2/systemsharedmemory/status", "/metrics",
         "/nosuch", "/v1/ops/%00", "/v1/tasks/0123?wait=x", "/v1/dispatch/schema:parse?schema=f(int%5B99%5D%20n=1)%20-%3E%20()")
SCHEMAS = ("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "f(int[2] n=[1, 2], str? s='x') -> (Tensor a, ...)",
           "aten::g(Tensor(a!) self, Tensor(a -> *)[] x, float e=1e-5, bool b=True) -> Tensor(a!)")


class Fault(Exception):
    """The service did what it must not."""


def is_one(computed, said):
    """Whether a result is what was said of it before, where a size may be unknown."""
    return computed[:-1] == said[:-1] and len(computed[-1]) == len(said[-1]) and all(
        n in (-1, size) for n, size in zip(said[-1], computed[-1]))


class Client:
    def __init__(self, run, number, seed):
        self.run, self.service, self.rng = run, run.service, random.Random(f"{seed} {number}")
        self.regions = making.Regions(str(number))
        self.maker = making.Maker(self.rng, run.ops, run.keys, self.regions, f"own{number}")
        self.connection, self.last, self.tasks = None, collections.deque(maxlen=8), []
        self.statuses, self.right, self.twins = collections.Counter(), collections.Counter(), 0
        self.links = collections.Counter()

    # ---- sending ----

    def send(self, method, path, body=None, headers=None):
        """The reply to one request; a connection that the service has closed is opened anew, once."""
        self.last.append((method, path, headers, body))
        for again in (False, True):
            self.connection = self.connection or self.service.connect(PATIENCE)
            try:
                self.connection.request(method, path, body, headers or {}, encode_chunked=isinstance(body, list))
                reply = service.Reply(self.connection.getresponse())
                if reply.headers.get("Connection") == "close":
                    self.hang_up()
                self.statuses[reply.status] += 1
                return reply
            except TimeoutError:
                raise Fault(f"no answer in {PATIENCE} s") from None
            except (http.client.HTTPException, OSError) as error:
                self.hang_up()
                if again or self.service.process.poll() is not None:
                    raise Fault(f"{error!r}; the service {self.run.state()}") from None

    def hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def call(self, method, path, body=None, headers=None):
        reply = self.send(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
        self.judge(reply)
        return reply

    # ---- judging ----

    def judge(self, reply):
        if reply.status == 204 or (reply.status == 200 and not reply.body):
            return
        if reply.status < 300:
            if reply.headers["Content-Type"] in ("application/json", "application/octet-stream"):
                self.parse(reply)
            return
        if reply.status not in STATUSES or reply.headers["Content-Type"] != "application/problem+json":
            raise Fault(f"{reply.status} {reply.headers['Content-Type']} {reply.body[:300]!r}")
        said = self.parse(reply)
        if said["status"] != reply.status or len(said["detail"]) < 8 or "(null)" in said["detail"] or "%" in said["type"]:
            raise Fault(f"the problem says {said}")

    def parse(self, reply):
        try:
            return reply.json
        except ValueError as error:
            raise Fault(f"no JSON: {error}: {reply.body[:300]!r}") from None

    def outputs(self, reply):
        """[(name, datatype, shape)] of a result, whose data must be as long as that says."""
        root, at, found = self.parse(reply), reply.json_length, []
        for out in root["outputs"]:
            count, parameters = math.prod(out["shape"]), out.get("parameters", {})
            if "data" in out and len(out["data"]) != count:
                raise Fault(f"{len(out['data'])} elements for shape {out['shape']}")
            if "binary_data_size" in parameters:
                width = 2 if out["datatype"] == "BF16" else np.dtype(service.DATATYPES[out["datatype"]]).itemsize
                if parameters["binary_data_size"] != count * width:
                    raise Fault(f"{parameters} for shape {out['shape']} of {out['datatype']}")
                if out["datatype"] == "BOOL" and count and max(reply.body[at:at + count]) > 1:
                    raise Fault("a BOOL of more than 1")
                at += count * width
            found.append((out["name"], out["datatype"], out["shape"]))
        if at != len(reply.body):
            raise Fault(f"{len(reply.body)} bytes in a reply of {at}")
        return found

    # ---- calls ----

    def one_call(self):
        call = self.maker.call()
        for tensor in call.tensors:
            if tensor.source == "stored" and self.maker.likely(0.8):
                self.keep(tensor)
        body, headers = call.body(self.rng)
        if len(body) > 1 << 20 and self.maker.likely(0.8):
            return
        mutated = self.maker.likely(0.12)
        if mutated:
            body, call.twin = self.maker.mutated(body), False
        if self.maker.likely(0.05):
            body, call.twin = [body[i:i + 700] for i in range(0, len(body), 700)], False
            headers["Transfer-Encoding"] = "chunked"
        reply = self.call("POST", call.path, body, headers)
        if reply.status == 202:
            self.tasks.append(reply.headers["Location"])
            self.one_task()
        elif reply.status == 200 and mutated and "outputs" not in self.parse(reply):
            return # without "inputs" it is a call by plain arguments, whose reply has other members
        elif reply.status == 200:
            found = self.outputs(reply)
            self.right[call.op] += 1
            if call.twin and "exclude_keys" not in call.parameters and self.maker.likely(0.5):
                self.compare(call, found)

    def compare(self, call, found):
        """The same under meta, of shapes alone, and one size perhaps unknown: all results, though the call may have
        wanted a few."""
        body, headers = call.body(self.rng, shapes_only=True)
        reply = self.call("POST", call.path, body, headers)
        open_size = b"-1" in body # it may depend, or not be found, and a worker looks
        if open_size and (reply.status == 429 or b"unknown" in reply.body):
            return
        if reply.status != 200:
            raise Fault(f"{found} were computed, but under meta: {reply.status} {reply.body[:300]!r}")
        there = self.outputs(reply)
        if any("tensor" in out["parameters"] for out in call.outputs or []): # which keeps its type
            found, there = [(name, shape) for name, _, shape in found], [(name, shape) for name, _, shape in there]
        if any(not any(is_one(out, one) for one in there) for out in found) or (call.outputs is None and len(found) != len(there)):
            raise Fault(f"{found} were computed, and under meta it is {there}")
        self.twins += 1

    def one_chain(self):
        """Results go into the store, and from there into other operators."""
        call, known = self.maker.first_link(), None
        if self.maker.likely(0.2): # else a name keeps its type for ever, and few results fit a BOOL
            self.call("DELETE", "/v1/tensors/" + self.rng.choice(self.maker.chain))
        for _ in range(self.rng.randrange(2, 8)):
            if call is None:
                break
            name = self.rng.choice(self.maker.chain)
            call.outputs = [{"name": "out", "parameters": {"tensor": name}}]
            if known and math.prod(known[1]) < 1 << 20 and self.maker.likely(0.2):
                call.outputs = None
            body, headers = call.body(self.rng)
            reply = self.call("POST", call.path, body, headers)
            if reply.status != 200:
                break
            found = self.outputs(reply)
            if not found: # of the parts of nothing
                break
            _, datatype, shape = found[0]
            if known:
                self.links[call.op] += 1
            if call.outputs:
                known = name, shape, datatype
            call = self.maker.link(*known) if known else None

    def keep(self, tensor):
        blobs = []
        kept = making.Tensor(None, tensor.shape, tensor.datatype)
        kept.source = self.rng.choice(("json", "binary"))
        what = kept.object(self.rng, blobs)
        what.pop("parameters", None)
        head = json.dumps(what).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))} if blobs else {}
        self.call("PUT", "/v1/tensors/" + tensor.where["tensor"], head + b"".join(blobs), headers)

    # ---- what else happens ----

    def one_task(self):
        path = self.rng.choice(self.tasks)
        how = self.rng.randrange(4)
        if how == 0:
            self.call("DELETE", path)
            self.tasks.remove(path)
        elif how == 1:
            self.call("GET", f"{path}?wait={self.rng.choice((0, 0.01, 1, 600))}")
        elif how == 2:
            self.call("GET", path)
        self.tasks = self.tasks[-8:]

    def one_tensor(self):
        name = self.rng.choice(self.maker.names + self.maker.shared)
        how = self.rng.randrange(5)
        x = np.arange(12).astype(self.rng.choice((np.float32, np.int64, np.uint8, np.bool_))).reshape(3, 4)
        if how == 0:
            self.call("DELETE", "/v1/tensors/" + name)
        elif how == 1:
            head = str({"descr": x.dtype.str, "fortran_order": self.maker.likely(0.5), "shape": x.shape}).encode()
            file = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + x.tobytes()
            self.call("PUT", "/v1/tensors/" + name, self.maybe_mutated(file), {"Content-Type": "application/x-npy"})
        elif how == 2:
            head = json.dumps({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
                               "y": {"dtype": "BOOL", "shape": [], "data_offsets": [12, 13]}}).encode()
            file = len(head).to_bytes(8, "little") + head + bytes(13)
            self.call("PUT", "/v1/tensors/all", self.maybe_mutated(file), {"Content-Type": "application/x-safetensors"})
        elif how == 3:
            self.call("PUT", "/v1/tensors/" + name, {"shape": [3], "datatype": "FP32", "parameters": self.maker.region(12)})
        else:
            self.call("GET", "/v1/tensors/" + name)

    def maybe_mutated(self, data):
        return self.maker.mutated(data) if self.maker.likely(0.6) else data

    def one_region(self):
        good, bad = self.regions.keys
        index = self.rng.randrange(3)
        path = "/v2/systemsharedmemory/region/" + self.regions.names[index]
        how = self.rng.randrange(5)
        if how == 0:
            self.call("POST", path + "/unregister")
        elif how == 1:
            self.regions.resize(bad, self.rng.choice((0, 100, 4096, self.regions.size)))
        elif how == 2 and self.maker.likely(0.3):
            self.regions.close()
            self.regions.resize(good, self.regions.size)
        else:
            self.call("POST", path + "/register", {
                "key": bad if index == 2 else good, "offset": 0 if index == 0 else self.rng.choice((0, 1, 4096, 8192)),
                "byte_size": self.rng.choice((self.regions.size // 2, self.regions.size, 100, 0, 2**53))})

    def one_pool(self):
        if self.maker.likely(0.5):
            self.call("DELETE", "/v1/pools/few")
        config = {"cpus": LAST, "queue_depth": self.rng.choice((1, 2, 100)), "threads": self.rng.choice((1, 1, 2, 99))}
        if self.maker.likely(0.2):
            config[self.rng.choice(("streams", "cpus", "pinned", "x"))] = self.rng.choice(making.ODD)
        self.call("PUT", "/v1/pools/few", config)

    def one_look(self):
        path = self.rng.choice(PATHS)
        if self.maker.likely(0.3):
            schema = self.maker.mutated(self.rng.choice(SCHEMAS).encode()).decode("latin-1")
            self.call("POST", "/v1/dispatch/schema:parse", {"schema": schema})
        elif self.maker.likely(0.2):
            self.judge(self.send(self.rng.choice(("POST", "PUT", "DELETE")), path, b"{}"))
        else:
            self.call("GET", path)

    def one_raw(self):
        """A request turned over as a whole. libmicrohttpd may answer it itself, in its own words."""
        body, headers = self.maker.call().body(self.rng)
        headers |= {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close"}
        head = "POST /v1/ops/add HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        data = self.maker.mutated(head.encode()) + body
        self.last.append(("raw", None, None, data))
        try:
            with self.service.socket(0.2) as s:
                s.sendall(data)
                if s.recv(65536).split(b"\r\n")[0].split(b" ")[1:2] == [b"500"]:
                    raise Fault("500")
        except OSError:
            pass # hung up on, or waited for: whether the service lives is seen by the next one

    def control(self):
        """A right call among all this."""
        x = np.array([self.rng.randrange(-2**40, 2**40) for _ in range(self.rng.randrange(1, 70))])
        reply = self.service.infer("add", {"self": x, "other": x[::-1]}, {"alpha": 3}, binary=self.maker.likely(0.5))
        if reply.status == 429: # the others have filled the queue
            return
        if reply.status != 200 or not np.array_equal(reply.out, x + 3 * x[::-1]):
            raise Fault(f"the control gives {reply.status} {reply.body[:300]!r}")
        reply = self.service.call("POST", "/v1/ops/linear", {"inputs": [
            {"name": "input", "shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 4, 5, 6]},
            {"name": "weight", "parameters": {"tensor": "control"}}]})
        if reply.status != 429 and (reply.status != 200 or reply.out.tolist() != [[14, 0], [32, 0]]):
            raise Fault(f"the control gives {reply.status} {reply.body[:300]!r}")

    def step(self, n):
        if n % 25 == 0:
            self.control()
        do = self.rng.choices((self.one_call, self.one_chain, self.one_tensor, self.one_region, self.one_look, self.one_raw,
                               self.one_pool), (100, 10, 5, 5, 4, 2, 1))[0]
        do()


class Run:
    """Clients on one service until the time is over or one of them has found something."""

    def __init__(self, seed, seconds, clients, args):
        self.fault, self.most = None, 0
        self.service = service.Service(*POOLS, *args)
        self.ops = self.service.call("GET", "/v1/ops").json["ops"]
        keys = self.service.call("GET", "/v1/dispatch/keys").json
        self.keys = [f["name"] for f in keys["functionalities"]] + keys["backends"] + [
            "SparseCPU", "SparseMeta", "QuantizedMeta", "AutogradCPU", "AutogradRefCPU", "Autograd", "Nosuch"]
        self.service.call("PUT", "/v1/tensors/control", {"shape": [2, 3], "datatype": "FP32", "data": [1, 2, 3, 0, 0, 0]})
        self.end = time.monotonic() + seconds
        self.clients = [Client(self, i, seed) for i in range(clients)]

    def state(self):
        try:
            return f"has ended with {self.service.process.wait(3)}"
        except Exception: # pylint: disable=broad-except
            return "lives"

    def resident(self):
        with open(f"/proc/{self.service.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def counted(self):
        """Of /metrics: tensord_memory_NAME_bytes by NAME."""
        text = self.service.call("GET", "/metrics").body.decode()
        return {name[:-1] or "used": int(n) for name, n in re.findall(r"^tensord_memory_(\w+_)?bytes (\d+)$", text, re.M)}

    def watch(self):
        """Looks at what is resident every 20 ms, and at what was counted where that is too much."""
        counted = self.counted()
        while not self.over.wait(0.02):
            now = self.resident()
            self.most = max(self.most, now)
            if now > counted["most"] + OWN:
                counted = self.counted()
            if now > counted["most"] + OWN or now > counted["limit"] + OWN:
                self.fault = self.fault or (Fault(f"{now >> 20} MiB are resident, {counted}"), self.clients[0], 0)
                return

    def empty(self):
        """Everything that clients have left is taken away: then nothing may be counted any more."""
        for kind, member, key in (("tensors", "tensors", "name"), ("tasks", "tasks", "id")):
            for one in self.service.call("GET", f"/v1/{kind}").json[member]:
                self.service.call("GET", f"/v1/tasks/{one[key]}?wait=60") if kind == "tasks" else None
                self.service.call("DELETE", f"/v1/{kind}/{one[key]}")
        deadline = time.monotonic() + PATIENCE
        while True:
            counted = self.counted()
            left = counted["used"] - counted["kept"] - self.idle
            if left < 24 << 20: # JSON texts that come again are kept, 128 with their trees
                return
            if time.monotonic() > deadline:
                raise Fault(f"{left >> 20} MiB are counted for nothing: {counted}")
            time.sleep(0.1)

    def work(self, client):
        n = 0
        try:
            while time.monotonic() < self.end and not self.fault:
                client.step(n)
                n += 1
        except Exception as error: # pylint: disable=broad-except
            self.fault = self.fault or (error, client, n)
        finally:
            client.hang_up()

    def go(self):
        counted = self.counted()
        self.idle, self.over = counted["used"] - counted["kept"], threading.Event()
        watch = threading.Thread(target=self.watch)
        threads = [threading.Thread(target=self.work, args=[client]) for client in self.clients]
        for thread in [watch, *threads]:
            thread.start()
        for thread in threads:
            thread.join()
        self.over.set()
        watch.join()
        for client in self.clients:
            client.regions.close()
        self.tell()
        try:
            if not self.fault:
                self.empty()
            self.service.stop()
        except (AssertionError, Fault) as error:
            self.fault = self.fault or (error, self.clients[0], 0)
            print(str(error)[-6000:])
        return self.fault is None

    def tell(self):
        statuses = sum((client.statuses for client in self.clients), collections.Counter())
        right = sum((client.right for client in self.clients), collections.Counter())
        print(f"{statuses.total()} replies: " + ", ".join(f"{n} of {status}" for status, n in sorted(statuses.items())))
        links = sum((client.links for client in self.clients), collections.Counter())
        print(f"{links.total()} calls of {len(links)} operators on what another one had left in the store")
        print(f"{right.total()} results of {len(right)} of {len(self.ops)} operators, {sum(c.twins for c in self.clients)} "
              f"with their shapes compared; at most {self.most >> 20} MiB resident")
        if self.fault:
            error, client, n = self.fault
            print(f"client {self.clients.index(client)} at step {n}: {error!r}; its last requests, the latest first:")
            for request in reversed(client.last):
                print("   ", str(request)[:1500])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="0 draws one [1]")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--limits", choices=sorted(LIMITS), default="small", help="the service's [small]")
    parser.add_argument("--memory", help="and what it may hold, in bytes")
    args = parser.parse_args()
    if not os.access("/dev/shm", os.W_OK):
        service.skip("no /dev/shm to write to")
    seed = args.seed or random.SystemRandom().randrange(1, 2**31)
    print(f"--seed {seed}", flush=True)
    limits = [*LIMITS[args.limits], *(["--memory", args.memory] if args.memory else [])]
    raise SystemExit(0 if Run(seed, args.seconds, args.clients, limits).go() else 1)


if __name__ == "__main__":
    main()
