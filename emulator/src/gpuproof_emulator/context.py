"""What operations, jobs and endpoints share: the stored resources, faults, quotas, clients and options."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.faults.fault import Faults
from gpuproof_emulator.options import Options
from gpuproof_emulator.permissions.authorizer import Authorizer
from gpuproof_emulator.quotas import Quotas
from gpuproof_emulator.store import Store


@dataclass(frozen=True)
class Context:
    """State of one emulator that everything in it may use.

    Args:
        options: how the emulator behaves.
        store: SageMaker's resources.
        faults: faults to inject.
        quotas: values of service quotas.
        clients: boto3 clients of the emulator's own S3, IAM, STS and CloudWatch Logs.
        authorizer: evaluates the policies of users and roles.
    """

    options: Options
    store: Store
    faults: Faults
    quotas: Quotas
    clients: Clients
    authorizer: Authorizer
