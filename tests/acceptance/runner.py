"""Runs the steps one after the other, remembers what is done, and deletes everything at the first failure and at the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acceptance import recording
from acceptance.step import Result, Step
from acceptance.steps import PREFIX, STEPS, total_usd
from acceptance.target import Target
from gpuproof.version import __version__

_DELETION_S = 1200.0
_LAST_LINES = 15
_ENDED = ("Completed", "Failed", "Stopped")


class StepFailed(Exception):
    """A step did not show what it must; the message says what."""


class Runner:
    """One acceptance run.

    Args:
        target: where it runs.
        folder: has its state, the answers of all commands, and in the end `acceptance.json`.
        region: AWS region.
        only_printed_policies: whether the credentials are those of a user with nothing but the printed policies.
        report: called with each line for the user.
        steps: all of them, but in tests.
    """

    def __init__(
        self,
        target: Target,
        folder: Path,
        region: str,
        *,
        only_printed_policies: bool = False,
        report: Callable[[str], None] = print,
        steps: Sequence[Step] = STEPS,
    ) -> None:
        self._target = target
        self._folder = folder
        self._region = region
        self._report = report
        self._steps = steps
        self._only_printed_policies = only_printed_policies
        self._answers = folder / "answers"
        self._answers.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_project(folder / "project")
        path = folder / "state.json"
        self._state: dict[str, Any] = {"done": {}, "facts": {}, "baseline": None, "removed": []}
        if path.exists():
            self._state = json.loads(path.read_text())

    def forget_from(self, name: str) -> None:
        """Repeat a step and all that follow, from the first step of its group on."""
        names = [step.name for step in self._steps]
        if name not in names:
            raise StepFailed(f"There is no step {name}. The steps are: {' '.join(names)}.")
        group = self._steps[names.index(name)].group
        first = next(
            i for i, step in enumerate(self._steps) if step.name == name or (group and step.group == group)
        )
        for step in self._steps[first:]:
            self._forget(step)
        self._save()

    def run(self) -> None:
        """Run all steps that are not done, then show that nothing is left.

        Raises:
            StepFailed: a step failed, or something is left; everything else is deleted.
            KeyboardInterrupt: after everything is deleted.
        """
        try:
            for number, step in enumerate(self._steps, 1):
                self._run_step(step, f"{number} of {len(self._steps)}")
        except BaseException as error:
            with self._uninterrupted():
                self._save_logs()
                try:
                    self._delete_everything()
                finally:
                    self._forget_unfinished()
                    self._record(failure=str(error) or type(error).__name__)
            raise
        with self._uninterrupted():
            self._delete_everything()
        self._record(failure=None)

    def _run_step(self, step: Step, number: str) -> None:
        if step.name in self._state["done"]:
            return
        if step.account_only and self._target.is_emulator:
            self._report(f"{number:9} {step.name}: not on the emulator: {step.account_only}")
            return
        self._report(f"{number:9} {step.name}: {step.proves} (about {step.minutes:g} min)")
        if step.faults:
            self._target.inject(step.faults)
        if step.due_in:
            self._target.run_schedules(step.due_in)
        result = self._until_it_holds(step)
        self._state["done"][step.name] = {"seconds": round(result.seconds, 1), "code": result.code}
        for fact in step.confirms:
            self._state["facts"][fact] = True
        for fact, read in step.reads.items():
            self._state["facts"][fact] = _reading(read, result)
        if step.name == "setup-complete":
            self._state["baseline"] = [resource["key"] for resource in self._new_resources()]
        self._save()
        if self._is_finished(step) and any(other.faults for other in self._group(step)):
            self._target.inject(())

    def _until_it_holds(self, step: Step) -> Result:
        start = time.monotonic()
        end = start + 60 * step.within
        while True:
            result = self._result(step, start)
            if not (wrong := _wrong(step, result)):
                return result
            if time.monotonic() >= end:
                raise StepFailed(f"{step.name}: {'; '.join(wrong)}\n{_tail(result.errors)}")
            time.sleep(self._target.poll_s)

    def _result(self, step: Step, start: float) -> Result:
        words = [word.format_map(self._values(step)) for word in step.words.split()]
        code, document, errors = self._command(step.name, words)
        machine = self._pulled(step) / "model" / "machine.json"
        return Result(
            code=code,
            document=document,
            errors=errors,
            machine=json.loads(machine.read_text()) if machine.exists() else {},
            seconds=time.monotonic() - start,
            earlier={
                other.name: self._answer(other.name) for other in self._steps if other.name != step.name
            },
        )

    def _values(self, step: Step) -> Mapping[str, str]:
        """Values of the placeholders: ids of runs by the steps that started them, limits, names of the account."""
        ids = {name: run for name in self._state["done"] if (run := _run_id(self._answer(name)))}
        account = self._answer("account")
        registry = f"{account.get('account')}.dkr.ecr.{self._region}.amazonaws.com"
        return {
            **self._target.limits,
            **ids,
            "pulled": str(self._pulled(step)),
            "results": f"s3://{self._bucket}/gpuproof/{PREFIX}results",
            "missing_image": f"{registry}/gpuproof-{PREFIX}missing:1",
        }

    @property
    def _bucket(self) -> str:
        parts = self._answer("account").get("parts", ())
        return next((part["name"] for part in parts if part["kind"] == "bucket"), "")

    def _pulled(self, step: Step) -> Path:
        return self._folder / "pulled" / step.name

    def _command(self, name: str, words: Sequence[str]) -> tuple[int, Any, str]:
        """Exit code, JSON and messages of a command of GPUproof, which has the answers in files, too."""
        out, err = self._answers / f"{name}.json", self._answers / f"{name}.txt"
        with out.open("wb") as output, err.open("wb") as errors:
            # A session of its own: Ctrl-C reaches it once, from here.
            process = subprocess.Popen(
                [sys.executable, "-m", "gpuproof", *words],
                cwd=self._folder / "project",
                env={**os.environ, "NO_COLOR": "1", "AWS_REGION": self._region},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                code = process.wait()
            except BaseException:
                self._report("           stopping; this takes a few minutes")
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        return code, self._answer(name), err.read_text(errors="replace")

    def _answer(self, name: str) -> Any:
        path = self._answers / f"{name}.json"
        text = path.read_text() if path.exists() else ""
        return json.loads(text) if text.startswith("{") else {}

    def _save_logs(self) -> None:
        """Keep the output of the step that failed, whose run is removed."""
        failed = next((step for step in self._steps if step.name not in self._state["done"]), None)
        if failed is not None and (run := _run_id(self._answer(failed.name))):
            self._command(f"{failed.name}-logs", ["logs", run, "--format", "json"])

    def _new_resources(self) -> list[Mapping[str, Any]]:
        """What `gpuproof cleanup` lists now and has not listed before the first step that creates something."""
        code, document, errors = self._command("listing", ["cleanup", "--gpuproof", "--format", "json"])
        if code != 0:
            raise StepFailed(f"gpuproof cleanup failed: {_tail(errors)}")
        return [
            resource
            for resource in document["resources"]
            if resource["key"] not in (self._state["baseline"] or ())
        ]

    @contextlib.contextmanager
    def _uninterrupted(self) -> Iterator[None]:
        """Deletion is not interrupted: a signal says how long it takes."""
        before = {
            number: signal.signal(number, lambda *_: self._report("           deleting; please wait"))
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _delete_everything(self) -> None:
        """Delete what the steps have created, until nothing of it is listed, and the files and schedules of the runs.

        Raises:
            StepFailed: something is left after 20 minutes.
        """
        if self._state["baseline"] is None:
            self._report("left       nothing: no step has created anything")
            return
        end = time.monotonic() + _DELETION_S
        while left := self._delete():
            if time.monotonic() >= end:
                raise StepFailed(f"Delete these with gpuproof cleanup and gpuproof stop: {' '.join(left)}")
            time.sleep(self._target.poll_s)
        self._report("left       nothing: no resource, no run in progress, no files of runs")

    def _delete(self) -> list[str]:
        """Delete what the steps have created and is listed; returns what is left or was only now requested to end."""
        try:
            new = self._new_resources()
        except StepFailed as failed:
            return [str(failed)]
        if own := [
            resource["key"]
            for resource in new
            if PREFIX in json.dumps([resource["id"], resource["run"], resource["tags"]])
        ]:
            self._report(f"deleting   {' '.join(own)}")
            for key in own:
                self._command("deletion", _deletion(key))
            return own
        _, document, _ = self._command("runs", ["ps", "--all", "--format", "json"])
        runs = [run for run in document.get("runs", ()) if run["job_name"].startswith(PREFIX)]
        if running := [run["id"] for run in runs if run["status"] not in _ENDED]:
            self._command("deletion", ["stop", "--now", *running])
            return running
        # `rm` also deletes the schedules that would end their instances.
        removable = [run["id"] for run in runs if run["id"] not in self._state["removed"]]
        code, _, _ = self._command("deletion", ["rm", *removable]) if removable else (0, {}, "")
        if code != 0:
            return removable
        self._state["removed"] += removable
        if new:
            self._report(
                f"kept       not of these steps, but new: {' '.join(resource['key'] for resource in new)}"
            )
        return []

    def _group(self, step: Step) -> list[Step]:
        return [other for other in self._steps if other is step or (step.group and other.group == step.group)]

    def _is_finished(self, step: Step) -> bool:
        """Whether all steps of its group are done, as far as the target can do them."""
        return all(
            other.name in self._state["done"] or (other.account_only and self._target.is_emulator)
            for other in self._group(step)
        )

    def _forget(self, step: Step) -> None:
        self._state["done"].pop(step.name, None)
        for fact in step.facts:
            self._state["facts"].pop(fact, None)

    def _forget_unfinished(self) -> None:
        """What shares a deleted resource is done again."""
        for step in self._steps:
            if not self._is_finished(step):
                self._forget(step)
        self._save()

    def _save(self) -> None:
        (self._folder / "state.json").write_text(json.dumps(self._state, indent=2))

    def _record(self, failure: str | None) -> None:
        document = {
            "backend": self._target.backend,
            "gpuproof": __version__,
            "region": self._region,
            "date": datetime.now(UTC).date().isoformat(),
            "only_printed_policies": self._only_printed_policies,
            "failure": failure,
            "steps": self._state["done"],
            "facts": {
                **self._state["facts"],
                **({"user-policies": True} if self._only_printed_policies and failure is None else {}),
            },
            "usd_at_most": round(total_usd(self._region), 2),
            "usd": round(
                sum(
                    group["usd"] for group in self._answer("cost").get("groups", ()) if PREFIX in group["key"]
                ),
                2,
            ),
        }
        recording.write(
            self._folder / "acceptance.json",
            document,
            (self._bucket, self._answer("account").get("account", "")),
        )


def _reading(read: Callable[[Result], Any], result: Result) -> Any:
    """A value of a result; None if it has none."""
    try:
        return read(result)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _wrong(step: Step, result: Result) -> list[str]:
    """What a result lacks."""
    if result.code != step.code:
        return [f"exit code {result.code}, not {step.code}"]
    wrong = []
    for claim in step.claims:
        try:
            holds = claim.holds(result)
        except (KeyError, IndexError, TypeError, StopIteration):
            holds = False
        if not holds:
            wrong.append(f"not true: {claim.text}")
    return wrong


def _run_id(document: Mapping[str, Any]) -> str | None:
    run = document.get("run")
    return run["id"] if isinstance(run, dict) else document.get("id")


def _deletion(key: str) -> list[str]:
    """The command that deletes what `gpuproof cleanup` lists under a key."""
    _, kind, name = key.split("/", 2)
    if kind == "notebook":
        return ["notebook", "delete", name, "--yes"]
    return ["cleanup", key, "--delete", "--include-data", "--yes", "--format", "json"]


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-_LAST_LINES:])
