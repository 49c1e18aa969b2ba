"""SageMaker only keeps the contents of `/opt/ml/model` when a training job ends.

A model that is saved to the working directory or to an input channel is lost with the instance: the job ends as
`Completed`, with an empty or missing `model.tar.gz`. The rule checks scripts that are a job's entry point or read
SageMaker's variables, and does not report them if anything in the script saves or copies to the right place.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile()
    model.fit([], [])
    model.save("my_model.h5")  # <-

Bad: script and launcher in one file, as a comment says

    # saved as train.py
    import tensorflow as tf

    def make_model():
        return tf.keras.Sequential([tf.keras.layers.Dense(1)])

    model = make_model()
    model.save("my_model.h5")  # <-

    # the launcher
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", output_path="s3://bucket/out", instance_type="ml.g4dn.xlarge").fit()

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import os
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile()
    model.fit([], [])
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: a script that does not use SageMaker

    import torch

    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "mnist_cnn.pt")

Quiet: saved twice, once in the right place

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import os
    import torch

    model = torch.nn.Linear(1, 1)
    torch.save(model.state_dict(), "best.pt")
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pth"))
"""

import ast
import re

from gpuproof.check.analysis.call import Call, calls_named, calls_to
from gpuproof.check.analysis.container_env import MODEL_DIR
from gpuproof.check.analysis.local_imports import local_modules
from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.values import Value
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule, lowered
from gpuproof.findings import Severity

rule = Rule("SM101", "model-outside-model-dir", Severity.ERROR, needs=("save", "export"))

_KEPT = re.compile(r"SM_MODEL_DIR|/opt/ml/(model|checkpoints|output)|model_dir|copytree|copy2?\(|upload")
_S3 = re.compile(r"s3://|\bboto3\b")
"""If any of these occurs in a script, files saved elsewhere may still reach the right place."""
_KERAS_FILE = re.compile(r"\.(h5|hdf5|keras|tf|pb)$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    jobs += [job for job in project.jobs if job.module is module and _holds_script(module, job)]
    if not jobs and not module.mentions("SM_CHANNEL", "SM_HOSTS", "SM_NUM_GPUS", "SM_CURRENT_HOST"):
        return
    if any(job.source == "what-if" for job in jobs):
        return
    modules = {one for job in jobs if job.script is not None for one in local_modules(job.script)} | {module}
    if any(_KEPT.search(one.unit.source) for one in modules):
        return
    # In a file that also launches the job, S3 addresses belong to the job.
    if any(_S3.search(one.unit.source) for one in modules - {job.module for job in jobs}):
        return
    for call, path in _saves(module):
        text = path.text
        if text is None or text.startswith((MODEL_DIR, "s3:", "/tmp")):  # noqa: S108
            continue
        yield rule.hit(
            path.span or call.span,
            f"`{text}` is not under `{MODEL_DIR}` (SM_MODEL_DIR): the model is lost when the job ends.",
            remedy=f'Save to os.path.join(os.environ["SM_MODEL_DIR"], "{text.rpartition("/")[2]}").',
            severity=rule.severity if path.certainty == "known" else lowered(rule.severity),
        )


def _holds_script(module: Module, job: JobDefinition) -> bool:
    """Whether a file that launches a job also contains the job's script, as a comment says."""
    entry = job.entry_point.text
    if job.kind != "training" or job.script is not None or not entry or module.unit.kind == "notebook":
        return False
    return re.search(rf"^\s*#.*\b{re.escape(entry)}\b", module.unit.source, re.MULTILINE) is not None


def _saves(module: Module) -> list[tuple[Call, Value]]:
    found = [(call, call.argument("f", 1)) for call in calls_to(module, "torch.save")]
    if module.imports("tensorflow", "keras"):
        for call in calls_named(module, "save", "export", "save_weights"):
            path = call.argument("filepath", 0)
            if call.receiver is not None and _is_model(module, call) and path.text is not None:
                found.append((call, path))
    return found


def _is_model(module: Module, call: Call) -> bool:
    origin = module.origin(call.receiver)
    # The return value of a function in the file may be a model, depending on the file name.
    if isinstance(origin, ast.Call) and (name := module.qualified(origin.func)):
        return name.startswith(("tensorflow.", "keras."))
    return bool(_KERAS_FILE.search(call.argument("filepath", 0).text or ""))
