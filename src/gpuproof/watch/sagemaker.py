"""Where SageMaker looks for the verdict on a program in a container that something else started.

The report goes to `/opt/ml/output/data/gpuproof/HOST/report.json`, which SageMaker uploads in `output.tar.gz`, and the reason of a failed
job to `/opt/ml/output/failure`, of which it shows 1,024 characters as `FailureReason`. AWS's training toolkit and the SageMaker SDK v3
leave such a file as it is. Processing jobs have `/opt/ml/output/message` instead (`ExitMessage`, also of jobs that succeed).

Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-output.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/byoc-metadata.html, and `write_failure_file` in
https://github.com/aws/sagemaker-training-toolkit/blob/master/src/sagemaker_training/files.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuproof.agent.failure import LIMIT, StopReason, with_code
from gpuproof.agent.paths import ContainerPaths, RunPaths
from gpuproof.util.atomic import write_json
from gpuproof.util.sagemaker_container import PROCESSING, SageMakerContainer, find_container
from gpuproof.watch.report import STALLED, Instance, WatchReport

REPORT = "report.json"
_REGIONS = ("AWS_REGION", "SAGEMAKER_REGION", "AWS_DEFAULT_REGION")


def publish(report: WatchReport, environment: Mapping[str, str]) -> WatchReport:
    """Write the report and the reason of a failure to where SageMaker looks for them; does nothing outside of its containers.

    Args:
        environment: the container's variables.

    Returns:
        The report with the job's host and instance, and a note for each file that could not be written.
    """
    container = find_container(environment)
    if container is None:
        return report
    report = replace(
        report, host=container.host, instance=report.instance or _instance(container, environment)
    )
    notes: list[str] = []
    failure = RunPaths(container.base, container.base).failure(container.kind)
    if text := failure_reason(report) or (_summary(report) if container.kind == PROCESSING else None):
        try:
            _write_reason(failure, text)
        except OSError as error:
            notes.append(f"{failure} could not be written: {error.strerror}")
    results = ContainerPaths(container.base, container.base).results(container.kind, container.host)
    try:
        results.mkdir(parents=True, exist_ok=True)
        write_json(results / REPORT, report.to_json())
    except OSError as error:
        notes.append(f"{results / REPORT} could not be written: {error.strerror}")
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


def _instance(container: SageMakerContainer, environment: Mapping[str, str]) -> Instance | None:
    region = next((environment[variable] for variable in _REGIONS if environment.get(variable)), None)
    return Instance(container.instance_type, region) if container.instance_type is not None else None
