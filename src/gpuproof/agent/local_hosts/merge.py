"""Merges the states of several hosts into the state of their run. Pure: it reads and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.agent.state import COMPLETED, ENDED, FAILED, IN_PROGRESS, STOPPED, STOPPING

State = Mapping[str, Any]

_PHASES = ("Starting", "Downloading", "Training", "Processing", "Uploading")
_SHOWN = (
    "status",
    "secondary_status",
    "failure_reason",
    "exit_code",
    "verdict",
    "agent_pid",
    "control_group",
    "script_started",
    "script_ended",
    "ended",
)
_COMMON = ("isolation", "frameworks", "command", "variables")


def merge_progress(states: Mapping[str, State]) -> dict[str, Any]:
    """The state of a run whose hosts have not all ended: as far as the slowest of them.

    Args:
        states: the `run.json` of each host.
    """
    running = [state for state in states.values() if state.get("status") not in ENDED]
    stopping = any(state.get("status") == STOPPING for state in states.values())
    phase = min((_phase(state) for state in running), default=len(_PHASES) - 1)
    started = [state["script_started"] for state in states.values() if state.get("script_started")]
    first = next(iter(states.values()))
    return {
        "status": STOPPING if stopping else IN_PROGRESS,
        "secondary_status": "Stopping" if stopping else _PHASES[phase],
        "script_started": min(started) if len(started) == len(states) else None,
        "gpus": sum(state.get("gpus") or 0 for state in states.values()),
        **{name: first[name] for name in _COMMON if name in first},
        "hosts": merge_hosts(states),
    }


def merge_hosts(states: Mapping[str, State]) -> dict[str, dict[str, Any]]:
    """The most important values of each host's state."""
    return {host: {name: state[name] for name in _SHOWN if name in state} for host, state in states.items()}


def merge_end(states: Mapping[str, State]) -> dict[str, Any]:
    """How a run ended whose hosts have all ended: like the host that was the first not to complete."""
    host = first_failure(states)
    state = {} if host is None else states[host]
    started = [state["script_started"] for state in states.values() if state.get("script_started")]
    ended = [state["script_ended"] for state in states.values() if state.get("script_ended")]
    return {
        **({"script_started": min(started)} if started else {}),
        **({"script_ended": max(ended)} if ended else {}),
        "status": state.get("status", COMPLETED),
        "secondary_status": state.get("secondary_status", COMPLETED),
        "failure_reason": _named(host, state, states),
        **_first_to_fail(host, state),
        "exit_code": state.get("exit_code") if host is not None else 0,
        "gpu_requirement_met": _all_met(states.values()),
        **({"stopped_for_unused_gpu": True} if state.get("stopped_for_unused_gpu") else {}),
    }


def first_failure(states: Mapping[str, State]) -> str | None:
    """The host that was the first not to complete; `None` if all have completed."""
    incomplete = [host for host, state in states.items() if state.get("status") in (FAILED, STOPPED)]
    # A host that ended because of another one's failure is no cause, whenever its script ended.
    causes = [host for host in incomplete if states[host].get("failed_host", host) == host]
    return min(causes or incomplete, key=lambda host: _failed_at(states[host]), default=None)


def merge_notes(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """The notes of all hosts, each once; with the names of its hosts, unless all have it."""
    hosts: dict[str, list[str]] = {}
    for host, those in notes.items():
        for note in those:
            hosts.setdefault(note, []).append(host)
    return [
        note if len(those) == len(notes) else f"{', '.join(those)}: {note}" for note, those in hosts.items()
    ]


def merge_empty_models(states: Mapping[str, State]) -> str | None:
    """The note that a run saved no model: only if that is so on all hosts, since often only one of them saves it."""
    notes = [state.get("empty_model") for state in states.values()]
    return notes[0] if notes and all(notes) else None


def _phase(state: State) -> int:
    secondary = state.get("secondary_status")
    return _PHASES.index(secondary) if secondary in _PHASES else 0


def _first_to_fail(host: str | None, state: State) -> dict[str, Any]:
    """Where and why the run failed first, as all hosts agreed, or else as far as this machine knows."""
    if state.get("status") != FAILED:
        return {"failed_host": None}
    names = ("failed_host", "failed_rank", "failure_cause")
    return {"failed_host": host, **{name: state[name] for name in names if name in state}}


def _failed_at(state: State) -> float:
    return state.get("script_ended") or state.get("ended") or float("inf")


def _named(host: str | None, state: State, states: Mapping[str, State]) -> str | None:
    reason = state.get("failure_reason")
    if host is None or reason is None:
        return None
    # All hosts stop for the same reason if the user asked for it.
    same = all(state.get("failure_reason") == reason for state in states.values())
    return reason if same or host in reason else f"{host}: {reason}"


def _all_met(states: Any) -> bool | None:
    met = [state.get("gpu_requirement_met", True) for state in states]
    if False in met:
        return False
    return None if None in met else True
