"""NumPy as the judge of sgd, adam and adamw: the formulas of PyTorch's optimizers, on all rows or on some."""
import numpy as np

from index import Below, Narrow


class Positive(tuple):
    """The shape of a tensor of numbers without signs, as averages of squares are."""


def same(name, _):
    return name


def by_rows(step):
    """Of the rows alone that are named, with all their gradients added up."""
    def formula(self, grad, rows=None, maximize=False, **rest):
        states = {name: value for name, value in rest.items() if isinstance(value, np.ndarray)}
        numbers = {name: value for name, value in rest.items() if name not in states}
        grad = -grad if maximize else grad
        if rows is None:
            return step(self, grad, **states, **numbers)
        touched = np.unique(rows)
        added = np.stack([grad[rows == row].sum(0) for row in touched])
        made = step(self[touched], added, **{name: state[touched] for name, state in states.items()}, **numbers)
        out = {}
        for name, value in made.items():
            whole = {"self": self, **states}.get(name)
            if np.shape(value) == (0,): # not asked for
                out[name] = value
                continue
            out[name] = np.zeros(self.shape) if whole is None else whole.copy()
            out[name][touched] = value
        return out
    return formula


@by_rows
def sgd(self, grad, momentum_buffer=None, lr=0.001, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
    grad, buffer = grad + weight_decay * self, np.zeros(0) if momentum_buffer is None else momentum_buffer
    if momentum:
        buffer = grad if momentum_buffer is None else momentum * momentum_buffer + (1 - dampening) * grad
        grad = grad + momentum * buffer if nesterov else buffer
    return {"self": self - lr * grad, "momentum_buffer": buffer}


def adam(decoupled):
    def step(self, grad, exp_avg, exp_avg_sq, step, max_exp_avg_sq=None, lr=0.001, beta1=0.9, beta2=0.999, weight_decay=0.0,
             eps=1e-8):
        if decoupled:
            self = self * (1 - lr * weight_decay)
        else:
            grad = grad + weight_decay * self
        m, v = beta1 * exp_avg + (1 - beta1) * grad, beta2 * exp_avg_sq + (1 - beta2) * grad**2
        most = v if max_exp_avg_sq is None else np.maximum(max_exp_avg_sq, v)
        first, second = (1 - beta1**step, 1 - beta2**step) if step else (1, 1)
        return {"self": self - lr / first * m / (np.sqrt(most) / np.sqrt(second) + eps), "exp_avg": m, "exp_avg_sq": v,
                "max_exp_avg_sq": np.zeros(0) if max_exp_avg_sq is None else most}
    return by_rows(step)


def states(shape, *names):
    return {name: Positive(shape) if name.endswith("sq") else shape for name in names}


SGD = [({"self": (37,), "grad": (37,)}, {"lr": 0.5}), ({"self": (), "grad": ()}, {"weight_decay": 0.25, "maximize": True}),
       ({"self": (3, 5), "grad": (3, 5)}, {"momentum": 0.5}),
       ({"self": (3, 5), "grad": (3, 5), "momentum_buffer": (3, 5)}, {}),
       ({"self": (300,), "grad": (300,), "momentum_buffer": (300,)},
        {"lr": 0.25, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.125, "nesterov": True, "maximize": True}),
       ({"self": (6, 5), "grad": (9, 5), "momentum_buffer": (6, 5), "rows": Below((9,), 5)}, {"momentum": 0.5}),
       ({"self": (6, 2, 3), "grad": (2, 2, 3), "rows": Narrow((2,), 6)}, {"lr": 2.0, "momentum": 0.5, "weight_decay": 0.5})]
ADAM = [({"self": (37,), "grad": (37,), **states((37,), "exp_avg", "exp_avg_sq")}, {"step": 1, "lr": 0.5}),
        ({"self": (300,), "grad": (300,), **states((300,), "exp_avg", "exp_avg_sq", "max_exp_avg_sq")},
         {"step": 3, "lr": 0.25, "beta1": 0.5, "beta2": 0.75, "weight_decay": 0.5, "eps": 0.125, "maximize": True}),
        ({"self": (2, 3), "grad": (2, 3), **states((2, 3), "exp_avg", "exp_avg_sq")}, {"step": 0, "lr": 0.5}),
        ({"self": (6, 5), "grad": (9, 5), **states((6, 5), "exp_avg", "exp_avg_sq", "max_exp_avg_sq"), "rows": Below((9,), 5)},
         {"step": 2, "weight_decay": 0.25}),
        ({"self": (6, 2, 3), "grad": (2, 2, 3), **states((6, 2, 3), "exp_avg", "exp_avg_sq"), "rows": Narrow((2,), 6)},
         {"step": 2**40, "lr": 0.125})]
TABLE = {"sgd": (sgd, SGD, same, "all"), "adam": (adam(False), ADAM, same, "all"), "adamw": (adam(True), ADAM, same, "all")}
