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

Good:

    print("loss")

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

from gpuproof.findings import Severity
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
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
