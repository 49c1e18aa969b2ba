"""Deploys a model as a transaction: creates what the plan says, waits for the endpoint, and asks for its verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.aws.services.s3_transfer import ByteCounter
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.deletion_schedule import format_start, starts_at
from gpuproof.backends.remote.execute import execute, redacted, step_of
from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed, GpuNotUsed
from gpuproof.backends.sagemaker.endpoints.plan import PREVIOUS_TAG, EndpointPlan
from gpuproof.backends.sagemaker.endpoints.previous import remove_older
from gpuproof.backends.sagemaker.endpoints.removal import Remover
from gpuproof.backends.sagemaker.endpoints.requests import model_undo, schedule_of, update_call
from gpuproof.backends.sagemaker.endpoints.verdict import EndpointVerdict, ask_verdict, send
from gpuproof.backends.sagemaker.endpoints.wait import EndpointWait
from gpuproof.backends.transaction import Remaining, Step, Transaction, Undo
from gpuproof.errors import GPUproofError
from gpuproof.serve.model.warmup import content_type_of
from gpuproof.util.humanize import format_bytes


@dataclass(frozen=True)
class Deployed:
    """A deployment that succeeded.

    Args:
        verdict: whether the model is on the GPU; None if it could not be requested.
        delete_at: when the schedule of this deployment deletes it, in seconds since the epoch; None if it has none.
    """

    name: str
    config: str
    verdict: EndpointVerdict | None
    delete_at: float | None
    notes: tuple[str, ...]


class Deployment:
    """One execution of a plan.

    Args:
        progress: told about each step.
        sleep: waits for a number of seconds.
        clock: the time in seconds since the epoch.
    """

    def __init__(
        self,
        plan: EndpointPlan,
        aws: Aws,
        progress: SubmitProgress,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._progress = progress
        self._sleep = sleep
        self._clock = clock
        self._remover = Remover(aws, progress, sleep)
        self._wait = EndpointWait(aws, plan.name, plan.job.instance_type, progress, sleep)
        self._notes: list[str] = []
        self._delete_at: float | None = None
        self._transaction = Transaction(progress, describe=self._describe, sleep=sleep)

    def run(self, report: Callable[[Deployed], None] = lambda _: None) -> Deployed:
        """Deploy the model.

        Args:
            report: told about a success, also if an interrupt comes too late to undo it.

        Raises:
            GPUproofError: it failed; what was created has been deleted, and what could not be deleted was reported.
        """
        with self._transaction as transaction:
            try:
                verdict = self._deploy()
            except AwsRefused as refused:
                raise redacted(refused, self._plan.job.environment) from None
            # From here on, the endpoint stays: an interrupt waits until that is reported.
            transaction.commit()
            self._finish()
            name, config = self._plan.name, self._plan.deployment
            deployed = Deployed(name, config, verdict, self._delete_at, tuple(self._notes))
            report(deployed)
            return deployed

    def _deploy(self) -> EndpointVerdict | None:
        plan, aws, run = self._plan, self._aws, self._transaction.execute
        files = self._store_files()
        run(self._model_step())
        self._transaction.forget(
            *files
        )  # the model's undo deletes them: `gpuproof delete` finds them by their model
        run(self._step(plan.create_config, lambda: aws.describe_endpoint_config(plan.deployment)))
        # Before anything costs money, and before an update: an earlier schedule could delete the endpoint at its end.
        self._set_schedule()
        if plan.end_scaling is not None:
            run(self._end_scaling_step(plan.end_scaling))
        run(self._endpoint_step())
        self._wait.until_in_service(plan.deployment)
        verdict = self._first_requests()
        for call in plan.start_scaling:
            run(self._step(call))
        return verdict

    def _store_files(self) -> tuple[Undo, ...]:
        """Upload the model's files into the bucket, which is kept; returns what deletes them."""
        plan = self._plan
        for call in plan.bucket.calls:
            self._transaction.execute(step_of(self._aws, replace(call, undo=None)))
        if not plan.uploads:
            return ()
        bucket = plan.bucket.name
        address = f"s3://{bucket}/{plan.prefix}"
        what, remedy = f"delete {address}", f"Delete it: aws s3 rm --recursive {address}"
        undo = Undo(what, self._delete_files, what, needed=True, remedy=remedy)
        self._transaction.note(undo)
        for path, key in plan.uploads:
            size = path.stat().st_size
            what = f"upload {path.name} ({format_bytes(size)})"
            self._progress.step(what)
            counter = ByteCounter(size, partial(self._progress.transfer, what))
            self._aws.upload_file(bucket, key, path, progress=counter.add)
        return (undo,)

    def _step(self, call: ApiCall, lookup: Callable[[], Any] | None = None) -> Step[Any]:
        """The step of a call; an update's undo restores what was there before, so that nothing needs what it deletes."""
        delete = call.undo
        undo = ()
        if delete is not None:
            restores = delete.operation == call.operation
            undo = (Undo(delete.what, lambda: self._remover.call(delete), delete.what, needed=not restores),)
        return Step(call.what, lambda: execute(self._aws, call), undo, lookup)

    def _model_step(self) -> Step[Any]:
        plan = self._plan
        step = self._step(plan.create_model, lambda: self._aws.describe_model(plan.deployment))
        what = f"delete the model {plan.deployment}, with its files"
        return replace(step, undo=(Undo(what, self._delete_model, what, needed=True),))

    def _endpoint_step(self) -> Step[Any]:
        """The step that creates the endpoint, or updates it; a second interrupt ends the wait for its deletion, or its return."""
        plan, old = self._plan, self._plan.replaces
        if old is None:
            what = f"delete the endpoint {plan.name}"
            undo = Undo(what, lambda: self._remover.endpoint(plan.name), what, holds=True, interrupts=1)
            step = self._step(plan.start, lambda: self._aws.describe_endpoint(plan.name))
        else:
            what = f"return {plan.name} to {old}"
            undo = Undo(what, lambda: self._return_to(old), what, holds=True, interrupts=1)
            step = self._step(plan.start)
        return replace(step, undo=(undo,))

    def _delete_files(self) -> None:
        if self._plan.uploads:
            self._remover.files(self._plan.bucket.name, self._plan.prefix)

    def _delete_model(self) -> None:
        # Its files first: without the model, `gpuproof delete` does not find them.
        self._delete_files()
        self._remover.call(model_undo(self._plan.deployment))

    def _set_schedule(self) -> None:
        """Create, move or delete the schedule; `--ttl` counts from here."""
        plan, stored, now = self._plan, self._plan.stored_schedule, self._clock()
        call = plan.schedule_at(now)
        if call is None:
            return
        step = self._step(call, lambda: self._find_schedule(call))
        if call.operation == "delete_schedule":
            self._transaction.execute(Step(call.what, lambda: self._remover.call(call)))
            return
        if stored is not None:
            # Its old time may have passed by then.
            schedule, what = schedule_of(plan.name), call.undo.what if call.undo else call.what
            undo = Undo(what, lambda: self._remover.call(schedule.restore(stored, self._clock())), what)
            step = replace(step, undo=(undo,))
        try:
            self._transaction.execute(step)
        except GPUproofError as error:
            if not plan.job.keep_without_schedule:
                verb = "created" if stored is None else "moved"
                raise error.replaced(
                    f"The schedule that deletes the endpoint cannot be {verb}: {error.message}",
                    f"{error.remedy or ''}\nThe deployment is undone; --keep-without-schedule deploys nevertheless.".strip(),
                ) from error
            kept = "will stay until you delete it: its schedule cannot be created"
            if stored is not None:
                kept = f"keeps its old schedule, {format_start(starts_at(stored))}: it cannot be moved"
            self._notes.append(f"The endpoint {kept}: {error.message}")
            return
        assert plan.job.ttl is not None
        self._delete_at = now + plan.job.ttl.seconds

    def _find_schedule(self, call: ApiCall) -> dict[str, Any] | None:
        found = self._aws.schedule(call.request["Name"])
        wanted = datetime.fromisoformat(call.request["StartDate"]).timestamp()
        return found if found is not None and starts_at(found) == wanted else None

    def _end_scaling_step(self, call: ApiCall) -> Step[Any]:
        what = f"start the automatic scaling of {self._plan.name} again"

        def restore() -> None:
            for registration in self._plan.scaling:
                execute(self._aws, registration)

        return Step(call.what, lambda: self._remover.call(call), (Undo(what, restore, what, needed=True),))

    def _first_requests(self) -> EndpointVerdict | None:
        """Send the sample request, and ask GPUproof's server for its verdict.

        Raises:
            DeploymentFailed: the model does not answer the request.
            GpuNotUsed: it is not on the GPU, although that is required.
        """
        job = self._plan.job
        if job.async_output is not None:
            if self._plan.require_gpu:
                self._notes.append(
                    "It was not checked whether the model is on the GPU: an asynchronous endpoint answers no requests "
                    "directly."
                )
            return None
        if job.request is not None:
            request = Path(job.request)
            self._send(request.read_bytes(), job.content_type or content_type_of(request))
        if job.server != "gpuproof":
            return None
        self._progress.step("ask the server whether the model is on the GPU")
        verdict = ask_verdict(self._aws, self._plan.name, self._sleep)
        if verdict.not_on_gpu and self._plan.require_gpu:
            raise self._wait.failed(
                f"The model of {self._plan.name} is not on the GPU: {verdict.reason}",
                GpuNotUsed,
                "Correct the handler, or accept the CPU: --no-require-gpu",
            )
        if verdict.verdict == "unknown" and self._plan.require_gpu:
            self._notes.append(f"It is not known whether the model is on the GPU: {verdict.reason}.")
        return verdict

    def _send(self, body: bytes, content_type: str) -> None:
        self._progress.step("send the sample request")
        try:
            send(self._aws, self._plan.name, body, content_type)
        except AwsRefused as refused:
            raise self._wait.failed(
                f"The model of {self._plan.name} does not answer the sample request: {refused.aws_message}",
                DeploymentFailed,
                "Correct the handler or the file of --request.",
            ) from refused

    def _finish(self) -> None:
        """Remember the previous configuration, and delete older ones. The deployment has succeeded: errors are notes."""
        plan = self._plan
        if plan.replaces is None:
            return
        try:
            found = self._aws.describe_endpoint(plan.name)
            if found is not None:
                tags = [{"Key": key, "Value": value} for key, value in plan.tags.items()]
                tags.append({"Key": PREVIOUS_TAG, "Value": plan.replaces})
                self._aws.call("sagemaker", "add_tags", ResourceArn=found["EndpointArn"], Tags=tags)
            remove_older(self._aws, self._remover, plan.name, keep={plan.deployment, plan.replaces})
        except GPUproofError as error:
            self._notes.append(f"Older configurations were not deleted: {error.message}")

    def _return_to(self, config: str) -> None:
        """Return an endpoint to its old configuration, after a deployment that came into service but failed later."""
        found = self._wait.settled()
        if found is None or found["EndpointConfigName"] == config:
            return
        keeps_count = bool(self._plan.scaling) and not self._plan.changes_type
        execute(self._aws, update_call(self._plan.name, config, keeps_count=keeps_count))
        self._wait.until_in_service(config)

    def _describe(self, left: Remaining) -> str:
        """The note about something that was not undone."""
        plan, flag = self._plan, self._aws.region_flag
        remedy = left.remedy or f"Delete it: gpuproof delete {plan.name}{flag}"
        # `gpuproof delete` would also delete the old model, which serves.
        if plan.replaces is not None and not left.remedy:
            remedy = f"{plan.name} existed before and was not deleted. See what it serves: aws sagemaker describe-endpoint --endpoint-name {plan.name} --region {self._aws.region}"
        reasons = {"in use": "the endpoint still uses it", "interrupted": "interrupted again"}
        why = reasons.get(left.reason, left.why)
        return f"not done: {left.undo.what}: {why.rstrip('.')}. {remedy}"
