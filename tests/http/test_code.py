#!/usr/bin/env python3
"""The code of compiled kernels, as GET /v1/kernels/{op}/code gives it; of generated loops it is test_kernels.py's."""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest.mock

import service

PLAIN = {"Accept": "text/plain"}


def loaded(file):
    """What the program's file has from one address to another (ELF's program headers, of 64 bits)."""
    begin, n = struct.unpack_from("<Q", file, 32)[0], struct.unpack_from("<H", file, 56)[0]
    parts = [struct.unpack_from("<IIQQQQ", file, begin + 56 * i) for i in range(n)]

    def bytes_of(at, end):
        offset, first = next((offset, first) for kind, _, offset, first, _, size in parts if kind == 1 and first <= at and end <= first + size)
        return file[at - first + offset:end - first + offset]
    return bytes_of


def candidates(s, op):
    return s.call("GET", f"/v1/kernels/{op}").json["overloads"][0]["candidates"]


class Code(service.ServiceTest):
    def compiled(self, op, query, status=200):
        """Bytes and listing."""
        path = f"/v1/kernels/{op}/code?{query}"
        code, text = self.service.call("GET", path), self.service.call("GET", path, headers=PLAIN)
        self.assertEqual((code.status, text.status), (status, status), (path, code.body[:500]))
        return code, text.body.decode()

    def best(self, op):
        return next(c["level"] for c in candidates(self.service, op) if c["kernel"] == "simd" and c["runnable"])

    def same_as_objdump(self, file, text, at, end):
        if not shutil.which("objdump"):
            return
        listing = subprocess.run(["objdump", "-d", "-M", "intel", f"--start-address={at}", f"--stop-address={end}", file],
                                 capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r"^([0-9a-f]+)  ", text, re.M), re.findall(r"^ +([0-9a-f]+):\t[0-9a-f ]+\t", listing, re.M))

    def test_compiled_code(self): # JIT-15
        """Bytes of a compiled kernel are those of the program's file, from where its symbol says; what it refers to can be had, too."""
        file = pathlib.Path(service.BINARY)
        bytes_of, disassembles = loaded(file.read_bytes()), self.service.call("GET", "/v1/kernels/relu").json["overloads"][0]["loops"]["disassembled"]
        levels = {c["level"] for c in candidates(self.service, "relu") if c["kernel"] == "simd"}
        for query, name, register in [("ref", "td_pointwise_ref", ""), *(
                (f"simd@{level}&datatype={datatype}", f"td_pointwise_{kind}_{level.lower()}", register)
                for level, register in (("AVX2", "ymm"), ("AVX512", "zmm")) if level in levels
                for datatype, kind in (("FP32", "f32"), ("FP64", "f64"), ("INT32", "int")))]:
            code, text = self.compiled("relu", f"kernel={query}")
            said, at, end = re.match(r"; (\w+): \d+ bytes .*\n; objdump .*--start-address=0x(\w+) --stop-address=0x(\w+) ", text).groups()
            at, end = int(at, 16), int(end, 16)
            self.assertEqual((said, len(code.body)), (name, end - at))
            self.assertEqual(code.body, bytes_of(at, end))
            if disassembles:
                self.same_as_objdump(file, text, at, end)
            if disassembles and "FP32" in query and not service.SANITIZED:
                loop = self.compiled("relu", f"kernel={query}&function=relu_f32")[1]
                self.assertIn("; relu_f32: ", loop)
                self.assertRegex(loop, rf"vmaxps {register}")
                self.assertNotIn("zmm" if register == "ymm" else "ymm", loop)
        if levels & {"AVX2", "AVX512"}:
            self.assertEqual(self.compiled("relu", "kernel=simd")[0].body, self.compiled("relu", f"kernel=simd@{self.best('relu')}")[0].body)

    def test_by_a_worker(self):
        """The symbols are read by one, not by an HTTP thread."""
        done = lambda: sum(pool["done"] for pool in self.service.call("GET", "/v1/pools").json["pools"])
        before = done()
        self.compiled("relu", "kernel=ref")
        self.assertTrue(service.eventually(lambda: done() >= before + 2))
        self.compiled("relu", "kernel=ref&function=no_such", 404)
        self.assertTrue(service.eventually(lambda: done() >= before + 4))

    def test_no_code(self): # JIT-13, JIT-15
        """A library's, an absent one's, a stripped program's."""
        for query, status, *words in (("kernel=jitcode", 400, "no 'jitcode'"), ("kernel=ref&loop=0", 400, "one of them"), ("datatype=FP32", 400, "?kernel="),
                                      ("function=x", 400, "?kernel="), ("kernel=ref&datatype=FP31", 400, "FP31"),
                                      ("kernel=ref&function=no_such", 404, "td_pointwise_ref", "no_such")):
            self.problem(self.service.call("GET", f"/v1/kernels/relu/code?{query}"), status, *words)
        for loop in ("%201", "%2B1", "-1", "1x", "", "1.0", "99999999999999999999"):
            self.problem(self.service.call("GET", f"/v1/kernels/relu/code?loop={loop}"), 400, "loop")
        for op, kernel, word in (("mm", "onednn", "ONEDNN_JIT_DUMP=1"), ("cast", "simd@AVX512_FP16", "absent")):
            if any((c["kernel"], c["level"]) == (kernel.partition("@")[0], kernel.partition("@")[2] or c["level"]) for c in candidates(self.service, op)):
                self.problem(self.service.call("GET", f"/v1/kernels/{op}/code?kernel={kernel}"), 404, word)
        if not shutil.which("strip"):
            self.skipTest("no strip here")
        bare = pathlib.Path(service.BINARY).with_name(f"stripped-{os.getpid()}") # its libraries are found from there
        self.addCleanup(bare.unlink)
        subprocess.run(["strip", "-o", bare, service.BINARY], check=True)
        with unittest.mock.patch.object(service, "BINARY", str(bare)), service.Service() as s:
            self.problem(s.call("GET", "/v1/kernels/relu/code?kernel=ref"), 404, "stripped", "--strip")

    def test_dump_into_a_pipe(self):
        """A pipe that lies where a loop's code is to go is not waited for."""
        with tempfile.TemporaryDirectory() as folder, service.Service("--dump-jit", folder) as s:
            for level in ("avx2", "avx512"):
                os.mkfifo(f"{folder}/000-mul+relu-{level}.bin.part")
            reply = s.call("POST", "/v1/eval", {"expr": "relu(ones([64, 128]) * 2)"})
            self.assertEqual(reply.status, 200)


if __name__ == "__main__":
    service.main()
