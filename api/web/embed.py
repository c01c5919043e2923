#!/usr/bin/env python3
"""embed.py OUT FILE...: files as the C table td_assets (api/web/web.h), compressed; a .yaml as .json too, and
book.json, the list of the .md with their titles.

Of the JSON, as of the YAML, the last member of the last object of the last member is where schemas are
written behind it, and the end of the paths where paths are (api/openapi/openapi.c): its three closing
braces are left out. What all operators' operations have like the one of /v1/ops/{op} is a text of its own.
"""
import gzip
import hashlib
import json
import pathlib
import sys

import yaml

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
         ".js": "text/javascript; charset=utf-8", ".yaml": "application/yaml", ".json": "application/json",
         ".md": "text/markdown; charset=utf-8"}


def open_ended(text):
    api = yaml.safe_load(text)
    assert list(api)[-2:] == ["paths", "components"] and list(api["components"])[-1] == "schemas", "they come last"
    return json.dumps(api, separators=(",", ":"), ensure_ascii=False, default=str)[:-3].encode()


def operation(text):
    run = yaml.safe_load(text)["paths"]["/v1/ops/{op}"]["post"]
    return json.dumps({"tags": ["calls"], "security": run["security"], "parameters": run["parameters"], "responses": run["responses"]},
                      separators=(",", ":"))[1:-1].encode()


files = {path.name: path.read_bytes() for path in map(pathlib.Path, sys.argv[2:])}
files |= {name.removesuffix("yaml") + "json": open_ended(data) for name, data in files.items() if name.endswith(".yaml")}
files |= {name.removesuffix(".yaml") + "-operation.json": operation(data) for name, data in files.items()
          if name.endswith(".yaml")}
files["book.json"] = json.dumps([{"name": name, "title": data.decode().split("\n")[0].removeprefix("# ")}
                                 for name, data in sorted(files.items()) if name.endswith(".md")]).encode()
with open(sys.argv[1], "w") as out:
    out.write('#include "api/web/web.h"\n')
    for i, data in enumerate(files.values()):
        packed = gzip.compress(data, 9, mtime=0)
        out.write(f"static const unsigned char packed_{i}[] = {{{','.join(map(str, packed))}}};\n")
    out.write("const struct td_asset td_assets[] = {\n")
    for i, (name, data) in enumerate(files.items()):
        tag = hashlib.sha256(data).hexdigest()[:16]
        out.write(f'{{"{name}", "{TYPES[pathlib.Path(name).suffix]}", "W/\\"{tag}\\"", packed_{i}, '
                  f"sizeof packed_{i}, {len(data)}}},\n")
    out.write("{0}};\n")
