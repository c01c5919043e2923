#!/usr/bin/env python3
"""`tensord report`: its JSON against a schema, and what must hold between its figures; its page; what is wrong with a command line or
a directory; that nothing half-written stays."""
import importlib.util
import json
import math
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

import jsonschema
import numpy as np

import models
import service
from service import run

HTML, SVG = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2000/svg}"
NAME, NUMBER, WHOLE, SHARE = {"type": "string", "minLength": 1}, {"type": "number"}, {"type": "integer", "minimum": 0}, {
    "type": "number", "minimum": 0, "maximum": 1}
POSITIVE = {"type": "number", "exclusiveMinimum": 0}


def closed(optional=(), **properties):
    """An object of these members and no other."""
    return {"type": "object", "properties": properties, "additionalProperties": False,
            "required": [name for name in properties if name not in optional]}


def many(**properties):
    return {"type": "array", "minItems": 1, "items": closed(**properties)}


def some(**properties):
    return {"type": "array", "items": closed(**properties)}


PEERS = {"enum": ["torch", "onnxruntime", "openvino"]}
SUITES = {"enum": ["vision", "transformer", "sequence", "all"]}
MEAN = many(suite=SUITES, networks=WHOLE, geomean=POSITIVE, least=POSITIVE, most=POSITIVE, geomean_clipped={"type": "number", "minimum": 1})
TIMED = dict(name=NAME, suite=SUITES, eager_us=POSITIVE, plan_us=POSITIVE, eager_median_us=POSITIVE, plan_median_us=POSITIVE, speed_up=POSITIVE,
             peers_us={"type": "object", "additionalProperties": POSITIVE})
TOLD = some(peer=PEERS, version=NAME, networks=WHOLE, geomean=POSITIVE)
TALLY = dict(cells=WHOLE, within=WHOLE, share=SHARE, within_tuned=WHOLE, share_tuned=SHARE)
RATES = dict(rate=POSITIVE, rate_least=POSITIVE, rate_most=POSITIVE, least_us=POSITIVE, p50_us=POSITIVE, p99_us=POSITIVE)
KERNELS = dict(kernels=WHOLE, vectorised=WHOLE, share=SHARE)
DATA = { # of each row
    "NUM-1": closed(suites=many(suite=SUITES, networks=WHOLE, passed=WHOLE, percent=WHOLE),
                    peers=some(peer=PEERS, version=NAME, networks=WHOLE, agree=WHOLE),
                    networks=many(optional=("worst", "why"), name=NAME, suite=SUITES, source={"enum": ["composed", "file"]},
                                  passed={"type": "boolean"}, worst=NUMBER, why=NAME)),
    "NUM-2": closed(optional=("threads", "suites", "networks", "peers"), threads=WHOLE, suites=MEAN, peers=TOLD,
                    networks=many(optional=("peers_us",), **TIMED)),
    "NUM-3": closed(threads={"const": 1}, suites=MEAN, peers=TOLD, networks=many(
        optional=("peers_us",), **TIMED, load_ms=POSITIVE, first_ms=POSITIVE, eager_bytes=POSITIVE, plan_bytes=POSITIVE)),
    "NUM-4": closed(inference=many(suite=SUITES, **KERNELS, library=WHOLE), training=closed(**KERNELS),
                    kernels=many(kernel=NAME, times=WHOLE)),
    "NUM-5": closed(reasons=many(of={"enum": ["fused", "generated", "backward", "planned"]}, reason=NAME, times=WHOLE, vision=WHOLE, transformer=WHOLE,
                                sequence=WHOLE)),
    "NUM-6": closed(compiler=NAME, levels=many(level=NAME, built={"type": "boolean"}, runs={"type": "boolean"},
                                               in_use={"type": "boolean"}, missing={"type": ["string", "null"]})),
    "NUM-7": closed(xcr0={"type": "string", "pattern": "^0x[0-9a-f]+$"},
                    features={"type": "object", "minProperties": 39, "additionalProperties": {"type": "boolean"}}),
    "NUM-8": closed(cells=WHOLE, limit={"const": 1.05}, unseen_ns={"const": 200}, within_strictly=WHOLE,
                    by_type=many(datatype=NAME, **TALLY), by_size=many(elements=NAME, **TALLY),
                    worst=closed(ratio={"type": "number", "minimum": 1}, cell={"type": ["string", "null"]})),
    "NUM-9": closed(works=many(work=NAME, what=NAME, settings=many(
        shape=NAME, what=NAME, pinned={"type": "boolean"}, tasks_at_once=WHOLE, threads_a_task=WHOLE, **RATES))),
    "NUM-10": closed(items=many(name=NAME, what=NAME, ns_least=NUMBER, ns_median=NUMBER)),
    "NUM-11": closed(client=closed(cpu=WHOLE, threads={"const": 1}, shares_cpus_with_server={"type": "boolean"}), points=many(
        body={"enum": ["none", "tiny", "medium", "large"]}, request_bytes=WHOLE, form={"enum": ["none", "json", "binary"]},
        connections=WHOLE, pinned={"type": "boolean"}, **RATES)),
    "NUM-12": {"type": "object", "required": ["cpu", "level", "cores", "allowed", "threads_used", "load_before", "load_after", "rounds",
                                              "governor", "kernel", "onednn"]},
}
FIGURE = closed(optional=("least", "most"), name=NAME, unit={"type": "string"}, value=NUMBER, least=NUMBER, most=NUMBER)
ROW = closed(row={"enum": list(DATA)}, title=NAME, how=NAME, figures={"type": "array", "items": FIGURE},
             not_measured={"type": "array", "items": closed(what=NAME, why=NAME)}, data={"type": "object"})
