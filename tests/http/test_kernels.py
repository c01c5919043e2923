#!/usr/bin/env python3
"""Kernels that are looked at: candidates, what is kept of choices between them, generated code, and what is kept on disk."""
import contextlib
import json
import pathlib
import re
import subprocess
import tempfile

import numpy as np

import models
import service

MM = {"inputs": [{"name": "self", "shape": [24, 40], "datatype": "FP32"}, {"name": "mat2", "shape": [40, 72], "datatype": "FP32"}]}
X = {"a": np.linspace(-2, 2, 8192, dtype=np.float32).reshape(64, 128), "b": np.float32(3) * np.ones((64, 128), np.float32)}
ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN = {"Accept": "text/plain"}


def overload(s, op):
    return s.call("GET", f"/v1/kernels/{op}").json["overloads"][0]


def choices(s, op="mm"):
    return overload(s, op)["choices"]


def evaluate(s, expr, **more):
    return s.infer("eval", X, path="/v1/eval", binary=True, expr=expr, **more)


class Kernels(service.ServiceTest):
    def generates(self):
        levels = {level["name"]: level["in_use"] for level in self.service.call("GET", "/v1/isa").json["levels"]}
        if not levels["AVX2"] or evaluate(self.service, "relu(a*b + 1.5)").parameters["kernel"] != "jit":
            self.skipTest("no loops are generated here: no AVX2, no Xbyak, or no kernels but the reference")

    def test_candidates(self): # JIT-4, JIT-5, JIT-6, JIT-11, JIT-12, JIT-41
        """As GET /v1/kernels has them, with the reason where one cannot run; each operator has one reference, the last row."""
        in_use = {level["name"] for level in self.service.call("GET", "/v1/isa").json["levels"] if level["in_use"]}
        kernels = self.service.call("GET", "/v1/kernels").json["kernels"]
        listed = re.findall(r"^TD_OP\((\w+)\)", (ROOT / "kernels/ops.def").read_text(), re.M)
        known = {kernel["op"].replace(".", "_").strip("_") for kernel in kernels}
        self.assertEqual({name.strip("_") for name in listed} - known, set()) # the one list
        for listed in kernels:
            rows = listed["implementations"]
            told = overload(self.service, listed["op"])
            self.assertEqual([(c["kernel"], c["level"], c["dtypes"]) for c in told["candidates"]],
                             [(row["name"], row["level"], row["dtypes"]) for row in rows])
            for candidate, row in zip(told["candidates"], rows):
                self.assertEqual(candidate["runnable"], row["level"] in in_use and not row["absent"], candidate)
                self.assertEqual(candidate["runnable"], candidate["why"] is None)
                self.assertEqual("missing" in candidate, candidate["why"] == "this CPU lacks its level")
            counts = told["registered"]
            self.assertEqual((counts["ref"], rows[-1]["name"]), (1, "ref"), listed["op"])
            self.assertEqual(sum(counts.values()), len(rows))
            self.assertEqual(counts.get("absent", 0), sum(row["absent"] for row in rows))
            for best in told["best"]:
                takes = [c for c in told["candidates"] if c["runnable"] and (best["datatype"] in c["dtypes"] or c["kernel"] == "ref")]
                self.assertEqual(best["kernel"], takes[0]["kernel"], (listed["op"], best))

    def test_errors(self): # JIT-13
        """Wrong names and attributes are sentences that say what would be right."""
        for path in ("", "/code"):
            self.problem(self.service.call("GET", f"/v1/kernels/softmx{path}"), 404, "did you mean 'softmax'?")
        self.problem(self.service.call("GET", "/v1/kernels/relu/code?loop=many"), 400, "loop", "from 0 to 511")
        self.problem(self.service.call("GET", "/v1/kernels/softmax/code"), 404, "pointwise")
        x = {"self": np.ones((2, 3), np.float32)}
        for op, inputs, parameters, words in (
                ("relu", x, {"kernel": "jitcode"}, ("no 'jitcode'", "ref")),
                ("gelu", x, {"approximate": "tan"}, ("approximate", "'none' or 'tanh'")),
                ("layer_norm", {"input": x["self"]}, {"normalized_shape": [0]}, ("normalized_shape",)),
                ("linear_pointwise", {"X": x["self"], "W": np.ones((4, 3), np.float32)}, {"attr": "swoosh"}, ("swoosh",)),
                ("cast", x, {"dtype": "FP31"}, ("dtype",))):
            self.problem(self.service.infer(op, inputs, parameters), 400, *words)
        if service.only_reference():
            return # nothing to choose
        for body, words in (({"inputs": MM["inputs"][:1]}, ("mat2",)), ({"inputs": [MM["inputs"][0], {**MM["inputs"][1], "shape": [-1, 72]}]}, ("shape",)),
                            ({**MM, "parameters": {"device": "meta"}}, ("Meta",)),
                            ({"inputs": [{**t, "shape": [t["shape"][0], 0] if t["name"] == "mat2" else t["shape"]} for t in MM["inputs"]]}, ("no elements",)),
                            ({"inputs": [{**t, "shape": [3000, 3000]} for t in MM["inputs"]]}, ("too large",))):
            self.problem(self.service.call("POST", "/v1/kernels/mm/tune", body), 400, *words)
        self.problem(self.service.call("POST", "/v1/kernels/gather/tune", {"self": [[1.5, 2]], "index": [[0]], "dim": 1}), 400, "values")

    def test_hits_and_misses(self): # JIT-7, JIT-14
        """Of what is kept: a kind of calls is measured once, and found then; another is another."""
        # On one thread: a slow build takes more of them for the second call than for the first, which is another kind.
        self.assertEqual(self.service.call("PUT", "/v1/pools/one", {"cpus": service.CPUS[0]}).status, 201)
        calls = lambda n: [self.service.op("bmm", {"self": np.ones((2, n, 33), np.float32), "mat2": np.ones((2, 33, 5), np.float32)}, {"pool": "one"}) for _ in range(3)]
        before = choices(self.service, "bmm")
        calls(50)
        first = choices(self.service, "bmm")
        if first["misses"] == before["misses"]:
            self.skipTest("no kernels compete for this product here")
        self.assertEqual((first["kept"] - before["kept"], first["misses"] - before["misses"]), (1, 1))
        self.assertGreaterEqual(first["hits"] - before["hits"], 2)
        calls(50)
        self.assertEqual(choices(self.service, "bmm")["misses"], first["misses"])
        calls(100)
        self.assertEqual(choices(self.service, "bmm")["misses"], first["misses"] + 1)
        kind = next(k for k in first["kinds"] if "[2,50,33]" in k["call"])
        self.assertRegex(kind["call"], r"^bmm\(FP32\[2,50,33\], FP32\[2,33,5\]\) on \d+ threads?$")
        fastest = min(tried["us"] for tried in kind["measured"])
        mine = next(tried for tried in kind["measured"] if (tried["kernel"], tried["level"]) == (kind["kernel"], kind["level"]))
        self.assertLessEqual(mine["us"], fastest * 1.04)
        self.assertFalse(kind["asked"])

    def test_code(self): # IND-18, JIT-3, JIT-7, JIT-15
        """Bytes that a disassembler reads as the listing does, whose steps are the expression's; kept, and found again."""
        self.generates()
        loops = overload(self.service, "relu")["loops"]
        loop = next(l for l in loops["loops"] if l["formulas"] == ["mul", "plus", "relu"])
        levels = {level["name"]: level["in_use"] for level in self.service.call("GET", "/v1/isa").json["levels"]}
        self.assertEqual(loop["isa"], "AVX512" if levels["AVX512"] else "AVX2") # IND-16: the widest, up to the cap
        with service.Service("--cpu-capability", "avx2") as capped:
            evaluate(capped, "relu(a*b + 1.5)")
            self.assertEqual([l["isa"] for l in overload(capped, "relu")["loops"]["loops"]], ["AVX2"])
        evaluate(self.service, "relu(b*a + 2.5)")
        again = next(l for l in overload(self.service, "relu")["loops"]["loops"] if l["loop"] == loop["loop"])
        self.assertEqual(again["hits"], loop["hits"] + 1)
        path = f"/v1/kernels/relu/code?loop={loop['loop']}"
        code, text = self.service.call("GET", path).body, self.service.call("GET", path, headers=PLAIN).body.decode()
        self.assertEqual(len(code), loop["bytes"])
        self.assertEqual(self.service.call("GET", "/v1/kernels/add.Tensor/code").body, code) # by another of its formulas
        self.problem(self.service.call("GET", f"/v1/kernels/exp/code?loop={loop['loop']}"), 404, "exp")
        steps = [line[2:] for line in text.splitlines() if re.match(r"; ([yz]mm\d+|s\d) = ", line)]
        main = [step.split(" = ")[1].split()[0] for step in steps]
        self.assertEqual(set(main), {"load", "mul", "add", "set", "max", "store"})
        if not loops["disassembled"]:
            self.assertIn("objdump", text)
            return
        shown = re.findall(r"^([0-9a-f]{4})  (?!\.long)(.*)$", text, re.M)
        self.assertEqual(shown[0], ("0000", "push rbx"))
        self.assertIn("ret", [instruction for _, instruction in shown])
        self.assertEqual(sum(" vmulps " in f" {i} " for _, i in shown), main.count("mul"))
        with tempfile.NamedTemporaryFile(suffix=".bin") as file:
            file.write(code)
            file.flush()
            try:
                listing = subprocess.run(["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel", file.name],
                                         capture_output=True, text=True, check=True).stdout
            except FileNotFoundError:
                self.skipTest("no objdump to compare with")
        other = dict(re.findall(r"^ +([0-9a-f]+):\t[0-9a-f ]+\t(\w+)", listing, re.M))
        alike = {"jnle": "jg", "jnz": "jne", "jz": "je", "xchg": "nop"} # two names of one instruction
        for at, instruction in shown:
            one, two = other[at.lstrip("0") or "0"], instruction.split()[0]
            self.assertEqual(alike.get(one, one), alike.get(two, two), instruction)

    def test_where_there_are_none(self): # IND-19, JIT-16
        """Of other types than FP32 there is no code, and it says so."""
        self.generates()
        x = {"a": X["a"].astype(np.float64)}
        told = self.service.infer("eval", x, path="/v1/eval", binary=True, expr="relu(a*2)*a", explain=True).parameters
        self.assertEqual((told["kernel"], told["explain"]["not_generated"]), ("fused", "not all of it is FP32"))

    def test_the_walk_through(self): # JIT-45
        """docs/jit.md shows what the route answers, with gaps."""
        self.generates()
        shown = re.findall(r"```asm\n(.*?)```", (ROOT / "docs/jit.md").read_text(), re.S)[0].split("...\n")
        with service.Service("--cpu-capability", "avx2") as s:
            evaluate(s, "relu(a*b + 1.5)")
            if not overload(s, "relu")["loops"]["disassembled"]:
                self.skipTest("this build has no disassembler")
            text = s.call("GET", "/v1/kernels/relu/code", headers=PLAIN).body.decode()
        self.assertGreater(len(shown), 8)
        for part in shown:
            self.assertIn(part, text)
            text = text.partition(part)[2]
        formulas = (ROOT / "kernels/pointwise/pointwise.def").read_text()
        for line in re.findall(r"^TD_\w+\(.*$", (ROOT / "docs/jit.md").read_text(), re.M):
            self.assertIn(line, formulas)

    def test_dump(self): # JIT-15
        self.generates()
        with tempfile.TemporaryDirectory() as folder:
            with service.Service("--dump-jit", folder) as s:
                evaluate(s, "relu(a*b + 1.5)")
                evaluate(s, "-relu(a*b)")
                made = sorted(pathlib.Path(folder).iterdir())
                self.assertEqual([re.sub(r"avx(2|512)", "LEVEL", file.name) for file in made],
                                 ["000-mul+plus+relu-LEVEL.bin", "001-mul+relu+neg-LEVEL.bin"])
                for loop, file in enumerate(made):
                    self.assertEqual(file.read_bytes(), s.call("GET", f"/v1/kernels/relu/code?loop={loop}").body)
        reply = service.run("serve", "--listen", "127.0.0.1:0", "--dump-jit", "/nowhere/at/all")
        self.assertEqual(reply.returncode, 2)
        self.assertIn("dump-jit", reply.stderr)


