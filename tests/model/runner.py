"""Models through run_model: a process that loads files and runs them on arrays."""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import service
from service import DATATYPES, NAMES


class Refused(Exception):
    """The model, or the tensors it was given, were refused with this sentence."""


class Ended(Exception):
    """The process ended where it was to answer."""


def read(path):
    line, data = path.read_bytes().split(b"\n", 1)
    name, *shape = line.decode().split()
    shape = [int(n) for n in shape]
    if name == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return np.frombuffer(data, DATATYPES[name]).reshape(shape)


class Runner:
    def __init__(self, program):
        self.program, self.process = program, None
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def ask(self, line):
        if self.process is None or self.process.poll() is not None:
            self.said = open(self.path / "said", "w+", errors="replace") # a pipe would fill up
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.said, text=True, errors="replace")
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if not reply:
            self.process.wait()
            raise Ended((self.path / "said").read_text(errors="replace")[-3000:])
        return reply.strip()

    def run(self, model, inputs, threads=1, how="plan", runs=3, seconds=60):
        """The model's outputs; model: its path or its bytes. Refused, Ended."""
        if isinstance(model, bytes):
            (self.path / "model").write_bytes(model)
            model = self.path / "model"
        for old in [*self.path.glob("in*"), *self.path.glob("out*")]:
            old.unlink()
        for i, array in enumerate(inputs):
            array = np.asarray(array)
            kind = "BF16" if array.dtype.name == "bfloat16" else NAMES[array.dtype]
            shape = "".join(" %d" % n for n in array.shape)
            (self.path / ("in%d" % i)).write_bytes((kind + shape + "\n").encode() + array.tobytes())
        reply = self.ask("%s\t%s\t%d\t%s\t%d\t%d" % (model, self.path, threads, how, runs, seconds))
        if not reply.startswith("ok "):
            raise Refused(reply)
        return [read(self.path / ("out%d" % i)) for i in range(int(reply[3:]))]

    def kind(self, i):
        """The type of the last run's output i, which may be BF16 where there are floats."""
        return (self.path / ("out%d" % i)).read_bytes().split(maxsplit=1)[0].decode()

    def main(self):
        """The test file's tests; the status is 1 as well where the process says at its end what is wrong."""
        try:
            service.main()
        finally:
            wrong = self.close()
            if wrong:
                print(wrong)
                sys.exit(1)

    def close(self):
        """Ends the process: what it says is wrong at its end (a sanitizer, of leaks), or ""."""
        said = ""
        if self.process:
            self.process.stdin.close()
            said = "exit %d" % self.process.returncode if self.process.wait() else ""
            self.process.stdout.close()
            self.said.close()
            said = said and (self.path / "said").read_text(errors="replace")[-3000:] + said
        self.folder.cleanup()
        return said
