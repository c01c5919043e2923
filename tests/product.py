"""NumPy's word on the products that have something added or fixed ranks: {operator: (formula, calls,
result, scale)}, as tests/operators.py has them for the others."""
import numpy as np


def same(name, _):
    return name


def added(a, b, kind=np.matmul):
    """beta * self + alpha * (a x b); self is not looked at when beta is 0."""
    def run(self, beta=1, alpha=1, **factors):
        product = alpha * kind(factors[a], factors[b])
        return product if beta == 0 else beta * self + product
    return run


def absolute(formula):
    """The scale: everything without its sign."""
    return lambda beta=1, alpha=1, **how: formula(beta=abs(beta), alpha=abs(alpha), **how)


def two(formula, name):
    return lambda self, **how: formula(self, how[name])


ADDMM, BADDBMM, ADDMV = added("mat1", "mat2"), added("batch1", "batch2"), added("mat", "vec")
MM, BMM, MV, DOT = two(np.matmul, "mat2"), two(np.matmul, "mat2"), two(np.matmul, "vec"), two(np.dot, "tensor")
OUTER = two(np.outer, "vec2")


def factors(first, second, *shapes):
    return [({first: a, second: b}, {}) for a, b in shapes]


def with_self(first, second, *calls):
    return [({"self": self, first: a, second: b}, how) for self, a, b, how in calls]


def einsum(equation, tensors, path=None):
    return np.einsum(equation, *tensors)


def summed(*calls):
    return [({f"tensors.{i}": shape for i, shape in enumerate(shapes)}, {"equation": equation})
            for equation, *shapes in calls]


TABLE = {
    "einsum": (einsum, summed(
        ("ij,jk->ik", (5, 7), (7, 40)), ("bqhd,bkhd->bhqk", (2, 5, 3, 8), (2, 6, 3, 8)), ("ii->i", (9, 9)), ("ii", (9, 9)),
        ("ij->ji", (5, 40)), ("i,i->i", (300,), (300,)), ("...ij,...jk", (2, 1, 5, 7), (4, 7, 3)), ("i , j -> j i", (5,), (70,)),
        ("a,ab,bc,cd->d", (5,), (5, 6), (6, 7), (7, 3)), ("bij,bj->bi", (3, 40, 5), (3, 5)), ("ijk->", (3, 4, 50)),
        ("...,...->...", (5, 1), (5, 7)), ("ij,kl->jl", (3, 4), (5, 6)), ("aij,bij,cij->abc", (2, 3, 4), (3, 3, 4), (2, 3, 4)),
        ("bi,bj,b->ji", (40, 3), (40, 5), (40,)), ("ij,jk->ik", (0, 7), (7, 4)), ("ij,jk->ik", (5, 0), (0, 4)),
        ("a...b->b...a", (2, 3, 4, 5)), ("iij,jk,k", (3, 3, 40), (40, 5), (5,))), same, einsum),
    "mm": (MM, factors("self", "mat2", ((5, 7), (7, 3)), ((64, 33), (33, 70)), ((3, 0), (0, 4))), same, MM),
    "bmm": (BMM, factors("self", "mat2", ((2, 5, 7), (2, 7, 3)), ((3, 30, 33), (3, 33, 40)), ((0, 2, 3), (0, 3, 4))),
            same, BMM),
    "mv": (MV, factors("self", "vec", ((5, 7), (7,)), ((64, 133), (133,)), ((3, 0), (0,))), same, MV),
    "dot": (DOT, factors("self", "tensor", ((7,), (7,)), ((133,), (133,)), ((0,), (0,))), same, DOT),
    "vdot": (two(np.dot, "other"), factors("self", "other", ((7,), (7,)), ((133,), (133,))), same, two(np.dot, "other")),
    "ger": (OUTER, factors("self", "vec2", ((7,), (3,)), ((40,), (133,))), same, OUTER),
    "outer": (OUTER, factors("self", "vec2", ((7,), (3,)), ((40,), (133,)), ((0,), (2,))), same, OUTER),
    "addmm": (ADDMM, with_self("mat1", "mat2", ((3,), (5, 7), (7, 3), {}), ((64, 70), (64, 33), (33, 70), {"beta": 2}),
                               ((5, 1), (5, 20), (20, 3), {"alpha": 3, "beta": -1}), ((), (5, 2), (2, 3), {"beta": 0}),
                               ((1, 40), (30, 0), (0, 40), {"beta": 3})), same, absolute(ADDMM)),
    "baddbmm": (BADDBMM, with_self("batch1", "batch2", ((2, 5, 3), (2, 5, 7), (2, 7, 3), {"beta": 2, "alpha": -1}),
                                   ((1, 30, 1), (3, 30, 33), (3, 33, 40), {}), ((4, 1, 6), (4, 2, 3), (4, 3, 6), {})),
                same, absolute(BADDBMM)),
    "addmv": (ADDMV, with_self("mat", "vec", ((5,), (5, 7), (7,), {"beta": -2}), ((1,), (64, 133), (133,), {"alpha": 2})),
              same, absolute(ADDMV)),
}
NAMES = set(TABLE)
