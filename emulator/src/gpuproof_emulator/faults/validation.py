"""Detects faults that can never be triggered, such as those for a misspelled operation.

The known operations are those of the installed botocore.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, cast

from botocore.loaders import Loader

from gpuproof.util.humanize import join_words
from gpuproof_emulator.service_model import service_model

# By the names of their endpoints, with botocore's names; EC2's model, by far the largest, comes last.
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


def unreachable_reason(service: str, operation: str) -> str:
    """EndReason nothing meets these two patterns; empty where something may.

    Args:
        service: pattern of a service, by the name of its endpoint.
        operation: pattern of an operation. One with a space is a method and a path, which no model contains.
    """
    models = [model for name, model in _SERVICES.items() if fnmatchcase(name, service)]
    if not models and service in Loader().list_available_services("service-2"):
        models = [service]
    if not models:
        # It may be a service whose endpoint has another name than in botocore.
        return _suggestion(service, _SERVICES, "service")
    if operation == "*" or " " in operation:
        return ""
    known: list[str] = []
    for model in models:
        names: list[str] = list(cast(Any, service_model(model).operation_names))
        if any(fnmatchcase(name, operation) for name in names):
            return ""
        known += names
    return (
        _suggestion(operation, known, "operation") or f"unknown operation '{operation}' of {_joined(models)}"
    )


def _suggestion(name: str, known: Iterable[str], kind: str) -> str:
    close = get_close_matches(name, known, 1)
    return f"unknown {kind} '{name}'; did you mean '{close[0]}'?" if close else ""


def _joined(models: list[str]) -> str:
    return models[0] if len(models) == 1 else f"{join_words(models)}; service= selects another"
