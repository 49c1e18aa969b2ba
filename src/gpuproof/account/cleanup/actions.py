"""The AWS calls that delete, stop or release each kind of resource, as data; and how to describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuproof.account.cleanup.resource import Action, Kind, Resource
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.sagemaker.endpoints.scaling import scaling_undo
from gpuproof.util.humanize import join_words

_MOST_KEYS = 1000
"""Keys in one request: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""


def calls_for(resource: Resource) -> tuple[ApiCall, ...]:
    """The calls of a resource's action, in order; none if GPUproof does not delete it.

    Every call names the resource, or what only it uses: an endpoint's own configuration, models and schedule.
    """
    if resource.action is Action.NONE:
        return ()
    return _CALLS[resource.kind](resource)


def describe(resource: Resource) -> str:
    """What happens to a resource: `stop; its disk is kept`."""
    if resource.action is Action.NONE:
        return "not deleted"
    if resource.kind is Kind.ENDPOINT:
        extra = [
            word
            for word, name in (
                ("configuration", "configs"),
                ("model", "models"),
                ("files", "files"),
                ("schedule", "schedules"),
                ("automatic scaling", "variants"),
            )
            if resource.details.get(name)
        ]
        return "delete" + (f", with its {join_words(extra)}" if extra else "")
    if resource.kind is Kind.MODEL and resource.details.get("files"):
        return "delete, with its files"
    return _PHRASES.get((resource.kind, resource.action), str(resource.action))


_PHRASES: Mapping[tuple[Kind, Action], str] = {
    (Kind.NOTEBOOK, Action.STOP): "stop; its disk is kept",
    (Kind.NOTEBOOK, Action.DELETE): "delete, with its disk",
    (Kind.STUDIO_APP, Action.DELETE): "delete the app; its space is kept",
    (Kind.TRAINING, Action.STOP): "stop; SageMaker keeps its model so far",
    (Kind.WARM_POOL, Action.RELEASE): "release its instances",
    (Kind.INSTANCE, Action.STOP): "stop; its volumes are kept, and billed",
    (Kind.INSTANCE, Action.TERMINATE): "terminate, with its volumes",
    (Kind.VOLUME, Action.DELETE): "delete, with its data",
    (Kind.TUNING, Action.STOP): "stop, with its training jobs",
}


def _sagemaker(operation: str, what: str, **request: object) -> ApiCall:
    return ApiCall("sagemaker", operation, request, what)


def _endpoint(one: Resource) -> tuple[ApiCall, ...]:
    # First what costs money: a later call that is refused does not keep the endpoint.
    calls = [_sagemaker("delete_endpoint", f"delete the endpoint {one.id}", EndpointName=one.id)]
    calls += [scaling_undo(one.id, variant) for variant in _listed(one, "variants")]
    calls += [
        ApiCall("scheduler", "delete_schedule", _schedule_request(name), f"delete the schedule {name}")
        for name in _listed(one, "schedules")
    ]
    calls += [
        _sagemaker("delete_endpoint_config", f"delete the configuration {name}", EndpointConfigName=name)
        for name in _listed(one, "configs")
    ]
    # The files before the models: without its model, a file cannot be found.
    calls += _file_calls(_listed(one, "files"), f"of the endpoint {one.id}")
    return (
        *calls,
        *(
            _sagemaker("delete_model", f"delete the model {name}", ModelName=name)
            for name in _listed(one, "models")
        ),
    )


def _notebook(one: Resource) -> tuple[ApiCall, ...]:
    word = "delete" if one.action is Action.DELETE else "stop"
    what = f"{word} the notebook instance {one.id}"
    return (_sagemaker(f"{word}_notebook_instance", what, NotebookInstanceName=one.id),)


def _app(one: Resource) -> tuple[ApiCall, ...]:
    wanted = ("DomainId", "AppType", "AppName", "UserProfileName", "SpaceName")
    request = {name: one.details[name] for name in wanted if one.details.get(name)}
    return (_sagemaker("delete_app", f"delete the app {one.id}", **request),)


def _job(word: str, member: str) -> Callable[[Resource], tuple[ApiCall, ...]]:
    def calls(one: Resource) -> tuple[ApiCall, ...]:
        return (_sagemaker(f"stop_{word}_job", f"stop the {one.kind} {one.id}", **{member: one.id}),)

    return calls