SCHEMA = closed(tensord_report={"const": 1}, version=NAME, made={"type": "string", "format": "date-time"}, quick={"type": "boolean"},
                seconds=POSITIVE, rows={"type": "array", "items": ROW, "minItems": len(DATA), "maxItems": len(DATA)})


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.folder.name, "figures")
        cls.done = run("report", str(cls.directory), "--quick", "--python", sys.executable, timeout=500)
        cls.files = sorted(path.name for path in cls.directory.iterdir()) if cls.directory.exists() else []
        cls.report = json.loads((cls.directory / cls.files[-1]).read_text()) if cls.files else {"rows": []}
        cls.page = (cls.directory / cls.files[0]).read_text() if cls.files else ""
        cls.rows = {row["row"]: row for row in cls.report["rows"]}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def data(self, row):
        return self.rows[row]["data"]

    def test_files(self): # IND-47
        """One run, dated files, and what it prints are their names."""
        self.assertEqual((self.done.returncode, self.done.stderr), (0, ""))
        date = self.report["made"][:10]
        self.assertEqual(self.files, [f"{date}.html", f"{date}.json"])
        self.assertEqual(self.done.stdout.split(), [str(self.directory / name) for name in self.files])
        self.assertEqual({(self.directory / name).stat().st_mode & 0o777 for name in self.files}, {0o644})

    def test_schema(self):
        """Every row is there, with a figure or a reason, and its data are of its form."""
        jsonschema.validate(self.report, SCHEMA, format_checker=jsonschema.FormatChecker())
        self.assertEqual(list(self.rows), list(DATA))
        for name, row in self.rows.items():
            with self.subTest(row=name):
                self.assertTrue(row["figures"] or row["not_measured"])
                if row["data"]:
                    jsonschema.validate(row["data"], DATA[name])
                for figure in row["figures"]:
                    if figure["unit"] == "share":
                        self.assertTrue(0 <= figure["value"] <= 1, figure)
                    if "least" in figure:
                        self.assertLessEqual(figure["least"], figure["most"], figure)

    def test_networks(self): # NUM-2 NUM-3
        """Every network is judged and passes; counts, means and shares are those of their parts."""
        data = self.data("NUM-1")
        self.assertEqual([n for n in data["networks"] if not n["passed"] or n["worst"] > 1], [])
        for suite in data["suites"]:
            own = [n for n in data["networks"] if n["suite"] == suite["suite"]]
            self.assertEqual((suite["networks"], suite["passed"], suite["percent"]), (len(own), len(own), 100))
            self.assertGreater(len(own), 3)
        for name in ("NUM-2", "NUM-3"):
            timed = self.data(name).get("networks", [])
            self.assertEqual(len(timed), len(data["networks"]) if timed or name == "NUM-3" else 0)
            for one in timed:
                self.assertAlmostEqual(one["speed_up"], one["eager_us"] / one["plan_us"], delta=1e-4 * one["speed_up"])
                self.assertGreaterEqual(one["plan_median_us"], one["plan_us"])
            for mean in self.data(name).get("suites", []):
                ups = [n["speed_up"] for n in timed if mean["suite"] in ("all", n["suite"])]
                self.assertEqual(mean["networks"], len(ups))
                self.assertAlmostEqual(mean["geomean"], geomean(ups), delta=1e-4 * mean["geomean"])
                self.assertAlmostEqual(mean["geomean_clipped"], geomean([max(up, 1) for up in ups]), delta=1e-4 * mean["geomean_clipped"])

    def test_peers(self):
        """What this Python has runs each network, and gives the same answers; what it has not is said to be missing."""
        here = {name for name in PEERS["enum"] if importlib.util.find_spec(name) and (name != "torch" or importlib.util.find_spec("onnx"))}
        self.assertIn("onnxruntime", here) # tests/requirements.txt has it
        for name in ("NUM-1", "NUM-2", "NUM-3"):
            data = self.data(name)
            if not data:
                continue
            self.assertEqual({peer["peer"] for peer in data["peers"]}, here)
            self.assertEqual({one["what"] for one in self.rows[name]["not_measured"]}, set(PEERS["enum"]) - here)
            for peer in data["peers"]:
                self.assertEqual(peer["networks"], len(data["networks"]))
                if name == "NUM-1":
                    self.assertEqual(peer["agree"], peer["networks"])
                    continue
                ratios = [n["peers_us"][peer["peer"]] / n["plan_us"] for n in data["networks"]]
                self.assertAlmostEqual(peer["geomean"], geomean(ratios), delta=1e-4 * peer["geomean"])

    def test_kernels(self): # NUM-4 NUM-5 IND-45 IND-46
        """Suites add up to all, shares are of their counts, and every kernel is counted under its name; so are reasons."""
        data = self.data("NUM-4")
        *suites, total = data["inference"]
        self.assertEqual(total["suite"], "all")
        for key in ("kernels", "vectorised", "library"):
            self.assertEqual(total[key], sum(suite[key] for suite in suites))
        for one in (*data["inference"], data["training"]):
            self.assertAlmostEqual(one["share"], one["vectorised"] / one["kernels"], delta=1e-5)
        self.assertEqual(sum(kernel["times"] for kernel in data["kernels"]), total["kernels"] + total["library"])
        scalar = sum(k["times"] for k in data["kernels"] if k["kernel"].startswith("ref") or k["kernel"].endswith("@DEFAULT"))
        self.assertEqual(total["kernels"] - total["vectorised"], scalar - sum(
            k["times"] for k in data["kernels"] if k["kernel"] == "onednn@DEFAULT"))
        for reason in self.data("NUM-5")["reasons"]:
            of_suites = sum(reason[suite["suite"]] for suite in suites)
            self.assertEqual(of_suites, 0 if reason["of"] == "backward" else reason["times"], reason)

    def test_scalar(self): # NUM-4 NUM-5 IND-45 IND-46 IND-49
        """At the level DEFAULT no kernel is vectorised, and in each suite it is said why nothing was generated."""
        with tempfile.TemporaryDirectory() as folder:
            done = run("report", folder, "--quick", "--rows", "4,5", timeout=500, env={"TENSORD_CPU_CAPABILITY": "default"})
            self.assertEqual(done.returncode, 0, done)
            rows = {row["row"]: row["data"] for row in json.loads(pathlib.Path(done.stdout.split()[-1]).read_text())["rows"]}
        *suites, total = rows["NUM-4"]["inference"]
        self.assertGreater(total["kernels"], 20)
        self.assertEqual([(one["vectorised"], one["share"]) for one in (*suites, total)], [(0, 0)] * (len(suites) + 1))
        training = rows["NUM-4"]["training"] # of backward operators; a library's alone are in vectors
        self.assertLess(training["vectorised"], training["kernels"])
        why = next(r for r in rows["NUM-5"]["reasons"] if (r["of"], r["reason"]) == ("generated", "its level is below AVX2"))
        self.assertEqual(sum(why[suite["suite"]] for suite in suites), why["times"])
        for suite in suites:
            self.assertGreater(why[suite["suite"]], 0, suite)

    def test_choices(self): # NUM-8
        """Cells by type and by size are the same cells."""
        data = self.data("NUM-8")
        self.assertGreater(data["cells"], 0)
        for split in ("by_type", "by_size"):
            self.assertEqual(sum(one["cells"] for one in data[split]), data["cells"])
            for one in data[split]:
                self.assertTrue(one["within"] <= one["within_tuned"] <= one["cells"], one)
                self.assertAlmostEqual(one["share"], one["within"] / one["cells"], delta=1e-5)
        within = {split: sum(one["within"] for one in data[split]) for split in ("by_type", "by_size")}
        self.assertEqual(within["by_type"], within["by_size"])
        self.assertLessEqual(data["within_strictly"], sum(one["within"] for one in data["by_type"]))
        self.assertGreater(data["within_strictly"], 0)
        self.assertEqual(data["worst"]["ratio"] == 1, within["by_type"] == data["cells"])

    def test_rates(self): # NUM-9 NUM-11
        """Percentiles are in order, and a rate and the times of one connection say the same."""
        settings = [one for work in self.data("NUM-9")["works"] for one in work["settings"]]
        points = self.data("NUM-11")["points"]
        self.assertEqual({p["body"] for p in points}, {"none", "tiny", "medium"})
        for one in settings + points:
            self.assertTrue(one["least_us"] <= one["p50_us"] <= one["p99_us"], one)
            self.assertTrue(one["rate_least"] <= one["rate"] <= one["rate_most"], one)
            at_once = one.get("connections") or one["tasks_at_once"]
            self.assertLessEqual(one["rate_least"] * one["least_us"], 1.05e6 * at_once, one) # no more than fits
        shapes = {"one thread", "team", "two workers", "two streams"} if len(service.CPUS) > 1 else {"one thread"}
        self.assertEqual({(one["shape"], one["pinned"]) for one in settings}, {(shape, pinned) for shape in shapes for pinned in (True, False)})

    def test_dispatch(self): # NUM-10
        """Every item of bench --dispatch, its least below its median, and the same call over HTTP."""
        items = {item["name"]: item for item in self.data("NUM-10")["items"]}
        self.assertLessEqual({"kernel", "unboxed", "select", "bind", "bind_fallthrough", "bind_redispatch", "stack", "boxed",
                              "redispatch", "fallthrough", "boxed_over_unboxed", "select_cold"}, set(items))
        for item in items.values():
            self.assertLessEqual(item["ns_least"], item["ns_median"], item)
        self.assertEqual([name for name, item in items.items() if item["ns_median"] <= 0 and "bind" in name], [])
        self.assertEqual(len([figure for figure in self.rows["NUM-10"]["figures"] if "over HTTP" in figure["name"]]), 3)

    def test_machine(self): # NUM-6 NUM-7 NUM-12
        """What isa and cpu-features say of the machine."""
        said = json.loads(run("isa", "--json").stdout)
        levels = self.data("NUM-6")["levels"]
        self.assertEqual([level["level"] for level in levels if level["runs"]], [level["name"] for level in said["levels"] if level["runnable"]])
        self.assertEqual(len(levels), 8)
        missing = {one["what"] for one in self.rows["NUM-6"]["not_measured"]}
        self.assertEqual(missing, {level["level"] for level in levels if not level["runs"]})
        self.assertEqual(self.data("NUM-7"), {"xcr0": said["os"]["xcr0"], "features": said["features"]})
        self.assertEqual((self.data("NUM-12")["cpu"], self.data("NUM-12")["level"]), (said["cpu"]["model"], said["current"]))


    def test_page(self):
        """Well-formed, with nothing from elsewhere; a section a row, in which are all that it has not measured, and a picture
        with a title and a description where it has measured something."""
        tree = xml.etree.ElementTree.fromstring(self.page)
        for element in tree.iter():
            self.assertNotIn(element.tag.partition("}")[2], ("script", "link", "img", "iframe", "object"))
            self.assertFalse({"src", "href", "style", "onload"} & set(element.attrib), element.attrib)
        self.assertNotIn("url(", self.page)
        ids = [element.get("id") for element in tree.iter() if element.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        by_id = {element.get("id"): " ".join(element.itertext()).strip() for element in tree.iter() if element.get("id")}
        sections = {section.get("id"): section for section in tree.iter(HTML + "section")}
        self.assertEqual(list(sections), list(self.rows))
        for name, section in sections.items():
            with self.subTest(row=name):
                text, row = " ".join(" ".join(section.itertext()).split()), self.rows[name]
                for said in (row["title"], *(one["why"] for one in row["not_measured"]), *(one["name"] for one in row["figures"])):
                    self.assertIn(" ".join(said.split()), text)
                pictures = [svg for svg in section.iter(SVG + "svg") if svg.get("role") == "img"]
                self.assertGreaterEqual(len(pictures), bool(row["figures"]))
                for picture in pictures:
                    title, means = (by_id[label] for label in picture.get("aria-labelledby").split())
                    self.assertTrue(len(title) > 8 and len(means) > 20, (title, means))
                    self.assertGreater(len(list(picture.iter(SVG + "rect"))) + len(list(picture.iter(SVG + "circle"))), 1)

    def from_json(self, report, name="kept.json"):
        """The page of a file that was kept, and what making it said."""
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder, name)
            kept.write_text(json.dumps(report) if isinstance(report, dict) else report)
            done = run("report", folder, "--from", str(kept))
            made = kept.with_suffix(".html")
            self.assertEqual(sorted(os.listdir(folder)), sorted({kept.name, made.name} if made.exists() else {kept.name}))
            return done, made.read_text() if made.exists() else None

    def test_from(self):
        """A page is of its JSON alone; what is text there is text in it; and what is no report is refused."""
        done, page = self.from_json(json.dumps(self.report))
        self.assertEqual((done.returncode, done.stderr, page), (0, "", self.page))
        foul = "<script>x</script>&amp;'\"\u0007\u00e9"
        spoilt = json.loads(json.dumps(self.report), object_hook=lambda o: {
            key: value + foul if isinstance(value, str) and key not in ("row", "suite", "form", "version") else value for key, value in o.items()})
        done, page = self.from_json(spoilt)
        self.assertEqual(done.returncode, 0, done.stderr)
        tree = xml.etree.ElementTree.fromstring(page)
        self.assertEqual(list(tree.iter(HTML + "script")), [])
        self.assertIn("<script>x</script>&amp;'\" \u00e9", " ".join(tree.itertext()))
        for wrong in ("", "[]", "{}", '{"tensord_report":2}', '{"tensord_report":1', "no"):
            done, page = self.from_json(wrong)
            self.assertEqual((done.returncode, page, done.stderr.count("\n")), (2, None, 1), (wrong, done))
        for empty in ({"tensord_report": 1}, {"tensord_report": 1, "rows": 3},
                      {"tensord_report": 1, "rows": [{"row": row, "figures": [1], "data": {"suites": [1], "works": {}}} for row in DATA]}):
            done, page = self.from_json(empty) # nothing is counted on
            self.assertEqual(done.returncode, 0, done.stderr)
            xml.etree.ElementTree.fromstring(page)


