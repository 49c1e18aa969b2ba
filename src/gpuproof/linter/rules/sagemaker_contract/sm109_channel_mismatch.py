"""The script reads an environment variable of a channel that the job does not have: a KeyError at the start.

The toolkit sets `SM_CHANNEL_<NAME>` for each key of `fit({...})`, in capitals, and no others. A single address,
`fit("s3://bucket/data")`, becomes the channel `training`. When `os.environ["SM_CHANNEL_TRAIN"]` fails, the instance
has already started, and the data of the other channels has been downloaded.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit({"training": "s3://bucket/data"})
    # file: train.py
    import argparse
    import os

    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ["SM_CHANNEL_TRAIN"])  # <-

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    estimator.fit({"training": "s3://bucket/data"})
    # file: train.py
    import os

    data = os.environ["SM_CHANNEL_TRAINING"]

Bad:

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.g5.xlarge
    inputs:
      training: s3://bucket/data
    # file: train.py
    import os

    data = os.listdir(os.environ["SM_CHANNEL_TRAIN"])  # <-

Bad: the default is read instead of the channel

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit({"images": "s3://bucket/data"})
    # file: train.py
    import os

    data = os.environ.get("SM_CHANNEL_TRAIN", "data")  # <-

Bad: the default of an argument

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit("s3://bucket/data")
    # file: train.py
    import argparse
    import os

    parser = argparse.ArgumentParser()
    parser.add_argument("--train-dir", default=os.environ.get("SM_CHANNEL_TRAIN"))  # <-
    parser.add_argument("--weights", default=os.environ.get("SM_CHANNEL_WEIGHTS"))
    args = parser.parse_args()
    print(os.listdir(args.train_dir))

Quiet: an argument that the job passes

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge",
        hyperparameters={"data-dir": "/opt/ml/input/data/training"},
    )
    estimator.fit("s3://bucket/data")
    # file: train.py
    import argparse
    import os

    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", default=os.environ.get("SM_CHANNEL_TRAIN"))
    args = parser.parse_args()
    print(os.listdir(args.data_dir))

Quiet: read with a default beside the job's channel, or after a check that it exists

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit({"training": "s3://bucket/data"})
    # file: train.py
    import os

    data = os.environ.get("SM_CHANNEL_TRAINING", "data")
    more = os.environ.get("SM_CHANNEL_MORE", "more")
    if "SM_CHANNEL_VALIDATION" in os.environ:
        held_out = os.environ["SM_CHANNEL_VALIDATION"]

Quiet: the channels are unknown

    # file: launch.py
    from sagemaker.pytorch import PyTorch
    from settings import channels

    estimator = PyTorch(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit(channels())
    # file: train.py
    import os

    data = os.environ["SM_CHANNEL_TRAIN"]
"""

import ast
import re
from difflib import get_close_matches

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.jobs.arguments import passed_hyperparameters
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import training_jobs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("SM109", "channel-mismatch", Severity.ERROR, when="link", needs=("SM_CHANNEL_",))

_PREFIX = "SM_CHANNEL_"
_INPUTS = {"gpuproof": "inputs", "boto3": "InputDataConfig", "sagemaker-v3": "input_data_config"}
"""Where a job names its channels; SDK v2 passes them to `fit()`."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in training_jobs(module, project) if job.channels_known]
    if not jobs:
        return
    yield from _defaults(module, jobs)
    for read in module.nodes(ast.Subscript):
        variable = _variable(module, read)
        if variable is None or _is_guarded(module, read):
            continue
        wanted = variable.removeprefix(_PREFIX)
        # Any job that lacks the channel is reported.
        job = next((candidate for candidate in jobs if not _has_channel(candidate, wanted)), None)
        if job is None:
            continue
        channels = ", ".join(f"`{name}`" for name in job.channels) or "no channel"
        names = [name.upper() for name in job.channels]
        near = get_close_matches(wanted, names, 1, 0.4) or (names if len(names) == 1 else [])
        text = f'"{_PREFIX}{near[0]}"' if near else ""
        is_certain = len(jobs) == 1 and near and near[0] not in _channels_read(module)
        yield rule.hit(
            module.span(read),
            f"`{variable}` is not set: {job.title} has {channels}: KeyError when the job starts.",
            remedy=(f"Read {text}, or pass" if near else "Pass")
            + f' the data as "{wanted.lower()}" in {_INPUTS.get(job.source, "fit()")}.',
            fix=Fix(f"Read {text}", (replace_node(module, read.slice, text),)) if is_certain else None,
        )


def _defaults(module: Module, jobs: list[JobDefinition]) -> Hits:
    """Channels that are read with a default, and are not among the job's, of which one is never read."""
    for call in calls_to(module, "os.environ.get", "os.getenv"):
        variable = call.argument("key", 0)
        default = call.argument("default", 1)
        name = variable.text if variable.is_known else None
        if name is None or not name.startswith(_PREFIX) or (not default.is_unset and default.text is None):
            continue
        wanted = name.removeprefix(_PREFIX)
        flags = _flags(module, call)
        if default.is_unset and flags is None:
            continue
        for job in jobs:
            unread = [channel for channel in job.channels if not _may_be_read(module, channel)]
            passed = passed_hyperparameters(job)
            if _has_channel(job, wanted) or not unread or passed.keys() & {wanted.lower(), *(flags or ())}:
                continue
            # A channel without a default may be one that the job can leave out.
            if default.is_unset and not get_close_matches(
                wanted, [channel.upper() for channel in unread], 1, 0.4
            ):
                continue
            result = "it is None" if default.is_unset else f"`{default.text}` is read"
            yield rule.hit(
                call.span,
                f"`{name}` is not set: {job.title} has no channel `{wanted.lower()}`, so {result}, and nothing "
                f"reads its channel `{unread[0]}`.",
                remedy=f'Pass the data as "{wanted.lower()}" in fit(), or read "{_PREFIX}{unread[0].upper()}".',
                severity=lowered(rule.severity),
            )
            break


