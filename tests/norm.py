"""NumPy's word on the norms: {operator: (formula, calls, result, scale)}, as tests/operators.py has
them for the others."""
import numpy as np

import gradients


def same(name, _):
    return name


def around(x, axes, weight, bias, shape, eps, mean=None, var=None):
    """(x - mean) / sqrt(var + eps) * weight + bias, parameters in that shape; and what it took."""
    x = x.astype(np.float64)
    mean = x.mean(axis=axes, keepdims=True) if mean is None else mean.reshape(shape)
    var = x.var(axis=axes, keepdims=True) if var is None else var.reshape(shape)
    weight = 1 if weight is None else np.reshape(weight, shape)
    bias = 0 if bias is None else np.reshape(bias, shape)
    rstd = 1 / np.sqrt(var + eps)
    return (x - mean) * rstd * weight + bias, mean, rstd


def batch(input, training, eps, momentum=None, weight=None, bias=None, running_mean=None, running_var=None,
          cudnn_enabled=None):
    shape = (1, -1) + (1,) * (input.ndim - 2)
    axes = (0, *range(2, input.ndim))
    if training:
        running_mean = running_var = None
    return around(input, axes, weight, bias, shape, eps, running_mean, running_var)


def batch_norm(**how):
    return batch(**how)[0]


def native_batch_norm(training=False, **how):
    out, mean, rstd = batch(training=training, **how)
    return (out, mean.ravel(), rstd.ravel()) if training else (out, np.zeros(0), np.zeros(0))


def instance_norm(input, use_input_stats, **how):
    if not use_input_stats:
        return batch_norm(input=input, training=False, **how)
    return np.concatenate([batch_norm(input=one[None], training=True, **how) for one in input])


def groups(input, group, eps, weight, bias):
    n, channels = input.shape[:2]
    x = input.reshape(n, group, -1)
    out, mean, rstd = around(x, (2,), None, None, None, eps)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    out = out.reshape(input.shape) * (1 if weight is None else weight.reshape(shape))
    return out + (0 if bias is None else bias.reshape(shape)), mean[..., 0], rstd[..., 0]


def group_norm(input, num_groups, eps=1e-5, weight=None, bias=None):
    return groups(input, num_groups, eps, weight, bias)[0]


def native_group_norm(input, N, C, HxW, group, eps, weight=None, bias=None):
    out, mean, rstd = groups(input.reshape(N, C, HxW), group, eps, weight, bias)
    return out.reshape(input.shape), mean, rstd


def rms_norm(input, normalized_shape, weight=1, eps=None):
    axes = tuple(range(-len(normalized_shape), 0))
    squares = np.square(input.astype(np.float64)).mean(axis=axes, keepdims=True)
    return input / np.sqrt(squares + (2.0**-23 if eps is None else eps)) * weight


def general(formula):
    """The scale: as in layer_norm's judge, no result is larger than a few deviations; statistics
    are their own."""
    def run(**how):
        out = formula(**how)
        out, *rest = out if isinstance(out, tuple) else (out,)
        weight, bias = (how[name] if how.get(name) is not None else 0 for name in ("weight", "bias"))
        largest = 8 * np.max(weight, initial=1) + np.max(bias, initial=0)
        largest = largest + np.max(np.abs(out), initial=0)
        return (np.full(out.shape, largest), *(np.abs(one) + 1 for one in rest)) if rest else np.full(out.shape, largest)
    return run


def distances(x1, x2, p, compute_mode=None):
    apart = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
    if p in (0, np.inf):
        return (apart != 0).sum(axis=-1) if p == 0 else apart.max(axis=-1, initial=0)
    return np.sum(apart**p, axis=-1)**(1 / p)


def distances_of_pairs(self, p=2.0):
    return distances(self, self, p)[np.triu_indices(len(self), 1)]


