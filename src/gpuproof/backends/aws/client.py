"""The one client for everything that GPUproof's places ask of AWS."""

from __future__ import annotations

from gpuproof.backends.aws.cloudwatch_logs import LogCalls
from gpuproof.backends.aws.iam import IdentityCalls
from gpuproof.backends.aws.s3 import S3Calls
from gpuproof.backends.aws.s3_transfer import TransferCalls
from gpuproof.backends.aws.sagemaker import SageMakerCalls
from gpuproof.backends.aws.tagging import TaggingCalls


class Aws(TransferCalls, S3Calls, SageMakerCalls, LogCalls, TaggingCalls, IdentityCalls):
    """AWS, in one region: see `AwsSession` for its arguments, and each part for what it answers.

    It may be used by several threads. Nothing is asked, and boto3 is not imported, before the first call.
    """
