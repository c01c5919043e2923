#!/usr/bin/env python3
"""The operators in /openapi.yaml are those of the operator table, with their arguments, types and defaults."""
import ast
import re

import service

try:
    import jsonschema
    import yaml
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

BASES = {"int": ["integer"], "float": ["number", "string"], "bool": ["boolean"], "str": ["string"],
         "Scalar": ["number", "boolean", "string"]}
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


class Operators(service.ServiceTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = yaml.safe_load(cls.service.call("GET", "/openapi.yaml").body)
        cls.schemas = cls.api["components"]["schemas"]
        cls.ops = cls.service.call("GET", "/v1/ops").json["ops"]

    def overloads(self, name):
        schema = self.schemas["op." + name]
        return schema.get("anyOf", [schema])

    def fits(self, op, request):
        """Whether the request is right for that overload."""
        schema, = (s for s in self.overloads(op["op"]) if s["title"] == op["schema"])
        return jsonschema.Draft202012Validator({**schema, "components": self.api["components"]}).is_valid(request)

    def test_operators(self): # DSP-22
        """Each overload of GET /v1/ops is there, and there is no other."""
        found = {name[3:]: [(s["title"], s["description"]) for s in self.overloads(name[3:])]
                 for name in self.schemas if name.startswith("op.")}
        found = {name: sorted(overloads) for name, overloads in found.items()}
        wanted = {}
        for op in self.ops:
            wanted.setdefault(op["op"], []).append((op["schema"], op["doc"]))
        self.assertEqual(found, {name: sorted(overloads) for name, overloads in wanted.items()})
        self.assertCountEqual([item["$ref"].rpartition("/op.")[2] for item in self.schemas["OpRequest"]["anyOf"]], wanted)

    def test_names(self): # DSP-22
        names, in_place = self.schemas["OpName"]["anyOf"]
        self.assertEqual(sorted(names["enum"]), sorted({op[name] for op in self.ops for name in ("name", "op")}))
        for name in ("add_", "add_.Tensor"):
            self.assertRegex(name, in_place["pattern"])
        self.assertNotRegex("_int_mm", in_place["pattern"])

    def test_arguments(self): # DSP-22
        for op in self.ops:
            with self.subTest(op=op["name"]):
                schema, = (s for s in self.overloads(op["op"]) if s["title"] == op["schema"])
                inputs, parameters = schema["properties"]["inputs"], schema["properties"]["parameters"]["properties"]
                tensors = [a for a in op["arguments"] if is_tensor(a)]
                names = {"enum": [a["name"] for a in tensors]}
                if any("[]" in a["type"] for a in tensors):
                    names = {"pattern": "^(" + "|".join(a["name"] + r"\.[0-9]+" * ("[]" in a["type"]) for a in tensors) + ")$"}
                self.assertEqual(inputs, {"items": {"properties": {"name": names}}} if tensors else {"maxItems": 0})
                others = {a["name"]: a for a in op["arguments"] if not is_tensor(a)}
                self.assertEqual(list(parameters), list(others))
                for name, argument in others.items():
                    said, kind = parameters[name], argument["type"]
                    self.assertEqual(said["description"], kind)
                    if kind == "ScalarType":
                        self.assertEqual(said["$ref"], DATATYPE["$ref"])
                    elif kind == "ScalarType?":
                        self.assertEqual(said["anyOf"], [DATATYPE, {"type": "null"}])
                    else:
                        self.assertEqual(sorted(said["type"]), types(kind))
                    self.assertEqual("default" in said, "default" in argument)
                    if "default" in said:
                        wanted = default(kind, argument["default"])
                        self.assertEqual((said["default"], type(said["default"])), (wanted, type(wanted)))

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
                self.assertTrue(self.fits(op, request()))
                self.assertFalse(self.fits(op, {"inputs": [*request()["inputs"], {"name": "nosuch"}]}))
                for argument in must:
                    self.assertFalse(self.fits(op, request(argument)), argument)
                    self.assertTrue(self.fits(op, {**request(argument), "args": [1]}))


if __name__ == "__main__":
    service.main()
