"""Small .pt2 archives, written as torch.export.save writes them, without PyTorch."""
import io
import json
import zipfile

import numpy as np

CODES = {np.dtype(k): v for k, v in (("uint8", 1), ("int8", 2), ("int16", 3), ("int32", 4), ("int64", 5),
                                     ("float16", 6), ("float32", 7), ("float64", 8), ("bool", 12), ("uint16", 28), ("uint32", 34),
                                     ("uint64", 35))}


class Name(str):
    """A tensor of the graph's."""


class Number(str):
    """A size, or a number made of sizes."""


class Bool(str):
    """A condition made of sizes."""


class Type(int):
    """An element type, by its number."""


def size(s):
    """A size's JSON: a number, "s0", a factor and a symbol, or what is written in sympy's way."""
    if isinstance(s, int):
        return {"as_int": s}
    symbol = lambda name: "Symbol('%s', positive=True, integer=True)" % name
    text = s if "(" in s else symbol(s) if isinstance(s, str) else "Mul(Integer(%d), %s)" % (s[0], symbol(s[1]))
    return {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}


def meta(dtype, sizes, strides=None, offset=0):
    if strides is None:
        strides, step = [], 1
        for s in reversed(sizes):
            strides.insert(0, step)
            step *= s if isinstance(s, int) else 1
    return {"dtype": CODES[np.dtype(dtype)], "sizes": [size(s) for s in sizes], "requires_grad": False,
            "device": {"type": "cpu", "index": None}, "strides": [{"as_int": s} for s in strides],
            "storage_offset": {"as_int": offset}, "layout": 7}


def argument(v):
    if v is None:
        return {"as_none": True}
    if isinstance(v, Graph):
        return {"as_graph": {"name": "graph", "graph": v.json()}}
    if isinstance(v, Name):
        return {"as_tensor": {"name": v}}
    if isinstance(v, Number):
        return {"as_sym_int": {"as_name": v}}
    if isinstance(v, Bool):
        return {"as_sym_bool": {"as_name": v}}
    if isinstance(v, Type):
        return {"as_scalar_type": v}
    if isinstance(v, list):
        if any(isinstance(x, Number) for x in v):
            return {"as_sym_ints": [{"as_name": x} if isinstance(x, Number) else {"as_int": x} for x in v]}
        if v and all(isinstance(x, Name) for x in v):
            return {"as_tensors": [{"name": x} for x in v]}
        if any(isinstance(x, Name) for x in v):
            return {"as_optional_tensors": [{"as_none": True} if x is None else {"as_tensor": {"name": x}} for x in v]}
        return {"as_ints": v}
    kind = {bool: "as_bool", int: "as_int", float: "as_float", str: "as_string"}[type(v)]
    return {kind: "Infinity" if v == float("inf") else v}


