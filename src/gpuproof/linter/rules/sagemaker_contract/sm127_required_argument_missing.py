"""The script requires an argument that the job does not pass: it ends before the first step.

argparse exits with status 2, "the following arguments are required", and so do click, typer, Fire and the dataclasses of
transformers' HfArgumentParser. On SageMaker that is after the instance has started, the image is pulled and the data is
downloaded. The framework containers pass the hyperparameters of the job, `set_hyperparameters(...)` and the ranges of a
tuner as arguments, and nothing else: a positional argument never gets a value.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"epochs": 10},  # <-
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, required=True)
    args = parser.parse_args()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"epochs": 10, "learning-rate": 0.1},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, required=True)
    args = parser.parse_args()

Bad: a positional argument

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", instance_type="ml.g5.xlarge").fit()  # <-
    # file: train.py
    import argparse

    def main():
        parser = argparse.ArgumentParser()
        parser.add_argument("data")
        args, _ = parser.parse_known_args()

    if __name__ == "__main__":
        main()

Bad: the arguments of a processing job

    # file: launch.py
    from sagemaker.pytorch.processing import PyTorchProcessor

    processor = PyTorchProcessor(instance_type="ml.g5.xlarge", instance_count=1)
    processor.run(code="embed.py", arguments=["--batch-size", "64"])  # <-
    # file: embed.py
    import click

    @click.command()
    @click.option("--batch-size", type=int, default=8)
    @click.option("--input", required=True)
    def main(batch_size, input):
        print(batch_size, input)

    if __name__ == "__main__":
        main()

Bad: a dataclass

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        hyperparameters={"output_dir": "/opt/ml/model"},  # <-
    ).fit()
    # file: train.py
    import sys
    from dataclasses import dataclass, field
    from transformers import HfArgumentParser, TrainingArguments

    @dataclass
    class DataArguments:
        dataset_name: str = field(metadata={"help": "the dataset"})
        max_length: int = 512

    parser = HfArgumentParser((DataArguments, TrainingArguments))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        data_args, training_args = parser.parse_json_file(sys.argv[1])
    else:
        data_args, training_args = parser.parse_args_into_dataclasses()

Quiet: a tuner passes it

    # file: launch.py
    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import ContinuousParameter, HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge")
    estimator.set_hyperparameters(epochs=10)
    tuner = HyperparameterTuner(estimator, "loss", {"lr": ContinuousParameter(0.001, 0.1)})
    tuner.fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    args = parser.parse_args()

Quiet: the hyperparameters come from elsewhere

    # file: launch.py
    from sagemaker.pytorch import PyTorch
    from settings import load_hyperparameters

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 3, **load_hyperparameters()},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    args = parser.parse_args()

Quiet: it is required only where the container sets no default

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse
    import os

    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_TRAIN"), required="SM_CHANNEL_TRAIN" not in os.environ)
    args = parser.parse_args()
"""

from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.jobs.arguments import PassedArguments, passed_arguments
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_arguments import (
    ScriptArgument,
    ScriptArguments,
    script_arguments,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM127", "required-argument-missing", Severity.ERROR, when="link")


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.script is None or job.script is job.module:
        return
    passed, accepted = passed_arguments(job), script_arguments(job.script)
    if passed is None or accepted is None or not passed.complete:
        return
    given = {accepted.find(flag) for flag in passed.flags}
    words = len(passed.positionals)
    missing: list[ScriptArgument] = []
    for argument in accepted.arguments:
        if not argument.required or argument in given:
            continue
        # A value after a flag without one may also be a word of its own.
        if argument.is_positional and (words or _sets_switch(accepted, passed)):
            words -= 1
            continue
        missing.append(argument)
    if not missing:
        return
    names = [argument.names[-1] for argument in missing]
    unknown = [flag for flag in passed.flags if accepted.find(flag) is None]
    near = get_close_matches(names[0], unknown, 1, 0.6)
    meant = f" ({passed.by.lower()} has {near[0]})" if near else ""
    verb = "requires" if len(names) == 1 else "requires the arguments"
    positional = missing[0].is_positional
    name = names[0].lstrip("-")
    yield rule.hit(
        job.where(job.hyperparameters, job.container_arguments),
        f"`{job.script_title}` {verb} {', '.join(f'`{word}`' for word in names)}, which the job does not pass{meant}: it "
        "ends at once, with status 2.",
        remedy=f'Declare it as a flag with a default in the script: "--{name}".'
        if positional and job.kind == "training"
        else f'Add "{name}" to the hyperparameters, or give it a default in the script.'
        if job.container_arguments.is_absent and passed.by == "The job"
        else f"Add {names[0]} to the arguments, or give it a default in the script.",
    )


def _sets_switch(accepted: ScriptArguments, passed: PassedArguments) -> bool:
    """Whether the word after a flag may be a positional argument, because the flag takes no value."""
    found = [accepted.find(flag) for flag in passed.flags]
    return any(
        argument is not None and argument.declared is not None and argument.declared.action != "store"
        for argument in found
    )
