"""Builds the request that creates a training job."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.contract import hyperparameter_texts
from gpuproof.agent.paths import ContractPaths
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.sagemaker.requests import common
from gpuproof.backends.sagemaker.requests.common import JobRequest
from gpuproof.jobs.models.script_jobs import TrainingJob
from gpuproof.units import Duration

RETRIES = 2
"""Retries by SageMaker after an internal fault; MaxRuntimeInSeconds covers all attempts together."""

_CODE = "code"
_CODE_IF_TAKEN = "gpuproof"


def training_request(request: JobRequest, job: TrainingJob) -> dict[str, Any]:
    """The request of CreateTrainingJob."""
    own, addresses = job.sagemaker, request.addresses
    channel = code_channel(job)
    body: dict[str, Any] = {
        "TrainingJobName": request.run_id,
        "AlgorithmSpecification": {
            "TrainingImage": request.target.image.uri,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": common.entrypoint(ContractPaths().channel(channel)),
        },
        "RoleArn": request.role,
        "InputDataConfig": [
            *(_channel(name, uri) for name, uri in addresses.inputs.items()),
            _channel(channel, addresses.code),
        ],
        "OutputDataConfig": {"S3OutputPath": addresses.output},
        "ResourceConfig": _resources(request, job),
        "StoppingCondition": {"MaxRuntimeInSeconds": common.max_runtime(job)},
        "RetryStrategy": {"MaximumRetryAttempts": RETRIES},
        "Tags": tag_list(common.tags(request)),
        "EnableNetworkIsolation": own.network_isolation,
        "EnableInterContainerTrafficEncryption": own.encrypt_traffic,
        "EnableManagedSpotTraining": job.resources.spot,
    }
    if job.hyperparameters:
        body["HyperParameters"] = hyperparameter_texts(job.hyperparameters)
    if job.environment:
        body["Environment"] = dict(job.environment)
    if own.metrics:
        definitions = [{"Name": name, "Regex": regex} for name, regex in own.metrics.items()]
        body["AlgorithmSpecification"]["MetricDefinitions"] = definitions
    if own.output_kms_key:
        body["OutputDataConfig"]["KmsKeyId"] = own.output_kms_key
    if job.resources.spot:
        body["StoppingCondition"]["MaxWaitTimeInSeconds"] = max_wait(job)
    if addresses.checkpoints:
        body["CheckpointConfig"] = {
            "S3Uri": addresses.checkpoints,
            "LocalPath": ContractPaths().checkpoints,
        }
    if (network := common.vpc(job)) is not None:
        body["VpcConfig"] = network
    return body


def code_channel(job: TrainingJob) -> str:
    """The channel of the agent and the source; not `code` if the job has a channel of that name."""
    return _CODE_IF_TAKEN if _CODE in job.inputs else _CODE


def max_wait(job: TrainingJob) -> int:
    """Seconds for waiting and running together: the job's setting, by default twice the running time."""
    runtime = common.max_runtime(job)
    given: Duration | None = job.sagemaker.max_wait
    return max(runtime, int(given.seconds)) if given is not None else 2 * runtime


def _resources(request: JobRequest, job: TrainingJob) -> dict[str, Any]:
    instance = request.target.instance
    resources: dict[str, Any] = {"InstanceType": request.target.name, "InstanceCount": job.instance_count}
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
