#!/usr/bin/env python3
"""What the service says of the CPU: levels, features, vectors, and kernels that answer themselves."""
import itertools
import json
import re

import numpy as np

import models
import service
from service import Service, run

LEVELS = ["DEFAULT", "AVX2", "AVX2_VNNI", "AVX512", "AVX512_VNNI", "AVX512_BF16", "AMX", "AVX512_FP16"]
BYTES = {"DEFAULT": 16, "AVX2": 32, "AVX2_VNNI": 32} # of a vector; all others 64
TYPES = {"double": 8, "float": 4, "complex128": 16, "complex64": 8, "bfloat16": 2, "half": 2,
         "Double": 8, "Float": 4, "ComplexDouble": 16, "ComplexFloat": 8, "BFloat16": 2, "Half": 2, # ATen's ScalarType
         "FP64": 8, "FP32": 4, "BF16": 2, "FP16": 2, "float16": 2}

# As cpu_features prints them.
FEATURES = """mmx sse sse2 sse3 ssse3 sse4_1 sse4_2 aes_ni sha xsave fma f16c avx avx2 avx_vnni avx512_f avx512_cd avx512_pf avx512_er
    avx512_vl avx512_bw avx512_dq avx512_ifma avx512_vbmi avx512_vpopcntdq avx512_4fmaps avx512_4vnniw avx512_vbmi2 avx512_vpclmul
    avx512_vnni avx512_bitalg avx512_fp16 avx512_bf16 avx512_vp2intersect amx_bf16 amx_tile amx_int8 prefetchw prefetchwt1""".split()


def runnable(isa):
    return [level["name"] for level in isa["levels"] if level["runnable"]]


