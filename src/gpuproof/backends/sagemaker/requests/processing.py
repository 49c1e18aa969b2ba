"""The request that creates a processing job. Pure."""

from __future__ import annotations

import re
from typing import Any

from gpuproof.backends.sagemaker.requests import common
from gpuproof.backends.sagemaker.requests.common import Order
from gpuproof.jobs.spec import ProcessingJob

CODE = "/opt/ml/processing/gpuproof"
"""Where the container finds the agent and the source."""

VERDICT = "/opt/ml/processing/gpuproof-out"
"""Where the agent leaves the verdict."""

_NAME = "gpuproof"


def processing_request(order: Order, job: ProcessingJob) -> dict[str, Any]:
    """What CreateProcessingJob is asked."""
    own, places, instance = job.sagemaker, order.addresses, order.target.instance
    cluster: dict[str, Any] = {
        "InstanceType": order.target.name,
        "InstanceCount": job.instance_count,
        "VolumeSizeInGB": _volume_gb(order),
    }
    if (key := common.volume_key(job, instance)) is not None:
        cluster["VolumeKmsKeyId"] = key
    outputs = [
        _output(output_name(key, number), outlet.path, places.outputs[key], "EndOfJob")
        for number, (key, outlet) in enumerate(job.outputs.items(), 1)
    ]
    request: dict[str, Any] = {
        "ProcessingJobName": order.run_id,
        "ProcessingInputs": [
            *(
                _input(_named(key, "input", number), mount.path, places.inputs[key])
                for number, (key, mount) in enumerate(job.inputs.items(), 1)
            ),
            _input(_NAME, CODE, places.code),
        ],
        "ProcessingOutputConfig": {
            # While it goes on: SageMaker uploads nothing else of a job that fails.
            "Outputs": [*outputs, _output(_NAME, VERDICT, places.verdict, "Continuous")]
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds": common.max_runtime(job)},
        "AppSpecification": {
            "ImageUri": order.target.image.uri,
            "ContainerEntrypoint": common.entrypoint(CODE),
        },
        "RoleArn": order.role,
        "NetworkConfig": {
            "EnableNetworkIsolation": own.network_isolation,
            "EnableInterContainerTrafficEncryption": own.encrypt_traffic,
        },
        "Tags": common.tag_list(common.tags(order)),
    }
    if own.output_kms_key:
        request["ProcessingOutputConfig"]["KmsKeyId"] = own.output_kms_key
    if job.environment:
        request["Environment"] = dict(job.environment)
    if (network := common.vpc(job)) is not None:
        request["NetworkConfig"]["VpcConfig"] = network
    return request


def output_name(key: str, number: int) -> str:
    """What an output is called: the job's own word for it, or its number where that is a path."""
    return _named(key, "output", number)


def _volume_gb(order: Order) -> int:
    """Here the API wants a size of every type, and one with disks of its own takes no more than they hold."""
    wanted = order.job.sagemaker.volume_size or common.DEFAULT_VOLUME_GB
    instance = order.target.instance
    if instance is None or not instance.local_disk:
        return wanted
    return max(1, min(wanted, instance.local_disk // 10**9))


def _named(key: str, word: str, number: int) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", key) and key != _NAME else f"{word}-{number}"


def _input(name: str, path: str, uri: str) -> dict[str, Any]:
    return {
        "InputName": name,
        "AppManaged": False,
        "S3Input": {
            "S3Uri": uri,
            "LocalPath": path,
            "S3DataType": "S3Prefix",
            "S3InputMode": "File",
            "S3DataDistributionType": "FullyReplicated",
            "S3CompressionType": "None",
        },
    }


def _output(name: str, path: str, uri: str, mode: str) -> dict[str, Any]:
    return {
        "OutputName": name,
        "AppManaged": False,
        "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode},
    }
