#!/usr/bin/env python3
"""routes.py VERSION: openapi.yaml and the code say the same.

Both ways: every route of api/routes.def is described and everything described is a route. A path's
variables and the query's parameters are declared, a described error is one that api/request/problems.def can
give, operations under /v1/pools and /v1/tasks and the parameters of streams are marked experimental
and nothing else is (RT-1), bodies are limited as described, and the version is the program's.
"""
import pathlib
import re
import sys

try:
    import yaml
except ImportError:
    print("skipped: no PyYAML in .deps/venv: run deploy/setup.sh check")
    sys.exit(77)

STREAMS = {"streams", "stream_hints", "strict_divisible", "concat_output", "stream_mode"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")


def coded_routes():
    """(method, path) of each route -> its query's parameters; {name*} takes slashes too, which OpenAPI
    cannot say."""
    text = (ROOT / "api/routes.def").read_text()
    found = re.findall(r'^TD_ROUTE\((\w+), "([^"]+)", \w+, (any|small), \w+\)', text, re.M)
    assert len(found) == len(re.findall(r"^TD_ROUTE", text, re.M)) > 0, "routes.def is not understood"
    return {(method, path.partition("?")[0].replace("*}", "}")): (path.partition("?")[2], body)
            for method, path, body in found}


def problem_statuses():
    text = (ROOT / "api/request/problems.def").read_text()
    return set(re.findall(r"^TD_PROBLEM\(\w+, (\d+),", text, re.M))


def resolve(api, node):
    while "$ref" in node:
        target = node["$ref"]
        node = api
        for part in target.removeprefix("#/").split("/"):
            node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def check_operation(api, path, item, method, statuses, query, body):
    name, operation = f"{method.upper()} {path}", item[method]
    parameters = [resolve(api, p) for p in item.get("parameters", []) + operation.get("parameters", [])]
    declared = {p["name"] for p in parameters if p["in"] == "path"}
    wanted = set(re.findall(r"{(\w+)}", path))
    if declared != wanted:
        yield f"{name}: path parameters {sorted(declared)} are declared, {sorted(wanted)} are right"
    asked = "&".join(p["name"] for p in parameters if p["in"] == "query")
    if asked != query:
        yield f"{name}: query parameters '{asked}' are described, '{query}' are taken"
    if method in ("post", "put") and (body == "any") != ("413" in operation["responses"]):
        yield f"{name}: 413 belongs to what takes a body of any length; the text says 64 KiB for the others"
    for status, response in operation["responses"].items():
        problem = "application/problem+json" in resolve(api, response).get("content", {})
        if problem and status != "4XX" and status not in statuses:
            yield f"{name}: api/request/problems.def has no status {status}"
    if ("x-stability" in operation) != path.startswith(("/v1/pools", "/v1/tasks")):
        yield f"{name}: x-stability belongs to pools and tasks, and to nothing else"


def marked(node, name=""):
    """The names of all schemas' properties that are marked."""
    if isinstance(node, list):
        return set().union(*(marked(item, name) for item in node))
    if not isinstance(node, dict):
        return set()
    found = {name} if "x-stability" in node else set()
    return found.union(*(marked(item, key) for key, item in node.items()))


def main():
    api = yaml.safe_load((ROOT / "openapi/openapi.yaml").read_text())
    coded = coded_routes()
    described = {(m.upper(), path) for path, item in api["paths"].items() for m in METHODS if m in item}
    wrong = [f"{m} {p}: a route that openapi.yaml does not describe" for m, p in sorted(coded.keys() - described)]
    wrong += [f"{m} {p}: described, but no route" for m, p in sorted(described - coded.keys())]
    statuses = problem_statuses()
    for path, item in api["paths"].items():
        for method in METHODS:
            if method in item:
                wrong += check_operation(api, path, item, method, statuses,
                                         *coded.get((method.upper(), path), ("", "small")))
    if marked(api["components"]["schemas"]) != STREAMS:
        wrong.append(f"x-stability is due to the parameters {sorted(STREAMS)}")
    if api["info"]["version"] != sys.argv[1]:
        wrong.append(f"info.version is {api['info']['version']}, the program's is {sys.argv[1]}")
    print("\n".join(wrong) or f"{len(coded)} routes, all described and nothing else")
    sys.exit(bool(wrong))


main()
