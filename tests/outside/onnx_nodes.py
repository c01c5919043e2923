#!/usr/bin/env python3
"""ONNX's own node tests through the operators: how much of ONNX they cover, and that they mean the same.

The onnx package makes its cases when asked. onnx_rows.py says which operators an ONNX node becomes, and
each of them is called over HTTP. Models of older opsets, which PyTorch has written, are stored in the package
and run as well. A case passes when its results are the expected ones, is refused where an
operator or a type is missing, and fails when the results are others: none may.

    python tests/outside/onnx_nodes.py [-v] [-a] [NAME...]    from the project's folder

-v says why each case was refused; -a takes the node tests of several nodes as well; NAME is a case or an ONNX
operator.
"""
import ast
import collections
import pathlib
import re
import sys
import unittest
import warnings

import numpy as np

import service

try:
    import onnx
    from onnx import defs, numpy_helper
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests
except ImportError as error:
    service.skip(f"no {error.name}: run deploy/setup.sh check")

import onnx_rows
from onnx_rows import KINDS, Refused, to_service

LEAST = 1239 # pass, of the cases of one node and of the stored ones
NOISY = dict.fromkeys(("test_dft_inverse", "test_dft_inverse_opset19"), 1e-6) # absolute: NumPy's FP32 rounding is in them

# ---- operators over HTTP ----

def arguments(schema):
    """[(type, name)] of an operator's schema."""
    inside = re.sub(r"\(a[^)]*\)", "", schema.rsplit(" -> ", 1)[0]) # what shares memory is all the same here
    listed = re.findall(r"(\S+) (\w+)(?:=[^,\]]*(?:\[[^]]*\])?)?[,)]", inside.partition("(")[2])
    return listed


def parameter(kind, value):
    """A value as JSON, of the schema's type; ONNX often has tensors where ATen has numbers."""
    if kind.startswith("ScalarType"):
        if isinstance(value, int) and value not in KINDS:
            raise Refused(f"type {onnx.TensorProto.DataType.Name(value)}")
        return KINDS.get(value, value)
    if kind.startswith("str"):
        return value
    whole = kind.startswith(("int", "bool["))
    if "[" in kind:
        return [int(v) if whole else float(v) for v in np.ravel(value)]
    number = value.values if isinstance(value, service.BF16) else value
    number = number.item() if hasattr(number, "item") else number
    return bool(number) if kind.startswith("bool") else int(number) if whole else number


class Operators:
    """operators["add.Tensor"](a, b, alpha=2): called over HTTP, arguments in the schema's order."""

    def __init__(self, running):
        self.service, self.connection = running, running.connect()
        listed = running.call("GET", "/v1/ops").json["ops"]
        self.arguments = {op["name"]: arguments(op["schema"]) for op in listed}
        self.lists = {op["name"] for op in listed if op["schema"].endswith("[]")}

    def __getitem__(self, name):
        if name in onnx_rows.HELPERS:
            return onnx_rows.HELPERS[name]
        if name not in self.arguments:
            raise Refused(f"no operator {name}")
        return lambda *given, **named: self.call(name, given, named)

    def call(self, name, given, named):
        kinds = {argument: kind for kind, argument in self.arguments[name]}
        named = dict(zip(kinds, given)) | named
        tensors, parameters = {}, {}
        for argument, value in named.items():
            kind = kinds[argument]
            if value is None:
                continue
            if kind.startswith("Tensor"):
                several = kind.startswith(("Tensor[", "Tensor?["))
                for i, one in enumerate(value if several else [value]):
                    if one is not None:
                        tensors[f"{argument}.{i}" if several else argument] = to_service(one)
            else:
                parameters[argument] = parameter(kind, value)
        reply = self.service.infer(name, tensors, parameters, binary=True, connection=self.connection)
        if reply.status in (400, 501):
            raise Refused(f"{name}: {reply.json['detail']}")
        assert reply.status == 200, f"{name}: {reply.status} {reply.body[:300]!r}"
        results = list(reply.outputs.values())
        return results if len(results) > 1 or name in self.lists else results[0]


# ---- nodes ----

class Calls(ast.NodeTransformer):
    """In a row's formula what is called is an operator, everything else a value of the node."""

    def visit_Call(self, node):
        self.generic_visit(node)
        which = ast.Subscript(ast.Name("operators", ast.Load()), ast.Constant(ast.unparse(node.func)), ast.Load())
        return ast.Call(which, node.args, node.keywords)


def text(value):
    return [text(v) for v in value] if isinstance(value, list) else value.decode() if isinstance(value, bytes) else value


class Named(dict):
    """Values by name; what older opsets do not have is None."""
    def __missing__(self, name):
        return None


