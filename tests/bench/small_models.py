#!/usr/bin/env python3
"""What HTTP costs a small model: calls of it by one thread of wrk, binary, over 1 and 16 connections: calls/s, p50, the
server's CPU time a call, and how much of that is not its kernels (kernel_us of explain, the run's loop over its steps).

    small_models.py MODELS_DIR SMOKE_JSON [--only silero_op18,mtcnn_onet] [--seconds N] [--rounds N]

MODELS_DIR and SMOKE_JSON as models.py has them. One thread a pool, so that CPU time is work; a busy machine disturbs
rates and p50, CPU time hardly.
"""
import figures  # finds the tests' service
import models
import service
from figures import spread


def explained(server, model, count=200):
    """us in kernels, and of the run, the least of many: what they take when nobody disturbs them; how many ran inline."""
    connection, found = server.connect(), []
    body, headers = models.body_of(model, explain=True)
    for _ in range(count):
        reply = server.call("POST", f"/v2/models/{models.name_of(model)}/infer", body, headers, connection)
        assert reply.status == 200, reply.body[:300]
        found.append((reply.parameters["explain"]["kernel_us"], reply.parameters["compute_us"], reply.parameters["explain"]["inline"]))
    connection.close()
    return min(k for k, _, _ in found), min(c for _, c, _ in found), sum(i for _, _, i in found) / count


def main():
    parser = models.parser(__doc__, "silero_op18,mtcnn_onet")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    figures.machine()
    with service.Service("--pool", f"default={service.CPUS[0]}", "--log", "off") as server:
        for model in models.chosen(args):
            name = models.name_of(model)
            assert server.call("PUT", "/v1/models/" + name, models.bytes_of(args, model)).status == 201
            body, headers = models.body_of(model)
            kernel, compute, inline = explained(server, model)
            print(f"{name}: {len(body)} bytes; kernels {kernel:.1f} us, the run {compute:.1f} us (least), inline {inline:.0%}")
            for connections in (1, 16):
                rates, p50s, costs = [], [], []
                for _ in range(args.rounds):
                    before = figures.cpu_seconds(server.pid)
                    calls = server.call("GET", "/v1/models/" + name).json["calls"]
                    rate, p50 = figures.wrk(server.port, f"/v2/models/{name}/infer", connections, args.seconds, body, headers)
                    calls = server.call("GET", "/v1/models/" + name).json["calls"] - calls
                    costs.append((figures.cpu_seconds(server.pid) - before) / calls * 1e6)
                    rates.append(rate)
                    p50s.append(p50)
                print(f"    c={connections:<3} {spread(rates, '{:.0f}')}/s, p50 {spread(p50s, '{:.0f}')} us, CPU {spread(costs, '{:.1f}')} us a "
                      f"call, of which not kernels {1 - kernel / min(costs):.0%} ({min(costs) - kernel:.1f} us)", flush=True)


if __name__ == "__main__":
    main()
