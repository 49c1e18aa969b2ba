"""Deletes endpoints with everything that belongs to them: `gpuproof delete`, and `gpuproof.delete` in Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuproof.app.python_reporter import PythonReporter
from gpuproof.app.session import aws_client, print_note
from gpuproof.backends.display import Displayed
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.delete import Deletion, delete_endpoint, plan_deletion
from gpuproof.errors import GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress


@dataclass(frozen=True, repr=False)
class DeletedEndpoint(Displayed):
    """An endpoint that was deleted, with what belonged to it.

    Args:
        name: the endpoint.
        deleted: what was deleted: `endpoint digits`, `model digits-20261123-120000-ab12`, …
        problems: what could not be deleted, and why.
        is_dry_run: whether nothing was deleted.
    """

    name: str
    deleted: tuple[str, ...]
    problems: tuple[str, ...] = ()
    is_dry_run: bool = False

    @property
    def title(self) -> str:
        """The endpoint, and what happened to it."""
        return f"endpoint {self.name} {'would be ' if self.is_dry_run else ''}deleted"

    def describe(self) -> list[tuple[str, str]]:
        """What was deleted, for the user: labels and texts."""
        label = "would delete" if self.is_dry_run else "deleted"
        return [(label, what) for what in self.deleted] + [("problem", problem) for problem in self.problems]

    def to_json(self) -> dict[str, Any]:
        """A member of the JSON form of `gpuproof delete --format json`."""
        return {"endpoint": self.name, "deleted": list(self.deleted), "problems": list(self.problems)}


def delete(
    name: str,
    *,
    yes: bool = False,
    dry_run: bool = False,
    region: str | None = None,
    profile: str | None = None,
) -> DeletedEndpoint:
    """Delete an endpoint with everything that GPUproof created for it, as `gpuproof delete` does.

    Args:
        name: the endpoint.
        yes: delete it although GPUproof did not create it.
        dry_run: delete nothing, and return what would be deleted.
        region: the AWS region; that of the AWS configuration if not given.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.

    Raises:
        GPUproofError: there is no such endpoint, GPUproof did not create it, or not everything was deleted.
    """

    def confirm(deletion: Deletion) -> None:
        if not deletion.is_own and not yes:
            raise not_own(deletion, f"gpuproof.delete({name!r}, yes=True)")

    aws = aws_client(region, profile, dry_run=dry_run)
    with sigterm_interrupts():
        try:
            deleted = delete_named(name, aws, PythonReporter(), confirm, dry_run=dry_run)
        except KeyboardInterrupt:
            print_interrupted([name], aws)
            raise
    if deleted.problems:
        raise incomplete(deleted, aws)
    return deleted


def delete_named(
    name: str,
    aws: Aws,
    reporter: SubmitProgress,
    confirm: Callable[[Deletion], None],
    *,
    dry_run: bool,
) -> DeletedEndpoint:
    """Delete an endpoint, or see what would be deleted.

    Args:
        confirm: called before anything is deleted; raises GPUproofError if it shall not be.

    Raises:
        GPUproofError: there is no such endpoint.
    """
    deletion = plan_deletion(aws, name)
    if dry_run:
        return DeletedEndpoint(name, deletion.lines, is_dry_run=True)
    confirm(deletion)
    return DeletedEndpoint(name, deletion.lines, tuple(delete_endpoint(aws, deletion, reporter)))


def not_own(deletion: Deletion, remedy: str) -> UsageError:
    """The error of an endpoint that GPUproof did not create."""
    return UsageError(
        f"The endpoint {deletion.endpoint} was not deleted: GPUproof did not create it.", remedy=remedy
    )


def incomplete(deleted: DeletedEndpoint, aws: Aws) -> GPUproofError:
    """The error of an endpoint of which something is left."""
    return GPUproofError(
        f"Not everything of {deleted.name} was deleted:\n" + "\n".join(deleted.problems),
        remedy=f"gpuproof delete {deleted.name}{aws.region_flag}",
    )


def print_interrupted(names: list[str], aws: Aws) -> None:
    """Prints which command deletes the rest: of the first endpoint, and the others."""
    print_note(
        f"interrupted: {names[0]} may not be deleted completely.\n"
        f"          gpuproof delete {' '.join(names)}{aws.region_flag} deletes what is left"
    )
