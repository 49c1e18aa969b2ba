"""The file does not parse, so the job ends at its first line, after the instance has started and is paid for.

A notebook's cells are read one by one, and one broken cell does not keep the others from being checked. Lines that
IPython alone understands (`%`, `!`, `?`) are no error in a notebook; templates that are not Python yet are left alone.
A `gpuproof.yaml` is read as `gpuproof run` reads it.

Bad:

    # file: train.py
    import tensorflow as tf
    // __global__ void add(int *a, int *b)  # <-

Bad: Python 2

    print "loss", loss  # <-

Bad: a job description that nothing can run

    # file: gpuproof.yaml
    entry_point: train.py
    instance_typ: ml.g5.xlarge  # <-
    # file: train.py
    print("trains")

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

from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule
from gpuproof.check.source.span import Unit
from gpuproof.findings import Severity

rule = Rule("E901", "syntax-error", Severity.ERROR)


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if unit.kind in ("python", "notebook", "cell-file", "markdown"):
        for broken in project.broken(unit):
            what = "cell" if unit.kind == "notebook" else "file"
            severity = rule.severity if broken.certain else Severity.NOTE
            yield rule.hit(broken.span, f"This {what} does not parse: {broken.message}.", severity=severity)
    elif unit.kind == "gpuproof":
        from gpuproof.check.jobs.gpuproof_yaml import problems  # pydantic: only where a gpuproof.yaml is

        for line, message in problems(unit):
            yield rule.hit(unit.span(line), f"{message[0].upper()}{message[1:]}.")
