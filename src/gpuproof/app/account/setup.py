"""Prepares an account for its first run, and removes that again: `gpuproof setup`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from gpuproof.account.setup.execute import create_setup, missing_permission
from gpuproof.account.setup.permissions import actions_for
from gpuproof.account.setup.plan import SetupPlan, plan_setup
from gpuproof.account.setup.quotas import read_quotas
from gpuproof.account.setup.remove import Removal, Removed, plan_removal, remove
from gpuproof.account.setup.state import read_state
from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.remote.planning.region import check_region
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress

T = TypeVar("T")


@dataclass(frozen=True)
class SetupResult:
    """What became of a setup.

    Args:
        plan: what was there, and what was missing.
        created: whether the missing parts were created.
    """

    plan: SetupPlan
    created: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON form of `gpuproof setup --format json`."""
        return {**self.plan.to_json(), "created": self.created}


def plan_account(aws: Aws, types: Sequence[str] = ()) -> SetupPlan:
    """What an account lacks for runs in a region; changes nothing.

    Args:
        types: the instance types whose quotas are read; common ones if empty.

    Raises:
        NoCredentials: there are no usable credentials.
        AwsRefused: a part may not be read.
    """
    catalogue = Catalogue.load()
    check_region(aws, catalogue)
    return plan_setup(_permitted(lambda: read_state(aws)), list(read_quotas(aws, catalogue, types)))


def set_up(
    aws: Aws, plan: SetupPlan, progress: SubmitProgress, confirm: Callable[[SetupPlan], bool]
) -> SetupResult:
    """Create what a plan says is missing.

    Args:
        confirm: whether to create it; asked only if something is missing.

    Raises:
        AwsRefused: AWS refused a call; nothing of this setup is left.
    """
    if not plan.calls or not confirm(plan):
        return SetupResult(plan, False)
    with sigterm_interrupts():
        create_setup(aws, plan, progress)
    return SetupResult(plan, True)


def plan_account_removal(aws: Aws) -> list[Removal]:
    """What setup has created in the account and region; changes nothing."""
    check_region(aws, Catalogue.load())
    return _permitted(lambda: list(plan_removal(aws, read_state(aws))))


def remove_setup(removals: list[Removal], progress: SubmitProgress, *, include_data: bool) -> Removed:
    """Delete what setup has created.

    Args:
        include_data: also delete a bucket that has objects.
    """
    with sigterm_interrupts():
        removed = remove(removals, progress, include_data=include_data)
    return replace(removed, errors=tuple(map(_with_permission, removed.errors)))


def _with_permission(error: GPUproofError) -> GPUproofError:
    """An error that names the action, if a permission is missing."""
    if isinstance(error, AwsRefused) and error.is_permission:
        return missing_permission(error, actions_for(error.operation))
    return error


def _permitted(read: Callable[[], T]) -> T:
    """A result of reading; the error of a missing permission names the action."""
    try:
        return read()
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        raise missing_permission(refused, actions_for(refused.operation)) from refused
