"""A metric's regular expression has no group, does not parse, or matches nothing that the script prints.

SageMaker searches each line of the log for the expression and takes its first group as the number. Without a match, the
metric has no values, and nothing says so: a tuning job then fails after its first training job, with "No objective metrics
found after running 1 training jobs". Source:
https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-define-metrics-variables.html.

Bad: no group

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[{"Name": "test:loss", "Regex": "Test loss: [0-9.]+"}],  # <-
    )

Bad: the script prints something else

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[
            {"Name": "train:loss", "Regex": "loss: ([0-9.]+)"},
            {"Name": "test:accuracy", "Regex": "accuracy=([0-9.]+)"},  # <-
        ],
    ).fit()
    # file: train.py
    import torch

    model = torch.nn.Linear(2, 1)
    for epoch in range(3):
        loss = model(torch.zeros(1, 2)).sum()
        print(f"epoch {epoch} loss: {loss.item():.4f}")
    print("Test accuracy: {:.2f}%".format(93.0))

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.m5.xlarge",
        metric_definitions=[{"Name": "train:loss", "Regex": "loss: ([0-9.]+)"}],
    ).fit()
    # file: train.py
    import logging

    logger = logging.getLogger(__name__)
    for epoch in range(3):
        logger.info("epoch %d loss: %.4f", epoch, 0.5)

Quiet: Keras prints it

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[{"Name": "loss", "Regex": "val_loss: ([0-9.]+)"}],
    ).fit()
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [], validation_data=([], []))

Quiet: the name of the metric is a value, too

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[{"Name": "loss", "Regex": "val_loss=([0-9.]+)"}],
    ).fit()
    # file: train.py
    class Meter:
        def __init__(self, name):
            self.name = name

        def show(self, value):
            print(f"{self.name}={value:.4f}")

    Meter("val_loss").show(0.5)

Quiet: a whole text is printed

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    ).fit()
    # file: train.py
    def report(text):
        print(text)

    report("loss=" + str(0.5))
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.tuned_hyperparameters import tuners
from gpuproof.linter.knowledge.contract.printed_lines import printed_lines
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM129", "metric-regex", Severity.WARNING)

_MAX_LENGTH = 200
_SLOW = re.compile(r"[*+}]\s*\)\s*[*+{]")
"""A repetition of a repetition, which may take very long."""


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.kind != "training":
        return
    for name, regex in _definitions(job):
        text = regex.text
        if text is None or not regex.is_known:
            continue
        problem = _problem(text) or _unmatched(job, text)
        if problem is not None:
            yield rule.hit(
                job.where(regex),
                f"The metric `{name}` never has a value: {problem[0]}.",
                remedy=problem[1],
            )


def _definitions(job: JobDefinition) -> Iterator[tuple[str, Value]]:
    written = job.argument("metric_definitions")
    if job.call is not None:
        for tuner, estimator in tuners(job.call.module):
            if estimator.node is job.call.node and not tuner.argument("metric_definitions", 3).is_unset:
                written = tuner.argument("metric_definitions", 3)
    if written.is_absent:
        written = job.argument("AlgorithmSpecification").at("MetricDefinitions")
    for item in written.items or ():
        for name, regex in (("Name", "Regex"), ("name", "regex")):
            if regex in item.parts:
                yield item.at(name).text or "?", item.at(regex)


def _problem(text: str) -> tuple[str, str] | None:
    try:
        groups = re.compile(text).groups
    except re.error as error:
        return (
            f"`{text}` is not a regular expression ({error.msg})",
            "Escape what is meant literally: \\( \\[ \\+.",
        )
    # Without a letter or digit it is meant to match nothing: some templates require a metric.
    if groups or not re.search(r"\w", text):
        return None
    return f"`{text}` has no group", f"Put the number in brackets: {_with_group(text)}."


def _with_group(text: str) -> str:
    number = re.search(r"(\[[^\]]*\][+*]?|\\d[+*]?(\\?\.\\d[+*]?)?|\.[*+]\??)+", text)
    if number is None:
        return f"{text}([0-9.]+)"
    return f"{text[: number.start()]}({number.group()}){text[number.end() :]}"


def _unmatched(job: JobDefinition, text: str) -> tuple[str, str] | None:
    """Why a regular expression matches no line of the script; None if it may match one."""
    if job.script is None or job.runs_others or job.link_end is not None:
        return None
    if len(text) > _MAX_LENGTH or _SLOW.search(text):
        return None
    lines = printed_lines(job.script, text)
    if not lines or any(re.search(text, line[:1000]) for line in lines):
        return None
    near = get_close_matches(text, lines, 1, 0.3)
    printed = f"; it prints `{near[0].strip()}`" if near else ""
    return (
        f"`{text}` matches nothing that `{job.script_title}` prints{printed}",
        "Change the expression or what the script prints, so that they match.",
    )
