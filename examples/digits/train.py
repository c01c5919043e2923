#!/usr/bin/env python3
"""Makes digits.onnx: train.py [FILE.onnx]. A scanned digit of 8 x 8 grey values, 0 to 16, in; which digit it is, out.

The network has 64 inputs, 24 hidden units with relu, and 10 outputs. It learns from the first 1,500 of the 1,797
pictures that scikit-learn ships (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI, CC BY 4.0), by
300 steps of Adam over all of them, from numbers drawn with a fixed seed; the rest say how good it is. The same file
comes out each time. Needs numpy, onnx and scikit-learn.
"""
import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1" # sums in one order

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

LEARNT, HIDDEN, STEPS, RATE = 1500, 24, 300, 0.01


def hidden(weights, x):
    return np.maximum(x @ weights[0] + weights[1], 0)


def scores(weights, x):
    return hidden(weights, x) @ weights[2] + weights[3]


def gradients(weights, x, wanted):
    """Of the mean cross entropy."""
    h, y = hidden(weights, x), scores(weights, x)
    share = np.exp(y - y.max(1, keepdims=True))
    wrong = (share / share.sum(1, keepdims=True) - wanted) / len(x)
    back = wrong @ weights[2].T * (h > 0)
    return [x.T @ back, back.sum(0), h.T @ wrong, wrong.sum(0)]


def train(images, digits):
    """The weights and biases of both layers, by Adam."""
    random = np.random.RandomState(1)
    weights = [random.randn(64, HIDDEN) / 8, np.zeros(HIDDEN), random.randn(HIDDEN, 10) / 5, np.zeros(10)]
    mean, square = ([np.zeros_like(w) for w in weights] for _ in range(2))
    wanted = np.eye(10)[digits]
    for step in range(1, STEPS + 1):
        for w, m, s, g in zip(weights, mean, square, gradients(weights, images, wanted)):
            g += 3e-3 * w # keeps them small
            m += 0.1 * (g - m)
            s += 0.001 * (g * g - s)
            w -= RATE * (m / (1 - 0.9 ** step)) / (np.sqrt(s / (1 - 0.999 ** step)) + 1e-8)
    return [w.astype(np.float32) for w in weights]


def model(weights):
    constants = dict(zip(("hidden.weight", "hidden.bias", "out.weight", "out.bias"), weights))
    constants["white"] = np.float32(16)
    nodes = [helper.make_node("Flatten", ["image"], ["flat"]),
             helper.make_node("Div", ["flat", "white"], ["grey"]),
             helper.make_node("Gemm", ["grey", "hidden.weight", "hidden.bias"], ["sums"]),
             helper.make_node("Relu", ["sums"], ["hidden"]),
             helper.make_node("Gemm", ["hidden", "out.weight", "out.bias"], ["scores"]),
             helper.make_node("ArgMax", ["scores"], ["digit"], axis=1, keepdims=0),
             helper.make_node("Softmax", ["scores"], ["share"], axis=1)]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 8, 8])],
                              [helper.make_tensor_value_info("digit", TensorProto.INT64, ["n"]),
                               helper.make_tensor_value_info("share", TensorProto.FLOAT, ["n", 10])],
                              [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="train.py")


def main():
    data = load_digits()
    images, digits = data.data / 16, data.target
    weights = train(images[:LEARNT], digits[:LEARNT])
    right = scores(weights, images[LEARNT:]).argmax(1) == digits[LEARNT:]
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.onnx")
    with open(path, "wb") as file:
        file.write(model(weights).SerializeToString())
    print(f"{path}: {right.sum()} of {len(right)} pictures that it has not seen are right")


if __name__ == "__main__":
    main()
