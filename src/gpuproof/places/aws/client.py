"""The one client for everything that GPUproof's places ask of AWS."""

from __future__ import annotations

from gpuproof.places.aws.identity import IdentityCalls
from gpuproof.places.aws.logs import LogCalls
from gpuproof.places.aws.s3 import S3Calls
from gpuproof.places.aws.sagemaker import SageMakerCalls
from gpuproof.places.aws.tagging import TaggingCalls
from gpuproof.places.aws.transfers import TransferCalls


class Aws(TransferCalls, S3Calls, SageMakerCalls, LogCalls, TaggingCalls, IdentityCalls):
    """AWS, in one region: see `Asking` for its arguments, and each part for what it answers.

    It may be used by several threads. Nothing is asked, and boto3 is not imported, before the first call.
    """
