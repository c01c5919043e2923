#!/usr/bin/env python3
"""mutants.py: what the tests would not notice. Draws small changes of the program's sources, one at a time, builds what changed,
runs the tests that should fail, and reports the changes that none of them noticed.

    tests/mutants/mutants.py [--count 200] [--seed N] [--in REGEX] [--jobs 2] [--list] [--only ID]

It works in copies of the tree of its own (build-mutants/), so the tree may be edited meanwhile; --jobs builds and tests that
many mutants at once. A change that does not compile, that leaves the program's bytes as they are, or that would rebuild more than MOST_STEPS objects is drawn again and not counted. Tests are
those of AREAS for the changed file, each built when its turn comes, up to the first that fails: those first that have found most in the
least time so far, among those of which nothing is known the quickest. One that takes LONGER times as long as on the
unchanged tree counts as failed, and one that fails is tried twice, as a busy machine fails some. A survivor is printed as a diff with its ID (--only runs it again). --list prints the drawn
changes without running any. Nothing is begun after --seconds. What was decided is kept in build-mutants/decided.json with the tests' times: the
same seed on the same tree goes on where it was stopped.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

from tree import ROOT, Tree

FOLDERS = ["kernels", "pools", "dispatch", "api", "server"]
MOST_STEPS = 45  # build steps of a mutant: headers that all include are left out
LONGER, LEAST_SECONDS = 5, 60

# What should fail, by where the change is: the first row whose expression the path matches. `checkimpl` and `golden` are
# restricted to the operators whose schemas stand in the changed file's folder.
AREAS = [
    (r"kernels/\w+_backward/", ["checkgolden", "checkimpl", "http_gradients", r"kernels_(strides|sizes|onednn)", "outside_numpy"]),
    (r"kernels/\w+/", ["checkgolden", "checkimpl", r"kernels_(products|cast|laid|levels|values|strides|steps|sizes|onednn|windows)", "outside_numpy"]),
    (r"kernels/(vec|lanes|lines|reals|formulas\w*|functions|half)\.h", ["checkgolden", "checkimpl", "kernels_.*"]),
    (r"kernels/trap", ["dispatch_traps", "http_traps"]),
    (r"kernels/", ["kernels_.*", r"dispatch_(step|step_library|prepare|values|rest|place|choice)", "outside_numpy", "model_onnx.*"]),
    (r"dispatch/(onnx/|passes/fold|walk/|program/)", ["model_onnx.*", "outside_onnx_suite", r"dispatch_(model|passes)", "model_expr"]),
    (r"dispatch/pt2/", ["model_pt2.*", "http_models"]),
    (r"dispatch/(model|passes|plan)/", [r"dispatch_(passes|model|place|rest|views|step)", "model_.*", "http_models", "outside_onnx_suite"]),
    (r"dispatch/choice/cost", ["http_cost", r"dispatch_.*"]),
    (r"dispatch/cpu", ["dispatch_(cpu|machine)", "http_isa", "probes"]),
    (r"dispatch/", ["dispatch_.*", r"http_(eval|dispatch|operators|isa|gradients|numbers|factories|vectors)", "model_.*", "outside_numpy"]),
    (r"pools/", ["pools_.*", r"http_(pools|memory|tasks)", "server_http"]),
    (r"api/json/", ["api_.*", r"http_(brief|infer|answers|errors|tensors)"]),
    (r"api/openapi/", ["routes", "lint", "operators", "replies", "http_docs"]),
    (r"api/metrics/", ["http_metrics", "monitoring"]),
    (r"api/shm/", ["http_shm"]),
    (r"api/tensors/", ["http_tensors", "http_memory"]),
    (r"api/tasks/", ["http_tasks"]),
    (r"api/models/", ["http_models", "http_model_streams"]),
    (r"api/web/", ["dashboard"]),
    (r"api/infer/stream", ["http_streams", "http_model_streams"]),
    (r"api/", [r"http_(infer|brief|answers|errors|routes|dispatch|eval|pools|isa|metrics|repeats|shm|tensors|models|streams|tasks|cost|numbers|index|memory|operators)"]),
    (r"server/http", ["server_.*", r"http_(connections|framing|repeats|drain|errors|cost|infer|log)"]),
    (r"server/commands/run", ["http_models", "http_commands"]),
    (r"server/", ["server_.*", r"http_(commands|log|drain)", "unit", "load report"]),
]

SWAPS = [("<=", "<"), (">=", ">"), ("==", "!="), ("!=", "=="), ("&&", "||"), ("||", "&&"), (" < ", " <= "), (" > ", " >= "),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), (" % ", " / "), ("++", "--"), ("--", "++"),
         (" & ", " | "), (" | ", " & "), ("<< ", ">> "), (">> ", "<< "), ("+= ", "-= "), ("-= ", "+= "), ("true", "false"),
         ("false", "true"), ("break;", "continue;")]


def masked(text):
    """The text with comments, strings and directives blanked, of the same length."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*', blank, text, flags=re.S | re.M)


