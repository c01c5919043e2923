"""NumPy's word on the convolutions beside conv2d: {operator: (formula, calls, result, scale)}, as
tests/operators.py has them for the others."""
import itertools

import numpy as np


def same(name, _):
    return name


def each(value, dims):
    value = [value] if isinstance(value, int) else list(value)
    return value * dims if len(value) == 1 else value


def slices(starts, sizes, steps):
    return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, steps))


def grouped(per_group, channels, groups):
    """(group, output channel of it, input channel of it)"""
    return itertools.product(range(groups), range(per_group), range(channels))


def plain(image, weight, stride, before, after, dilation, groups):
    image = np.pad(image, ((0, 0), (0, 0), *zip(before, after)))
    outs, per_group, *kernel = weight.shape
    size = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(image.shape[2:], kernel, stride, dilation)]
    out = np.zeros((image.shape[0], outs, *size), np.result_type(image, weight))
    for at in itertools.product(*map(range, kernel)):
        under = image[(slice(None), slice(None), *slices([i * d for i, d in zip(at, dilation)], size, stride))]
        for g, o, c in grouped(outs // groups, per_group, groups):
            o += g * (outs // groups)
            out[:, o] += under[:, g * per_group + c] * weight[(o, c, *at)]
    return out


def turned(image, weight, stride, padding, dilation, output_padding, groups):
    channels, per_group, *kernel = weight.shape
    size = [(n - 1) * s + d * (k - 1) + 1 + more
            for n, k, s, d, more in zip(image.shape[2:], kernel, stride, dilation, output_padding)]
    out = np.zeros((image.shape[0], groups * per_group, *size), np.result_type(image, weight))
    for at in itertools.product(*map(range, kernel)):
        reached = slices([i * d for i, d in zip(at, dilation)], image.shape[2:], stride)
        for g, o, c in grouped(per_group, channels // groups, groups):
            c += g * (channels // groups)
            out[(slice(None), g * per_group + o, *reached)] += image[:, c] * weight[(c, o, *at)]
    return out[(slice(None), slice(None), *(slice(p, n - p) for p, n in zip(padding, size)))]


def convolution(input, weight, bias=None, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1):
    dims = weight.ndim - 2
    image = input if input.ndim == dims + 2 else input[None]
    stride, dilation, more = each(stride, dims), each(dilation, dims), each(output_padding, dims)
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, weight.shape[2:])]
        before, after = [n // 2 for n in total], [n - n // 2 for n in total]
    else:
        before = after = each(padding, dims)
    if transposed:
        out = turned(image, weight, stride, before, dilation, more, groups)
    else:
        out = plain(image, weight, stride, before, after, dilation, groups)
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * dims)
    return out if input.ndim == dims + 2 else out[0]


def transposed(**how):
    return convolution(transposed=True, **how)


def shapes(input, weight, bias=True, outs=None):
    some = {"input": input, "weight": weight}
    return {**some, "bias": (outs or weight[0],)} if bias else some


def channels_last(input, **how):
    return convolution(np.moveaxis(input, -1, 1), **how).swapaxes(1, 2).swapaxes(2, 3)


LINES = [(shapes((2, 3, 19), (5, 3, 4)), {"stride": 2, "padding": 3}), (shapes((4, 20), (6, 2, 3), False), {"groups": 2})]
ROOMS = [(shapes((2, 3, 5, 6, 7), (4, 3, 2, 3, 1)), {"stride": [2, 1, 3], "padding": [1, 2, 0]}),
         (shapes((4, 5, 6, 7), (6, 2, 3, 2, 2), False), {"groups": 2, "dilation": [1, 2, 1]})]
SAME = {"padding": "same"}
TABLE = {
    "conv1d": (convolution, LINES, same, convolution),
    "conv1d.padding": (convolution, [(shapes((2, 3, 19), (5, 3, 4)), SAME)], same, convolution),
    "conv2d.padding": (convolution, [(shapes((2, 3, 9, 8), (5, 3, 4, 3)), {**SAME, "dilation": 2}),
                                     (shapes((3, 9, 8), (5, 3, 4, 3)), {"padding": "valid", "stride": 2}),
                                     (shapes((1, 24, 11, 12), (25, 24, 3, 3)), SAME)], same, convolution),
    "conv2d_channels_last": (channels_last, [
        (shapes((2, 9, 8, 3), (5, 3, 4, 3)), {"padding": [2, 1], "stride": 2}),
        (shapes((1, 7, 6, 4), (6, 2, 3, 3), False), {"groups": 2, "dilation": 2}),
        (shapes((1, 11, 12, 24), (25, 24, 3, 3)), {"padding": 1}),
        (shapes((1, 9, 1, 40), (20, 40, 3, 1)), {"padding": [1, 0]}),
        (shapes((1, 4, 14, 128), (100, 128, 3, 3)), {"padding": 1})], same, channels_last),
    "conv3d": (convolution, ROOMS, same, convolution),
    "conv3d.padding": (convolution, [(shapes((1, 2, 4, 5, 6), (3, 2, 2, 3, 1)), SAME)], same, convolution),
    "conv_transpose1d": (transposed, [(shapes((2, 3, 9), (3, 5, 4), outs=5), {"stride": 2, "padding": 1, "output_padding": 1}),
                                      (shapes((4, 9), (4, 3, 2), False), {"groups": 2, "dilation": 3})], same, transposed),
    "conv_transpose2d.input": (transposed, [
        (shapes((2, 6, 5, 7), (6, 5, 2, 2), outs=5), {"stride": 2}),
        (shapes((4, 6, 5), (4, 3, 3, 2), outs=6), {"stride": [3, 1], "padding": 1, "output_padding": [2, 0], "groups": 2})],
        same, transposed),
    "conv_transpose3d.input": (transposed, [(shapes((1, 3, 3, 4, 5), (3, 5, 2, 3, 2), outs=5),
                                             {"stride": [2, 1, 1], "padding": [0, 1, 0]})], same, transposed),
    "convolution": (convolution, [
        (shapes((2, 3, 9, 8), (4, 3, 3, 3)), {"stride": [1], "padding": [1, 1], "dilation": [1], "transposed": False,
                                              "output_padding": [0], "groups": 1}),
        (shapes((1, 4, 9), (4, 3, 3), outs=3), {"stride": [2], "padding": [0], "dilation": [1], "transposed": True,
                                                "output_padding": [1], "groups": 1}),
        (shapes((1, 24, 11, 12), (25, 24, 3, 3)), {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False,
                                                   "output_padding": [0, 0], "groups": 1})], same, convolution),
}
NAMES = {name.split(".")[0] for name in TABLE} - {"conv2d"}
