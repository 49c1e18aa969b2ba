"""The AWS client of all backends, with typed methods for every request that GPUproof makes.

`Aws` is the client; `services` has a module for each service. Failed requests become errors with AWS's error code and a
remedy from `data/remedies.csv`. boto3 is imported with the first request.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuproof.backends.aws.s3_object import CONNECTIONS, S3Object

if TYPE_CHECKING:
    from gpuproof.backends.aws.client import Aws
    from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable, NoCredentials
    from gpuproof.backends.aws.services.cloudwatch_logs import LogEvent, LogStream
    from gpuproof.backends.aws.services.iam import Caller, Role
    from gpuproof.backends.aws.services.sagemaker import SageMakerKind

__all__ = [
    "CONNECTIONS",
    "Aws",
    "AwsRefused",
    "AwsUnreachable",
    "Caller",
    "LogEvent",
    "LogStream",
    "NoCredentials",
    "Role",
    "S3Object",
    "SageMakerKind",
]

_HOMES = {
    "Aws": "client",
    "AwsRefused": "errors",
    "AwsUnreachable": "errors",
    "Caller": "services.iam",
    "LogEvent": "services.cloudwatch_logs",
    "LogStream": "services.cloudwatch_logs",
    "NoCredentials": "errors",
    "Role": "services.iam",
    "SageMakerKind": "services.sagemaker",
}


def __getattr__(name: str) -> Any:
    # Local runs need `S3Object` but no client: they start some milliseconds faster without it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
