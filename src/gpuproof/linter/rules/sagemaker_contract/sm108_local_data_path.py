"""The training script reads data from a folder that exists on the author's machine but not in the container.

A job gets its script, the other files in `source_dir`, and the input channels below `/opt/ml/input/data`. A path such
as `data/X.npy` or `/home/me/data.csv` causes a FileNotFoundError there, after the instance has started. The rule
checks entry points of linked training jobs that read no channel at all, and takes the files in `source_dir` into
account.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: src/train.py
    import numpy as np

    X = np.load("data/X.npy")  # <-

Bad: the author's home folder is a default

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit(
        {"test": "s3://bucket/test"}
    )
    # file: train.py
    import argparse
    import os

    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default="/home/ada/flowers/train")  # <-
    parser.add_argument("--test", default=os.environ["SM_CHANNEL_TEST"])

Bad: a channel is declared and another file is read; its copy and the metrics create nothing

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge").fit({"train": "s3://b/d"})
    # file: src/train.py
    import argparse
    import os
    import pandas as pd

    parser = argparse.ArgumentParser()
    parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
    args = parser.parse_args()
    frame = pd.read_csv("data/train.csv")  # <-
    frame.copy().to_csv("metrics.csv")

Quiet: only where there is no channel

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge").fit({"train": "s3://b/d"})
    # file: src/train.py
    import os
    import pandas as pd

    def load():
        if "SM_CHANNEL_TRAIN" in os.environ:
            return pd.read_csv(os.environ["SM_CHANNEL_TRAIN"] + "/train.csv")
        return pd.read_csv("data/train.csv")

    frame = load()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    ).fit({"train": "s3://b/d"})
    # file: src/train.py
    import os
    import numpy as np

    X = np.load(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "X.npy"))

Quiet: the file is next to the script

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: src/data/labels.csv
    a,b
    # file: src/train.py
    import pandas as pd

    labels = pd.read_csv("data/labels.csv")

Quiet: the script downloads it first

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", source_dir="src", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: src/train.py
    import urllib.request
    import pandas as pd

    urllib.request.urlretrieve("https://example.com/rows.csv", "rows.csv")
    frame = pd.read_csv("rows.csv")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.arguments import passed_hyperparameters
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import training_jobs
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "SM108",
    "local-data-path",
    Severity.WARNING,
    needs=("load", "read", "open", "dataset", "Folder", "flow", "/home/", "/Users/"),
)

_READERS = frozenset(
    {
        "numpy.load",
        "numpy.loadtxt",
        "numpy.genfromtxt",
        "numpy.memmap",
        "numpy.fromfile",
        "h5py.File",
        *(
            f"pandas.read_{kind}"
            for kind in ("csv", "parquet", "json", "pickle", "excel", "feather", "hdf", "table")
        ),
        "torchvision.datasets.ImageFolder",
        "torchvision.datasets.DatasetFolder",
        "datasets.load_from_disk",
        "tensorflow.keras.utils.image_dataset_from_directory",
        "keras.utils.image_dataset_from_directory",
        "tensorflow.keras.preprocessing.image_dataset_from_directory",
        "tensorflow.data.TFRecordDataset",
    }
)
_HOME = re.compile(
    r"/home/(?!ec2-user/SageMaker|ubuntu/\.|sagemaker-user)[\w.-]+/|/Users/[\w.-]+/|[A-Za-z]:[\\/]"
)
_CHANNELS = re.compile(r"SM_CHANNEL|SM_INPUT|/opt/ml/input")
_CREATES = re.compile(
    r"(^|\.)(urlretrieve|urlopen|download\w*|extractall|unpack\w*|copytree|copy2|os\.system|chdir|symlink\w*)$|^(boto3|s3fs|awswrangler|shutil|subprocess|requests|wget|gdown)\.|_download$"
)
"""Calls that may create the data."""
_WRITES = re.compile(r"(^|\.)(savez\w*|to_(csv|parquet|pickle|json))$|^numpy\.save$")
"""Calls that create one file."""
_DOWNLOAD = re.compile(r"^download$")


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = training_jobs(module, project)
    if not jobs or any(job.module is module for job in jobs):
        return
    yield from _home_folders(module, jobs)
    if script_uses(module, _CREATES, "call") or _downloads(module):
        return
    has_channels, written = script_uses(module, _CHANNELS, "string"), _written(module)
    if None in written:
        return
    for call in calls_to(module, *_READERS):
        path = call.argument(position=0)
        name = path.text
        if (
            name is None
            or not _is_local(name)
            or _is_shipped(module, name, project)
            or _is_tried(module, call)
        ):
            continue
        if name in written:
            continue
        # A script that reads channels may read this file on another machine only, unless it certainly runs the line.
        if has_channels and not (path.is_known and always_runs(module, call.node)):
            continue
        if path.certainty == "default" and any(_may_be_passed(job, call) for job in jobs):
            continue
        yield rule.hit(
            path.span or call.span,
            f"`{name}` does not exist in the container of {jobs[0].title}, which only has the script's folder and the channels.",
            remedy=f'Pass it as a channel, fit({{"train": "s3://..."}}), and read os.path.join('
            f'os.environ["SM_CHANNEL_TRAIN"], "{name.rstrip("/").rpartition("/")[2]}").',
            severity=rule.severity if path.certainty == "known" else lowered(rule.severity),
        )


def _written(script: Module) -> set[str | None]:
    """The files that the script writes itself; None for those that are unknown."""
    return {
        Call(use.node, module).argument(position=0).text
        for module in local_modules(script)
        for use in find_uses(module, "call")
        if _WRITES.search(use.text) and isinstance(use.node, ast.Call)
    }


def _downloads(script: Module) -> bool:
    """Whether a dataset may download itself: `download=True`."""
    return any(
        _DOWNLOAD.search(use.text) and evaluate(module, use.node.value).flag is not False
        for module in local_modules(script)
        for use in find_uses(module, "keyword")
        if isinstance(use.node, ast.keyword)
    )


def _home_folders(module: Module, jobs: list[JobDefinition]) -> Hits:
    """Arguments whose default is in a user's home folder, and that a job does not set."""
    for call in calls_named(module, "add_argument"):
        default = call.argument("default")
        path = default.text if default.is_known else None
        flags = [node.value for node in call.node.args if isinstance(node, ast.Constant)]
        names = {str(flag).lstrip("-").replace("-", "_") for flag in flags}
        if path is None or not _HOME.match(path) or not names:
            continue
        without = [
            job
            for job in jobs
            if job.kind == "training"
            and not (job.source == "gpuproof" and job.instance_type.is_absent)
            and (job.hyperparameters.is_absent or job.hyperparameters.entries is not None)
            and not names & {name.replace("-", "_") for name in passed_hyperparameters(job)}
            and (job.hyperparameters.entries is None or job.hyperparameters.entries.complete)
        ]
        if without:
            yield rule.hit(
                default.span or call.span,
                f"`{path}` does not exist in the container of {without[0].title}, which does not set {flags[0]}.",
                remedy='Pass the data as a channel, and use os.environ["SM_CHANNEL_TRAIN"] as the default.',
            )


def _is_local(path: str) -> bool:
    if "://" in path or path.startswith(("/opt/", "/tmp", "/dev/", "/proc/", "/usr/", "/etc/")):  # noqa: S108
        return False
    return bool(path) and not path.startswith("~")


def _is_shipped(module: Module, path: str, project: Project) -> bool:
    return not path.startswith("/") and project.workspace.exists(module.unit.absolute.parent / path)


def _is_tried(module: Module, call: Call) -> bool:
    around = module.enclosing(call.node, ast.Try, ast.If)
    return isinstance(around, ast.Try) or (
        isinstance(around, ast.If) and "__main__" not in module.text(around.test)
    )


def _may_be_passed(job: JobDefinition, call: Call) -> bool:
    """Whether the job may set the argument that the path comes from."""
    hyperparameters: Value = job.hyperparameters
    if not (
        hyperparameters.is_absent
        or (hyperparameters.entries is not None and hyperparameters.entries.complete)
    ):
        return True
    names = {name.replace("-", "_") for name in passed_hyperparameters(job)}
    attributes = {node.attr for node in ast.walk(call.node) if isinstance(node, ast.Attribute)}
    return bool(names) and (
        bool(names & attributes) or any("dir" in name or "path" in name or "data" in name for name in names)
    )
