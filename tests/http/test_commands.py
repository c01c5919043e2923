#!/usr/bin/env python3
"""The program's commands and options: help, wrong words, the cap, and where options come from."""
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import unittest
import unittest.mock

import numpy as np

import models
import service
from service import Service, run

LEVELS = ["default", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx", "avx512_fp16"]


def isa(cap):
    return run("isa", "--json", env={"TENSORD_CPU_CAPABILITY": cap})


class Commands(unittest.TestCase):
    def wrong(self, *args, word, env=None):
        """Exit 2 and one line on stderr that has the word."""
        done = run(*args, env=env)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(word, done.stderr)

    def test_help(self):
        for args in (("--help",), ("serve", "--help"), ("isa", "--help"), ("ops", "--help"), ("bench", "--help")):
            done = run(*args)
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            self.assertIn("usage: tensord", done.stdout)
        for option in ("--listen", "--config", "--pool", "--io-threads", "--io-cpus"):
            self.assertIn(option, run("serve", "--help").stdout)
        self.assertEqual(run().returncode, 2)

    def examples(self, *args):
        """The command lines that a help shows; each is followed by what it is for."""
        said = run(*args, "--help").stdout.partition("\nExamples:\n")[2]
        found = [re.fullmatch(r"  (\S.*?)   +(\S.*)", line) for line in said.splitlines()]
        self.assertTrue(found and all(found), said)
        return [line[1] for line in found]

    def test_examples(self):
        """Each command has some, and they run as they stand: on other ports and CPUs where these are not ours."""
        words = re.findall(r"^  ([a-z-]+)  ", run("--help").stdout.partition("\nExamples:")[0], re.M)
        self.assertGreater(len(words), 7)
        self.assertEqual(len(self.examples()), len(words))
        manual = run("man").stdout.replace("\\", "")
        with tempfile.TemporaryDirectory() as folder, Service() as s:
            os.symlink(os.path.abspath(service.BINARY), os.path.join(folder, "tensord"))
            with open(os.path.join(folder, "line.onnx"), "wb") as file:
                file.write(models.line())
            with open(os.open(os.path.join(folder, "tokens"), os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
                file.write("you " + 64 * "0" + " read\n")
            np.save(os.path.join(folder, "x.npy"), np.ones((2, 3), np.float32))
            for word in words:
                for example in self.examples(word):
                    self.assertIn(f"tensord {word}", example)
                    self.assertIn(f".B {example}\n", manual)
                    if shutil.which("man") or "| man" not in example:
                        with self.subTest(example=example):
                            self.example(word, example, folder, s.port)

    def example(self, word, line, folder, port):
        line = line.replace("tensord top", f"tensord top localhost:{port}") if line == "tensord top" else line
        line = line.replace("localhost:8080", f"localhost:{port}").replace("0.0.0.0:8080", f"127.0.0.1:{service.free_port()}")
        line = line.replace("main=0", "main=" + service.CPUS[0]).replace("jobs=1", "jobs=" + service.CPUS[-1])
        process = subprocess.Popen(["bash", "-c", ("exec " if word == "serve" else "set -o pipefail; ") + line], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
                                   env={**service.environment(), "PATH": folder + ":" + os.environ["PATH"],
                                        "TENSORD_LISTEN": "127.0.0.1:0", "TENSORD_LOG": "off"})
        if word == "serve":
            self.assertTrue(any("ready on" in said for said in iter(process.stderr.readline, "")))
            process.terminate()
        out, errors = process.communicate(timeout=300)
        behind = "--all-candidates" in line and process.returncode == 1 # some default is; that is as may be
        self.assertEqual((process.returncode - behind, errors if word != "serve" else ""), (0, ""))
        if word not in ("serve", "completion"):
            self.assertNotEqual(out, "")

    def test_all_candidates(self): # JIT-42
        """Every line says what was taken and what is best, the last one how many were not; the status says whether."""
        done = run("bench", "--all-candidates", "--op", "exp", "--seconds", "12", "--json")
        *lines, last = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.stderr, "")
        self.assertEqual({"exp"}, {line["op"] for line in lines})
        self.assertGreater(len({line["datatype"] for line in lines}), 3)
        self.assertGreater(len({line["elements"] for line in lines}), 3)
        self.assertLessEqual(max(line["elements"] for line in lines), 1 << 20)
        for line in lines:
            self.assertGreaterEqual(line["ratio"], 1, line)
            self.assertAlmostEqual(line["ratio"], line["default_us"] / line["best_us"], delta=0.01 * line["ratio"] + 0.1)
            self.assertTrue(line["ratio"] == 1 or line["default"] != line["best"], line)
        sure = [e for e in lines if e["ratio"] > 1.051 and e["default_us"] > e["best_us"] + 0.202] # it judges by nanoseconds
        may = [e for e in lines if e["ratio"] >= 1.05 and e["default_us"] >= e["best_us"] + 0.198]
        self.assertTrue(len(sure) <= last["slower"] <= len(may), last)
        self.assertEqual((last["cells"], done.returncode), (len(lines), bool(last["slower"])))
        self.wrong("bench", "--all-candidates", "--op", "nosuch", word="nosuch")
        self.wrong("bench", "--all-candidates", "--seconds", "-1", word="--seconds")

    def test_expressions(self):
        """A case with an expression is timed as it runs, and by a kernel that is asked for; one that is wrong is left out."""
        shapes = [[64, 100], [64, 100], [100]]
        cases = [{"id": "chain", "op": "mine", "shapes": shapes, "expr": "relu(a*b+c)*sigmoid(a)"},
                 {"id": "wrong", "op": "mine", "shapes": shapes, "expr": "a + b + rleu(c)"}]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"cases": cases}, file)
            file.flush()
            done = run("bench", "--cases", file.name, "--op", "mine", "--json")
            one = run("bench", "--cases", file.name, "--op", "chain", "--json", "--kernel", "ref")
        self.assertIn("wrong skipped: expr: column 9: there is no operator 'rleu'", done.stderr)
        (row,), (ref,) = ([json.loads(line) for line in each.stdout.splitlines()] for each in (done, one))
        self.assertEqual((row["id"], row["op"], row["chosen"]), ("chain", "eval", True))
        self.assertIn(row["kernel"], ("fused", "jit"))
        self.assertEqual((ref["kernel"], ref["chosen"], one.stderr), ("composite", False, ""))
        moved = 4 * (2 * 6400 + 100 + 6400) # bytes
        self.assertAlmostEqual(row["gb_s"] * row["us_median"] * 1e3, moved, delta=0.1 * moved)
        self.assertEqual(row["compute_type"], "FP32")
        self.assertIn(row["isa"], ("DEFAULT", "AVX2", "AVX512"))

    def bench(self, **env):
        """A bench of some seconds with its errors on a terminal: what it gave, and what the terminal was told."""
        ours, theirs = pty.openpty()
        with subprocess.Popen([service.BINARY, "bench", "--op", "add", "--json"], stdout=subprocess.PIPE, stderr=theirs,
                              text=True, env={**service.environment(), "TERM": "xterm", **env}) as process:
            os.close(theirs)
            seen = b""
            try:
                while more := os.read(ours, 4096):
                    seen += more
            except OSError: # so a terminal says that nobody is left
                os.close(ours)
            return process.stdout.read(), seen.decode()

    def test_progress(self):
        """How far a long command is, where somebody may see it; then it is gone. Elsewhere there is nothing of it."""
        out, seen = self.bench()
        rows = [json.loads(line)["id"] for line in out.splitlines()]
        shares = [int(share) for share in re.findall(r"\r\[\x1b\[32m#*\x1b\[0m *\] +(\d+) % add_", seen)]
        self.assertEqual(shares, sorted(shares))
        self.assertGreater(len(set(shares)), 3, seen)
        self.assertGreater(shares[-1], 50)
        self.assertTrue(seen.endswith("\r\x1b[K"), seen)
        self.assertEqual(set(rows), set(re.findall("add_[a-z0-9]+", seen)))
        without = self.bench(NO_COLOR="1")[1]
        self.assertRegex(without, r"\r\[#+ *\] +\d+ % add_")
        self.assertNotIn("\x1b[3", without)
        self.assertEqual(self.bench(TERM="dumb")[1], "")
        piped = run("bench", "--op", "add", "--json")
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        self.assertNotRegex(piped.stdout, "[\r\x1b]")

    def test_top(self):
        """Two looks at a server that works, one text; every line of it has figures that others give too."""
        with Service("--pool", f"first={service.CPUS[0]}") as s:
            stop = threading.Event()
            def work():
                while not stop.is_set():
                    s.call("POST", "/v1/ops/relu", {"self": [1.5]})
            worker = threading.Thread(target=work)
            worker.start()
            try:
                for _ in range(3): # within the second that it looks at, either may stall
                    done = run("top", f"127.0.0.1:{s.port}")
                    figures = [re.search(figure, done.stdout, re.M) for figure in (r"^(\d+) requests/s", r"^relu +\w+ +\w+ +(\d+) ")]
                    if all(figure and int(figure[1]) > 10 for figure in figures):
                        break
            finally:
                stop.set()
                worker.join()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\033", done.stdout)
        self.assertRegex(done.stdout, rf"tensord \S+ at 127.0.0.1:{s.port}, [A-Z]")
        self.assertRegex(done.stdout, r"(?m)^first +1 +\d+ % ")
        for figure in figures:
            self.assertGreater(int(figure[1]), 10, done.stdout)
        away = run("top", f"127.0.0.1:{service.free_port()}")
        self.assertEqual((away.returncode, away.stdout), (1, ""))
        self.assertIn("no server at", away.stderr)
        self.wrong("top", "--nosuch", word="nosuch")

    def test_top_on_a_narrow_terminal(self):
        """60 columns are enough; models have their lines; q ends it and leaves the terminal as it was."""
        with Service() as s:
            s.call("PUT", "/v1/models/a-model-of-a-long-name", models.line())
            for _ in range(3):
                s.call("POST", "/v1/models/a-model-of-a-long-name", {"x": [[1, 2, 3]]})
            s.call("POST", "/v1/ops/upsample_nearest_exact2d", {"self": [[[[1.0]]]], "output_size": [2, 2]})
            piped = run("top", f"127.0.0.1:{s.port}")
            self.assertRegex(piped.stdout, r"(?m)^a-model-of-a-long-name +[\d.]+ +\d+ +3$")
            self.assertLessEqual(max(map(len, piped.stdout.splitlines())), 60, piped.stdout)
            ours, theirs = pty.openpty()
            before = termios.tcgetattr(theirs)
            top = subprocess.Popen([service.BINARY, "top", f"127.0.0.1:{s.port}"], stdin=theirs, stdout=theirs, stderr=theirs)
            shown = b""
            while b"q ends it" not in shown:
                shown += os.read(ours, 65536)
            self.assertFalse(termios.tcgetattr(theirs)[3] & termios.ICANON)
            os.write(ours, b"xq")
            self.assertEqual(top.wait(30), 0)
            self.assertEqual(termios.tcgetattr(theirs), before)
            top = subprocess.Popen([service.BINARY, "top", f"127.0.0.1:{s.port}"], stdin=theirs, stdout=theirs, stderr=theirs)
            self.assertTrue(service.eventually(lambda: not termios.tcgetattr(theirs)[3] & termios.ICANON))
            top.terminate()
            self.assertEqual(top.wait(30), -signal.SIGTERM)
            self.assertEqual(termios.tcgetattr(theirs), before)
            os.close(ours)
            os.close(theirs)

    def model_bench(self, file, *args):
        """What `tensord bench` says of a model, as a program reads it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            with open(path, "wb") as made:
                made.write(file)
            np.save(os.path.join(folder, "x.npy"), np.ones((5, 3), np.float32))
            done = run("bench", path, *(arg.replace("x.npy", f"{folder}/x.npy") for arg in args), "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""), args)
            return json.loads(done.stdout)

    def test_bench_of_a_model(self):
        """Times in order, of as many workers and threads as there are CPUs; each operator that ran, with its share."""
        cpus = len(service.CPUS)
        for args in (("--shape", "x=7,3"), ("--input", "x=x.npy")):
            said = self.model_bench(models.line(), *args, "--seconds", "0.2")
            settings = [(each["workers"], each["threads"]) for each in said["settings"]]
            self.assertEqual(settings[0], (1, 1))
            self.assertTrue(all(w * t <= cpus for w, t in settings), settings)
            self.assertTrue(cpus == 1 or {(1, cpus), (cpus, 1)} <= set(settings), settings)
            for each in said["settings"]:
                times = [each[key] for key in ("us_min", "us_p50", "us_p90", "us_p99")]
                self.assertEqual(times, sorted(times))
                self.assertGreater(times[0], 0)
                self.assertGreater(each["answers_s"], 20)
            self.assertGreater(min(said["load_us"], said["first_us"], said["model_bytes"]), 0)
            self.assertGreater(said["process_bytes"], said["model_bytes"])
            self.assertRegex(" ".join(each["operator"] for each in said["operators"]), "mm|matmul|linear|dense")
            self.assertAlmostEqual(sum(each["percent"] for each in said["operators"]), 100, delta=0.1)
            self.assertLessEqual(sum(each["calls"] for each in said["operators"]), 3)
            shares = [each["us"] for each in said["operators"]]
            self.assertEqual(shares, sorted(shares, reverse=True))
            self.assertLessEqual({each["isa"].lower() for each in said["operators"]}, set(LEVELS))
        said = self.model_bench(models.line_pt2(), "--shape", "x=2,3", "--threads", "1", "--seconds", "0.1")
        self.assertEqual({each["threads"] for each in said["settings"]}, {1})

    def test_bench_of_a_model_for_people(self):
        """Eighty columns; what is missing is said with what would be right, which then runs."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "line.onnx")
            with open(path, "wb") as file:
                file.write(models.line())
            refused = run("bench", path)
            self.assertEqual((refused.returncode, refused.stdout, refused.stderr.count("\n")), (1, "", 1))
            self.assertIn("input x is [-1,3], where -1 may be any size", refused.stderr)
            done = run("bench", path, *re.search(r"(--shape) (\S+),", refused.stderr).groups(), "--seconds", "0.1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertRegex(done.stdout, r"(?m)^workers threads +us min +p50 +p90 +p99 +answers/s\n +1 +1( +\d+\.\d{3}){4} +\d+$")
            self.assertRegex(done.stdout, r"(?m)^operator +kernel +level +calls +us +%$")
            self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()[1:]), 80, done.stdout)
            wrong = run("bench", path, "--shape", "x=2,4", "--seconds", "0.1")
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("x: must have the shape [?, 3], but has [2, 4]", wrong.stderr)
            self.wrong("bench", path, "--shape", "x", word="NAME=1,3,224,224")
            self.wrong("bench", path, "--op", "add", word="not of a model")
            self.wrong("bench", "--shape", "x=1", word="MODEL is missing")
            self.assertIn("No such file", run("bench", "/nosuch.onnx").stderr)
        for command in ("bench", "run"):
            options = run(command, "--help").stdout.partition("\nExamples:")[0]
            self.assertLessEqual(max(map(len, options.splitlines())), 80, command)

    def test_repeat(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "line.onnx"), "wb") as file:
                file.write(models.line())
            np.save(os.path.join(folder, "x.npy"), np.ones((2, 3), np.float32))
            args = ("run", f"{folder}/line.onnx", "--input", f"x={folder}/x.npy", "--repeat", "20")
            said = re.search(r"^20 times more: least ([\d.]+) us, median ([\d.]+), 99 % within ([\d.]+)$", run(*args).stdout, re.M)
            self.assertTrue(0 < float(said[1]) <= float(said[2]) <= float(said[3]), said)
            outputs, times = map(json.loads, run(*args, "--json").stdout.splitlines())
            self.assertEqual((outputs["outputs"][0]["name"], times["repeat"]), ("y", 20))
            self.wrong(*args[:-1], "0", word="--repeat")

    def test_large_file(self):
        """Its bytes are hashed while the model answers, and longer than the command keeps them."""
        size, length = 64 << 20, bytearray()
        while size >> 7 * len(length):
            length.append(size >> 7 * len(length) & 127 | 128)
        length[-1] &= 127
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "line.onnx"), "wb") as file:
                file.write(models.line() + b"\x32" + bytes(length) + b"t" * size) # a doc_string
            np.save(os.path.join(folder, "x.npy"), np.ones((2, 3), np.float32))
            for _ in range(3):
                done = run("run", f"{folder}/line.onnx", "--input", f"x={folder}/x.npy")
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_suggestions(self):
        """What is misspelt is told what was meant."""
        for args, near in ((("sevre",), "serve"), (("serve", "--memroy", "1G"), "--memory"), (("run", "--ouput-dir", "x"), "--output-dir"),
                           (("bench", "--thread"), "--threads"), (("isa", "--jsn"), "--json"), (("ops", "--jsom"), "--json")):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertIn(f"did you mean '{near}'?", done.stderr)
        self.assertIn("no value of '--threads'", run("bench", "--threads").stderr)

    def test_top_by_ipv6(self):
        try:
            s = socket.create_server(("::1", 0), family=socket.AF_INET6)
        except OSError:
            self.skipTest("skipped: no IPv6 here")
        with s:
            port = s.getsockname()[1]
            s.settimeout(20)
            def answer():
                for _ in range(4):
                    with s.accept()[0] as c:
                        c.recv(4096)
                        c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            thread = threading.Thread(target=answer)
            thread.start()
            done = run("top", f"[::1]:{port}")
            thread.join()
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_top_of_an_idle_server(self):
        """Calls that are over, of whatever types, are none a second."""
        with Service() as s:
            for datatype in ("FP32", "FP64", "INT64", "BF16", "FP16") * 3:
                tensor = {"shape": [2, 2], "datatype": datatype, "data": [1, 2, 3, 4]}
                self.assertEqual(s.call("POST", "/v1/ops/matmul", {"args": [tensor, tensor]}).status, 200)
            done = run("top", f"127.0.0.1:{s.port}")
        rates = re.findall(r"^matmul +\w+ +\w+ +(-?\d+) +(\d+)$", done.stdout, re.M)
        self.assertEqual(({rate for rate, _ in rates}, sum(int(n) for _, n in rates)), ({"0"}, 15), done.stdout)

    def test_top_of_a_server_that_lies(self):
        """What would command the terminal is no letter; an answer without an end has one."""
        def answer(listener, body, times):
            for _ in range(times):
                with listener.accept()[0] as s:
                    s.recv(4096)
                    try:
                        s.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                    except OSError:
                        pass # it has heard enough
        for body, times, right in (
                (b'tensord_build_info{version="\033]0;a\007\x9b2J\0"} 1\ntensord_pool_threads{pool="\r\033[8m"} 1e999\n', 4, 0),
                (b"tensord_op_calls_total", 4, 0), (b"\0", 4, 0), (bytes(40 << 20), 1, 1), (b"", 4, 0)):
            with socket.create_server(("127.0.0.1", 0)) as listener:
                thread = threading.Thread(target=answer, args=(listener, body, times))
                thread.start()
                done = run("top", f"127.0.0.1:{listener.getsockname()[1]}")
                thread.join()
            self.assertEqual((done.returncode, bool(done.stderr)), (right, bool(right)), body[:50])
            self.assertTrue(done.stdout.replace("\n", "").isprintable(), done.stdout)

    def completions(self, *words):
        """What bash offers for the last word."""
        with tempfile.NamedTemporaryFile("w", suffix=".bash") as script:
            script.write(run("completion", "bash").stdout)
            script.flush()
            text = f'. {script.name}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tensord; echo "${{COMPREPLY[@]}}"'
            done = subprocess.run(["bash", "-c", text, "bash", *words], text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_completion(self):
        self.assertEqual(self.completions("tensord", "b"), ["bench"])
        self.assertEqual(self.completions("tensord", "t"), ["top", "token"])
        self.assertEqual(self.completions("tensord", "serve", "--task"), ["--task-ttl-s", "--tasks", "--task-bytes"])
        self.assertEqual(self.completions("tensord", "serve", "--client-shared-memory", "o"), ["on", "off"])
        self.assertEqual(self.completions("tensord", "serve", "--config", ""), []) # files, then
        self.assertEqual(self.completions("tensord", "completion", "z"), ["zsh"])
        self.assertIn("avx512_bf16", self.completions("tensord", "serve", "--cpu-capability", "avx5"))
        self.assertEqual(self.completions("tensord", "run", ""), []) # files, then
        self.assertEqual(self.completions("tensord", "run", "--o"), ["--output-dir"])
        self.assertEqual(self.completions("tensord", "bench", ""), []) # a model
        self.assertEqual(self.completions("tensord", "bench", "--sh"), ["--shape"])
        path = {"PATH": f"{os.path.dirname(os.path.abspath(service.BINARY))}:{os.environ['PATH']}"}
        with unittest.mock.patch.dict(os.environ, path):
            self.assertEqual(self.completions("tensord", "ops", "softm"), ["softmax"])
            self.assertEqual(self.completions("tensord", "bench", "--op", "layer_n")[0], "layer_norm")
        self.wrong("completion", "nosuch", word="zsh")

    def test_words_are_complete(self):
        """Every option that serve has is in each shell's completion and in the manual; bench's and report's as their help has them."""
        flags = re.findall(r"^  --([\w-]+) ", run("serve", "--help").stdout, re.M)
        self.assertGreater(len(flags), 20)
        for args, form in ((("completion", "bash"), "--{} "), (("completion", "zsh"), "--{}["), (("completion", "fish"), " -l {} ")):
            said = run(*args).stdout
            self.assertEqual([f for f in flags if form.format(f) not in said], [], args)
            if args[1] != "bash": # which shows none; they go on where a line of the help ends
                self.assertIn("before it sleeps, while requests follow one another", said)
            if shell := shutil.which(args[1]):
                done = subprocess.run([shell, "-n"], input=said, text=True, capture_output=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        zsh = run("completion", "zsh").stdout
        words = shlex.split(zsh[zsh.index("_arguments") + 10:zsh.index(";;")].replace("\\\n", " "))
        self.assertEqual([re.match(r"\*?--([\w-]+)\[", word)[1] for word in words], flags + ["help"])
        for word in words[:-1]: # what it is for, its value, and what completes that
            self.assertRegex(word, r"^\*?--[\w-]+\[(?:[^][]|\\[][])+\](?::(?:[^:]|\\:)+:(?:_files|\([\w -]+\))?)?$")
        page = run("man").stdout.replace("\\", "")
        self.assertIn("told on the ready line\n[127.0.0.1:8080]\n", page)
        self.assertEqual([f for f in flags if f"--{f}" not in page], [])
        for word in ("bench", "report"):
            self.assertEqual(set(re.findall(r"^  (--[\w-]+)", run(word, "--help").stdout, re.M)) | {"--help"},
                             set(self.completions("tensord", word, "--")))
        if groff := shutil.which("groff"):
            done = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-z"], input=run("man").stdout, text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_wrong_words(self):
        self.wrong("nosuch", word="nosuch")
        for command in ("serve", "isa", "ops", "bench"):
            self.wrong(command, "--nosuch", word="nosuch")
        self.wrong("ops", "nosuch", word="nosuch")
        self.wrong("bench", "--op", "nosuch", word="nosuch")
        for option, value in (("--listen", "x"), ("--listen", "127.0.0.1:99999"), ("--listen", "127.0.0.1:x"),
                              ("--io-threads", "-1"), ("--io-threads", "x"), ("--io-cpus", "x"), ("--pool", "x"),
                              ("--pool", "x=9999"), ("--pool", "x=0:nosuch=1"), ("--pool", "=0"),
                              ("--config", "/nosuch"), ("--max-body", "-5"), ("--idle-s", "1.5"),
                              ("--cpu-capability", "foo")):
            with self.subTest(option=option, value=value):
                self.wrong("serve", option, value, word=value.split("=")[0][-6:])
        self.wrong("serve", "--listen", word="listen")

    def test_the_cap(self):
        everything = json.loads(run("isa", "--json").stdout)
        usable = {l["name"].lower(): l["cpu"] and l["binary"] for l in everything["levels"]}
        for cap in LEVELS:
            seen = json.loads(isa(cap).stdout)
            self.assertEqual(seen["requested"], cap)
            self.assertLessEqual(LEVELS.index(seen["current"].lower()), LEVELS.index(cap))
            if usable[cap]:
                self.assertEqual(seen["current"].lower(), cap)
        for wrong in ("AVX2", "foo", "avx2 ", "avx", "0"):
            self.wrong("isa", "--json", env={"TENSORD_CPU_CAPABILITY": wrong}, word="avx512_fp16")
            self.wrong("serve", env={"TENSORD_CPU_CAPABILITY": wrong}, word="avx2_vnni")

    def test_kernels_run_at_the_level_of_the_cap(self):
        usable = [l["name"] for l in json.loads(run("isa", "--json").stdout)["levels"] if l["cpu"] and l["binary"]]
        x = np.linspace(-9, 9, 1003, dtype=np.float32)
        for level in usable:
            with Service(env={"TENSORD_CPU_CAPABILITY": level.lower()}) as s:
                for op, inputs in (("tanh", {"self": x}), ("linear", {"input": x, "weight": x.reshape(1, -1)})):
                    reply = s.infer(op, inputs)
                    ran = reply.parameters["isa"]
                    self.assertLessEqual(LEVELS.index(ran.lower()), LEVELS.index(level.lower()))
                if level in ("DEFAULT", "AVX2"):
                    self.assertEqual(s.infer("tanh", {"self": x}).parameters["isa"], level)
                np.testing.assert_allclose(s.op("tanh", {"self": x}), np.tanh(x), rtol=1e-6)

    def test_isa_measures(self):
        done = run("isa", "--measure")
        rates = {line.split()[0]: line.split()[-2:] for line in done.stdout.splitlines()[1:]}
        self.assertEqual(list(rates), ["FP32", "FP64", "BF16", "INT8", "L1", "L2", "L3", "memory"])
        for name in ("FP32", "FP64", "L1", "memory"):
            self.assertGreater(min(map(float, rates[name])), 0, name)
        low = run("isa", "--measure", env={"TENSORD_CPU_CAPABILITY": "default"}).stdout
        self.assertRegex(low, r"BF16 .* +- +-\n")
        self.wrong("isa", "--measure", "--json", word="--json")
        self.wrong("isa", "--measure", "x", word="'x'")

    def test_commands_say_what_routes_say(self):
        with Service() as s:
            self.assertEqual(json.loads(run("isa", "--json").stdout), s.call("GET", "/v1/isa").json)
            self.assertEqual(json.loads(run("ops", "--json").stdout), s.call("GET", "/v1/ops").json)
            self.assertEqual(json.loads(run("ops", "softmax", "--json").stdout), s.call("GET", "/v1/ops/softmax").json)
        for level in LEVELS:
            self.assertIn(level.upper(), run("isa").stdout)
        self.assertIn("softmax.int(Tensor self, int dim", run("ops", "softmax").stdout)
        lines = run("ops").stdout.splitlines() # one an overload
        names = [op["name"] for op in json.loads(run("ops", "--json").stdout)["ops"]]
        self.assertEqual([line.split()[0] for line in lines], names)
        self.assertRegex(run("ops", "cast").stdout, r"(?m)^    ref +DEFAULT +BOOL UINT8")

    def test_where_options_come_from(self):
        """Flags go before the environment, which goes before the file; all use the same names."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tensord.json")
            def serve(file, *args, env=None):
                with open(path, "w") as f:
                    json.dump(file, f)
                with Service("--config", path, *args, env=env) as s:
                    return [p["name"] for p in s.call("GET", "/v1/pools").json["pools"]]
            cpu = sorted(os.sched_getaffinity(0))[0]
            self.assertEqual(serve({"pool": [f"f1={cpu}", f"f2={cpu}"]}), ["f1", "f2"])
            self.assertEqual(serve({"pool": [f"f={cpu}"]}, env={"TENSORD_POOL": f"e={cpu}"}), ["e"])
            self.assertEqual(serve({"pool": [f"f={cpu}"]}, "--pool", f"a={cpu}", "--pool", f"b={cpu}",
                                   env={"TENSORD_POOL": f"e={cpu}"}), ["a", "b"])
            for text in ("{", "[]", '{"nosuch":1}', '{"max_body":"x"}', '{"pool":{}}'):
                with open(path, "w") as f:
                    f.write(text)
                done = run("serve", "--config", path)
                self.assertEqual(done.returncode, 2, text)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_port_that_is_taken(self):
        with Service() as s:
            second = subprocess.Popen([service.BINARY, "serve", "--listen", f"127.0.0.1:{s.port}"],
                                      env=service.environment(), stderr=subprocess.PIPE, text=True)
            said = second.stderr.readline()
            second.terminate() # should it have found a way to listen as well
            second.communicate(timeout=60)
            self.assertNotIn("ready on", said)
            self.assertIn(str(s.port), said)
            self.assertNotEqual(second.returncode, 0)

    def test_ready_on_all(self):
        """Who is told on the first address that the server is ready can reach it on the last."""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(40)]
            with Service(*(word for path in paths for word in ("--listen", "unix:" + path))):
                with socket.socket(socket.AF_UNIX) as c:
                    c.connect(paths[-1])

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            process = subprocess.Popen([service.BINARY, "serve", "--listen", "unix:" + path],
                                               env=service.environment(), stderr=subprocess.PIPE, text=True)
            line = process.stderr.readline()
            self.assertIn("unix:" + path, line)
            with socket.socket(socket.AF_UNIX) as c:
                c.connect(path)
                c.sendall(b"GET /v1/isa HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertIn(b" 200 ", c.recv(1000).split(b"\r\n")[0])
            process.terminate()
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)
            self.assertFalse(os.path.exists(path))


if __name__ == "__main__":
    service.main()
