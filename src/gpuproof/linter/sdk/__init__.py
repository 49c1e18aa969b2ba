"""The interfaces of the SageMaker SDK v2 and v3, and of AWS requests in the service model of botocore.

`tools/build_sdk_tables.py` reads the SDK's tables from the packages themselves; each is loaded at its first question.
The service model is read from the installed botocore, so it is as fresh as boto3.
"""

from gpuproof.linter.sdk.changes import (
    RequiredArguments,
    SdkChange,
    v1_method,
    v1_name,
    v1_parameter,
    v2_needs,
    v3_replacement,
)
from gpuproof.linter.sdk.service_model import (
    FormerlyRequired,
    Operation,
    ServiceModel,
    Shape,
    botocore_operation,
    formerly_required,
    service,
)
from gpuproof.linter.sdk.signature import Parameter, Signature
from gpuproof.linter.sdk.tables import Sdk, v2, v3

__all__ = [
    "FormerlyRequired",
    "Operation",
    "Parameter",
    "RequiredArguments",
    "Sdk",
    "SdkChange",
    "ServiceModel",
    "Shape",
    "Signature",
    "botocore_operation",
    "formerly_required",
    "service",
    "v1_method",
    "v1_name",
    "v1_parameter",
    "v2",
    "v2_needs",
    "v3",
    "v3_replacement",
]
