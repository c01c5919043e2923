#!/usr/bin/env python3
"""Which sentences mean the same: sentences.py URL MODEL_FILE

MODEL_FILE is MiniLM-L6 as ONNX. Words become numbers by a tokenizer; these three sentences have been through it.
"""
import json
import sys
import urllib.request

import numpy as np

SENTENCES = {
    "A man is eating food.": [101, 1037, 2158, 2003, 5983, 2833, 1012, 102],
    "A man is eating a meal.": [101, 1037, 2158, 2003, 5983, 1037, 7954, 1012, 102],
    "The stock market fell today.": [101, 1996, 4518, 3006, 3062, 2651, 1012, 102],
}


def call(method, url, body, kind):
    with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}, method=method)) as reply:
        return json.load(reply)


def embed(url, ids):
    """The mean over the words, of length 1."""
    def tensor(name, data):
        return {"name": name, "shape": [1, len(ids)], "datatype": "INT64", "data": data}
    inputs = [tensor("input_ids", ids), tensor("attention_mask", [1] * len(ids)), tensor("token_type_ids", [0] * len(ids))]
    reply = call("POST", url + "/v2/models/minilm/infer", json.dumps({"inputs": inputs}).encode(), "application/json")
    out = reply["outputs"][0]
    mean = np.array(out["data"]).reshape(out["shape"])[0].mean(axis=0)
    return mean / np.linalg.norm(mean)


def main():
    url, path = sys.argv[1:]
    with open(path, "rb") as file:
        call("PUT", url + "/v1/models/minilm", file.read(), "application/octet-stream")
    vectors = [embed(url, ids) for ids in SENTENCES.values()]
    for i, first in enumerate(SENTENCES):
        for k, second in list(enumerate(SENTENCES))[i + 1:]:
            print(f"{vectors[i] @ vectors[k]:5.2f}  {first}  {second}")


if __name__ == "__main__":
    main()
