"""NumPy as the judge of operators over sequences of different lengths, one behind the other."""
import numpy as np

from index import Below


class Lengths(Below):
    """How many of bound steps each has."""
    def draw(self, rng):
        return np.diff(np.sort([0, *rng.integers(0, self.bound + 1, self[0] - 1), self.bound]))


def same(name, _):
    return name


def parts(x, lengths):
    return [x] if lengths is None else np.split(x, np.cumsum(lengths)[:-1])


def seq_pool(self, lengths=None, mode="sum"):
    by = {"sum": lambda n: 1, "mean": lambda n: n, "avg": lambda n: n, "sqrt": np.sqrt}[mode]
    return np.stack([part.sum(0) / by(max(len(part), 1)) for part in parts(self, lengths)])


def crf_decode(emissions, transitions, lengths=None):
    paths, scores = [], []
    for part in parts(emissions, lengths):
        if not len(part):
            scores.append(0)
            continue
        best, ways = transitions[0] + part[0], []
        for step in part[1:]:
            all_ways = best[:, None] + transitions[2:]
            ways.append(all_ways.argmax(0))
            best = all_ways.max(0) + step
        best = best + transitions[1]
        path = [best.argmax()]
        for way in ways[::-1]:
            path.append(way[path[-1]])
        paths += path[::-1]
        scores.append(best.max())
    return {"path": np.array(paths, int), "scores": np.array(scores, float)}


POOLED = [({"self": (6, 5)}, {"mode": mode}) for mode in ("sum", "mean", "avg", "sqrt")]
POOLED += [({"self": (9, *more), "lengths": Lengths((n,), 9)}, {"mode": mode})
           for mode in ("sum", "mean", "sqrt") for n, more in ((4, (7,)), (1, ()), (12, (2, 3)))]
POOLED += [({"self": (3, 300), "lengths": Lengths((2,), 3)}, {"mode": "sqrt"})]
DECODED = [({"emissions": (9, tags), "transitions": (tags + 2, tags), **more}, {}) for tags, more in (
    (1, {}), (5, {}), (5, {"lengths": Lengths((12,), 9)}), (17, {"lengths": Lengths((3,), 9)}), (40, {}))]
TABLE = {"seq_pool": (seq_pool, POOLED, same, seq_pool),
         "crf_decode": (crf_decode, DECODED, lambda name, _: ("INT64", name), "all")}
