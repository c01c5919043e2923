#!/usr/bin/env python3
"""Prometheus takes our metrics and alert rules, and what these and the Grafana dashboard ask for is there."""
import json
import pathlib
import re
import shutil
import subprocess
import unittest

import certificates
import service

try:
    import yaml
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMTOOL = shutil.which("promtool", path=f"{ROOT}/.deps/prometheus/usr/bin") or shutil.which("promtool")
# Whatever scrapes adds these.
ADDED = {"instance", "job"}


def expressions():
    """(where, PromQL) of all rules and panels."""
    for group in yaml.safe_load((ROOT / "deploy/alerts.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board = json.loads((ROOT / "deploy/grafana.json").read_text())
    for variable in board["templating"]["list"]:
        yield variable["name"], variable["query"]
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


AUTHORITY, (CERT, KEY) = certificates.here()


class Monitoring(service.ServiceTest):
    args, tls = ("--tls-cert", str(CERT), "--tls-key", str(KEY)), AUTHORITY.context() # for the metrics of these

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service.call("POST", "/v1/ops/relu", {"self": [1.5]})
        cls.service.call("PUT", "/v1/models/digits", (ROOT / "examples/digits/digits.onnx").read_bytes())
        cls.service.call("POST", "/v1/models/digits", (ROOT / "examples/digits/seven.json").read_bytes())
        cls.text = cls.service.call("GET", "/metrics").body.decode()
        cls.labels = {} # of each metric
        for name, labels in re.findall(r"^(\w+)(?:{(.*)})? ", cls.text, re.M):
            cls.labels.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))

    def promtool(self, *args, text=None):
        if not PROMTOOL:
            self.skipTest("no promtool: run deploy/setup.sh check on a system with apt")
        done = subprocess.run([PROMTOOL, "check", *args], input=text, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_metrics(self):
        self.promtool("metrics", text=self.text)

    def test_rules(self):
        self.promtool("rules", ROOT / "deploy/alerts.yaml")

    def test_names(self):
        asked = 0
        for where, expression in expressions():
            for name, labels in re.findall(r"\b((?:tensord|process)_\w+)(?:{([^}]*)})?", expression):
                with self.subTest(where=where, name=name):
                    self.assertIn(name, self.labels)
                    self.assertLessEqual(set(re.findall(r'(\w+)\s*=', labels)), self.labels[name] | ADDED)
                    for by in re.findall(r"\bby \(([^)]*)\)", expression):
                        self.assertLessEqual(set(re.split(r",\s*", by)), self.labels[name] | ADDED)
                    asked += 1
        self.assertGreater(asked, 20)

    def test_models_have_panels(self):
        """Their latency and how many runs: what the board asks of them has a series for each model."""
        asked = {name for _, expression in expressions() for name in re.findall(r"tensord_model_duration_seconds_\w+", expression)}
        self.assertEqual(asked, {"tensord_model_duration_seconds_bucket", "tensord_model_duration_seconds_count"})
        for name in asked:
            self.assertRegex(self.text, rf'(?m)^{name}{{model="digits"')
        board = json.loads((ROOT / "deploy/grafana.json").read_text())["panels"]
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board}
        self.assertEqual((len({panel["id"] for panel in board}), len(places)), (len(board), len(board)))


if __name__ == "__main__":
    service.main()