class Isa(service.ServiceTest):
    def test_levels(self): # ISA-1, ISA-2, ISA-29, ISA-35
        isa = self.service.call("GET", "/v1/isa").json
        self.assertEqual([level["name"] for level in isa["levels"]], LEVELS)
        for level in isa["levels"]:
            self.assertEqual(level["cpu"], not level["missing"], level)
            self.assertEqual(level["runnable"], level["cpu"] and level["binary"], level)
            self.assertEqual(level["in_use"], level["runnable"]) # nothing is capped
        best = max(LEVELS.index(name) for name in runnable(isa))
        self.assertEqual(isa["current"], LEVELS[best])
        for which, key in (("cpu", "highest_cpu"), ("binary", "highest_binary")):
            self.assertEqual(isa[key], [level["name"] for level in isa["levels"] if level[which]][-1])
        self.assertTrue(isa["levels"][0]["runnable"]) # ISA-4: DEFAULT is plain x86-64 and runs anywhere
        capped = json.loads(run("isa", "--json", env={"TENSORD_CPU_CAPABILITY": "default"}).stdout)
        self.assertEqual(runnable(capped), runnable(isa)) # whatever the cap
        self.assertEqual([capped[key] for key in ("highest_cpu", "highest_binary")], [isa[key] for key in ("highest_cpu", "highest_binary")])
        self.assertEqual(capped["current"], "DEFAULT")
        self.assertEqual([level["name"] for level in capped["levels"] if level["in_use"]], ["DEFAULT"])
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            self.assertEqual(isa["cpu"]["vendor"], re.search(r"^vendor_id\s*: (.*)$", file.read(), re.M)[1])
        # A name; or, of a CPU newer than the list, the word that it was looked for by.
        self.assertRegex(isa["cpu"]["uarch"], r"^([A-Z][A-Za-z]+( [A-Z0-9][A-Za-z0-9-]*)*|CPUID 1: 0x[0-9a-f]{8})$")

    def test_features(self): # ISA-15, ISA-16, ISA-8
        said = self.service.call("GET", "/v1/isa/features").json
        text = run("cpu-features").stdout
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^XCR0: [0-9a-f]{16}$")
        self.assertEqual(int(lines[0].split()[1], 16), int(said["os"]["xcr0"], 16))
        for line, name in zip(lines[1:5], ("avx", "avx2", "avx512", "amx")):
            self.assertEqual(line.strip(), f"os --> {name}: {'true' if said['os'][name] else 'false'}")
        features = [line.split(":\t\t\t") for line in lines[5:]]
        self.assertEqual([name for name, _ in features], FEATURES)
        self.assertEqual(list(said["features"])[:39], FEATURES)
        for name, value in features:
            self.assertEqual(said["features"][name], value == "true", name)
        self.assertLess({"amx_fp16", "mcdt_no"}, set(said["features"])) # ISA-13
        plain = self.service.call("GET", "/v1/isa/features", headers={"Accept": "text/plain"})
        self.assertEqual((plain.headers["Content-Type"], plain.body.decode()), ("text/plain; charset=utf-8", text))
        for accept in ("*/*", "application/json", "application/json, text/plain"):
            reply = self.service.call("GET", "/v1/isa/features", headers={"Accept": accept})
            self.assertEqual(reply.json, said)

    def test_vector_lengths(self): # ISA-33
        for level in runnable(self.service.call("GET", "/v1/isa").json):
            with Service(env={"TENSORD_CPU_CAPABILITY": level.lower()}) as s:
                for dtype, size in TYPES.items():
                    self.assertEqual(s.call("GET", "/v1/isa/veclen?dtype=" + dtype).json, {
                        "dtype": dtype, "isa": level, "bytes": size, "lanes": BYTES.get(level, 64) // size})
        for dtype in ("INT32", "int", "BOOL", "x", ""):
            self.problem(self.service.call("GET", "/v1/isa/veclen?dtype=" + dtype), 400,
                         "only floating and complex ScalarType are supported")
        self.problem(self.service.call("GET", "/v1/isa/veclen"), 400, "dtype")

    def test_cap_of_aten(self): # ISA-30
        """PyTorch's variable is a cap too, where ours says nothing; what is no level there is warned of."""
        def isa(**env):
            done = run("isa", "--json", env=env)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout), done.stderr
        free, said = isa()
        self.assertEqual((said, "override" in free), ("", False))
        for level in LEVELS:
            capped, said = isa(ATEN_CPU_CAPABILITY=level.lower())
            self.assertLessEqual(LEVELS.index(capped["current"]), LEVELS.index(level))
            self.assertEqual(capped["current"], [name for name in runnable(free) if LEVELS.index(name) <= LEVELS.index(level)][-1])
            self.assertEqual((capped["requested"], capped["override"]["source"]), (level.lower(), "ATEN_CPU_CAPABILITY"))
            self.assertEqual((said, capped["onednn"]["synced"]), ("", True))
        for wrong in ("AVX2", "foo"):
            kept, said = isa(ATEN_CPU_CAPABILITY=wrong)
            self.assertEqual(kept, free)
            self.assertRegex(said, f"ATEN_CPU_CAPABILITY: ignoring invalid value '{wrong}'.*avx512_fp16")
        both, _ = isa(ATEN_CPU_CAPABILITY="avx2", TENSORD_CPU_CAPABILITY="default")
        self.assertEqual((both["requested"], both["override"]["source"]), ("default", "TENSORD_CPU_CAPABILITY"))
        with Service("--cpu-capability", "default", env={"ATEN_CPU_CAPABILITY": "avx2"}) as s:
            self.assertEqual(s.call("GET", "/v1/isa").json["override"]["source"], "cpu_capability")

    def test_onednn_follows(self): # ISA-34, ISA-36, ISA-30
        if service.only_reference():
            self.skipTest("the build has references alone")
        for cap in ("default", "avx2"):
            done = run("isa", "--json", env={"TENSORD_CPU_CAPABILITY": cap})
            isa = json.loads(done.stdout)
            if cap.upper() in runnable(isa):
                self.assertEqual(isa["current"].lower(), cap)
            self.assertLessEqual(LEVELS.index(isa["onednn"]["level"]), LEVELS.index(cap.upper()))
            self.assertTrue(isa["onednn"]["synced"])
            self.assertEqual((isa["override"]["value"], isa["override"]["applied"]),
                             (cap, cap.upper() in runnable(isa)))
        free = json.loads(run("isa", "--json").stdout)
        apart = json.loads(run("isa", "--json", env={"TENSORD_CPU_CAPABILITY": "default",
                                                      "TENSORD_NOT_SYNC_ONEDNN_ISA": "1"}).stdout)
        self.assertEqual((apart["current"], apart["onednn"]["synced"]), ("DEFAULT", False))
        self.assertEqual(apart["onednn"]["isa"], free["onednn"]["isa"])
        self.assertNotIn("override", free)
        top = json.loads(run("isa", "--json", env={"TENSORD_CPU_CAPABILITY": "avx512_fp16"}).stdout)
        self.assertEqual(top["override"]["applied"], "AVX512_FP16" in runnable(top))
        self.assertEqual("missing" in top["override"]["reason"], not top["override"]["applied"])
        theirs = json.loads(run("isa", "--json", env={"ONEDNN_MAX_CPU_ISA": "SSE41"}).stdout)
        self.assertEqual(theirs["current"], free["current"])
        self.assertEqual(theirs["onednn"]["synced"], free["current"] == "DEFAULT") # it differs now, whoever said so
        self.assertEqual(free["onednn"]["synced"], free["onednn"]["level"] == free["current"])

    def test_resolved_levels(self): # ISA-24
        """Each kernel's level, and the one that a call forced to it would be resolved to here."""
        isa = self.service.call("GET", "/v1/isa").json
        here = runnable(isa)
        for op in self.service.call("GET", "/v1/ops").json["ops"]:
            levels = {k["isa"] for k in op["kernels"] if k["runnable"]}
            self.assertTrue(levels, op["name"]) # there always is one: the reference
            self.assertLessEqual(levels, set(here))
            self.assertEqual(op["kernels"][-1]["name"], "ref")
            self.assertEqual(op["kernels"][-1]["isa"], "DEFAULT")
        x = np.linspace(-2, 2, 100, dtype=np.float32)
        for level in here: # a level without a kernel of its own falls back to the next below
            with Service(env={"TENSORD_CPU_CAPABILITY": level.lower()}) as s:
                for op in ("tanh", "argwhere"): # of which one has vector kernels at DEFAULT alone
                    ran = s.infer(op, {"self": x}).parameters
                    kernels = s.call("GET", f"/v1/ops/{op}").json["overloads"][0]["kernels"]
                    offered = {k["isa"] for k in kernels if k["name"] == ran["kernel"]}
                    self.assertEqual(ran["kernel"], kernels[0]["name"])
                    self.assertEqual(ran["isa"], max((l for l in offered if LEVELS.index(l) <= LEVELS.index(level) and l in here),
                                                     key=LEVELS.index))

    def test_kernels(self): # ISA-24, ISA-25, ISA-26
        """Every row of every operator: the level it is registered for, and where it would run."""
        def kernels(s):
            return {op["op"]: op for op in s.call("GET", "/v1/kernels").json["kernels"]}
        isa = self.service.call("GET", "/v1/isa").json
        in_use = runnable(isa)
        names = [op["name"] for op in self.service.call("GET", "/v1/ops").json["ops"]]
        listed = kernels(self.service)
        self.assertEqual(list(listed), names)
        for op in listed.values():
            self.assertEqual(op["requested_level"], isa["current"])
            usable = [row for row in op["implementations"] if row["resolved"]]
            self.assertEqual(op["resolved_level"], usable[0]["resolved"])
            self.assertEqual((usable[-1]["name"], usable[-1]["level"]), ("ref", "DEFAULT"))
            for row in op["implementations"]:
                self.assertEqual(row["resolved"] is not None, row["level"] in in_use and not row["absent"], (op["op"], row))
                if row["name"] != "onednn": # a library's row is asked for at any level, and runs at the library's
                    self.assertIn(row["resolved"], (None, row["level"]))
                elif row["resolved"]:
                    self.assertEqual((row["level"], row["resolved"]), ("DEFAULT", isa["onednn"]["level"]))
                self.assertEqual((row["dtypes"], row["layouts"]) == ([], []), row["absent"])
        # cast is absent at AVX512_FP16 on purpose: what stands below serves, whatever is asked for.
        rows = listed["cast"]["implementations"]
        self.assertEqual([row["level"] for row in rows if row["absent"]],
                         ["AVX512_FP16"] if isa["levels"][-1]["binary"] else [])
        x = {"self": np.linspace(-2, 2, 100, dtype=np.float32)}
        for level in in_use:
            with Service(env={"TENSORD_CPU_CAPABILITY": level.lower()}) as s:
                self.assertEqual(kernels(s)["cast"]["requested_level"], level)
                best = next(row for row in kernels(s)["cast"]["implementations"] if row["resolved"])
                ran = s.infer("cast", x, {"dtype": "BF16", "explain": True}).parameters
                self.assertEqual((ran["kernel"], ran["isa"]), (best["name"], best["level"]))
                if level == "AVX512_FP16":
                    self.assertEqual(ran["isa"], "AVX512_BF16") # ISA-31: by the hardware's instruction
                    self.assertEqual(ran["explain"]["candidates"][0], {
                        "kernel": "simd", "isa": level, "verdict": "registered as absent at this level"})
                    self.problem(s.infer("cast", x, {"dtype": "BF16", "kernel": "simd@AVX512_FP16"}), 400, "absent")

    def test_few_channels(self): # JIT-6
        """A convolution whose channels fill half a vector of AVX512 at most is AVX2's, which explain gives the reason of."""
        self.needs_kernels()
        image = np.random.default_rng(service.seed()).standard_normal((1, 4, 26, 3)).astype(np.float32)
        levels = runnable(self.service.call("GET", "/v1/isa").json)
        for channels, best in ((3, "AVX512"), (4, "AVX2"), (8, "AVX2"), (9, "AVX512")):
            inputs = {"input": image, "weight": np.resize(image, (channels, 3, 3, 3))}
            ran = self.service.infer("conv2d_channels_last", inputs, {"kernel": "simd", "explain": True})
            candidates = ran.parameters["explain"]["candidates"]
            said = {c["isa"]: c["verdict"] for c in reversed(candidates) if c["kernel"] == "simd"} # the first one of a level
            np.testing.assert_allclose(ran.out, self.service.infer("conv2d_channels_last", inputs, {"kernel": "ref"}).out, rtol=1e-5, atol=1e-5)
            if {"AVX2", "AVX512"} <= set(levels):
                self.assertEqual(ran.parameters["isa"], best, channels)
                self.assertEqual("in half its vectors" in said["AVX512"], best == "AVX2", said)
        for channels, groups in (8, 1), (12, 1), (3, 3): # limits of the sums: a number, and NaN where they are
            image[0, 0, 0, 0] = np.nan
            inputs = {"input": image, "weight": np.resize(image[:, 1:], (channels, 3 // groups, 3, 3)), "others.0": np.float32([-0.5]), "others.1": np.float32([0.75])}
            simd, ref = (self.service.infer("conv2d_channels_last", inputs, {"kernel": kernel, "activation": "fmax,fmin", "groups": groups, "padding": 1}).out
                         for kernel in ("simd", "ref"))
            np.testing.assert_allclose(simd, ref, rtol=1e-5, atol=1e-5)
            self.assertEqual((simd.min(), simd.max()), (-0.5, 0.75))
        image[0, 0, 0, 0] = 1
        for channels, spots in itertools.product((1, 5, 40), ((0, 0), (0, 2), (1, 0), (2, 1))): # padding counts where a weight is not finite
            weight = np.resize(image, (channels, 3, 3, 3))
            weight[:, 1, spots[0], spots[1]] = np.inf
            for image_channels in image, np.concatenate([image] * 6, -1):
                inputs = {"input": image_channels, "weight": np.concatenate([weight] * (image_channels.shape[-1] // 3), 1)}
                simd, ref = (self.service.infer("conv2d_channels_last", inputs, {"kernel": kernel, "padding": 1}).out for kernel in ("simd", "ref"))
                np.testing.assert_array_equal(np.isnan(simd), np.isnan(ref))
                self.assertTrue(np.isnan(ref).any())
        for channels in 1, 4: # whose kernel reaches far beyond the input
            inputs = {"input": np.ones((1, 200, 200, 1), np.float32), "weight": np.ones((channels, 1, 265, 3), np.float32)}
            ran = self.service.infer("conv2d_channels_last", inputs, {"padding": [132, 1], "explain": True})
            said = {c["kernel"]: c["verdict"] for c in ran.parameters["explain"]["candidates"]}
            self.assertIn("much wider than its input", said["simd"])
            self.assertNotEqual(ran.parameters["kernel"], "ref", said)

    def test_what_computed(self):
        """The level whose instructions ran, and the type: no FP32 call claims what only other types use."""
        plain = ("DEFAULT", "AVX2", "AVX512")
        a, w, image = (np.ones(shape, np.float32) for shape in ((16, 32), (32, 32), (1, 3, 8, 8)))
        calls = {"matmul": {"self": a, "other": w}, "linear": {"input": a, "weight": w},
                 "conv2d": {"input": image, "weight": np.ones((4, 3, 3, 3), np.float32)}, "relu": {"self": a}}
        for op, inputs in calls.items():
            for kernel in ("onednn", "simd", "ref"):
                reply = self.service.infer(op, inputs, {"kernel": kernel, "explain": True})
                if reply.status != 200:
                    self.assertIn(f"no '{kernel}'", reply.json["detail"])
                    continue
                facts = reply.parameters
                self.assertEqual((facts["kernel"], facts["compute_type"]), (kernel, "FP32"))
                self.assertIn(facts["isa"], plain)
                ran = [c["isa"] for c in facts["explain"]["candidates"] if c["verdict"] == "chosen"]
                self.assertEqual(ran, [facts["isa"]])
        reply = self.service.infer("linear", calls["linear"], {"autocast": "BF16"})
        self.assertEqual((reply.parameters["compute_type"], service.datatype(reply.out)), ("BF16", "BF16"))
        self.needs_kernels()
        for where in (self.service.call("GET", "/v1/ops/linear").json["overloads"][0]["kernels"],
                      next(o["implementations"] for o in self.service.call("GET", "/v1/kernels").json["kernels"] if o["op"] == "linear")):
            levels = next(row["levels"] for row in where if row["name"] == "onednn")
            self.assertEqual(list(levels), ["FP16", "BF16", "FP32"])
            self.assertIn(levels["FP32"], plain)

    def test_what_computed_the_parts(self):
        """The highest level of the parts that ran, and their type if it is one."""
        def run_eval(expr, **how):
            facts = self.service.call("POST", "/v1/eval", {"expr": expr, "a": [[1.5, 2], [3, 4]], "explain": True, **how}).json["parameters"]
            parts = facts["explain"]["parts"]
            chosen = [next(c for c in part["candidates"] if c["verdict"].startswith("chosen")) for part in parts]
            self.assertEqual(facts["isa"], max((c["isa"] for c in chosen), key=LEVELS.index))
            self.assertEqual(facts.get("compute_type"), parts[0]["compute_type"] if len({p["compute_type"] for p in parts}) == 1 else None)
            return facts
        self.assertEqual(run_eval("cumsum(matmul(a, a), 0)")["compute_type"], "FP32")
        self.assertEqual(run_eval("cumsum(matmul(a, a), 0)", kernel="ref")["isa"], "DEFAULT")
        self.assertNotIn("compute_type", run_eval("cumsum(argmax(matmul(a, a), 0), 0)"))
        for name, model in (("same", models.identity()), ("line", models.line())):
            self.assertEqual(self.service.call("PUT", f"/v1/models/{name}", model).status, 201)
        none = self.service.infer("same", {"x": np.ones(3, np.float32)}, path="/v2/models/{}/infer").parameters
        self.assertEqual((none["isa"], none.get("compute_type")), ("DEFAULT", None)) # a view: nothing ran
        for eager in (False, False, True):
            facts = self.service.infer("line", {"x": np.ones((64, 3), np.float32)}, {"eager": eager}, path="/v2/models/{}/infer").parameters
            self.assertEqual(facts["compute_type"], "FP32")
        steps = self.service.call("GET", "/v1/models/line/plan").json["plans"][0]["steps"]
        self.assertEqual({step["compute_type"] for step in steps}, {"FP32"})
        self.assertEqual(facts["isa"], max((step["isa"] for step in steps), key=LEVELS.index))

    def test_people_can_read_it(self):
        text = run("isa").stdout
        for name in LEVELS:
            self.assertRegex(text, rf"(?m)^\s*{name}\s")
        for level in json.loads(run("isa", "--json").stdout)["levels"]:
            for word in level["missing"]:
                self.assertIn(word, text)


if __name__ == "__main__":
    service.main()
