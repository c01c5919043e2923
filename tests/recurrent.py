"""NumPy's word on the recurrent operators: {operator: (formula, calls, result, scale)}, as tests/operators.py
has them for the others."""
import numpy as np


def same(name, _):
    return name


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_cell(x, h, gates, weights):
    i, f, g, o = np.split(gates(x, 0) + gates(h[0], 1), 4, axis=-1)
    c = sigmoid(f) * h[1] + sigmoid(i) * np.tanh(g)
    out = sigmoid(o) * np.tanh(c)
    return (out @ weights.T if weights is not None else out), c


def gru_cell(x, h, gates, _):
    (r, z, n), (hr, hz, hn) = np.split(gates(x, 0), 3, axis=-1), np.split(gates(h[0], 1), 3, axis=-1)
    z = sigmoid(z + hz)
    return ((1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h[0],)


def plain_cell(curve):
    return lambda x, h, gates, _: (curve(gates(x, 0) + gates(h[0], 1)),)


def network(cell):
    def run(input, hx, params, has_biases, num_layers, bidirectional, batch_first, dropout=0, train=False):
        states = [np.array(one) for one in (hx if isinstance(hx, list) else [hx])]
        x = np.swapaxes(input, 0, 1) if batch_first else input
        params, ways = list(params), 1 + bidirectional
        n = len(params) // (num_layers * ways)
        for layer in range(num_layers):
            results = []
            for way in range(ways):
                own, at = [params.pop(0) for _ in range(n)], layer * ways + way

                def gates(v, which, own=own):
                    return v @ own[which].T + (own[2 + which] if has_biases else 0)
                h, out = tuple(one[at] for one in states), np.zeros((*x.shape[:2], states[0].shape[2]))
                for t in range(len(x))[::-1 if way else 1]:
                    h = cell(x[t], h, gates, own[-1] if n % 2 else None)
                    out[t] = h[0]
                for one, last in zip(states, h):
                    one[at] = last
                results.append(out)
            x = np.concatenate(results, axis=2)
        return (np.swapaxes(x, 0, 1) if batch_first else x, *states)
    return run


def calls(gates, states):
    """Of one layer, of two in both directions, and without biases."""
    def one(steps, batch, inputs, hidden, layers, ways, biases, first, shown=None):
        width = shown or hidden
        shapes = {"input": (batch, steps, inputs) if first else (steps, batch, inputs)}
        state = (layers * ways, batch)
        shapes |= {"hx.0": (*state, width), "hx.1": (*state, hidden)} if states == 2 else {"hx": (*state, hidden)}
        each = []
        for layer in range(layers):
            for _ in range(ways):
                each += [(gates * hidden, width * ways if layer else inputs), (gates * hidden, width)]
                each += [(gates * hidden,)] * 2 * biases + ([(shown, hidden)] if shown else [])
        shapes |= {f"params.{i}": shape for i, shape in enumerate(each)}
        return shapes, {"has_biases": biases, "num_layers": layers, "dropout": 0.0, "train": False,
                        "bidirectional": ways == 2, "batch_first": first}
    yield one(3, 2, 5, 4, 1, 1, True, False)
    yield one(2, 3, 4, 3, 2, 2, True, True)
    yield one(1, 17, 33, 40, 1, 2, False, False)
    if states == 2:
        yield one(2, 2, 5, 6, 1, 2, True, False, 3)


def sums(cell):
    """The scale: of a cell that squeezes, what its gates add up, and 1 for what they make; relu keeps its sums."""
    def run(x, h, gates, weights):
        if cell is relu_cell:
            return (gates(x, 0) + gates(h[0], 1) + 1,)
        added = gates(x, 0) + gates(np.minimum(h[0], 1), 1)
        out = 1 + np.max(np.reshape(added, (len(x), -1, h[-1].shape[-1])), axis=1)
        return (out if weights is None else out @ weights.T), *(state + out for state in h[1:])
    return network(run)


relu_cell = plain_cell(lambda x: np.maximum(x, 0))
CELLS = {"lstm.input": (lstm_cell, 4, 2), "gru.input": (gru_cell, 3, 1), "rnn_tanh.input": (plain_cell(np.tanh), 1, 1),
         "rnn_relu.input": (relu_cell, 1, 1)}
TABLE = {name: (network(cell), list(calls(gates, states)), same, sums(cell))
         for name, (cell, gates, states) in CELLS.items()}