def _warm_pool(one: Resource) -> tuple[ApiCall, ...]:
    # Source: https://docs.aws.amazon.com/sagemaker/latest/dg/train-warm-pools-how-to-use.html
    resources = {"KeepAlivePeriodInSeconds": 0}
    what = f"release the warm pool of {one.id}"
    return (_sagemaker("update_training_job", what, TrainingJobName=one.id, ResourceConfig=resources),)


def _instance(one: Resource) -> tuple[ApiCall, ...]:
    word = "stop" if one.action is Action.STOP else "terminate"
    return (ApiCall("ec2", f"{word}_instances", {"InstanceIds": [one.id]}, f"{word} the instance {one.id}"),)


def _volume(one: Resource) -> tuple[ApiCall, ...]:
    return (ApiCall("ec2", "delete_volume", {"VolumeId": one.id}, f"delete the volume {one.id}"),)


def _model(one: Resource) -> tuple[ApiCall, ...]:
    delete = _sagemaker("delete_model", f"delete the model {one.id}", ModelName=one.id)
    return (*_model_files(one), delete)


def _config(one: Resource) -> tuple[ApiCall, ...]:
    what = f"delete the endpoint configuration {one.id}"
    return (_sagemaker("delete_endpoint_config", what, EndpointConfigName=one.id),)


def _schedule(one: Resource) -> tuple[ApiCall, ...]:
    name = f"{one.details.get('group', 'default')}/{one.id}"
    return (
        ApiCall("scheduler", "delete_schedule", _schedule_request(name), f"delete the schedule {one.id}"),
    )


def _lifecycle(one: Resource) -> tuple[ApiCall, ...]:
    request = {"NotebookInstanceLifecycleConfigName": one.id}
    what = f"delete the lifecycle configuration {one.id}"
    return (_sagemaker("delete_notebook_instance_lifecycle_config", what, **request),)


def _security_group(one: Resource) -> tuple[ApiCall, ...]:
    what = f"delete the security group {one.id}"
    return (ApiCall("ec2", "delete_security_group", {"GroupId": one.id}, what),)


def _run_files(one: Resource) -> tuple[ApiCall, ...]:
    return _file_calls(_listed(one, "files"), f"of the run {one.id}")


def _model_files(one: Resource) -> tuple[ApiCall, ...]:
    return _file_calls(_listed(one, "files"), f"of the model {one.id}")


def _file_calls(addresses: Sequence[str], whose: str) -> tuple[ApiCall, ...]:
    """The calls that delete files in S3, each named in a request."""
    buckets: dict[str, list[str]] = {}
    for address in addresses:
        bucket, _, key = address.removeprefix("s3://").partition("/")
        buckets.setdefault(bucket, []).append(key)
    return tuple(
        ApiCall(
            "s3",
            "delete_objects",
            {
                "Bucket": bucket,
                "Delete": {
                    "Objects": [{"Key": key} for key in keys[first : first + _MOST_KEYS]],
                    "Quiet": True,
                },
            },
            f"delete the files {whose}",
        )
        for bucket, keys in buckets.items()
        for first in range(0, len(keys), _MOST_KEYS)
    )


def _schedule_request(name: str) -> dict[str, str]:
    """The request for `GROUP/NAME`."""
    group, _, own = name.rpartition("/")
    return {"Name": own, "GroupName": group or "default"}


def _listed(one: Resource, name: str) -> list[str]:
    """Names in the details, one a line."""
    return [line for line in one.details.get(name, "").split("\n") if line]


_CALLS: Mapping[Kind, Callable[[Resource], tuple[ApiCall, ...]]] = {
    Kind.ENDPOINT: _endpoint,
    Kind.NOTEBOOK: _notebook,
    Kind.STUDIO_APP: _app,
    Kind.TRAINING: _job("training", "TrainingJobName"),
    Kind.PROCESSING: _job("processing", "ProcessingJobName"),
    Kind.TRANSFORM: _job("transform", "TransformJobName"),
    Kind.TUNING: _job("hyper_parameter_tuning", "HyperParameterTuningJobName"),
    Kind.WARM_POOL: _warm_pool,
    Kind.INSTANCE: _instance,
    Kind.VOLUME: _volume,
    Kind.MODEL: _model,
    Kind.ENDPOINT_CONFIG: _config,
    Kind.SCHEDULE: _schedule,
    Kind.LIFECYCLE_CONFIG: _lifecycle,
    Kind.SECURITY_GROUP: _security_group,
    Kind.RUN_FILES: _run_files,
    Kind.MODEL_FILES: _model_files,
}
"""All kinds but clusters, which are only listed."""
