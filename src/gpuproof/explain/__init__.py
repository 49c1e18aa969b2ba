"""Knows what error texts of drivers, CUDA, frameworks and AWS mean, and what to type next.

A log is scanned in one pass for the texts of `data/*.csv` (`scan.py`); what is found is made concrete by what is known
of the machine, the job and the account (`advice/`), and what only followed from something else is folded under it
(`fold.py`). `explain_lines` is pure; `read.py` and `machine.py` touch the world.
"""

from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Explanation
from gpuproof.explain.report import Report, explain_lines, make_report

__all__ = ["Context", "Explanation", "Report", "explain_lines", "make_report"]
