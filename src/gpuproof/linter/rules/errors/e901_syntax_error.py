"""The file does not parse, so the job fails at its first line, after the instance has started and is billed.

The cells of a notebook are parsed one by one; a broken cell does not stop the others from being checked. Lines that
only IPython understands (`%`, `!`, `?`, `pip install` without `%`) are not errors in a notebook, and templates that are
not Python yet are skipped. `gpuproof.yaml` is validated as by `gpuproof run`; CloudFormation and Terraform templates and
JSON or YAML requests are parsed.

Bad:

    # file: train.py
    import tensorflow as tf
    // __global__ void add(int *a, int *b)  # <-

Bad: Python 2

    print "loss", loss  # <-

Bad: an invalid job description

    # file: gpuproof.yaml
    entry_point: train.py
    instance_typ: ml.g5.xlarge  # <-
    # file: train.py
    print("trains")

Bad: a comma before the closing bracket, which JSON does not allow

    # file: job.json
    {
        "TrainingJobName": "train",
        "ResourceConfig": {"InstanceType": "ml.g5.xlarge"},
    }  # <-

Bad: an f-string of Python 3.12, in a job with an earlier version

    # file: train.py
    metrics = {"loss": 0.5}
    print(f"loss {metrics["loss"]}")  # <-
    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="role",
        instance_type="ml.g5.xlarge",
        instance_count=1,
        framework_version="2.3",
        py_version="py311",
    ).fit()

Good:

    print("loss")

Quiet: an f-string of Python 3.12

    metrics = {"loss": 0.5}
    print(f"loss {metrics["loss"]}")

Quiet: magics in a notebook

    # file: train.ipynb
    %pip install torch
    !nvidia-smi
    # %%
    files = !ls
    import torch

Quiet: a CloudFormation template that Jinja still has to generate

    # file: template.yaml
    Resources:
    {% for name in notebooks %}
      {{ name }}:
        Type: AWS::SageMaker::NotebookInstance
    {% endfor %}

Quiet: a Cookiecutter template

    from {{ cookiecutter.package }} import train
"""

import re
from functools import partial

from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.nested_quotes import FIRST_VERSION, nested_quotes
from gpuproof.linter.source.span import Unit

rule = Rule("E901", "syntax-error", Severity.ERROR)


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if unit.kind in ("python", "notebook", "cell-file", "markdown"):
        for broken in project.workspace.syntax_errors(unit):
            what = "cell" if unit.kind == "notebook" else "file"
            severity = rule.severity if broken.certain else Severity.NOTE
            yield rule.hit(broken.span, f"This {what} does not parse: {broken.message}.", severity=severity)
    elif unit.kind in ("cloudformation", "terraform", "request", "kubernetes", "compose"):
        from gpuproof.linter.templates.problems import problems as template_problems

        for line, message in template_problems(unit):
            yield rule.hit(unit.span(line), f"This file does not parse: {message}.")
    elif unit.kind == "gpuproof":
        from gpuproof.linter.jobs.readers.gpuproof_yaml import (
            problems,  # imports pydantic, only needed for a gpuproof.yaml
        )

        for line, message in problems(unit):
            end = "" if message.endswith((".", "?")) else "."
            yield rule.hit(unit.span(line), f"{message[0].upper()}{message[1:]}{end}")


@rule.job
def check_version(job: JobDefinition, _: Project) -> Hits:
    """The f-strings that the Python of a job rejects."""
    version = (job.py_version.text or "") if job.py_version.is_sure else ""
    if not re.fullmatch(r"py3\d+", version) or (3, int(version[3:])) >= FIRST_VERSION or job.script is None:
        return
    for module in local_modules(job.script):
        unit = module.unit
        if "{" not in unit.source:
            continue
        # Once for all jobs: it goes through every character.
        found = module.loader.cached("nested quotes", unit, partial(nested_quotes, unit.source))
        for offset, text in found[:1]:
            before = unit.source[:offset]
            line, column = before.count("\n") + 1, offset - before.rfind("\n")
            yield rule.hit(
                unit.span(line, column, line, column + len(text)),
                f"Only Python 3.12 and later accept this string inside an f-string: SyntaxError with `{version}` ({job.title}).",
                remedy='Use other quotes inside the f-string, and no backslash, or py_version="py312".',
            )
