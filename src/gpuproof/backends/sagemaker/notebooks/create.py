"""Creates a planned notebook instance as a transaction, and waits until it is in service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute, step_of
from gpuproof.backends.remote.planning.instance_search import Candidate, list_alternatives
from gpuproof.backends.remote.planning.quota import quota_hint
from gpuproof.backends.sagemaker.notebooks.changes import delete_instance
from gpuproof.backends.sagemaker.notebooks.errors import NotebookGone, NotebookTimeout
from gpuproof.backends.sagemaker.notebooks.failure import failure, lacks_capacity
from gpuproof.backends.sagemaker.notebooks.plan import CREATION_TAG, NotebookPlan, price_line
from gpuproof.backends.sagemaker.notebooks.shared_files import (
    create_config,
    delete_results,
    delete_unused,
    delete_unused_agents,
    upload_agent,
)
from gpuproof.backends.sagemaker.notebooks.wait import NotebookWaiter
from gpuproof.backends.transaction import ATTEMPTS, Remaining, Step, Transaction, Undo
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_CAPACITY = "CapacityError"


@dataclass(frozen=True)
class CreatedNotebook:
    """A notebook instance that was created.

    Args:
        status: `InService`, or `Pending` if it was not waited for.
        tried: instance types that had no capacity or quota.
    """

    name: str
    candidate: Candidate
    status: str
    tried: tuple[UnavailableType, ...] = ()


def create_notebook(
    aws: Aws,
    plan: NotebookPlan,
    progress: SubmitProgress,
    waiter: NotebookWaiter,
    *,
    wait: bool = True,
    catalogue: Catalogue | None = None,
) -> CreatedNotebook:
    """Create everything in the plan, the notebook instance last.

    Args:
        wait: whether to wait until it is in service; then, the next instance type is tried if one turns out to lack capacity.

    Raises:
        NoCapacity: no instance type is left.
        NotebookTimeout: the instance is still Pending, which SageMaker neither stops nor deletes: it stays.
        NotebookGone: another user or command deleted it.
        GPUproofError: a request or the instance failed; what was created has been deleted.
    """
    return _Creation(aws, plan, progress, waiter, catalogue or Catalogue.load()).run(wait=wait)


class _LacksCapacity(GPUproofError):
    """The instance was created, and failed because its type lacks capacity."""


def _stays(error: BaseException) -> bool:
    """Whether nothing is deleted after an error: SageMaker deletes no instance that is Pending."""
    return isinstance(error, NotebookTimeout)


class _Creation:
    def __init__(
        self,
        aws: Aws,
        plan: NotebookPlan,
        progress: SubmitProgress,
        waiter: NotebookWaiter,
        catalogue: Catalogue,
    ) -> None:
        self._aws = aws
        self._plan = plan
        self._progress = progress
        self._waiter = waiter
        self._catalogue = catalogue
        self._transaction = Transaction(
            progress, rollback="delete what was created", describe=self._describe, sleep=waiter.sleep
        )
        self._agent_is_new = False
        self._current = plan.candidates[0]
        self._tried: list[UnavailableType] = []

    def run(self, *, wait: bool) -> CreatedNotebook:
        try:
            with self._transaction as transaction:
                for call in self._plan.bucket.calls:
                    transaction.execute(step_of(self._aws, call, needed=True, kept_after=_stays))
                self._upload_agent()
                status = transaction.first_available(
                    self._plan.candidates,
                    lambda candidate: self._create(candidate, wait=wait),
                    self._unavailable,
                    self._no_capacity,
                    self._tried,
                )
                return CreatedNotebook(self._plan.job.name, self._current, status, tuple(self._tried))
        except NotebookTimeout as error:
            raise error.replaced(*self._what_stays(error)) from None

    def _upload_agent(self) -> None:
        """Upload the agent, unless it is there; other notebook instances may use it."""
        plan = self._plan
        key = plan.script.agent_key
        undo = self._shared_undo("the agent", lambda: delete_unused_agents(self._aws, plan.bucket.name, key))
        self._transaction.note(undo)
        self._agent_is_new = True  # also if the upload is interrupted
        self._agent_is_new = upload_agent(self._aws, plan, self._progress)
        if not self._agent_is_new:
            self._transaction.forget(undo)

    def _create(self, candidate: Candidate, *, wait: bool) -> str:
        """Create the instance on a type; returns its status."""
        name = self._plan.job.name
        self._current = candidate
        if self._tried:
            self._progress.report("note", f"{self._tried[-1].summary}; trying {candidate.name}")
        self._transaction.note(self._shared_undo("the lifecycle configuration", self._delete_config))
        create_config(self._aws, self._plan, self._progress)
        step = self._instance_step(candidate)
        self._transaction.execute(step)
        if not wait:
            return "Pending"
        description = self._wait(step)
        status, reason = description["NotebookInstanceStatus"], description.get("FailureReason") or ""
        if status == "Failed" and lacks_capacity(reason):
            self._progress.step(f"delete the notebook instance {name}, which has failed")
            delete_instance(self._aws, name, self._waiter)
            self._transaction.forget(*step.undo)
            raise _LacksCapacity(reason)
        if status != "InService":
            raise failure(self._aws, name, reason or f"it is {status}")
        return status

    def _instance_step(self, candidate: Candidate) -> Step[bool]:
        """The step that creates the instance, and never a second one after a lost response: its name is unique."""
        name, call = self._plan.job.name, self._plan.create_call(candidate)

        def create() -> bool:
            execute(self._aws, call)
            return True

        undo = Undo(
            f"the notebook instance {name}",
            self._delete_instance,
            holds=True,
            interrupts=1,
            kept_after=_stays,
            remedy=f"Delete it: gpuproof notebook delete {name}{self._aws.region_flag}",
        )
        return Step(
            call.what,
            create,
            (undo,),
            lookup=lambda: self._is_ours() or None,
            looking="check whether the notebook instance was created before the connection was lost",
            attempts=ATTEMPTS,
            in_use=lambda refused: "duplicate" in refused.aws_message,
        )

    def _wait(self, step: Step[bool]) -> dict[str, Any]:
        name = self._plan.job.name
        description = self._waiter.while_in(name, ("Pending", "Updating"))
        if description is None or description["NotebookInstanceStatus"] in (
            "Deleting",
            "Stopping",
            "Stopped",
        ):
            state = (
                "no longer exists" if description is None else f"is {description['NotebookInstanceStatus']}"
            )
            self._transaction.forget(*step.undo)  # another user or command works with it now
            raise NotebookGone(
                f"The notebook instance {name} {state}: another user or command stopped or deleted it while it was created.",
                remedy=f"gpuproof notebook list{self._aws.region_flag}",
            )
        return description

    def _is_ours(self) -> bool:
        description = self._aws.describe_notebook(self._plan.job.name)
        if description is None:
            return False
        tags = self._aws.tags(description["NotebookInstanceArn"])
        return tags.get(CREATION_TAG) == self._plan.creation_id

    def _unavailable(self, candidate: Candidate, error: GPUproofError) -> UnavailableType | None:
        if isinstance(error, _LacksCapacity):
            return UnavailableType(candidate.name, _CAPACITY, error.message)
        if not isinstance(error, AwsRefused) or not (error.is_capacity or error.is_quota):
            return None
        quota = (
            self._catalogue.quota(candidate.name, self._plan.region, "notebook") if error.is_quota else None
        )
        hint = quota_hint(quota, candidate.name) if quota is not None else ""
        return UnavailableType(candidate.name, error.code, error.aws_message, hint)

    def _no_capacity(self, tried: list[UnavailableType]) -> NoCapacity:
        summaries = "\n".join(refused.summary for refused in tried)
        names = [refused.name for refused in tried]
        others = list_alternatives(
            names[0], "notebook", self._catalogue, self._plan.region, flag="--fallback", without=names
        )
        hints = [*dict.fromkeys(refused.quota_hint for refused in tried if refused.quota_hint)]
        remedy = (
            "\n".join(hints) or f"{others}\nOr try another region (--region), or try again later.".strip()
        )
        return NoCapacity(f"No instance type is available:\n{summaries}", remedy, tried)

    def _what_stays(self, error: NotebookTimeout) -> tuple[str, str]:
        name, flag = self._plan.job.name, self._aws.region_flag
        idle = self._plan.job.idle_timeout
        later = (
            "It does not stop by itself."
            if idle is None
            else f"Once in service, it stops after {idle} without work."
        )
        message = (
            f"{error.message} SageMaker neither stops nor deletes an instance that is {error.status}, so it stays, with its "
            f"lifecycle configuration {self._plan.script.config_name}: {price_line(self._current)}. {later}\n"
            "The usual cause is a type without capacity: SageMaker reports that after about half an hour."
        )
        return (
            message,
            f"gpuproof notebook delete {name}{flag} waits and deletes it; gpuproof notebook list{flag}",
        )

    def _shared_undo(self, what: str, delete: Callable[[], list[str]]) -> Undo:
        """The undo that deletes what no other notebook instance uses.

        Args:
            delete: returns messages about what could not be deleted.
        """

        def call() -> None:
            if problems := delete():
                raise GPUproofError("; ".join(problems))

        return Undo(what, call, needed=True, kept_after=_stays)

    def _delete_config(self) -> list[str]:
        plan = self._plan
        agent = plan.script.agent_key if self._agent_is_new else ""
        problems = delete_unused(self._aws, plan.script.config_name, plan.bucket.name, agent)
        return problems + delete_results(self._aws, plan.bucket.name, plan.job.name)

    def _delete_instance(self) -> None:
        name = self._plan.job.name
        if not self._is_ours():
            return
        self._progress.report(
            "note",
            f"deleting the notebook instance {name}; SageMaker deletes it only when it is no longer Pending, which takes "
            "some minutes. Ctrl-C leaves it as it is.",
        )
        delete_instance(self._aws, name, self._waiter)

    def _describe(self, left: Remaining) -> str:
        """The note about something that was not deleted; what the instance needs stays with it."""
        if left.reason in ("kept", "in use"):
            return ""
        if not left.undo.holds:
            return f"not deleted: {left.why}"
        why = ". " if left.reason == "interrupted" else f": {left.why} "
        return f"not deleted: {left.undo.what}, {price_line(self._current)}{why}{left.remedy}"
