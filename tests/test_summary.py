#!/usr/bin/env python3
"""The closing lines of ./check, made of logs whose words are known."""
import json
import pathlib
import subprocess
import tempfile
import unittest

SUMMARY = pathlib.Path(__file__).with_name("summary.py").resolve()


class Summary(unittest.TestCase):
    def closing(self, broken, *logs):
        """(exit status, lines) for the logs: lists of (name, result, seconds, what it said)."""
        keys = ("name", "result", "duration", "stdout")
        with tempfile.TemporaryDirectory() as folder:
            for i, log in enumerate(logs):
                text = "".join(json.dumps(dict(zip(keys, test))) + "\n" for test in log)
                pathlib.Path(folder, f"log{i}").write_text(text)
            names = [f"log{i}" for i in range(len(logs))]
            ran = subprocess.run([SUMMARY, str(broken), *names], cwd=folder, text=True, capture_output=True)
        return ran.returncode, ran.stdout.splitlines()

    def test_the_slowest_of_all_folders_come_last(self):
        first = [(f"t{i}", "OK", float(i), "") for i in range(4)]
        status, said = self.closing(0, first, [("long", "OK", 9.0, ""), ("short", "OK", 0.5, "")])
        self.assertEqual(status, 0)
        self.assertEqual(said, ["slowest:    9.0 s  log1: long", "slowest:    3.0 s  log0: t3",
                                "slowest:    2.0 s  log0: t2", "slowest:    1.0 s  log0: t1",
                                "slowest:    0.5 s  log1: short", "6 passed, 0 failed"])

    def test_a_skip_says_why(self):
        said = self.closing(0, [("a", "SKIP", 0.1, "so\nskipped: no wrk\n"), ("b", "OK", 0.1, "")])[1]
        self.assertIn("skipped: log0: a: no wrk", said)
        self.assertEqual(said[-1], "1 passed, 0 failed, 1 skipped")

    def test_nothing_tested_has_not_passed(self):
        self.assertEqual(self.closing(1, [("a", "OK", 0.1, "")])[0], 1)
        self.assertEqual(self.closing(0, [])[0], 1)
        self.assertEqual(self.closing(0, [("a", "FAIL", 0.1, "")])[0], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
