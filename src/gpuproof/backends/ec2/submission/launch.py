"""The step that launches the instances of a run once and never again, and the undo that terminates them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gpuproof.backends.aws import Aws
from gpuproof.backends.aws.retry import poll_pauses
from gpuproof.backends.ec2.requests.new_instances import LOOKUP_DELAYS, when_visible
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.transaction import ATTEMPTS, Step, Undo
from gpuproof.errors import GPUproofError

_TERMINATION_SECONDS = 60.0


@dataclass
class Launcher:
    """The launches of one run in one region.

    Args:
        run_id: the run, by whose tag its instances are found.
        progress: told about each step.
        sleep: waits for a number of seconds.
        count: number of instances of each launch.
        suffix: names the region, if there are several.
    """

    aws: Aws
    run_id: str
    progress: SubmitProgress
    sleep: Callable[[float], None]
    count: int = 1
    suffix: str = ""
    _instances: set[str] = field(default_factory=set[str])
    _found: list[str] = field(default_factory=list[str])

    def step(self, request: Mapping[str, Any], *undos: Undo) -> Step[tuple[str, ...]]:
        """The step that launches all instances, or none; its result are their ids in EC2's order, in which they get their hosts' names.

        After a lost response the instances are looked up, and the same request repeated: its client token makes EC2
        return the instances that the first one launched.

        Args:
            undos: delete what belongs to the instances when they have ended, last first.
        """
        noun = "instance" if self.count == 1 else "instances"
        terminate = Undo(
            f"the {noun} of {self.run_id}{self.suffix}",
            self._terminate,
            step=f"terminate the {noun}",
            holds=True,
            interrupts=ATTEMPTS,
            remedy=self._remedy,
        )
        token = request["ClientToken"]
        return Step(
            "",
            lambda: self._answered(self.aws.run_instances(request)),
            (*undos, terminate),
            lookup=lambda: self._lookup(token),
            looking="check whether the instance was launched before the connection was lost",
            attempts=ATTEMPTS,
        )

    def _terminate(self) -> None:
        """Terminate the instances and wait until they have ended."""
        self._found = self._find()
        if self._found:
            when_visible(partial(self.aws.terminate_instances, self._found), self.sleep)
            self._wait_for_end(self._found)

    def _remedy(self) -> str:
        names = " ".join(self._found or sorted(self._instances)) or "INSTANCE"
        command = f"aws ec2 terminate-instances --instance-ids {names} --region {self.aws.region}"
        return f"Terminate {'it' if self.count == 1 else 'them'}: {command}"

    def _answered(self, launched: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        ordered = sorted(launched, key=lambda instance: instance.get("AmiLaunchIndex", 0))
        ids = tuple(instance["InstanceId"] for instance in ordered)
        self._instances.update(ids)
        return ids

    def _lookup(self, token: str) -> tuple[str, ...] | None:
        """The instances that a request launched; None if not all of them are visible yet."""
        launched = [
            instance
            for instance in self.aws.tagged_instances(values=[self.run_id])
            if instance.get("ClientToken") == token
        ]
        return self._answered(launched) if len(launched) == self.count else None

    def _find(self) -> list[str]:
        """All instances of the run that are not terminated; the known ones if EC2 does not list them."""
        try:
            return self._find_living()
        except GPUproofError:
            if not self._instances:
                raise
            return sorted(self._instances)

    def _find_living(self) -> list[str]:
        found: set[str] = set()
        for seconds in LOOKUP_DELAYS:
            if seconds:
                self.sleep(seconds)
            found |= {
                instance["InstanceId"]
                for instance in self.aws.tagged_instances(values=[self.run_id], living=True)
            }
            if len(found) >= self.count or self._instances:
                return sorted(found | self._instances)
        return sorted(found | self._instances)

    def _wait_for_end(self, ids: list[str]) -> None:
        """Wait for a while: an instance that ends may still write to the bucket."""
        with contextlib.suppress(GPUproofError):  # the instances have been terminated anyway
            for pause in poll_pauses(_TERMINATION_SECONDS):
                if all(instance["State"]["Name"] == "terminated" for instance in self.aws.instances(ids)):
                    return
                self.sleep(pause)
