"""What all runs on AWS have in common: their state is described by requests, their output is in CloudWatch Logs."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuproof.agent.state import FAILED
from gpuproof.backends.agent_job.machine import JupyterServer
from gpuproof.backends.aws import Aws
from gpuproof.backends.base import Artifact, Event, GpuReadings, Output, TransferProgress
from gpuproof.backends.display import DisplayedRun
from gpuproof.backends.hosts import require_host
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.follow import Snapshot, follow
from gpuproof.backends.remote.log_source import LogSource
from gpuproof.backends.remote.logs import LogReader, Tail, read_tails
from gpuproof.backends.remote.results.agent_reports import AgentReport
from gpuproof.backends.remote.results.deliver import deliver_results, pull_results
from gpuproof.backends.remote.results.objects import Results, find_artifacts
from gpuproof.catalogue import Catalogue
from gpuproof.errors import UsageError
from gpuproof.jobs.script_job import expanded

if TYPE_CHECKING:
    from gpuproof.explain import Explanation, Report
    from gpuproof.jobs.script_job import AnyJob

_REPORT_PAGES = 5


class RemoteRun(DisplayedRun):
    """A run on AWS: everything of `gpuproof.backends.base.Run` that does not depend on the service.

    Args:
        instance_type: the type that it was submitted to, if known.
        clock: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.
    """

    is_remote = True
    address_label = "console"

    def __init__(
        self,
        aws: Aws,
        run_id: str,
        *,
        catalogue: Catalogue | None = None,
        instance_type: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.id = run_id
        self.instance_type = instance_type
        self._aws = aws
        self._catalogue = catalogue or Catalogue.load()
        self._clock = clock
        self._sleep = sleep
        self._reader: LogReader | None = None
        self._reader_host: str | None = None
        self._verdict: dict[str, Any] | None = None
        self._final: RunRecord | None = None
        self._last_record: RunRecord | None = None

    @property
    @abstractmethod
    def log_group(self) -> str:
        """The group of CloudWatch Logs with the output of its hosts."""

    @property
    def logs(self) -> LogSource:
        """Where the output of its hosts is read from."""
        return self._aws

    @property
    @abstractmethod
    def results(self) -> Results:
        """Where its results are on S3."""

    @abstractmethod
    def describe(self) -> Snapshot:
        """Request its state.

        Raises:
            RunNotFound: it does not exist, or was deleted.
        """

    @abstractmethod
    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:
        """The report on its logs, whether it failed or not; see `gpuproof.backends.base.Run`."""

    @abstractmethod
    def _with_verdict(self, record: RunRecord) -> RunRecord:
        """Read its verdict into `self._verdict`, once it has ended, and return the record with it."""

    @property
    def cli_name(self) -> str:
        """The arguments that name it on the command line: its id, with `--region` where that is needed."""
        return f"{self.id}{self._aws.region_flag}"

    @property
    def record(self) -> RunRecord:
        """Its current state; with its verdict, once it has ended.

        Raises:
            RunNotFound: it does not exist, or was deleted.
        """
        if self._final is not None:
            return self._final
        record = self.describe().record
        if not record.has_ended:
            return record
        self._final = self._with_verdict(record)
        return self._final

    def known_record(self) -> RunRecord | None:
        """The record of the last request; None before the first."""
        return self._final or self._last_record

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The verdict of its agents, merged over all hosts; `None` while it runs, or if there is none."""
        if not self.record.has_ended:
            return None
        return self._verdict

    def artifacts(self) -> list[Artifact]:
        """Its results on S3 so far, with sizes."""
        return find_artifacts(self._aws, self.results)

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        """Yield its events until it has ended; the last event is its final record.

        Continues where an earlier call was interrupted, without reading the log again.

        Args:
            host: only the output of this host; of all hosts if None.
        """
        skip = 0
        if self._reader is None or self._reader_host != host or self._reader.bytes_read != offset:
            if host is not None:
                require_host(host, self.describe().record.hosts, self.id)
            self._reader, self._reader_host = (
                LogReader(self.logs, self.log_group, self.id, host=host),
                host,
            )
            skip = offset
        events = follow(self, self._reader, live=live, clock=self._clock, sleep=self._sleep)
        for event in events:
            if isinstance(event, Output) and skip:
                skipped = min(skip, len(event.content))
                skip -= skipped
                if skipped < len(event.content):
                    yield Output(event.content[skipped:])
            elif isinstance(event, RunRecord) and event.has_ended:
                yield self.record
            else:
                yield event

    def read_gpus(self) -> GpuReadings | None:
        """None: nothing to read; see `gpuproof.backends.base.Run`."""
        return None

    def write_log(self, sink: BinaryIO, *, since: float | None = None, host: str | None = None) -> int:
        """Write the output of its hosts so far; with several hosts, each line starts with the host's name.

        Args:
            since: leave out lines that were printed before this time.
            host: only the output of this host; of all hosts if None.
        """
        hosts = self.describe().record.hosts
        if host is not None:
            require_host(host, hosts, self.id)
        several = len(hosts) > 1 and host is None
        reader = LogReader(self.logs, self.log_group, self.id, several=several, host=host, since=since)
        for content in reader.read():
            sink.write(content)
        return reader.bytes_read

    def wait(self) -> RunRecord:
        """Block until it has ended and return its final record."""
        for _ in follow(self, None, clock=self._clock, sleep=self._sleep):
            pass
        return self.record

    def pull(
        self, destination: Path, *, extract: bool = False, progress: TransferProgress | None = None
    ) -> list[Path]:
        """Download its archives or outputs, its verdict and the log of each host.

        Args:
            destination: created if needed.
            extract: unpack each archive into a folder of its name.
            progress: called during downloads.

        Returns:
            The files and folders that were created.

        Raises:
            UsageError: it has not ended.
            GPUproofError: an archive has members outside its folder, or the disk is full. No partial file is left.
        """
        self._check_ended()
        return pull_results(
            self._aws,
            self.logs,
            self.log_group,
            self.id,
            self.results,
            self.verdict,
            destination,
            extract=extract,
            progress=progress,
        )

    def deliver(self, job: AnyJob, *, progress: TransferProgress | None = None) -> list[Path]:
        """Download results to the local folders that the job names; see `deliver_results`.

        Raises:
            UsageError: it has not ended.
            GPUproofError: the disk is full; no partial file is left.
        """
        self._check_ended()
        return deliver_results(self._aws, self.id, self.results, expanded(job), progress=progress)

    def jupyter(self) -> JupyterServer | None:
        """None: only machines on EC2 have a Jupyter server."""
        return None

    def explanations(self) -> tuple[Explanation, ...]:
        """Known errors in its logs and in AWS's reason that explain its failure; empty if it did not fail."""
        return self.report().explanations if self.record.status == FAILED else ()

    @property
    def _region(self) -> str:
        return self._aws.region

    @cached_property
    def _tails(self) -> dict[str, Tail]:
        return read_tails(self.logs, self.log_group, self.id, pages=_REPORT_PAGES)

    def _followed_reports(self) -> dict[str, AgentReport]:
        """The agents' reports that were read while its logs were followed, by host."""
        reader = self._reader
        if reader is None:
            return {}
        return {
            host: AgentReport(verdict, messages=reader.agent_messages.get(host, ()))
            for host, verdict in reader.verdicts.items()
        }

    def _check_ended(self, remedy: str | None = None) -> None:
        if not self.record.has_ended:
            raise UsageError(
                f"{self.id} is still running.", remedy=remedy or f"gpuproof wait {self.cli_name}"
            )