def _flags(module: Module, call: Call) -> set[str] | None:
    """The names of the argument whose default a call is: `data-dir`; None if it is no argument's."""
    keyword = module.parent(call.node)
    declared = (
        module.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg == "default" else None
    )
    if not isinstance(declared, ast.Call) or Call(declared, module).method != "add_argument":
        return None
    texts = [evaluate(module, node).text for node in declared.args]
    return {form for text in texts if text for form in (text.lstrip("-"), text.lstrip("-").replace("-", "_"))}


def _may_be_read(script: Module, channel: str) -> bool:
    """Whether any text of the script's files may name a channel; true if a path or a name is put together."""
    named = re.compile(rf"(^|[/_-]){re.escape(channel)}($|[/_-])", re.IGNORECASE)
    for module in local_modules(script):
        if module.nodes(ast.JoinedStr) and module.mentions("SM_CHANNEL_{", "/opt/ml/input"):
            return True
        if uses(module, named, "string"):
            return True
    return False


def _has_channel(job: JobDefinition, wanted: str) -> bool:
    """Whether the job has a channel, from `fit()` or added by the SDK: `model_uri=` is the channel `model`."""
    if wanted in {name.upper() for name in job.channels}:
        return True
    if wanted == "CODE":
        return True
    return wanted == (job.argument("model_channel_name").text or "model").upper() and not (
        job.argument("model_uri").is_absent
    )


def _variable(module: Module, read: ast.Subscript) -> str | None:
    if not isinstance(read.ctx, ast.Load) or module.qualified(read.value) != "os.environ":
        return None
    name = evaluate(module, read.slice)
    text = name.text if name.is_known else None
    return text if text is not None and text.startswith(_PREFIX) and len(text) > len(_PREFIX) else None


def _channels_read(module: Module) -> set[str]:
    variables = [_variable(module, node) for node in module.nodes(ast.Subscript)]
    return {variable.removeprefix(_PREFIX) for variable in variables if variable}


def _is_guarded(module: Module, read: ast.Subscript) -> bool:
    """Whether the line may never run, or its failure is handled."""
    function = module.function_of(read)
    if function is not None and not calls_named(module, function.name):
        return True
    for ancestor in module.tree.ancestors(read):
        if isinstance(ancestor, (ast.Try, ast.IfExp, ast.BoolOp, ast.Lambda)):
            return True
        if isinstance(ancestor, ast.If) and "__main__" not in module.text(ancestor.test):
            return True
    return _sets(module, _variable(module, read))


def _sets(module: Module, variable: str | None) -> bool:
    """Whether the script sets the variable itself, for example for local runs."""
    keys = [
        evaluate(module, node.slice).text
        for node in module.nodes(ast.Subscript)
        if isinstance(node.ctx, ast.Store) and module.qualified(node.value) == "os.environ"
    ]
    keys += [call.argument("key", 0).text for call in calls_to(module, "os.environ.setdefault", "os.putenv")]
    for call in calls_to(module, "os.environ.update"):
        entries = call.argument(position=0).entries
        keys += [None] if entries is None or not entries.complete else [str(key) for key in entries]
        keys += list(call.keywords)
    return variable in keys or None in keys or bool(calls_to(module, "dotenv.load_dotenv"))
