#!/usr/bin/env python3
"""The curl transcripts in README.md and docs/, and the former's Python: each is run, and what it gives is what is shown."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import models
import stateful
import service

ROOT = pathlib.Path(__file__).resolve().parents[2]


def transcripts(text):
    """(command, reply) of every console block that calls the server."""
    for block in re.findall(r"```console\n(.*?)```", text, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, reply = part.partition("\n")
            while command.count("'") % 2: # it goes on in the next line
                line, _, reply = reply.partition("\n")
                command += "\n" + line
            if command.startswith("curl "):
                yield command, reply.strip()


def steady(text):
    """Without what differs from call to call, and from machine to machine."""
    text = re.sub(r'(_us":|us=\[)[\d.]+', r"\1_", text)
    text = re.sub(r"\d\.\d{5,}(e-?\d+)?", lambda number: f"{float(number[0]):.4g}", text) # levels add in other orders
    text = re.sub(r'("kernel":"|"isa":"|kernel=\[)(simd|onednn|ref|AVX\w*|DEFAULT|AMX)(@\w+)?', r"\1_", text)
    return re.sub(r"ops\.def:\d+", "ops.def:_", text)


LEVELS = "DEFAULT AVX2 AVX2_VNNI AVX512 AVX512_VNNI AVX512_BF16 AMX AVX512_FP16".split()
RELEASES = { # as the design document that the levels come from has them
    "PyTorch": "DEFAULT AVX2 AVX512", "IPEX 1.11": "AVX2 AVX512", "IPEX 1.12": "AVX2 AVX512 AVX512_VNNI AVX512_BF16 AMX",
    "IPEX 1.13": "AVX2 AVX2_VNNI AVX512 AVX512_VNNI AVX512_BF16 AMX",
    "IPEX 2.1": " ".join(LEVELS[1:]), "IPEX 2.2": " ".join(LEVELS[1:])}


class Docs(service.ServiceTest):
    def test_releases(self): # ISA-3
        """The table of releases has the document's rows, and ours says what this source builds."""
        text = (ROOT / "docs/isa.md").read_text().partition("## Which release builds what")[2]
        head, _, *rows = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(head[1:], LEVELS)
        said = {row[0]: [level for level, cell in zip(LEVELS, row[1:]) if cell == "yes"] for row in rows}
        version = ".".join(re.search(r"version: '([\d.]+)'", (ROOT / "meson.build").read_text()).group(1).split(".")[:2])
        ours = re.findall(r"^TD_ISA\(\w+, (\w+),", (ROOT / "kernels/isa.def").read_text(), re.M)
        self.assertEqual(said, {**{name: levels.split() for name, levels in RELEASES.items()}, f"tensord {version}": ours})

    def test_pictures_and_links(self):
        """What README.md and docs/ show and name is there, and no picture is heavy."""
        shown = set()
        for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
            text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
            for picture, target in re.findall(r"(!?)\[[^\]]*\]\((?!https?:|/)([^)#]+)", text):
                self.assertTrue((path.parent / target).exists(), f"{path.name}: {target}")
                shown |= {(path.parent / target).resolve()} if picture else set()
        for name in re.findall(r"`((?:docs|tests|deploy|api|kernels|server|pools|dispatch|openapi|examples)/[\w./]+)`",
                               (ROOT / "README.md").read_text()):
            self.assertTrue((ROOT / name).exists(), name)
        pictures = set((ROOT / "docs/pictures").iterdir())
        self.assertEqual(pictures - shown, set())
        self.assertGreaterEqual(len(pictures), 8)
        for picture in pictures:
            self.assertLess(picture.stat().st_size, 100_000, picture.name)

    def test_threats(self):
        """Each row of SECURITY.md's threats names tests that there are."""
        rows = [row.split("|")[3] for row in (ROOT / "SECURITY.md").read_text().splitlines() if row.startswith("| ") and "`tests/" in row]
        self.assertGreater(len(rows), 10)
        for row in rows:
            path = None
            for name in re.findall(r"`([\w./]+)`", row):
                if "/" in name:
                    path = ROOT / name
                    self.assertTrue(path.is_file(), name)
                else:
                    self.assertRegex(path.read_text(), rf"(def |START_TEST\(){name}\b")

    def test_transcripts(self):
        n = 0
        folder = self.enterContext(tempfile.TemporaryDirectory())
        pathlib.Path(folder, "line.onnx").write_bytes(models.line())
        self.service.call("PUT", "/v1/models/counter", stateful.counter())
        self.service.call("PUT", "/v1/models/voice", stateful.chunks())
        self.service.call("PUT", "/v1/models/colors", models.colors())
        pathlib.Path(folder, "examples").symlink_to(ROOT / "examples")
        for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
            for command, shown in transcripts(path.read_text()):
                with self.subTest(file=path.name, command=command):
                    done = subprocess.run(command.replace("localhost:8080", f"127.0.0.1:{self.service.port}"),
                                          shell=True, cwd=folder, capture_output=True, text=True, timeout=30)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    got = steady(done.stdout.strip())
                    want = steady(shown)
                    if want.endswith("..."):
                        got, want = got[:len(want) - 3], want[:-3]
                    self.assertEqual(got, want)
                    n += 1
        self.assertGreaterEqual(n, 10)

    def test_python(self):
        """README's, with the package as it lies there."""
        self.service.call("PUT", "/v1/models/digits", (ROOT / "examples/digits/digits.onnx").read_bytes())
        (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        done = subprocess.run([sys.executable, "-c", text.replace("localhost:8080", f"127.0.0.1:{self.service.port}")],
                              env={**os.environ, "PYTHONPATH": str(ROOT / "examples/python")}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\[\d\]$")

    def test_that_steady_keeps_what_matters(self):
        self.assertNotEqual(steady('"data":[1]'), steady('"data":[2]'))
        self.assertNotEqual(steady("[0.36552927,1.4288611]"), steady("[0.36652927,1.4288611]"))
        self.assertEqual(steady("[0.36552927,1.38156065e-5]"), steady("[0.3655293,1.38156069e-5]"))
        self.assertEqual(steady('"kernel":"simd","isa":"AVX2","queue_us":1'), steady('"kernel":"ref","isa":"AMX","queue_us":22.5'))


if __name__ == "__main__":
    service.main()
