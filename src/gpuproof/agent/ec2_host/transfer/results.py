"""Uploads what a job has left behind, to where SageMaker would."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.artifacts.archive_create import ArtifactError, PackResult, pack
from gpuproof.agent.ec2_host.contract_files import code_folder
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli
from gpuproof.agent.failure import LIMIT
from gpuproof.agent.paths import ContainerPaths, RunPaths
from gpuproof.agent.state import STOPPED

_COPY = ("s3", "cp", "--only-show-errors")
_SYNC = ("s3", "sync", "--only-show-errors")


class HostResults:
    """The results of one host.

    Args:
        ml: `/opt/ml`.
        wait: called while the archives are packed.
    """

    def __init__(
        self, aws: AwsCli, parameters: HostParameters, ml: Path, wait: Callable[[float], None]
    ) -> None:
        self._aws = aws
        self._parameters = parameters
        self._ml = ml
        self._wait = wait
        container = ContainerPaths(ml / code_folder(parameters), ml)
        self._folder = container.results(parameters.kind, parameters.host)
        self.notes: list[str] = []
        """Remarks for the user."""

    def failure(self, code: int, messages: Sequence[str]) -> str:
        """Why the job failed, as in SageMaker's `FailureReason`.

        Args:
            messages: the agent's, in case that it could not write the file for it because the disk was full.
        """
        path = RunPaths(self._ml, self._ml).failure(self._parameters.kind)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        text = text.strip() or "\n".join(messages)
        ending = f", exit code: {code}"
        return f"AlgorithmError: {text[: LIMIT - len('AlgorithmError: ') - len(ending)]}{ending}"

    def stopped_with_others(self) -> str | None:
        """Why the agents of all hosts have stopped the job, because one of them was told to; None if they have not."""
        state = _read(self._folder / "run.json") or {}
        if len(self._parameters.hosts) == 1 or state.get("status") != STOPPED:
            return None
        return str(state.get("failure_reason") or "the job was stopped")

    def upload_verdict(self, prefix: str) -> None:
        """Upload the verdict and the state of the run.

        Args:
            prefix: the `s3://` prefix of this host's reports.

        Raises:
            AwsFailed: they cannot be uploaded.
        """
        for name in ("verdict.json", "run.json"):
            document = _read(self._folder / name)
            if document is not None:
                if name == "run.json":
                    document["backend"] = "ec2"
                content = json.dumps(document, indent=1).encode()
                self._aws.run(*_COPY, "-", f"{prefix}{name}", content=content)

    def upload_outputs(self, *, succeeded: bool) -> None:
        """Upload a training job's archives, or the outputs of a processing job.

        The archives of other hosts than the first are below the name of their host.

        Args:
            succeeded: whether the job succeeded; only then an empty model is uploaded, too.

        Raises:
            AwsFailed: they cannot be uploaded.
            OSError: they cannot be read.
        """
        if self._parameters.kind != "training":
            for path, address in self._parameters.outputs.items():
                if (self._ml / path).is_dir():
                    self._aws.run(*_SYNC, str(self._ml / path), f"{address.rstrip('/')}/")
            return
        is_first = self._parameters.host == self._parameters.hosts[0]
        self._upload_folder(self._ml / "model", "model", even_empty=succeeded and is_first)
        self._upload_folder(self._ml / "output" / "data", "output", even_empty=False)

    def _upload_folder(self, folder: Path, name: str, *, even_empty: bool) -> None:
        if not folder.is_dir() or not (even_empty or any(path.is_file() for path in folder.rglob("*"))):
            return
        parameters = self._parameters
        below = "" if parameters.host == parameters.hosts[0] else f"{parameters.host}/"
        address = f"{parameters.output.rstrip('/')}/{parameters.run_id}/output/{below}{name}"
        archive = self._ml / f".{name}.tar.gz"
        try:
            packed = self._pack(folder, archive)
        except ArtifactError as error:
            self.notes.append(f"{name}: uploaded as a folder, without compression: {error}")
            self._aws.run(*_SYNC, str(folder), f"{address}/")
            return
        self.notes += [f"{name}.tar.gz: {note}" for note in packed.notes]
        self._aws.run(*_COPY, str(archive), f"{address}.tar.gz")
        archive.unlink()

    def _pack(self, folder: Path, archive: Path) -> PackResult:
        """Pack a folder in a thread, so that the watchdog hears of this program meanwhile."""
        found: list[PackResult] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                found.append(pack(folder, archive))
            except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
                failed.append(error)

        thread = threading.Thread(target=run, name="pack", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(0.1)
            self._wait(0.0)
        if failed:
            raise failed[0]
        return found[0]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None
