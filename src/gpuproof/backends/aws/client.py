"""The AWS client of all backends."""

from __future__ import annotations

from gpuproof.backends.aws.services.audit import AuditCalls
from gpuproof.backends.aws.services.cloudwatch_logs import LogCalls
from gpuproof.backends.aws.services.cloudwatch_metrics import MetricCalls
from gpuproof.backends.aws.services.cost_explorer import CostExplorerCalls
from gpuproof.backends.aws.services.iam import IdentityCalls
from gpuproof.backends.aws.services.inventory import InventoryCalls
from gpuproof.backends.aws.services.s3 import S3Calls
from gpuproof.backends.aws.services.s3_transfer import TransferCalls
from gpuproof.backends.aws.services.sagemaker_runtime import RuntimeCalls
from gpuproof.backends.aws.services.tagging import TaggingCalls


class Aws(
    TransferCalls,
    S3Calls,
    InventoryCalls,
    AuditCalls,
    RuntimeCalls,
    LogCalls,
    MetricCalls,
    TaggingCalls,
    CostExplorerCalls,
    IdentityCalls,
):
    """AWS in one region; see `AwsSession` for its arguments and the base classes for its methods.

    It is thread-safe. boto3 is imported with the first request.
    """
