"""Finds jobs in code for SDK v2: estimators, models, processors, tuners, pipeline steps, and calls on them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, Value, known
from gpuproof.linter.jobs.definition import JobDefinition, ProcessingMount
from gpuproof.linter.jobs.readers.boto3 import served_image
from gpuproof.linter.jobs.tuned_hyperparameters import added_hyperparameters, with_hyperparameters

FRAMEWORKS = {
    "PyTorch": "pytorch",
    "TensorFlow": "tensorflow",
    "HuggingFace": "huggingface",
    "SKLearn": "sklearn",
    "XGBoost": "xgboost",
    "MXNet": "mxnet",
    "Chainer": "chainer",
    "Estimator": None,
}
"""Estimator classes of SDK v2, with the framework of their containers."""

_POSITIONAL = {
    "Estimator": ("image_uri", "role", "instance_count", "instance_type"),
    "ScriptProcessor": ("role", "image_uri", "command", "instance_count", "instance_type"),
    "Processor": ("role", "image_uri", "instance_count", "instance_type"),
    "SKLearnProcessor": ("framework_version", "role", "instance_count", "instance_type"),
    "PyTorchProcessor": ("framework_version", "role", "instance_count", "instance_type", "py_version"),
    "TensorFlowProcessor": ("framework_version", "role", "instance_count", "instance_type", "py_version"),
    "HuggingFaceProcessor": ("role", "instance_count", "instance_type"),
    "PyTorchModel": ("model_data", "role", "entry_point", "framework_version", "py_version", "image_uri"),
    "TensorFlowModel": ("model_data", "role", "entry_point", "image_uri", "framework_version"),
    "SKLearnModel": ("model_data", "role", "entry_point", "framework_version", "py_version", "image_uri"),
    "XGBoostModel": ("model_data", "role", "entry_point", "framework_version", "image_uri", "py_version"),
    "HuggingFaceModel": ("role", "model_data", "entry_point", "transformers_version"),
    "Model": ("image_uri", "model_data", "role"),
    "Transformer": ("model_name", "instance_count", "instance_type"),
    "TensorFlow": (),
}
_WRAPPERS = {"HyperparameterTuner": ("estimator", 0), "MultiDataModel": ("model", 2)}
"""Classes that run the job of another object, and their argument for it."""
_ENTRY_FIRST = ("entry_point", "framework_version", "py_version")


def jobs(module: Module) -> Iterator[JobDefinition]:
    """The jobs of a module that imports SDK v2 classes."""
    models: dict[ast.Call, JobDefinition] = {}
    for call in all_calls(module):
        kind = _class(call)
        if kind is None:
            continue
        if kind in FRAMEWORKS:
            models[call.node] = _estimator(call, kind)
        elif kind.endswith("Processor"):
            yield from _processing(call, kind)
        elif kind == "Transformer":
            job = _job(call, kind, "transform")
            yield replace(job, image=served_image(job))
        elif _model_framework(kind) is not None or kind == "Model":
            models[call.node] = replace(_model(call, kind))
    channels = _channels(module, models)
    passed = added_hyperparameters(module, lambda node: _estimator_behind(module, node))
    for node, job in list(models.items()):
        if job.kind == "training":
            given, complete = channels.get(node, ({}, False))
            models[node] = replace(
                job,
                channels=given,
                channels_known=complete,
                hyperparameters=with_hyperparameters(job.hyperparameters, passed.get(node)),
            )
            yield models[node]
    yield from _served(module, models)


def models(module: Module) -> list[JobDefinition]:
    """The model objects of the SDK (`PyTorchModel(...)`), each as an endpoint that may not be deployed."""
    found: list[JobDefinition] = []
    for call in all_calls(module):
        kind = _class(call)
        if kind is not None and kind not in FRAMEWORKS and (_model_framework(kind) or kind == "Model"):
            found.append(_model(call, kind))
    return found


def _class(call: Call) -> str | None:
    if call.name is None or not call.name.startswith("sagemaker."):
        return None
    name = call.name.rpartition(".")[2]
    return name if name[:1].isupper() else None


def _estimator(call: Call, kind: str) -> JobDefinition:
    job = _job(call, kind, "training")
    return replace(job, framework=FRAMEWORKS[kind], distribution=call.argument("distribution"))


def _model(call: Call, kind: str) -> JobDefinition:
    return replace(_job(call, kind, "endpoint"), framework=_model_framework(kind))


def _model_framework(kind: str) -> str | None:
    if not kind.endswith("Model") or kind == "Model":
        return None
    return FRAMEWORKS.get(kind.removesuffix("Model"))


def _job(call: Call, kind: str, use: str) -> JobDefinition:
    order = _POSITIONAL.get(kind, _ENTRY_FIRST if kind in FRAMEWORKS else ())

    def take(name: str) -> Value:
        return call.argument(name, order.index(name) if name in order else None)

    version = take("framework_version")
    if kind.startswith("HuggingFace") or kind == "HuggingFaceModel":
        version = take("transformers_version")
    return JobDefinition(
        kind=use,  # pyright: ignore[reportArgumentType]
        source="sagemaker-v2",
        api=call.name or kind,
        span=call.span,
        instance_type=_either(take("instance_type"), call.argument("train_instance_type")),
        instance_count=_either(take("instance_count"), call.argument("train_instance_count")),
        framework_version=version,
        py_version=take("py_version"),
        image=_either(take("image_uri"), call.argument("image_name")),
        hyperparameters=take("hyperparameters"),
        environment=_either(call.argument("environment"), call.argument("env")),
        entry_point=take("entry_point"),
        source_dir=take("source_dir"),
        command=_container_command(call, "container_entry_point", "container_arguments"),
        arguments=call.arguments(),
        call=call,
        module=call.module,
    )


def _container_command(call: Call, entry: str, arguments: str) -> Value:
    """The words of a container's own entry point and its arguments."""
    first, rest = call.argument(entry), call.argument(arguments)
    if first.items is None:
        return ABSENT
    return known((*first.items, *(rest.items or ())), first.span)


