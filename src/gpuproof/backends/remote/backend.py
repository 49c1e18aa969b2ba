"""What all backends on AWS have in common: the client, how they are opened, and when they are looked at.

Everything else, and boto3 with it, is imported on first use: printing help texts and listing local runs need none of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

from gpuproof.backends.base import Flag, Plan, PlanOptions
from gpuproof.settings import aws_is_set_up, boto3_session, cache_dir

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.progress import SubmitProgress
    from gpuproof.catalogue.model import ServiceName

P = TypeVar("P", bound=Plan)


class RemoteBackend:
    """A service of AWS in one account and region.

    Args:
        sleep: waits for a number of seconds.
    """

    is_remote: ClassVar[bool] = True
    has_regions: ClassVar[bool] = True
    has_sessions: ClassVar[bool] = False
    service: ClassVar[ServiceName]
    flags: ClassVar[tuple[Flag, ...]] = ()

    def __init__(
        self, aws: Aws, *, cache: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.aws = aws
        self._cache = cache
        self._sleep = sleep

    @classmethod
    def is_configured(cls) -> bool:
        """Whether there are signs of AWS credentials, so that runs are looked for without `--on`."""
        return aws_is_set_up()

    @classmethod
    def open(
        cls,
        *,
        region: str | None = None,
        profile: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Self:
        """The backend in a region; no request is made yet."""
        from gpuproof.backends.aws import Aws

        return cls(Aws(session=partial(boto3_session, profile), region=region, notify=notify))

    @property
    def cache(self) -> Path:
        """The folder for what can be computed again."""
        return self._cache or cache_dir()

    def planning_client(self, options: PlanOptions) -> Aws:
        """The client for planning, which does without an account in a dry run."""
        if not options.dry_run:
            return self.aws
        from gpuproof.backends.aws.unknown_account import UnknownAccount

        return UnknownAccount.unless_known(self.aws)

    def prepare(self, plan: P, progress: SubmitProgress) -> P:  # noqa: ARG002 - for backends that need it
        """Nothing to do: `submit` uploads everything."""
        return plan
