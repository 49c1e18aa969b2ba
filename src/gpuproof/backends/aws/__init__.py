"""Every AWS call that a place makes, typed, in one client.

`Aws` is the client; each service's part of it has a file here. What AWS answers when it does not do what it is asked
becomes an error in words with AWS's own code in it, and `data/remedies.csv` says what to do about each. boto3 is
imported when the first call is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuproof.backends.aws.s3_object import CONNECTIONS, S3Object

if TYPE_CHECKING:
    from gpuproof.backends.aws.client import Aws
    from gpuproof.backends.aws.cloudwatch_logs import LogEvent, LogStream
    from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable, NoCredentials
    from gpuproof.backends.aws.iam import Caller, Role
    from gpuproof.backends.aws.sagemaker import SageMakerKind

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
    "Caller": "iam",
    "LogEvent": "cloudwatch_logs",
    "LogStream": "cloudwatch_logs",
    "NoCredentials": "errors",
    "Role": "iam",
    "SageMakerKind": "sagemaker",
}


def __getattr__(name: str) -> Any:
    # Runs on this machine need an object's name and no client: they start some milliseconds sooner without.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
