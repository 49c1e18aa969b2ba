"""The state of a run with several hosts follows from those of its hosts."""

from __future__ import annotations

from typing import Any

from gpuproof.agent.local_hosts.merge import (
    first_failure,
    merge_empty_models,
    merge_end,
    merge_notes,
    merge_progress,
)


def state(status: str = "Completed", **values: Any) -> dict[str, Any]:
    return {"status": status, "secondary_status": status, "exit_code": 0, **values}


def test_a_run_is_as_far_as_its_slowest_host() -> None:
    training = state("InProgress", secondary_status="Training", script_started=1.0)
    installing = state("InProgress", secondary_status="Downloading")
    merged = merge_progress({"algo-1": training, "algo-2": installing})
    assert (merged["secondary_status"], merged["script_started"]) == ("Downloading", None)
    merged = merge_progress({"algo-1": training, "algo-2": state(script_started=2.0)})
    assert (merged["secondary_status"], merged["script_started"]) == ("Training", 1.0)


def test_a_host_that_stops_shows_the_run_as_stopping() -> None:
    hosts = {"algo-1": state("Stopping"), "algo-2": state("InProgress", secondary_status="Training")}
    assert merge_progress(hosts)["status"] == "Stopping"


def test_the_host_that_failed_first_decides() -> None:
    hosts = {
        "algo-1": state("Failed", script_ended=9.0, exit_code=1, failure_reason="lost its peer"),
        "algo-2": state("Failed", script_ended=8.0, exit_code=3, failure_reason="ValueError"),
    }
    end = merge_end(hosts)
    assert (end["failed_host"], end["exit_code"]) == ("algo-2", 3)
    assert end["failure_reason"] == "algo-2: ValueError"


def test_what_the_agents_have_agreed_on_precedes_the_times() -> None:
    hosts = {
        "algo-1": state("Failed", script_ended=7.0, failed_host="algo-2"),
        "algo-2": state("Failed", script_ended=8.0, failed_host="algo-2"),
    }
    assert first_failure(hosts) == "algo-2"


def test_a_killed_agent_precedes_the_host_that_lost_the_connection_to_it() -> None:
    hosts = {
        "algo-1": state("Failed", ended=8.0, failure_reason="the agent of algo-1 was killed"),
        "algo-2": state(
            "Failed", script_ended=7.0, failed_host="algo-1", failure_reason="algo-1: connection lost"
        ),
    }
    end = merge_end(hosts)
    assert (end["failed_host"], end["failure_reason"]) == ("algo-1", "the agent of algo-1 was killed")


def test_a_common_reason_is_not_attributed_to_one_host() -> None:
    stopped = state("Stopped", failure_reason="stopped on request")
    assert merge_end({"algo-1": stopped, "algo-2": stopped})["failure_reason"] == "stopped on request"


def test_hosts_that_all_completed_complete_the_run() -> None:
    end = merge_end({"algo-1": state(), "algo-2": state()})
    assert (end["status"], end["exit_code"], end["failure_reason"]) == ("Completed", 0, None)


def test_a_note_names_its_hosts_unless_all_have_it() -> None:
    assert merge_notes({"algo-1": ["slow disk", "old"], "algo-2": ["slow disk"]}) == [
        "slow disk",
        "algo-1: old",
    ]


def test_a_model_is_missing_only_if_no_host_saved_one() -> None:
    assert merge_empty_models({"algo-1": {"empty_model": "none"}, "algo-2": {}}) is None
    assert (
        merge_empty_models({"algo-1": {"empty_model": "none"}, "algo-2": {"empty_model": "none"}}) == "none"
    )