class Graph:
    def __init__(self):
        self.inputs, self.outputs, self.nodes, self.metas = [], [], [], {}

    def tensor(self, name, dtype="float32", sizes=()):
        self.metas[name] = meta(dtype, list(sizes))
        return Name(name)

    def input(self, name, dtype="float32", sizes=()):
        self.inputs.append(argument(self.tensor(name, dtype, sizes)))
        return Name(name)

    def call(self, target, outs, /, *values, **arguments):
        """A node; outs: the name of its result, or names, or a list in a list of one result that is a list."""
        given = [("", v, 1) for v in values] + [(k.strip("_"), v, 1) for k, v in arguments.items()]
        single = isinstance(outs, str)
        outs = [outs] if single else outs
        outs = [o if isinstance(o, (Name, Number, Bool, list)) else Name(o) for o in outs]
        for o in outs:
            for name in o if isinstance(o, list) else [o]:
                if not isinstance(name, (Number, Bool)):
                    self.metas.setdefault(name, meta("float32", []))
        first = outs[0] if outs and not isinstance(outs[0], list) else "node"
        own = target.startswith(("_operator.", "torch.", "math."))
        self.nodes.append({"target": target if own else "torch.ops.aten." + target,
                           "inputs": [{"name": k, "arg": argument(v), "kind": n} for k, v, n in given],
                           "outputs": [argument([Name(x) for x in o]) if isinstance(o, list) else argument(o)
                                       for o in outs],
                           "metadata": {"stack_trace": "a \"quoted\" { line"}, "is_hop_single_tensor_return": None,
                           "name": str(first)})
        return outs[0] if single else outs

    def json(self):
        return {"inputs": self.inputs, "outputs": [argument(o) for o in self.outputs], "nodes": self.nodes,
                "tensor_values": self.metas, "sym_int_values": {}, "sym_bool_values": {},
                "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}


class Model(Graph):
    def __init__(self):
        super().__init__()
        self.specs, self.ends, self.ranges, self.files = [], None, {}, {}
        self.guards, self.numbers, self.gives = [], {}, None
        self.stored = {"weights": {}, "constants": {}}
        self.version = {"major": 8, "minor": 20}

    def user(self, name, dtype="float32", sizes=()):
        name = self.input(name, dtype, sizes)
        self.specs.append({"user_input": {"arg": argument(name)}})
        return name

    def number(self, name):
        self.inputs.append(argument(Number(name)))
        self.numbers[name] = {"as_expr": {"expr_str": "Symbol('%s', integer=True)" % ("n_" + name)}}
        self.specs.append({"user_input": {"arg": argument(Number(name))}})
        return Number(name)

    def constant(self, name, value):
        self.inputs.append(argument(value))
        self.specs.append({"constant_input": {"name": name, "value": argument(value)}})

    def weight(self, name, array=None, kind="parameter", file=None, layout=None, **view):
        """A parameter, or what kind says: of an array's bytes, or seen through layout in a file's."""
        where = "constants" if kind == "tensor_constant" else "weights"
        if array is not None:
            file = "weight_%d" % len(self.files)
            self.files["data/%s/%s" % (where, file)] = np.ascontiguousarray(array).tobytes()
            layout = meta(array.dtype, list(array.shape))
        self.stored[where][name] = {"path_name": file, "is_param": kind == "parameter", "use_pickle": False,
                                    "tensor_meta": layout, **view}
        value = "p_" + name.replace(".", "_")
        self.metas[value] = layout
        self.inputs.append(argument(Name(value)))
        self.specs.append({kind: {"arg": {"name": value}, kind + "_name": name}})
        return Name(value)

    def calls(self):
        """The module's call, which tells the tree of what it gives back; none without gives."""
        one = {"inputs": [], "outputs": [], "in_spec": "", "out_spec": json.dumps([1, self.gives]), "forward_arg_names": []}
        return [{"fqn": "", "signature": one}] if self.gives else []

    def program(self):
        ends = self.ends or [{"user_output": {"arg": argument(o)}} for o in self.outputs]
        return {"graph_module": {"graph": {**self.json(), "sym_int_values": self.numbers}, "signature": {"input_specs": self.specs, "output_specs": ends},
                                 "module_call_graph": self.calls(), "metadata": {}, "treespec_namedtuple_fields": {}},
                "opset_version": {"aten": 10}, "range_constraints": self.ranges, "schema_version": self.version,
                "verifiers": ["TRAINING"], "torch_version": "2.15.0", "guards_code": self.guards}

    def entries(self):
        """All of the archive, by name."""
        config = lambda which: json.dumps({"config": self.stored[which]}).encode()
        return {**{"m/" + k: v for k, v in self.files.items()},
                "m/data/weights/model_weights_config.json": config("weights"),
                "m/data/constants/model_constants_config.json": config("constants"),
                "m/models/model.json": json.dumps(self.program()).encode(),
                "m/data/sample_inputs/model.pt": b"never read", "m/byteorder": b"little",
                "m/archive_format": b"pt2", "m/archive_version": b"0"}

    def bytes(self, **change):
        return zipped({**self.entries(), **change})


def zipped(entries, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in entries.items() if isinstance(entries, dict) else entries:
            archive.writestr(name, data)
    return out.getvalue()
