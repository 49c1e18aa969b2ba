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

Bad: the estimator names the address itself, and the path has a name of its own

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge", model_dir="s3://bucket/out").fit()
    # file: train.py
    import argparse
    import os
    import keras

    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", default=os.environ["SM_MODEL_DIR"])  # <-
    args = parser.parse_args()
    path = os.path.join(args.model_dir, "1")
    model = keras.Sequential([])
    model.save("/tmp/check.keras")
    model.save(path)

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
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.container_env import MODEL_DIR
from gpuproof.linter.analysis.evaluation.evaluate import command_line
from gpuproof.linter.analysis.flow.value_flow import follow
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import keras_saves, training_jobs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM104", "tf-model-dir-is-s3", Severity.WARNING, needs=("model_dir",))

_JOINS = re.compile(r"^(join|joinpath|Path|PurePath|str|format|abspath|rstrip)$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = next(
        (training_job for training_job in training_jobs(module, project) if _passes_s3(training_job)), None
    )
    argument = command_line(module).by_flag("--model_dir") if job is not None else None
    if job is None or argument is None or argument.default.text != MODEL_DIR:
        return
    saves = keras_saves(module)
    through = _reached_saves(module, argument.dest)
    # Another save may put a model into the right folder.
    if not through or any(_may_be_kept(path) for call, path in saves if call.node not in through):
        return
    yield rule.hit(
        argument.module.span(argument.node),
        f"{job.title} passes --model_dir s3://..., so this default is never used: `{MODEL_DIR}` stays empty, and "
        "model.tar.gz has no model.",
        remedy='Save to os.environ["SM_MODEL_DIR"] itself, or create the estimator with model_dir=False.',
    )


def _reached_saves(module: Module, name: str) -> set[ast.Call]:
    """The calls that save a model to a path that begins with an argument."""
    saves = {call.node for call, _ in keras_saves(module)}
    starts: list[tuple[Module, ast.expr]] = [
        (module, node)
        for node in module.nodes(ast.Attribute)
        if node.attr == name and isinstance(node.ctx, ast.Load)
    ]
    arrivals = follow([module], starts, lambda _, call: _JOINS.search(callee_name(call)) is not None)
    return {arrival.call for arrival in arrivals if arrival.call is not None and arrival.call in saves}


def _may_be_kept(path: Value) -> bool:
    """Whether a path may be in the model's folder."""
    if path.texts:
        return any(text.startswith(MODEL_DIR) for text in path.texts)
    return not path.prefix or path.prefix.startswith(MODEL_DIR) or MODEL_DIR.startswith(path.prefix)


def _passes_s3(job: JobDefinition) -> bool:
    """Source: sagemaker 2.257.7, `TensorFlow.hyperparameters` and `_default_s3_path(mpi=...)`."""
    if job.source != "sagemaker-v2" or job.api.rpartition(".")[2] != "TensorFlow":
        return False
    given = job.argument("model_dir")
    if "model_dir" in job.hyperparameters.parts:
        return False
    if not given.is_unset:
        return given.is_known and (given.text or given.prefix).startswith("s3://")
    spread = job.distribution
    if spread.is_unset:
        return True
    return spread.entries is not None and (
        "mpi" not in spread.entries or spread.at("mpi", "enabled").flag is False
    )