class Wrong(unittest.TestCase):
    def wrong(self, *args, words, status=2, **how):
        """That status and one line that has the words."""
        done = run("report", *args, **how)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), done)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_options(self):
        self.wrong(words=["DIR is missing"])
        self.wrong("a", "b", words=["one directory", "'b'"])
        self.wrong("a", "--quik", words=["--quik", "did you mean '--quick'"])
        for rows in ("", "0", "13", "1,,2", "1,", "x", "1x"):
            self.wrong("a", "--rows", rows, words=["--rows", f"'{rows}'"])
        self.wrong("a", "--rows", words=["no value", "--rows"])
        with tempfile.TemporaryDirectory() as folder:
            self.wrong(folder, "--from", folder + "/none.json", words=["none.json", "No such file"])
            self.wrong(folder, "--models", folder + "/none", words=["--models", "directory", "none"])
            for wrong in ("", "{}", '{"models":3}'):
                pathlib.Path(folder, "inputs.json").write_text(wrong)
                self.wrong(folder, "--inputs", folder + "/inputs.json", words=["inputs.json"])

    def test_directories(self):
        """What cannot be written is told before anything is measured."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "file")
            file.write_text("")
            begin = time.monotonic()
            self.wrong(str(file), words=[str(file), "Not a directory", "nothing was written"], status=1)
            self.wrong(str(file / "in"), words=["Not a directory"], status=1)
            self.wrong(folder + "/no/such", words=["No such file"], status=1)
            self.wrong("/proc", words=["/proc"], status=1)
            self.wrong(folder + "/" + "x" * 4000, words=["File name too long"], status=1)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(os.listdir(folder), ["file"])

    def test_models(self): # NUM-1
        """Models of a directory stand beside our own, in the suite of their folder, or in that which their operators make;
        what they do not take, and answers that differ, are told."""
        with tempfile.TemporaryDirectory() as folder:
            chance = models.archives.Model()
            x = chance.user("x", sizes=[4, 4])
            chance.outputs = [chance.call("add.Tensor", "y", self=x, other=chance.call("rand_like.default", "r", self=x))]
            steps = [("LSTM", ["x", "w", "r"], ["y", "h", "c"], {"hidden_size": 2})]
            ids = [("Gather", ["table", "ids"], ["g"], {}), ("MatMul", ["g", "w"], ["y"], {})]
            files = {"vision/line.onnx": models.line(), "sequence/chance.pt2": chance.bytes(),
                     "steps.onnx": models.onnx_file(steps, [models.port("x", [3, "n", 2])], [models.port("y", [3, 1, "n", 2])],
                                                    {"w": np.ones((1, 8, 2), np.float32), "r": np.ones((1, 8, 2), np.float32)}),
                     "seen.onnx": models.onnx_file([("Conv", ["x", "w"], ["y"], {})], [models.port("x", ["n", "c", "h", "w"])],
                                                   [models.port("y", None)], {"w": np.ones((2, 3, 3, 3), np.float32)}),
                     "words.onnx": models.onnx_file(ids, [models.port("ids", ["n"], "INT64")], [models.port("y", ["n", 4])],
                                                    {"table": np.ones((9, 4), np.float32), "w": np.ones((4, 4), np.float32)}),
                     "broken.onnx": b"no model", "notes.txt": b""}
            for name, data in files.items():
                path = pathlib.Path(folder, "models", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            inputs = pathlib.Path(folder, "inputs.json")
            inputs.write_text(json.dumps({"models": [{"file": "words.onnx", "inputs": [{"name": "ids", "shape": [5], "rule": ["ids", 2, 7]}]}]}))
            done = run("report", folder, "--quick", "--rows", "1", "--models", folder + "/models", "--inputs", str(inputs), timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            row = json.loads(pathlib.Path(done.stdout.split()[1]).read_text())["rows"][0]
            found = {one["name"]: one for one in row["data"]["networks"] if one["source"] == "file"}
            self.assertEqual({name: one["suite"] for name, one in found.items() if name != "broken"},
                             {"line": "vision", "chance": "sequence", "steps": "sequence", "seen": "vision", "words": "transformer"})
            self.assertEqual({name: one["passed"] for name, one in found.items()}, {name: name not in ("chance", "broken") for name in found})
            self.assertGreater(found["chance"]["worst"], 1) # each run draws anew
            self.assertIn("times as far off", found["chance"]["why"])
            missing = {one["what"]: one["why"] for one in row["not_measured"]}
            self.assertIn("model", missing["broken"])

    def test_no_peers(self):
        """No Python, one that is none, and one that says something else: the report is made, and says why there are none."""
        with tempfile.TemporaryDirectory() as folder:
            for python, why in ((None, "no Python was named (--python PATH)"), (folder + "/none", "does not start"), ("/bin/false", "does not start"),
                                ("/bin/echo", "has none of them")):
                done = run("report", folder, "--quick", "--rows", "1", *(("--python", python) if python else ()), timeout=120)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                row = json.loads(pathlib.Path(done.stdout.split()[1]).read_text())["rows"][0]
                self.assertEqual(row["data"]["peers"], [])
                self.assertEqual([why in one["why"] for one in row["not_measured"]], [True], row["not_measured"])

    def test_no_room(self):
        """A file that cannot be written whole leaves none, and the one of before as it was."""
        with tempfile.TemporaryDirectory() as folder:
            args = [service.BINARY, "report", folder, "--quick", "--rows", "6"]
            first = subprocess.run(args, env=service.environment(), capture_output=True, text=True, timeout=60)
            self.assertEqual(first.returncode, 0, first)
            before = {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}
            done = subprocess.run(args, env=service.environment(), capture_output=True, text=True, timeout=60,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done)
            self.assertIn("File too large; nothing was written", done.stderr)
            self.assertEqual({name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}, before)

    def test_interrupted(self):
        """Ctrl-C: a word, the shell's status, and no file; nor does the server that it had stay."""
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen([service.BINARY, "report", folder, "--rows", "1"], env=service.environment(),
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
            end, server = time.monotonic() + 60, []
            while time.monotonic() < end and not server:
                server = children.read_text().split()
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out, errors.strip()), (130, "", "tensord: report: stopped; nothing was written"))
            self.assertEqual(os.listdir(folder), [])
            while time.monotonic() < end and os.path.exists(f"/proc/{server[0]}/exe"):
                time.sleep(0.01)
            self.assertFalse(os.path.exists(f"/proc/{server[0]}/exe"))


if __name__ == "__main__":
    service.main()
