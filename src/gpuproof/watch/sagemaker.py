"""SageMaker containers that something else started: which job they belong to, and where it looks for the verdict.

The report goes to `/opt/ml/output/data/gpuproof/HOST/report.json`, which SageMaker uploads in `output.tar.gz`, and the reason of a failed
job to `/opt/ml/output/failure`, of which it shows 1,024 characters as `FailureReason`. AWS's training toolkit and the SageMaker SDK v3
leave such a file as it is. Processing jobs have `/opt/ml/output/message` instead (`ExitMessage`, also of jobs that succeed).

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/byoc-metadata.html, and `write_failure_file` in
https://github.com/aws/sagemaker-training-toolkit/blob/master/src/sagemaker_training/files.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuproof.agent.failure import LIMIT, StopReason, with_code
from gpuproof.agent.paths import CONTRACT_ROOT, ContainerPaths, RunPaths
from gpuproof.util.atomic import write_json
from gpuproof.watch.report import STALLED, Instance, WatchReport

TRAINING, PROCESSING = "training", "processing"
REPORT = "report.json"
_BASE = "SAGEMAKER_BASE_DIR"
"""Variable of AWS's training toolkit for another folder than `/opt/ml`."""
_REGIONS = ("AWS_REGION", "SAGEMAKER_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class SageMakerJob:
    """The job of the container in which this process runs.

    Args:
        kind: `TRAINING` or `PROCESSING`.
        name: empty if it is unknown.
        host: of this container, such as `algo-1`.
        hosts: of the job.
        base: the folder of SageMaker's contract.
    """

    kind: str
    name: str
    host: str
    hosts: tuple[str, ...]
    base: Path
    instance: Instance | None = None

    @property
    def results(self) -> Path:
        """The folder for this host's report."""
        return ContainerPaths(self.base, self.base).results(self.kind, self.host)

    @property
    def failure(self) -> Path:
        """The file in which SageMaker looks for the reason of a failure."""
        return RunPaths(self.base, self.base).failure(self.kind)


def find_job(environment: Mapping[str, str]) -> SageMakerJob | None:
    """The job of this container; `None` if SageMaker did not start it.

    Args:
        environment: the container's variables.
    """
    base = Path(environment.get(_BASE) or CONTRACT_ROOT)
    paths = ContainerPaths(base, base)
    for kind in (TRAINING, PROCESSING):
        config = _read_object(paths.resource_config(kind))
        host = config.get("current_host")
        if isinstance(host, str) and host:
            name = environment.get(f"{kind.upper()}_JOB_NAME", "")
            instance = _instance(config, environment)
            return SageMakerJob(kind, name, host, _hosts(config, host), base, instance)
    return None


def publish(report: WatchReport, environment: Mapping[str, str]) -> WatchReport:
    """Write the report and the reason of a failure to where SageMaker looks for them; does nothing outside of its containers.

    Args:
        environment: the container's variables.

    Returns:
        The report with the job's host and instance, and a note for each file that could not be written.
    """
    job = find_job(environment)
    if job is None:
        return report
    report = replace(report, host=job.host, instance=report.instance or job.instance)
    notes: list[str] = []
    if text := failure_reason(report) or (_summary(report) if job.kind == PROCESSING else None):
        try:
            _write_reason(job.failure, text)
        except OSError as error:
            notes.append(f"{job.failure} could not be written: {error.strerror}")
    try:
        job.results.mkdir(parents=True, exist_ok=True)
        write_json(job.results / REPORT, report.to_json())
    except OSError as error:
        notes.append(f"{job.results / REPORT} could not be written: {error.strerror}")
    return replace(report, notes=(*report.notes, *notes))


def failure_reason(report: WatchReport) -> str | None:
    """Why GPUproof lets the job fail, for `FailureReason`; `None` if it does not."""
    if report.stopped_because == STALLED:
        return " ".join(report.notes) or "The program was ended because it made no progress."
    unused = report.exit_code == 0 and report.requirement_met is False
    if not unused and report.stopped_because is None:
        return None
    return with_code(StopReason.GPU_UNUSED, " ".join(filter(None, (_summary(report), _remedy(report)))))


def _summary(report: WatchReport) -> str:
    return str(report.verdict.get("reason") or "")


def _remedy(report: WatchReport) -> str:
    return str(report.verdict.get("remedy") or "")


def _write_reason(file: Path, text: str) -> None:
    """Write a reason in front of what the program itself has written there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    message = file.read_text(encoding="utf-8", errors="replace").strip() if file.exists() else ""
    if text not in message:
        text = f"{text} The program left the message: {message}" if message else text
        file.write_text(text[:LIMIT], encoding="utf-8", errors="replace")


def _instance(config: Mapping[str, Any], environment: Mapping[str, str]) -> Instance | None:
    name = config.get("current_instance_type")
    region = next((environment[variable] for variable in _REGIONS if environment.get(variable)), None)
    # The SDK's local mode names `local` and `local_gpu`.
    return Instance(name, region) if isinstance(name, str) and name.startswith("ml.") else None


def _hosts(config: Mapping[str, Any], host: str) -> tuple[str, ...]:
    hosts = config.get("hosts")
    return tuple(map(str, hosts)) if isinstance(hosts, list) and hosts else (host,)


def _read_object(file: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
