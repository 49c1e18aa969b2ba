"""Executes a deployment's plan, waits for the endpoint, asks for its verdict, and undoes everything after an error."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpuproof.backends.api_call import HIDDEN, ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.s3_transfer import ByteCounter
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed, GpuNotUsed
from gpuproof.backends.sagemaker.endpoints.plan import PREVIOUS_TAG, EndpointPlan
from gpuproof.backends.sagemaker.endpoints.previous import remove_older
from gpuproof.backends.sagemaker.endpoints.removal import Remover
from gpuproof.backends.sagemaker.endpoints.requests import model_undo, scaling_calls, update_call
from gpuproof.backends.sagemaker.endpoints.verdict import EndpointVerdict, ask_verdict, send
from gpuproof.backends.sagemaker.endpoints.wait import EndpointWait
from gpuproof.errors import GPUproofError
from gpuproof.util.humanize import format_bytes

_SHORTEST_SECRET = 4


@dataclass(frozen=True)
class Deployed:
    """A deployment that succeeded.

    Args:
        name: the endpoint.
        config: its configuration.
        verdict: whether the model is on the GPU; None if nobody could be asked.
        delete_at: when the schedule of this deployment deletes it, in seconds since the epoch; None if it has none.
        notes: what the user should know.
    """

    name: str
    config: str
    verdict: EndpointVerdict | None
    delete_at: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Undo:
    """One step of the rollback.

    Args:
        what: what it does, as a phrase.
        action: does it.
        of_endpoint: whether it deletes the endpoint, or returns it to its old configuration.
        restores: whether it restores what was there before: it deletes nothing that the endpoint needs.
        remedy: how the user does it; `gpuproof delete` if empty.
    """

    what: str
    action: Callable[[], object]
    of_endpoint: bool = False
    restores: bool = False
    remedy: str = ""


class Deployment:
    """One execution of a plan.

    Args:
        plan: the plan.
        aws: the client.
        progress: told about each step.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        plan: EndpointPlan,
        aws: Aws,
        progress: SubmitProgress,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan = plan
        self._aws = aws
        self._progress = progress
        self._sleep = sleep
        self._remover = Remover(aws, progress, sleep)
        self._wait = EndpointWait(aws, plan.name, plan.options.instance_type, progress, sleep)
        self._undo: list[_Undo] = []
        self._notes: list[str] = []
        self._has_schedule = False
        self._endpoint_stays = False  # because it could not be deleted

    def run(self, report: Callable[[Deployed], None] = lambda _: None) -> Deployed:
        """Deploy the model.

        Args:
            report: told about a success, also if an interrupt comes too late to undo it.

        Raises:
            GPUproofError: it failed; what was created has been deleted, and what could not be deleted was reported.
        """
        with contextlib.ExitStack() as stack:
            try:
                verdict = self._deploy()
                # From here on, the endpoint stays: an interrupt waits until that is reported.
                stack.enter_context(DeferredInterrupt())
            except BaseException as error:
                self._roll_back()
                if isinstance(error, AwsRefused):
                    raise self._redacted(error) from None
                raise
            self._finish()
            plan, delete_at = self._plan, self._plan.delete_at if self._has_schedule else None
            deployed = Deployed(plan.name, plan.deployment, verdict, delete_at, tuple(self._notes))
            report(deployed)
            return deployed

    def _deploy(self) -> EndpointVerdict | None:
        plan = self._plan
        self._store_files()
        exists = self._aws.describe_model, self._aws.describe_endpoint_config, self._aws.describe_endpoint
        self._create(plan.create_model, lambda: exists[0](plan.deployment) is not None)
        # One step from here on: `gpuproof delete` finds the files by their model.
        self._undo = [_Undo(f"delete the model {plan.deployment}, with its files", self._delete_model)]
        self._create(plan.create_config, lambda: exists[1](plan.deployment) is not None)
        # Before anything costs money.
        if plan.schedule is not None and plan.replaces is None:
            self._create_schedule(plan.schedule)
        if plan.replaces is None:
            self._add_undo(
                f"delete the endpoint {plan.name}",
                lambda: self._remover.endpoint(plan.name),
                of_endpoint=True,
            )
            self._create(plan.start, lambda: exists[2](plan.name) is not None, undo=False)
        else:
            self._add_undo(
                f"return {plan.name} to {plan.replaces}",
                lambda: self._return_to(plan.replaces or ""),
                of_endpoint=True,
            )
            self._progress.step(plan.start.what)
            execute(self._aws, plan.start)
        self._wait.until_in_service(plan.deployment)
        verdict = self._first_requests()
        if plan.schedule is not None and plan.replaces is not None:
            self._create_schedule(plan.schedule)
        if plan.options.scaling is not None:
            for call in scaling_calls(plan.name, plan.options.scaling):
                self._create(call, lambda: False)
        return verdict

    def _store_files(self) -> None:
        plan = self._plan
        for call in plan.bucket.calls:
            self._progress.step(call.what)
            try:
                execute(self._aws, call)
            except AwsRefused as refused:
                if refused.code != "BucketAlreadyOwnedByYou":
                    raise
        if not plan.uploads:
            return
        bucket, prefix = plan.bucket.name, plan.prefix
        address = f"s3://{bucket}/{prefix}"
        self._undo.append(
            _Undo(
                f"delete {address}", self._delete_files, remedy=f"Delete it: aws s3 rm --recursive {address}"
            )
        )
        for path, key in plan.uploads:
            size = path.stat().st_size
            what = f"upload {path.name} ({format_bytes(size)})"
            self._progress.step(what)
            counter = ByteCounter(size, partial(self._progress.transfer, what))
            self._aws.upload_file(bucket, key, path, progress=counter.add)

    def _delete_files(self) -> None:
        if self._plan.uploads:
            self._remover.files(self._plan.bucket.name, self._plan.prefix)

    def _delete_model(self) -> None:
        # Its files first: without the model, `gpuproof delete` does not find them.
        self._delete_files()
        self._remover.call(model_undo(self._plan.deployment))

    def _create(self, call: ApiCall, exists: Callable[[], bool], *, undo: bool = True) -> None:
        """Execute a call; its undo is noted before, because an interrupt may come while it is being made.

        Args:
            exists: whether the resource is there, if the connection was lost. All names are unique.
        """
        delete = call.undo
        if undo and delete is not None:
            restores = delete.operation == call.operation
            self._add_undo(delete.what, lambda: self._remover.call(delete), restores=restores)
        self._progress.step(call.what)
        try:
            execute(self._aws, call)
        except (AwsRefused, AwsUnreachable) as error:
            if not error.maybe_done or not exists():
                raise

    def _create_schedule(self, call: ApiCall) -> None:
        stored = self._plan.stored_schedule
        try:
            self._create(call, lambda: self._is_scheduled(call))
            self._has_schedule = True
        except GPUproofError as error:
            if not self._plan.options.keep_without_schedule:
                verb = "created" if stored is None else "moved"
                raise error.replaced(
                    f"The schedule that deletes the endpoint cannot be {verb}: {error.message}",
                    f"{error.remedy or ''}\nThe deployment is undone; --keep-without-schedule deploys nevertheless.".strip(),
                ) from error
            kept = "will stay until you delete it: its schedule cannot be created"
            if stored is not None:
                kept = f"keeps its old schedule, {stored['ScheduleExpression']}: it cannot be moved"
            self._notes.append(f"The endpoint {kept}: {error.message}")

    def _is_scheduled(self, call: ApiCall) -> bool:
        found = self._aws.schedule(call.request["Name"])
        return found is not None and found["ScheduleExpression"] == call.request["ScheduleExpression"]

    def _first_requests(self) -> EndpointVerdict | None:
        """Send the sample request, and ask GPUproof's server for its verdict.

        Raises:
            DeploymentFailed: the model does not answer the request.
            GpuNotUsed: it is not on the GPU, although that is required.
        """
        options = self._plan.options
        if options.asynchronous is not None:
            if self._plan.require_gpu:
                self._notes.append(
                    "It was not checked whether the model is on the GPU: an asynchronous endpoint answers no requests "
                    "directly."
                )
            return None
        if options.request is not None:
            self._send(options.request.read_bytes(), options.content_type or "application/json")
        if options.server != "gpuproof":
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
        execute(self._aws, update_call(self._plan.name, config))
        self._wait.until_in_service(config)

    def _add_undo(
        self, what: str, action: Callable[[], object], *, of_endpoint: bool = False, restores: bool = False
    ) -> None:
        self._undo.append(_Undo(what, action, of_endpoint, restores))

    def _roll_back(self) -> None:
        """Undo everything, last first. A second Ctrl-C leaves the step that it interrupts."""
        while self._undo:
            # One that comes between two steps interrupts none of them.
            with contextlib.suppress(KeyboardInterrupt):
                self._undo_last(self._undo[-1])
                self._undo.pop()

    def _undo_last(self, undo: _Undo) -> None:
        # Its schedule is what still deletes an endpoint that cannot be deleted now.
        if self._endpoint_stays and not undo.restores:
            self._report(undo, "the endpoint still uses it")
            return
        self._progress.step(undo.what)
        try:
            undo.action()
        except KeyboardInterrupt:
            self._endpoint_stays |= undo.of_endpoint
            self._report(undo, "interrupted again")
        except GPUproofError as error:
            self._endpoint_stays |= undo.of_endpoint
            self._report(undo, error.message)

    def _report(self, undo: _Undo, why: str) -> None:
        plan, flag = self._plan, self._aws.region_flag
        remedy = undo.remedy or f"Delete it: gpuproof delete {plan.name}{flag}"
        # `gpuproof delete` would also delete the old model, which serves.
        if plan.replaces is not None and not undo.remedy:
            remedy = f"{plan.name} existed before and was not deleted. See what it serves: aws sagemaker describe-endpoint --endpoint-name {plan.name} --region {self._aws.region}"
        self._progress.report("note", f"not done: {undo.what}: {why.rstrip('.')}. {remedy}")

    def _redacted(self, error: AwsRefused) -> AwsRefused:
        """The error without values of environment variables, which AWS quotes when it rejects them."""
        message = error.message
        for value in self._plan.options.environment.values():
            if len(value) >= _SHORTEST_SECRET:
                message = message.replace(value, HIDDEN)
        return error.replaced(message, error.remedy)
