#!/usr/bin/env python3
"""Which of the Core ATen operators (core_aten.txt) the service has: each schema is there, or not there
and why. A schema is there when GET /v1/ops lists the same arguments and results; SymInt is int, and a
view gives what it denotes, so that the mark (a) of what shares memory counts for nothing.

    python tests/outside/core_aten.py [-v]    from the project's folder; -v lists those there as well
"""
import pathlib
import re
import sys
import unittest

import service

LIST = pathlib.Path(__file__).with_name("core_aten.txt")
MOST_MISSING = 0 # those of NOT_WANTED apart
NOT_WANTED = {
    "sym_numel": "a size is no tensor: shapes stand in every reply",
    "sym_size.int": "a size is no tensor: shapes stand in every reply",
    "sym_storage_offset": "tensors are dense: it is 0",
    "sym_stride.int": "tensors are dense: strides follow from the shape",
    "_local_scalar_dense": "a number for the program around the operators: a reply's data is one",
    "_fft_r2c": "its result is complex: there is no such type here",
    "_fft_c2r": "its argument is complex: there is no such type here",
}


def name_of(schema):
    return schema[:schema.index("(")]


def canonical(schema):
    schema = re.sub(r"\([a-z]\)|\([a-z] -> \*\)", "", schema) # (a!) stays: what is written to
    schema = schema.replace("SymInt", "int").replace('"', "'")
    return re.sub(r"=(-?\d+)\.0*(?=[,)])", r"=\1", schema).replace("dtype=4", "dtype=int64") # as ATen numbers types


def judge(schema, there):
    """Why it is not there; None when it is."""
    name = name_of(schema)
    if name in NOT_WANTED:
        return NOT_WANTED[name]
    if name not in there:
        others = sorted(n for n in there if n.split(".")[0] == name.split(".")[0])
        return "no such operator" if not others else f"no such overload; there are {', '.join(others)}"
    if canonical(there[name]) != canonical(schema):
        return f"another schema: {there[name]}"
    return None


class CoreATen(service.ServiceTest):
    def test_list(self):
        there = {op["name"]: op["schema"] for op in self.service.call("GET", "/v1/ops").json["ops"]}
        schemas = [line.strip() for line in LIST.read_text().splitlines() if not line.startswith("#")]
        why = {schema: judge(schema, there) for schema in schemas}
        for schema, reason in why.items():
            if reason:
                print(f"not there: {schema}\n           {reason}")
            elif "-v" in sys.argv:
                print(f"there:     {schema}")
        missing = [name_of(s) for s, reason in why.items() if reason and name_of(s) not in NOT_WANTED]
        print(f"{len(schemas)} schemas: {list(why.values()).count(None)} there, {len(missing)} not there, "
              f"{len(NOT_WANTED)} not wanted")
        self.assertEqual([name for name in NOT_WANTED if name in there], [])
        self.assertLessEqual(len(missing), MOST_MISSING)

    def test_other_schemas_are_told(self):
        there = {"f.x": "f.x(Tensor self, int n=2, *, str how='a', float p=2.0) -> Tensor"}
        same = 'f.x(Tensor(a) self, SymInt n=2, *, str how="a", float p=2.) -> Tensor(a)'
        self.assertIsNone(judge(same, there))
        self.assertIn("another schema", judge(same.replace("n=2", "n=3"), there))
        self.assertIn("another schema", judge(same.replace("Tensor(a) self", "Tensor(a!) self"), there))
        self.assertIn("there are f.x", judge("f.y(Tensor self) -> Tensor", there))
        self.assertEqual(judge("g(Tensor self) -> Tensor", there), "no such operator")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
