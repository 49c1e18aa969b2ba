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

Bad: click's options have the names that are written

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32}).fit()
    # file: train.py
    import click

    @click.command()
    @click.option("--batch-size", default=8)
    def main(batch_size):
        print(batch_size)

    if __name__ == "__main__":
        main()  # <-

Bad: the parser has a parent, and a helper adds arguments

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"lr": 0.1, "epochs": 3, "warmup": 9},
    ).fit()
    # file: options.py
    import argparse

    base = argparse.ArgumentParser(add_help=False)
    base.add_argument("--lr", type=float)

    def add_training(parser):
        group = parser.add_argument_group("training")
        group.add_argument("--epochs", type=int)
        return parser

    def parse():
        parser = add_training(argparse.ArgumentParser(parents=[base]))
        return parser.parse_args()
    # file: train.py
    from options import parse

    args = parse()  # <-

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

Quiet: the parser's method has another name

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"batch_size": 32}).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--batch_size", type=int)
    args = parser.parse_args()

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

from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.jobs.arguments import adds_model_dir, passed_arguments
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_arguments import ScriptArguments, script_arguments
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

_HELP = ("-h", "--help")

rule = Rule("SM105", "undeclared-argument", Severity.ERROR, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.script is None:
        return
    passed, accepted = passed_arguments(job), script_arguments(job.script)
    if passed is None or accepted is None or not accepted.strict or not accepted.complete:
        return
    if accepted.library == "argparse" and any(argument.is_positional for argument in accepted.arguments):
        return
    missing = [flag for flag in passed.flags if accepted.find(flag) is None and flag not in _HELP]
    if missing:
        yield from _undeclared(job, accepted, missing)


def _undeclared(job: JobDefinition, accepted: ScriptArguments, missing: list[str]) -> Hits:
    assert job.script is not None
    flags = [name for argument in accepted.arguments for name in argument.names]
    near = {flag: get_close_matches(flag, flags, 1, 0.8) for flag in missing}
    meant = "; ".join(f"it has {found[0]} for {flag}" for flag, found in near.items() if found)
    by_itself = ""
    if missing[-1] == "--model_dir" and adds_model_dir(job):
        by_itself = " (which the TensorFlow estimator adds)"
    span = job.script.span(accepted.node)
    edits = () if meant or accepted.library != "argparse" else _known_only(span)
    error = {"click": "no such option", "typer": "no such option", "fire": "could not consume the argument"}
    yield rule.hit(
        span,
        f"{job.title} passes {', '.join(missing)}{by_itself}, which {job.script_title} does not declare: it exits with "
        f"status 2, {error.get(accepted.library, 'unrecognized arguments')}{f' ({meant})' if meant else ''}."
        if accepted.library != "HfArgumentParser"
        else f"{job.title} passes {', '.join(missing)}, which no dataclass of {job.script_title} has: ValueError, some "
        f"specified arguments are not used{f' ({meant})' if meant else ''}.",
        remedy=_remedy(accepted, missing[0], near[missing[0]]),
        fix=Fix("Ignore unknown arguments", edits, safe=True) if edits else None,
    )


def _remedy(accepted: ScriptArguments, flag: str, near: list[str]) -> str:
    match accepted.library:
        case "argparse":
            return (
                f"Declare {flag} with add_argument under exactly this name, or ignore unknown arguments: "
                "args, _ = parser.parse_known_args()."
            )
        case "HfArgumentParser":
            return f"Pass {near[0][2:]} instead." if near else f"Add a field {flag[2:]} to the dataclass."
        case "click" | "typer":
            written = near[0] if near else flag
            return f'Declare the name that the job passes: "{flag}", or pass {written[2:]} in the job.'
        case _:
            return f"Add a parameter {flag[2:]} to the function."


def _known_only(span: Span) -> tuple[Edit, ...]:
    """`parser.parse_args()` as `parser.parse_known_args()[0]`."""
    line = span.unit.lines[span.line - 1]
    start = line.find("parse_args", span.column - 1)
    if span.line != span.end_line or start < 0 or start >= span.end_column:
        return ()
    end = Span(span.unit, span.end_line, span.end_column, span.end_line, span.end_column)
    name = Span(span.unit, span.line, start + 1, span.line, start + 1 + len("parse_args"))
    return Edit(name, "parse_known_args"), Edit(end, "[0]")
