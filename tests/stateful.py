"""Small models with state, and calls in sessions."""
import random

import numpy as np

import models
import service
from models import archives, port

RANDOM = random.Random(service.seed())
WEIGHT = np.arange(15, dtype=np.float32).reshape(5, 3) / 10 - 0.7


def cell():
    """output = the sum of stateN = tanh([state, input] w); one row or several."""
    return models.onnx_file([("Concat", ["state", "input"], ["c"], {"axis": -1}), ("MatMul", ["c", "w"], ["m"], {}),
                             ("Tanh", ["m"], ["stateN"], {}), ("ReduceSum", ["stateN", "last"], ["output"], {"keepdims": 1})],
                            [port("input", ["b", 2]), port("state", ["b", 3])],
                            [port("output", ["b", 1]), port("stateN", ["b", 3])], {"w": WEIGHT, "last": np.array([1])})


def cache():
    """A cache that grows by each call's rows, and their sum."""
    return models.onnx_file([("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], {"axis": 1}),
                             ("ReduceSum", ["present.0.key", "rows"], ["sum"], {"keepdims": 0})],
                            [port("new", ["batch", "n", 2]), port("past_key_values.0.key", ["batch", "past_length", 2])],
                            [port("sum", ["batch", 2]), port("present.0.key", ["batch", "total_length", 2])],
                            {"rows": np.array([1])})


def chunks():
    """seen = the input times sr, an input of no dimensions."""
    return models.onnx_file([("Cast", ["sr"], ["rate"], {"to": 1}), ("Mul", ["input", "rate"], ["seen"], {})],
                            [port("input", ["b", "n"]), port("sr", [], "INT64")], [port("seen", ["b", "n"])])


def slow():
    """hn = h doubled n times over in a loop, which takes as long as n says."""
    body = models.helper.make_graph(
        [models.helper.make_node("Identity", ["go"], ["on"]), models.helper.make_node("Add", ["v", "one"], ["w"])], "body",
        [port("i", [], "INT64"), port("go", [], "BOOL"), port("v", [1])], [port("on", [], "BOOL"), port("w", [1])])
    return models.onnx_file([("Loop", ["n", "go", "h"], ["hn"], {"body": body}), ("Identity", ["hn"], ["y"], {})],
                            [port("n", [], "INT64"), port("h", [1])], [port("y", [1]), port("hn", [1])],
                            {"go": np.array(True), "one": np.ones(1, np.float32)})


VOCABULARY = 16


def decoder(places=64):
    """logits of tokens and of the sum of all before them, with what an exporter's decoder takes beside input_ids."""
    draw = np.random.default_rng(7)
    node = lambda op, ins, outs, **more: (op, ins, outs, more)
    return models.onnx_file(
        [node("Gather", ["words", "input_ids"], ["w"]), node("Gather", ["places", "position_ids"], ["p"]), node("Add", ["w", "p"], ["x"]),
         node("Concat", ["past_key_values.0.key", "x"], ["present.0.key"], axis=1), node("Cast", ["attention_mask"], ["f"], to=1),
         node("Unsqueeze", ["f", "two"], ["m"]), node("Mul", ["present.0.key", "m"], ["k"]), node("ReduceSum", ["k", "one"], ["c"]),
         node("Add", ["x", "c"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "out"], ["logits"])],
        [port("input_ids", ["batch", "n"], "INT64"), port("attention_mask", ["batch", "total"], "INT64"),
         port("position_ids", ["batch", "n"], "INT64"), port("past_key_values.0.key", ["batch", "past", 4])],
        [port("logits", ["batch", "n", VOCABULARY]), port("present.0.key", ["batch", "total", 4])],
        {"words": draw.standard_normal((VOCABULARY, 4)).astype(np.float32), "places": draw.standard_normal((places, 4)).astype(np.float32),
         "out": draw.standard_normal((4, VOCABULARY)).astype(np.float32), "one": np.array([1]), "two": np.array([2])})


def counter(first=0):
    """y = x times the calls so far and first, as PyTorch archives it."""
    m = archives.Model()
    x, h = m.user("x", sizes=["s0", 4]), m.weight("cell.h", np.full(4, first, np.float32), kind="buffer")
    m.call("add_.Scalar", "w", self=h, other=1)
    m.outputs = [m.call("mul.Tensor", "y", self=x, other=h)]
    return m.bytes()


class SessionTest(service.ServiceTest):
    def put(self, name, file):
        reply = self.service.call("PUT", "/v1/models/" + name, file)
        self.assertIn(reply.status, (200, 201), reply.body[:300])
        return reply.json

    def path(self, model, session=""):
        return f"/v1/models/{model}/sessions" + (session and "/" + session)

    def infer(self, model, inputs, session=None, to=None, **parameters):
        how = {k: parameters.pop(k) for k in ("outputs", "binary", "connection") if k in parameters}
        if session is not None:
            parameters["session"] = session
        return (to or self.service).infer(model, inputs, parameters, path="/v2/models/{}/infer", **how)

    def right(self, reply):
        self.assertEqual(reply.status, 200, reply.body[:400])
        return reply.outputs

    def see(self, model, session):
        reply = self.service.call("GET", self.path(model, session))
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply.json

    def draw(self, *shape):
        return np.array([RANDOM.gauss(0, 1) for _ in range(int(np.prod(shape)))], np.float32).reshape(shape)
