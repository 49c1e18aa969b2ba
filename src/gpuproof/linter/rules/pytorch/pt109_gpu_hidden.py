"""The script hides every GPU or asks for the CPU: the GPU of its instance is billed but idle, and no framework warns.

`CUDA_VISIBLE_DEVICES` set to an empty text or -1 hides every GPU from the process: CUDA reads the variable when it is
first used. `tf.config.set_visible_devices([], "GPU")` hides them from TensorFlow, and `use_cpu=True`,
`accelerator="cpu"`, `Accelerator(cpu=True)` and `with tf.device("/CPU:0")` train on the CPU. Such lines are often left
over from an experiment on a laptop. All but the variable are reported only in scripts of jobs with a GPU; PyTorch and
JAX scripts that hide GPUs from TensorFlow, to read their data with it, are not.

Bad:

    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # <-
    model = torch.nn.Linear(4, 2)

Good:

    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    model = torch.nn.Linear(4, 2).cuda()

Quiet: only if the user requests the CPU

    import argparse
    import os
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    if parser.parse_args().cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""

Quiet: a job that runs on a CPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge").fit()
    # file: train.py
    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = ""

Bad: TensorFlow

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    tf.config.set_visible_devices([], "GPU")  # <-
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit([], [])

Bad: the Trainer

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    from transformers import Trainer, TrainingArguments

    Trainer(args=TrainingArguments("out", use_cpu=True)).train()  # <-

Quiet: TensorFlow only reads the data

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import tensorflow as tf
    import torch

    tf.config.set_visible_devices([], "GPU")
    model = torch.nn.Linear(8, 1).cuda()
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.evaluation.argparse_model import is_parsed_arguments
from gpuproof.linter.analysis.evaluation.evaluate import command_line, evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.arguments import receives_hyperparameters
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, largest_job
from gpuproof.linter.knowledge.distribution.ranks import always_runs
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "PT109",
    "gpu-hidden",
    Severity.ERROR,
    needs=(
        "CUDA_VISIBLE_DEVICES",
        "set_visible_devices",
        "use_cpu",
        "no_cuda",
        "cpu",
        "CPU",
        "Trainer",
        "Fabric",
    ),
)

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_HIDES = frozenset({"", "-1", "none", "None", "NoDevFiles"})
_HIDES_FROM_TENSORFLOW = frozenset(
    {"tensorflow.config.set_visible_devices", "tensorflow.config.experimental.set_visible_devices"}
)
_ARGUMENTS = re.compile(r"(^|\.)\w*TrainingArguments$|^trl\.\w+Config$")
_LIGHTNING = re.compile(r"^(lightning|pytorch_lightning|lightning_fabric)\.(\w+\.)*(Trainer|Fabric)$")
_CPU = re.compile(r"^/?(device:)?cpu(:\d+)?$", re.IGNORECASE)


class _Hidden(NamedTuple):
    """A line that hides GPUs or asks for the CPU.

    Attributes:
        what: it, as the beginning of a sentence.
        is_known: whether no argument can change it.
        needs_job: whether it is reported only in scripts of jobs with a GPU.
    """

    node: ast.AST
    what: str
    remedy: str
    is_known: bool = True
    needs_job: bool = True


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports(
            "torch",
            "tensorflow",
            "keras",
            "jax",
            "transformers",
            "accelerate",
            "lightning",
            "pytorch_lightning",
        )
        or is_test(module)
        or runs_without_gpu(module, project)
    ):
        return
    job = largest_job(project, module)
    linked = job is not None and bool(gpus_per_host(project, job))
    where = (
        f": `{job.instance_type.text}` is billed but idle ({job.title})" if job is not None and linked else ""
    )
    found = [*_from_process(module), *_from_tensorflow(module), *_by_argument(module)]
    if job is not None and linked and receives_hyperparameters(job):
        found += _by_default(module, job)
    imported = linked and all(other.script is not module for other in project.jobs_running(module))
    for hidden in found:
        if (hidden.needs_job and not linked) or not _runs(module, hidden.node, imported=imported):
            continue
        severity = rule.severity if linked else lowered(rule.severity)
        yield rule.hit(
            module.span(hidden.node),
            f"{hidden.what}{where}.",
            remedy=hidden.remedy,
            severity=severity if hidden.is_known else lowered(severity),
        )


def _runs(module: Module, node: ast.AST, *, imported: bool) -> bool:
    """Whether a line runs in every run of the script, or whenever an endpoint loads its model."""
    function = module.function_of(node)
    return always_runs(module, node, imported=imported) or (
        function is not None and function.name == "model_fn"
    )


def _from_process(module: Module) -> Iterator[_Hidden]:
    """Values of `CUDA_VISIBLE_DEVICES` that hide every GPU."""
    pairs: list[tuple[ast.AST, ast.expr]] = []
    for node in module.nodes(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or module.qualified(target.value) != "os.environ":
            continue
        if evaluate(module, target.slice).text == _VARIABLE:
            pairs.append((node, node.value))
    for call in calls_named(module, "putenv", "setdefault", "update"):
        if call.name in ("os.putenv", "os.environ.setdefault") and call.argument("key", 0).text == _VARIABLE:
            value = call.expression("value", 1)
            pairs += [(call.node, value)] if value is not None else []
        elif call.name == "os.environ.update":
            pairs += [(call.node, value) for value in _entries(module, call)]
    for node, written in pairs:
        value = evaluate(module, written)
        if value.text is not None and value.text.strip() in _HIDES:
            shown = (
                module.text(written)
                if value.is_known
                else f"{module.text(written)}, by default {value.text!r}"
            )
            yield _Hidden(
                node,
                f"CUDA_VISIBLE_DEVICES is {shown}: no GPU is visible",
                "Delete the line.",
                is_known=value.is_known,
                needs_job=not value.is_known,
            )


def _entries(module: Module, call: Call) -> Iterator[ast.expr]:
    if _VARIABLE in call.keywords:
        yield call.keywords[_VARIABLE]
    for mapping in call.node.args:
        if isinstance(mapping, ast.Dict):
            for key, value in zip(mapping.keys, mapping.values, strict=True):
                if key is not None and evaluate(module, key).text == _VARIABLE:
                    yield value


def _from_tensorflow(module: Module) -> Iterator[_Hidden]:
    """Devices that are hidden from TensorFlow, and training under a CPU device; not where TensorFlow only reads the data."""
    if any(local.imports("torch", "jax", "flax") for local in local_modules(module)):
        return
    for call in all_calls(module):
        name = call.name or ""
        if name in _HIDES_FROM_TENSORFLOW:
            visible, kind = call.argument("devices", 0), call.argument("device_type", 1)
            if visible.items == () and visible.is_known and (kind.text == "GPU" or kind.is_absent):
                yield _Hidden(
                    call.node,
                    f"`{module.text(call.node)}` hides every GPU from TensorFlow",
                    "Delete the line.",
                )
        elif name.endswith("OneDeviceStrategy") and _is_cpu(call.argument("device", 0)):
            yield _Hidden(call.node, f"`{module.text(call.node)}` trains on the CPU", 'Use "/GPU:0".')
    trains = calls_named(module, "fit", "train_on_batch", "apply_gradients")
    for block in module.nodes(ast.With):
        for item in block.items:
            used = item.context_expr
            if not isinstance(used, ast.Call) or module.qualified(used.func) not in (
                "tensorflow.device",
                "keras.device",
            ):
                continue
            if _is_cpu(evaluate(module, used.args[0] if used.args else None)) and calls_within(trains, block):
                yield _Hidden(used, f"`{module.text(used)}` trains on the CPU", "Remove the `with`.")


def _by_argument(module: Module) -> Iterator[_Hidden]:
    """Trainers and pipelines that are told to use the CPU."""
    for call in all_calls(module):
        name = call.name or ""
        if _ARGUMENTS.search(name):
            chosen = next((key for key in ("use_cpu", "no_cuda") if call.argument(key).flag is True), None)
        elif name == "accelerate.Accelerator":
            chosen = "cpu" if call.argument("cpu").flag is True else None
        elif _LIGHTNING.match(name):
            chosen = "accelerator" if call.argument("accelerator").text == "cpu" else None
        elif name == "transformers.pipeline":
            device = call.argument("device")
            chosen = "device" if device.text == "cpu" or device.number == -1 else None
        else:
            continue
        if chosen is None:
            continue
        value = call.argument(chosen)
        written = call.expression(chosen)
        shown = f"{chosen}={module.text(written)}" if written is not None else chosen
        yield _Hidden(
            written or call.node,
            f"`{shown}` runs on the CPU",
            f"Remove {shown}.",
            is_known=value.is_known,
        )


def _by_default(module: Module, job: JobDefinition) -> Iterator[_Hidden]:
    """The first use of a command-line argument whose default is the CPU, if the job's hyperparameters do not set it."""
    passed = job.hyperparameters
    if not (passed.is_absent or (passed.entries is not None and passed.entries.complete)):
        return
    for call in calls_named(module, "to", "device"):
        given = call.expression("device" if call.method == "to" else "type", 0)
        if not isinstance(given, ast.Attribute) or not is_parsed_arguments(module, given.value):
            continue
        argument = command_line(module).by_dest(given.attr)
        names = {flag.lstrip("-") for flag in argument.flags} if argument is not None else set[str]()
        if argument is None or argument.value.text != "cpu" or names & {str(key) for key in passed.parts}:
            continue
        yield _Hidden(
            call.node,
            f"`{module.text(given)}` is the CPU by default, and the job does not set it",
            f'Pass hyperparameters={{"{argument.flags[-1].lstrip("-")}": "cuda"}}, or change the default.',
            is_known=False,
        )
        return


def _is_cpu(value: Value) -> bool:
    return value.is_known and value.text is not None and _CPU.match(value.text) is not None
