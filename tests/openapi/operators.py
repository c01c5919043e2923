#!/usr/bin/env python3
"""The operators in the description are those of the operator table: each overload has an operation, with its
arguments, types and defaults, and examples that run; it says no to what the server refuses."""
import ast
import gzip
import re
import threading
import time

import service

try:
    import jsonschema
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

BASES = {"int": ["integer"], "float": ["number", "string"], "bool": ["boolean"], "str": ["string"],
         "Scalar": ["number", "boolean", "string"], "Generator": ["integer"]}
ITEMS = {"int": "integer", "float": "number", "bool": "boolean"}
DATATYPE = {"$ref": "#/components/schemas/Datatype"}


def types(kind):
    """The JSON types of ATen's type, sorted."""
    base, size, optional = re.fullmatch(r"(\w+)(\[\d*\])?(\??)", kind).groups()
    taken = [] if size == "[]" else list(BASES.get(base, ["string"]))
    return sorted(taken + ["array"] * bool(size) + ["null"] * bool(optional))


def default(kind, text):
    """What the text of a default stands for; one number of int[2] is two."""
    if text.isidentifier() and text not in ("True", "False", "None"):
        return text # the name of a type or of a memory format
    value = ast.literal_eval(text)
    sized = re.search(r"\[(\d+)\]", kind)
    return [value] * int(sized.group(1)) if sized and type(value) is int else value


def is_required(argument):
    return "default" not in argument and not argument["type"].endswith("?")


def is_tensor(argument):
    return argument["type"].startswith("Tensor")


def as_input(argument):
    """The name of its input; of a list's, that of the first."""
    return argument["name"] + ".0" * ("[]" in argument["type"])


def flat(value):
    """A result of the short form as the list that the long one has."""
    return [v for part in value for v in flat(part)] if isinstance(value, list) else [value]


