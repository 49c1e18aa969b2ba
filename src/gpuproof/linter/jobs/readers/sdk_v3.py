"""Finds jobs in code for SDK v3: `ModelTrainer` with its `Compute` and `SourceCode`, and `ModelBuilder`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition


def jobs(module: Module) -> Iterator[JobDefinition]:
    """The jobs of a module that imports SDK v3 classes."""
    for call in calls_named(module, "ModelTrainer"):
        if call.name is not None and call.name.startswith("sagemaker."):
            yield _training(call)
    for call in calls_named(module, "deploy"):
        builder = _builder(module, call.receiver)
        if builder is not None:
            yield _endpoint(call, builder)


def _training(call: Call) -> JobDefinition:
    code, compute = _part(call, "source_code"), _part(call, "compute")
    channels, complete = _channels(call)
    return JobDefinition(
        kind="training",
        source="sagemaker-v3",
        api=call.name or "ModelTrainer",
        span=call.span,
        instance_type=_of(compute, "instance_type"),
        instance_count=_of(compute, "instance_count"),
        image=call.argument("training_image"),
        distribution=_distribution(call),
        hyperparameters=call.argument("hyperparameters"),
        environment=call.argument("environment"),
        entry_point=_of(code, "entry_script"),
        source_dir=_of(code, "source_dir"),
        command=_of(code, "command"),
        channels=channels,
        channels_known=complete,
        arguments={**_arguments(code), **_arguments(compute), **call.arguments()},
        call=call,
        module=call.module,
    )


def _endpoint(call: Call, builder: Call) -> JobDefinition:
    code = _part(builder, "source_code")
    written = call.argument("instance_type")
    return JobDefinition(
        kind="endpoint",
        source="sagemaker-v3",
        api=f"{builder.name}.deploy",
        span=call.span,
        instance_type=builder.argument("instance_type") if written.is_absent else written,
        instance_count=call.argument("initial_instance_count"),
        image=builder.argument("image_uri"),
        environment=builder.argument("env_vars"),
        entry_point=_of(code, "entry_script"),
        source_dir=_of(code, "source_dir"),
        arguments={**builder.arguments(), **call.arguments()},
        call=call,
        module=call.module,
    )


def _builder(module: Module, receiver: ast.expr | None) -> Call | None:
    """The ModelBuilder of `builder.deploy()` or `builder.build().deploy()`."""
    made = origin_call(module, receiver)
    if made is not None and made.method == "build":
        made = origin_call(module, made.receiver)
    is_builder = (
        made is not None and made.method == "ModelBuilder" and (made.name or "").startswith("sagemaker.")
    )
    return made if is_builder else None


def _part(call: Call, keyword: str) -> Call | Value:
    """The call in `compute=Compute(...)`; absent or unknown if there is none."""
    written = call.expression(keyword)
    if written is None:
        return call.argument(keyword)
    return origin_call(call.module, written) or UNKNOWN


def _of(part: Call | Value, name: str) -> Value:
    return part.argument(name) if isinstance(part, Call) else part


def _arguments(part: Call | Value) -> dict[str, Value]:
    return part.arguments() if isinstance(part, Call) else {}


def _distribution(call: Call) -> Value:
    part = _part(call, "distributed")
    if not isinstance(part, Call):
        return part
    inner = Entries(part.arguments())
    inner.complete = not part.is_open
    return known(Entries({part.method: known(inner, part.span)}), part.span)


def _channels(call: Call) -> tuple[dict[str, Value], bool]:
    module = call.module
    lists = [call.expression("input_data_config")]
    trains = [
        candidate
        for candidate in calls_named(module, "train")
        if module.origin(candidate.receiver) is call.node
    ]
    lists += [train.expression("input_data_config", 0) for train in trains]
    channels: dict[str, Value] = {}
    complete = bool(trains)
    for written in lists:
        made = module.origin(written)
        if made is None:
            continue
        if not isinstance(made, (ast.List, ast.Tuple)):
            return channels, False
        for item in made.elts:
            data = origin_call(module, item)
            name = data.argument("channel_name").text if data is not None else None
            if data is None or name is None:
                complete = False
            else:
                channels[name] = data.argument("data_source")
    return channels, complete