LAST = {"momentum": 0.1, "eps": 50.0}
FOUND = {"momentum": 0.1, "eps": 1e-5}
ABSENT = {"weight": None, "bias": None}
NO_RUN = {"running_mean": None, "running_var": None}
FULL = {"input": (3, 4, 5, 6), "weight": (4,), "bias": (4,)}
RUN = {"running_mean": (4,), "running_var": (4,)}
FLAT = {"input": (9, 4), "running_mean": (4,), "running_var": (4,)}
GIVEN = [({**FULL, **RUN}, LAST), (FLAT, {**ABSENT, **LAST}), ({"input": (0, 4, 2), **RUN}, {**ABSENT, **LAST})]
OWN = [(FULL, {**NO_RUN, **FOUND}), ({"input": (9, 4), "weight": (4,)}, {"bias": None, **NO_RUN, **FOUND})]
SHAPE = {"normalized_shape": [16]}
NATIVE = [({"input": (2, 6, 5), "weight": (6,), "bias": (6,)}, {"N": 2, "C": 6, "HxW": 5, "group": 3, "eps": 1e-5}),
          ({"input": (4, 3, 2, 2)}, {**ABSENT, "N": 4, "C": 3, "HxW": 4, "group": 1, "eps": 0.5})]


def more(calls, **parameters):
    return [(shapes, {**how, **parameters}) for shapes, how in calls]


CUDNN = {"cudnn_enabled": False}
TRAINED = more(OWN, training=True)
INFERRED = more(GIVEN, training=False)
TABLE = {
    "batch_norm": (batch_norm, more(TRAINED + INFERRED, **CUDNN), same, general(batch_norm)),
    "native_batch_norm": (native_batch_norm, TRAINED + INFERRED, same, general(native_batch_norm)),
    "_native_batch_norm_legit": (native_batch_norm, more(GIVEN[:1], training=True) + INFERRED, same,
                                 general(native_batch_norm)),
    "_native_batch_norm_legit.no_stats": (
        native_batch_norm, [(shapes, {k: v for k, v in how.items() if k not in NO_RUN}) for shapes, how in TRAINED],
        same, general(native_batch_norm)),
    "_native_batch_norm_legit_no_training": (native_batch_norm, GIVEN, same, general(native_batch_norm)),
    "instance_norm": (instance_norm, more(more(OWN[:1], use_input_stats=True) + more(GIVEN, use_input_stats=False),
                                          **CUDNN), same, general(instance_norm)),
    "group_norm": (group_norm, [({"input": (2, 6, 5), "weight": (6,), "bias": (6,)}, {"num_groups": 3}),
                                ({"input": (3, 4, 2, 5)}, {"num_groups": 4, "eps": 0.5}),
                                ({"input": (5, 8), "weight": (8,)}, {"num_groups": 2})], same, general(group_norm)),
    "native_group_norm": (native_group_norm, NATIVE, same, general(native_group_norm)),
    "rms_norm": (rms_norm, [({"input": (5, 16), "weight": (16,)}, {**SHAPE, "eps": 1e-6}),
                            ({"input": (2, 3, 16)}, {**SHAPE, "eps": 0.1})], same, general(rms_norm)),
    "native_group_norm_backward": (gradients.group_norm, gradients.GROUPS, same, gradients.group_norm_scale),
    "_cdist_forward": (distances, [({"x1": x1, "x2": x2}, {"p": p, "compute_mode": None}) for x1, x2, p in (
        ((5, 7), (40, 7), 2.0), ((2, 1, 3, 100), (3, 4, 100), 1.0), ((4, 3), (2, 3), 0.0), ((9, 5), (9, 5), 1e999),
        ((3, 2), (5, 2), 2.5), ((3, 4), (5, 4), 0.5), ((33, 90), (70, 90), 2.0))], same),
    "cdist": (lambda x1, x2, p=2: distances(x1, x2, p, None), [({"x1": (5, 7), "x2": (40, 7)}, {}), ({"x1": (2, 1, 3, 9), "x2": (3, 4, 9)}, {"p": 1.0})], same),
    "pdist": (distances_of_pairs, [({"self": (40, 3)}, {"p": 1.0}), ({"self": (5, 7)}, {})], same),
    "_pdist_forward": (distances_of_pairs, [({"self": (40, 3)}, {"p": 1.0}), ({"self": (5, 7)}, {}),
                                            ({"self": (9, 70)}, {"p": 3.0}), ({"self": (1, 4)}, {})], same),
}
NAMES = {name.split(".")[0] for name in TABLE}