def changes_of(line):
    """(begin, end, replacement) of each small change of a masked line."""
    for old, new in SWAPS:
        for m in re.finditer(re.escape(old), line):
            alone = old.strip() not in ("<", ">", "&", "|", "<=", ">=") or line[m.end():m.end() + 1] != "="
            word = not old[0].isalpha() or re.match(rf"\b{re.escape(old)}", line[m.start():]) and (
                m.start() == 0 or not re.match(r"\w", line[m.start() - 1]))
            if alone and word:
                yield m.start(), m.end(), new
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", line):
        if not re.match(r"\s*(?:static |const )*(?:struct )?\w+ \**\w+\[[^=()]*;\s*$", line): # one element more is the same
            yield m.start(), m.end(), str(int(m.group()) + 1)
    for m in re.finditer(r"(?<![\w.])(\d+\.\d+)(?=f?\b)", line):
        yield m.start(), m.end(), str(float(m.group()) + 1)
    for m in re.finditer(r"!(?=[\w(*])", line):
        yield m.start(), m.end(), ""
    m = re.match(r"(\s*(?:\} else )?if )\((.*)\)( \{)?\s*$", line)
    if m:
        yield m.start(2), m.end(2), f"!({m.group(2)})"
        yield m.start(2), m.end(2), f"0 && ({m.group(2)})"
    m = re.match(r"\s+(?!return|break|continue|goto|case|else|static|const|struct|int|bool|size_t|int64_t|char|double|float|void|unsigned|uint)"
                 r"[\w>\[\].*(-][^;{}]*;\s*$", line)
    if m and ("=" in line or "(" in line) and line.count("(") == line.count(")"):
        begin = len(line) - len(line.lstrip())
        yield begin, len(line.rstrip()), ";"


def draw(rng, where):
    """(file, line number, old line, new line), endlessly, each line of code alike."""
    files = subprocess.check_output(["git", "ls-files", *FOLDERS], text=True, cwd=ROOT).split()
    files = [f for f in files if pathlib.Path(f).suffix in (".c", ".h", ".def") and re.search(where, f) and "/web/" not in f]
    lines = []
    texts = {}
    for f in files:
        text = (ROOT / f).read_text()
        texts[f] = text.split("\n")
        for n, line in enumerate(masked(text).split("\n")):
            if any(True for _ in changes_of(line)):
                lines.append((f, n, line))
    while True:
        f, n, line = rng.choice(lines)
        begin, end, new = rng.choice(list(changes_of(line)))
        old = texts[f][n]
        yield f, n, old, old[:begin] + new + old[end:]


def identity(mutant):
    return hashlib.sha1(repr(mutant).encode()).hexdigest()[:8]


def operators_of(folder):
    """The operators whose schemas stand in a folder of kernels/."""
    names = set()
    for f in (ROOT / folder).glob("*"):
        if f.suffix in (".c", ".def", ".h"):
            names.update(re.findall(r'"(\w+(?:\.\w+)?)\((?:Tensor|int|Scalar|SymInt)', f.read_text()))
            names.update(re.findall(r"^TD_\w+\((\w+),", f.read_text(), flags=re.M))
    return sorted({n.split(".")[0] for n in names})


def tests_for(tree, file):
    """[(name, command, environment)] for a changed file."""
    wanted = next(tests for where, tests in AREAS if re.match(where, file))
    found = []
    for pattern in wanted:
        for name, t in tree.tests.items():
            env = dict(t["env"]) if isinstance(t["env"], dict) else {}
            command = [str(w) for w in t["cmd"]]
            if pattern in ("checkimpl", "checkgolden") and name.startswith(pattern):
                ops = operators_of(pathlib.Path(file).parent) if len(pathlib.Path(file).parts) > 2 else []
                exe = command[0]
                if ops and all(exe != c[1][0] for c in found): # without --part, of which one operator has none
                    found.append((name, command if pattern == "checkgolden" else [exe], ops, env))
                elif not ops and pattern == "checkgolden":
                    found.append((name, command, None, env))
            elif re.fullmatch(pattern, name):
                found.append((name, command, None, env))
    return found


def commands(test):
    """The test's commands: one an operator where it takes operators."""
    name, command, ops, env = test
    if ops is None:
        return [command]
    return [[*command, "--op", op] for op in ops]


