"""The file does not parse, so the job ends at its first line, after the instance has started and is paid for.

A notebook's cells are read one by one, and one broken cell does not keep the others from being checked. Lines that
IPython alone understands (`%`, `!`, `?`) are no error in a notebook; templates that are not Python yet are left alone.

Bad:

    # file: train.py
    import tensorflow as tf
    // __global__ void add(int *a, int *b)  # <-

Bad: Python 2

    print "loss", loss  # <-

Good:

    print("loss")

Quiet: magics in a notebook

    # file: train.ipynb
    %pip install torch
    !nvidia-smi
    # %%
    files = !ls
    import torch

Quiet: a template that Cookiecutter fills in

    from {{ cookiecutter.package }} import train
"""

from tarmac.check.project import Project
from tarmac.check.rule import Hits, Rule
from tarmac.check.span import Unit
from tarmac.findings import Severity

rule = Rule("E901", "syntax-error", Severity.ERROR)


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if unit.kind in ("python", "notebook", "cell-file", "markdown"):
        for broken in project.broken(unit):
            what = "cell" if unit.kind == "notebook" else "file"
            yield rule.hit(broken.span, f"This {what} does not parse: {broken.message}.")