class Node:
    """Inputs and attributes under the names that ONNX gives them; None where they are absent."""

    def __init__(self, node, opset, inputs):
        schema = defs.get_schema(node.op_type, opset, node.domain)
        self.op, self.opset, self.outputs = node.op_type, opset, list(node.output)
        values = {name: onnx.helper.get_attribute_value(a.default_value) if a.default_value.type else None
                  for name, a in schema.attributes.items()}
        values |= {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.values = {name: text(value) for name, value in values.items()}
        self.values |= {"opset": opset, "first": inputs[0] if inputs else None, "first_and_more": inputs}
        for i, formal in enumerate(schema.inputs):
            several = formal.option == defs.OpSchema.FormalParameterOption.Variadic
            self.values[formal.name] = inputs[i:] if several else inputs[i] if i < len(inputs) else None

    def __getattr__(self, name):
        return self.__dict__["values"].get(name) # names differ between opsets

    def run(self, operators):
        row = onnx_rows.ROWS.get(self.op)
        if row is None:
            raise Refused("no row")
        if callable(row):
            return row(operators, self)
        formula = ast.fix_missing_locations(Calls().visit(ast.parse(row, mode="eval")))
        return eval(compile(formula, self.op, "eval"), {}, Named(self.values, operators=operators))


# ---- graphs ----

def branch(run, graphs, given, outputs):
    return run(graphs["then_branch" if given[0].item() else "else_branch"], [])


def loop(run, graphs, given, outputs):
    most, going, *state = given
    turn, rows = 0, []
    while (most is None or turn < most.item()) and (going is None or going.item()):
        going, *made = run(graphs["body"], [np.array(turn), np.array(True) if going is None else going, *state])
        state, turn = made[:len(state)], turn + 1
        rows.append(made[len(state):])
    if not rows and outputs > len(state):
        raise Refused("a loop of no turn, whose results have no shape")
    return [*state, *(run.operators["stack"](list(each)) for each in zip(*rows))]


CONTROL = {"If": branch, "Loop": loop}


class Run:
    """A graph's results by name; one inside another sees what is around it."""

    def __init__(self, operators, opsets, around):
        self.operators, self.opsets, self.values = operators, opsets, around

    def __call__(self, graph, inputs):
        inner = Run(self.operators, self.opsets, dict(self.values))
        inner.values |= {t.name: to_service(numpy_helper.to_array(t)) for t in graph.initializer}
        inner.values |= zip((i.name for i in graph.input if i.name not in {t.name for t in graph.initializer}), map(to_service, inputs))
        for node in graph.node:
            inner.values |= zip(node.output, inner.node(node))
        return [inner.values[output.name] for output in graph.output]

    def node(self, node):
        given = [self.values[name] for name in node.input]
        if node.op_type in CONTROL:
            return CONTROL[node.op_type](self, {a.name: a.g for a in node.attribute}, given, len(node.output))
        out = Node(node, self.opsets[node.domain], given).run(self.operators)
        return out if isinstance(out, (list, tuple)) else [out]


def run_model(operators, model, inputs):
    return Run(operators, {o.domain: o.version for o in model.opset_import}, {"": None})(model.graph, inputs)


def difference(got, want, case):
    """What is wrong with a result; None when nothing is."""
    want = to_service(want)
    if got is None:
        return "no result"
    if service.datatype(got) != service.datatype(want) or got.shape != want.shape:
        return (f"{service.datatype(got)}{list(got.shape)} in place of "
                f"{service.datatype(want)}{list(want.shape)}")
    rtol = max(case.rtol, 2**-6) if isinstance(want, service.BF16) else case.rtol # as ONNX's own runner has it
    got, want = (v.values if isinstance(v, service.BF16) else v for v in (got, want))
    if np.allclose(got, want, rtol, NOISY.get(case.name, case.atol), equal_nan=True):
        return None
    return f"{np.ravel(got)[:6]} in place of {np.ravel(want)[:6]}"


def judge(operators, case):
    """Why a case is refused, or what is wrong; (None, None) when it passes."""
    try:
        for inputs, outputs in case.data_sets:
            got = run_model(operators, case.model, inputs)
            wrong = [w for w in (difference(g, w, case) for g, w in zip(got, outputs)) if w]
            if wrong:
                return None, "; ".join(wrong)
    except Refused as refused:
        return str(refused), None
    return None, None


def stored(kind):
    """The cases of a suite that lie in files."""
    def values(folder, which):
        found = sorted(folder.glob(f"{which}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
        return [onnx.TensorProto.FromString(path.read_bytes()) for path in found]
    for case in load_model_tests(kind=kind):
        folder = pathlib.Path(case.model_dir)
        case.model = onnx.load(folder / "model.onnx")
        case.data_sets = [(values(data, "input"), values(data, "output")) for data in sorted(folder.glob("test_data_set_*"))]
        yield case


class Nodes(service.ServiceTest):
    def test_nodes(self):
        operators = Operators(self.service)
        self.addCleanup(operators.connection.close)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            cases = [*collect_testcases(None), *stored("pytorch-converted"), *stored("pytorch-operator")]
        names = [a for a in sys.argv[1:] if not a.startswith("-")]
        of, missing = collections.defaultdict(collections.Counter), collections.Counter()
        for case in cases:
            nodes = case.model.graph.node
            op = f"({case.kind})" if case.kind != "node" else nodes[0].op_type if len(nodes) == 1 else "(several nodes)"
            if (op == "(several nodes)" and "-a" not in sys.argv) or (names and not {op, case.name} & set(names)):
                continue
            with self.subTest(case=case.name):
                try:
                    refused, wrong = judge(operators, case)
                except Exception as error: # one more failure: the others are worth knowing
                    refused, wrong = None, repr(error)
                of[op]["refused" if refused else "failed" if wrong else "passed"] += 1
                if refused:
                    missing[refused] += 1
                    if "-v" in sys.argv:
                        print(f"{case.name}: {refused}")
                self.assertIsNone(wrong)
        for op, counts in sorted(of.items()):
            print(f"{op:32}" + ", ".join(f"{counts[how]} {how}" for how in ("passed", "refused", "failed") if counts[how]))
        for why, times in missing.most_common(20):
            print(f"refused {times:3}: {why}")
        sums = sum(of.values(), collections.Counter())
        print(f"{sums['passed']} passed, {sums['refused']} refused, {sums['failed']} failed")
        self.assertTrue(names or sums["passed"] >= LEAST)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
