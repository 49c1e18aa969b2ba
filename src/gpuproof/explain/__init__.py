"""Explains error messages of drivers, CUDA, frameworks and AWS, and suggests the next command.

`scan.py` searches a log in one pass for the messages in `data/*.csv`; `exceptions.py` explains any other exception by
its kind and its traceback (`traceback.py`). `advice/` adds details about the machine, the job
and the account. `root_cause.py` groups errors under the one that caused them. `explain_lines` does no I/O; only
`sources.py` (log files) and `local_context.py` (this machine) do.
"""

from gpuproof.explain.context import Context
from gpuproof.explain.explanation import Explanation
from gpuproof.explain.report import Report, explain_lines, make_report

__all__ = ["Context", "Explanation", "Report", "explain_lines", "make_report"]
