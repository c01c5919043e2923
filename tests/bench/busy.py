#!/usr/bin/env python3
"""What models take while another process keeps one CPU busy: on one thread, on a team of all CPUs left alone, and on
that team with a process that only counts on its last CPU, in turns. compute_us: median, and mean.

    busy.py MODELS_DIR SMOKE_JSON [--only NAME,NAME] [--seconds N] [--rounds N]

MODELS_DIR and SMOKE_JSON as models.py has them.
"""
import statistics
import subprocess
import sys
import time

import figures  # finds the tests' service
import models
import service
from figures import spread


def spinning(cpu):
    return subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", "while True: pass"])


class Side:
    def __init__(self, args, model, threads):
        self.service = service.Service("--pool", f"default={','.join(service.CPUS[:threads])}", "--log", "off")
        self.service.call("PUT", "/v1/models/m", models.bytes_of(args, model))
        self.connection, self.request = self.service.connect(), ("POST", "/v2/models/m/infer", *models.body_of(model))
        self.medians, self.means = [], []

    def turn(self, seconds, keep):
        times, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            reply = self.service.call(*self.request, connection=self.connection)
            times.append(reply.parameters["compute_us"] / 1e3)
        if keep:
            self.medians.append(statistics.median(times))
            self.means.append(statistics.mean(times))

    def say(self, how):
        print(f"    {how:24} median {spread(self.medians, '{:.3f}')} ms, mean {spread(self.means, '{:.3f}')} ms", flush=True)
        self.service.stop()


def main():
    parser = models.parser(__doc__, "ppocr_cls")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    figures.machine()
    for model in models.chosen(args):
        print(model["file"])
        n = len(service.CPUS)
        alone, team, busy = (Side(args, model, threads) for threads in (1, n, n))
        for turn in range(args.rounds + 1): # the first one warms up
            alone.turn(args.seconds, turn)
            team.turn(args.seconds, turn)
            process = spinning(service.CPUS[-1])
            try:
                busy.turn(args.seconds, turn)
            finally:
                process.kill()
                process.wait()
        for side, how in ((alone, "one thread"), (team, f"{n} threads"), (busy, f"{n} threads, one CPU busy")):
            side.say(how)


if __name__ == "__main__":
    main()
