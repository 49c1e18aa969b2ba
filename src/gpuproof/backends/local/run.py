"""A run on this machine as an object: look at it, follow it, stop it, take its results."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuproof.agent.artifacts.archive_create import ArtifactError
from gpuproof.agent.artifacts.archive_extract import unpack
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.state import FAILED, read_state
from gpuproof.backends.base import LOCAL, Artifact, Event, Progress
from gpuproof.backends.local.follow import follow
from gpuproof.backends.local.store import RunStore, agent_alive
from gpuproof.backends.record import RunRecord
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.util.file_copy import copy_file, merge_folder
from gpuproof.util.file_watch import FileWatch

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report

_LOOK_SECONDS = 1.0
_CHUNK = 1 << 20


class LocalRun:
    """One run on this machine; obeys `gpuproof.backends.base.Run`.

    Args:
        store: where its folder is.
        run_id: its id.
    """

    place = LOCAL
    can_stop_at_once = True

    def __init__(self, store: RunStore, run_id: str) -> None:
        self._store = store
        self.id = run_id

    @property
    def paths(self) -> RunPaths:
        """The run's folder and what lies in it."""
        return self._store.paths(self.id)

    @property
    def record(self) -> RunRecord:
        """What is known of it now.

        Raises:
            RunNotFound: it was removed.
        """
        return self._store.record(self.id)

    @property
    def typed(self) -> str:
        """What to type for it on the command line."""
        return self.id

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The content of `verdict.json`; `None` while the script runs, or if it was never started."""
        return read_state(self.paths.verdict)

    @property
    def where(self) -> str:
        """Its folder."""
        return str(self.paths.root)

    def artifacts(self) -> list[Artifact]:
        """The archives that it packed."""
        return [
            Artifact(name, str(self.paths.artifacts / name), packed["files"], packed["bytes"])
            for name, packed in self.record.document.get("artifacts", {}).items()
        ]

    def follow(self, *, offset: int = 0, live: bool = False) -> Iterator[Event]:
        """Everything that it says until it has ended; see `gpuproof.backends.local.follow.follow`."""
        return follow(self._store, self.id, offset=offset, live=live)

    def write_log(self, sink: BinaryIO) -> int:
        """Write what the script printed so far, byte for byte."""
        try:
            with self.paths.log().open("rb") as log:
                shutil.copyfileobj(log, sink, _CHUNK)
                return log.tell()
        except FileNotFoundError:
            return 0

    def wait(self) -> RunRecord:
        """Return when it has ended."""
        last: RunRecord | None = None
        size = self.paths.log().stat().st_size if self.paths.log().exists() else 0
        for event in self.follow(offset=size):
            if isinstance(event, RunRecord):
                last = event
        assert last is not None
        return last

    def stop(self, *, at_once: bool = False) -> None:
        """Ask it to end: SIGTERM to the script and, two minutes later, SIGKILL; at once if so asked.

        The end itself is waited for with `wait` or `follow`.
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
        progress: Progress | None = None,  # noqa: ARG002 - copies on this machine are soon made
    ) -> list[Path]:
        """Copy the artifacts, a processing job's outputs that stayed with the run, the verdict and the logs.

        Args:
            destination: the folder, made if need be.
            extract: unpack the archives, each into a folder of its name.

        Returns:
            What was made there.

        Raises:
            UsageError: the run has not ended.
            GPUproofError: an archive has members that would land outside the folder, or the disk is full.
        """
        if not self.record.has_ended:
            raise UsageError(f"{self.id} still runs.", remedy=f"gpuproof wait {self.id}")
        try:
            return list(self._pull(destination, extract))
        except ArtifactError as error:
            raise GPUproofError(str(error), remedy=f"Its files lie in {self.paths.ml}.") from error
        except OSError as error:
            raise GPUproofError(
                f"{error.filename or destination} could not be written: {error.strerror or error}.",
                remedy="Name another folder with --to.",
            ) from error

    def remove(self) -> str:
        """Delete its folder and all that is in it.

        Raises:
            UsageError: it still runs.
        """
        self._store.remove(self.record)
        return "removed"

    def explanations(self) -> tuple[Explanation, ...]:
        """What explains its failure, by its logs and by this machine; nothing for a run that did not fail."""
        return self.report().explanations if self.record.status == FAILED else ()

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        """What its logs say, on this machine.

        Args:
            instance_type: what to take this machine for.
            region: where to take it to be.
        """
        from gpuproof.explain.local_context import local_context  # imported late: only failed runs need it
        from gpuproof.explain.sources import explain_run

        context = replace(local_context(), failed=self.record.status == FAILED)
        if region is not None:
            context = replace(context, region=region, region_is_explicit=True)
        if instance_type is not None:
            context = context.on_instance(instance_type)
        return explain_run(self.paths, self.record.failure_reason, context)

    def _listening_agent(self) -> int | None:
        """The agent's process id, once it has one that listens to signals; `None` when it is gone."""
        with FileWatch([self.paths.root]) as changes:
            while agent_alive(self.paths):
                agent = self.record.document.get("agent_pid")
                if agent is not None:
                    return agent
                # It was started a moment ago: a signal now would kill it before it can stop in good order.
                changes.wait(_LOOK_SECONDS)
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
        for kept in self._kept_outputs():
            target = destination / kept.name
            merge_folder(kept, target)
            yield target
        if self.paths.verdict.exists():
            yield _copied(self.paths.verdict, destination / self.paths.verdict.name)
        if self.paths.log().exists():
            yield _copied(self.paths.log(), destination / self.paths.log().name)

    def _kept_outputs(self) -> list[Path]:
        """Folders of a processing job's outputs that go nowhere else on this machine."""
        order = read_state(self.paths.job) or {}
        targets = [output["target"] for output in order.get("outputs", ()) if output["destination"] is None]
        return [folder for target in targets if (folder := self.paths.ml / target).is_dir()]


def _copied(source: Path, destination: Path) -> Path:
    copy_file(source, destination)
    return destination
