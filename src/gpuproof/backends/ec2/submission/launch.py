"""Launches the instances of a run once and never again, and terminates them after an error or an interrupt."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.requests.new_instances import LOOKUP_DELAYS, when_visible
from gpuproof.backends.progress import SubmitProgress
from gpuproof.errors import GPUproofError

_ATTEMPTS = 3
_TERMINATION_SECONDS = 60.0
_POLL_SECONDS = 2.0


class Launcher:
    """The launches of one run.

    Args:
        aws: the client.
        run_id: the run, by whose tag its instances are found.
        progress: told about each step.
        sleep: waits for a number of seconds.
        count: number of instances of each launch.
    """

    def __init__(
        self,
        aws: Aws,
        run_id: str,
        progress: SubmitProgress,
        sleep: Callable[[float], None],
        count: int = 1,
    ) -> None:
        self._aws = aws
        self._run_id = run_id
        self._progress = progress
        self._sleep = sleep
        self._count = count
        self._unanswered: set[str] = set()
        self._instances: set[str] = set()

    @property
    def may_have_launched(self) -> bool:
        """Whether there is an instance, or a request whose outcome is unknown."""
        return bool(self._unanswered or self._instances)

    def launch(self, request: Mapping[str, Any]) -> tuple[str, ...]:
        """Launch all instances, or none; returns their ids in EC2's order, in which they get their hosts' names.

        After a lost response the instances are looked up, and the same request repeated: its client token makes EC2
        return the instances that the first one launched.

        Raises:
            AwsRefused: EC2 refused the request.
            AwsUnreachable: there was no response.
        """
        token = request["ClientToken"]
        for attempt in range(1, _ATTEMPTS + 1):
            self._unanswered.add(token)  # before the request, which may be interrupted
            try:
                launched = self._aws.run_instances(request)
            except (AwsRefused, AwsUnreachable) as error:
                if not error.maybe_done:
                    # A repeated request is answered as the first one, whose response was lost, unless it is throttled.
                    if attempt == 1 or (isinstance(error, AwsRefused) and not error.is_throttle):
                        self._unanswered.discard(token)
                    raise
                self._progress.step("check whether the instance was launched before the connection was lost")
                found = self._lookup(token)
                if found:
                    return self._answered(token, found)
                if attempt == _ATTEMPTS:
                    raise
            else:
                return self._answered(token, launched)
        raise AssertionError("unreachable")

    def terminate(self) -> list[str]:
        """Terminate the instances and wait until they have ended; returns messages about what could not be done."""
        if not self.may_have_launched:
            return []
        self._progress.step("terminate the instance" if self._count == 1 else "terminate the instances")
        ids: list[str] = []
        why = "interrupted repeatedly."
        for _ in range(_ATTEMPTS):
            try:
                ids = self._find()
                if ids:
                    when_visible(partial(self._aws.terminate_instances, ids), self._sleep)
                    self._wait_for_end(ids)
            except KeyboardInterrupt:
                continue  # another Ctrl-C must not leave the instance running
            except GPUproofError as error:
                why = error.message
                break
            self._unanswered.clear()
            self._instances.clear()
            return []
        names = " ".join(ids or sorted(self._instances)) or "INSTANCE"
        command = f"aws ec2 terminate-instances --instance-ids {names} --region {self._aws.region}"
        if self._count == 1:
            return [f"the instance of {self._run_id}: {why} Terminate it: {command}"]
        return [f"the instances of {self._run_id}: {why} Terminate them: {command}"]

    def _answered(self, token: str, launched: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
        ordered = sorted(launched, key=lambda one: one.get("AmiLaunchIndex", 0))
        ids = tuple(one["InstanceId"] for one in ordered)
        self._instances.update(ids)
        self._unanswered.discard(token)
        return ids

    def _lookup(self, token: str) -> list[dict[str, Any]]:
        """The instances that a request launched; none if not all of them are visible yet."""
        found = [
            one
            for one in self._aws.tagged_instances(values=[self._run_id])
            if one.get("ClientToken") == token
        ]
        return found if len(found) == self._count else []

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
                self._sleep(seconds)
            found |= {
                one["InstanceId"] for one in self._aws.tagged_instances(values=[self._run_id], living=True)
            }
            if len(found) >= self._count or not self._unanswered:
                return sorted(found | self._instances)
        return sorted(found | self._instances)

    def _wait_for_end(self, ids: list[str]) -> None:
        """Wait for a while: an instance that ends may still write to the bucket."""
        waited = 0.0
        with contextlib.suppress(GPUproofError):  # the instances have been terminated anyway
            while waited < _TERMINATION_SECONDS:
                if all(one["State"]["Name"] == "terminated" for one in self._aws.instances(ids)):
                    return
                self._sleep(_POLL_SECONDS)
                waited += _POLL_SECONDS
