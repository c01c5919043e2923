#!/usr/bin/env python3
"""deploy/load/load.py against a running server: its figures, its text and its picture, and that the
server is left as it was found."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import service

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "load" / "load.py"
if not shutil.which("wrk"):
    service.skip("no wrk, which loads with small calls")


class Report(service.ServiceTest):
    def load(self, *arguments):
        return subprocess.run([sys.executable, str(SCRIPT), "--url", f"http://127.0.0.1:{self.service.port}",
                               *arguments], capture_output=True, text=True, timeout=300)

    def test_report(self):
        before = set(os.listdir("/dev/shm"))
        with tempfile.TemporaryDirectory() as directory:
            ran = self.load("--seconds", "0.4", "--connections", "2,1", "--mib", "0.125", "--threads", "2",
                            "--out", directory)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            files = {p.name: p.read_text() for p in pathlib.Path(directory).iterdir()}
        self.assertEqual(sorted(files), ["figures.json", "load.svg", "report.md"])
        figures = json.loads(files["figures.json"])
        self.assertEqual(figures["notes"], [])
        for kind, names in (("small", ["GET /v1/isa", "JSON", "binary", "shared memory"]),
                            ("big", ["JSON", "binary", "shared memory"])):
            self.assertEqual(list(figures[kind]), names)
            for name, points in figures[kind].items():
                self.assertEqual([p["connections"] for p in points], [1, 2], name)
                for p in points:
                    self.assertEqual(p["errors"], 0, name)
                    self.assertGreater(p["requests"], 0, name)
                    at = list(p["microseconds"].values())
                    self.assertEqual(at, sorted(at), name)
        self.assertEqual(len(re.findall(r"^\| [^|]+ \| [12] \|.* 0 \|$", files["report.md"], re.M)), 14)
        picture = xml.etree.ElementTree.fromstring(files["load.svg"])
        lines = [e for e in picture.iter() if e.tag.endswith("polyline")]
        self.assertEqual(len(lines), 4 + 8 + 3 + 6)
        self.assertEqual(self.service.call("GET", "/v2/systemsharedmemory/status").json, [])
        self.assertFalse([f for f in set(os.listdir("/dev/shm")) - before if f.startswith("load_")])

    def test_left_out(self):
        """What the server has no memory for, or does not take, is named."""
        with tempfile.TemporaryDirectory() as directory:
            ran = self.load("--seconds", "0.4", "--connections", "1,2", "--mib", "0.5", "--memory-mib", "3", "--out", directory)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            text = (pathlib.Path(directory) / "report.md").read_text()
        self.assertIn("left out", text)
        self.assertIn("binary from 2 connections on", text)

    def test_no_server(self):
        for url, word in (("http://127.0.0.1:1", "refused"), ("ftp://x", "http://HOST:PORT")):
            ran = subprocess.run([sys.executable, str(SCRIPT), "--url", url], capture_output=True, text=True)
            self.assertNotEqual(ran.returncode, 0)
            self.assertIn(word, ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
