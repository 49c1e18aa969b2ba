"""The states of notebook instances: one thread brings an instance up, stops, updates or deletes it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.notebooks.instance import MachineFailed, NotebookMachine
from gpuproof_emulator.store import LIFECYCLE_CONFIG, NOTEBOOK, Resource, resource_arn

_STATUS = "NotebookInstanceStatus"
_CONFIG = "NotebookInstanceLifecycleConfigName"
_HOOKS = (("OnCreate", "LifecycleConfigOnCreate"), ("OnStart", "LifecycleConfigOnStart"))

NO_CAPACITY = "Insufficient notebook instance capacity. Retry later or with a different instance type."
"""Source: https://github.com/aws/amazon-sagemaker-examples/issues/207"""

# AWS gives this reason for scripts that end with an error, too:
# https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples/issues/86
_SCRIPT_FAILED = (
    "Notebook Instance Lifecycle Config '{config}' for Notebook Instance '{notebook}' took longer than 5 minutes. Please check "
    "your CloudWatch logs for more details if your Notebook Instance has Internet access."
)
_MACHINE_FAILED = "Internal Failure. {problem}"


class NotebookSupervisor:
    """The machines of all notebook instances.

    Args:
        context: the emulator's shared state.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._machines: dict[tuple[str, str], NotebookMachine] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()

    def create(self, notebook: Resource) -> None:
        """Bring a new notebook instance into service."""
        self._in_background(notebook, lambda: self._bring_up(notebook, is_new=True))

    def start(self, notebook: Resource) -> None:
        """Bring a stopped notebook instance into service again."""
        self._in_background(notebook, lambda: self._bring_up(notebook, is_new=False))

    def stop(self, notebook: Resource) -> None:
        """End the machine; its volume stays."""

        def stop() -> None:
            self._end_machine(notebook)
            self._set(notebook, "Stopped")

        self._in_background(notebook, stop)

    def update(self, notebook: Resource, changes: Mapping[str, Any]) -> None:
        """Change a stopped notebook instance."""

        def update() -> None:
            with self._context.store.modify(notebook):
                notebook.document.update(changes)
                notebook.document[_STATUS] = "Stopped"

        self._in_background(notebook, update)

    def delete(self, notebook: Resource) -> None:
        """Delete a notebook instance that is stopped or has failed, with its volume."""

        def delete() -> None:
            self._end_machine(notebook)
            shutil.rmtree(self._folder(notebook), ignore_errors=True)
            self._context.store.remove(notebook)

        self._in_background(notebook, delete)

    def jupyter_url(self, notebook: Resource) -> str | None:
        """Where the Jupyter of a notebook instance answers; None if it has none."""
        with self._lock:
            machine = self._machines.get((notebook.region, notebook.name))
        return machine.jupyter_url if machine is not None else None

    def settle_lost(self) -> None:
        """Give notebook instances of an earlier emulator, whose machines ended with it, a state that lasts."""
        for notebook in self._context.store.all(NOTEBOOK):
            status = notebook.document[_STATUS]
            if status == "Deleting":
                shutil.rmtree(self._folder(notebook), ignore_errors=True)
                self._context.store.remove(notebook)
            elif status == "Pending":
                self._fail(notebook, _MACHINE_FAILED.format(problem="The emulator ended."))
            elif status not in ("Stopped", "Failed"):
                self._set(notebook, "Stopped")

    def shutdown(self) -> None:
        """End all machines."""
        self._end.set()
        with self._lock:
            machines = list(self._machines.values())
        for machine in machines:
            machine.end()

    def _in_background(self, notebook: Resource, change: Callable[[], None]) -> None:
        threading.Thread(target=change, name=notebook.name, daemon=True).start()

    def _bring_up(self, notebook: Resource, *, is_new: bool) -> None:
        faults, instance = self._context.faults, notebook.document["InstanceType"]
        slow = faults.trigger(("slow-start",), name=notebook.name, instance=instance)
        if slow is not None and self._end.wait(slow.seconds):
            return
        if faults.trigger(("capacity",), name=notebook.name, instance=instance, at="job"):
            self._fail(notebook, NO_CAPACITY)
            return
        try:
            machine = NotebookMachine(self._context, notebook, self._folder(notebook))
            with self._lock:
                self._machines[notebook.region, notebook.name] = machine
            machine.start(self._hooks(notebook, is_new=is_new), self._context.options.lifecycle_seconds)
        except Exception as error:  # noqa: BLE001 - after any error, the instance must not stay Pending
            self._end_machine(notebook)
            if not self._end.is_set():
                self._fail(notebook, self._reason(notebook, error))
            return
        if self._end.is_set():
            machine.end()  # it was not yet running when the others were ended
        else:
            self._set(notebook, "InService")

    def _hooks(self, notebook: Resource, *, is_new: bool) -> dict[str, str]:
        """The scripts to run, by the names of their logs."""
        name = notebook.document.get(_CONFIG)
        config = self._context.store.get(LIFECYCLE_CONFIG, notebook.region, name) if name else None
        if config is None:
            return {}
        return {
            log: script["Content"]
            for hook, log in _HOOKS
            if is_new or hook == "OnStart"
            for script in config.document.get(hook) or ()
            if script.get("Content")
        }

    def _reason(self, notebook: Resource, error: Exception) -> str:
        name = notebook.document.get(_CONFIG)
        script_failed = isinstance(error, MachineFailed) and str(error).startswith(("exit status", "timeout"))
        if not script_failed or name is None:
            return _MACHINE_FAILED.format(problem=error)
        arn = resource_arn(LIFECYCLE_CONFIG, notebook.region, name)
        return _SCRIPT_FAILED.format(config=arn, notebook=notebook.arn)

    def _end_machine(self, notebook: Resource) -> None:
        with self._lock:
            machine = self._machines.pop((notebook.region, notebook.name), None)
        if machine is not None:
            machine.end()

    def _set(self, notebook: Resource, status: str) -> None:
        with self._context.store.modify(notebook):
            notebook.document[_STATUS] = status

    def _fail(self, notebook: Resource, reason: str) -> None:
        with self._context.store.modify(notebook):
            notebook.document[_STATUS] = "Failed"
            notebook.document["FailureReason"] = reason[:1024]

    def _folder(self, notebook: Resource) -> Path:
        return self._context.options.state / "notebooks" / notebook.region / notebook.name
