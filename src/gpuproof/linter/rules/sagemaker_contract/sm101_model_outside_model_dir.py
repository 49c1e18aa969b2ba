"""SageMaker packs `/opt/ml/model` as the job's model; a model that is saved elsewhere is usually lost.

SageMaker keeps three folders of a training job: `/opt/ml/model` (SM_MODEL_DIR) as model.tar.gz, `/opt/ml/output/data`
(SM_OUTPUT_DATA_DIR) as output.tar.gz, and, where the job has a checkpoint configuration, `/opt/ml/checkpoints`. A model
in the working directory or in an input channel is deleted with the instance: the job ends as `Completed`, with an
empty or missing `model.tar.gz`. The rule checks scripts that are a job's entry point or read SageMaker's variables, and
does not report them if code in the script saves or copies to one of these folders, or uploads to S3.

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

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    ).fit()
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

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.container_env import MODEL_DIR
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import Use, find_uses, uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.inference_handlers import PARAMETERS
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("SM101", "model-outside-model-dir", Severity.ERROR, needs=("save", "export"))

_KEPT_FOLDERS = (MODEL_DIR, "/opt/ml/output", "/opt/ml/checkpoints")
_KEPT_TEXT = re.compile(r"SM_MODEL_DIR|SM_OUTPUT_DATA_DIR|/opt/ml/(model|checkpoints|output)")
_KEPT_NAME = re.compile(r"^(model_dir|output_data_dir|checkpoint_dir)$")
_COPIES = re.compile(
    r"(^|\.)(copy\w*|move|copytree|upload\w*|put_object|log_model|log_artifacts?)$|^(shutil|s3fs|awswrangler)\."
)
_S3 = re.compile(r"s3://")
_SUBMITS = re.compile(r"^boto3\.|^s3fs\.")
"""With any of these, files that are saved elsewhere may still reach the right place."""
_VARIABLES = re.compile(r"SM_CHANNEL|SM_HOSTS|SM_NUM_GPUS|SM_CURRENT_HOST")
_KERAS_FILE = re.compile(r"\.(h5|hdf5|keras|tf|pb)$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    jobs += [job for job in project.jobs if job.module is module and _holds_script(module, job)]
    if not jobs and not (module.mentions("SM_") and uses(module, _VARIABLES, "string")):
        return
    if any(job.source == "what-if" for job in jobs):
        return
    modules = {local for job in jobs if job.script is not None for local in local_modules(job.script)} | {
        module
    }
    if any(_may_be_kept(other) for other in modules):
        return
    # In a file that also launches the job, S3 addresses belong to the job.
    others = modules - {job.module for job in jobs}
    if any(uses(item, _S3, "string") or uses(item, _SUBMITS, "call") for item in others):
        return
    for call, path in _saves(module):
        text = path.text
        if text is None or text.startswith((*_KEPT_FOLDERS, "s3:", "/tmp")):  # noqa: S108
            continue
        yield rule.hit(
            path.span or call.span,
            f"`{text}` is not under `{MODEL_DIR}` (SM_MODEL_DIR): it is not in model.tar.gz, and is deleted when the job ends.",
            remedy=f'Save to os.path.join(os.environ["SM_MODEL_DIR"], "{text.rpartition("/")[2]}").',
            severity=rule.severity if path.certainty == "known" else lowered(rule.severity),
        )


def _may_be_kept(module: Module) -> bool:
    """Whether code names a folder that SageMaker keeps, or copies or uploads files; handlers only read that folder."""
    handlers = [module.functions[name] for name in PARAMETERS if name in module.functions]
    used = [
        *(use for use in find_uses(module, "string") if _KEPT_TEXT.search(use.text)),
        *(use for use in find_uses(module, "attribute", "keyword") if _KEPT_NAME.match(use.text)),
        *(use for use in find_uses(module, "call") if _COPIES.search(use.text)),
        *(
            Use(node.id, node)
            for node in module.nodes(ast.Name)
            if _KEPT_NAME.match(node.id) and isinstance(node.ctx, ast.Load)
        ),
    ]
    return any(not any(module.tree.is_within(handler.node, each) for each in handlers) for handler in used)


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