def taken(s):
    """What a call's kernel is chosen by."""
    x = {"self": np.ones((24, 40), np.float32), "mat2": np.ones((40, 72), np.float32)}
    facts = s.infer("mm", x, {"explain": True}).parameters
    return facts["kernel"], facts["explain"]["candidates"]


class Tuning(service.ServiceTest):
    def setUp(self):
        if len(overload(self.service, "mm")["candidates"]) == 1:
            self.skipTest("no kernels but the reference are built")
        self.folder = self.enterContext(contextlib.closing(Folder()))
        self.file = self.folder.path / "choices.json"

    def serve(self):
        return service.Service("--choices", str(self.file))

    def test_by_request(self): # JIT-44
        """Measured on shapes alone, and taken by the next call; of operators without a library, too."""
        told = self.service.call("POST", "/v1/kernels/mm/tune", MM).json
        self.assertEqual((told["op"], told["asked"], told["stored"]), ("mm", True, False))
        if told["first"] != f"{told['kernel']}@{told['level']}":
            self.assertTrue(told["differs"]) # or two rows of one name
        self.assertGreater(len(told["measured"]), 1)
        kind = next(k for k in choices(self.service)["kinds"] if k["call"] == told["call"])
        self.assertEqual(kind["measured"], told["measured"])
        kernel, candidates = taken(self.service)
        self.assertEqual(kernel, told["kernel"])
        self.assertIn("chosen by measurement", [c["verdict"] for c in candidates])
        add = {"inputs": [{"name": name, "shape": [9, 700], "datatype": "FP32"} for name in ("self", "other")]}
        told = self.service.call("POST", "/v1/kernels/add/tune", add).json
        self.assertEqual([k["call"] for k in choices(self.service, "add.Tensor")["kinds"]], [told["call"]])
        x = np.ones((9, 700), np.float32)
        verdicts = [c["verdict"] for c in self.service.infer("add", {"self": x, "other": x}, {"explain": True}).parameters["explain"]["candidates"]]
        self.assertIn("chosen by measurement", verdicts)
        with service.Service("--tune", "off") as s:
            self.problem(s.call("POST", "/v1/kernels/mm/tune", MM), 400, "tune is off")

    def test_kept(self): # JIT-44
        """Read at the next start, and taken without measuring; what is measured by itself is written at the end."""
        with self.serve() as s:
            told = s.call("POST", "/v1/kernels/mm/tune", MM).json
            self.assertTrue(told["stored"])
            written = json.loads(self.file.read_text())
            s.op("mm", {"self": np.ones((300, 7), np.float32), "mat2": np.ones((7, 9), np.float32)})
            kept = choices(s)["kept"]
        self.assertEqual([kind["call"] for kind in written["machines"][0]["kinds"]], [told["call"]])
        self.assertEqual(len(json.loads(self.file.read_text())["machines"][0]["kinds"]), kept)
        self.assertEqual([path.name for path in self.folder.path.iterdir()], ["choices.json"])
        with self.serve() as s:
            self.assertEqual({k["call"]: k["measured"] for k in choices(s)["kinds"]}[told["call"]], told["measured"])
            before = choices(s)
            self.assertEqual(taken(s)[0], told["kernel"])
            after = choices(s)
        self.assertEqual((after["misses"], after["hits"] > before["hits"]), (before["misses"], True))
        self.assertIn(f"{kept} kinds of calls are known", s.log)

    def test_what_is_said_is_taken(self):
        """Another row of the file is what runs: it was no measurement of this process."""
        with self.serve() as s:
            told = s.call("POST", "/v1/kernels/mm/tune", MM).json
        said = json.loads(self.file.read_text())
        kind = said["machines"][0]["kinds"][0]
        other = next(tried for tried in kind["measured"] if tried["row"] != kind["row"])
        kind["row"] = other["row"]
        self.file.write_text(json.dumps(said))
        with self.serve() as s:
            now = next(k for k in choices(s)["kinds"] if k["call"] == told["call"])
            self.assertEqual((now["kernel"], now["level"]), (other["kernel"], other["level"]))
            _, candidates = taken(s)
            chosen = next(c for c in candidates if c["verdict"] == "chosen by measurement")
            self.assertEqual(chosen["kernel"], other["kernel"])

    def test_peaks_are_kept(self):
        """What a pool measured is known to the next process; of two measurements the higher rates count."""
        self.problem(self.service.call("POST", "/v1/pools/nosuch/measure"), 404)
        with self.serve() as s:
            self.assertIsNone(s.call("GET", "/v1/pools/default").json["peaks"])
            peaks = s.call("POST", "/v1/pools/default/measure").json["peaks"]
            self.assertEqual(s.call("GET", "/v1/pools/default").json["peaks"], peaks)
            for name in ("FP32_gflop_s", "FP64_gflop_s", "L1_gb_s", "memory_gb_s"):
                self.assertGreater(peaks[name], 0, name)
            levels = {level["name"] for level in s.call("GET", "/v1/isa").json["levels"] if level["cpu"] and level["binary"]}
            self.assertEqual(peaks["BF16_gflop_s"] is not None, bool(levels & {"AVX512_BF16", "AMX"}))
            again = s.call("POST", "/v1/pools/default/measure").json["peaks"]
            for name in peaks:
                self.assertGreaterEqual(again[name] or 0, peaks[name] or 0)
        with self.serve() as s:
            for name, rate in s.call("GET", "/v1/pools/default").json["peaks"].items():
                self.assertAlmostEqual(rate or 0, again[name] or 0, places=6)

    def test_bounds(self):
        """By peaks that are said: a product by its operations, a sum by where its bytes fit, what is small by neither."""
        with self.serve() as s:
            s.call("POST", "/v1/pools/default/measure")
            threads = s.call("GET", "/v1/pools/default").json["threads"]
        said = json.loads(self.file.read_text())
        rates = {"FP32": 1e9, "FP64": 5e8, "BF16": 2e9, "INT8": 4e9, "L1": 1e10, "L2": 1e10, "L3": 1e10, "memory": 1e9}
        said["machines"][0]["peaks"] = [{"threads": n, **rates} for n in {1, threads}]
        self.file.write_text(json.dumps(said))
        x = lambda n: np.ones((n, n), np.float32)
        with self.serve() as s:
            explain = lambda op, inputs: s.infer(op, inputs, {"explain": True}).parameters["explain"]
            mm = explain("mm", {"self": x(64), "mat2": x(64)})
            self.assertEqual((mm["flops"], mm["bytes"], mm["bound"]), (2 * 64 ** 3, 3 * 4 * 64 ** 2, "compute"))
            self.assertAlmostEqual(mm["bound_us"], 2 * 64 ** 3 / 1e3, places=2)
            again = max(explain("mm", {"self": x(64), "mat2": x(64)})["percent_of_bound"] for _ in range(9)) # one may wait for a CPU
            self.assertGreater(again, 0)
            add = explain("add", {"self": x(64), "other": x(64)})
            self.assertEqual((add["flops"], add["bytes"]), (64 ** 2, 3 * 4 * 64 ** 2))
            self.assertIn(add["bound"], ("L1", "L2", "L3", "memory")) # as large as the machine's are; 4.1 us of operations
            self.assertEqual(explain("add", {"self": x(2), "other": x(2)})["bound"], "overhead")
            body, headers = service.pack({"a": x(64), "b": x(64)}, {"explain": True}, expr="relu(a + b) * a")
            fused = s.call("POST", "/v1/eval", body, headers).json["parameters"]["explain"]
            self.assertEqual((fused["flops"], fused["bytes"]), (3 * 64 ** 2, 4 * 4 * 64 ** 2)) # a, b, a once more, the result
            table = explain("embedding", {"weight": x(64), "indices": np.array([3], np.int64)})
            self.assertEqual(table["bytes"], 2 * 4 * 64 + 8) # of the table no more than what is given
            s.call("PUT", "/v1/models/line", models.line())
            for _ in range(8):
                s.infer("line", {"x": np.ones((3, 3), np.float32)}, path="/v2/models/{}/infer")
            for plan in s.call("GET", "/v1/models/line/plan").json["plans"]:
                steps = [step for step in plan["steps"] if "flops" in step]
                self.assertEqual(sum(step["flops"] for step in steps), 2 * 3 * 3 * 4) # what follows is in the product's registers
                self.assertEqual({step["bound"] for step in steps}, {"overhead"})
        for wrong in ({"threads": 0, **rates}, {"threads": 1, **rates, "L2": -1}, {"threads": 1}, 7):
            said["machines"][0]["peaks"] = [wrong]
            self.file.write_text(json.dumps(said))
            with self.serve() as s:
                self.assertIsNone(s.call("GET", "/v1/pools/default").json["peaks"])
            self.assertIn("is ignored", s.log)
            self.assertIn("peaks: each has", s.log)

    def test_times_decide_fusion(self):
        """A product takes what follows it where the other kernel that it needs for that is hardly slower, and leaves it where it is much slower."""
        def run(s):
            s.call("PUT", "/v1/models/line", models.line())
            s.infer("line", {"x": np.ones((3, 3), np.float32)}, path="/v2/models/{}/infer")
            plan, = s.call("GET", "/v1/models/line/plan").json["plans"]
            return next(p for p in plan["passes"] if p["name"] == "post_ops")
        rows = overload(self.service, "dense")["candidates"]
        other = next((i for i, row in enumerate(rows) if row["runnable"] and row["kernel"] == "onednn"), None)
        if other is None:
            self.skipTest("dense has no kernel of a library here")
        with self.serve() as s:
            self.assertEqual(run(s)["done"], 2)
        said = json.loads(self.file.read_text())
        plain, fused = sorted(said["machines"][0]["kinds"], key=lambda kind: "relu" in kind["call"])
        plain["row"] = plain["measured"][0]["row"]
        for us, done in ((1, 2), (9, 0)):
            plain["measured"][0]["us"] = 0.5
            fused["row"], fused["measured"] = other, [{"row": other, "kernel": "onednn", "level": rows[other]["level"], "us": us}]
            self.file.write_text(json.dumps(said))
            with self.serve() as s:
                self.assertEqual(run(s)["done"], done, us)

    def test_another_machine(self): # JIT-44
        """Its part is ignored, with a warning, and stays."""
        with self.serve() as s:
            s.call("POST", "/v1/kernels/mm/tune", MM)
        for word, value in (("cpu", "Another CPU"), ("level", "NONE"), ("tensord", "0.0.1"), ("onednn", "2.0")):
            said = json.loads(self.file.read_text())
            del said["machines"][1:]
            said["machines"][0][word] = value
            self.file.write_text(json.dumps(said))
            with self.serve() as s:
                self.assertEqual(choices(s)["kept"], 0, word)
                s.call("POST", "/v1/kernels/mm/tune", MM)
            self.assertIn("nothing that fits", s.log)
            both = json.loads(self.file.read_text())["machines"]
            self.assertEqual(len(both), 2)
            self.assertEqual(both[0], said["machines"][0])
            self.file.write_text(json.dumps({"machines": both[1:]}))

    def test_wrong_files(self):
        """Ignored whole, with a warning, and left as they are."""
        with self.serve() as s:
            s.call("POST", "/v1/kernels/mm/tune", MM)
        right = json.loads(self.file.read_text())
        def changed(change):
            said = json.loads(json.dumps(right))
            change(said["machines"][0]["kinds"][0])
            return json.dumps(said).encode()
        row = lambda kind: kind["measured"][0]
        wrong = [b"", b"not JSON", b"[]", b"{}", b'{"machines":{}}', b'{"machines":[{}]}', b'{"machines":[[[[[[[[[[]]]]]]]]]]}', b"\xff\x00" * 100,
                 changed(lambda kind: kind.update(more=1)), changed(lambda kind: kind.pop("op")), changed(lambda kind: kind.update(signature="12")),
                 changed(lambda kind: kind.update(measured=[])), changed(lambda kind: kind.update(measured=7 * kind["measured"])),
                 changed(lambda kind: row(kind).update(us=-1)), changed(lambda kind: row(kind).update(us="fast")), changed(lambda kind: kind.update(row="0")),
                 b'{"machines":[' + b" " * (5 << 20) + b"]}"]
        for text in wrong:
            self.file.write_bytes(text)
            with self.serve() as s:
                self.assertEqual(choices(s)["kept"], 0)
                told = s.call("POST", "/v1/kernels/mm/tune", MM).json
                self.assertEqual(told["stored"], False, text[:60])
                self.assertIn("stays", told["warning"])
            self.assertIn("is ignored", s.log, text[:60])
            self.assertEqual(self.file.read_bytes(), text)
        for change in (lambda kind: kind.update(op="nosuch"), lambda kind: row(kind).update(row=99), lambda kind: row(kind).update(row=-1),
                       lambda kind: row(kind).update(row=1e300), lambda kind: row(kind).update(kernel="other"), lambda kind: kind.update(row=77)):
            self.file.write_bytes(changed(change)) # such a file, of other kernels
            with self.serve() as s:
                self.assertEqual(choices(s)["kept"], 0)
            self.assertIn("have other kernels here", s.log)

    def test_wrong_since_the_start(self):
        """It was right when it was read, and somebody has written something else there: that stays."""
        with self.serve() as s:
            self.assertTrue(s.call("POST", "/v1/kernels/mm/tune", MM).json["stored"])
            self.file.write_bytes(b"somebody's notes")
            for _ in range(2):
                told = s.call("POST", "/v1/kernels/mm/tune", MM).json
                self.assertEqual(told["stored"], False)
                self.assertIn("stays", told["warning"])
        self.assertEqual(self.file.read_bytes(), b"somebody's notes")

    def test_no_place_to_write(self):
        """The service goes on, and says so."""
        self.file = self.folder.path / "none" / "choices.json"
        with self.serve() as s:
            told = s.call("POST", "/v1/kernels/mm/tune", MM).json
            self.assertEqual(told["stored"], False)
            self.assertIn("cannot be written", told["warning"])
        self.assertIn("cannot be written", s.log)


class Folder:
    def __init__(self):
        self.made = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.made.name)

    def close(self):
        self.made.cleanup()


if __name__ == "__main__":
    service.main()
