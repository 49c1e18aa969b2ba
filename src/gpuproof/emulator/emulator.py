"""Everything that there is of an emulator, put together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuproof.emulator.clients import Clients
from gpuproof.emulator.endpoints import Endpoints
from gpuproof.emulator.execution.endpoints.model_server import GPUproofServer
from gpuproof.emulator.execution.jobs.job_threads import Supervisor
from gpuproof.emulator.faults.fault import Fault, Faults
from gpuproof.emulator.moto_journal import Journal
from gpuproof.emulator.options import Options
from gpuproof.emulator.quotas import Quotas
from gpuproof.emulator.store import Store


class Emulator:
    """One AWS.

    Args:
        options: how it behaves.
        url: where it listens.
        faults: what is asked to go wrong from the start.
        quotas: values of quotas, by code or name.
    """

    def __init__(
        self, options: Options, url: str, faults: Iterable[Fault] = (), quotas: dict[str, float] | None = None
    ) -> None:
        self.options = options
        self.url = url
        self.store = Store(_made(options.state / "sagemaker"))
        self.journal = _journal(_made(options.state / "moto"))
        self.faults = Faults(list(faults))
        self.quotas = Quotas(self.store, quotas or {})
        self.clients = Clients(url)
        self.supervisor = Supervisor(self)
        self.endpoints = Endpoints(self, GPUproofServer(self))

    def restore(self) -> bool:
        """Bring back what was there when the emulator last ended; whether there was anything.

        Call it before the first request.
        """
        requests = self.journal.replay()
        self.supervisor.fail_lost()
        return requests > 0

    def shutdown(self) -> None:
        """End everything that runs. The emulator still has to answer meanwhile: logs and artifacts go to itself."""
        self.supervisor.shutdown()
        self.endpoints.shutdown()
        self.journal.close()


def _journal(folder: Path) -> Journal:
    from moto.moto_api._internal import mock_random
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    return Journal(DomainDispatcherApplication(create_backend_app), mock_random.seed, folder)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
