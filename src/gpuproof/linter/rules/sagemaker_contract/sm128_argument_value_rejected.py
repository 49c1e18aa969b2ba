"""The job passes a value that the script's parser rejects: it ends before the first step.

`type=int` does not accept `0.5` or `True`, `type=float` no text, and `choices=[...]` only what it lists: argparse exits with
status 2, after the instance has started and the data is downloaded.

Bad: not one of the choices

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"model": "resnet101"},  # <-
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["resnet18", "resnet50"], default="resnet18")
    args = parser.parse_args()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"model": "resnet50"},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["resnet18", "resnet50"], default="resnet18")
    args = parser.parse_args()

Bad: not a whole number

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        hyperparameters={"warmup-steps": 0.1, "batch-size": "32"},  # <-
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--warmup-steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=8)
    args, _ = parser.parse_known_args()

Quiet: several values

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"layers": "1 2"}).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, nargs="+")
    args, _ = parser.parse_known_args()

Quiet: a type of the script's own

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"size": "64x64"}).fit()
    # file: train.py
    import argparse

    def size(text):
        return tuple(map(int, text.split("x")))

    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=size)
    args, _ = parser.parse_known_args()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.argparse_model import Argument
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.syntax_index import argument_node
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.arguments import passed_arguments
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_arguments import script_arguments
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM128", "argument-value-rejected", Severity.ERROR, when="link")

_TYPES = {"int": int, "float": float}


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.script is None or job.script is job.module:
        return
    passed, accepted = passed_arguments(job), script_arguments(job.script)
    if passed is None or accepted is None:
        return
    for flag, value in passed.flags.items():
        found = accepted.find(flag)
        argument = found.declared if found is not None else None
        word = _word(value)
        if argument is None or word is None or argument.action != "store":
            continue
        if argument_node(argument.node, "nargs") is not None:
            continue
        if (problem := _problem(argument, word)) is not None:
            yield rule.hit(
                job.where(value, job.hyperparameters, job.container_arguments),
                f"The job passes `{flag} {word}`, but `{job.script_title}` {problem}: it ends at once, with status 2.",
                remedy=f"Pass a value that {flag} accepts, or change its declaration in the script.",
            )


def _problem(argument: Argument, word: str) -> str | None:
    """Why argparse rejects a value, as the end of a sentence; None if it accepts it, or if that is unknown."""
    convert = _TYPES.get(argument.type or "")
    value: object = word
    if convert is not None:
        try:
            value = convert(word)
        except ValueError:
            return f"declares it with type={argument.type}"
    elif argument_node(argument.node, "type") is not None and argument.type != "str":
        return None
    choices = evaluate(argument.module, argument_node(argument.node, "choices")).items
    if choices is None or not choices or any(not choice.is_known for choice in choices):
        return None
    options = [choice.value for choice in choices]
    return None if value in options else f"only accepts {', '.join(map(str, options))}"


def _word(value: Value) -> str | None:
    """The word that the container passes for a hyperparameter; None if it is not known."""
    if not value.is_known or not isinstance(value.value, (str, int, float)):
        return None
    return str(value.value)
