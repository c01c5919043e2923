"""NumPy as the judge of cells that are made of their gates, with any activations: Paddle's formulas."""
import itertools

import numpy as np

CURVES = {"sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "identity": lambda x: x}


def same(name, _):
    return name


def lstm_gates(gates, c=None, peephole=(0, 0, 0), act_gate="sigmoid", act_cand="tanh", act_cell="tanh"):
    gate, cand, cell = CURVES[act_gate], CURVES[act_cand], CURVES[act_cell]
    new, i, f, o = np.split(gates, 4, axis=-1)
    before = np.zeros(new.shape) if c is None else c
    c = cand(new) * gate(i + peephole[0] * before) + before * gate(f + peephole[1] * before)
    return {"h": cell(c) * gate(o + peephole[2] * c), "c": c}


def gru_reset(gates, h, act_gate="sigmoid"):
    return CURVES[act_gate](np.split(gates, 3, axis=-1)[1]) * h


def gru_update(gates, h=None, act_gate="sigmoid", act_cand="tanh"):
    u, _, s = np.split(gates, 3, axis=-1)
    u = CURVES[act_gate](u)
    return u * CURVES[act_cand](s) + (1 - u) * (0 if h is None else h)


def scale_of_update(gates, h=0, **how):
    """On absolute values: 1 - u has the size of both."""
    u, _, s = np.split(gates, 3, axis=-1)
    return (1 + u) * (1 + s + h)


def scale_of_lstm(gates, c=0, peephole=(0, 0, 0), **how):
    """Of the gates and the state as if no curve flattened them."""
    new, i, f, o = np.split(1 + gates, 4, axis=-1)
    c = new * (i + peephole[0] * c) + c * (f + peephole[1] * c)
    return {"h": (1 + c) * (o + peephole[2] * c), "c": c}


def cell_calls():
    """Every triple of curves, with a state with and without peepholes; some without a state."""
    for i, curves in enumerate(itertools.product(CURVES, repeat=3)):
        how = dict(zip(("act_gate", "act_cand", "act_cell"), curves))
        yield {"gates": (2, 12), "c": (2, 3), "peephole": (3, 3)}, how
        yield {"gates": (12,), "c": (3,)}, how
        if i % 5 == 0:
            yield {"gates": (12,), "peephole": (3, 3)}, how
            yield {"gates": (12,)}, how
    yield {"gates": (2, 3, 1200), "c": (2, 3, 300), "peephole": (3, 300)}, {}


UPDATES = [(shapes, {"act_gate": gate, "act_cand": cand}) for gate, cand in itertools.product(CURVES, repeat=2)
           for shapes in ({"gates": (2, 9), "h": (2, 3)}, {"gates": (9,)})] + [({"gates": (2, 900), "h": (2, 300)}, {})]
RESETS = [({"gates": (3, 15), "h": (3, 5)}, {"act_gate": gate}) for gate in CURVES] + [({"gates": (2, 900), "h": (2, 300)}, {})]
TABLE = {"lstm_gates": (lstm_gates, list(cell_calls()), same, scale_of_lstm), "gru_reset": (gru_reset, RESETS, same),
         "gru_update": (gru_update, UPDATES, same, scale_of_update)}
