"""A boolean hyperparameter is passed to the script as `--name True`, but a `store_true` flag takes no value.

`parse_args()` ends the job with status 2, "unrecognized arguments: True". `parse_known_args()` ignores the value: the
flag is then set even if the job passes `False`.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"amp": True},  # <-
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()

Bad: set although the job passes False

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"amp": False},  # <-
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args, _ = parser.parse_known_args()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"amp": True},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", type=lambda text: text.lower() == "true", default=False)
    args = parser.parse_args()

Quiet: the value is ignored, and the flag should be set

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"amp": True}).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--amp", action="store_true")
    args, _ = parser.parse_known_args()

Quiet: flags of the Hugging Face parser take a value

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"fp16": True}).fit()
    # file: train.py
    from transformers import HfArgumentParser, TrainingArguments

    (training_args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import command_line
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.arguments import flag_of, passed_hyperparameters, receives_hyperparameters
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import has_positionals, reads_argv
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM124", "store-true-flag", Severity.ERROR, when="link")

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    if script is None or not receives_hyperparameters(job) or calls_named(script, "HfArgumentParser"):
        return
    line = command_line(script)
    if not reads_argv(script) or has_positionals(line):
        return
    for name, value in passed_hyperparameters(job).items():
        argument = line.by_flag(flag_of(name))
        if argument is None or argument.action not in ("store_true", "store_false"):
            continue
        word = _word(value)
        if word is None:
            continue
        unset = word.lower() in _FALSE
        if line.strict:
            message = f'ends the script with "unrecognized arguments: {word}"'
        elif unset:
            message = "sets the flag anyway"
        else:
            continue
        yield rule.hit(
            job.where(value),
            f"`{name}` is passed to `{job.script_title}` as `{flag_of(name)} {word}`; there it is a {argument.action} flag, "
            f"which {message}.",
            remedy=f'In the script: parser.add_argument("{flag_of(name)}", type=lambda text: text.lower() == "true").'
            + (" Or remove it from the hyperparameters." if unset else ""),
        )


def _word(value: Value) -> str | None:
    """The value after the flag on the command line; None if it is unknown."""
    if not value.is_known or not isinstance(value.value, (bool, int, str)):
        return None
    word = str(value.value)
    return word if word.lower() in (*_TRUE, *_FALSE) else None
