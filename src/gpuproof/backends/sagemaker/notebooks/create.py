"""Creates a planned notebook instance and waits until it is in service; after an error or an interrupt, deletes what it made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.errors import NoCapacity, UnavailableType
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import UndoLog, execute
from gpuproof.backends.remote.planning.instance_search import list_alternatives
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
from gpuproof.backends.sagemaker.target import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_CAPACITY = "CapacityError"
_ATTEMPTS = 3


@dataclass(frozen=True)
class CreatedNotebook:
    """A notebook instance that was created.

    Args:
        name: its name.
        candidate: the instance type.
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
        NotebookGone: somebody else deleted it.
        GPUproofError: a request or the instance failed; what was created has been deleted.
    """
    return _Creation(aws, plan, progress, waiter, catalogue or Catalogue.load()).run(wait=wait)


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
        self._bucket_undo = UndoLog(aws)
        self._agent_is_new = self._may_exist = self._config_touched = False
        self._current = plan.candidates[0]

    def run(self, *, wait: bool) -> CreatedNotebook:
        try:
            self._create_bucket()
            self._agent_is_new = True  # also if the upload is interrupted
            self._agent_is_new = upload_agent(self._aws, self._plan, self._progress)
            return self._create_instance(wait=wait)
        except NotebookTimeout as error:
            raise error.replaced(*self._what_stays(error)) from None
        except BaseException:
            self._roll_back()
            raise

    def _create_bucket(self) -> None:
        for call in self._plan.bucket.calls:
            self._progress.step(call.what)
            self._bucket_undo.add(call.undo)
            try:
                execute(self._aws, call)
            except AwsRefused as refused:
                if refused.code != "BucketAlreadyOwnedByYou":
                    raise
                self._bucket_undo.discard(call.undo)

    def _create_instance(self, *, wait: bool) -> CreatedNotebook:
        tried: list[UnavailableType] = []
        for candidate in self._plan.candidates:
            self._current = candidate
            if tried:
                self._progress.report("note", f"{tried[-1].summary}; trying {candidate.name}")
            self._config_touched = True
            create_config(self._aws, self._plan, self._progress)
            self._progress.step(f"create the notebook instance {self._plan.job.name} on {candidate.name}")
            self._may_exist = True
            try:
                self._create_once(candidate)
            except AwsRefused as refused:
                if not refused.maybe_done:
                    self._may_exist = False
                if not (refused.is_capacity or refused.is_quota):
                    raise
                tried.append(self._unavailable(candidate, refused))
                continue
            status = "Pending"
            if wait:
                description = self._wait()
                status = description["NotebookInstanceStatus"]
                reason = description.get("FailureReason") or ""
                if status == "Failed" and lacks_capacity(reason):
                    tried.append(UnavailableType(candidate.name, _CAPACITY, reason))
                    self._delete_failed()
                    continue
                if status != "InService":
                    raise failure(self._aws, self._plan.job.name, reason or f"it is {status}")
            return CreatedNotebook(self._plan.job.name, candidate, status, tuple(tried))
        raise self._no_capacity(tried)

    def _create_once(self, candidate: Candidate) -> None:
        """Create the instance, and never a second one after a lost connection: its name is unique."""
        call = self._plan.create_call(candidate)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                execute(self._aws, call)
            except (AwsRefused, AwsUnreachable) as error:
                duplicate = isinstance(error, AwsRefused) and "duplicate" in error.aws_message
                if not duplicate and not error.maybe_done:
                    raise
                self._progress.step(
                    "check whether the notebook instance was created before the connection was lost"
                )
                if self._is_ours():
                    return
                if duplicate:
                    self._may_exist = False
                if duplicate or attempt == _ATTEMPTS:
                    raise
            else:
                return

    def _wait(self) -> dict[str, Any]:
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
            self._may_exist = False  # it is somebody else's now
            raise NotebookGone(
                f"The notebook instance {name} {state}: somebody else stopped or deleted it while it was created.",
                remedy=f"gpuproof notebook list{self._aws.region_flag}",
            )
        return description

    def _delete_failed(self) -> None:
        name = self._plan.job.name
        self._progress.step(f"delete the notebook instance {name}, which has failed")
        delete_instance(self._aws, name, self._waiter)
        self._may_exist = False

    def _is_ours(self) -> bool:
        description = self._aws.describe_notebook(self._plan.job.name)
        if description is None:
            return False
        tags = self._aws.tags(description["NotebookInstanceArn"])
        return tags.get(CREATION_TAG) == self._plan.creation_id

    def _unavailable(self, candidate: Candidate, refused: AwsRefused) -> UnavailableType:
        quota = (
            self._catalogue.quota(candidate.name, self._plan.region, "notebook") if refused.is_quota else None
        )
        hint = quota_hint(quota, candidate.name) if quota is not None else ""
        return UnavailableType(candidate.name, refused.code, refused.aws_message, hint)

    def _no_capacity(self, tried: list[UnavailableType]) -> NoCapacity:
        summaries = "\n".join(one.summary for one in tried)
        names = [one.name for one in tried]
        others = list_alternatives(
            names[0], "notebook", self._catalogue, self._plan.region, flag="--fallback", without=names
        )
        hints = [*dict.fromkeys(one.quota_hint for one in tried if one.quota_hint)]
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

    def _roll_back(self) -> None:
        """Delete what was created, and say what could not be deleted."""
        self._progress.step("delete what was created")
        problems = self._delete_instance()
        if not problems:
            problems = self._delete_rest()
        for problem in problems:
            self._progress.report("note", f"not deleted: {problem}")

    def _delete_instance(self) -> list[str]:
        name = self._plan.job.name
        if not self._may_exist:
            return []
        flag = self._aws.region_flag
        stays = f"the notebook instance {name}, {price_line(self._current)}"
        try:
            if not self._is_ours():
                return []
            self._progress.report(
                "note",
                f"deleting the notebook instance {name}; SageMaker deletes it only when it is no longer Pending, which takes "
                "some minutes. Ctrl-C leaves it as it is.",
            )
            delete_instance(self._aws, name, self._waiter)
        except KeyboardInterrupt:
            return [f"{stays}. Delete it: gpuproof notebook delete {name}{flag}"]
        except GPUproofError as error:
            return [f"{stays}: {error.message} Delete it: gpuproof notebook delete {name}{flag}"]
        return []

    def _delete_rest(self) -> list[str]:
        """Delete what no other notebook instance uses: configuration, agent, bucket. Another Ctrl-C does not end it half way."""
        plan, problems = self._plan, list[str]()
        while True:
            try:
                if self._config_touched:
                    agent = plan.script.agent_key if self._agent_is_new else ""
                    problems = delete_unused(self._aws, plan.script.config_name, plan.bucket.name, agent)
                    problems += delete_results(self._aws, plan.bucket.name, plan.job.name)
                elif self._agent_is_new:
                    problems = delete_unused_agents(self._aws, plan.bucket.name, plan.script.agent_key)
                return problems + self._bucket_undo.roll_back()
            except KeyboardInterrupt:
                continue
            except GPUproofError as error:
                return [*problems, error.message, *self._bucket_undo.roll_back()]
