#!/usr/bin/env python3
"""Texts in models, as scikit-learn's tables and labels are: held to ONNX Runtime, and what is wrong is said."""
import subprocess
import tempfile
import unittest

import numpy as np

import models
import service
from service import Service

try:
    import onnxruntime
    from onnx import helper
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

ML = {"domain": "ai.onnx.ml"}
WORDS = np.array(["red", "green", "b\u00fc\u00df", "", "a \"quoted\" one, [with] {signs}\n", "unheard of", "green "], object)


def file(nodes, inputs, outputs, constants=None):
    """A model of nodes of either domain."""
    made = [helper.make_node(op, ins, outs, **more) for op, ins, outs, more in nodes]
    graph = helper.make_graph(made, "g", inputs, outputs, [helper.make_tensor(name, 8, [len(texts)], [t.encode() for t in texts])
                                                           for name, texts in (constants or {}).items()])
    sets = [helper.make_opsetid("", 19), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()


def table():
    """A text and a number become a label, its scores, and what the text is called elsewhere."""
    return file(
        [("OneHotEncoder", ["color"], ["hot"], {"cats_strings": list(WORDS[:5]), "zeros": 1, **ML}),
         ("Flatten", ["hot"], ["flat"], {"axis": 1}), ("Concat", ["flat", "size"], ["row"], {"axis": 1}),
         ("LinearClassifier", ["row"], ["label", "scores"], {"coefficients": np.linspace(-1, 2, 18).round(2).tolist(), "intercepts": [0.5, -0.2, 0.1],
                                                             "classlabels_strings": ["cat", "dog", "eel"], "post_transform": "SOFTMAX", **ML}),
         ("LabelEncoder", ["color"], ["called"], {"keys_strings": list(WORDS[:4]), "values_strings": ["rot", "gr\u00fcn", "blau", "nichts"], "default_string": "?", **ML}),
         ("LabelEncoder", ["color"], ["number"], {"keys_strings": list(WORDS[:4]), "values_int64s": [7, 8, 9, 1], "default_int64": -5, **ML}),
         ("Sub", ["number", "number"], ["number_0"], {}), ("Gather", ["names", "number_0"], ["named"], {}), ("Equal", ["called", "called"], ["same"], {})],
        [models.port("color", ["n", 1], "BYTES"), models.port("size", ["n", 1])],
        [models.port("label", ["n"], "BYTES"), models.port("scores", ["n", 3]), models.port("called", ["n", 1], "BYTES"), models.port("number", ["n", 1], "INT64"),
         models.port("named", ["n", 1], "BYTES"), models.port("same", ["n", 1], "BOOL")], {"names": ["first", "second"]})


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.service = Service("--log", "off")
        cls.addClassCleanup(cls.service.stop)
        cls.put("table", table())
        cls.judge = onnxruntime.InferenceSession(table(), providers=["CPUExecutionProvider"])

    @classmethod
    def put(cls, name, file):
        reply = cls.service.call("PUT", f"/v1/models/{name}", file)
        return reply

    def draw(self, n):
        rng = np.random.default_rng(service.seed())
        return {"color": rng.choice(WORDS, (n, 1)), "size": rng.standard_normal((n, 1)).astype(np.float32)}

    def test_agrees(self):
        """In JSON and binary; of a text that the file has not, too."""
        for n in (1, 9, 0):
            inputs = self.draw(n)
            wanted = dict(zip([o.name for o in self.judge.get_outputs()], self.judge.run(None, inputs))) if n else None
            for binary in False, True:
                reply = self.service.infer("table", inputs, path="/v2/models/{}/infer", binary=binary)
                self.assertEqual(reply.status, 200, reply.body)
                for name, found in reply.outputs.items():
                    if wanted is None:
                        self.assertEqual(found.shape[0], 0)
                    elif found.dtype.kind == "f":
                        np.testing.assert_allclose(found, wanted[name], 1e-5)
                    else:
                        self.assertEqual(found.tolist(), wanted[name].tolist(), name)

    def test_short(self):
        reply = self.service.call("POST", "/v1/models/table", {"color": [["green"], ["unheard of"]], "size": [[1], [2]]}).json
        self.assertEqual((reply["called"], reply["number"], reply["named"]), ([["gr\u00fcn"], ["?"]], [[8], [-5]], [["first"], ["first"]]))
        self.assertEqual(len(reply["label"]), 2)

    def test_counted(self):
        """Words and pairs of words that a pool has, in texts that are words already."""
        words = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2], "ngram_indexes": [2, 0, 1],
                 "pool_strings": ["red", "blue", "red", "blue"]}
        self.assertEqual(self.put("count", file([("TfIdfVectorizer", ["x"], ["y"], words)], [models.port("x", ["n", "m"], "BYTES")], [models.port("y", ["n", 3])])).status, 201)
        reply = self.service.call("POST", "/v1/models/count", {"x": [["red", "blue", "mauve", "blue"], ["mauve", "red", "red", "blue"]]})
        self.assertEqual(reply.json, {"y": [[2, 1, 1], [1, 1, 2]]})
        reply = self.put("count", file([("TfIdfVectorizer", ["x"], ["y"], words)], [models.port("x", ["n", "m"])], [models.port("y", ["n", 3])]))
        self.assertEqual((reply.status, "given numbers" in reply.json["detail"]), (400, True), reply.json["detail"])

    def test_tokenized(self):
        """Lines, whose words the file's own nodes find, as ONNX Runtime's do, and Python where that has no locale."""
        pool = ["a", "\n", "good", "film", "\u00e9t\u00e9", "\u0443\u0440", "#", "42", "\u0219i", "\u00ff"]
        counts = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0], "ngram_indexes": list(range(len(pool))), "pool_strings": pool}
        rng = np.random.default_rng(service.seed())
        lines = ["", "good", "GOOD Film", "\u00c9T\u00c9 \u0423\u0420 \u0218I \u0178"] + ["".join(rng.choice(["good", "film", "a", " ", "-", "42", "\u00e9t\u00e9", "\u00c9", ".", "G", "\n"], 9)) for _ in range(40)]
        for exp in "[a-zA-Z0-9_]+", r"\w\w+", r"\w{2,}", "[^ .-]+", ".", "go?", "[a-f]{1,2}o*", "[^a-z ]", r"\d+", "g[o-o]{2}d?[-]?", r"[\w.]+":
            for least, flat in ((1, True), (2, False), (4, True))[:3 if exp != "." else 1]:
                def made(normal):
                    nodes = [("Reshape", ["s", "one"], ["f"], {})] if flat else []
                    last = "f" if flat else "s"
                    nodes += [("StringNormalizer", [last], ["n"], {"case_change_action": "LOWER", "is_case_sensitive": 0})] if normal else []
                    nodes += [("Tokenizer", ["n" if normal else last], ["t"], {"mark": 0, "mincharnum": least, "pad_value": "#", "tokenexp": exp, "domain": "com.microsoft"}),
                              ("Flatten", ["t"], ["r"], {"axis": 1}), ("TfIdfVectorizer", ["r"], ["y"], counts)]
                    graph = helper.make_graph([helper.make_node(op, i, o, **more) for op, i, o, more in nodes], "g", [models.port("s", ["n"], "BYTES")],
                                              [models.port("y", ["n", len(pool)])], [helper.make_tensor("one", 7, [1], [-1])][:flat])
                    sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
                    return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
                judge = onnxruntime.InferenceSession(made(False), providers=["CPUExecutionProvider"])
                for normal in False, True:
                    reply = self.put("words", made(normal))
                    self.assertIn(reply.status, (200, 201), reply.body)
                    self.assertEqual([(p["name"], p["datatype"]) for p in reply.json["inputs"]], [("s", "BYTES")])
                    for binary in False, True:
                        wanted, = judge.run(None, {"s": np.array([line.lower() for line in lines] if normal else lines, object)})
                        reply = self.service.infer("words", {"s": np.array(lines, object)}, path="/v2/models/{}/infer", binary=binary)
                        self.assertEqual(reply.status, 200, reply.body)
                        np.testing.assert_array_equal(reply.outputs["y"], wanted, f"{exp} {least} {normal}")
        reply = self.service.call("POST", "/v1/models/words", {"s": [["a good"], ["b"]]})
        self.assertEqual(np.shape(reply.json["y"]), (2, len(pool)))

    def counter(self, **more):
        """A model that says how many lines there are, and words of the longest."""
        nodes = [helper.make_node("Tokenizer", ["s"], ["t"], "cut", domain="com.microsoft", **{"tokenexp": "[a-z]+", "mincharnum": 1, **more}),
                 helper.make_node("Shape", ["t"], ["y"])]
        graph = helper.make_graph(nodes, "g", [models.port("s", ["n"], "BYTES")], [models.port("y", [2], "INT64")])
        sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()

    def test_many_words(self):
        """A worker makes the words of a request that is not small: a line of many, beside empty ones, becomes many times as much."""
        done = lambda: sum(pool["done"] for pool in self.service.call("GET", "/v1/pools").json["pools"])
        self.assertEqual(self.put("rows", self.counter()).status, 201)
        lines = ["a " * 2000] + [""] * 100
        self.assertEqual(self.service.call("POST", "/v1/models/rows", {"s": lines}).json, {"y": [101, 2000]})
        before = done()
        data = {"name": "s", "shape": [1], "datatype": "BYTES", "data": lines}
        self.assertEqual(self.service.call("POST", "/v2/models/rows/infer", {"inputs": [data]}).status, 400)
        self.assertTrue(service.eventually(lambda: done() > before))
        with Service("--log", "off", "--memory", str(64 << 20)) as small:
            self.assertEqual(small.call("PUT", "/v1/models/rows", self.counter()).status, 201)
            lines = ["a " * 10000] + [""] * 10000
            for path, body in (("/v1/models/rows", {"s": lines}), ("/v2/models/rows/infer", {"inputs": [{**data, "shape": [len(lines)], "data": lines}]})):
                reply = small.call("POST", path, body)
                self.assertEqual((reply.status, "no memory for" in reply.json["detail"]), (503, True), reply.body)
            for path, body in (("/v1/models/rows", {"s": ["a " * 3000000]}), ("/v2/models/rows/infer", {"inputs": [{**data, "data": ["a " * 3000000]}]})):
                reply = small.call("POST", path, body) # its words' numbers alone are too many
                self.assertEqual((reply.status, "no memory for" in reply.json["detail"]), (503, True), reply.body)
        line = "x" * (4 << 20)
        self.assertEqual(self.put("rows", self.counter(tokenexp="x{15}y")).status, 200)
        reply = self.service.call("POST", "/v1/models/rows", {"timeout_ms": 1, "s": [line]})
        self.assertEqual((reply.status, "took longer than 1 ms" in reply.json["detail"]), (504, True), reply.body)

    def test_limit_anywhere(self):
        """Words are made within the time that the request allows, wherever it says so, and not within the server's."""
        texts = {"inputs": [{"name": "s", "shape": [1], "datatype": "BYTES", "data": ["x" * (1 << 20)]}]}
        short = {"s": texts["inputs"][0]["data"]}
        with Service("--log", "off", "--timeout-ms", "1") as s:
            self.assertEqual(s.call("PUT", "/v1/models/rows", self.counter(tokenexp="x{15}y")).status, 201)
            long = {"timeout_ms": 60000}
            for path, body in (("/v1/models/rows", {**short, **long}), ("/v1/models/rows", {**short, "parameters": long}), ("/v1/models/rows?timeout_ms=60000", short),
                               ("/v1/models/rows", {**texts, **long}), ("/v2/models/rows/infer", {**texts, "parameters": long}), ("/v2/models/rows/infer", {**texts, "parameters": {"timeout": 60000000}})):
                reply = s.call("POST", path, body)
                self.assertEqual(reply.status, 200, (path, reply.body))
            for parameters in [1], 1:
                self.assertEqual(s.call("POST", "/v2/models/rows/infer", {**texts, "parameters": parameters}).status, 400)

    def several(self, *nodes, functions=()):
        """A model that says how many elements each of the nodes' results t, u and v has that there is."""
        ends = [name for name in "tuv" for node in nodes if name in node.output]
        graph = helper.make_graph([*nodes, *(helper.make_node("Size", [name], [f"n{name}"]) for name in ends)], "g", [models.port("s", ["n"], "BYTES")], [models.port(f"n{name}", [], "INT64") for name in ends])
        sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, functions=functions, opset_imports=sets, ir_version=9).SerializeToString()

    def test_several_readers(self):
        """Several vectorizers behind one input have a tokenizer each: they are one if they are alike, and refused else."""
        cut = lambda i, o, **more: helper.make_node("Tokenizer", [i], [o], domain="com.microsoft", **{"tokenexp": "[a-z]+", "mincharnum": 1, **more})
        small = lambda i, o, how="LOWER": helper.make_node("StringNormalizer", [i], [o], case_change_action=how)
        body = {"s": ["a bd", "B C d e"]}
        for wanted, nodes in (({"nt": 4, "nu": 4}, [cut("s", "t"), cut("s", "u")]), ({"nt": 8, "nu": 8}, [small("s", "n"), cut("n", "t"), cut("n", "u")]),
                              ({"nt": 8, "nu": 8, "nv": 8}, [small("s", "n"), small("s", "m"), cut("m", "u"), cut("n", "t"), cut("n", "v")]), ({"nt": 2, "nu": 2}, [small("s", "t"), small("s", "u")])):
            reply = self.put("several", self.several(*nodes))
            self.assertIn(reply.status, (200, 201), reply.body)
            self.assertEqual(self.service.call("POST", "/v1/models/several", body).json, wanted)
        for nodes in ([cut("s", "t"), cut("s", "u", tokenexp="[a-c]+")], [cut("s", "t"), cut("s", "u", mincharnum=2)], [small("s", "n"), small("s", "m", "UPPER"), cut("m", "t"), cut("n", "u")],
                      [cut("s", "t"), small("s", "n"), cut("n", "u")]):
            reply = self.put("wrong", self.several(*nodes))
            self.assertEqual((reply.status, "nothing reads but nodes of the same attributes" in reply.json["detail"]), (400, True), reply.json["detail"])

    def test_own_function(self):
        """A file's own function counts, whatever it is called."""
        for domain, name in ("com.microsoft", "Tokenizer"), ("", "StringNormalizer"):
            body = [helper.make_node("Shape", ["a"], ["h"]), helper.make_node("Concat", ["h", "h", "h"], ["b"], axis=0)]
            own = helper.make_function(domain, name, ["a"], ["b"], body, [helper.make_opsetid("", 19)])
            reply = self.put("own", self.several(helper.make_node(name, ["s"], ["t"], domain=domain), functions=[own]))
            self.assertIn(reply.status, (200, 201), reply.body)
            self.assertEqual(self.service.call("POST", "/v1/models/own", {"s": ["a b", "c"]}).json, {"nt": 3})

    def test_left_in_place(self):
        """Nodes that are no input's own: what else reads it, a default, an inner graph."""
        cut = helper.make_node("Tokenizer", ["s"], ["t"], "cut", domain="com.microsoft", tokenexp="a", mincharnum=1)
        size = helper.make_node("Size", ["t"], ["y"])
        texts = lambda name: helper.make_tensor(name, 8, [1], [b"a"])
        inner = helper.make_graph([helper.make_node("Identity", ["y"], ["b"])], "b", [], [models.port("b", [], "INT64")])
        only = "node 'cut' (Tokenizer): is right only behind an input"
        for word, nodes, constants in ((only, [cut, size, helper.make_node("Size", ["s"], ["z"])], []), (only, [cut, size], [texts("s")]), ("'t' is made twice", [cut, size], [texts("t")]),
                                       (only, [helper.make_node("Identity", ["s"], ["i"]), helper.make_node("Tokenizer", ["i"], ["t"], "cut", domain="com.microsoft", tokenexp="a"), size], []),
                                       (only, [cut, size, helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner)], [helper.make_tensor("c", 9, [], [True])])):
            graph = helper.make_graph(nodes, "g", [models.port("s", ["n"], "BYTES")], [models.port("y", [], "INT64")], constants)
            sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
            reply = self.put("wrong", helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString())
            self.assertEqual((reply.status, word in reply.json["detail"]), (400, True), reply.json["detail"])

    def test_many_inputs(self):
        """Each has its reader looked up among all nodes' inputs."""
        n = 20
        flat = lambda i: [helper.make_node("Reshape", [f"s{i}", "one"], [f"f{i}"]), helper.make_node("Tokenizer", [f"f{i}"], [f"t{i}"], domain="com.microsoft", tokenexp="[a-z]+", mincharnum=1)]
        nodes = [node for i in range(n) for node in flat(i)] + [helper.make_node("Size", [f"t{i}"], [f"y{i}"]) for i in range(n)]
        graph = helper.make_graph(nodes, "g", [models.port(f"s{i}", ["n", 1], "BYTES") for i in range(n)], [models.port(f"y{i}", [], "INT64") for i in range(n)], [helper.make_tensor("one", 7, [1], [-1])])
        sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
        reply = self.put("many", helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString())
        self.assertEqual([p["name"] for p in reply.json["inputs"]], [f"s{i}" for i in range(n)])
        reply = self.service.call("POST", "/v1/models/many", {f"s{i}": [["a b"]] * (i % 3 + 1) for i in range(n)})
        self.assertEqual(reply.json, {f"y{i}": 2 * (i % 3 + 1) for i in range(n)})

    def test_wrong_tokens(self):
        for word, node in {"(Tokenizer): mincharnum: 0; 1 or more": {"tokenexp": "a", "mincharnum": 0}, "mincharnum: 2; with tokenexp '.' only 1": {"tokenexp": ".", "mincharnum": 2},
                           "no attribute 'mincharnu'": {"tokenexp": "a", "mincharnu": 1}, "tokenexp": {"tokenexp": "(a|b)"}, "or classes of them": {"tokenexp": "a*"}, "at the end": {"tokenexp": "a*b"}, "up to 16": {"tokenexp": "a{99}"},
                           "mark: 0": {"tokenexp": "a", "mark": 1}, "has no tokenexp": {"mincharnum": 1}, "alone is right": {"separators": [" "]}}.items():
            graph = helper.make_graph([helper.make_node("Tokenizer", ["s"], ["t"], domain="com.microsoft", **node), helper.make_node("Size", ["t"], ["y"])], "g",
                                      [models.port("s", ["n"], "BYTES")], [models.port("y", [], "INT64")])
            sets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
            reply = self.put("wrong", helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString())
            self.assertEqual((reply.status, word in reply.json["detail"]), (400, True), reply.json["detail"])
        graph.node[0].attribute.extend([helper.make_attribute("tokenexp", exp) for exp in ("a", "b")])
        del graph.node[0].attribute[:-2]
        self.assertIn("'tokenexp' is given twice", self.put("wrong", helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()).json["detail"])
        for word, attributes in {"(StringNormalizer): stopwords": {"stopwords": ["a"]}, "no attribute 'locales'": {"locales": "en"}}.items():
            stops = file([("StringNormalizer", ["x"], ["n"], attributes), ("Size", ["n"], ["y"], {})], [models.port("x", ["n"], "BYTES")], [models.port("y", [], "INT64")])
            self.assertIn(word, self.put("wrong", stops).json["detail"])

    def test_told(self):
        """By the protocol's name of the type, and Triton's."""
        said = self.service.call("GET", "/v2/models/table").json
        self.assertEqual([p["datatype"] for p in said["inputs"]], ["BYTES", "FP32"])
        self.assertEqual([p["datatype"] for p in said["outputs"]], ["BYTES", "FP32", "BYTES", "INT64", "BYTES", "BOOL"])
        config = self.service.call("GET", "/v2/models/table/config").json
        self.assertEqual(config["input"][0]["data_type"], "TYPE_STRING")
        self.assertIn("color BYTES", self.service.call("POST", "/v2/models/table/infer", {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}).json["detail"])

    def test_wrong(self):
        size = {"name": "size", "shape": [1, 1], "datatype": "FP32", "data": [1]}
        color = {"name": "color", "shape": [1, 1], "datatype": "BYTES"}
        for word, tensor in {"BYTES is right": {**color, "datatype": "INT64", "data": [1]}, "exactly one": color, "texts, or arrays": {**color, "data": [1]},
                             "more texts": {**color, "data": ["a", "b"]}, "1 texts, as": {**color, "data": []},
                             "not as many bytes": {**color, "parameters": {"binary_data_size": 9}}}.items():
            reply = self.service.call("POST", "/v2/models/table/infer", {"inputs": [tensor, size]})
            self.assertEqual((reply.status, word in reply.json["detail"]), (400, True), reply.json["detail"])
        good = self.draw(1)
        for blob in b"\x01\0\0", b"\x05\0\0\0ab", b"\xff\xff\xff\xffab", b"\0\0\0\0\0\0\0\0", b"":
            body, headers = service.pack({"size": good["size"]}, binary=True, outputs=None)
            length = int(headers["Inference-Header-Content-Length"])
            head = service.json.loads(body[:length])
            head["inputs"].append({**color, "parameters": {"binary_data_size": len(blob)}})
            head = service.json.dumps(head).encode()
            reply = self.service.call("POST", "/v2/models/table/infer", head + body[length:] + blob, {**headers, "Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(reply.status, 400, blob)
        for parameters in {"tensor": "t"}, {"shared_memory_region": "r", "shared_memory_byte_size": 9}:
            reply = self.service.infer("table", good, outputs=[{"name": "label", "parameters": parameters}], path="/v2/models/{}/infer")
            self.assertIn("JSON alone", reply.json["detail"])
        for body in {"color": "a", "size": [[1]]}, {"color": [["a"], ["b", "c"]], "size": [[1], [2]]}, {"color": {"tensor": "t"}, "size": [[1]]}:
            self.assertEqual(self.service.call("POST", "/v1/models/table", body).status, 400, body)
        body, headers = service.pack(good, outputs=[{"name": "label"}])
        reply = self.service.call("POST", "/v1/models/table", body, {**headers, "Accept": "application/x-npy"})
        self.assertEqual((reply.status, "has no texts" in reply.json["detail"]), (400, True), reply.body)

    def test_refused(self):
        """What cannot be done with texts is said when the file is read."""
        x, y = models.port("x", ["n"], "BYTES"), models.port("y", ["n"], "BYTES")
        number = models.port("x", ["n"])
        for word, model in {"texts are not right": file([("Add", ["x", "x"], ["y"], {})], [x], [y]), "of the caller's back": file([("Identity", ["x"], ["y"], {})], [x], [y]),
                            "not read from texts": file([("Cast", ["x"], ["y"], {"to": 1})], [x], [models.port("y", ["n"])]),
                            "nor written": file([("Cast", ["x"], ["y"], {"to": 8})], [number], [y]), "gives numbers here": file([("Neg", ["x"], ["y"], {})], [number], [y]),
                            "given numbers": file([("OneHotEncoder", ["x"], ["y"], {"cats_strings": ["a"], **ML})], [number], [models.port("y", ["n", 1])])}.items():
            reply = self.put("wrong", model)
            self.assertEqual((reply.status, word in reply.json["detail"]), (400, True), reply.json["detail"])

    def test_once(self):
        """tensord run shows them."""
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/labels.onnx"
            with open(path, "wb") as f:
                f.write(file([("ArgMax", ["x"], ["k"], {"axis": 0}), ("LabelEncoder", ["k"], ["y"], {"keys_int64s": [0, 1, 2], "values_strings": ["cat", "dog", "eel"], **ML})],
                             [models.port("x", [3])], [models.port("y", [1], "BYTES")]))
            np.save(f"{folder}/x.npy", np.float32([1, 5, 2]))
            for more in [], ["--json"]:
                said = subprocess.run([service.BINARY, "run", path, "--input", f"x={folder}/x.npy", *more], capture_output=True, text=True, timeout=60)
                self.assertEqual(said.returncode, 0, said.stderr)
                self.assertIn('["dog"]', said.stdout)
                self.assertIn("BYTES", said.stdout)


if __name__ == "__main__":
    service.main()
