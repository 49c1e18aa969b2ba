"""The emulator's shared state and calls of its operations, for tests without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.model_server import GPUproofServer
from gpuproof_emulator.execution.endpoints.registry import EndpointRegistry
from gpuproof_emulator.execution.jobs.job_control import JobControl
from gpuproof_emulator.execution.jobs.supervisor import JobSupervisor
from gpuproof_emulator.execution.notebooks.supervisor import NotebookSupervisor
from gpuproof_emulator.faults.fault import Faults
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.options import Options
from gpuproof_emulator.permissions.authorizer import Authorizer
from gpuproof_emulator.quotas import Quotas
from gpuproof_emulator.store import PROCESSING, TRAINING, Resource, Store

REGION = "us-east-1"


def make_context(
    folder: Path,
    *,
    store: Store | None = None,
    quotas: dict[str, float] | None = None,
    clients: Clients | None = None,
) -> Context:
    """An emulator's state in a folder, without faults; its clients reach no server unless given."""
    store = store or Store(folder / "store")
    clients = clients or Clients("http://127.0.0.1:9", "token")
    authorizer = Authorizer(store, clients, lambda _region, _name: False)
    return Context(Options(folder), store, Faults([]), Quotas(store, quotas or {}), clients, authorizer)


def make_call(context: Context, request: dict[str, Any]) -> OperationCall:
    """A call of an operation; jobs that it starts do nothing."""
    jobs = JobSupervisor(context, {TRAINING: _do_nothing, PROCESSING: _do_nothing})
    endpoints, notebooks = EndpointRegistry(context, GPUproofServer(context)), NotebookSupervisor(context)
    return OperationCall(context, jobs, endpoints, notebooks, request, REGION, 0.0)


def _do_nothing(_context: Context, _job: Resource, _control: JobControl, _folder: Path) -> None:
    """A job that ends at once."""
