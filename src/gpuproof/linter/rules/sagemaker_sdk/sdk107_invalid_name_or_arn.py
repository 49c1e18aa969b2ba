"""AWS rejects this name or ARN because it does not match the pattern that the service requires.

Names of jobs, models and endpoints consist of letters, digits and hyphens, without underscores; the ARN of a role
contains an account id of twelve digits. The SDK does not check them, so the service rejects a name only after the
code was packed and uploaded, and an endpoint name only after the model was created.

Bad:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", endpoint_name="my_endpoint")  # <-

Fixed:

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", entry_point="inference.py")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge", endpoint_name="my-endpoint")

Bad:

    import boto3

    boto3.client("sagemaker").create_model(
        ModelName="model",
        ExecutionRoleArn="arn:aws:iam::12345:role/sagemaker",  # <-
    )

Good:

    import boto3
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="sagemaker_role", framework_version="2.3", py_version="py311",
        base_job_name="my-job",
    )
    boto3.client("sagemaker").create_model(
        ModelName="model", ExecutionRoleArn="arn:aws:iam::123456789012:role/my_role"
    )

Quiet: a placeholder, and a name that is only partly known

    import boto3
    from sagemaker.pytorch import PyTorch
    from settings import user

    PyTorch(entry_point="train.py", role="arn:aws:iam::<account-id>:role/sagemaker", base_job_name=f"{user}_job")
    boto3.client("sagemaker").create_model(ModelName="model", ExecutionRoleArn="arn:aws:iam::XXXXXXXXXXXX:role/role")

Quiet: a tuner names the jobs

    from sagemaker.pytorch import PyTorch
    from sagemaker.tuner import HyperparameterTuner

    estimator = PyTorch(entry_point="train.py", role="role", base_job_name="my_job")
    HyperparameterTuner(estimator, objective_metric_name="loss", hyperparameter_ranges={}).fit()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.placeholders import find_placeholder
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.sdk import Shape, botocore_operation, v2
from gpuproof.linter.sdk.boto3_requests import (
    Boto3Request,
    boto3_requests,
    document_requests,
    request_members,
)
from gpuproof.linter.sdk.calls import sdk_path, sdk_signature
from gpuproof.linter.source.edit import Fix
from gpuproof.linter.source.span import Unit

rule = Rule(
    "SDK107",
    "invalid-name-or-arn",
    Severity.ERROR,
    needs=("sagemaker", "create_", "run_instances"),
    kinds=("shell", "makefile", "request"),
)

_NAMED = {
    "fit": {"job_name": ("create_training_job", "TrainingJobName")},
    "run": {"job_name": ("create_processing_job", "ProcessingJobName")},
    "transform": {"job_name": ("create_transform_job", "TransformJobName")},
    "deploy": {"endpoint_name": ("create_endpoint", "EndpointName")},
}
"""Arguments of SDK methods that are passed unchanged to a request."""

_BASES = {
    "sagemaker.estimator.EstimatorBase": {
        "base_job_name": ("create_training_job", "TrainingJobName"),
        "role": ("create_training_job", "RoleArn"),
    },
    "sagemaker.processing.Processor": {
        "base_job_name": ("create_processing_job", "ProcessingJobName"),
        "role": ("create_processing_job", "RoleArn"),
    },
    "sagemaker.model.Model": {
        "name": ("create_model", "ModelName"),
        "role": ("create_model", "ExecutionRoleArn"),
    },
}
"""The same for constructors, by base class. The SDK appends a time to base names."""

_TAKERS = {
    "HyperparameterTuner": ("estimator",),
    "TrainingStep": ("estimator",),
    "TuningStep": ("estimator",),
    "ProcessingStep": ("processor",),
}
"""Classes that run an estimator or a processor under names of their own, and the arguments that pass it."""
_UNFINISHED = re.compile(r"[<>{}\[\]*$]|\.\.\.|xxx|account|example|replace|todo", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for request in boto3_requests(module):
        yield from _names(request)
    if not module.imports("sagemaker"):
        return
    for call in all_calls(module):
        for word, (operation, member) in _members(call).items():
            if word == "base_job_name" and _is_named_by_another(module, call):
                continue
            value = _argument(call, word)
            # The SDK also accepts the name of a role.
            if member.endswith("Arn") and not (value.text or "").startswith("arn:"):
                continue
            found = botocore_operation(operation)
            shape = found.shape(member) if found else None
            if shape is not None:
                yield from _check_text(shape, value, word, is_beginning=word.startswith("base_"))


@rule.unit
def check_document(unit: Unit, _: Project) -> Hits:
    for request in document_requests(unit):
        yield from _names(request)


def _names(request: Boto3Request) -> Hits:
    for part in request_members(request):
        name = part.path.rpartition(".")[2]
        if part.shape is not None and name.endswith(("Name", "Arn")):
            yield from _check_text(part.shape, part.value, name)


def _check_text(shape: Shape, value: Value, name: str, is_beginning: bool = False) -> Hits:
    text = value.text
    if text is None or not value.is_known or value.span is None:
        return
    if find_placeholder(text) or _UNFINISHED.search(text) or _matches(shape, text, is_beginning):
        return
    yield _hit(shape, value, name, text)


def _hit(shape: Shape, value: Value, name: str, text: str) -> Hit:
    better = re.sub("[_ .]+", "-", text).strip("-")
    better = better if not name.endswith("Arn") and _matches(shape, better) else ""
    too_long = shape.maximum is not None and len(text) > shape.maximum
    why = (
        f"it has {len(text)} characters, the maximum is {shape.maximum:.0f}" if too_long else _why(text, name)
    )
    assert value.span is not None
    edits = replace_text(value, text, better) if better else ()
    return rule.hit(
        value.span,
        f'`{name}="{text}"` is rejected: {why}.',
        remedy=f'Write "{better}".' if better else None,
        evidence=(f"pattern {shape.pattern}",) if shape.pattern else (),
        fix=Fix(f'Write "{better}"', edits, safe=True) if edits else None,
    )


def _why(text: str, name: str) -> str:
    if text.startswith("arn:") and ":iam:" in text:
        return "the ARN of a role is arn:aws:iam::ACCOUNT:role/NAME, with twelve digits for the account"
    if name.lower().endswith("arn"):
        return "it is not an ARN of the required kind"
    if "_" in text:
        return "names consist of letters, digits and hyphens, without underscores"
    return "it does not match the pattern that the service requires"


def _matches(shape: Shape, text: str, is_beginning: bool = False) -> bool:
    if shape.maximum is not None and len(text) > shape.maximum and not is_beginning:
        return False
    if shape.pattern is None:
        return True
    try:
        return re.fullmatch(shape.pattern, f"{text[:40]}-1" if is_beginning else text) is not None
    except re.error:
        # The pattern uses another dialect of regular expressions.
        return True


def _is_named_by_another(module: Module, call: Call) -> bool:
    """Whether a tuner or a pipeline runs the estimator or processor, and names its jobs.

    Source: sagemaker 2.257.7, `HyperparameterTuner._prepare_for_tuning` (base_tuning_job_name, or the image), and
    `PipelineSession` (the pipeline's name and the step).
    """
    takers = [
        candidate.expression(keyword, 0 if candidate.method == "HyperparameterTuner" else None)
        for candidate in calls_named(module, *_TAKERS)
        for keyword in _TAKERS[candidate.method]
    ]
    if not any(made is not None and module.origin(made) is call.node for made in takers):
        session = origin_call(module, call.expression("sagemaker_session"))
        return session is not None and session.method in ("PipelineSession", "LocalPipelineSession")
    # It names its own jobs where the script also runs it directly.
    return not any(
        module.origin(candidate.receiver) is call.node for candidate in calls_named(module, "fit", "run")
    )


def _members(call: Call) -> dict[str, tuple[str, str]]:
    """Arguments of an SDK call that become names and ARNs in a request."""
    words = _NAMED.get(call.method, {})
    if not words and call.name is None:
        return {}
    path = sdk_path(call)
    if path is None or sdk_signature(path, None) is None:
        return {}
    if words:
        return words
    return next((words for base, words in _BASES.items() if v2().is_subclass(path, base)), {})


def _argument(call: Call, word: str) -> Value:
    path = sdk_path(call)
    signature = sdk_signature(path, None) if path else None
    positional = signature.positional if signature else ()
    return call.argument(word, positional.index(word) if word in positional else None)
