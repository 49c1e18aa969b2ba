"""Wires the emulator's components together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuproof_emulator.auth.key_ring import KeyRing
from gpuproof_emulator.auth.signature import SignatureVerifier
from gpuproof_emulator.bootstrap import create_roles
from gpuproof_emulator.clients import Clients
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.model_server import GPUproofServer
from gpuproof_emulator.execution.endpoints.registry import EndpointRegistry
from gpuproof_emulator.execution.endpoints.scalable_targets import scaled_variants
from gpuproof_emulator.execution.instances.supervisor import InstanceSupervisor
from gpuproof_emulator.execution.jobs.supervisor import JobSupervisor
from gpuproof_emulator.execution.notebooks.supervisor import NotebookSupervisor
from gpuproof_emulator.execution.pipelines.runner import fail_lost_executions
from gpuproof_emulator.execution.schedules.runner import ScheduleRunner
from gpuproof_emulator.faults.fault import Fault, Faults
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.options import Options
from gpuproof_emulator.permissions.authorizer import Authorizer
from gpuproof_emulator.protocol import DEFAULT_REGION
from gpuproof_emulator.quotas import Quotas
from gpuproof_emulator.store import Store


class Emulator:
    """One emulated AWS account.

    Args:
        options: how it behaves.
        url: where it listens.
        token: the secret of its access key.
        faults: faults to inject from the start.
        quotas: values of quotas, by code or name.
    """

    def __init__(
        self,
        options: Options,
        url: str,
        token: str,
        faults: Iterable[Fault] = (),
        quotas: dict[str, float] | None = None,
    ) -> None:
        store = Store(_make_folder(options.state / "sagemaker"))
        clients = Clients(url, token, as_roles=options.enforce_iam)
        self.context = Context(
            options,
            store,
            Faults(list(faults)),
            Quotas(store, quotas or {}),
            clients,
            Authorizer(store, clients, lambda region, name: bool(scaled_variants(clients, region, name))),
        )
        self.token = token
        self.signatures = SignatureVerifier(KeyRing(token))
        self.journal = _moto_journal(_make_folder(options.state / "moto"))
        if options.regions:
            _enable_regions(options.regions)
        self.jobs = JobSupervisor(self.context)
        self.endpoints = EndpointRegistry(self.context, GPUproofServer(self.context))
        self.schedules = ScheduleRunner(self.context)
        self.notebooks = NotebookSupervisor(self.context)
        self.instances = InstanceSupervisor(self.context, self.journal) if options.boot_instances else None

    def restore(self) -> None:
        """Restore the state in which the emulator last ended; call it before the first request."""
        self.journal.replay()
        self.jobs.fail_lost()
        fail_lost_executions(self.context)
        self.notebooks.settle_lost()

    def reset(self) -> None:
        """End all jobs and containers, and return to the state of a fresh start; no other request may be in progress."""
        from moto.moto_api._internal.models import moto_api_backend  # loads slowly

        self._end_all()
        self.schedules.reset()
        self.context.store.clear()
        self.context.faults.reset()
        self.context.quotas.reset()
        self.journal.clear(moto_api_backend.reset)
        self.context.clients.forget_roles()
        self.context.authorizer.decisions.clear()
        self.endpoints = EndpointRegistry(self.context, GPUproofServer(self.context))
        self.notebooks = NotebookSupervisor(self.context)
        self.create_roles()

    def create_roles(self) -> None:
        """Create the roles that are missing, unless the account is to be empty; requests must be served meanwhile."""
        if self.context.options.role:
            create_roles(self.context.clients.get("iam", DEFAULT_REGION))

    def shutdown(self) -> None:
        """End all jobs and containers. Requests must still be served meanwhile: logs and artifacts are uploaded here."""
        self.schedules.shutdown()
        self.endpoints.metrics.publish()
        self._end_all()
        self.journal.close()

    def _end_all(self) -> None:
        self.jobs.shutdown()
        self.endpoints.shutdown()
        self.notebooks.shutdown()
        if self.instances is not None:
            self.instances.shutdown()


def _moto_journal(folder: Path) -> Journal:
    from moto.moto_api._internal import mock_random
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return Journal(DomainDispatcherApplication(create_backend_app), mock_random.seed, folder)


def _enable_regions(names: frozenset[str]) -> None:
    """Let `DescribeRegions` list only these."""
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    RegionsAndZonesBackend.regions = [
        region for region in RegionsAndZonesBackend.regions if region.name in names
    ]


def _make_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
