"""A local run: its state, output, results and end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.agent.local_hosts.results import merge_outputs
from gpuproof.agent.machine.files import MachineFiles
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.ranks.host_failure import Cause
from gpuproof.agent.state import FAILED, read_state
from gpuproof.backends.agent_job.machine import JupyterServer, parse_server
from gpuproof.backends.base import Artifact, Event, Output, TransferProgress
from gpuproof.backends.display import DisplayedRun
from gpuproof.backends.hosts import require_host
from gpuproof.backends.local.follow import follow
from gpuproof.backends.local.host_logs import LogReader, open_logs
from gpuproof.backends.local.run_folders import RunFolders, agent_alive
from gpuproof.backends.record import RunRecord
from gpuproof.errors import GPUproofError, RunNotFound, UsageError
from gpuproof.util.file_copy import copy_file
from gpuproof.util.file_watch import FileWatch

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report
    from gpuproof.jobs.script_job import AnyJob

_POLL_SECONDS = 1.0


class LocalRun(DisplayedRun):
    """One local run; implements `gpuproof.backends.base.Run`.

    Args:
        store: the folders of all runs.
    """

    backend = "local"
    is_remote = False
    can_stop_at_once = True
    address_label = "folder"
    instance_type = None
    lacked_capacity = False

    def __init__(self, store: RunFolders, run_id: str) -> None:
        self._store = store
        self.id = run_id
        self._reader: LogReader | None = None
        self._host: str | None = None

    @property
    def paths(self) -> RunPaths:
        """The paths of the run's folder."""
        return self._store.paths(self.id)

    @property
    def record(self) -> RunRecord:
        """Its current state.

        Raises:
            RunNotFound: it was removed.
        """
        return self._store.record(self.id)

    def known_record(self) -> RunRecord | None:
        """Its record; None if it was removed."""
        try:
            return self.record
        except RunNotFound:
            return None

    @property
    def cli_name(self) -> str:
        """Its id."""
        return self.id

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The content of `verdict.json`; `None` while the script runs, or if it never started."""
        return read_state(self.paths.verdict)

    @property
    def address(self) -> str:
        """Its folder."""
        return str(self.paths.root)

    def artifacts(self) -> list[Artifact]:
        """The archives that the agent created."""
        return [
            Artifact(name, str(self.paths.artifacts / name), packed["files"], packed["bytes"])
            for name, packed in self.record.document.get("artifacts", {}).items()
        ]

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        """Yield its events until it has ended; see `gpuproof.backends.local.follow.follow`.

        Continues where an earlier call, or `write_log`, has stopped. With several hosts, each line of output starts with
        the host's name, unless one host is chosen.
        """
        skip = 0
        if self._reader is None or self._host != host or self._reader.bytes_read != offset:
            self._reader, self._host = open_logs(self.paths, self._shown_hosts(host)), host
            skip = offset
        return _without_beginning(follow(self._store, self.id, self._reader, live=live), skip)

    def read_gpus(self) -> None:
        """None: the samples of `follow` have its GPUs."""

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        """Write the scripts' output so far and return its length in bytes, including what was left out.

        Args:
            since: leave out what was printed before this time; to a second.
            host: write only this host's output; of all hosts if None, each line with its host's name.
        """
        reader = open_logs(self.paths, self._shown_hosts(host), since=since)
        for content in reader.read(final=self.record.has_ended):
            sink.write(content)
        self._reader, self._host = reader, host
        return reader.bytes_read

    def wait(self) -> RunRecord:
        """Block until it has ended and return its final record."""
        last: RunRecord | None = None
        for event in follow(self._store, self.id, _NoLog()):
            if isinstance(event, RunRecord):
                last = event
        assert last is not None
        return last

    def stop(self, *, at_once: bool = False) -> None:
        """Request that it stops: SIGTERM to the script and SIGKILL two minutes later, or SIGKILL at once.

        Returns before it has ended; `wait` and `follow` wait for its end.
        """
        agent = self._listening_agent()
        if agent is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signal.SIGQUIT if at_once else signal.SIGTERM)

    def pull(
        self,
        destination: Path,
        *,
        extract: bool = False,
        progress: TransferProgress | None = None,  # noqa: ARG002 - local copies are fast
    ) -> list[Path]:
        """Copy the artifacts, the outputs of a processing job that the run kept, the verdict and the logs.

        Args:
            destination: the folder, created if needed.

        Returns:
            The files and folders that were created.

        Raises:
            UsageError: the run has not ended.
            GPUproofError: an archive has members outside its folder, or the disk is full.
        """
        if not self.record.has_ended:
            raise UsageError(f"{self.id} is still running.", remedy=f"gpuproof wait {self.id}")
        try:
            return list(self._pull(destination, extract))
        except ArtifactError as error:
            raise GPUproofError(str(error), remedy=f"Its files are in {self.paths.ml}.") from error
        except OSError as error:
            raise GPUproofError(
                f"{error.filename or destination} could not be written: {error.strerror or error}.",
                remedy="Choose another folder with --to.",
            ) from error

    def deliver(self, job: AnyJob, *, progress: TransferProgress | None = None) -> list[Path]:  # noqa: ARG002 - as above
        """Nothing to do: the agent copies results to the folders that the job names."""
        return []

    def remove(self) -> str:
        """Delete its folder.

        Raises:
            UsageError: it has not ended.
        """
        self._store.remove(self.record)
        return "removed"

    def jupyter(self) -> JupyterServer | None:
        """Its Jupyter server; None if it has none, or not yet."""
        try:
            content = MachineFiles(self.paths.ml).server.read_bytes()
        except OSError:
            return None
        return parse_server(content) if agent_alive(self.paths) else None

    def explanations(self) -> tuple[Explanation, ...]:
        """Known errors in its logs that explain its failure, the root cause first; empty if it did not fail.

        If the agents know which rank failed by itself, errors that others printed because of it are left out.
        """
        record = self.record
        if record.status != FAILED:
            return ()
        explanations = self.report().explanations
        if record.document.get("failure_cause") != Cause.OWN.value:
            return explanations
        return tuple(explanation for explanation in explanations if not explanation.is_symptom)

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        """The report on its logs."""
        from gpuproof.explain.local_context import local_context  # not needed to list or follow runs
        from gpuproof.explain.sources import explain_run

        context = replace(local_context(), failed=self.record.status == FAILED)
        if region is not None:
            context = replace(context, region=region, region_is_explicit=True)
        if instance_type is not None:
            context = context.on_instance(instance_type)
        return explain_run(self.paths, self.record.failure_reason, context)

    def _listening_agent(self) -> int | None:
        """The agent's process id, once it handles signals; `None` if the agent is gone."""
        with FileWatch([self.paths.root]) as changes:
            while agent_alive(self.paths):
                agent = self.record.document.get("agent_pid")
                if agent is not None:
                    return agent
                # It has only just started: a signal now would kill it before it can stop the script.
                changes.wait(_POLL_SECONDS)
        return None

    def _pull(self, destination: Path, extract: bool) -> Iterator[Path]:
        destination.mkdir(parents=True, exist_ok=True)
        for archive in (self.paths.model_archive, self.paths.output_archive):
            if not archive.exists():
                continue
            if extract:
                target = destination / archive.name.removesuffix(".tar.gz")
                unpack(archive, target)
                yield target
            else:
                yield _copied(archive, destination / archive.name)
        for name, folders in self._kept_outputs().items():
            merge_outputs(folders, destination / name)
            yield destination / name
        if self.paths.verdict.exists():
            yield _copied(self.paths.verdict, destination / self.paths.verdict.name)
        for log in (self.paths.log(host) for host in self.record.hosts):
            if log.exists():
                yield _copied(log, destination / log.name)

    def _kept_outputs(self) -> dict[str, list[Path]]:
        """Folders, one for each host, of a processing job's outputs that have no other local destination, by name."""
        job = read_state(self.paths.job) or {}
        targets = [output["target"] for output in job.get("outputs", ()) if output["destination"] is None]
        hosts = self.record.hosts
        places = [self.paths.host(host) for host in hosts] if len(hosts) > 1 else [self.paths]
        found = {Path(target).name: [place.ml / target for place in places] for target in targets}
        return {
            name: existing
            for name, folders in found.items()
            if (existing := [folder for folder in folders if folder.is_dir()])
        }

    def _shown_hosts(self, host: str | None) -> tuple[str, ...]:
        hosts = self.record.hosts
        if host is None:
            return hosts
        require_host(host, hosts, self.id)
        return (host,)


def _copied(source: Path, destination: Path) -> Path:
    copy_file(source, destination)
    return destination


class _NoLog:
    """A reader that reads nothing, to wait for a run's end."""

    bytes_read = 0

    def read(self, *, final: bool = False) -> Iterator[bytes]:  # noqa: ARG002 - as every reader
        return iter(())


def _without_beginning(events: Iterator[Event], skip: int) -> Iterator[Event]:
    """Leave out the first bytes of the output."""
    for event in events:
        if isinstance(event, Output) and skip:
            skipped = min(skip, len(event.content))
            skip -= skipped
            if skipped < len(event.content):
                yield Output(event.content[skipped:])
        else:
            yield event
