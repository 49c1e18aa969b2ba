"""Builds the request that creates a processing job."""

from __future__ import annotations

from typing import Any

from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.remote.results.output_names import RESERVED, input_name, output_name
from gpuproof.backends.sagemaker.requests import common
from gpuproof.backends.sagemaker.requests.common import JobRequest
from gpuproof.jobs.models.script_jobs import ProcessingJob

CODE = "/opt/ml/processing/gpuproof"
"""The container's folder for the agent and the source."""

VERDICT = "/opt/ml/processing/gpuproof-out"
"""The container's folder for the verdict."""


def processing_request(request: JobRequest, job: ProcessingJob) -> dict[str, Any]:
    """The request of CreateProcessingJob."""
    own, addresses, instance = job.sagemaker, request.addresses, request.target.instance
    cluster: dict[str, Any] = {
        "InstanceType": request.target.name,
        "InstanceCount": job.instance_count,
        "VolumeSizeInGB": _volume_gb(request),
    }
    if (key := common.volume_key(job, instance)) is not None:
        cluster["VolumeKmsKeyId"] = key
    outputs = [
        _output(output_name(key, number), output.path, addresses.outputs[key], "EndOfJob")
        for number, (key, output) in enumerate(job.outputs.items(), 1)
    ]
    body: dict[str, Any] = {
        "ProcessingJobName": request.run_id,
        "ProcessingInputs": [
            *(
                _input(input_name(key, number), mount.path, addresses.inputs[key])
                for number, (key, mount) in enumerate(job.inputs.items(), 1)
            ),
            _input(RESERVED, CODE, addresses.code),
        ],
        "ProcessingOutputConfig": {
            # Continuous: SageMaker does not upload other outputs of a job that fails.
            "Outputs": [*outputs, _output(RESERVED, VERDICT, addresses.verdict, "Continuous")]
        },
        "ProcessingResources": {"ClusterConfig": cluster},
        "StoppingCondition": {"MaxRuntimeInSeconds": common.max_runtime(job)},
        "AppSpecification": {
            "ImageUri": request.target.image.uri,
            "ContainerEntrypoint": common.entrypoint(CODE),
        },
        "RoleArn": request.role,
        "NetworkConfig": {
            "EnableNetworkIsolation": own.network_isolation,
            "EnableInterContainerTrafficEncryption": own.encrypt_traffic,
        },
        "Tags": tag_list(common.tags(request)),
    }
    if own.output_kms_key:
        body["ProcessingOutputConfig"]["KmsKeyId"] = own.output_kms_key
    if job.environment:
        body["Environment"] = dict(job.environment)
    if (network := common.vpc(job)) is not None:
        body["NetworkConfig"]["VpcConfig"] = network
    return body


def _volume_gb(request: JobRequest) -> int:
    """The volume size. Processing jobs require one, and for a type with local disks it must not exceed their size."""
    wanted = request.job.sagemaker.volume_size or common.DEFAULT_VOLUME_GB
    instance = request.target.instance
    if instance is None or not instance.local_disk:
        return wanted
    return max(1, min(wanted, instance.local_disk // 10**9))


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
