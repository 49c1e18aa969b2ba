"""What the commands of `gpuproof notebook` share: flags, the client, and what happens at Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.notebooks.changes import Notebook
    from gpuproof.backends.sagemaker.notebooks.wait import NotebookWaiter
    from gpuproof.cli.console import Console
    from gpuproof.cli.progress import ConsoleProgress
    from gpuproof.units import Duration


def add_name(parser: argparse.ArgumentParser) -> None:
    """Add NAME and --region."""
    parser.add_argument("name", metavar="NAME", help="the notebook instance")
    add_region(parser)


def add_region(parser: argparse.ArgumentParser) -> None:
    """Add --region."""
    parser.add_argument("--region", metavar="REGION", help="AWS region (default: AWS_REGION)")


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add --timeout."""
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration,
        default=None,
        help="how long to wait, such as 30m (default: 20m)",
    )


def duration(text: str) -> Duration:
    """`30m`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)


class Session:
    """The client, the console and a waiter for one command.

    Args:
        arguments: with `region` and, if the command has it, `timeout`.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        from gpuproof.backends.aws import Aws
        from gpuproof.cli.console import Console
        from gpuproof.cli.progress import ConsoleProgress
        from gpuproof.settings import boto3_session

        self.console: Console = Console()
        self.progress: ConsoleProgress = ConsoleProgress(self.console)
        self.aws: Aws = Aws(
            session=partial(boto3_session, None),
            region=arguments.region,
            notify=lambda text: self.progress.report("note", text),
        )
        if getattr(arguments, "dry_run", False):
            from gpuproof.backends.aws.unknown_account import UnknownAccount

            self.aws = UnknownAccount.unless_known(self.aws)
        self._timeout: Duration | None = getattr(arguments, "timeout", None)

    @property
    def waiter(self) -> NotebookWaiter:
        """Waits for notebook instances as long as --timeout says."""
        from gpuproof.backends.sagemaker.notebooks.wait import TIMEOUT_S, NotebookWaiter

        seconds = TIMEOUT_S if self._timeout is None else float(self._timeout.seconds)
        return NotebookWaiter(self.aws, self.progress, seconds)

    def notebook(self, name: str) -> Notebook:
        """A notebook instance."""
        from gpuproof.backends.sagemaker.notebooks.changes import Notebook

        return Notebook(self.aws, name, self.waiter, self.progress)

    @contextlib.contextmanager
    def interruptible(self, name: str, stays: str = "") -> Generator[None]:
        """Context in which SIGTERM is treated like Ctrl-C, and an interrupt says in which state the notebook instance stays.

        Args:
            stays: what to type then, such as `gpuproof notebook stop`; empty if the command itself says what stays.
        """
        from gpuproof.backends.interrupts import sigterm_interrupts

        with sigterm_interrupts():
            try:
                yield
            except KeyboardInterrupt:
                self.console.end_progress()
                if stays:
                    print(
                        f"gpuproof: interrupted. SageMaker continues with what was requested for {name}.\n"
                        f"          gpuproof notebook list{self.aws.region_flag}; {stays} {name}{self.aws.region_flag}",
                        file=sys.stderr,
                    )
                raise
            finally:
                self.console.end_progress()


def confirm(question: str, flag: str) -> bool:
    """Ask on the terminal.

    Raises:
        UsageError: there is no terminal to ask on; `flag` answers in advance.
    """
    if not sys.stdin.isatty():
        raise UsageError(f"{question} There is no terminal to ask on.", remedy=f"Add {flag}.")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
