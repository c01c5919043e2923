"""A client of tensord. NumPy arrays go in and come out: Client("http://localhost:8080")("line")(x). Needs numpy alone.

A Client has one connection and is for one thread at a time.
"""
import http.client
import json
import urllib.parse

import numpy as np

KINDS = {"BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2", "INT32": "<i4",
         "INT64": "<i8", "FP16": "<f2", "BF16": "<f4", "FP32": "<f4", "FP64": "<f8"}  # BF16, which NumPy lacks, is float32 here


class Error(Exception):
    """What the server has refused: its sentence, and its HTTP status as .status."""


class Client:
    def __init__(self, url="http://localhost:8080", timeout=300, token=None, context=None):
        """token: the secret of one, where the server asks for it. context: the ssl.SSLContext of an https URL."""
        at = urllib.parse.urlsplit(url if "//" in url else "http://" + url)
        self.connection = http.client.HTTPSConnection(at.hostname, at.port, timeout=timeout, context=context) \
            if at.scheme == "https" else http.client.HTTPConnection(at.hostname, at.port, timeout=timeout)
        self.prefix = at.path.rstrip("/")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def __call__(self, name):
        """The model of that name, which is a function of its inputs."""
        return Model(self, name)

    def put(self, name, path):
        """Sends a model's file (.onnx, .pt2, .json) to the server, and gives back the model."""
        with open(path, "rb") as file:
            self.ask("PUT", f"/v1/models/{urllib.parse.quote(name)}", file.read(), {"Content-Type": "application/octet-stream"})
        return Model(self, name)

    def ask(self, method, path, body=None, headers=None):
        """The reply's JSON, and the bytes behind it."""
        for fresh in (self.connection.sock is None, True):  # one that has been silent may be closed: then once more
            try:
                self.connection.request(method, self.prefix + path, body, {**self.headers, **(headers or {})})
                reply = self.connection.getresponse()
                break
            except (ConnectionError, http.client.CannotSendRequest):
                self.connection.close()
                if fresh:
                    raise
        data = reply.read()
        size = int(reply.headers.get("Inference-Header-Content-Length", len(data)))
        said = json.loads(data[:size]) if "json" in reply.headers.get("Content-Type", "") or size < len(data) else {}
        if reply.status >= 300:
            error = Error(said.get("detail", f"{reply.status} {reply.reason}"))
            error.status = reply.status
            raise error
        return said, memoryview(data)[size:]


class Model:
    def __init__(self, client, name):
        self.client, self.path = client, f"/v2/models/{urllib.parse.quote(name)}"
        said = client.ask("GET", self.path)[0]
        self.inputs, self.outputs = said["inputs"], said["outputs"]  # names, types and shapes, -1 for any size

    def __call__(self, *arrays, parameters=None, **named):
        """Inputs by position or name. The output, or a dict of them by name where there are several."""
        if len(arrays) > len(self.inputs):
            raise TypeError(f"{len(arrays)} inputs for a model of {len(self.inputs)}")
        given = dict(zip((port["name"] for port in self.inputs), arrays))
        if twice := given.keys() & named.keys():
            raise TypeError(f"{min(twice)}: given by position and by name")
        types = {port["name"]: port["datatype"] for port in self.inputs}
        head, blobs = [], []
        for name, value in {**given, **named}.items():
            value, datatype = np.asarray(value), types.get(name, "FP32")  # a name that there is not, the server refuses
            shape = list(value.shape)
            if datatype == "BYTES":  # texts, each behind its length
                texts = [str(text).encode() for text in value.ravel()]
                blob = np.frombuffer(b"".join(len(text).to_bytes(4, "little") + text for text in texts), np.uint8)
            else:
                blob = value.astype(KINDS[datatype], casting="same_kind")
            if datatype == "BF16":
                bits = blob.view(np.uint32)
                blob = np.where(np.isnan(blob), 0x7fc0, (bits + (bits >> 16 & 1) + 0x7fff) >> 16).astype("<u2")
            blobs.append(blob.tobytes())
            head.append({"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(blobs[-1])}})
        head = json.dumps({"inputs": head, "parameters": {"binary_data_output": True, **(parameters or {})}}).encode()
        said, data = self.client.ask("POST", self.path + "/infer", head + b"".join(blobs),
                                     {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))})
        results = {}
        for out in said["outputs"]:
            shape = out["shape"]
            if out["datatype"] == "BYTES":
                results[out["name"]] = np.array(out["data"], object).reshape(shape)
                continue
            size = out["parameters"]["binary_data_size"]
            if out["datatype"] == "BF16":
                array = (np.frombuffer(data[:size], "<u2").astype(np.uint32) << 16).view(np.float32).reshape(shape)
            else:
                array = np.frombuffer(data[:size], KINDS[out["datatype"]]).reshape(shape).copy()  # to be written to, too
            results[out["name"]], data = array, data[size:]
        return results.popitem()[1] if len(results) == 1 else results
