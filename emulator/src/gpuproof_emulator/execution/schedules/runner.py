"""The thread that runs the schedules that are due. Moto stores the schedules themselves."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpuproof.util.atomic import write_bytes
from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.schedules.expression import parse_expression
from gpuproof_emulator.execution.schedules.target import Target, parse_target
from gpuproof_emulator.protocol import ACCOUNT, AwsError

_POLL_S = 60.0  # at most, between two looks at the schedules
_RETRY_S = 60.0
_MAX_AGE_S = 86_400  # MaximumEventAgeInSeconds, unless the target specifies it
_RETRIED = ("ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded")


class _Due(NamedTuple):
    """A schedule and when it is due."""

    schedule: Any
    region: str
    time: float


class ScheduleRunner:
    """Runs schedules.

    Args:
        context: the emulator's shared state.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._file = context.options.state / "schedule-runs.json"
        self._runs = self._read_runs()
        self._attempts: dict[str, tuple[int, float, float]] = {}
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._stopped = False

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._loop, name="scheduler", daemon=True).start()

    def notify(self) -> None:
        """Look at the schedules again, because one was created or changed."""
        self._changed.set()

    def shutdown(self) -> None:
        """End the thread; a call in progress completes."""
        self._stopped = True
        self._changed.set()
        with self._lock:
            pass

    def reset(self) -> None:
        """Forget what ran."""
        with self._lock:
            self._runs.clear()
            self._attempts.clear()
            self._file.unlink(missing_ok=True)

    def run_due(self, moment: float) -> list[dict[str, str]]:
        """Run every schedule that is due at a time, once.

        Args:
            moment: seconds since the epoch.

        Returns:
            For each: its name, group, operation, and the error (empty if the call succeeded).
        """
        with self._lock:
            if self._stopped:
                return []
            due = sorted(
                (each for each in self._next_runs() if each.time <= moment), key=lambda each: each.time
            )
            # One whose EndDate has passed is complete, although it was due before.
            reports = [self._run(each, moment) for each in due if moment <= _end_of(each.schedule)]
            self._delete_complete(moment)
            return reports

    def _loop(self) -> None:
        while not self._stopped:
            moment = time.time()
            self.run_due(moment)
            following = min((each.time for each in self._next_runs()), default=moment + _POLL_S)
            self._changed.wait(max(0.0, min(following - time.time(), _POLL_S)))
            self._changed.clear()

    def _next_runs(self) -> Iterator[_Due]:
        for schedule, region in _stored_schedules():
            if schedule.state != "ENABLED":
                continue
            try:
                expression = parse_expression(
                    schedule.schedule_expression, schedule.schedule_expression_timezone
                )
            except AwsError:
                continue  # stored by an earlier version
            last = self._runs.get(_key(schedule))
            following = expression.next_run(
                schedule.creation_date, last, schedule.start_date, schedule.end_date
            )
            if following is not None:
                _, retry, _ = self._attempts.get(_key(schedule), (0, following, 0.0))
                yield _Due(schedule, region, max(following, retry))

    def _run(self, due: _Due, moment: float) -> dict[str, str]:
        schedule = due.schedule
        target = parse_target(schedule.target)
        report = {"name": schedule.name, "group": schedule.group_name, "operation": target.operation}
        error, again = self._call(target, due.region)
        if again and self._may_retry(due, moment):
            return {**report, "error": error}
        self._attempts.pop(_key(schedule), None)
        self._runs[_key(schedule)] = moment
        write_bytes(self._file, json.dumps(self._runs).encode())
        if error:
            print(
                f"gpuproof: the schedule {schedule.name} could not call {target.operation}: {error}",
                file=sys.stderr,
                flush=True,
            )
        if schedule.schedule_expression.startswith("at("):
            self._complete(schedule, due.region)
        return {**report, "error": error}

    def _delete_complete(self, moment: float) -> None:
        for schedule, region in list(_stored_schedules()):
            if moment > _end_of(schedule):
                self._complete(schedule, region)

    def _complete(self, schedule: Any, region: str) -> None:
        if schedule.action_after_completion != "DELETE":
            return
        scheduler = self._context.clients.get("scheduler", region)
        with contextlib.suppress(scheduler.exceptions.ResourceNotFoundException):
            scheduler.delete_schedule(Name=schedule.name, GroupName=schedule.group_name)

    def _call(self, target: Target, region: str) -> tuple[str, bool]:
        """Call a target; returns the error, and whether to call it again. Errors of the request are not retried."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            target.call(self._context, region)
        except AwsError as error:
            return str(error), False
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return str(error), status >= 500 or error.response["Error"]["Code"] in _RETRIED
        except BotoCoreError as error:
            return str(error), True
        return "", False

    def _may_retry(self, due: _Due, moment: float) -> bool:
        policy = due.schedule.target.get("RetryPolicy") or {}
        attempts, _, first = self._attempts.get(_key(due.schedule), (0, 0.0, moment))
        if attempts >= policy.get("MaximumRetryAttempts", 185):
            return False
        if moment + _RETRY_S - first > policy.get("MaximumEventAgeInSeconds", _MAX_AGE_S):
            return False
        self._attempts[_key(due.schedule)] = (attempts + 1, moment + _RETRY_S, first)
        return True

    def _read_runs(self) -> dict[str, float]:
        try:
            return json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}


def _stored_schedules() -> Iterator[tuple[Any, str]]:
    from moto.scheduler.models import scheduler_backends  # loads slowly

    backends: dict[str, Any] = dict(scheduler_backends[ACCOUNT])
    for region, backend in backends.items():
        for group in list(backend.schedule_groups.values()):
            for schedule in list(group.schedules.values()):
                yield schedule, region


def _end_of(schedule: Any) -> float:
    """When a recurring schedule ends, in seconds since the epoch; infinite for others."""
    if schedule.end_date is None or schedule.schedule_expression.startswith("at("):
        return math.inf
    return float(schedule.end_date)


def _key(schedule: Any) -> str:
    """A schedule with its times: one that is moved runs again."""
    return f"{schedule.arn} {schedule.schedule_expression} {schedule.start_date}"
