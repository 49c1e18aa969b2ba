"""What a host tells the client through S3: `boot.json` while it works, `end.json` in the end."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any, Callable

from gpuproof.agent.ec2_host.parameters import HostParameters
from gpuproof.agent.ec2_host.transfer.aws_cli import AwsCli, AwsFailed

VERSION = 1
_DELAY_S = 0.5


@dataclass
class End:
    """How a host ended: `end.json`.

    Args:
        status: `Completed`, `Failed` or `Stopped`, as SageMaker's `TrainingJobStatus`.
        secondary_status: the same, or `MaxRuntimeExceeded`, `Interrupted`.
        failure_reason: why it failed or was stopped; empty if it completed.
        exit_code: the script's; None if it was not started.
        started: when the program on the instance started, in seconds since the epoch.
        script_started: when the job was started; None if it was not.
        ended: when the job had ended and the results were uploaded.
        interrupted: whether EC2 takes the instance away.
        stopped: whether the user stopped it.
        findings: what the checks of the GPUs have found before the job.
        container_image: the container image that was pulled; empty without one.
        container_sha256: its digest; empty if it is unknown.
    """

    status: str = "Failed"
    secondary_status: str = "Failed"
    failure_reason: str = ""
    exit_code: int | None = None
    started: float = 0.0
    script_started: float | None = None
    ended: float = 0.0
    interrupted: bool = False
    stopped: bool = False
    notes: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    container_image: str = ""
    container_sha256: str = ""


class Reports:
    """Writes the reports of one host.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(
        self, parameters: HostParameters, instance: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._prefix = f"s3://{parameters.bucket}/{parameters.prefix}hosts/{parameters.host}/"
        self._clock = clock
        self._boot: dict[str, Any] = {
            "version": VERSION,
            "instance": instance,
            "instance_type": parameters.instance_type,
            "phase": "",
            "times": {},
            "notes": [],
        }
        self._changed = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_phases, name="reports", daemon=True)
        self._thread.start()

    def address(self, name: str) -> str:
        """The `s3://` address of a report."""
        return f"{self._prefix}{name}"

    def enter(self, phase: str) -> None:
        """Report the begin of a phase, in the background: `Starting`, `Downloading`, `Training` or `Uploading`."""
        self._boot = {
            **self._boot,
            "phase": phase,
            "times": {**self._boot["times"], phase: self._clock()},
        }
        print(f"gpuproof: {phase}", flush=True)
        self._changed.set()

    def add_note(self, text: str) -> None:
        """Report something that the user should know while the job runs, in the background; as in the notes of the end."""
        self._boot = {**self._boot, "notes": [*self._boot["notes"], text]}
        self._changed.set()

    def set_findings(self, findings: list[dict[str, Any]]) -> None:
        """Report what the checks of the GPUs have found, in the background; as `gpuproof doctor --format json` has it."""
        self._boot = {**self._boot, "findings": findings}
        self._changed.set()

    def write_end(self, aws: AwsCli, end: End) -> None:
        """Report the end.

        Raises:
            AwsFailed: S3 cannot be reached.
        """
        self._ended.set()
        self._changed.set()
        document = {"version": VERSION, **asdict(end)}
        aws.run("s3", "cp", "--only-show-errors", "-", self.address("end.json"), content=_encode(document))

    def _write_phases(self) -> None:
        aws = AwsCli(lambda _: None, 0.0)
        while True:
            self._changed.wait()
            # Phases that follow soon need no calls of their own, which would delay them.
            if self._ended.wait(_DELAY_S):
                return
            self._changed.clear()
            try:
                aws.attempt(
                    "s3",
                    "cp",
                    "--only-show-errors",
                    "-",
                    self.address("boot.json"),
                    content=_encode(self._boot),
                )
            except AwsFailed as failed:
                print(f"gpuproof: boot.json was not written: {failed}", flush=True)


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode()
