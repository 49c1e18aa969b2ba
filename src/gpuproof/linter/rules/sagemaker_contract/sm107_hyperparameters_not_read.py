"""The job passes hyperparameters, but the script reads neither its arguments nor the variables that contain them.

The learning rate or number of epochs in the job has no effect: the script uses the values written in it, and a tuning
job that searches over them repeats the same run. The rule requires the linked script and all modules of the project
that it imports, and reports nothing if an unknown library might read them.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    estimator = TensorFlow(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"epochs": 50, "batch_size": 32},  # <-
    )
    estimator.fit()
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [], epochs=5)

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50},
    ).fit()
    # file: train.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    args, _ = parser.parse_known_args()

Quiet: the script reads the toolkit's variable

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    import json
    import os

    settings = json.loads(os.environ["SM_HPS"])

Quiet: an unknown module may read them

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_type="ml.g5.xlarge", hyperparameters={"epochs": 50}).fit()
    # file: train.py
    from our_training import main

    main()

Bad: a command gets no hyperparameters

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="python fit.py --data s3"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},  # <-
    )
    # file: src/fit.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--data")
    args = parser.parse_args()

Quiet: the command passes them itself

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="python fit.py --epochs $SM_HP_EPOCHS"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},
    )
    # file: src/fit.py
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()

Quiet: the script reads them from SM_HPS

    # file: launch.py
    from sagemaker.train import ModelTrainer
    from sagemaker.train.configs import Compute, SourceCode

    trainer = ModelTrainer(
        training_image="image",
        source_code=SourceCode(source_dir="src", command="torchrun --nproc_per_node=gpu fit.py"),
        compute=Compute(instance_type="ml.g5.xlarge", instance_count=1),
        hyperparameters={"epochs": 25},
    )
    # file: src/fit.py
    import json
    import os

    epochs = json.loads(os.environ["SM_HPS"])["epochs"]
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import (
    hidden_imports,
    passed_hyperparameters,
    receives_hyperparameters,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM107", "hyperparameters-not-read", Severity.WARNING, when="link")

_READERS = re.compile(
    r"""
    ^(argparse|click|typer|fire|absl|docopt|optparse|getopt|tyro|hydra|omegaconf|jsonargparse|simple_parsing|plac|tap
      |configargparse|sagemaker_containers|sagemaker_training)(\.|$)
    | ^sys\.(argv|orig_argv)\b | ^tensorflow\.(compat\.v1\.)?(app\.)?flags\b | (^|\.)(\w*ArgumentParser|\w*ArgParser|\w*CLI|cli)$
    | (^|\.)hyperparameters$ | ^gpuproof\.runtime\b
    """,
    re.VERBOSE,
)
"""Command-line libraries, and functions that return the hyperparameters."""
_HELPERS = re.compile(
    r"^(sagemaker_containers|sagemaker_training)(\.|$)|(^|\.)hyperparameters$|^gpuproof\.runtime\b"
)
"""Functions that return the hyperparameters without the command line."""
_TEXTS = re.compile(
    r"SM_HPS?(_|$)|SM_USER_ARGS|SM_TRAINING_ENV|hyperparameters|/opt/ml/input/config|SM_INPUT_CONFIG"
)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    script = job.script
    names = list(passed_hyperparameters(job))
    if script is not None and _passes_none(job):
        yield from _unpassed(job, script, names)
        return
    if script is None or not names or not receives_hyperparameters(job) or not job.hyperparameters.is_known:
        return
    if script is job.module or job.runs_others or _reads(script) or hidden_imports(script):
        return
    yield rule.hit(
        job.where(job.hyperparameters),
        f"The job passes {_listed(names)}, but `{job.script_title}` never reads its arguments: they have no effect.",
        remedy=f'Declare them in the script: parser.add_argument("--{names[0]}", ...) and '
        "args, _ = parser.parse_known_args().",
    )


def _passes_none(job: JobDefinition) -> bool:
    """Whether a command of the job certainly starts the script without its hyperparameters."""
    if job.kind != "training" or not job.has_contract or job.start is None or job.passes_arguments:
        return False
    return not any("$" in word for word in job.start.arguments)


def _unpassed(job: JobDefinition, script: Module, names: list[str]) -> Hits:
    assert job.start is not None
    given = {word.lstrip("-").partition("=")[0] for word in job.start.arguments}
    names = [name for name in names if name not in given and name.replace("_", "-") not in given]
    if not names or not job.hyperparameters.is_known or script is job.module or hidden_imports(script):
        return
    if script_uses(script, _HELPERS, "call", "name") or script_uses(script, _TEXTS, "string"):
        return
    if any(_reads_environment(module) for module in local_modules(script)):
        return
    by = "The command" if not job.command.is_absent else f"`{job.entry_point.text}`"
    yield rule.hit(
        job.where(job.hyperparameters),
        f"{by} passes no hyperparameters as arguments, and `{job.script_title}` does not read them elsewhere: "
        f"{_listed(names)} have no effect.",
        remedy=f'Write them into the command (--{names[0]} "$SM_HP_{names[0].upper()}"), or read '
        'json.loads(os.environ["SM_HPS"]) in the script.'
        if not job.command.is_absent
        else 'Pass them on in the shell script: python train.py "$@".',
    )


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:4]) + (" and more" if len(names) > 4 else "")


def _reads(script: Module) -> bool:
    """Whether code of the script or its modules may read the hyperparameters."""
    if script_uses(script, _READERS, "call", "name") or script_uses(script, _TEXTS, "string"):
        return True
    # The first MXNet and Chainer containers called `train(hyperparameters, ...)` of the script.
    old = script.functions.get("train")
    if old is not None and any(argument.arg in ("hyperparameters", "hps") for argument in old.args.args):
        return True
    return any(_reads_environment(module) for module in local_modules(script))


def _reads_environment(module: Module) -> bool:
    """Whether the module reads environment variables whose names it does not write out."""
    for node in module.nodes(ast.Attribute):
        if module.qualified(node) != "os.environ":
            continue
        parent = module.parent(node)
        if isinstance(parent, ast.Subscript) and evaluate(module, parent.slice).text is not None:
            continue
        if not (isinstance(parent, ast.Attribute) and parent.attr in ("get", "setdefault", "pop")):
            return True
    return False
