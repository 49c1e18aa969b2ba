"""Starts a machine for each instance that `RunInstances` launches with user data, and ends it with the instance or the emulator."""

from __future__ import annotations

import shutil
import sys
import threading
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.instances.launch import Launch, egress_of, launch_of
from gpuproof_emulator.execution.instances.launch_network import LaunchNetwork
from gpuproof_emulator.execution.instances.machine import Machine
from gpuproof_emulator.execution.instances.metadata import rebalance_recommendation, spot_notice, tag_metadata
from gpuproof_emulator.execution.instances.states import (
    BY_INSTANCE,
    BY_USER,
    NOT_STARTED,
    RECLAIMED,
    StateReason,
    instances_with_user_data,
    set_private_address,
    set_state,
    state_of,
    tags_of,
)
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsError, AwsRequest

_VERSION = "2016-11-15"
_CONSOLE = 64 << 10  # bytes of output that GetConsoleOutput returns: its API reference
_POLL_S = 0.02
_TRANSITIONS = {"terminated": "shutting-down", "stopped": "stopping"}
_ACTIONS = {"terminated": "TerminateInstances", "stopped": "StopInstances"}


class _End(NamedTuple):
    """The end of an instance: the state after it, and the reason; None after a request, when moto has both."""

    state: str
    reason: StateReason | None


@dataclass
class _Instance:
    """One instance that was launched with user data.

    Args:
        id: its id.
        request: `RunInstances`.
        network: shared with the other instances of the launch; None if it is the only one.
    """

    id: str
    request: AwsRequest
    network: LaunchNetwork | None = None
    launch: Launch | None = None
    machine: Machine | None = None
    thread: threading.Thread | None = None
    reclaim: threading.Timer | None = None
    end: _End | None = None
    console: str = ""
    metadata: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def region(self) -> str:
        return self.request.region