class Operators(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = cls.service.call("GET", "/openapi.json").json
        cls.schemas = cls.api["components"]["schemas"]
        cls.ops = cls.service.call("GET", "/v1/ops").json["ops"]
        cls.operations = {path.removeprefix("/v1/ops/"): item["post"] for path, item in cls.api["paths"].items()
                          if item.get("post", {}).get("tags") == ["calls"]}

    def fits(self, name, request):
        """Whether the request is right by that schema."""
        schema = {"$ref": "#/components/schemas/" + name, "components": self.api["components"]}
        return jsonschema.Draft202012Validator(schema).is_valid(request)

    def test_operations(self): # DSP-22
        """Each overload of GET /v1/ops is there, and there is no other."""
        self.assertEqual(list(self.operations), [op["name"] for op in self.ops])
        general = self.api["paths"]["/v1/ops/{op}"]["post"]
        for op in self.ops:
            operation, schema = self.operations[op["name"]], self.schemas["op." + op["name"]]
            self.assertEqual((operation["operationId"], operation["summary"], operation["description"]),
                             (op["name"], op["doc"], f"`{op['schema']}`"))
            self.assertEqual((schema["title"], schema["description"]), (op["schema"], op["doc"]))
            self.assertEqual((operation["parameters"], operation["responses"]), (general["parameters"], general["responses"]))
            bodies = [item["$ref"].rpartition("/")[2] for item in
                      operation["requestBody"]["content"]["application/json"]["schema"]["anyOf"]]
            taken = [o["name"] for o in self.ops if o["name"] == op["name"] or o["op"] == op["name"]]
            self.assertEqual(sorted(bodies), sorted(f"{form}.{name}" for name in taken for form in ("op", "brief")))
        for form in ("op.", "brief."):
            self.assertEqual(sorted(name for name in self.schemas if name.startswith(form)),
                             sorted(form + op["name"] for op in self.ops))

    def test_names(self): # DSP-22
        names, in_place = self.schemas["OpName"]["anyOf"]
        self.assertEqual(sorted(names["enum"]), sorted({op[name] for op in self.ops for name in ("name", "op")}))
        for name in ("add_", "add_.Tensor"):
            self.assertRegex(name, in_place["pattern"])
        self.assertNotRegex("_int_mm", in_place["pattern"])

    def check_argument(self, said, argument):
        kind = argument["type"]
        self.assertEqual(said["description"], kind)
        if kind == "ScalarType":
            self.assertEqual(said["$ref"], DATATYPE["$ref"])
        elif kind == "ScalarType?":
            self.assertEqual(said["anyOf"], [DATATYPE, {"type": "null"}])
        else:
            self.assertEqual(sorted(said["type"]), types(kind))
            self.assertEqual(said.get("items", {}).get("type"), ITEMS[re.match(r"\w+", kind)[0]] if "[" in kind else None)
        self.assertEqual("default" in said, "default" in argument)
        if "default" in said:
            wanted = default(kind, argument["default"])
            self.assertEqual((said["default"], type(said["default"])), (wanted, type(wanted)))

    def test_arguments(self): # DSP-22
        for op in self.ops:
            with self.subTest(op=op["name"]):
                schema, brief = (self.schemas[form + op["name"]]["properties"] for form in ("op.", "brief."))
                tensors = [a for a in op["arguments"] if is_tensor(a)]
                names = {"enum": [a["name"] for a in tensors]}
                if any("[]" in a["type"] for a in tensors):
                    names = {"pattern": "^(" + "|".join(a["name"] + r"\.[0-9]+" * ("[]" in a["type"]) for a in tensors) + ")$"}
                self.assertEqual(schema["inputs"], {"items": {"properties": {"name": names}}} if tensors else {"maxItems": 0})
                others = {a["name"]: a for a in op["arguments"] if not is_tensor(a)}
                self.assertEqual(list(schema["parameters"]["properties"]), list(others))
                self.assertEqual({*brief, "dtype"}, {a["name"] for a in op["arguments"]} | {"dtype", "parameters"})
                for name, argument in others.items():
                    self.check_argument(schema["parameters"]["properties"][name], argument)
                    self.check_argument(brief[name], argument)

    def test_required(self): # DSP-22
        """Without any one required argument a request is not right, unless it has some by position."""
        values = {"Scalar": 1, "int": 1, "float": 1.5, "bool": True, "ScalarType": "FP32"}
        def value(kind):
            base, size = re.match(r"(\w+)(\[\d*\])?", kind).groups()
            one = values.get(base, "x")
            return [one] * int(size.strip("[]") or 1) if size else one
        for op in self.ops:
            must = [a for a in op["arguments"] if is_required(a)]
            def request(without=None):
                given = [a for a in must if a is not without]
                return {"inputs": [{"name": as_input(a), "shape": [1], "datatype": "FP32", "data": [1]} for a in given if is_tensor(a)],
                        "parameters": {a["name"]: value(a["type"]) for a in given if not is_tensor(a)}}
            with self.subTest(op=op["name"]):
                full, brief = "op." + op["name"], "brief." + op["name"]
                self.assertTrue(self.fits(full, request()))
                self.assertFalse(self.fits(full, {"inputs": [*request()["inputs"], {"name": "nosuch"}]}))
                self.assertFalse(self.fits(full, {**request(), "parameters": {**request()["parameters"], "nosuch": 1}}))
                plain = {a["name"]: ([[1]] if "[]" in a["type"] else [1]) if is_tensor(a) else value(a["type"]) for a in must}
                self.assertTrue(self.fits(brief, plain))
                self.assertFalse(self.fits(brief, {**plain, "nosuch": 1}))
                for argument in must:
                    self.assertFalse(self.fits(full, request(argument)), argument)
                    self.assertTrue(self.fits(full, {**request(argument), "args": [1]}))
                    self.assertFalse(self.fits(brief, {k: v for k, v in plain.items() if k != argument["name"]}))

    def test_examples(self):
        """Each example is right by its own schema, and runs; the two of an operation are one call."""
        for name, operation in self.operations.items():
            examples = operation["requestBody"]["content"]["application/json"]["examples"]
            with self.subTest(op=name):
                self.assertIn("full", examples)
                said = {}
                for form, example in examples.items():
                    self.assertTrue(self.fits(("op." if form == "full" else "brief.") + name, example["value"]), example)
                    reply = self.service.call("POST", "/v1/ops/" + name, example["value"])
                    self.assertEqual(reply.status, 200, (example, reply.body))
                    said[form] = reply.json
                if "brief" in said:
                    self.assertEqual({k: flat(v) for k, v in said["brief"].items()},
                                     {o["name"]: o["data"] for o in said["full"]["outputs"]})
        plain = [name for name, o in self.operations.items()
                 if "brief" not in o["requestBody"]["content"]["application/json"]["examples"]]
        self.assertLess(len(plain), 15, plain)

    def test_refused(self):
        """What the schemas exclude, the server refuses."""
        x = {"name": "self", "shape": [2], "datatype": "FP32", "data": [1, 2]}
        full = {"inputs": [x], "parameters": {"dim": 0}}
        brief = {"self": [1, 2], "dim": 0}
        for good, bad in (("op", {**full, "nosuch": 1}), ("op", {"inputs": [{**x, "nosuch": 1}], "parameters": {"dim": 0}}),
                          ("op", {"inputs": [{**x, "parameters": {"nosuch": 1}}], "parameters": {"dim": 0}}),
                          ("op", {**full, "parameters": {"dim": 0, "nosuch": 1}}), ("op", {**full, "parameters": {"dim": "0"}}),
                          ("op", {**full, "parameters": {}}), ("op", {**full, "outputs": [{"name": "out", "nosuch": 1}]}),
                          ("op", {**full, "parameters": {"dim": 0, "explain": 1}}), ("op", {**full, "id": 1}),
                          ("brief", {**brief, "nosuch": 1}), ("brief", {**brief, "dim": True}), ("brief", {"dim": 0}),
                          ("brief", {**brief, "dtype": "FP31"}), ("brief", {**brief, "self": "x"})):
            with self.subTest(bad=bad):
                self.assertTrue(self.fits(good + ".softmax.int", {"op": full, "brief": brief}[good]))
                self.assertFalse(self.fits(good + ".softmax.int", bad))
                self.assertEqual(self.service.call("POST", "/v1/ops/softmax.int", bad).status, 400)

    def test_kept(self):
        """It is made once, whoever asks first, goes compressed to who takes that, and not again to who has it."""
        with service.Service() as s:
            def held(): # without what is there for the next request
                text = s.call("GET", "/metrics").body.decode()
                return int.__sub__(*(int(re.search(rf"^tensord_memory_{name} (\d+)", text, re.M)[1]) for name in ("bytes", "kept_bytes")))
            before = held()
            replies = []
            askers = [threading.Thread(target=lambda: replies.append(s.call("GET", "/openapi.json"))) for _ in range(4)]
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            plain = replies[0]
            self.assertEqual({reply.body for reply in replies}, {plain.body})
            packed = s.call("GET", "/openapi.json", headers={"Accept-Encoding": "gzip"})
            self.assertEqual(packed.headers["Content-Encoding"], "gzip")
            self.assertLess(len(packed.body), 150000)
            self.assertEqual(gzip.decompress(packed.body), plain.body)
            self.assertEqual(s.call("GET", "/openapi.json", headers={"If-None-Match": plain.headers["ETag"]}).status, 304)
            least, deadline = len(packed.body), time.monotonic() + 20
            while held() - before > least + (1 << 20) and time.monotonic() < deadline:
                time.sleep(0.05) # requests' memory goes after their replies
            self.assertLess(held() - before, least + (1 << 20))
            self.assertGreaterEqual(held() - before, least) # it is counted


if __name__ == "__main__":
    service.main()
