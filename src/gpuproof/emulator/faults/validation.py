"""Whether a fault can ever strike what it is meant for: a misspelt operation would be waited for in vain.

The operations are those of the installed botocore.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, cast

from botocore.loaders import Loader

from gpuproof.emulator.service_model import service_model
from gpuproof.util.humanize import join_words

# As their endpoints are called, and as botocore calls them where that differs; EC2's model is by far the largest.
_SERVICES = {
    "sagemaker": "sagemaker",
    "sagemaker-runtime": "sagemaker-runtime",
    "s3": "s3",
    "sts": "sts",
    "iam": "iam",
    "logs": "logs",
    "monitoring": "cloudwatch",
    "servicequotas": "service-quotas",
    "tagging": "resourcegroupstaggingapi",
    "pricing": "pricing",
    "ecr": "ecr",
    "kms": "kms",
    "ec2": "ec2",
}


def why_never(service: str, operation: str) -> str:
    """Why nothing meets these two patterns; empty where something may.

    Args:
        service: pattern of a service, as its endpoint is called.
        operation: pattern of an operation. One with a blank is a method and a path, which no model knows.
    """
    models = [model for name, model in _SERVICES.items() if fnmatchcase(name, service)]
    if not models and service in Loader().list_available_services("service-2"):
        models = [service]
    if not models:
        # It may be the endpoint of one that botocore calls otherwise.
        return _like(service, _SERVICES, "service")
    if operation == "*" or " " in operation:
        return ""
    known: list[str] = []
    for model in models:
        names: list[str] = list(cast(Any, service_model(model).operation_names))
        if any(fnmatchcase(name, operation) for name in names):
            return ""
        known += names
    return _like(operation, known, "operation") or f"there is no operation '{operation}' of {_joined(models)}"


def _like(name: str, known: Iterable[str], kind: str) -> str:
    like = get_close_matches(name, known, 1)
    return f"there is no {kind} '{name}'; did you mean '{like[0]}'?" if like else ""


def _joined(models: list[str]) -> str:
    return models[0] if len(models) == 1 else f"{join_words(models)}; service= names another"