def _either(value: Value, other: Value) -> Value:
    return other if value.is_absent else value


def _channels(
    module: Module, models: dict[ast.Call, JobDefinition]
) -> dict[ast.Call, tuple[dict[str, Value], bool]]:
    """The channels that `fit` and `TrainingStep` pass to each estimator."""
    found: dict[ast.Call, tuple[dict[str, Value], bool]] = {}
    handed = [(call, call.receiver, call.argument("inputs", 0)) for call in calls_named(module, "fit")]
    steps = calls_named(module, "TrainingStep")
    handed += [(step, step.expression("estimator"), step.argument("inputs")) for step in steps]
    for _, target, inputs in handed:
        node = _created_by(module, target, models)
        if node is None:
            continue
        if inputs.entries is not None:
            before, complete = found.get(node, ({}, True))
            names = {str(key): value for key, value in inputs.entries.items()}
            found[node] = ({**before, **names}, complete and inputs.entries.complete)
        elif inputs.is_absent or (inputs.value is None and inputs.is_known):
            found.setdefault(node, ({}, True))
        else:
            # A single address or TrainingInput is the channel `training`; a variable may be a mapping.
            text = inputs.text is not None
            found[node] = ({"training": inputs} if text else {}, text)
    return found


def _created_by(
    module: Module, target: ast.expr | None, models: dict[ast.Call, JobDefinition]
) -> ast.Call | None:
    """The call that created an estimator, also in a function that returns it, or for an attribute of an object."""
    node = _estimator_behind(module, target)
    if node in models:
        return node
    found = sources(module, target) if models and target is not None else None
    if found is None or not found.complete or len(found.found) != 1:
        return None
    created = found.found[0]
    is_here = created.module is module and isinstance(created.node, ast.Call) and created.node in models
    return created.node if is_here and isinstance(created.node, ast.Call) else None


def _estimator_behind(module: Module, node: ast.expr | None) -> ast.Call | None:
    made = module.origin(node)
    if isinstance(made, ast.Call):
        call = origin_call(module, made)
        if call is not None and call.method in _WRAPPERS:
            return _estimator_behind(module, call.expression(*_WRAPPERS[call.method]))
        return made
    return None


