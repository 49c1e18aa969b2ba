"""Operators that run on the GPU: `log.py` (a dispatch mode) records each with its class, FLOPs and traffic.

`results.py` repeats results that are known by the shapes of the arguments, `classes.py` says what an operator is, `finite_values.py` and
`sequences.py` answer what depends on values.
"""

from gpuproof.trace.pytorch.operators.log import OperatorLog

__all__ = ["OperatorLog"]
