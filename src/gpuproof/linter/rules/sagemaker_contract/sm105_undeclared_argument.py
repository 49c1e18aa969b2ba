"""Each hyperparameter of a job becomes an argument of its script, and `parse_args()` fails on undeclared arguments.

The framework containers start `train.py --epochs 10 --batch_size 32`, with the names exactly as in the job: argparse
does not match `--batch_size` with a declared `--batch-size`. It exits with status 2, "unrecognized arguments", after
the instance has started and the data has been downloaded. The TensorFlow estimator of SDK v2 adds `--model_dir`
unless it is created with `model_dir=False`. Scripts that use `parse_known_args()` are not affected.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32}
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()  # <-

Bad: TensorFlow adds model_dir

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()  # <-

Fixed:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_known_args()[0]

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=8)
    args = parser.parse_args()

Bad: the dataclasses of transformers

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 3, "batch_size": 32},
    ).fit()
    # file: train.py
    from dataclasses import dataclass
    from transformers import HfArgumentParser

    @dataclass
    class Arguments:
        epochs: int = 3
        train_batch_size: int = 8

    (arguments,) = HfArgumentParser(Arguments).parse_args_into_dataclasses()  # <-

Quiet: they include those of transformers itself

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"num_train_epochs": 3},
    ).fit()
    # file: train.py
    from dataclasses import dataclass
    from transformers import HfArgumentParser, TrainingArguments

    @dataclass
    class Arguments:
        train_batch_size: int = 8

    own, theirs = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()

Quiet: unknown arguments are ignored

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32}).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    args, rest = parser.parse_known_args()

Quiet: the parser's arguments are defined elsewhere

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32}).fit()
    # file: train.py
    import argparse
    from toolbox import add_common_arguments

    parser = argparse.ArgumentParser()
    add_common_arguments(parser)
    args = parser.parse_args()
"""

import ast
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.evaluation.evaluate import command_line
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import (
    accepts_flag,
    flag_of,
    passed_hyperparameters,
    reads_command_line,
    receives_hyperparameters,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule("SM105", "undeclared-argument", Severity.ERROR, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.script is None or not receives_hyperparameters(job):
        return
    yield from _unknown_to_dataclasses(job, job.script)
    line = command_line(job.script)
    if not line.strict or not reads_command_line(job.script):
        return
    names = [*passed_hyperparameters(job), *(["model_dir"] if _adds_model_dir(job) else [])]
    missing = [flag_of(name) for name in dict.fromkeys(names) if not accepts_flag(line, flag_of(name))]
    if not missing:
        return
    flags = [flag for argument in line.arguments for flag in argument.flags]
    near = {flag: get_close_matches(flag, flags, 1, 0.8) for flag in missing}
    meant = "; ".join(f"it has {found[0]} for {flag}" for flag, found in near.items() if found)
    by_itself = " (which the TensorFlow estimator adds)" if missing[-1] == "--model_dir" else ""
    span = job.script.span(line.parses[0])
    edits = () if meant else _known_only(span)
    yield rule.hit(
        span,
        f"{job.title} passes {', '.join(missing)}{by_itself}, which {job.script_title} does not declare: it exits with "
        f"status 2, unrecognized arguments{f' ({meant})' if meant else ''}.",
        remedy=f"Declare {missing[0]} with add_argument under exactly this name, or ignore unknown arguments: "
        "args, _ = parser.parse_known_args().",
        fix=Fix("Ignore unknown arguments", edits, safe=True) if edits else None,
    )


def _unknown_to_dataclasses(job: JobDefinition, script: Module) -> Hits:
    """Hyperparameters that none of the dataclasses of transformers' HfArgumentParser has."""
    for parser in calls_to(script, "transformers.HfArgumentParser"):
        parses = calls_named(script, "parse_args_into_dataclasses")
        declared = _fields(script, parser.expression("dataclass_types", 0))
        if declared is None or len(parses) != 1 or "return_remaining_strings" in parses[0].keywords:
            continue
        if parses[0].node.args or "args" in parses[0].keywords:
            continue
        names = [name.replace("-", "_") for name in passed_hyperparameters(job)]
        missing = [name for name in names if not any(field.startswith(name) for field in declared)]
        if missing:
            near = get_close_matches(missing[0], declared, 1, 0.6)
            yield rule.hit(
                parses[0].span,
                f"{job.title} passes {', '.join(f'--{name}' for name in missing)}, which no dataclass of {job.script_title} "
                "has: ValueError, some specified arguments are not used.",
                remedy=f"Pass {near[0]} instead." if near else f"Add a field {missing[0]} to the dataclass.",
            )


def _fields(script: Module, written: ast.expr | None) -> list[str] | None:
    """The fields of the dataclasses of an HfArgumentParser; None if not all of them are classes of the file."""
    classes = written.elts if isinstance(written, (ast.Tuple, ast.List)) else [written]
    found: list[str] = []
    for name in classes:
        owner = script.classes.get(name.id) if isinstance(name, ast.Name) else None
        if owner is None or owner.bases:
            return None
        found += [
            statement.target.id
            for statement in owner.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]
    return found


def _known_only(span: Span) -> tuple[Edit, ...]:
    """`parser.parse_args()` as `parser.parse_known_args()[0]`."""
    line = span.unit.lines[span.line - 1]
    start = line.find("parse_args", span.column - 1)
    if span.line != span.end_line or start < 0 or start >= span.end_column:
        return ()
    end = Span(span.unit, span.end_line, span.end_column, span.end_line, span.end_column)
    name = Span(span.unit, span.line, start + 1, span.line, start + 1 + len("parse_args"))
    return Edit(name, "parse_known_args"), Edit(end, "[0]")


def _adds_model_dir(job: JobDefinition) -> bool:
    """Source: sagemaker 2.257.7, `TensorFlow.hyperparameters`: `model_dir` is added unless it is False."""
    if job.source != "sagemaker-v2" or job.api.rpartition(".")[2] != "TensorFlow":
        return False
    given = job.argument("model_dir")
    return given.is_absent or (given.is_known and given.value is not False)
