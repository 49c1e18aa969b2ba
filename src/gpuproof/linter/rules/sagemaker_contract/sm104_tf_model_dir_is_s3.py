"""SDK v2's TensorFlow estimator passes `--model_dir s3://...`, which overrides the default in the script.

A script that declares `--model_dir` with the default `SM_MODEL_DIR` and saves there saves to S3 instead, or to a
local folder named `s3:`. `/opt/ml/model` stays empty, and so does the `model.tar.gz` from which the endpoint is
created. With `model_dir=False` the estimator does not pass the argument; MPI jobs get `/opt/ml/model`.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import keras

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])  # <-
    args = parser.parse_args()
    keras.Sequential([]).save(os.path.join(args.model_dir, "1"))

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import argparse
    import os
    import keras

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir")
    parser.add_argument("--sm-model-dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    keras.Sequential([]).save(os.path.join(args.sm_model_dir, "1"))

Quiet: the estimator passes no folder, or this one

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", model_dir=False, instance_type="ml.g5.xlarge").fit()
    TensorFlow(entry_point="train.py", model_dir="/opt/ml/model", instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import keras

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    keras.Sequential([]).save(os.path.join(args.model_dir, "1"))

Quiet: the PyTorch estimator does not add the argument

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import argparse
    import os
    import keras

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])
    args = parser.parse_args()
    keras.Sequential([]).save(os.path.join(args.model_dir, "1"))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.container_env import MODEL_DIR
from gpuproof.linter.analysis.evaluation.evaluate import command_line
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.script_contract import keras_saves, training_jobs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM104", "tf-model-dir-is-s3", Severity.WARNING, needs=("model_dir",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = next(
        (training_job for training_job in training_jobs(module, project) if _passes_s3(training_job)), None
    )
    argument = command_line(module).by_flag("--model_dir") if job is not None else None
    if job is None or argument is None or argument.default.text != MODEL_DIR:
        return
    # A save that does not use the argument also puts a model into the right folder.
    saves = [call for call, _ in keras_saves(module)]
    through = [
        call
        for call in saves
        if any(isinstance(node, ast.Attribute) and node.attr == argument.dest for node in ast.walk(call.node))
    ]
    if not through or len(through) != len(saves):
        return
    yield rule.hit(
        module.span(argument.node),
        f"{job.title} passes --model_dir s3://..., so this default is never used: `{MODEL_DIR}` stays empty, and "
        "model.tar.gz has no model.",
        remedy='Save to os.environ["SM_MODEL_DIR"] itself, or create the estimator with model_dir=False.',
    )


def _passes_s3(job: JobDefinition) -> bool:
    """Source: sagemaker 2.257.7, `TensorFlow.hyperparameters` and `_default_s3_path(mpi=...)`."""
    if job.source != "sagemaker-v2" or job.api.rpartition(".")[2] != "TensorFlow":
        return False
    if not job.argument("model_dir").is_absent or "model_dir" in job.hyperparameters.parts:
        return False
    spread = job.distribution
    return spread.is_absent or (
        spread.entries is not None and not {"mpi", "smdistributed"} & set(spread.entries)
    )
