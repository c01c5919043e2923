#!/usr/bin/env python3
"""NumPy in float64 on random calls: the formulas of operators.py beyond their fixed calls."""
import operators
import service
from judging import Outside


class NumPy(Outside):
    def result(self, op, tensors, parameters):
        judge = operators.JUDGES[op]
        exact, _ = operators.exact_and_scale(judge, tensors, parameters)
        datatypes = operators.each_of(judge.result(judge.datatype, parameters), exact)
        return {name: operators.narrow(datatype, one) for (name, one), datatype in zip(exact.items(), datatypes)}


del Outside # which unittest would run as well
if __name__ == "__main__":
    service.main()
