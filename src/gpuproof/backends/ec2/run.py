"""A run on EC2: its state, output, results and end. All of it is read from AWS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from gpuproof.agent.machine.files import SERVER
from gpuproof.agent.state import COMPLETED
from gpuproof.backends.agent_job.machine import JupyterServer, parse_server
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.ec2 import tag_dict
from gpuproof.backends.base import Event, GpuReadings
from gpuproof.backends.ec2.launch_record import InterruptedRun, LaunchRecord
from gpuproof.backends.ec2.requests.launch_objects import read_launch
from gpuproof.backends.ec2.requests.log_group import LOG_GROUP
from gpuproof.backends.ec2.requests.new_instances import LOOKUP_DELAYS, when_visible
from gpuproof.backends.ec2.requests.termination_schedule import delete_schedule
from gpuproof.backends.ec2.ssm_session import session_command
from gpuproof.backends.ec2.tracking.consoles import read_consoles
from gpuproof.backends.ec2.tracking.cost import on_demand_usd_per_hour, usd_per_second
from gpuproof.backends.ec2.tracking.host_logs import HostLogs
from gpuproof.backends.ec2.tracking.host_reports import HostReport, read_host_reports
from gpuproof.backends.ec2.tracking.interrupted_launch import completed_launch
from gpuproof.backends.ec2.tracking.live_samples import read_live_samples
from gpuproof.backends.ec2.tracking.lost_time import find_lost_seconds
from gpuproof.backends.ec2.tracking.outcome import STOP_TAG, living_instances, with_instances
from gpuproof.backends.ec2.tracking.records import record_of
from gpuproof.backends.ec2.tracking.result_locations import delete_run, results_of
from gpuproof.backends.ec2.tracking.silence import SilenceLimits, silence_notice
from gpuproof.backends.ec2.tracking.state_reason import NO_CAPACITY
from gpuproof.backends.hosts import FIRST_HOST, host_names
from gpuproof.backends.record import RunRecord
from gpuproof.backends.remote.follow import Snapshot
from gpuproof.backends.remote.log_source import LogSource
from gpuproof.backends.remote.results import agent_reports
from gpuproof.backends.remote.results.objects import Results
from gpuproof.backends.remote.run import RemoteRun
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.explain import Report


class EC2Run(RemoteRun):
    """One training or processing job on EC2 instances; implements `gpuproof.backends.base.Run`.

    Args:
        launch: its launch record; it is read again until it has the ids of the instances.
        clock: a monotonic clock, in seconds.
        sleep: waits for a number of seconds.
        now: the time in seconds since the epoch.
        silence_limits: how long instances that report nothing are waited for.
    """

    backend = "ec2"
    can_stop_at_once = True

    def __init__(
        self,
        aws: Aws,
        launch: LaunchRecord,
        *,
        catalogue: Catalogue | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.time,
        silence_limits: SilenceLimits | None = None,
    ) -> None:
        super().__init__(
            aws,
            launch.run_id,
            catalogue=catalogue,
            instance_type=launch.instance_type,
            clock=clock,
            sleep=sleep,
        )
        self._launch = launch
        self._is_recorded = bool(launch.instances)
        self._now = now
        self._silence_limits = silence_limits or SilenceLimits()
        self._stop_requested: float | None = None
        self._heard = False
        self._instances: Mapping[str, Mapping[str, Any]] | None = {}
        self._reports: Mapping[str, HostReport] = {}

    @property
    def launch(self) -> LaunchRecord:
        """What was launched, as far as it is known."""
        return self._launch

    @property
    def _regional(self) -> Aws:
        """The client of the region of its instances; its files and logs are in the region of the bucket."""
        return self._aws.in_region(self._launch.region)

    @property
    def log_group(self) -> str:
        """The group of CloudWatch Logs with the output of its hosts."""
        return LOG_GROUP

    @property
    def logs(self) -> LogSource:
        """Where the output of its hosts is read from."""
        return HostLogs(self._aws, self._launch.bucket, self.id, host_names(self._launch.instance_count))

    @property
    def results(self) -> Results:
        """Where its results are on S3."""
        return results_of(self._launch)

    @property
    def address(self) -> str:
        """The address of its first instance in the AWS console."""
        return self._launch.address

    @property
    def lacked_capacity(self) -> bool:
        """Whether EC2 ended its instance before it started, because it had no capacity."""
        return self.record.document["failure_code"] == NO_CAPACITY

    @property
    def interruption(self) -> InterruptedRun | None:
        """What it cost, if a spot interruption has ended it; None if it ended otherwise, or a user requested its stop."""
        record, launch = self.record, self._launch
        if not self._was_interrupted(record) or record.status == COMPLETED:
            return None
        if any(
            STOP_TAG in tag_dict(instance.get("Tags", ())) for instance in (self._instances or {}).values()
        ):
            return None
        rate = on_demand_usd_per_hour(launch)
        return InterruptedRun(self.id, record.billed_seconds or 0.0, record.cost, rate, launch.lost_seconds)

    def record_continuation(self, run_id: str) -> None:
        """Write into its launch record which run continues it.

        Args:
            run_id: that run; empty for none.

        Raises:
            GPUproofError: the bucket cannot be written.
        """
        self._launch = replace(self._launch, continued_by=run_id)
        self._write_launch(self._launch)

    def describe(self) -> Snapshot:
        """Describe its instances and read what its hosts have reported; terminate them if they were silent for too long.

        Raises:
            RunNotFound: it was removed.
        """
        self._read_launch()
        # First the instances: a host writes its report before its instance ends.
        self._instances = self._describe_instances()
        now = self._now()
        self._launch = launch = completed_launch(self._aws, self._launch, self._instances, now)
        self._reports = read_host_reports(
            self._aws, launch.bucket, self.id, host_names(launch.instance_count)
        )
        record = record_of(launch, self._instances, self._reports, now=now)
        self._last_record = record
        live = {
            "seconds": max(0.0, now - (record.started or record.created)),
            "cost": record.cost,
            "cost_is_derived": launch.price_is_derived,
            "message": record.document["status_message"],
        }
        is_billed = record.billed_seconds is not None and not record.has_ended
        return Snapshot(
            record,
            now,
            record.started is not None,
            live,
            usd_per_second(launch) if is_billed else None,
            () if record.has_ended else self._end_silent(record),
        )

    def wait(self) -> RunRecord:
        """Block until it has ended and return its final record."""
        record = super().wait()
        self._delete_schedule()
        return record

    def follow(self, *, offset: int = 0, live: bool = False, host: str | None = None) -> Iterator[Event]:
        """Yield its events until it has ended; see `RemoteRun.follow`."""
        yield from super().follow(offset=offset, live=live, host=host)
        self._delete_schedule()

    def read_gpus(self) -> GpuReadings | None:
        """The newest samples that its hosts have uploaded."""
        return read_live_samples(
            self._aws, self._launch.bucket, self.id, host_names(self._launch.instance_count)
        )

    def stop(self, *, at_once: bool = False) -> None:
        """Request that its hosts stop the job, which have two minutes, upload its results and shut down.

        Args:
            at_once: terminate its instances instead; results and checkpoints since the last synchronization are lost.

        Raises:
            GPUproofError: the request failed, so that the run is still running and billed.
        """
        record = self.describe().record
        if not self._launch.instances and not record.has_ended:
            record = self._stop_launch()
        living = self._living(record)
        if not living or (record.has_ended and not at_once):
            return
        self._record_instances()
        try:
            if at_once:
                request = partial(self._regional.terminate_instances, living)
            else:
                requested = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                request = partial(self._regional.tag_instances, living, {STOP_TAG: requested})
            when_visible(request, self._sleep)
            self._stop_requested = self._now()
        except GPUproofError as error:
            raise error.replaced(
                f"{error.message} {self.id} was not stopped: it is still running, and billed.",
                f"{error.remedy or ''}\nThen: gpuproof stop {self.cli_name}".strip(),
            ) from error

    def shell_command(self, host: str) -> tuple[str, ...]:
        """The command of the AWS CLI that opens a session on one of its hosts, through Systems Manager.

        Raises:
            UsageError: it has ended, or has no such host.
            GPUproofError: a session cannot be opened now.
        """
        record = self.describe().record
        if record.has_ended:
            raise UsageError(
                f"{self.id} has ended ({record.status}): its instance is terminated.",
                remedy=f"gpuproof logs {self.cli_name}",
            )
        return session_command(self._regional, self._launch, self._instances or {}, host, self._now())

    def forward_command(self, port: int, local_port: int, host: str = FIRST_HOST) -> tuple[str, ...]:
        """The command of the AWS CLI that forwards a local port to one of a host's loopback interface.

        Raises:
            UsageError: it has no such host.
            GPUproofError: a session cannot be opened now.
        """
        return session_command(
            self._regional, self._launch, self._instances or {}, host, self._now(), (port, local_port)
        )

    def jupyter(self) -> JupyterServer | None:
        """The Jupyter server of a machine, with the token that its host has written into the run's folder on S3."""
        if self._launch.kind != "machine":
            return None
        key = RunLayout(self.id).host_file(FIRST_HOST, SERVER)
        content = self._aws.get_bytes(self._launch.bucket, key)
        return None if content is None else parse_server(content, self.forward_command)

    def remove(self) -> str:
        """Delete its files in the bucket, except for its checkpoints.

        Raises:
            UsageError: it has not ended, or one of its instances still runs.
        """
        self._check_ended(remedy=f"gpuproof stop {self.cli_name}")
        self._instances = self._describe_instances()
        self._launch = with_instances(self._launch, self._instances)
        if living := living_instances(self._launch, self._instances):
            raise UsageError(
                f"{self.id} has ended, but its instance {living[0]} still runs.",
                remedy=f"gpuproof stop --now {self.cli_name}",
            )
        self._delete_schedule()
        return delete_run(self._aws, self._launch)

    def report(self, instance_type: str | None = None, region: str | None = None) -> Report:  # noqa: ARG002
        """The report on its logs and on the reason of its end, whether it failed or not.

        Without a report of its host, the output of the instance's console is evidence, too.

        Args:
            instance_type: assume that it ran on this type; the real one if None.
        """
        from gpuproof.backends.remote.diagnose import explain_run_end, read_job  # not needed to list runs

        return explain_run_end(
            self.record,
            self._tails,
            self._catalogue,
            self._launch.region,
            instance_type,
            gpu_expected=bool(self._launch.expects),
            job=read_job(self._aws, self._launch.bucket, self.id),
            other_logs=read_consoles(self._regional, self._launch, self._reports),
        )

    def _stop_launch(self) -> RunRecord:
        """Stop a run that has no instances: its submission, if it still works, finds that in the record, and ends.

        Returns:
            Its record; with instances, if the submission has launched them in the meantime.

        Raises:
            GPUproofError: the record cannot be written, and there is no instance that could be stopped instead.
        """
        refused: GPUproofError | None = None
        try:
            self._write_launch(replace(self._launch, stopped=self._now()))
        except GPUproofError as error:
            refused = error
        record = self.describe().record
        for seconds in LOOKUP_DELAYS:
            # New instances may become visible some seconds later, and the submission may be about to write their ids.
            if self._launch.instances:
                return record
            self._sleep(seconds)
            record = self.describe().record
        if refused is not None and not self._launch.instances:
            raise refused
        return record

    def _living(self, record: RunRecord) -> tuple[str, ...]:
        """The ids of its instances that are not terminated, as far as they may be described."""
        if self._instances is None and not record.has_ended:
            return self._launch.instances
        return living_instances(self._launch, self._instances)

    def _end_silent(self, record: RunRecord) -> tuple[str, ...]:
        """Terminate its instances if they have reported nothing for too long; returns what to tell the user."""
        now, launch = self._now(), self._launch
        launched = record.document["instances_started"] or launch.launching or launch.created
        since = self._silence_limits.exceeded_since(self._reports, now, launched, self._stop_requested)
        living = () if since is None else self._living(record)
        if since is None or not living or self._has_output():
            return ()
        # EC2 does not keep them for long.
        consoles = read_consoles(self._regional, launch, self._reports)
        when_visible(partial(self._regional.terminate_instances, living), self._sleep)
        self._launch = replace(launch, silent=now, stopped=launch.stopped or self._stop_requested or 0.0)
        with suppress(AwsRefused, AwsUnreachable):  # it has ended nevertheless
            self._write_launch(self._launch)
        return (silence_notice(living, now - since, self.cli_name, next(iter(consoles.values()), ())),)

    def _delete_schedule(self) -> None:
        if self._instances is not None and not living_instances(self._launch, self._instances):
            delete_schedule(self._regional, self._launch)

    def _has_output(self) -> bool:
        """Whether a host has printed something: it works, even if its reports do not reach the bucket."""
        if not self._heard:
            with suppress(AwsRefused):  # a user who may not read logs only has the reports
                self._heard = bool(self.logs.log_streams(LOG_GROUP, f"{self.id}/"))
        return self._heard

    def _record_instances(self) -> None:
        """Write the ids of instances that were found by their tag: EC2 forgets instances that have ended."""
        if self._is_recorded or len(self._launch.instances) != self._launch.instance_count:
            return
        with suppress(AwsRefused, AwsUnreachable):  # they can be stopped nevertheless
            self._write_launch(self._launch)

    def _write_launch(self, launch: LaunchRecord) -> None:
        self._aws.put_object(launch.bucket, RunLayout(self.id).launch, launch.to_bytes())

    def _read_launch(self) -> None:
        """Read the launch record until it has the ids of the instances."""
        if self._is_recorded:
            return
        launch = read_launch(self._aws, self._launch.bucket, self.id)
        if launch is None:
            raise RunNotFound(f"{self.id} no longer exists: it was removed.", remedy="gpuproof ps")
        self._launch, self._is_recorded = launch, bool(launch.instances)

    def _describe_instances(self) -> dict[str, dict[str, Any]] | None:
        """The descriptions of its instances by id; None if the user may not describe instances.

        While the launch record has none, they are found by the run's tag.
        """
        regional = self._regional
        try:
            described = (
                regional.instances(self._launch.instances)
                if self._is_recorded
                else regional.tagged_instances(values=[self.id])
            )
            return {instance["InstanceId"]: instance for instance in described}
        except AwsRefused as refused:
            if not refused.is_permission:
                raise
            return None

    def _with_verdict(self, record: RunRecord) -> RunRecord:
        self._find_lost_seconds(record)
        launch = self._launch
        reports, why = {}, "no host reported that the script started"
        if record.started is not None or self._reader is not None:
            reports, why = agent_reports.find_reports(
                self._aws, self.results, launch.instance_count, self._followed_reports(), lambda: self._tails
            )
        self._verdict = agent_reports.merge_verdicts(reports, launch.instance_count)
        settled = record_of(
            launch,
            self._instances,
            self._reports,
            now=self._now(),
            verdict=self._verdict,
            state=agent_reports.merge_states(reports, completed=record.status == COMPLETED),
        )
        if self._verdict is not None:
            return settled
        note = f"no verdict on GPU use: {why}"
        document = {**settled.document, "notes": [*settled.notes, note]}
        return replace(settled, notes=(*settled.notes, note), document=document)

    def _was_interrupted(self, record: RunRecord) -> bool:
        return record.document["interruptions"] > len(self._launch.interrupted)

    def _find_lost_seconds(self, record: RunRecord) -> None:
        """Add the lost time of an interrupted run to its launch record, unless it was found before."""
        launch = self._launch
        if not self._was_interrupted(record) or launch.lost_seconds is not None:
            return
        launched = record.document["instances_started"]
        lost = find_lost_seconds(self._aws, launch, launched, record.ended)
        self._launch = replace(launch, lost_seconds=lost)
