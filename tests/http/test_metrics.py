#!/usr/bin/env python3
"""GET /metrics is Prometheus text by its conventions, and counts what has happened."""
import re

import numpy as np
import prometheus_client.parser

import models
import service

LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"(?:,|$)')
UNITS = ("_seconds", "_bytes", "_total", "_info", "_ratio")


class Metrics(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service.infer("relu", {"self": np.ones(4, np.float32)})
        cls.service.call("PUT", "/v1/models/same", models.identity())
        cls.service.infer("same", {"x": np.ones(4, np.float32)}, path="/v2/models/{}/infer")

    def scrape(self):
        """({(name, labels): value}, {family: type}); the text's grammar is checked on the way."""
        reply = self.service.call("GET", "/metrics")
        self.assertEqual(reply.status, 200)
        self.assertRegex(reply.headers["Content-Type"], r"^text/plain; version=0\.0\.4")
        text = reply.body.decode()
        self.assertTrue(text.endswith("\n"))
        samples, types, helps, current = {}, {}, set(), None
        for line in text.splitlines():
            if line.startswith("# HELP "):
                current = line.split()[2]
                self.assertNotIn(current, helps, "a family in two places")
                self.assertGreater(len(line.split(None, 3)[3]), 5)
                helps.add(current)
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.assertEqual(name, current)
                self.assertIn(kind, ("counter", "gauge", "histogram"))
                types[name] = kind
            else:
                found = LINE.match(line)
                self.assertTrue(found, line)
                name, labels, value = found.groups()
                pairs = LABEL.findall(labels or "")
                self.assertEqual("".join(f'{k}="{v}",' for k, v in pairs)[:-1], labels or "", line)
                key = (name, tuple(sorted(pairs)))
                self.assertNotIn(key, samples, "a sample twice")
                family = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(current) == "histogram" else name
                self.assertEqual(family, current, "a sample outside of its family")
                samples[key] = float(value)
        self.assertEqual(helps, set(types))
        return samples, types

    def series(self, of):
        """What Prometheus' own client reads, {(name, labels): value}: no series twice."""
        text, series = of.call("GET", "/metrics").body.decode(), {}
        for family in prometheus_client.parser.text_string_to_metric_families(text):
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                self.assertFalse(key in series, key)
                series[key] = sample.value
        self.assertEqual(len(series), sum(not line.startswith("#") for line in text.splitlines()))
        return series

    def test_calls_as_they_were_sent(self):
        """Calls by operator, kernel and level, as the replies say, whatever rows their types took."""
        def counted():
            return {labels: n for (name, labels), n in self.series(self.service).items() if name == "tensord_op_calls_total"}
        before, sent = counted(), {}
        def send(op, inputs, parameters=None):
            reply = self.service.infer(op, inputs, parameters)
            if reply.status == 200:
                labels = {"op": full[op], "kernel": reply.parameters["kernel"], "isa": reply.parameters["isa"]}
                key = tuple(sorted(labels.items()))
                sent[key] = sent.get(key, 0) + 1
            return reply.status
        full = {"matmul": "matmul", "sum": "sum", "add": "add.Tensor", "gelu": "gelu", "silu": "silu"}
        values = {**{kind: np.ones((2, 2), kind) for kind in service.NAMES}, "BF16": service.BF16(np.ones((2, 2)))}
        for x in values.values():
            for kernel in ({}, {"kernel": "simd"}, {"kernel": "ref"}, {"kernel": "onednn"}, {"device": "refcpu"}):
                send("matmul", {"self": x, "other": x}, kernel)
                send("sum", {"self": x}, kernel)
                send("add", {"self": x, "other": x}, kernel)
                send("gelu", {"self": x}, kernel)
                send("silu", {"self": x}, kernel)
        after = counted()
        grown = {key: n - before.get(key, 0) for key, n in after.items() if n != before.get(key, 0)}
        self.assertEqual(grown, sent)
        self.assertGreater(max(sent.values()), 9) # of several types each

    def test_conventions(self):
        samples, types = self.scrape()
        for name, kind in types.items():
            self.assertRegex(name, r"^(tensord|process)_[a-z0-9_]+$")
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            if kind == "histogram":
                self.assertTrue(name.endswith(UNITS), name)
        self.assertTrue(all(value >= 0 for value in samples.values()))

    def test_histograms(self):
        samples, types = self.scrape()
        names = [n for n, kind in types.items() if kind == "histogram"]
        self.assertEqual(len(names), 5)
        for name in names:
            series = {}
            for (n, labels), value in samples.items():
                if n == name + "_bucket":
                    by = dict(labels)
                    le = by.pop("le")
                    series.setdefault(tuple(sorted(by.items())), []).append((le, value))
            self.assertTrue(series, name)
            for by, buckets in series.items():
                bounds = [float(le.replace("+Inf", "inf")) for le, _ in buckets]
                self.assertEqual(bounds, sorted(bounds))
                self.assertEqual(bounds[-1], float("inf"))
                counts = [value for _, value in buckets]
                self.assertEqual(counts, sorted(counts))
                self.assertEqual(counts[-1], samples[name + "_count", by])
                self.assertGreater(samples[name + "_sum", by], -1)

    def test_what_they_are_counted_by(self):
        """Bytes, time and errors by route, operator, pool and type; what no route fits has one of its own."""
        def grown(name, **labels):
            return self.count(after, name, **labels) - self.count(before, name, **labels)
        before, _ = self.scrape()
        body, headers = service.pack({"self": np.ones(1000, np.float32)}, binary=True)
        replies = [self.service.call("POST", "/v1/ops/relu", body, headers) for _ in range(4)]
        self.service.call("POST", "/v1/eval", {"expr": "relu(a)+1", "a": [1.5, 2]})
        for path in ("/nope", "/nope/2", "/v1/tensors/none"):
            self.assertEqual(self.service.call("GET", path).status, 404)
        with self.service.socket() as c: # libmicrohttpd refuses it; see test_framing
            c.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nbad\r\n\r\n")
            refused = b"problem+json" in c.recv(4096)
        after, _ = self.scrape()
        route = {"method": "POST", "route": "/v1/ops/{op}"}
        self.assertEqual(grown("tensord_http_request_bytes_total", **route), 4 * len(body))
        self.assertEqual(grown("tensord_http_response_bytes_total", **route), sum(len(r.body) for r in replies))
        self.assertEqual(grown("tensord_request_duration_seconds_count", **route), 4)
        self.assertGreater(grown("tensord_request_duration_seconds_sum", **route), 0)
        self.assertEqual(grown("tensord_op_duration_seconds_count", op="relu"), 4)
        self.assertEqual(grown("tensord_op_duration_seconds_count", op="eval"), 1)
        for name in ("queue", "compute"):
            self.assertEqual(grown(f"tensord_{name}_duration_seconds_count", pool="default"), 5)
        self.assertEqual(grown("tensord_problems_total", type="not-found"), 3)
        self.assertEqual(grown("tensord_http_requests_total", route="none"), 2 + refused)
        self.assertEqual(grown("tensord_problems_total", type="invalid-request"), refused)

    def test_pools_that_come_and_go(self):
        """Each has counts of its own, and keeps them; there is an end to how many."""
        with service.Service() as s:
            x = {"self": np.ones(4, np.float32)}
            for name in ("others", *(f"p{i}" for i in range(69))):
                self.assertEqual(s.call("PUT", f"/v1/pools/{name}", {"cpus": service.CPUS[0]}).status, 201)
                self.assertEqual(s.infer("relu", x, {"pool": name}).status, 200)
                s.call("DELETE", f"/v1/pools/{name}")
            series = self.series(s)
            text = s.call("GET", "/metrics").body.decode()
        counts = {dict(labels)["pool"]: n for (name, labels), n in series.items() if name == "tensord_compute_duration_seconds_count"}
        self.assertEqual(counts, {"others": 1, **{f"p{i}": 1 for i in range(62)}, "(others)": 7})
        self.assertNotIn('tensord_pool_threads{pool="p1"}', text)

    def test_workers(self):
        samples, _ = self.scrape()
        for pool in self.service.call("GET", "/v1/pools").json["pools"]:
            by = (("pool", pool["name"]),)
            self.assertEqual(samples["tensord_pool_workers", by], pool["streams"])
            self.assertEqual(samples["tensord_pool_queue_limit", by], pool["queue_depth"])
            self.assertEqual(samples["tensord_pool_running_workers", by], 0)
            self.assertEqual(samples["tensord_pool_late_total", by], 0)

    @staticmethod
    def count(samples, name, **labels):
        return sum(v for (n, have), v in samples.items() if n == name and set(labels.items()) <= set(have))

    def test_counting(self):
        count = self.count
        before, _ = self.scrape()
        x = {"self": np.ones(4, np.float32)}
        for _ in range(7):
            self.assertEqual(self.service.infer("relu", x, {"kernel": "ref"}).status, 200)
        for _ in range(3):
            self.assertEqual(self.service.infer("relu", x, {"kernel": "nosuch"}).status, 400)
        for _ in range(2): # no row of silu's own, but of what it is composed of
            self.assertEqual(self.service.infer("silu", x, {"device": "refcpu"}).status, 200)
        after, _ = self.scrape()
        route = {"route": "/v1/ops/{op}", "method": "POST"}
        for labels, more in (({**route, "code": "2xx"}, 9), ({**route, "code": "4xx"}, 3)):
            self.assertEqual(count(after, "tensord_http_requests_total", **labels)
                             - count(before, "tensord_http_requests_total", **labels), more)
        for labels, more in (({"op": "relu", "kernel": "ref"}, 7), ({"op": "relu"}, 7),
                             ({"op": "silu", "kernel": "composite"}, 2), ({"op": "silu"}, 2)):
            self.assertEqual(count(after, "tensord_op_calls_total", **labels)
                             - count(before, "tensord_op_calls_total", **labels), more)
        name = "tensord_compute_duration_seconds_count"
        self.assertEqual(count(after, name) - count(before, name), 9)
        name = "tensord_request_duration_seconds_count"
        self.assertGreaterEqual(count(after, name) - count(before, name), 10)
        self.assertEqual(after["tensord_requests_in_flight", ()], 1)

    def test_generated_loops(self):
        count, x = self.count, np.ones(8192, np.float32)
        before, _ = self.scrape()
        for _ in range(3): # one pattern
            reply = self.service.infer("", {"x": x}, binary=True, path="/v1/eval", expr="relu(x * 3 + x) * x - sqrt(x)")
            self.assertEqual(reply.status, 200, reply.body[:300])
        after, _ = self.scrape()
        jit = reply.parameters["kernel"] == "jit"
        for event in ("made", "none", "full"):
            self.assertEqual(count(after, "tensord_generated_total", event=event) - count(before, "tensord_generated_total", event=event),
                             jit and event == "made", event)
        self.assertEqual(after["tensord_generated_loops", ()] - before["tensord_generated_loops", ()], jit)
        self.assertEqual(after["tensord_generated_code_bytes", ()] > before["tensord_generated_code_bytes", ()], jit)

    def test_computed_together(self):
        """Each operator of an expression counts, by the kernel that computed it with others."""
        for bits in (np.float32, np.float64): # generated where the level has it; compiled
            before, _ = self.scrape()
            reply = self.service.infer("", {"x": np.ones(8192, bits)}, binary=True, path="/v1/eval", expr="exp(x * 3) - sqrt(x)")
            self.assertIn(reply.parameters["kernel"], ("fused", "jit") if bits is np.float32 else ("fused",))
            after, _ = self.scrape()
            for op in ("exp", "mul.Scalar", "sqrt", "sub.Tensor"):
                for kernel in ("fused", "jit"):
                    self.assertEqual(self.count(after, "tensord_op_calls_total", op=op, kernel=kernel)
                                     - self.count(before, "tensord_op_calls_total", op=op, kernel=kernel),
                                     reply.parameters["kernel"] == kernel, (op, kernel))

    def test_counted_by_many_threads(self):
        """HTTP threads and workers count apart; a scrape, from whichever thread, has it all."""
        x = np.ones(4, np.float32)
        with service.Service("--io-threads", "4") as s:
            for i in range(60):
                connection = s.connect() # each may come to another thread
                how = {"Prefer": "respond-async"} if i % 3 == 0 else {}
                body, headers = service.pack({"self": x})
                reply = s.call("POST", "/v1/ops/relu", body, {**headers, **how}, connection)
                self.assertEqual(reply.status, 202 if how else 200)
                if how:
                    s.call("GET", reply.headers["Location"] + "?wait=60", connection=connection)
                connection.close()
            def scraped():
                return s.call("GET", "/metrics").body.decode()
            counted = 'tensord_http_requests_total{method="POST",route="/v1/ops/{op}",code="2xx"} 60\n'
            self.assertTrue(service.eventually(lambda: counted in scraped()), scraped()) # behind the reply
            text = scraped()
            self.assertEqual(sum(map(int, re.findall(r'^tensord_op_calls_total\{op="relu".* (\d+)$', text, re.M))), 60)
            self.assertIn('tensord_compute_duration_seconds_count{pool="default"} 60\n', text)

    def test_what_the_machine_says(self):
        samples, _ = self.scrape()
        with open(f"/proc/{self.service.pid}/statm") as statm:
            resident = int(statm.read().split()[1]) * 4096
        self.assertAlmostEqual(samples["process_resident_memory_bytes", ()] / resident, 1, delta=0.3)
        info = next(dict(labels) for (name, labels) in samples if name == "tensord_build_info")
        isa = self.service.call("GET", "/v1/isa").json
        self.assertEqual((info["isa"], info["onednn"]), (isa["current"], isa["onednn"]["version"]))
        pools = self.service.call("GET", "/v1/pools").json["pools"]
        for pool in pools:
            self.assertEqual(samples["tensord_pool_threads", (("pool", pool["name"]),)], pool["threads"])


if __name__ == "__main__":
    service.main()