def _served(module: Module, models: dict[ast.Call, JobDefinition]) -> Iterator[JobDefinition]:
    for call in calls_named(module, "deploy", "transformer"):
        made = _estimator_behind(module, call.receiver)
        behind = origin_call(module, made) if made is not None else None
        created = behind if behind is not None and behind.method == "create_model" else None
        if created is not None:
            made = _estimator_behind(module, created.receiver)
        if made not in models and created is None:
            made = _created_by(module, call.receiver, models)
        model = models.get(made) if made is not None else None
        if model is None and not _is_sagemaker_call(module, call):
            continue
        yield _endpoint(call, model, created)


def _is_sagemaker_call(module: Module, call: Call) -> bool:
    """Whether a `deploy` of an unknown object is that of the SDK, by its arguments for type and number of instances."""
    if not module.imports("sagemaker"):
        return False
    written = set(call.keywords)
    return "instance_type" in written and bool(written & {"initial_instance_count", "instance_count"})


def _endpoint(call: Call, model: JobDefinition | None, created: Call | None) -> JobDefinition:
    is_endpoint = call.method == "deploy"
    order = (
        ("initial_instance_count", "instance_type") if is_endpoint else ("instance_count", "instance_type")
    )
    count = call.argument(order[0], 0)
    serverless = not call.argument("serverless_inference_config").is_absent
    base = JobDefinition(
        kind="endpoint" if is_endpoint else "transform",
        source="sagemaker-v2",
        api=f"{model.api}.{call.method}" if model else f"sagemaker.{call.method}",
        span=call.span,
        instance_type=ABSENT if serverless else call.argument("instance_type", 1),
        instance_count=count,
        arguments=call.arguments(),
        call=call,
        module=call.module,
        model=model,
    )
    if model is None:
        return base

    # `estimator.deploy(entry_point=...)` and `estimator.create_model(entry_point=...)` use another script than the
    # training job.
    def given(name: str) -> Value:
        inner = created.argument(name) if created is not None else ABSENT
        return _either(call.argument(name), inner)

    return replace(
        base,
        framework=model.framework,
        framework_version=model.framework_version,
        py_version=model.py_version,
        image=_either(given("image_uri"), model.image),
        environment=_either(given("env"), model.environment),
        entry_point=_either(given("entry_point"), model.entry_point),
        source_dir=_either(given("source_dir"), model.source_dir),
    )


def _processing(call: Call, kind: str) -> Iterator[JobDefinition]:
    module = call.module
    framework = FRAMEWORKS.get(kind.removesuffix("Processor"))
    job = replace(_job(call, kind, "processing"), framework=framework)
    runs = [
        candidate
        for candidate in calls_named(module, "run")
        if module.origin(candidate.receiver) is call.node
    ]
    steps = calls_named(module, "ProcessingStep")
    runs += [step for step in steps if module.origin(step.expression("processor")) is call.node]
    if not runs:
        yield job
    for run in runs:
        code = run.argument("code", 0 if run.method == "run" else None)
        words, arguments = call.argument("entrypoint", 2).items, run.argument("arguments").items or ()
        is_plain = kind == "Processor"
        yield replace(
            job,
            entry_point=_either(code, call.argument("submit_app")),
            source_dir=run.argument("source_dir"),
            command=known((*words, *arguments)) if is_plain and words is not None else ABSENT,
            inputs=_mounts(run, "inputs"),
            outputs=_mounts(run, "outputs"),
            container_arguments=_either(run.argument("arguments"), run.argument("job_arguments")),
            arguments={**job.arguments, **run.arguments()},
        )


def _mounts(run: Call, keyword: str) -> tuple[ProcessingMount, ...] | None:
    written = run.module.origin(run.expression(keyword))
    if written is None:
        return () if run.argument(keyword).is_absent else None
    if not isinstance(written, (ast.List, ast.Tuple)):
        return None
    mounts: list[ProcessingMount] = []
    for item in written.elts:
        call = origin_call(run.module, item)
        if call is None:
            return None
        path, address = ("destination", "source") if keyword == "inputs" else ("source", "destination")
        first, second = (1, 0) if keyword == "inputs" else (0, 1)
        name = "input_name" if keyword == "inputs" else "output_name"
        mounts.append(
            ProcessingMount(
                call.argument(path, first), call.argument(address, second), call.argument(name), call.span
            )
        )
    return tuple(mounts)
