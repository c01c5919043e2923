#!/usr/bin/env python3
"""Many sessions at once of a model like a voice detector, each answer held, in bits, to a client that carries the state.

    sessions.py [--sessions 500] [--seconds 60] [--threads 4] [--lost 1] [--restart 1] [--model FILE]

The model is a GRU cell: 576 samples come, 128 values of state stay; or Silero's file, which also takes a rate. Some clients in a hundred (--lost) go away in the
middle of a call and find out by session_step whether it counted. In the middle of the time every session is moved, by its
snapshot, to a server that is started anew (--restart 0: none is). Told are steps a second, ms a call, and what sessions hold; a
wrong answer ends it with status 1.
"""
import json
import pathlib
import re
import sys
import threading
import time

import figures  # finds the tests' service
import numpy as np
import service
from figures import Service, pack, percentile
from onnx import TensorProto, helper, numpy_helper

LENGTH, SEQUENCES = 100, 16
SIZE, KEPT = 576, 128


def model(draw):
    array = lambda *shape: (draw.standard_normal(shape) * 0.1).astype(np.float32)
    node, port = helper.make_node, lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    constants = {"W": array(1, 3 * KEPT, SIZE), "R": array(1, 3 * KEPT, KEPT), "w": array(KEPT, 1), "first": np.array([0])}
    graph = helper.make_graph(
        [node("Unsqueeze", ["input", "first"], ["x"]), node("GRU", ["x", "W", "R", "", "", "state"], ["", "stateN"], hidden_size=KEPT),
         node("Squeeze", ["stateN", "first"], ["h"]), node("MatMul", ["h", "w"], ["m"]), node("Sigmoid", ["m"], ["output"])],
        "vad", [port("input", "batch", SIZE), port("state", 1, "batch", KEPT)],
        [port("output", "batch", 1), port("stateN", 1, "batch", KEPT)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def carried(server, inputs):
    """The answers to a sequence, where the client carries the state."""
    ports = {p["name"]: p["shape"] for p in server.call("GET", "/v1/models/vad").json["inputs"]}
    state, answers = np.zeros([max(1, n) for n in ports["state"]], np.float32), []
    connection = server.connect()
    for x in inputs:
        reply = server.infer("vad", {**x, "state": state}, path="/v2/models/{}/infer", binary=True, connection=connection)
        answers.append(reply.outputs["output"].tobytes())
        state = reply.outputs["stateN"]
    connection.close()
    return answers


class Crowd:
    """Sessions that each follow one of the sequences, over and over."""

    def __init__(self, options, draw):
        self.options = options
        rate = {"sr": np.array(16000)} if options.model else {}
        self.inputs = [[{"input": (draw.standard_normal((1, SIZE)) * 0.3).astype(np.float32), **rate} for _ in range(LENGTH)] for _ in range(SEQUENCES)]
        self.made = [0] * options.sessions # steps, since the last start
        self.times, self.wrong, self.lost = [], [], [0, 0] # of lost calls: how many, and those that counted
        self.seed = int(draw.integers(2**31))

    def request(self, i):
        step = self.made[i] % LENGTH
        parameters = {"session": f"s{i}", "session_start": step == 0}
        if step:
            parameters["session_step"] = step
        return step, pack(self.inputs[i % SEQUENCES][step], parameters, binary=True)

    def lose(self, server, i):
        """Sends a call and goes: the next one finds out whether it counted."""
        body, headers = self.request(i)[1]
        head = f"POST /v2/models/vad/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        with server.socket() as s:
            s.sendall((head + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode() + body)
        self.lost[0] += 1

    def has_counted(self, i, reply):
        """Whether a call was refused because of one that was lost; which has counted, or is still at it."""
        made = re.search(rb"has made (\d+) steps", reply.body)
        counted = made and int(made[1]) == self.made[i] % LENGTH + 1
        self.lost[1] += bool(counted)
        self.made[i] += bool(counted)
        return reply.status == 409 and (counted or b"another call is at it" in reply.body)

    def run(self, server, mine, until, draw):
        connection, times = server.connect(), []
        while time.monotonic() < until:
            i = mine[int(draw.integers(len(mine)))]
            if self.made[i] % LENGTH and draw.random() < self.options.lost / 100:
                self.lose(server, i)
            step, (body, headers) = self.request(i)
            begin = time.perf_counter()
            reply = server.call("POST", "/v2/models/vad/infer", body, headers, connection)
            times.append((time.perf_counter() - begin) * 1e3)
            if self.has_counted(i, reply):
                continue
            if reply.status != 200 or reply.outputs["output"].tobytes() != self.answers[i % SEQUENCES][step]:
                self.wrong.append((i, step, reply.status, repr(reply.body[-4:]), repr(self.answers[i % SEQUENCES][step])) if reply.status == 200 else (i, step, repr(reply.body[:300])))
                break
            self.made[i] += 1
        connection.close()
        self.times += times

    def go(self, server, seconds):
        until, threads = time.monotonic() + seconds, []
        for k in range(self.options.threads):
            mine = range(k, self.options.sessions, self.options.threads)
            self.seed += 1
            threads.append(threading.Thread(target=self.run, args=(server, mine, until, np.random.default_rng(self.seed))))
            threads[-1].start()
        for thread in threads:
            thread.join()


def move(old, new, crowd):
    """Each session's snapshot to the other server."""
    for i, made in enumerate(crowd.made):
        if made % LENGTH == 0:
            continue
        file = old.call("GET", f"/v1/models/vad/sessions/s{i}", headers={"Accept": "application/x-safetensors"})
        reply = new.call("PUT", f"/v1/models/vad/sessions/s{i}", file.body, {"Content-Type": "application/x-safetensors"})
        crowd.made[i] += reply.json["step"] - made % LENGTH # by a lost call, one at most


def main():
    options = figures.options(__doc__, sessions=500, seconds=60, threads=4, lost=1.0, restart=1, seed=1, model="")
    draw = np.random.default_rng(options.seed)
    figures.machine()
    crowd = Crowd(options, draw)
    file = pathlib.Path(options.model).read_bytes() if options.model else model(draw)
    # One thread, and no kernel by its time: else the same rows are computed by several, which differ in the last bit.
    start = lambda: Service("--log", "off", "--tune", "off", "--pool", f"default={service.CPUS[0]}")
    server = start()
    assert server.call("PUT", "/v1/models/vad", file).status == 201
    crowd.answers = [carried(server, inputs) for inputs in crowd.inputs]
    crowd.go(server, options.seconds / (1 + options.restart))
    if options.restart:
        other = start()
        assert other.call("PUT", "/v1/models/vad", file).status == 201
        move(server, other, crowd)
        server.stop()
        server = other
        crowd.go(server, options.seconds / 2)
    held = server.call("GET", "/v1/models/vad/sessions?limit=1").json
    rest = re.search(r"^process_resident_memory_bytes (\d+)", server.call("GET", "/metrics").body.decode(), re.M)
    server.stop()
    print(f"{options.sessions} sessions, {len(crowd.times)} steps, {len(crowd.times) / options.seconds:.0f} a second; ms a call: "
          f"p50 {percentile(crowd.times, 50):.2f}, p99 {percentile(crowd.times, 99):.2f}, most {max(crowd.times):.1f}")
    print(f"{crowd.lost[0]} clients lost in a call, of which {crowd.lost[1]} counted; {held['count']} sessions hold "
          f"{held['bytes'] / max(1, held['count']):.0f} bytes each; resident {int(rest[1]) / 2**20:.0f} MiB")
    print(json.dumps(crowd.wrong[:3]) if crowd.wrong else "no wrong answer")
    return bool(crowd.wrong)


if __name__ == "__main__":
    sys.exit(main())
