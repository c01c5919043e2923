#!/usr/bin/env python3
"""Reads a line of text in a picture: read_line.py URL MODEL_FILE PICTURE.npy

MODEL_FILE is PaddleOCR's recogniser as ONNX, which has its characters with it. PICTURE.npy is the line, 48 pixels
high, [48, width, 3] in UINT8, blue first.
"""
import json
import re
import sys
import urllib.request

import numpy as np


def call(method, url, body, headers):
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method)) as reply:
        return json.load(reply)


def characters_of(file):
    """The value of the metadata entry 'character': a field of its own behind the name, one character a line."""
    at = re.search(rb"\x0a\x09character\x12", file).end()
    size = shift = 0
    while True: # a number in groups of seven bits
        size |= (file[at] & 127) << shift
        shift += 7
        at += 1
        if file[at - 1] < 128:
            break
    return ["", *file[at:at + size].decode().split("\n"), " "] # 0 stands for nothing


def main():
    url, path, picture = sys.argv[1:]
    with open(path, "rb") as file:
        file = file.read()
    call("PUT", url + "/v1/models/ppocr_rec", file, {"Content-Type": "application/octet-stream"})
    x = (np.load(picture).astype(np.float32) / 255 - 0.5) / 0.5
    x = np.ascontiguousarray(x.transpose(2, 0, 1)[None])
    head = json.dumps({"inputs": [{"name": "x", "shape": x.shape, "datatype": "FP32",
                                   "parameters": {"binary_data_size": x.nbytes}}]}).encode()
    out = call("POST", url + "/v2/models/ppocr_rec/infer", head + x.tobytes(),
               {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))})["outputs"][0]
    best = np.array(out["data"]).reshape(out["shape"])[0].argmax(axis=1)
    characters = characters_of(file)
    print("".join(characters[k] for k, before in zip(best, [0, *best]) if k and k != before))


if __name__ == "__main__":
    main()
