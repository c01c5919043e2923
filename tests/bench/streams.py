#!/usr/bin/env python3
"""One call on a pool with two streams of one thread, its batch split, beside the same call on a pool
with one worker and a team of two: a convolution 64 -> 128 channels with a 3 x 3 kernel, and a softmax
over 100 rows of 8,276. compute_us of the replies; inputs, weights and outputs stay in the server. Then
calls from four connections at a time, products of 128 x 256 by 256 x 256, a second: the workers run them
side by side, the team of two one after the other.
"""
import json
import sys

import figures
from figures import Connection, Crowd, Service, call, np, spread, stored


def cases(batch):
    side = 56
    yield (f"conv2d {batch}x64x{side}x{side}", "conv2d", {"input": (batch, 64, side, side), "weight": (128, 64, 3, 3)},
           {"stride": [1, 1], "padding": [1, 1]})
    yield "softmax 100x8276", "softmax", {"self": (100, 8276)}, {"dim": -1}


def compute_us(connection, data):
    status, head, _ = connection.exchange(data)
    text = head.split(b"\r\n\r\n", 1)[1]
    reply = json.loads(text)
    if status != 200:
        sys.exit(f"{status}: {reply['detail']}")
    return reply["parameters"]["compute_us"]


def calls_a_second(service, pool, seconds):
    x, w = np.ones((128, 256), np.float32), np.ones((256, 256), np.float32)
    crowd = Crowd(service.port, 4)
    data = call("matmul", {"self": stored("x"), "other": stored("w")}, {"pool": pool},
                outputs=[{"name": "out", "parameters": {"tensor": "of_" + pool}}])
    for name, tensor in (("x", x), ("w", w)):
        service.call("PUT", "/v1/tensors/" + name, {"shape": list(tensor.shape), "datatype": "FP32",
                                                    "data": tensor.ravel().tolist()})
    replies = crowd.run(data, seconds)
    crowd.close()
    assert all(status == 200 for status, _, _ in replies)
    return len(replies) / seconds


def main():
    arguments = figures.options(__doc__, rounds=15, batch=8)
    figures.machine()
    with Service("--pool", "two=0-1:streams=2:threads=2", "--pool", "one=0-1:streams=1:threads=2") as service:
        connection = Connection(service.port)
        for name, op, shapes, parameters in cases(arguments.batch):
            for tensor, shape in shapes.items():
                x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
                head = json.dumps({"shape": list(shape), "datatype": "FP32"}).encode()
                service.call("PUT", "/v1/tensors/" + tensor, head + x.tobytes(),
                             {"Content-Type": "application/octet-stream",
                              "Inference-Header-Content-Length": str(len(head))})
            inputs = {tensor: stored(tensor) for tensor in shapes}
            out = [{"name": "out", "parameters": {"tensor": "result"}}]
            sides = [call(op, inputs, {**parameters, "pool": "two", "streams": 2}, outputs=out),
                     call(op, inputs, {**parameters, "pool": "one"}, outputs=out)]
            turns = [[compute_us(connection, data) for data in sides] for _ in range(arguments.rounds + 2)][2:]
            print(f"{name:18} 2 streams x 1 thread {spread([a / 1e3 for a, _ in turns])} ms, "
                  f"1 x 2 {spread([b / 1e3 for _, b in turns])} ms, "
                  f"times as fast {spread([b / a for a, b in turns])}", flush=True)
        turns = [[calls_a_second(service, pool, 0.5) for pool in ("two", "one")] for _ in range(arguments.rounds // 2 + 1)]
        print(f"calls of 4 clients 2 workers x 1 thread {spread([a for a, _ in turns], '{:.0f}')}/s, "
              f"1 x 2 {spread([b for _, b in turns], '{:.0f}')}/s, times as many {spread([a / b for a, b in turns])}")


if __name__ == "__main__":
    main()
