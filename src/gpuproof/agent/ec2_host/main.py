"""`python3 gpuproof-agent.pyz --ec2-host FILE`: run one job on this instance, from the downloads to the last upload.

User data starts it as root, and powers the instance off when it has ended, however that happens.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gpuproof.agent.ec2_host.container.docker_cli import ContainerFailed, Docker
from gpuproof.agent.ec2_host.container.image_pull import ImagePull
from gpuproof.agent.ec2_host.container.run_command import container_command, start_failure
from gpuproof.agent.ec2_host.contract_files import code_folder, take_code, write_contract
from gpuproof.agent.ec2_host.job_process import JobCommand, JobProcess, host_command
from gpuproof.agent.ec2_host.metadata import Metadata
from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.setup.cluster_hosts import ClusterHosts, HostsMissing, named_host
from gpuproof.agent.ec2_host.setup.driver import DriverUnusable, check_gpus, wait_for_driver
from gpuproof.agent.ec2_host.setup.gpu_health import GpuUnhealthy, raise_for, read_findings
from gpuproof.agent.ec2_host.setup.local_disk import use_local_disk
from gpuproof.agent.ec2_host.setup.uv_environment import EnvironmentFailed, make_environment
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, AwsFailed
from gpuproof.agent.ec2_host.transfer.checkpoints import Checkpoints
from gpuproof.agent.ec2_host.transfer.downloads import NothingFound, download_channel
from gpuproof.agent.ec2_host.transfer.jupyter_access import JupyterAccess
from gpuproof.agent.ec2_host.transfer.live_samples import LIVE, LiveSamples
from gpuproof.agent.ec2_host.transfer.log_copy import LogCopy
from gpuproof.agent.ec2_host.transfer.log_stream import LogStream
from gpuproof.agent.ec2_host.transfer.report import End, Reports
from gpuproof.agent.ec2_host.transfer.results import HostResults
from gpuproof.agent.ec2_host.watch import Ended, Event, Reason, Watch, read_started
from gpuproof.agent.log_markers import MESSAGE_MARKER
from gpuproof.agent.machine.files import SERVER
from gpuproof.agent.paths import CONTRACT_ROOT
from gpuproof.agent.state import COMPLETED, FAILED, STOPPED
from gpuproof.findings import Severity
from gpuproof.runtime.checkpoint.save_request import REQUEST_FILE

_ML = Path(CONTRACT_ROOT)
_LOGS = Path("/opt/gpuproof/log")
_ENVIRONMENT = Path("/opt/gpuproof/python")
_STEP_S = 0.1
_DATA = (AwsFailed, NothingFound)


def main() -> int:
    """Run the job that the file on the command line describes; returns 0 if the client will learn how it ended."""
    if len(sys.argv) != 3:
        print("usage: gpuproof-agent --ec2-host FILE", file=sys.stderr)
        return 2
    path = Path(sys.argv[2])
    metadata = Metadata()
    return EC2Host(named_host(HostParameters.read(path), metadata), path.parent, metadata).run()


class EC2Host:
    """One host of a job."""

    def __init__(self, parameters: HostParameters, state: Path, metadata: Metadata) -> None:
        self._parameters = parameters
        self._state = state
        self._metadata = metadata
        self._watch = Watch(parameters, metadata, state / "alive", started=read_started(state))
        self._aws = AwsCli(self._watch.wait, parameters.retry_for)
        self._reports = Reports(parameters, metadata.get("meta-data/instance-id") or "")
        stream = f"{parameters.run_id}/{parameters.host}"
        copy = _LOGS / f"{parameters.host}.log"
        self._log = LogStream(parameters.retry_for, parameters.log_group, stream, copy, state)
        self._log_copy = LogCopy(copy, self._reports.address("output.log"))
        self._checkpoints = Checkpoints(
            _ML / "checkpoints", parameters.checkpoints, parameters.checkpoint_interval
        )
        self._end = End(started=time.time())

    def run(self) -> int:
        """Run the job to its end; returns 0 if the end was reported."""
        self._watch.install()
        try:
            self._prepare()
            self._run_job()
        except Ended as ended:
            self._stop_for(ended.event)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client must learn of it
            self._fail(
                f"ClientError: Data download failed: {error}"
                if isinstance(error, _DATA)
                else _describe(error)
            )
        self._watch.raises = False
        try:
            self._upload()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(f"ClientError: Artifact upload failed: {_describe(error)}")
        return self._report_end()

    def _prepare(self) -> None:
        """Wait for the driver, and download everything."""
        parameters = self._parameters
        self._reports.enter("Starting")
        if parameters.gpus:
            wait_for_driver(parameters.gpus, parameters.driver_wait, self._watch.wait)
            check_gpus(parameters)
            self._check_health()
        if parameters.image:
            Docker(self._watch.wait).check(parameters.driver_wait, with_gpus=parameters.gpus > 0)
        if (disk := use_local_disk(_ML, self._watch.wait, expected=parameters.local_disk)) is not None:
            self._end.notes.append(disk.note)
            if not disk.is_local:
                self._reports.add_note(disk.note)
                self._tell(disk.note)
        write_contract(_ML, parameters)
        self._reports.enter("Downloading")
        if parameters.image:
            wait, folder = self._watch.wait, self._state / "docker"
            pull = ImagePull(parameters.image, self._aws, wait, parameters.retry_for, folder, self._tell)
            self._end.container_image, self._end.container_sha256 = parameters.image, pull.run()
        elif parameters.env_packages:
            python = make_environment(
                _ENVIRONMENT, parameters.env_python, parameters.env_packages, self._watch.wait
            )
            self._parameters = replace(parameters, pythons=(str(python), *parameters.pythons))
        take_code(self._state / "code", _ML / code_folder(parameters))
        for path, address in parameters.inputs.items():
            download_channel(self._aws, address, _ML / path)
        if parameters.restore_checkpoints:
            self._checkpoints.restore(self._aws)
        if len(parameters.hosts) > 1:
            folder = self._state / "hosts"
            ClusterHosts(self._aws, parameters, self._metadata, folder, self._watch.wait).meet()

    def _check_health(self) -> None:
        """Report what is wrong with the GPUs, and fail if the job would.

        Raises:
            GpuUnhealthy: it would.
        """
        findings = read_findings(self._parameters, os.environ)
        self._end.findings = [finding.to_json() for finding in findings]
        if findings:
            self._reports.set_findings(self._end.findings)
        raise_for(findings)
        for finding in findings:
            if finding.severity is Severity.WARNING:
                self._tell(f"{finding.code}: {finding.message}")
                self._end.notes.append(f"{finding.code}: {finding.message}")

    def _run_job(self) -> None:
        """Run the job to its end."""
        parameters, watch = self._parameters, self._watch
        self._reports.enter("Training")
        watch.raises = False
        self._end.script_started = time.time()
        live = LiveSamples(_ML, self._reports.address(LIVE))
        live.begin()
        job = JobProcess(self._command(), self._log)
        access = JupyterAccess(_ML, self._reports.address(SERVER)) if parameters.machine else None
        stopped_by: Event | None = None
        warned = False
        while (code := job.poll()) is None:
            watch.wait(_STEP_S)
            if watch.event is not None and stopped_by is None:
                stopped_by = watch.event
                job.stop(in_a_hurry=stopped_by.in_a_hurry)
            if watch.risk is not None and not warned:
                warned = True
                self._request_checkpoints(watch.risk)
            self._checkpoints.poll()
            if self._log.problem:
                self._log_copy.poll()
            live.poll()
            if access is not None:
                access.poll()
        live.finish()
        self._end.exit_code = code
        results = HostResults(self._aws, parameters, _ML, watch.wait)
        if stopped_by is not None:
            self._stop_for(stopped_by)
        elif (why := results.stopped_with_others()) is not None:
            self._end.status = self._end.secondary_status = STOPPED
            self._end.failure_reason = why
        elif code == 0:
            self._end.status = self._end.secondary_status = COMPLETED
        else:
            self._log.finish_reading()
            messages = self._log.messages
            if parameters.image and not messages:
                messages = start_failure(code, list(self._log.last_lines))
            self._end.failure_reason = results.failure(code, messages)

    def _request_checkpoints(self, since: str) -> None:
        """Have the script save its state now and more often, and upload that; as far as there is anything to save."""
        text = f"EC2 may take the spot instance back (rebalance recommendation of {since})"
        if self._parameters.checkpoints:
            text += ": checkpoints are saved and uploaded more often"
            with suppress(OSError):  # the disk is full
                (_ML / REQUEST_FILE).touch()
            self._checkpoints.hurry()
        self._tell(text)
        self._reports.add_note(text)
        self._end.notes.append(text)

    def _command(self) -> JobCommand:
        code = _ML / code_folder(self._parameters)
        build = container_command if self._parameters.image else host_command
        return build(code, self._parameters)

    def _tell(self, text: str) -> None:
        """Print a line on the console, and add it to the job's log."""
        print(f"gpuproof: {text}", flush=True)
        self._log.add(f"gpuproof: {text}".encode(errors="replace"))

    def _stop_for(self, event: Event) -> None:
        print(f"gpuproof: {event.text}", flush=True)
        self._end.status, self._end.secondary_status = STOPPED, event.secondary_status
        self._end.failure_reason = event.text
        self._end.interrupted = event.reason is Reason.INTERRUPTED
        self._end.stopped = event.reason is Reason.STOP

    def _fail(self, reason: str) -> None:
        print(f"gpuproof: {reason}", flush=True)
        self._end.status = self._end.secondary_status = FAILED
        self._end.failure_reason = self._end.failure_reason or reason
        self._log.add(f"{MESSAGE_MARKER}{reason}".encode(errors="replace"))

    def _upload(self) -> None:
        """Upload the results of a job that was started; the checkpoints first, since time may be short."""
        if self._end.script_started is None:
            return
        self._reports.enter("Uploading")
        results = HostResults(self._aws, self._parameters, _ML, self._watch.wait)
        self._checkpoints.finish(self._aws)
        results.upload_verdict(self._reports.address(""))
        event = self._watch.event
        # A machine's results are in its work folder, which is where checkpoints are.
        in_time = not self._parameters.machine and (event is None or not event.in_a_hurry)
        if in_time and (self._parameters.kind == "training" or self._end.status != FAILED):
            results.upload_outputs(succeeded=self._end.status != FAILED)
        self._end.notes += results.notes

    def _report_end(self) -> int:
        self._log.close(self._watch.wait)
        try:
            if self._log.problem:
                self._end.notes.append(
                    f"CloudWatch Logs does not have all of the output: {self._log.problem}"
                )
                self._log_copy.finish(self._aws)
            self._end.ended = time.time()
            self._reports.write_end(self._aws, self._end)
        except AwsFailed as failed:
            print(f"gpuproof: the end ({self._end.failure_reason}) was not reported: {failed}", flush=True)
            return 1
        (self._state / "ended").touch()
        return 0


def _describe(error: BaseException) -> str:
    if isinstance(error, ContainerFailed):
        return f"ClientError: {error}"
    if isinstance(error, (AwsFailed, DriverUnusable, EnvironmentFailed, GpuUnhealthy, HostsMissing, OSError)):
        return str(error)
    traceback.print_exception(type(error), error, error.__traceback__)
    return f"InternalServerError: {type(error).__name__}: {error}"