class Run:
    def __init__(self, args):
        self.args, self.lock, self.base_lock = args, threading.Lock(), threading.Lock()
        self.end = time.monotonic() + args.seconds
        self.result = []
        self.log = ROOT / "build-mutants" / "decided.json"
        kept = json.loads(self.log.read_text()) if self.log.exists() else {"took": {}, "decided": {}}
        self.took, self.decided = kept["took"], kept["decided"] # seconds by command; [verdict, by, seconds] by ID

    def keep(self):
        """With the lock held."""
        made = self.log.with_suffix(".part")
        made.write_text(json.dumps({"took": {k: v for k, v in self.took.items() if v}, "decided": self.decided}, indent=0))
        made.replace(self.log)

    def ordered(self, tests):
        """What finds most in the least time first: by what is known of each test."""
        kills = collections.Counter(by.removesuffix(" (timeout)") for _, by, _ in self.decided.values())
        def rank(one):
            known = [self.took[" ".join(c)] for c in commands(one) if self.took.get(" ".join(c))]
            seconds = sum(known) if known else 30
            return seconds / (kills[one[0]] + 0.1)
        return sorted(tests, key=rank)

    def baseline(self, test, command):
        """Seconds on the unchanged tree; None for a test that fails or skips there."""
        key = " ".join(command)
        with self.base_lock:
            if key not in self.took:
                if self.base.ninja(self.base.targets([test[0]])).returncode:
                    sys.exit("mutants: the unchanged tree does not build")
                begin = time.monotonic()
                state = self.base.run(command, test[3], 900)[0]
                self.took[key] = time.monotonic() - begin if state == "passed" else None
            return self.took[key]

    def passes(self, tree, command, test, key):
        """Once, within what it takes otherwise, if that is known; its time is, then."""
        begin, known = time.monotonic(), self.took.get(key)
        state = tree.run(command, test[3], int(max(LEAST_SECONDS, (known or 60) * LONGER)))[0]
        if state == "passed":
            self.took.setdefault(key, time.monotonic() - begin)
        return state == "passed"

    def one(self, tree, mutant):
        """Kills a mutant, or not: (verdict, by)."""
        file, n, old, new = mutant
        tests = self.ordered(tests_for(tree, file))
        originals = {test[0]: test for test in tests_for(self.base, file)}
        targets = ["tensord"]
        if tree.ninja(targets).returncode:
            return "broken tree", ""
        before = tree.code()
        path = tree.folder / file
        text = path.read_text()
        lines = text.split("\n")
        lines[n] = new
        path.write_text("\n".join(lines))
        try:
            if tree.steps(targets) > MOST_STEPS:
                return "too many objects", ""
            if tree.ninja(targets).returncode:
                return "does not compile", ""
            if tree.code() == before:
                return "same code", ""
            for test in tests:
                same = originals[test[0]]
                if tree.ninja(tree.targets([test[0]])).returncode:
                    return "does not compile", ""
                for command, original in zip(commands(test), commands(same)):
                    if self.passes(tree, command, test, " ".join(original)):
                        continue
                    base = self.baseline(same, original)
                    if base is None: # it fails anyhow, or is skipped here
                        continue
                    state = tree.run(command, test[3], int(max(LEAST_SECONDS, base * LONGER)))[0]
                    if state in ("failed", "timeout"):
                        return "killed", f"{test[0]}{'' if state == 'failed' else ' (timeout)'}"
            return "survived", ""
        finally:
            path.write_text(text)

    def work(self, index, source):
        tree = Tree(ROOT / "build-mutants" / str(index))
        while time.monotonic() < self.end:
            with self.lock:
                if sum(v in ("killed", "survived") for _, v, _ in self.result) + self.flying >= self.args.count:
                    return
                mutant = next(source, None)
                if mutant is None:
                    return
                self.flying += 1
            begin = time.monotonic()
            verdict, by, _ = self.decided.get(identity(mutant)) or (*self.one(tree, mutant), 0)
            with self.lock:
                self.flying -= 1
                self.result.append((mutant, verdict, by))
                if verdict != "broken tree" and not self.args.only:
                    self.decided.setdefault(identity(mutant), [verdict, by, round(time.monotonic() - begin, 1)])
                    self.keep()
                file, n, old, new = mutant
                if verdict in ("killed", "survived") or self.args.verbose:
                    print(f"{identity(mutant)} {verdict:9} {file}:{n + 1} {by}", flush=True)
                if verdict == "survived":
                    print(f"    -{old.strip()}\n    +{new.strip()}", flush=True)

    def run(self, source):
        self.flying = 0
        self.base = Tree(ROOT / "build-mutants" / "base")
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for done in [pool.submit(self.work, i, source) for i in range(self.args.jobs)]:
                done.result()
        verdicts = [v for _, v, _ in self.result]
        killed, alive = verdicts.count("killed"), verdicts.count("survived")
        for other in ("does not compile", "same code", "too many objects", "broken tree"):
            print(f"not counted: {verdicts.count(other):4} {other}")
        print(f"{killed + alive} mutants, {killed} killed, {alive} alive ({100 * alive / max(1, killed + alive):.1f} %)")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--seed", type=int, default=int(os.environ.get("TENSORD_SEED", "1")))
    p.add_argument("--in", dest="where", default="", help="a regular expression that the file's path matches")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--seconds", type=int, default=3600 * 4)
    p.add_argument("--list", action="store_true")
    p.add_argument("--only", help="one mutant's ID")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    rng = random.Random(args.seed)
    source = draw(rng, args.where)
    if args.list:
        for _, mutant in zip(range(args.count), source):
            print(f"{identity(mutant)} {mutant[0]}:{mutant[1] + 1}\n    -{mutant[2].strip()}\n    +{mutant[3].strip()}")
        return
    if args.only:
        source = (m for _, m in zip(range(100000), source) if identity(m) == args.only)
        args.count, args.jobs = 1, 1
    print(f"# seed {args.seed}", flush=True)
    Run(args).run(iter(source))


main()