class InstanceSupervisor:
    """The machines of an emulator's instances.

    Args:
        context: the emulator's shared state.
        journal: moto.
    """

    def __init__(self, context: Context, journal: Journal) -> None:
        self._context = context
        self._journal = journal
        self._instances: dict[str, _Instance] = {}
        self.lock = threading.RLock()
        """Held while instances and their states change."""

    def launch(self, request: AwsRequest, ids: Iterable[str]) -> None:
        """Start the machines of new instances; those that were started before are left alone.

        Args:
            request: `RunInstances`.
            ids: of its instances.
        """
        with self.lock:
            # A repeated request returns instances that exist, or were lost when the emulator was killed.
            launched = [
                new
                for new in ids
                if new not in self._instances and state_of(request.region, new) == "running"
            ]
            network = LaunchNetwork(launched) if len(launched) > 1 else None
            for new in launched:
                instance = self._instances[new] = _Instance(new, request, network)
                set_state(instance.region, new, "pending")
                instance.thread = threading.Thread(target=self._run, args=(instance,), name=new, daemon=True)
                instance.thread.start()

    def end(self, ids: Iterable[str], state: str) -> None:
        """End machines at once, after a request that ends their instances.

        Args:
            state: `terminated` or `stopped`.
        """
        with self.lock:
            for each in ids:
                if (instance := self._instances.get(each)) is not None:
                    self._end(instance, _End(state, None))

    def knows(self, instance_id: str) -> bool:
        """Whether an instance has, or had, a machine."""
        return instance_id in self._instances

    def console(self, instance_id: str) -> str:
        """The end of an instance's console output."""
        instance = self._instances[instance_id]
        with self.lock:
            text = instance.console if instance.machine is None else instance.machine.console
        return text.encode()[-_CONSOLE:].decode(errors="ignore")

    def refresh_tags(self) -> None:
        """Show the tags of all instances in their metadata services."""
        with self.lock:
            for instance in self._instances.values():
                self._show_metadata(instance)

    def interrupt_spot(self, instance_id: str, seconds: float) -> None:
        """Announce that a spot instance is reclaimed, and terminate it then. A later announcement replaces an earlier one.

        Args:
            seconds: from the notice to the end.

        Raises:
            AwsError: it does not run, or is no spot instance.
        """
        with self.lock:
            instance = self._running_spot(instance_id)
            if instance.reclaim is not None:
                instance.reclaim.cancel()
            instance.metadata |= spot_notice(seconds)
            self._show_metadata(instance)
            end = _End("terminated", RECLAIMED)
            instance.reclaim = threading.Timer(seconds, self._end, [instance, end])
            instance.reclaim.daemon = True
            instance.reclaim.start()

    def recommend_rebalance(self, instance_id: str) -> None:
        """Announce that a spot instance is at elevated risk of interruption, which ends nothing; as `interrupt_spot`."""
        with self.lock:
            instance = self._running_spot(instance_id)
            instance.metadata |= rebalance_recommendation()
            self._show_metadata(instance)

    def _running_spot(self, instance_id: str) -> _Instance:
        instance = self._instances.get(instance_id)
        if instance is None or instance.launch is None or instance.end is not None:
            raise AwsError("IncorrectInstanceState", f"{instance_id} is not a running simulated instance.")
        if not instance.launch.is_spot:
            raise AwsError("UnsupportedOperation", f"{instance_id} is not a spot instance.")
        return instance

    def terminate_lost(self) -> None:
        """Terminate the instances whose machines ended when the emulator was killed; requests must be served."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for region, instance_id in list(instances_with_user_data()):
            self._context.clients.get("ec2", region).terminate_instances(InstanceIds=[instance_id])

    def shutdown(self) -> None:
        """End all machines, terminate their instances, and wait until nothing of them is left."""
        with self.lock:
            known = list(self._instances.values())
            for instance in known:
                self._end(instance, _End("terminated", BY_USER))
        for instance in known:
            if instance.thread is not None:
                instance.thread.join()
        with self.lock:
            self._instances.clear()

    @property
    def _folder(self) -> Path:
        return self._context.options.state / "ec2"

    def _run(self, instance: _Instance) -> None:
        folder = self._folder / instance.id
        try:
            self._run_machine(instance, folder)
        except Exception:  # noqa: BLE001 - after any error, the instance must not stay pending
            traceback.print_exc(file=sys.stderr)
        finally:
            if instance.network is not None:
                instance.network.leave(instance.id)
            self._finish(instance)
            shutil.rmtree(folder, ignore_errors=True)

    def _run_machine(self, instance: _Instance, folder: Path) -> None:
        egress, host = egress_of(self._context), None
        if instance.network is not None:
            network = instance.network.join(egress)
            set_private_address(instance.region, instance.id, network.addresses[instance.id])
            host = network, instance.id
        launch = launch_of(self._context, instance.region, instance.id)
        machine = Machine(
            folder,
            launch.metadata,
            environment=launch.environment,
            programs=launch.programs,
            files=launch.files,
            docker=launch.docker,
            local_disk=launch.local_disk,
            egress=egress,
            host=host,
        )
        instance.metadata = dict(launch.metadata)
        with machine:
            try:
                with self.lock:
                    instance.machine, instance.launch = machine, launch
                    self._show_metadata(instance)
                    if instance.end is not None:
                        machine.end()
                self._wait_for_end(instance, launch, machine)
            finally:
                with self.lock:
                    instance.console, instance.machine = machine.console, None

    def _wait_for_end(self, instance: _Instance, launch: Launch, machine: Machine) -> None:
        pause = threading.Event()
        while machine.is_on and not machine.has_booted:
            pause.wait(_POLL_S)
        with self.lock:
            if instance.end is None and machine.has_booted:
                set_state(instance.region, instance.id, "running")
        code = machine.wait()
        if code == 0:
            with self.lock:
                final = "terminated" if launch.terminates_at_shutdown else "stopped"
                self._end(instance, _End(final, BY_INSTANCE))
        elif instance.end is None:
            print(f"gpuproof: {instance.id} did not run: {machine.output}", file=sys.stderr, flush=True)

    def _end(self, instance: _Instance, end: _End) -> None:
        """Note why an instance ends, unless it has ended for another reason, and end its machine."""
        with self.lock:
            if instance.end is not None:
                return
            instance.end = end
            set_state(instance.region, instance.id, _TRANSITIONS[end.state])
            if instance.reclaim is not None:
                instance.reclaim.cancel()
            if instance.machine is not None:
                instance.machine.end()

    def _finish(self, instance: _Instance) -> None:
        """The last change of state, when nothing of the machine is left."""
        with self.lock:
            self._end(instance, _End("terminated", NOT_STARTED))
            assert instance.end is not None
            state, reason = instance.end
            if state_of(instance.region, instance.id) == "terminated":
                state = "terminated"  # by a request in the meantime
            elif reason is not None:
                words = {"Action": _ACTIONS[state], "Version": _VERSION, "InstanceId.1": instance.id}
                request = instance.request.with_body(urlencode(words).encode())
                self._journal.handle(request, read_only=False)
            set_state(instance.region, instance.id, state, reason)

    def _show_metadata(self, instance: _Instance) -> None:
        if instance.machine is None or instance.launch is None:
            return
        tags = tags_of(instance.region, instance.id) if instance.launch.shows_tags else {}
        instance.machine.replace_metadata({**instance.metadata, **tag_metadata(tags)})
