"""Runs the steps of a pipeline's execution, one after another, as calls of SageMaker's own operations."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.pipelines.definition import Step, resolve
from gpuproof_emulator.job_kinds import ACTIVE
from gpuproof_emulator.protocol import now
from gpuproof_emulator.store import PIPELINE_EXECUTION, Resource

EXECUTING, STOPPING = "Executing", "Stopping"
UNFINISHED = (EXECUTING, STOPPING)
_FAILURE = "Step failure: One or multiple steps failed."
_LOST = "ClientError: InternalServerError: the emulator ended while the job ran. Please try again."
_POLL_S = 5.0


def start_execution(
    context: Context, execution: Resource, steps: list[Step], parameters: Mapping[str, Any]
) -> None:
    """Run an execution in the background."""
    run = _ExecutionRun(context, execution, parameters)
    threading.Thread(target=run.run, args=(steps,), name=execution.name, daemon=True).start()


def fail_lost_executions(context: Context) -> None:
    """Fail the executions that were running when the emulator last ended."""
    for execution in context.store.all(PIPELINE_EXECUTION):
        if execution.document["PipelineExecutionStatus"] in UNFINISHED:
            with context.store.modify(execution):
                execution.document.update(PipelineExecutionStatus="Failed", FailureReason=_FAILURE)
                for step in execution.extra["steps"]:
                    if step["StepStatus"] == EXECUTING:
                        step.update(StepStatus="Failed", EndTime=now(), FailureReason=_LOST)


class _ExecutionRun:
    def __init__(self, context: Context, execution: Resource, parameters: Mapping[str, Any]) -> None:
        self._context = context
        self._execution = execution
        arn: str = execution.document["PipelineExecutionArn"]
        self._scope: dict[str, Any] = {
            "Parameters": parameters,
            "Execution": {
                "PipelineName": arn.split("/")[1],
                "PipelineArn": execution.document["PipelineArn"],
                "PipelineExecutionArn": arn,
                "PipelineExecutionId": arn.rpartition("/")[2],
                "StartDateTime": execution.document["CreationTime"],
            },
            "Steps": {},
        }

    def run(self, steps: list[Step]) -> None:
        """Run all steps whose predecessors succeed."""
        for step in steps:
            if step.after <= self._scope["Steps"].keys() and not self._is_stopping():
                self._run_step(step)
        with self._context.store.modify(self._execution):
            document = self._execution.document
            if self._is_stopping():
                document["PipelineExecutionStatus"] = "Stopped"
            elif len(self._scope["Steps"]) == len(steps):
                document["PipelineExecutionStatus"] = "Succeeded"
            else:
                document.update(PipelineExecutionStatus="Failed", FailureReason=_FAILURE)

    def _is_stopping(self) -> bool:
        return self._execution.document["PipelineExecutionStatus"] == STOPPING

    def _run_step(self, step: Step) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        record: dict[str, Any] = {"StepName": step.name, "StartTime": now(), "StepStatus": EXECUTING}
        with self._context.store.modify(self._execution):
            self._execution.extra["steps"].append(record)
        try:
            document = self._run_job(step, record)
            status, reason = document[step.kind.status_member], document.get("FailureReason", "")
        except (BotoCoreError, ClientError, LookupError, StopIteration) as error:
            status = "Failed"
            reason = f"Failed to invoke sagemaker:Create{step.kind.word}Job. Error Details: {error}"
        with self._context.store.modify(self._execution):
            record.update(EndTime=now(), StepStatus="Succeeded" if status == "Completed" else status)
            if status == "Failed":
                record["FailureReason"] = f"ClientError: {reason}"[:1024]

    def _run_job(self, step: Step, record: dict[str, Any]) -> Mapping[str, Any]:
        """Create the step's job and wait for its end; returns its document."""
        kind, region = step.kind, self._execution.region
        identifier = self._scope["Execution"]["PipelineExecutionId"]
        name = f"pipelines-{identifier}-{step.name[:24]}-{secrets.token_urlsafe(8).translate(_NO_SIGNS)}"
        request = {kind.name_member: name, **resolve(dict(step.arguments), self._scope)}
        # The role of the pipeline creates the jobs.
        client = self._context.clients.of_role(self._execution.extra["role"], "sagemaker", region)
        getattr(client, f"create_{kind.word.lower()}_job")(**request)
        job = self._context.store.get(kind.resource, region, request[kind.name_member])
        if job is None:
            raise LookupError("the job was deleted")
        with self._context.store.modify(self._execution):
            record["Metadata"] = {f"{kind.word}Job": {"Arn": job.arn}}
        while kind.is_active(job):
            self._context.store.wait_for(lambda: job.document[kind.status_member] not in ACTIVE, _POLL_S)
        if job.document[kind.status_member] == "Completed":
            self._scope["Steps"][step.name] = job.document
        return job.document


_NO_SIGNS = str.maketrans("-_", "00")
