"""The request that creates a training job. Pure."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.contract import hyperparameter_texts
from gpuproof.agent.paths import ContractPaths
from gpuproof.backends.sagemaker.requests import common
from gpuproof.backends.sagemaker.requests.common import Order
from gpuproof.jobs.spec import TrainingJob
from gpuproof.units import Duration

RETRIES = 2
"""How often SageMaker begins again after a fault of its own; MaxRuntimeInSeconds counts all attempts together."""

_CODE = "code"
_CODE_BESIDE = "gpuproof"


def training_request(order: Order, job: TrainingJob) -> dict[str, Any]:
    """What CreateTrainingJob is asked."""
    own, places = job.sagemaker, order.addresses
    channel = code_channel(job)
    request: dict[str, Any] = {
        "TrainingJobName": order.run_id,
        "AlgorithmSpecification": {
            "TrainingImage": order.target.image.uri,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": common.entrypoint(ContractPaths().channel(channel)),
        },
        "RoleArn": order.role,
        "InputDataConfig": [
            *(_channel(name, uri) for name, uri in places.inputs.items()),
            _channel(channel, places.code),
        ],
        "OutputDataConfig": {"S3OutputPath": places.output},
        "ResourceConfig": _resources(order, job),
        "StoppingCondition": {"MaxRuntimeInSeconds": common.max_runtime(job)},
        "RetryStrategy": {"MaximumRetryAttempts": RETRIES},
        "Tags": common.tag_list(common.tags(order)),
        "EnableNetworkIsolation": own.network_isolation,
        "EnableInterContainerTrafficEncryption": own.encrypt_traffic,
        "EnableManagedSpotTraining": job.resources.spot,
    }
    if job.hyperparameters:
        request["HyperParameters"] = hyperparameter_texts(job.hyperparameters)
    if job.environment:
        request["Environment"] = dict(job.environment)
    if own.metrics:
        definitions = [{"Name": name, "Regex": regex} for name, regex in own.metrics.items()]
        request["AlgorithmSpecification"]["MetricDefinitions"] = definitions
    if own.output_kms_key:
        request["OutputDataConfig"]["KmsKeyId"] = own.output_kms_key
    if job.resources.spot:
        request["StoppingCondition"]["MaxWaitTimeInSeconds"] = max_wait(job)
    if places.checkpoints:
        request["CheckpointConfig"] = {
            "S3Uri": places.checkpoints,
            "LocalPath": ContractPaths().checkpoints,
        }
    if (network := common.vpc(job)) is not None:
        request["VpcConfig"] = network
    return request


def code_channel(job: TrainingJob) -> str:
    """The channel that brings the agent and the source; the user's own channel `code` stays the user's."""
    return _CODE_BESIDE if _CODE in job.inputs else _CODE


def max_wait(job: TrainingJob) -> int:
    """Seconds for waiting and running together: the job's own, else as long again for the waiting."""
    runtime = common.max_runtime(job)
    given: Duration | None = job.sagemaker.max_wait
    return max(runtime, int(given.seconds)) if given is not None else 2 * runtime


def _resources(order: Order, job: TrainingJob) -> dict[str, Any]:
    instance = order.target.instance
    resources: dict[str, Any] = {"InstanceType": order.target.name, "InstanceCount": job.instance_count}
    if (size := common.volume_gb(job, instance)) is not None:
        resources["VolumeSizeInGB"] = size
    if (key := common.volume_key(job, instance)) is not None:
        resources["VolumeKmsKeyId"] = key
    if job.sagemaker.keep_alive is not None:
        resources["KeepAlivePeriodInSeconds"] = int(job.sagemaker.keep_alive.seconds)
    return resources


def _channel(name: str, uri: str) -> dict[str, Any]:
    return {
        "ChannelName": name,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
        "InputMode": "File",
        "CompressionType": "None",
        "RecordWrapperType": "None",
    }
